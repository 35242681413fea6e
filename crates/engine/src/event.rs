//! Events: the facts that make up the state. The journal stores these, in order; applying them again gives the same
//! state, byte for byte.

use std::sync::Arc;

use landfall_model::{
    Block, Caps, Digest, HistoryRow, Instance, Job, JobId, JobReport, Millis, MixShare, Money, Name, Node,
    NodeId, NodeState, Placement, Pool, PoolId, Provider, Tenant, TenantId, Time, World,
};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::array::{Ranges, Shape};
use crate::dag::Submission;
use crate::heartbeat::Heartbeat;
use crate::life::capacity::Capacity;
use crate::notes::Undecided;
use crate::record::{Cause, JobState, Phase, StartKind};
use crate::solver::{MoveCause, Reservation};
use landfall_capacity::reactive::Reactive;
use landfall_model::life::{Beside, Breakdown, Task};
use landfall_negotiate::{self as negotiate, Peer};

/// What the ledger gives a job on one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    pub node: NodeId,
    /// What the job holds there.
    pub placement: Placement,
    /// The pool that lends the node, if another one does.
    pub lender: Option<PoolId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    pub job: JobId,
    /// What it gets, on all its nodes.
    pub grants: SmallVec<[Grant; 1]>,
    /// What kind of start it is.
    pub kind: StartKind,
    /// Node units it counts for, in millionths.
    pub units: u64,
    /// GPUs it counts for.
    pub gpus: u64,
    /// Watts above idle that it counts for.
    pub power_w: u64,
    /// What it costs there, where its pool has prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Money>,
    pub why: Breakdown,
    /// Whether the node is only told: it has no room for it before another one ends there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ahead: bool,
    /// What this run does, if that is less than all of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// What was looked at beside it, as far as somebody noted that. The state has no use for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Box<Beside>>,
}

/// A hold: devices and amounts kept for a placement that is being prepared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    pub id: u64,
    /// The job it is for.
    pub job: JobId,
    /// The attempt of the job it was made for.
    pub attempt: u32,
    /// The pool of the node.
    pub pool: PoolId,
    pub node: NodeId,
    pub placement: Placement,
    /// Live while now is before this instant.
    pub expires_at: Time,
    /// When it was made.
    pub created_at: Time,
    /// What the peer of the pool was awarded, if it is for that: its job is not submitted yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub award: Option<Digest>,
}

/// Why a hold ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldEnd {
    /// Its time was over.
    Expired,
    /// Its maker gave it back.
    Released,
    /// Its job ended or was taken back.
    JobGone,
    /// Its node is gone.
    NodeGone,
}

