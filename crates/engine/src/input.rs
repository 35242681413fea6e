//! What happens to the engine: requests of people, reports of nodes, answers of providers, and the passing of time.

use std::sync::Arc;

use landfall_model::{
    Block, BlockId, Caps, HistoryRow, Indices, Instance, Job, JobId, JobKind, JobReport, Millis, MixShare,
    Name, Node, NodeId, Pool, PoolId, Provider, Tenant, TenantId, Time,
};
use serde::{Deserialize, Serialize};

use crate::dag::{Edge, Element, Join};
use crate::heartbeat::Heartbeat;
use crate::notes::Undecided;
use landfall_capacity::provider::Delivery;
use landfall_capacity::reactive::Sample;
use landfall_capacity::{AutoscaleSettings, BlockEvent, Description, ProviderError, Quote, RequestId};
use landfall_model::life::Fence;
use landfall_negotiate as negotiate;

/// A job as it is submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    /// The job; its times are set by the engine.
    pub job: Job,
    /// Where to; the only pool there is if left out.
    pub pool: Option<PoolId>,
    /// Not before this instant.
    pub not_before: Option<Time>,
    /// Whether somebody keeps it from starting.
    pub user_hold: bool,
    /// What it waits for.
    pub edges: Vec<Edge>,
    /// Whether all of that or any.
    pub join: Join,
    /// Its place in an array, if it is in one.
    pub element: Option<Element>,
    /// Whether it is an array that takes more elements until it is closed.
    #[serde(default)]
    pub open: bool,
}

impl Submission {
    /// A job that waits for nothing.
    #[must_use]
    pub fn new(job: Job) -> Self {
        let pool = job.spec.pool.clone();
        Self {
            job,
            pool,
            not_before: None,
            user_hold: false,
            edges: Vec::new(),
            join: Join::All,
            element: None,
            open: false,
        }
    }
}

pub use landfall_model::life::{Failure, Report, RunUsage, StartRefusal};

