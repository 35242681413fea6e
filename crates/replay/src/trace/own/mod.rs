//! Landfall's own trace: JSON lines. A header, then nodes, submissions and changes of nodes, in any order.
//!
//! Nodes and jobs are rows of scenario files, field by field, so whatever the engine knows a trace can say. Described in
//! docs/reference/trace.md.

mod read;
mod write;

use landfall_engine::dag::{Edge, Join};
use landfall_model::{Job, Millis, Node, NodeId, Time};
use serde::{Deserialize, Serialize};

pub use read::Reader;
pub use write::{GpuFacts, NodeFacts, Writer};

/// What the header calls the format.
pub const FORMAT: &str = "landfall.trace";

/// The version that is written, and the newest that is read.
pub const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// Free text: where the trace comes from.
    pub description: Option<String>,
}

/// A job that comes in.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    pub at: Time,
    /// How long it really runs; `None` if it runs until it is stopped.
    pub run: Option<Millis>,
    pub job: Job,
    /// What it waits for.
    pub after: Vec<Edge>,
    /// Whether for all of that or any.
    pub join: Join,
}

/// What becomes of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is lost with all that runs on it.
    Down,
    /// It is back.
    Up,
    /// It takes nothing new.
    Drain,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeChange {
    pub at: Time,
    pub node: NodeId,
    pub to: Change,
}

/// One line behind the header.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// Nodes that are there from the beginning: one, or as many as the row's `count` says.
    Nodes(Vec<Node>),
    /// A job comes in.
    Submission(Box<Submission>),
    Change(NodeChange),
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
    /// Its nodes, in the order of the file.
    pub nodes: Vec<Node>,
    /// Its submissions, in the order of the file.
    pub submissions: Vec<Submission>,
    /// Its changes of nodes, in the order of the file.
    pub changes: Vec<NodeChange>,
}
