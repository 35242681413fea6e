//! What goes into the machine and what comes out of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_model::{Digest, NodeId, Time};
use serde::{Deserialize, Serialize};

use crate::arbiter::Progress;
use crate::blob::Blob;
use crate::capacity::{Grant, Probe};
use crate::conduct::{Conduct, Deed};
use crate::message::{Fence, Message, PlacementRequest, TaskOutcome, TaskResult};
use crate::reason::{Failure, Reason};
use crate::submission::Submission;
use crate::timers::TimerId;
use crate::trust::TrustTable;

/// What happened to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunnerEvent {
    /// The work has begun.
    Started,
    /// The work is over; fuel is as the runtime metered it, if it does, and `output` the digest of what it made.
    Finished { outcome: TaskOutcome, fuel_used: Option<u64>, run_ms: u64, output: Option<Digest> },
}

/// What a peer is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Input {
    /// Another peer said something; its author is authenticated.
    Message { from: NodeId, message: Message },
    /// Another peer asks for an offer, and whoever runs this one will not have the job, for these reasons.
    Unwilling { from: NodeId, request: Box<PlacementRequest>, reasons: Vec<Reason> },
    /// A timer is due.
    Timer { id: TimerId },
    /// A job is submitted here.
    Submit(Box<Submission>),
    /// A job is not wanted any more.
    Cancel { job: Digest },
    /// The agent has probed the machine.
    Capacity(Box<Probe>),
    /// The trust table was loaded.
    Trust(TrustTable),
    /// A round trip to a peer was measured.
    Rtt { peer: NodeId, ms: u32 },
    /// There is no room for an award that was just taken: something else got it in the same instant.
    NoRoom { job: Digest },
    /// Something happened to a run, named by its job and the attempt it was started with.
    Runner { job: Digest, attempt: u32, event: RunnerEvent },
}

/// What the driver must do, in this order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Effect {
    /// Say something to all.
    Broadcast { message: Message },
    /// Say something to one peer.
    Send { to: NodeId, message: Message },
    /// Call back at an instant; replaces an earlier call for the same timer.
    SetTimer { id: TimerId, at: Time },
    /// Do not call back.
    ClearTimer { id: TimerId },
    /// Run the work.
    Start(Box<Start>),
    /// Stop the work of an attempt, within two seconds.
    Stop { job: Digest, attempt: u32 },
    /// Make this durable before any later effect is carried out.
    Journal(Entry),
    /// Count this.
    Metric(Metric),
}

/// An order to run the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    pub job: Digest,
    /// The attempt; names the run together with the job.
    pub attempt: u32,
    pub request: PlacementRequest,
    /// What it may use.
    pub grant: Grant,
    pub body: Blob,
}

/// A run as it must survive a restart of the node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    pub arbiter: NodeId,
    pub request: PlacementRequest,
    pub received_at: Time,
    pub fence: Fence,
    pub lease_ms: u64,
    /// Credits per 1000 fuel.
    #[serde(default)]
    pub price: u64,
    /// What it may use.
    pub grant: Option<Grant>,
    /// Whether the runner was told to start.
    pub started: bool,
    /// When it must be stopped, on the clock of this boot; the runner keeps to it while the peer is down.
    pub self_stop_at: Time,
    /// Which boot of the machine that clock belongs to.
    pub boot: u64,
    /// What it came to, once it is over.
    pub result: Option<TaskResult>,
}

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Entry {
    /// The peer has started.
    Epoch(u64),
    /// A job was accepted.
    Submitted { job: Digest, submission: Arc<Submission> },
    /// Where a job of this arbiter stands.
    Progress { job: Digest, progress: Box<Progress> },
    /// A result was accepted, and so many credits are due; happens once per job.
    Accepted { job: Digest, fence: Fence, node: NodeId, charge: u64 },
    /// A result of this node was accepted, and so many credits are due from the arbiter; happens once per run.
    Earned { job: Digest, arbiter: NodeId, charge: u64 },
    /// Another peer did something that counts for or against it.
    Deed { peer: NodeId, deed: Deed, conduct: Conduct },
    /// A finished job of this arbiter is forgotten.
    Forgotten { job: Digest },
    /// This node has taken an award; its fence is spent from now on.
    Taken { job: Digest, arbiter: NodeId, fence: Fence, at: Time },
    /// A run of this node began or changed.
    Run { job: Digest, run: Box<RunRecord> },
    /// A run of this node is over and nobody waits for its result.
    RunEnded { job: Digest },
}

