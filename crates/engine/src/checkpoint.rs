//! Whether a running job should save its work now: what that costs against what it may save, in GPU-seconds.

use landfall_model::{CheckpointSettings, Millis};
use serde::{Deserialize, Serialize};

/// A running job as this decision sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    pub nodes: u64,
    /// GPUs of each; a node without counts 1.
    pub gpus_per_node: u64,
    /// Time since it last saved its work, or since its start.
    pub since_saved: Millis,
    pub class: u8,
    /// Waiting jobs of a higher class that need its nodes.
    pub higher_waiting: u64,
    /// Hours waiting over hours running in the pool, 0 to 1.
    pub backlog: f64,
    pub sensitive: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weighed {
    /// What saving costs, in GPU-seconds.
    pub cost: f64,
    /// What it may save, in GPU-seconds.
    pub value: f64,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Saving is worth it.
    Worth,
    /// It was so long ago that it is saved whatever it costs.
    Overdue,
    /// It saved its work a short while ago.
    TooSoon,
    /// Saving costs more than it may save.
    NotWorth,
    /// There is nowhere to save to.
    NoStorage,
}

impl Decision {
    pub fn saves(self) -> bool {
        matches!(self, Self::Worth | Self::Overdue)
    }
}

/// Time that must have passed since the last checkpoint.
fn at_least(sensitive: bool) -> Millis {
    if sensitive { Millis::secs(600) } else { Millis::secs(300) }
}

/// Time after which a job saves its work in any case.
fn at_most(sensitive: bool) -> Millis {
    if sensitive { Millis::secs(3600) } else { Millis::secs(6 * 3600) }
}

pub fn timeout(sensitive: bool) -> Millis {
    if sensitive { Millis::secs(900) } else { Millis::secs(600) }
}

pub fn weigh(settings: &CheckpointSettings, job: &Candidate) -> Weighed {
    let nodes = job.nodes as f64;
    let gpus = job.gpus_per_node.max(1) as f64;
    let size = settings.gib_per_node * nodes;
    let write = match settings.node_gib_s {
        Some(each) => settings.gib_per_node / each,
        None => size / settings.storage_gib_s,
    };
    let cost = settings.storage_weight * write + write * nodes * gpus + settings.per_gib * size;
    let value = job.since_saved.as_secs_f64() * nodes * gpus * settings.loss_probability
        + 100.0 * job.higher_waiting as f64 * (1.0 - f64::from(job.class) / 10.0)
        + 60.0 * job.backlog * nodes;
    Weighed { cost, value }
}

/// Whether there is somewhere to save to.
pub fn has_storage(settings: &CheckpointSettings) -> bool {
    settings.node_gib_s.unwrap_or(settings.storage_gib_s) > 0.0
}

/// Decides whether a job saves its work now.
pub fn decide(settings: &CheckpointSettings, job: &Candidate) -> Decision {
    if !has_storage(settings) {
        return Decision::NoStorage;
    }
    if job.since_saved >= at_most(job.sensitive) {
        return Decision::Overdue;
    }
    let Weighed { cost, value } = weigh(settings, job);
    if job.since_saved < at_least(job.sensitive) {
        Decision::TooSoon
    } else if value > cost {
        Decision::Worth
    } else {
        Decision::NotWorth
    }
}
