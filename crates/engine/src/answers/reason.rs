//! One reason why a job waits: a closed name, a sentence, and what would help.

use std::borrow::Cow;

use landfall_model::{JobId, Time};
use serde::Serialize;

/// One reason why a job waits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Why {
    /// A stable name for programs.
    pub reason: Cow<'static, str>,
    /// What it means here, for people.
    pub detail: String,
    /// What was needed, in the unit of the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed: Option<f64>,
    /// What was found; for reasons that are about nodes, how many nodes it stands against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<f64>,
    /// The jobs in the way, where they are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobId>,
    /// When time alone lifts it.
    #[serde(rename = "until_ms", skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// What would help, for people; empty if nothing would but waiting.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub help: Cow<'static, str>,
}

impl Why {
    /// A reason with what it means here; what would help comes from its name.
    pub(super) fn new(reason: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Self {
        let reason = reason.into();
        let help = Cow::Borrowed(help(&reason));
        let detail = detail.into();
        Self { reason, detail, needed: None, found: None, jobs: Vec::new(), until: None, help }
    }

    pub(super) fn jobs(mut self, jobs: Vec<JobId>) -> Self {
        self.jobs = jobs;
        self
    }

    pub(super) fn until(mut self, until: Option<Time>) -> Self {
        self.until = until;
        self
    }

    pub(super) fn help(mut self, help: impl Into<Cow<'static, str>>) -> Self {
        self.help = help.into();
        self
    }
}

/// Ids in a sentence.
pub(super) fn named(jobs: &[JobId]) -> String {
    const MOST: usize = 3;
    let mut text = jobs.iter().take(MOST).map(JobId::as_str).collect::<Vec<_>>().join(", ");
    if jobs.len() > MOST {
        text += &format!(" and {} more", jobs.len() - MOST);
    }
    text
}

/// What a reason means, for people, where the numbers say no more.
pub(super) fn meaning(reason: &str) -> &'static str {
    meaning_of(reason).unwrap_or("the ledger refused the last proposal")
}

/// What the name of a reason means, for people; `None` if a filter or somebody else gave the name.
#[must_use]
pub fn meaning_of(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "dependency" => "a job it waits for has not ended",
        "mutex" => "another job has a lock it needs",
        "user_hold" => "somebody holds it back",
        "not_before" => "its time has not come",
        "quota_nodes" => "its tenant may not hold more nodes",
        "quota_gpus" => "its tenant may not hold more GPUs",
        "gpu_hours" => "the GPU-hours of its tenant are used up",
        "staging" => "its inputs are still far away",
        "nodes" => "too few nodes are free",
        "span" => "the free nodes lie in too many groups",
        "power" => "the pool would draw too much power",
        "io" => "the pool would move too much data",
        "node_state" => "nodes are not in service",
        "node_taken" => "other work holds nodes",
        "gpu_model" => "devices are of other or unknown models",
        "gpu_count" => "nodes have too few devices",
        "gpu_memory" => "devices have too little memory",
        "cpu" => "nodes have too little CPU",
        "memory" => "nodes have too little memory",
        "feature" => "nodes lack a feature",
        "unified_memory" => "nodes lack unified memory",
        "fingerprint" => "nodes are not of one known configuration",
        "block_end" => "nodes are taken out before it would end",
        "reserved" => "it would delay a job that has a reservation",
        "held" => "nodes are kept for another job",
        "quarantine" => "nodes are in quarantine",
        "loan" => "other pools do not lend enough",
        "preempt_cost" => "stopping less urgent work for it would cost too much",
        "strict_order" => "a job ahead of it waits, and nothing overtakes",
        "preempting" => "less urgent work is being stopped for it",
        "scan_max" => "the walk over the queue ended before it",
        "never_fits" => "not even all nodes, idle, would do",
        "beyond_horizon" => "there is no slot as far as the pool plans",
        "next_cycle" => "it would start in the next cycle",
        "next_look" => "it would be placed when it is looked at next",
        _ => return None,
    })
}

/// What would help against a reason; empty if nothing but waiting would.
fn help(reason: &str) -> &'static str {
    match reason {
        "dependency" => "wait for that job, or cancel it",
        "mutex" => "wait for the holder to end, or submit without the lock",
        "user_hold" => "release it",
        "quota_nodes" | "quota_gpus" | "gpu_hours" => {
            "wait for jobs of its tenant to end, ask for less, or raise the quota"
        }
        "nodes" | "node_taken" => "wait for jobs to end, ask for fewer nodes, or add nodes",
        "span" => "allow more groups with max_span, or wait for nodes of one group",
        "power" => "wait, lower power_w, or raise power_cap_w of the pool",
        "io" => "wait, lower io_bytes_s, or raise io_cap of the pool",
        "node_state" | "quarantine" => "bring nodes back into service",
        "gpu_model" => "allow more models with gpu_models, or add nodes that have one of them",
        "gpu_count" => "ask for fewer GPUs per node and more nodes, or add larger nodes",
        "gpu_memory" => "ask for less memory per GPU, or add larger GPUs",
        "cpu" => "ask for less CPU per node, or add larger nodes",
        "memory" => "ask for less memory per node, or add larger nodes",
        "feature" | "unified_memory" => "drop the requirement, or add nodes that have it",
        "fingerprint" => "bring nodes back to one configuration",
        "block_end" => "shorten the walltime, or extend the lease",
        "reserved" => {
            "shorten the walltime so that it ends before the reservation begins, or ask for fewer nodes"
        }
        "held" => "wait for the hold to end",
        "loan" => "let other pools lend more, or wait",
        "preempt_cost" => "wait, or raise preempt_cost_max of the pool",
        "strict_order" => "wait, or give the pool a discipline that lets later jobs pass",
        "scan_max" => "wait, or raise scan_max of the pool",
        "never_fits" => "ask for less, or add nodes",
        "beyond_horizon" => "give running work a walltime, or add nodes",
        _ => "",
    }
}
