//! From one kind of trace to another. What cannot be said in the other kind is left out and counted, never guessed.

mod build;
mod openb;
mod processors;
mod to_swf;

use std::collections::BTreeMap;
use std::io;

pub use openb::{from_muri, from_openb};
pub use processors::{from_generated, from_swf, generated_log};
pub use to_swf::to_swf;

/// How processors become nodes, and how GPUs are spread over them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub procs_per_node: u64,
    pub gpus_per_node: u32,
    /// Nodes to write, where the input knows none.
    pub nodes: Option<u64>,
}

impl Default for Shape {
    fn default() -> Self {
        Self { procs_per_node: 1, gpus_per_node: 8, nodes: None }
    }
}

/// What came of a conversion.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Converted {
    pub jobs: u64,
    pub nodes: u64,
    /// Jobs left out, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Jobs whose missing estimate became their run time.
    pub estimates_defaulted: u64,
}

impl Converted {
    fn drop_one(&mut self, reason: &str) {
        *self.dropped.entry(reason.to_owned()).or_default() += 1;
    }

    /// Counts a job that was made, or why it was not.
    fn count(&mut self, outcome: Result<(), Refused>) -> io::Result<()> {
        match outcome {
            Ok(()) => self.jobs += 1,
            Err(Refused::Job(reason)) => self.drop_one(&reason),
            Err(Refused::Output(error)) => return Err(error),
        }
        Ok(())
    }
}

/// Why a job was not written.
enum Refused {
    /// It cannot be said in the other kind.
    Job(String),
    /// Writing failed.
    Output(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}
