//! A batch log on a machine of so many processors.

use std::collections::BTreeMap;

use landfall_engine::answers::dispatch_of;
use landfall_model::{Dispatch, Millis};

use super::cluster::{Cluster, nodes_and_jobs};
use super::{Chosen, PolicyKind, Progress, ReplayError};
use crate::decisions::Decisions;
use crate::machine::{
    Estimate, Events, FCFS, LogPolicy, Planning, Schedule, Score, Sequence, Settings, one_at_a_time, run_of,
    simulate,
};
use crate::measures::bounded_slowdown;
use crate::run::Run;
use crate::trace::batch::BatchJob;

#[derive(Debug, Clone)]
pub struct Log {
    /// Its name, without path.
    pub name: String,
    pub jobs: Vec<BatchJob>,
    pub procs: u32,
    /// Processors of a node, for policies that look at nodes.
    pub procs_per_node: u64,
    pub events: Events,
    /// Passes on a beat; `None` means after every instant with an event.
    pub cycle: Option<Millis>,
    pub estimate: Estimate,
    /// SHA-256 of the file.
    pub inputs_sha256: BTreeMap<String, String>,
}

/// Means over several sequences of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceMeans {
    /// Mean bounded slowdown of each sequence.
    pub slowdowns: Vec<f64>,
    /// Mean wait of each, in seconds.
    pub waits: Vec<f64>,
    /// Use of the machine until the last start, of each.
    pub utilisations: Vec<f64>,
}

impl Log {
    fn settings(&self, planning: Planning) -> Settings {
        let Self { procs, events, cycle, estimate, .. } = *self;
        Settings { procs, planning, events, cycle, estimate }
    }

    /// Starts of the jobs under a policy for logs.
    fn schedule(&self, jobs: &[BatchJob], policy: LogPolicy, progress: Progress<'_>) -> Schedule {
        match policy {
            LogPolicy::Planned(planning) => simulate(jobs, self.settings(planning), progress),
            LogPolicy::Committed(score) => one_at_a_time(jobs, u64::from(self.procs), score),
        }
    }

    pub(super) fn run(
        &self,
        policy: &Chosen,
        decisions: Decisions<'_>,
        progress: Progress<'_>,
    ) -> Result<Run, ReplayError> {
        let run = match &policy.what {
            PolicyKind::Log(kind) => {
                let schedule = self.schedule(&self.jobs, *kind, progress);
                run_of(&self.jobs, u64::from(self.procs), &schedule, decisions)?
            }
            PolicyKind::Own => {
                let why = "a log has no pools of its own".to_owned();
                return Err(ReplayError::Policy { policy: policy.name.clone(), why });
            }
            PolicyKind::Spec(_) => self.as_cluster(policy)?.run(policy, decisions, progress)?,
        };
        Ok(Run { trace: self.name.clone(), inputs_sha256: self.inputs_sha256.clone(), ..run })
    }

    /// The same jobs on nodes, for policies that score.
    fn as_cluster(&self, policy: &Chosen) -> Result<Cluster, ReplayError> {
        if !matches!(&policy.what, PolicyKind::Spec(spec) if dispatch_of(spec) == Some(Dispatch::Batch)) {
            let why = "a log needs a batch policy, such as easy or balanced".to_owned();
            return Err(ReplayError::Policy { policy: policy.name.clone(), why });
        }
        if self.events == Events::Single {
            let why = "it runs in cycles; one pass per event is for policies of alike processors";
            return Err(ReplayError::Policy { policy: policy.name.clone(), why: why.into() });
        }
        let (nodes, submissions) =
            nodes_and_jobs(&self.jobs, u64::from(self.procs), self.procs_per_node, self.estimate)?;
        Ok(Cluster::of_nodes(&self.name, nodes, submissions, self.cycle))
    }

    /// Means over parts of the log, each on an empty machine, one job at a time.
    pub fn sequences(&self, policy: &Chosen, parts: &[Sequence]) -> Result<SequenceMeans, ReplayError> {
        // In order of arrival without overtaking, waiting for the chosen one changes nothing.
        let score = match &policy.what {
            PolicyKind::Log(LogPolicy::Committed(score)) => *score,
            PolicyKind::Log(kind) if *kind == FCFS => Score::Fcfs,
            _ => {
                let why = "sequences run one job at a time, under fcfs, sjf or f1".to_owned();
                return Err(ReplayError::Policy { policy: policy.name.clone(), why });
            }
        };
        let mut means = SequenceMeans { slowdowns: Vec::new(), waits: Vec::new(), utilisations: Vec::new() };
        for part in parts {
            let end = part.start.saturating_add(part.count);
            let Some(jobs) = self.jobs.get(part.start..end).filter(|jobs| !jobs.is_empty()) else {
                let message = format!(
                    "sequence {}:{} is outside the log, which has {} jobs",
                    part.start,
                    part.count,
                    self.jobs.len()
                );
                return Err(ReplayError::Subject(message));
            };
            let procs = u64::from(self.procs);
            if let Some(job) = jobs.iter().find(|job| job.procs == 0 || job.procs > procs) {
                let message = format!(
                    "job {} of sequence {}:{} takes {} of {procs} processors",
                    job.number, part.start, part.count, job.procs
                );
                return Err(ReplayError::Subject(message));
            }
            let schedule = one_at_a_time(jobs, procs, score);
            let mut sums = (0.0, 0.0, 0.0);
            let mut last = jobs[0].submit;
            for (job, start) in jobs.iter().zip(&schedule.started) {
                let start = start.map_or(job.submit, |start| start.as_millis() / 1000);
                let wait = (start - job.submit) as f64;
                sums.0 += bounded_slowdown(wait, job.run as f64);
                sums.1 += wait;
                sums.2 += job.run as f64 * job.procs as f64;
                last = last.max(start);
            }
            let count = jobs.len() as f64;
            let span = (last - jobs[0].submit).max(1) as f64 * f64::from(self.procs);
            means.slowdowns.push(sums.0 / count);
            means.waits.push(sums.1 / count);
            means.utilisations.push(sums.2 / span);
        }
        Ok(means)
    }
}

impl SequenceMeans {
    /// The mean of one of the lists.
    pub fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len().max(1) as f64
    }
}
