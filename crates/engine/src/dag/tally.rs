//! The state of a DAG as a whole, kept as a few counts.

use serde::{Deserialize, Serialize};

use super::TerminalState;

/// Where a DAG stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DagState {
    /// None of its jobs has started; `failing` if one has failed all the same.
    Pending { failing: bool },
    /// Some have started and some have not ended; `failing` if one has failed.
    Running { failing: bool },
    /// All have ended, and not all as they should.
    Failed,
    /// All have ended as they should.
    Completed,
}

/// Counts over the jobs of one DAG.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DagTally {
    jobs: u32,
    ended: u32,
    failed: u32,
    cancelled: u32,
    started: bool,
}

impl DagTally {
    /// A DAG of so many jobs.
    pub fn new(jobs: u32) -> Self {
        Self { jobs, ..Self::default() }
    }

    /// Notes that a job has started.
    pub fn started(&mut self) {
        self.started = true;
    }

    /// Notes that a job has ended.
    pub fn ended(&mut self, state: TerminalState) {
        self.ended = self.ended.saturating_add(1);
        match state {
            TerminalState::Completed | TerminalState::Unneeded => {}
            TerminalState::Failed => self.failed = self.failed.saturating_add(1),
            TerminalState::Cancelled => self.cancelled = self.cancelled.saturating_add(1),
        }
    }

    pub fn state(&self) -> DagState {
        let failing = self.failed > 0;
        match self {
            _ if self.ended < self.jobs && self.started => DagState::Running { failing },
            _ if self.ended < self.jobs => DagState::Pending { failing },
            _ if failing || self.cancelled > 0 => DagState::Failed,
            _ => DagState::Completed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TerminalState::{Cancelled, Completed, Failed, Unneeded};

    fn after(started: bool, ends: &[TerminalState]) -> DagState {
        let mut tally = DagTally::new(2);
        if started {
            tally.started();
        }
        ends.iter().for_each(|&state| tally.ended(state));
        tally.state()
    }

    #[test]
    fn a_dag_stands_where_its_jobs_stand() {
        assert_eq!(after(false, &[]), DagState::Pending { failing: false });
        assert_eq!(after(false, &[Cancelled]), DagState::Pending { failing: false });
        assert_eq!(after(true, &[Completed]), DagState::Running { failing: false });
        assert_eq!(after(true, &[Failed]), DagState::Running { failing: true });
        assert_eq!(after(true, &[Failed, Completed]), DagState::Failed);
        assert_eq!(after(true, &[Completed, Cancelled]), DagState::Failed);
        assert_eq!(after(true, &[Completed, Completed]), DagState::Completed);
        assert_eq!(after(true, &[Completed, Unneeded]), DagState::Completed);
    }
}