/// The journal folded: all that a restart needs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Durable {
    pub epoch: u64,
    /// Jobs of this arbiter.
    pub jobs: BTreeMap<Digest, (Arc<Submission>, Option<Progress>)>,
    /// Awards this node has taken.
    pub taken: BTreeMap<Digest, (NodeId, Fence, Time)>,
    /// Runs of this node.
    pub runs: BTreeMap<Digest, RunRecord>,
    /// What others did.
    #[serde(default)]
    pub conduct: BTreeMap<NodeId, Conduct>,
}

/// Awards remembered; older ones cannot come back because their jobs are long over.
const TAKEN_MAX: usize = 16_384;

impl Durable {
    pub fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Epoch(epoch) => self.epoch = epoch,
            Entry::Submitted { job, submission } => {
                self.jobs.insert(job, (submission, None));
            }
            Entry::Progress { job, progress } => {
                if let Some((_, known)) = self.jobs.get_mut(&job) {
                    *known = Some(*progress);
                }
            }
            Entry::Accepted { .. } | Entry::Earned { .. } => {}
            Entry::Deed { peer, conduct, .. } => {
                self.conduct.insert(peer, conduct);
            }
            Entry::Forgotten { job } => {
                self.jobs.remove(&job);
            }
            Entry::Taken { job, arbiter, fence, at } => {
                self.taken.insert(job, (arbiter, fence, at));
                if self.taken.len() > TAKEN_MAX {
                    let oldest = self.taken.iter().map(|(job, (_, _, at))| (*at, *job)).min();
                    oldest.map(|(_, job)| self.taken.remove(&job));
                }
            }
            Entry::Run { job, run } => {
                self.runs.insert(job, *run);
            }
            Entry::RunEnded { job } => {
                self.runs.remove(&job);
            }
        }
    }
}

/// Which part of a peer computed a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The node, of itself.
    Node,
    /// The arbiter, of an offer.
    Arbiter,
}

/// What an arbiter did with an offer it received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Received {
    Accepted,
    /// Not stored.
    Rejected,
    /// Too late.
    Late,
    /// The node had offered before.
    Duplicate,
}

/// One observation for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Metric {
    /// Node: a new request was seen.
    RequestReceived,
    /// Node: an offer was sent.
    OfferSent,
    /// Arbiter: an offer came.
    OfferReceived(Received),
    Score {
        role: Role,
        score: f64,
    },
    /// Arbiter: first request to commit, in ms.
    DurationMs(u64),
    Win,
    /// Node: another won.
    Loss,
    /// Node: it did not offer; once per reason.
    Declined(Reason),
    /// Arbiter: a job failed.
    Failed(Failure),
    /// A message was dropped by the machine.
    MessageRejected(Reason),
    /// Arbiter: a lease was lost.
    LeaseLost,
}

impl Metric {
    /// The name of the metric it belongs to.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::RequestReceived => "landfall_placement_requests_received_total",
            Self::OfferSent => "landfall_placement_offers_sent_total",
            Self::OfferReceived(_) => "landfall_placement_offers_received_total",
            Self::Score { .. } => "landfall_placement_score",
            Self::DurationMs(_) => "landfall_placement_duration_seconds",
            Self::Win => "landfall_placement_wins_total",
            Self::Loss => "landfall_placement_losses_total",
            Self::Declined(_) => "landfall_placement_declines_total",
            Self::Failed(_) => "landfall_placement_failures_total",
            Self::MessageRejected(_) => "landfall_placement_messages_rejected_total",
            Self::LeaseLost => "landfall_placement_lease_losses_total",
        }
    }
}
