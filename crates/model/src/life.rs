//! Where jobs stand, how they get there, and what is said about it between engine, servers, agents and people.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::reason::Reason;
use crate::verdict::{Facts, TermScore, Verdict};
use crate::{Bytes, JobId, Mib, Millis, Name, PoolId};

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Waits for its dependencies, its time, or for nodes.
    Pending,
    /// Nodes are committed and told to start it.
    Staging,
    /// Runs on all its nodes.
    Running,
    /// Saves its work before it gives its nodes back.
    Checkpointing,
    /// Was told to stop.
    Stopping,
    /// Saved and off its nodes.
    Suspended,
    /// Ended well.
    Completed,
    /// Ended badly.
    Failed,
    /// Was taken back.
    Cancelled,
}

impl JobState {
    /// Whether the job will never change again.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Whether the job holds nodes.
    pub fn is_placed(self) -> bool {
        matches!(self, Self::Staging | Self::Running | Self::Checkpointing | Self::Stopping)
    }
}

/// Why a job left a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It exited with this code.
    Exit(i32),
    /// It exited well after it should have ended.
    OverWalltime,
    /// It ran for longer than it may.
    Walltime,
    /// A node it ran on is gone.
    NodeLost,
    /// No node would start it.
    StartFailed,
    /// A node did not start it; it is tried again.
    NotStarted,
    /// The start command made no sense to the node.
    Malformed,
    /// The node is draining or full; it takes no attempt.
    OfferRejected,
    /// What it would fetch is not there; it takes no attempt.
    FetchMiss,
    /// It fetched what it needs and is evaluated in a run of its own; it takes no attempt.
    Fetched,
    /// It failed in a way that may pass.
    Transient,
    /// It was stopped for more urgent work.
    Preempted,
    /// Its nodes went back to the pool they came from.
    Reclaimed,
    /// Somebody asked for it.
    User,
    /// More elements of its array failed than may.
    TooManyFailures,
    /// Something it waits for can no longer happen.
    DependencyUnsatisfiable {
        /// The predecessor whose edge can no longer hold.
        edge: JobId,
        /// Whether that edge was one that waits for a failure.
        on_failure: bool,
    },
    /// It could not start in its first cycle.
    ImmediateUnavailable,
    /// The node no longer serves its tenant.
    TenantRevoked,
    /// Its negotiation with peers came to nothing, for this reason.
    NotPlaced(Name),
}

impl Cause {
    /// Whether a job that is stopped for it was taken back, rather than having failed.
    pub fn takes_back(&self) -> bool {
        matches!(self, Self::User | Self::TooManyFailures)
    }

    /// The cause in words for people.
    pub fn said(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Exit(code) => return format!("it exited with {code}").into(),
            Self::OverWalltime => "it ended after its walltime",
            Self::Walltime => "its walltime is over",
            Self::NodeLost => "its node is gone",
            Self::StartFailed | Self::NotStarted => "no node started it",
            Self::Malformed => "the start command made no sense to the node",
            Self::OfferRejected => "the node is draining or full",
            Self::FetchMiss => "what it would fetch is not there",
            Self::Fetched => "it has fetched what it needs",
            Self::Transient => "it failed in a way that may pass",
            Self::Preempted => "more urgent work needs its nodes",
            Self::Reclaimed => "its nodes go back to the pool they came from",
            Self::User => "somebody asked for it",
            Self::TooManyFailures => "too many elements of its array failed",
            Self::DependencyUnsatisfiable { edge, .. } => {
                return format!("what it needs of {edge} can no longer happen").into();
            }
            Self::ImmediateUnavailable => "it could not start at once",
            Self::TenantRevoked => "the node no longer serves its tenant",
            Self::NotPlaced(why) => match not_placed(why.as_str()) {
                Some(words) => words,
                None => return why.to_string().into(),
            },
        })
    }
}