/// What an operator does to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeOrder {
    /// Finish what it has and take nothing new.
    Drain,
    /// Take work again.
    Return,
    /// Leave for good.
    Leave,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// Time passes: timers that are due, cycles and rounds.
    Tick,
    /// A cycle of a pool is wanted now, besides those on its beat.
    Cycle(PoolId),
    /// A server with a new epoch takes over.
    TakeOver,
    /// Nobody listened for a while: the silence of nodes counts from now.
    Listen,
    /// To store what happened took long: nodes that were told to start something may have answered and not have been heard yet.
    Stalled,
    /// The wall clock jumped by so much and is so much ahead of the engine's time since, in milliseconds. The engine's own time
    /// does not care; people should know.
    ClockJumped { by_ms: i64, ahead_ms: i64 },
    /// A pool is added or changed; the text is its policy file, if it has one of its own.
    SetPool { pool: Box<Pool>, policy: Option<Arc<str>> },
    /// A tenant is added or changed.
    SetTenant(Box<Tenant>),
    /// A pool that has neither nodes nor jobs is taken away.
    DeletePool(PoolId),
    /// A tenant that has no jobs is taken away.
    DeleteTenant(TenantId),
    /// Somebody keeps in mind that a decision chose nobody.
    Undecided(Box<Undecided>),
    /// Who sells capacity and how, in place of what was known.
    SetProviders(Vec<Provider>),
    /// The expected mix of a pool is set.
    SetMix { pool: PoolId, mix: Vec<MixShare> },
    /// Power or storage traffic of a pool was measured.
    Measure { pool: PoolId, power_w: Option<u64>, io_bytes_s: Option<u64> },
    /// What all pools together may draw and move is set.
    SetCaps(Caps),
    /// The energy price changes.
    EnergyPrice(Option<f64>),
    /// Trailing means of a pull pool were made anew.
    SetInstance { pool: PoolId, instance: Box<Instance> },
    /// A block was leased, changed or ended.
    SetBlock(Arc<Block>),
    /// Finished runs from before are added to the history of a pool, oldest first.
    AddHistory { pool: PoolId, rows: Vec<HistoryRow> },

    /// Jobs are submitted together: all are accepted or none.
    Submit(Vec<Submission>),
    /// An array is submitted: as many jobs as it has indices, kept as one record until they are about to start.
    SubmitArray {
        /// What all elements have in common; its job's id is that of the array.
        submission: Box<Submission>,
        indices: Indices,
    },
    /// An array that is open gets so many elements more, with the indices that follow.
    ExtendArray { array: JobId, count: u32 },
    /// An array that is open takes no more elements.
    CloseArray(JobId),
    /// A job is taken back, or all elements of an array.
    Cancel(JobId),
    /// What waits of an array is taken back; the rest goes on.
    CancelWaiting(JobId),
    /// A job is kept from starting, or no longer; of an array, all elements that wait.
    UserHold { job: JobId, held: bool },
    /// A running job is asked to save its work and leave its nodes.
    Suspend(JobId),
    /// A suspended job may go on, with a new walltime if it used up the old one.
    Resume { job: JobId, walltime: Option<Millis> },
    /// A running job is asked to save its work and go on.
    Checkpoint(JobId),
    /// How long a job may run in all is changed.
    SetWalltime { job: JobId, walltime: Millis },
    /// A job that ended is forgotten, or an array of which all elements have ended.
    Forget(JobId),

    /// A node joins, or tells everything about itself anew. If it knows what it is running, jobs it should run and does not
    /// are lost.
    Join { pool: PoolId, node: Box<Node>, running: Option<Vec<Fence>> },
    /// A node says how it is and which attempts it is running; old ones are stopped.
    Heartbeat { node: NodeId, heartbeat: Box<Heartbeat>, running: Vec<Fence> },
    /// An operator does something to a node.
    Order { node: NodeId, order: NodeOrder },
    /// An operator says why a node is out of service, or from when on it will be; nothing of either takes it back.
    Maintain { node: NodeId, at: Option<Time>, why: Option<String> },
    /// A node was probed, and whether it is well.
    Probe { node: NodeId, good: bool },
    /// A node no longer serves a tenant.
    RevokeTenant { node: NodeId, tenant: TenantId },
    /// A node says how far an attempt of a job is.
    Report { node: NodeId, fence: Fence, report: Report },

    /// A pull worker asks for one piece of work.
    Ask { node: NodeId, kind: JobKind },
    /// A pull worker says what it would have to fetch; `None` takes it back.
    Fetches { node: NodeId, entries: Vec<(JobId, Option<JobReport>)> },

    /// A measurement of a reactive job.
    Metric { job: JobId, sample: Sample },
    /// An input of a waiting job, by its digest, was brought near, or could not be.
    Staged { job: JobId, digest: Name, near: bool },

    /// Buying capacity is set up or changed.
    SetAutoscale { settings: Box<AutoscaleSettings>, providers: Vec<Description> },
    /// A provider said what it asks.
    Quoted { provider: Name, answer: Result<Quote, ProviderError> },
    /// A provider answered a purchase; `None` means that nobody waits for it any more.
    Provisioned { request: RequestId, answer: Option<Result<Vec<Delivery>, ProviderError>> },
    /// A provider took an order back.
    Withdrawn(RequestId),
    /// Something happened to a block that was bought.
    BlockChanged { block: BlockId, event: BlockEvent },

    /// The peer of a negotiated pool is set up, or gets other settings.
    SetPeer { pool: PoolId, id: NodeId, settings: Box<negotiate::Settings> },
    /// The peer of a negotiated pool is told something.
    Peer { pool: PoolId, input: Box<negotiate::Input> },

    /// The process of a peer has started; `boot` names the boot of its machine, whose clock leases are counted on.
    StartPeer { pool: PoolId, boot: u64 },
    /// A job is submitted to a negotiated pool: `asked` is what its peer announces.
    Negotiate { submission: Box<Submission>, asked: Box<negotiate::Submission> },
    /// The peer that runs a job says with which code it exited, ahead of the result.
    PeerExit { job: JobId, attempt: u32, code: i32 },

    /// A placer outside the server keeps devices for a job: for as long as usual and for the present attempt, unless it
    /// says otherwise.
    Hold { job: JobId, node: NodeId, gpus: Vec<u16>, lifetime: Option<Millis>, fence: Option<Fence> },
    /// A hold is given back.
    Release(u64),
    /// A placer outside the server turns a hold into a placement.
    Place(u64),
}
