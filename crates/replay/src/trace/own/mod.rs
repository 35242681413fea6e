//! Landfall's own trace: JSON lines. A header, then what there is (pools, tenants, blocks, nodes), what comes (submissions) and
//! what happens to it (changes of nodes, orders about jobs), in any order.
//!
//! Pools, tenants, blocks, nodes and jobs are rows of scenario files, field by field, so whatever the engine knows a trace can
//! say. A trace without pools runs on a cluster that is given apart. Described in docs/reference/trace.md.

mod check;
mod contents;
mod read;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_engine::array::Shape;
use landfall_engine::dag::{Edge, Join};
use landfall_engine::heartbeat::Heartbeat;
use landfall_model::{Block, Job, JobId, Millis, Node, NodeId, Pool, PoolId, Tenant, Time};
use serde::{Deserialize, Serialize};

use crate::work::Runs;

pub use contents::{Contents, PoolContents};
pub use read::Reader;
pub use write::{GpuFacts, NodeFacts, Writer};

/// What the header calls the format.
pub const FORMAT: &str = "landfall.trace";

/// The version that is written, and the newest that is read. The first one had nodes, jobs and changes of nodes only.
pub const VERSION: u32 = 2;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// Free text: where the trace comes from.
    pub description: Option<String>,
}

/// A job that comes in, or an array of jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    pub at: Time,
    /// How it really runs; of an array, each element that has no line of its own.
    pub runs: Runs,
    pub job: Job,
    /// What it waits for.
    pub after: Vec<Edge>,
    /// Whether for all of that or any.
    pub join: Join,
    /// Whether somebody keeps it from starting.
    pub held: bool,
    /// Not before this instant.
    pub not_before: Option<Time>,
    /// The indices of an array.
    pub array: Option<Shape>,
    /// The first job of the request that it came with, if it came with others.
    pub with: Option<JobId>,
}

impl Submission {
    /// A job that waits for nothing.
    pub fn new(at: Time, run: Option<Millis>, job: Job) -> Self {
        let runs = Runs::once(run);
        let (after, join, held) = (Vec::new(), Join::All, false);
        Self { at, runs, job, after, join, held, not_before: None, array: None, with: None }
    }

    /// How long it runs in the end; `None` if until it is stopped.
    pub fn run(&self) -> Option<Millis> {
        self.runs.last.run
    }
}

/// What becomes of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is lost with all that runs on it.
    Down,
    /// It is back.
    Up,
    /// It takes nothing new, because somebody wants so.
    Drain,
    /// It takes nothing new, because it is silent or failed too often.
    Out,
    /// It says something new about itself.
    #[serde(skip)]
    Says(Box<Heartbeat>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct NodeChange {
    pub at: Time,
    pub node: NodeId,
    pub to: Change,
}

/// What somebody wants of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    Cancel,
    /// It shall not start.
    Hold,
    /// It may start.
    Release,
    /// It may run so long in all.
    #[serde(rename = "walltime_ms")]
    Walltime(Millis),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOrder {
    pub at: Time,
    /// A job, an array or an element of one.
    pub job: JobId,
    pub to: Order,
}

/// What there is besides nodes and jobs.
#[derive(Debug, Clone, PartialEq)]
pub enum Setting {
    /// A pool, with the text of its policy file where it has one of its own.
    Pool {
        pool: Box<Pool>,
        policy: Option<Arc<str>>,
    },
    Tenant(Box<Tenant>),
    Block(Arc<Block>),
}

/// One line behind the header. What has no instant is there from the beginning.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    Setting(Option<Time>, Setting),
    /// Nodes that join: one, or as many as the row's `count` says.
    Nodes(Option<Time>, Vec<Node>),
    /// A job comes in.
    Submission(Box<Submission>),
    /// How one element of an array really runs.
    Element(JobId, Runs),
    Change(NodeChange),
    Order(JobOrder),
    /// When a pool really ran its cycles.
    Cycles(PoolId, Vec<Time>),
}

/// A whole trace.
///
/// ```
/// use landfall_replay::trace::own::Trace;
///
/// let text = r#"{"format":"landfall.trace","version":1}
/// {"node":{"id":"a","cpu_milli":4000,"ram_mib":"8GiB"}}
/// {"at_ms":0,"run_ms":"10min","job":{"id":"build","cpu_milli":1000}}
/// "#;
/// let trace = Trace::read(text.as_bytes())?;
/// assert_eq!((trace.nodes.len(), trace.submissions.len()), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    pub header: Header,
    /// Pools, tenants and blocks, in the order of the file.
    pub settings: Vec<(Option<Time>, Setting)>,
    /// Nodes that are there from the beginning, in the order of the file.
    pub nodes: Vec<Node>,
    /// Nodes that join at an instant, or tell everything about themselves anew, in the order of the file.
    pub joins: Vec<(Time, Node)>,
    /// Its submissions, in the order of the file.
    pub submissions: Vec<Submission>,
    /// How elements of arrays really run.
    pub elements: BTreeMap<JobId, Runs>,
    /// Its changes of nodes, in the order of the file.
    pub changes: Vec<NodeChange>,
    /// What somebody wants of jobs, in the order of the file.
    pub orders: Vec<JobOrder>,
    /// When pools really ran their cycles, in order.
    pub cycles: BTreeMap<PoolId, Vec<Time>>,
}

impl Trace {
    /// Whether it says which pools there are; one that does not runs on a cluster that is given apart.
    pub fn has_pools(&self) -> bool {
        self.settings.iter().any(|(_, setting)| matches!(setting, Setting::Pool { .. }))
    }

    /// Leaves out everything that says where the jobs run, for a replay on another cluster.
    pub fn without_cluster(&mut self) {
        self.settings.clear();
        self.nodes.clear();
        self.joins.clear();
        self.cycles.clear();
    }
}