/// Why nothing came of a negotiation, from the word of the protocol.
pub fn not_placed(why: &str) -> Option<&'static str> {
    Some(match why {
        "no_offers" => "no peer made an offer that could be taken",
        "no_affordable_offer" => "every peer asks for more than it pays at most",
        "no_trusted_offer" => "only peers that are not trusted enough made offers (`landfall peers trust`)",
        "award_failed" => "the peers that made offers did not take it",
        "lease_lost" => "the peers that ran it fell silent too often",
        "out_of_fuel" => "it used up its fuel",
        "body_unavailable" => "the peer that won could not get what is to be run",
        _ => return None,
    })
}

/// How far one node of a placed job is. Reports only ever move it forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Told to start.
    Assigned,
    Started,
    /// Saved its part.
    Checkpointed,
    /// Ended or stopped.
    Ended,
}

/// What one run of a pull job does, where that is less than all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Looks whether the result exists elsewhere and fetches it; of an `eval` in two runs, the first.
    Fetch,
    /// Of an `eval` in two runs, the second: what it needs was fetched.
    Evaluate,
}

impl Task {
    /// As a running job reads it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Evaluate => "evaluate",
        }
    }
}

/// What kind of start it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StartKind {
    /// In its turn.
    Start,
    /// Ahead of a blocked job that it does not delay.
    Backfill,
    /// After others were stopped for it.
    Preempt,
}

/// Why a node did not start a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StartRefusal {
    /// Not now; ask again.
    Busy,
    /// It cannot run this kind of job.
    Unsupported,
    /// The command made no sense.
    Malformed,
    /// It takes no more work.
    Draining,
    /// It has as many jobs as it takes.
    AtCapacity,
    /// Something went wrong on the node.
    Failed,
    /// It was told ahead of time, and is given back before it began.
    Returned,
}

/// How a job that did not end well failed, where its runtime can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// It may work the next time.
    Transient,
    /// An input was not there.
    MissingInput,
    /// What it would fetch does not exist.
    FetchMiss,
    /// It took too long.
    Timeout,
    /// It will not work the next time either.
    Permanent,
}

/// What a run used.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct RunUsage {
    pub peak_ram: Option<Mib>,
    pub cpu_time: Option<Millis>,
    /// How long it ran, by the clock of its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall: Option<Millis>,
    /// Bytes read and written.
    pub disk: Bytes,
    /// Whether it was killed for memory.
    pub oom: bool,
    /// Observed over estimated speed, where it can be told.
    pub speed_ratio: Option<f64>,
}

/// What a node says about a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// It runs (or ran already when the command came).
    Started,
    /// It runs, but from its beginning: the checkpoint that it was to go on from is not on this node.
    StartedAfresh,
    /// It does not run.
    Refused(StartRefusal),
    /// It saved its part.
    Checkpointed,
    /// It is saving and gets on.
    CheckpointProgress,
    /// It could not save.
    CheckpointFailed,
    /// It ended by itself.
    Exited {
        code: i32,
        /// How it failed, if it did and its runtime can tell.
        failure: Option<Failure>,
        usage: Box<RunUsage>,
    },
    /// It was stopped.
    Stopped,
}

/// What a job needs of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EdgeKind {
    /// That it completes.
    #[default]
    Success,
    Failure,
    /// That it ends, however.
    Any,
    /// That the element of the same index completes.
    Corresponding,
    /// That the two never run at once, in whichever order.
    Mutex,
}

/// How many of its edges a job needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// Every one.
    #[default]
    All,
    /// One will do.
    Any,
}

/// How many elements of an array are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ArrayTally {
    pub total: u32,
    /// Without a record of their own yet.
    pub folded: u32,
    /// With a record, and not ended.
    pub unfolded: u32,
    pub completed: u32,
    pub failed: u32,
    /// Taken back, or no longer possible.
    pub cancelled: u32,
}

