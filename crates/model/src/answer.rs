//! Answers to people's questions: why does it wait, when will it start, what would happen if.
//!
//! The engine fills these in, servers send them, command line and pages show them: one type from the decision to the
//! screen. What decides explains, so nothing here is computed a second time on the way.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::life::{ArrayTally, Breakdown, Cause, Fence, JobState, Phase, Precision, Refused, StartKind};
use crate::reason::{Finality, Quantity, Reason};
use crate::verdict::{Decision, Verdict};
use crate::{Dispatch, JobId, Name, NodeId, NodeState, PoolId, Time};

/// One reason why a job waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Why {
    pub reason: Reason,
    /// What it means here, for people.
    pub detail: String,
    /// What was needed, in the unit of the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<f64>,
    /// What was found; for reasons that are about nodes, how many nodes it stands against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<f64>,
    /// The jobs in the way, where they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobId>,
    /// When time alone lifts it.
    #[serde(default, rename = "until_ms", skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// What would help, for people; empty if nothing would but waiting.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = String, required = false))]
    pub help: Cow<'static, str>,
}

impl Why {
    /// A reason with what it means here; what would help comes from the reason.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        let (detail, help) = (detail.into(), Cow::Borrowed(reason.help()));
        Self { reason, detail, needed: None, found: None, jobs: Vec::new(), until: None, help }
    }

    /// A reason that says all there is.
    pub fn plain(reason: Reason) -> Self {
        Self::new(reason, reason.said())
    }

    #[must_use]
    pub fn jobs(mut self, jobs: Vec<JobId>) -> Self {
        self.jobs = jobs;
        self
    }

    #[must_use]
    pub fn until(mut self, until: Option<Time>) -> Self {
        self.until = until;
        self
    }

    #[must_use]
    pub fn help(mut self, help: impl Into<Cow<'static, str>>) -> Self {
        self.help = help.into();
        self
    }
}

/// A job's place among those that wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct QueuePlace {
    /// Its place, from 1.
    pub position: u64,
    /// How many wait.
    pub of: u64,
    /// The job directly ahead of it.
    pub ahead: Option<JobId>,
}

/// A reason for which nodes refuse a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NodeReason {
    pub reason: Reason,
    /// Nodes that have it among their reasons.
    pub nodes: u64,
    /// Nodes that have no other: lifting this one would admit them.
    pub alone: u64,
    /// Whether waiting may lift it on some node.
    pub may_pass: bool,
    /// What the job needs of a node.
    pub needed: Quantity,
    /// The most that one of these nodes has.
    pub most: Quantity,
    /// What would help, as said for one of these nodes.
    pub remedy: String,
    /// That node.
    pub example: Name,
}

impl NodeReason {
    /// What verdicts say against their candidates, most frequent first.
    pub fn count<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Vec<Self> {
        let mut found: BTreeMap<&'static str, Self> = BTreeMap::new();
        for verdict in verdicts {
            let refusals = || verdict.refusals.iter().map(|refused| &refused.refusal);
            let first = refusals().next().map(|refusal| refusal.reason);
            let alone = first.is_some() && refusals().all(|refusal| Some(refusal.reason) == first);
            let mut counted: Vec<Reason> = Vec::new();
            for refusal in refusals() {
                if counted.contains(&refusal.reason) {
                    continue;
                }
                counted.push(refusal.reason);
                let passes = refusal.class == Finality::NotNow;
                // What a node could never do says how large nodes are, not how full.
                let has = match (&refusal.total, passes) {
                    (Some(total), false) if refusal.reason != Reason::VramShort => total,
                    _ => &refusal.found,
                };
                let entry = found.entry(refusal.reason.name()).or_insert_with(|| Self {
                    reason: refusal.reason,
                    nodes: 0,
                    alone: 0,
                    may_pass: false,
                    needed: refusal.needed.clone(),
                    most: has.clone(),
                    remedy: refusal.remedy.to_string(),
                    example: verdict.candidate.clone(),
                });
                entry.nodes += 1;
                entry.alone += u64::from(alone);
                // Of nodes that may do later what is free says most; of none, what the largest has.
                if passes && !entry.may_pass {
                    (entry.may_pass, entry.most) = (true, has.clone());
                } else if passes == entry.may_pass {
                    entry.most = entry.most.clone().larger(has.clone());
                }
            }
        }
        let mut reasons: Vec<Self> = found.into_values().collect();
        reasons.sort_by_key(|reason| (std::cmp::Reverse(reason.nodes), reason.reason.name()));
        reasons
    }

