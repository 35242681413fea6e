//! What the ledger knows about each job and each node beside what policies read.
//!
//! ```text
//!            commit            all nodes started          suspend
//! Pending ───────────► Staging ────────────────► Running ─────────► Checkpointing ──► Suspended
//!    ▲  ▲                 │ refused, no answer      │  │ exit            │ failed        │
//!    │  └─────────────────┘                         │  └──► Completed    ▼               │
//!    │           node lost, requeue                 │       Failed    Stopping           │
//!    └──────────────────────────────────────────────┴─────────────────────┴──────────────┘
//! ```
//!
//! Cancelled is reached from anywhere but the three final states. Every way back to Pending raises the attempt.

use std::collections::BTreeMap;

use landfall_model::{Job, JobId, Lifecycle, Millis, Money, Name, NodeId, PoolId, Time};
use landfall_policy::rules::node_record::Karma;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::preempt::Preempted;
use crate::quota::gpu_ms;
use landfall_capacity::reactive::Reactive;
use landfall_model::life::{Breakdown, Task};
pub use landfall_model::life::{Cause, JobState, Phase, StartKind};

/// One node of a placed job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunNode {
    pub node: NodeId,
    pub phase: Phase,
    /// Its exit code, once it ended by itself.
    pub exit: Option<i32>,
    /// The pool that lent it, if another one did.
    pub lender: Option<PoolId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    pub cause: Cause,
    pub kill_at: Time,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saving {
    pub asked_at: Time,
    pub deadline: Time,
    /// Whether the deadline was moved once already.
    pub extended: bool,
    /// Why the job leaves its nodes afterwards; `None` means it goes on running.
    pub leaves: Option<Cause>,
}

/// A job on its nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub nodes: SmallVec<[RunNode; 1]>,
    pub committed_at: Time,
    /// When it was last given another node.
    #[serde(default)]
    pub grown_at: Option<Time>,
    /// How long its tenant was promised its GPUs; `None` for all of its walltime.
    #[serde(default)]
    pub promised: Option<Millis>,
    /// When it was running on all of them.
    pub started_at: Option<Time>,
    /// When its walltime is over; `None` if it has none or does not run yet.
    pub ends_at: Option<Time>,
    pub kind: StartKind,
    /// Start commands sent so far.
    pub sends: u8,
    /// Node units it counts for, in millionths.
    pub units: u64,
    /// GPUs it counts for.
    pub gpus: u64,
    /// Watts above idle that it counts for.
    pub power_w: u64,
    /// When its nodes are wanted back, and why.
    pub notice: Option<(Cause, Time)>,
    /// Where the scaling of a service stands.
    pub reactive: Option<Box<Reactive>>,
    pub stop: Option<Stop>,
    pub saving: Option<Saving>,
    /// When it last saved its work.
    pub saved_at: Option<Time>,
    /// How long it was expected to run when it was placed, where time is planned.
    #[serde(default)]
    pub expected: Option<Millis>,
    /// Whether it went past its walltime.
    pub over_walltime: bool,
    /// Whether it began anew although it had saved its work.
    #[serde(default)]
    pub afresh: bool,
    /// Whether it holds nothing yet: its node was told ahead, and it gets the room of one that ends there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ahead: bool,
    /// What it does, if that is less than all of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    pub why: Breakdown,
}

/// What is kept of earlier runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Past {
    /// When it was stopped for more urgent work.
    pub preempted: Preempted,
    pub suspended: Option<Cause>,
    /// How long its last checkpoint took.
    pub checkpoint_took: Option<Millis>,
    /// What is left of its walltime since the last checkpoint.
    pub walltime_left: Option<Millis>,
    /// Whether it goes on from a checkpoint.
    pub resumes: bool,
    /// The nodes on which it last saved its work.
    #[serde(default)]
    pub saved_on: Vec<NodeId>,
    /// How often each input could not be brought near.
    pub staging_failures: BTreeMap<Name, u32>,
    /// Times a fetch missed.
    pub fetch_misses: u32,
    /// Whether an `eval` has fetched what it needs, in a run of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fetched: bool,
    /// Rejections by the ledger in a row.
    pub rejections: u32,
    pub first_started_at: Option<Time>,
    /// What its last placement costs, where its pool has prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Money>,
}