/// One attempt of one job under one epoch of the server. Everything that leaves the engine carries it, and whatever
/// comes back with an older one is ignored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Fence {
    pub job: JobId,
    /// Which attempt; raised whenever the job goes back to the queue.
    pub attempt: u32,
    /// Which start of the server; raised whenever another one takes over.
    pub epoch: u32,
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}.{}", self.job, self.epoch, self.attempt)
    }
}

/// Points of one term.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Points {
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub term: Cow<'static, str>,
    pub raw: f64,
    /// What it added to the total.
    pub points: f64,
}

/// What is kept of a decision: enough to say later why, small enough to keep with every placement.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Breakdown {
    /// The total; `None` if nothing was scored.
    pub total: Option<f64>,
    /// What each term gave.
    pub terms: Vec<Points>,
    /// The next best, if there was one.
    pub runner_up: Option<Name>,
    /// How fast the job should be there before what was learned of the node is counted in, where a good run tells how right that is:
    /// tokens per second of a language model, points of anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_speed: Option<f64>,
}

impl Breakdown {
    /// What is kept of a verdict.
    pub fn of(verdict: &Verdict, runner_up: Option<Name>) -> Self {
        let terms = verdict.terms.iter().chain(&verdict.multipliers);
        let points =
            |term: &TermScore| Points { term: term.term.clone(), raw: term.raw, points: term.contribution };
        Self { total: verdict.total, terms: terms.map(points).collect(), runner_up, raw_speed: None }
    }
}

/// Runners-up that are kept with a decision.
pub const RUNNERS_UP_KEPT: usize = 4;

/// A candidate that might have been chosen and was not, or that scored and may not be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunnerUp {
    /// A node where nodes were ranked, a job where jobs were.
    pub candidate: Name,
    pub total: f64,
    /// Why it may not be chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub barred: Option<Reason>,
    /// The rules that vetoed it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vetoes: Vec<Cow<'static, str>>,
}

impl RunnerUp {
    /// What is kept of a verdict; nothing if a filter refuses the pair.
    pub fn of(verdict: &Verdict) -> Option<Self> {
        let (candidate, vetoes) = (verdict.candidate.clone(), verdict.vetoes.clone());
        Some(Self { candidate, total: verdict.total?, barred: verdict.barred, vetoes })
    }
}

/// What stands against candidates, with how many of them it stands against first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Against {
    pub reason: Reason,
    pub candidates: u32,
}

/// What a decision looked at beside the one it chose. It is kept with the decision, so it is small whatever the cluster.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Beside {
    /// The pool whose scheduler decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolId>,
    /// Candidates there were.
    #[serde(skip_serializing_if = "is_zero")]
    pub looked_at: u32,
    /// The best of the others, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runners_up: Vec<RunnerUp>,
    /// What stood against the rest, most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<Against>,
    /// What the winner's points rest on.
    #[serde(skip_serializing_if = "Facts::is_empty")]
    pub facts: Facts,
    /// How old what the node had said of itself was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heard_ms: Option<Millis>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Beside {
    /// Against whom what stands, most frequent first.
    pub fn counted(against: impl IntoIterator<Item = (Reason, u32)>) -> Vec<Against> {
        let mut counted: Vec<Against> = against
            .into_iter()
            .filter(|(_, candidates)| *candidates > 0)
            .map(|(reason, candidates)| Against { reason, candidates })
            .collect();
        counted.sort_by_key(|against| (std::cmp::Reverse(against.candidates), against.reason.name()));
        counted
    }
}

/// How good a planned time is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// Planned for this job.
    Exact,
    /// A lower bound: the last time planned exactly.
    Coarse,
    /// No time; the reasons say why.
    None,
}

/// Why a request was not followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[error("{message}")]
pub struct Refused {
    /// A stable name for programs.
    pub code: std::borrow::Cow<'static, str>,
    /// What is wrong, for people.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl Refused {
    /// A refusal with a hint.
    pub fn new(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), hint: hint.into() }
    }
}