    /// As a reason of the job, in a pool of so many nodes.
    pub fn why(&self, of: u64) -> Why {
        let detail = self.reason.of_nodes(&self.needed, Some(&self.most), self.nodes, of, self.may_pass);
        let mut why = Why::new(self.reason, detail);
        if !self.remedy.is_empty() {
            why.help = Cow::Owned(self.remedy.clone());
        }
        why.found = Some(self.nodes as f64);
        why
    }
}

/// One node of a placed job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = PlacedNode))]
pub struct OnNode {
    pub node: NodeId,
    /// How far it is.
    pub phase: Phase,
    /// Indices of the devices it has there.
    pub gpus: Vec<u16>,
    /// The pool that lent the node, if another one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lender: Option<PoolId>,
}

/// Where a job was placed and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Placed {
    pub fence: Fence,
    /// What kind of start it was.
    pub kind: StartKind,
    pub nodes: Vec<OnNode>,
    /// When the ledger committed it.
    #[serde(rename = "committed_at_ms")]
    pub committed_at: Time,
    /// When it ran on all nodes.
    #[serde(rename = "started_at_ms")]
    pub started_at: Option<Time>,
    /// When its walltime is over.
    #[serde(rename = "ends_at_ms")]
    pub ends_at: Option<Time>,
    /// Why it has to leave, if it has to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<Cause>,
    /// Nodes that have a checkpoint of it, if it was started afresh because these nodes have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoint_left_on: Vec<NodeId>,
    /// What it costs there, where its pool has prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
    /// Why these nodes.
    pub why: Breakdown,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Ended {
    pub cause: Cause,
    #[serde(rename = "at_ms")]
    pub at: Time,
}

/// Why a job is where it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Explanation {
    pub job: JobId,
    /// The element that is next of its array, whose answer this is, where the job itself is no job yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_for: Option<JobId>,
    /// How many elements of the array are where, if the job is an array or lies folded in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayTally>,
    /// Whether no node that its pool has could ever run it, whatever ends there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never: bool,
    /// The instant of this answer.
    pub now_ms: Time,
    pub state: JobState,
    pub pool: PoolId,
    /// How that pool dispatches.
    pub dispatch: Dispatch,
    /// The policy in force.
    pub policy: String,
    /// Which attempt this is.
    pub attempt: u32,
    /// Its place in the queue, while it waits there.
    pub queue: Option<QueuePlace>,
    /// The primary reason why it waits; `None` if it does not wait.
    pub reason: Option<Reason>,
    /// Every reason, the primary one first.
    pub reasons: Vec<Why>,
    /// What nodes say against it, most frequent first.
    pub nodes: Vec<NodeReason>,
    /// What is to be done about it where no node is admitted.
    pub decision: Option<Decision>,
    /// What would help, each once, in the order of the reasons.
    pub help: Vec<String>,
    /// Nodes of its pool that operators took out of service, or will, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Where it was placed.
    pub placed: Option<Placed>,
    /// How it ended.
    pub ended: Option<Ended>,
}

/// What stands between one job and one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WhyNot {
    pub job: JobId,
    pub node: NodeId,
    /// Whether the job is placed there.
    pub placed_here: bool,
    pub node_state: NodeState,
    /// What the policy of the job's pool says about the pair.
    pub verdict: Verdict,
    /// What the ledger would say against it; empty if it would commit, or if the policy refuses it before.
    pub ledger: Vec<Reason>,
    /// Jobs that hold the node or parts of it.
    pub occupants: Vec<JobId>,
    /// The job that the whole node is kept for.
    pub kept_for: Option<JobId>,
}