/// One job and where it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    pub job: Job,
    /// The pool it was submitted to.
    pub pool: PoolId,
    pub state: JobState,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Runs that failed.
    pub failures: u32,
    /// Starts that failed.
    #[serde(default)]
    pub start_failures: u32,
    /// How often it went back to the queue.
    pub requeues: u32,
    /// Whether somebody keeps it from starting.
    pub user_hold: bool,
    /// Rounds of its pool when it was queued, for counting rounds without touching every job.
    pub round_base: i64,
    /// Its nodes, while it has any.
    pub run: Option<Box<Run>>,
    /// What is kept of earlier runs.
    pub past: Option<Box<Past>>,
    /// How it ended, and when.
    pub ended: Option<Box<(Cause, Time)>>,
}

impl JobRecord {
    /// A job that waits for its first start.
    pub fn new(job: Job, pool: PoolId, user_hold: bool, round_base: i64) -> Self {
        Self {
            job,
            pool,
            state: JobState::Pending,
            attempt: 1,
            failures: 0,
            start_failures: 0,
            requeues: 0,
            user_hold,
            round_base,
            run: None,
            past: None,
            ended: None,
        }
    }

    /// Whether it may be placed now as far as the job itself is concerned.
    pub fn is_queued(&self) -> bool {
        self.state == JobState::Pending && self.job.waits_for.is_none() && !self.user_hold
    }

    /// How long it may run from now on, the rest of its walltime after a resume; `None` means without end.
    pub fn walltime(&self) -> Option<Millis> {
        let left = self.past.as_ref().and_then(|past| past.walltime_left);
        let spec = &self.job.spec;
        (spec.lifecycle == Lifecycle::Bounded).then(|| left.unwrap_or(spec.walltime_ms))
    }

    /// What its tenant was promised for its run, in GPU-milliseconds.
    pub(crate) fn promised_gpu_ms(&self) -> u128 {
        let spec = &self.job.spec;
        let whole = (spec.lifecycle == Lifecycle::Bounded).then_some(spec.walltime_ms);
        let run = self.run.as_deref().filter(|run| !run.ahead);
        run.map_or(0, |run| gpu_ms(run.promised.or(whole), run.gpus))
    }

    /// Whether it saved its work, and whether its present run goes on from that: only where the newest save is whole. Nodes
    /// that took part in an older one have what it left then.
    pub(crate) fn resumes(&self) -> (bool, bool) {
        let Some(past) = self.past.as_deref().filter(|past| past.resumes) else { return (false, false) };
        let nodes = self.run.iter().flat_map(|run| &run.nodes).map(|at| &at.node);
        // Journals of old do not tell where it was; then its node knows.
        (true, past.saved_on.is_empty() || nodes.eq(&past.saved_on))
    }

    /// The nodes that have a checkpoint which its present run could not begin from; none if it did, or there is none.
    pub fn left_behind(&self) -> &[NodeId] {
        let afresh = self.run.as_ref().is_some_and(|run| run.afresh);
        self.past.as_ref().filter(|_| afresh).map_or(&[], |past| &past.saved_on)
    }

    /// What is kept of earlier runs.
    pub fn past(&self) -> Past {
        self.past.as_deref().cloned().unwrap_or_default()
    }
}

/// What the ledger keeps of a node beside what policies read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// When it was last heard.
    pub heard_at: Time,
    /// When its load was last remembered.
    #[serde(default)]
    pub load_at: Time,
    /// When it reached its present state.
    pub since: Time,
    /// Starts that failed since the last good probe.
    pub start_failures: u32,
    /// Faults in a row.
    pub faults: u32,
    /// Good service, with the minutes towards the next point.
    pub karma: Karma,
    /// The job that the whole node is kept for.
    pub kept_for: Option<JobId>,
    /// When it is probed next, while degraded; kept through a silence.
    pub probe_at: Option<Time>,
    /// Whether it is to finish what it has and take nothing new, also after a silence.
    pub drains: bool,
    /// Why an operator took it out of service, or will.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When the last placement or hold on it ended.
    pub vacated_at: Option<Time>,
    /// Jobs that it was told ahead, in order: they hold nothing before another one ends there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ahead: Vec<JobId>,
}

impl NodeRecord {
    /// A node heard just now.
    pub fn new(at: Time) -> Self {
        Self {
            heard_at: at,
            load_at: at,
            since: at,
            start_failures: 0,
            faults: 0,
            karma: Karma::default(),
            kept_for: None,
            probe_at: None,
            drains: false,
            why: None,
            vacated_at: None,
            ahead: Vec::new(),
        }
    }
}