/// How a job goes back to the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Back {
    pub cause: Cause,
    /// Not before this instant.
    pub retry_at: Option<Time>,
    /// Whether it counts against the job's requeues.
    pub counts: bool,
    /// Whether the attempt failed by the job's own or the node's fault.
    pub failed: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A server with this epoch took over.
    Epoch(u32),
    /// The wall clock jumped by so much and is so much ahead of the engine's time since, in milliseconds.
    ClockJumped { by_ms: i64, ahead_ms: i64 },
    /// A pool was added or set anew, with the text of its policy file where it has one of its own.
    PoolSet { pool: Box<Pool>, policy: Option<Arc<str>> },
    /// Power or storage traffic of a pool was measured.
    Measured { pool: PoolId, power_w: Option<u64>, io_bytes_s: Option<u64> },
    /// What all pools together may draw and move was set.
    CapsSet(Caps),
    /// A tenant was added or set anew.
    TenantSet(Box<Tenant>),
    /// A pool was taken away.
    PoolDeleted(PoolId),
    /// A tenant was taken away.
    TenantDeleted(TenantId),
    /// Providers were set.
    ProvidersSet(Vec<Provider>),
    /// The expected mix of a pool was set.
    MixSet { pool: PoolId, mix: Vec<MixShare> },
    /// The energy price changed.
    EnergyPrice(Option<f64>),
    /// Trailing means and counts of a pull pool were made anew.
    InstanceSet { pool: PoolId, instance: Box<Instance> },
    /// A block was leased, changed or ended.
    BlockSet(Arc<Block>),
    /// Everything that a pool's policy reads beside nodes and jobs was set at once.
    WorldSet { pool: PoolId, world: Box<World> },

    /// A job was accepted; `user_hold` if somebody keeps it from starting.
    Submitted { job: Box<Job>, pool: PoolId, user_hold: bool },
    /// An array was accepted; none of its elements has a record yet. The job is what they have in common, under the array's
    /// id; `after` are arrays that it follows element by element.
    ArraySubmitted { job: Box<Job>, pool: PoolId, user_hold: bool, shape: Shape, after: Vec<JobId> },
    /// An open array got more elements: this is its last index now.
    ArrayExtended { array: JobId, last: u32 },
    /// An open array takes no more elements.
    ArrayClosed(JobId),
    /// Elements of an array, by position from 0, got records: they are jobs from now on.
    Unfolded { array: JobId, positions: Ranges },
    /// Elements of an array, by position from 0, that had no record yet were cancelled.
    FoldedDropped { array: JobId, positions: Ranges, cause: Cause },
    /// Dependencies between jobs were accepted, with the jobs themselves.
    Linked(Box<Submission>),
    /// What a job or an array waited for is over: it enters the queue.
    Eligible(JobId),
    /// Somebody keeps a job from starting, or no longer does.
    UserHold { job: JobId, held: bool },
    /// How long a job may run in all was changed.
    WalltimeSet { job: JobId, walltime: Millis },
    /// A proposal was committed.
    Committed(Box<Commit>),
    /// Nobody was chosen; for whoever asks later why not.
    Undecided(Box<Undecided>),
    /// There is room for a job that its node was told ahead.
    TookRoom(JobId),
    /// A start command was sent again.
    StartSent(JobId),
    /// A node of a placed job got further; `exit` if it ended by itself.
    Reported { job: JobId, node: NodeId, phase: Phase, exit: Option<i32> },
    /// A node that had no checkpoint of a job began it anew; its whole walltime is there again.
    Afresh { job: JobId, node: NodeId },
    /// A job runs on all its nodes.
    Started(JobId),
    /// A job saves its work until the deadline, and then leaves its nodes for the given cause, or goes on.
    Saving { job: JobId, deadline: Time, leaves: Option<Cause> },
    /// A checkpoint got more time.
    SavingExtended { job: JobId, deadline: Time },
    /// A job saved its work and goes on.
    Saved(JobId),
    /// A checkpoint did not come to an end; the job goes on.
    SaveFailed(JobId),
    /// A job was told to stop, and is killed at the given instant.
    Stopping { job: JobId, cause: Cause, kill_at: Time },
    /// A job was told that its nodes will be wanted back by the given instant.
    Noticed { job: JobId, cause: Cause, by: Time },
    /// A job saved its work and left its nodes.
    Suspended { job: JobId, cause: Cause },
    /// A job went back to the queue.
    Requeued { job: JobId, back: Box<Back> },
    /// The ledger refused a proposal for a job.
    Rejected(JobId),
    /// A job came to its end.
    Ended { job: JobId, state: JobState, cause: Cause },
    /// A job that ended long ago was forgotten, or an array with all its elements.
    Forgotten(JobId),
    /// A gang gained or lost nodes while it runs, and counts for so much now: node units in millionths, GPUs, watts above
    /// idle.
    Resized { job: JobId, gained: Vec<Grant>, lost: Vec<NodeId>, units: u64, gpus: u64, power_w: u64 },

    /// A hold was made.
    HoldMade(Box<Hold>),
    /// A hold came to its end.
    HoldEnded { id: u64, why: HoldEnd },
    /// Whole nodes are kept for a job, until the given instant at most; the victims have to leave first.
    NodesKept { job: JobId, nodes: Vec<NodeId>, until: Time, victims: Vec<JobId> },
    /// Nodes are no longer kept for a job.
    NodesFreed(JobId),
    /// A reservation was made, or moved to a later time for the given cause.
    Reserved { pool: PoolId, reservation: Box<Reservation>, moved: Option<MoveCause> },
    /// The reservation of a job is no longer needed.
    Unreserved { pool: PoolId, job: JobId },

    /// A node joined, or told everything about itself anew.
    NodeJoined { pool: PoolId, node: Box<Node> },
    /// A node sent a heartbeat that changed something.
    Heard { node: NodeId, heartbeat: Box<Heartbeat> },
    /// So many silent nodes of a pool keep their jobs for now, because many fell silent at once; 0 when that is over.
    RequeueLimited { pool: PoolId, waiting: u64 },
    /// A node changed its state.
    NodeMoved { node: NodeId, to: NodeState },
    /// Why a node is out of service, or from when on it will be.
    Maintenance { node: NodeId, at: Option<Time>, why: Option<String> },
    /// A node did wrong: a start failed, or a result was proven wrong.
    NodeFault { node: NodeId, start: bool, wrong_result: bool },
    /// A node served a job well; `speed_ratio` is observed over estimated speed, where it can be told, and `work` what the workload
    /// of the job is known to be from now on.
    NodeServed {
        node: NodeId,
        job: JobId,
        ran: Millis,
        speed_ratio: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        work: Option<f64>,
    },
    /// A node was probed, and whether it is well.
    Probed { node: NodeId, good: bool },
    /// A node left for good.
    NodeLeft(NodeId),
    /// What a node would have to fetch for a job; `None` takes it back.
    Fetches { job: JobId, node: NodeId, report: Option<JobReport> },
    /// A timer round of a pull pool passed.
    Round(PoolId),
    /// A run was added to the history of a pool.
    History { pool: PoolId, row: Box<HistoryRow> },
    /// What a tenant's share of running work is in a pull pool, if known.
    WorkShare { pool: PoolId, tenant: TenantId, share: Option<f64> },
    /// What the ledger keeps for buying capacity changed.
    CapacitySet(Box<Capacity>),
    /// Where the scaling of a service stands.
    ReactiveSet { job: JobId, reactive: Box<Reactive> },
    /// An input of a waiting job, by its digest, was brought near, or could not be.
    Staged { job: JobId, digest: Name, near: bool },
    /// A job that is about to be accepted is placed by peers among themselves, who call it by this digest.
    Announced { job: JobId, digest: Digest },
    /// The peer of a negotiated pool was set up, or has started anew.
    PeerSet { pool: PoolId, peer: Box<Peer> },
    /// The peer of a negotiated pool was told something.
    PeerTold { pool: PoolId, input: Box<negotiate::Input> },
    /// It was looked at whether so many jobs wait in a pool that they cost more; the next look is due at the given instant.
    Surge { pool: PoolId, on: bool, next: Time },
    /// A pool ran a cycle; the next one is due at the given instant.
    Cycled { pool: PoolId, next: Time },
}