/// How expectations of run times fared: how long jobs ran over how long they were expected to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Fared {
    /// One in ten ran for less.
    pub low: f64,
    pub middle: f64,
    /// One in ten ran for more.
    pub high: f64,
    /// Those of the last jobs, smallest first.
    pub ratios: Vec<f64>,
}

/// When a job starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Estimate {
    /// When it starts by plan; for a placed job, when it started.
    #[serde(rename = "planned_start_ms")]
    pub planned_start: Option<Time>,
    /// When it starts if jobs run for as long as they usually do.
    #[serde(rename = "likely_start_ms")]
    pub likely_start: Option<Time>,
    /// The earliest and the latest start in eight of ten cases, where the pool learns how long jobs take.
    #[serde(rename = "range_ms", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Vec<i64>>))]
    pub range: Option<(Time, Time)>,
    /// How good these times are.
    pub precision: Precision,
    /// Why there is none, or what it rests on: the name of a reason, or a sentence.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub reason: Cow<'static, str>,
    /// What has to come true for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts_on: Vec<CountsOn>,
}

/// What a planned time counts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CountsOn {
    /// Jobs run for as long as they may.
    Walltimes,
    /// Running jobs run for as long as those like them did.
    RunTimes,
    /// Time is kept for it.
    Reservation,
    /// Less urgent work is stopped for it.
    Preemption,
    /// Nodes that are lent are asked back for it.
    Reclaim,
    /// Its tenant gives back quota.
    Quota,
    /// Those who are being stopped for it leave in time.
    Hold,
    /// What it depends on ends, as it wishes.
    Dependencies,
}

impl Estimate {
    /// No time can be told, for a reason.
    pub fn none(reason: impl Into<Cow<'static, str>>) -> Self {
        let reason = reason.into();
        let counts_on = Vec::new();
        let precision = Precision::None;
        Self { planned_start: None, likely_start: None, range: None, precision, reason, counts_on }
    }

    pub fn at(time: Time, precision: Precision, reason: impl Into<Cow<'static, str>>) -> Self {
        let reason = reason.into();
        let counts_on = Vec::new();
        let at = Some(time);
        Self { planned_start: at, likely_start: at, range: None, precision, reason, counts_on }
    }

    /// What it rests on, or why there is none, in words.
    pub fn said(&self) -> Cow<'_, str> {
        match Reason::named(&self.reason) {
            Some(reason) => reason.said(),
            None => Cow::Borrowed(&*self.reason),
        }
    }

    /// Whether it counts on more than walltimes and what is kept for the job.
    pub fn is_conditional(&self) -> bool {
        !self
            .counts_on
            .iter()
            .all(|on| matches!(on, CountsOn::Walltimes | CountsOn::RunTimes | CountsOn::Reservation))
    }
}

/// A job that would start now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StartsNow {
    pub job: JobId,
    /// What kind of start it is.
    pub kind: StartKind,
    pub nodes: Vec<OnNode>,
    /// What it costs there, where its pool has prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
    /// Why there.
    pub why: Breakdown,
}

/// A job that would have to leave its nodes, or the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Stopped {
    pub job: JobId,
    pub cause: Cause,
    /// Where it stands after this instant.
    pub state: JobState,
}

/// A job that would stay waiting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StaysWaiting {
    pub job: JobId,
    /// When it would start.
    pub estimate: Option<Estimate>,
    /// Why it waits.
    pub explanation: Explanation,
}

/// A waiting job whose estimate changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Moved {
    pub job: JobId,
    /// When it starts without the change.
    pub before: Estimate,
    /// When it would start with it.
    pub after: Estimate,
}

/// What would happen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PlanAnswer {
    pub now_ms: Time,
    /// Why the change would be refused; nothing else would happen then.
    pub refused: Option<Refused>,
    /// Who would start now.
    pub starts: Vec<StartsNow>,
    /// Who would be stopped.
    pub stopped: Vec<Stopped>,
    /// Of the jobs that the change is about or that it touches: those that would wait, and why.
    pub waiting: Vec<StaysWaiting>,
    /// Whose estimate changes.
    pub moved: Vec<Moved>,
    /// How many jobs would wait in all.
    pub waiting_total: u64,
}
