//! Fences: what tells an old command or report from a current one.

use std::fmt;

use landfall_model::JobId;
use serde::{Deserialize, Serialize};

/// One attempt of one job under one epoch of the server. Everything that leaves the engine carries it, and whatever
/// comes back with an older one is ignored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
