//! What a batch queue sees of its pool: utilisation, groups, backlog, and the nodes a class of jobs could use.

use landfall_model::{Job, JobSpec, Node};

use crate::view::Pass;

/// What waits, in exact integers: GPU-milliseconds and node-milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Waiting GPUs × ms.
    pub gpu_ms: u128,
    /// Waiting nodes × ms.
    pub node_ms: u128,
}

impl Backlog {
    /// Adds up waiting jobs.
    #[must_use]
    pub fn of(_jobs: &[Job]) -> Self {
        Self::default()
    }

    /// Adds one job.
    pub fn add(&mut self, _job: &Job) {}

    /// Takes one job away.
    pub fn remove(&mut self, _job: &Job) {}
}

/// The nodes of a pass as jobs of one class see them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SpecView {
    /// Fewest groups that hold the nodes asked for; `None` if there are too few nodes.
    pub fewest_groups: Option<u64>,
    /// Mean locality of the nodes looked at.
    pub mean_locality: f64,
    /// Size of the largest conformance group among them.
    pub largest_conformance: u64,
}

impl SpecView {
    /// Looks at all nodes once.
    #[must_use]
    pub fn of(_spec: &JobSpec, _pass: &Pass<'_>) -> Self {
        Self::default()
    }
}

/// Occupied node units over node units of nodes in service.
#[must_use]
pub fn utilisation(_nodes: &[Node]) -> f64 {
    0.0
}

/// Number of topology groups.
#[must_use]
pub fn groups(_nodes: &[Node]) -> u64 {
    1
}
