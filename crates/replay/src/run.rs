//! What came of a replay: one row per job, how much there was to use, and counts of what happened on the way.
//!
//! Every simulator fills a [`Run`]; measures and reports read it and know nothing of simulators.

use std::collections::BTreeMap;

use landfall_model::{JobId, Time};

/// Parts of a node in which shares of one are counted.
pub const NODE_PARTS: u64 = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It ran to its end.
    Completed,
    /// Its walltime was over before.
    Walltime,
    /// It failed, was cancelled or was refused, with the reason.
    Failed(Box<str>),
    /// It never started, with the reason.
    NeverStarted(Box<str>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct JobRun {
    pub job: JobId,
    /// Place of its tenant in [`Run::tenants`].
    pub tenant: Option<u32>,
    /// Units it holds while it runs: processors of a machine, thousandths of nodes of a cluster.
    pub units: u64,
    /// GPUs it holds while it runs, in thousandths.
    pub gpu_milli: u64,
    /// When it became eligible.
    pub queued: Time,
    /// When it first started.
    pub started: Option<Time>,
    pub ended: Option<Time>,
    /// How long its last run took, or would have taken, in milliseconds: the run time of the bounded slowdown.
    pub run_ms: u64,
    /// How long all its runs together held their units, in milliseconds.
    pub held_ms: u64,
    /// The part of `held_ms` that restarts made worthless.
    pub lost_ms: u64,
    /// When it was first told it would start.
    pub first_estimate: Option<Time>,
    /// How long it may wait, if it said so, in milliseconds.
    pub qos_wait_ms: Option<u64>,
    /// Whether it started before a job that stood ahead of it and was blocked.
    pub backfilled: bool,
    /// How often it was stopped for others.
    pub preemptions: u32,
    pub ending: Ending,
}

impl JobRun {
    /// From eligible to the first start.
    pub fn wait_ms(&self) -> Option<u64> {
        Some(self.started?.since(self.queued).get())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct TenantRun {
    pub name: String,
    /// Its target share; 0 if it has none.
    pub share: f64,
}

/// How much there was to use from one instant on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    pub from: Time,
    pub units: u64,
    /// GPUs in service, in thousandths.
    pub gpu_milli: u64,
}

/// A node that a job held, for drawings of small runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Place of the job in [`Run::jobs`].
    pub job: u32,
    /// Place of the node in [`Run::nodes`].
    pub node: u32,
    pub from: Time,
    pub until: Time,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    pub starts: u64,
    /// Of these, backfilled ones.
    pub backfills: u64,
    /// Jobs stopped for others.
    pub preemptions: u64,
    /// Jobs that went back to the queue.
    pub requeues: u64,
    /// Proposals that the ledger refused.
    pub rejected: u64,
    pub loans: u64,
    /// Reservations that moved later, by cause.
    pub moved: BTreeMap<String, u64>,
    pub passes: u64,
    /// Decisions: starts, and jobs that were turned away for good.
    pub decisions: u64,
}

/// GPU packing as the load grows: after so much was asked for, so much was given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// GPU asked for so far, in per cent of all.
    pub arrived: u32,
    /// GPU given, in per cent of all.
    pub allocation: f64,
    /// Share of free GPU that the expected mix cannot use, in per cent.
    pub fragmentation_ratio: f64,
    /// The same in per cent of all GPU.
    pub fragmentation: f64,
}

/// The outcome of one replay.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Run {
    /// What was replayed, without path.
    pub trace: String,
    pub policy: String,
    /// The seed, where one mattered.
    pub seed: Option<u64>,
    /// What is counted: `processors` or `nodes`.
    pub unit: &'static str,
    /// How many units make one of these: 1, or [`NODE_PARTS`] where jobs may share a node. 0 counts as 1.
    pub unit_parts: u64,
    /// Jobs in the order of queueing.
    pub jobs: Vec<JobRun>,
    pub tenants: Vec<TenantRun>,
    /// What there was to use; the first entry is at or before the first submission.
    pub capacity: Vec<Capacity>,
    /// Nodes by name, where the run knows nodes.
    pub nodes: Vec<String>,
    /// Who held which node when; empty for large runs.
    pub spans: Vec<Span>,
    pub counts: Counts,
    /// The allocation curve of a packing run.
    pub curve: Vec<CurvePoint>,
    /// SHA-256 of the decision log, as hex.
    pub decisions_sha256: String,
    /// SHA-256 of each input, by what it was.
    pub inputs_sha256: BTreeMap<String, String>,
}

impl Run {
    /// How large a job is: processors, or nodes with a shared one counted as whole.
    pub fn size_of(&self, job: &JobRun) -> u64 {
        job.units.div_ceil(self.parts())
    }

    /// How many units make one of what is counted; never 0.
    pub fn parts(&self) -> u64 {
        self.unit_parts.max(1)
    }
}
