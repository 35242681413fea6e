//! What peers say to each other. The author of a message is authenticated outside; no field here names it twice except
//! where the specification wants both to be equal, which is how forgeries are found.

use landfall_model::{Digest, Hints, Name, NodeId, Scope};
use serde::{Deserialize, Serialize};

use crate::blob::Blob;
use crate::profile::{Facts, Profile};
use crate::reason::Reason;

/// Which award is meant: newer is the higher epoch, then the higher attempt. Together with the job it is the fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Fence {
    /// The arbiter's start counter.
    pub epoch: u64,
    /// Counts awards over the whole life of a job; never used twice.
    pub attempt: u32,
}

impl Fence {
    /// Whether this is the same award, under this or an earlier start of the arbiter. Attempts are never reused, so a
    /// restart alone does not make an award another one.
    pub const fn is_award_of(self, present: Self) -> bool {
        self.attempt == present.attempt && self.epoch <= present.epoch
    }
}

/// What is to be run: small bodies travel with the request, others are fetched by the winner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyRef {
    /// BLAKE3 of the bytes.
    pub digest: Digest,
    pub bytes: u64,
    /// The bytes themselves, if they are few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<Blob>,
}

/// An arbiter asks all for offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacementRequest {
    pub job: Digest,
    /// The arbiter's start counter.
    pub epoch: u64,
    pub round: u32,
    pub submitter: NodeId,
    /// What it needs; absent on the simple path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Runtimes of which one must be there; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runtimes: Vec<Name>,
    #[serde(default)]
    pub hints: Hints,
    /// Most it will pay, in credits per 1000 fuel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<u64>,
    /// Most fuel it may use.
    pub fuel_limit: u64,
    /// Urgency, 0 to 10.
    pub class: u8,
    /// Time left to the deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// How long a node waits before it offers.
    pub deliberation_ms: u64,
    pub lease_ms: u64,
    /// Farthest node asked in this round.
    pub max_scope: Scope,
    /// The only scopes asked; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_scopes: Vec<Scope>,
    /// What is to be run.
    pub body: BodyRef,
    /// Only ranks offers; nothing is held or awarded.
    pub dry_run: bool,
    /// Whether nodes that do not offer say why.
    pub want_declines: bool,
    /// Wall clock in ms, for people only; the driver may stamp it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<i64>,
}

/// A node's facts and price for a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacementOffer {
    pub job: Digest,
    /// Epoch of the request.
    pub epoch: u64,
    /// Round of the request.
    pub round: u32,
    pub node: NodeId,
    pub facts: Facts,
    /// Price in credits per 1000 fuel.
    pub cost: u64,
    /// Delay until the job would start.
    pub start_delay_ms: u64,
    /// How long the offer is held.
    pub hold_ttl_ms: u64,
    /// The node's own score; advisory, never part of a decision.
    pub score: f64,
    /// Wall clock in ms, for people only; the driver may stamp it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_at: Option<i64>,
}

/// A node says why it does not offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementDecline {
    pub job: Digest,
    /// Epoch of the request.
    pub epoch: u64,
    /// Round of the request.
    pub round: u32,
    pub node: NodeId,
    pub reasons: Vec<Reason>,
}

/// A node tells all what it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCapacityAnnounce {
    pub node: NodeId,
    /// Grows with every announcement, also over restarts.
    pub seq: u64,
    /// What it has, without regard to any one job.
    pub capacity: Facts,
    pub runtimes: Vec<Name>,
    /// Wall clock in ms, for people only; the driver may stamp it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskClaimed {
    pub job: Digest,
    pub fence: Fence,
    /// Who gets the job.
    pub node: NodeId,
    /// Price in credits per 1000 fuel.
    pub price: u64,
    pub lease_ms: u64,
}

/// The awarded node has reserved what the job needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwardAck {
    pub job: Digest,
    pub fence: Fence,
    pub node: NodeId,
}

/// The awarded node cannot take the job, or no longer waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwardRefuse {
    pub job: Digest,
    pub fence: Fence,
    pub node: NodeId,
    pub reason: Reason,
}

/// What came of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closing {
    Placed,
    /// Nobody was found.
    NoOffer,
    Cancelled,
    Failed,
}

/// A negotiation is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementClosed {
    pub job: Digest,
    pub fence: Fence,
    /// What came of it.
    pub outcome: Closing,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub winner: Option<NodeId>,
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The body is on its way.
    Fetching,
    /// The runner was told to start.
    Starting,
    /// The runner has started.
    Running,
}

/// The node is still at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRenew {
    pub job: Digest,
    pub fence: Fence,
    /// How far it has come.
    pub phase: Phase,
    /// Which renewal this is; the grant repeats it, so that the node knows when it had sent what was granted.
    pub renewal: u64,
}

/// The arbiter has seen a renewal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseGrant {
    pub job: Digest,
    pub fence: Fence,
    /// Which renewal is granted.
    pub renewal: u64,
}

/// The award is void.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoke {
    pub job: Digest,
    pub fence: Fence,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TaskOutcome {
    /// It did what it should.
    Success,
    /// It did not.
    Failed,
    /// It used up its fuel.
    OutOfFuel,
    /// It was stopped at its deadline.
    Timeout,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskResult {
    pub job: Digest,
    pub fence: Fence,
    pub node: NodeId,
    pub outcome: TaskOutcome,
    /// Why it failed, where the node itself knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    pub fuel_used: u64,
    /// How long it ran.
    pub run_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Digest>,
}

/// The arbiter has seen a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultAck {
    pub job: Digest,
    /// Fence of the result.
    pub fence: Fence,
    pub accepted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// The job is not wanted any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCancelled {
    pub job: Digest,
    pub fence: Fence,
    pub reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// An arbiter asks for offers.
    PlacementRequest(Box<PlacementRequest>),
    /// An arbiter asks for the first offer (simple path).
    TaskSubmitted(Box<PlacementRequest>),
    PlacementOffer(Box<PlacementOffer>),
    /// A node does not offer.
    PlacementDecline(PlacementDecline),
    /// A node tells what it has.
    NodeCapacityAnnounce(Box<NodeCapacityAnnounce>),
    TaskClaimed(TaskClaimed),
    /// The award is taken.
    AwardAck(AwardAck),
    /// The award is not taken.
    AwardRefuse(AwardRefuse),
    /// A negotiation is over.
    PlacementClosed(PlacementClosed),
    /// The node is still at it.
    LeaseRenew(LeaseRenew),
    /// The arbiter has seen that.
    LeaseGrant(LeaseGrant),
    /// The award is void.
    Revoke(Revoke),
    /// What a run came to.
    TaskResult(TaskResult),
    /// The arbiter has seen that.
    ResultAck(ResultAck),
    /// The job is not wanted any more.
    TaskCancelled(TaskCancelled),
    /// A node asks for the body with this BLAKE3; direct stream only.
    BodyRequest {
        digest: Digest,
    },
    /// A body; direct stream only.
    Body {
        bytes: Blob,
    },
}

/// The topic a broadcast belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// Requests, claims, closings, cancellations.
    Placement,
    /// Capacity announcements.
    Capacity,
}

impl Topic {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Placement => "landfall/placement/1",
            Self::Capacity => "landfall/capacity/1",
        }
    }
}

impl Message {
    /// The topic it is broadcast on.
    pub const fn topic(&self) -> Topic {
        match self {
            Self::NodeCapacityAnnounce(_) => Topic::Capacity,
            _ => Topic::Placement,
        }
    }
}
