//! What stands against a job in a cycle, with amounts.

use landfall_model::JobId;
pub use landfall_model::reason::Reason;
use serde::{Deserialize, Serialize};

/// One thing that stands against a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    pub reason: Reason,
    /// What was needed, in the unit of the reason (nodes, groups, watts, bytes per second, GPU-hours).
    pub needed: f64,
    /// What was found; for the filters of nodes, how many nodes are refused for this reason.
    pub found: f64,
    /// The jobs in the way, if they are known.
    pub jobs: Vec<JobId>,
}

impl Refusal {
    pub(super) fn new(reason: Reason, needed: f64, found: f64) -> Self {
        Self { reason, needed, found, jobs: Vec::new() }
    }

    /// A reason without amounts.
    pub(super) fn plain(reason: Reason) -> Self {
        Self::new(reason, 0.0, 0.0)
    }
}
