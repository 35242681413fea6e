//! What a job of a pull pool goes out as: as all of itself, or as a part that more workers can do.
//!
//! A build whose result may exist elsewhere is looked for first, by any worker. An eval that fetches and evaluates is done in
//! two runs while a worker idles that can do the second part only. Both follow from the record and the fleet; the commit keeps
//! what a run was sent out as, because the fleet may change while it runs.

use std::sync::Arc;

use landfall_model::life::Task;
use landfall_model::{Dispatch, Job, JobKind, Name, Node, NodeState};

use super::{PoolState, State};
use crate::record::JobRecord;

impl State {
    /// What a waiting job goes out as, if that is less than all of it.
    pub fn task(&self, record: &JobRecord) -> Option<Task> {
        let spec = &record.job.spec;
        let pool = self.pools.get(&record.pool).filter(|pool| pool.pool.dispatch == Dispatch::Pull)?;
        let past = record.past.as_deref();
        match spec.kind {
            JobKind::Build => {
                let misses = past.map_or(0, |past| past.fetch_misses);
                let seeks = misses < pool.pool.pull.fetch_misses || !pool.could_build(&spec.architecture);
                (spec.fetchable && seeks).then_some(Task::Fetch)
            }
            JobKind::Eval if !(spec.fetch_task && spec.evaluate_task) => None,
            JobKind::Eval if past.is_some_and(|past| past.fetched) => Some(Task::Evaluate),
            JobKind::Eval => pool.has_idle_evaluator().then_some(Task::Fetch),
        }
    }

    /// How often the result of a build was looked for although that was enough, because nobody can build it; `more` misses are
    /// counted in. Nothing if that is not so.
    pub(crate) fn stalled(&self, record: &JobRecord, more: u32) -> Option<u32> {
        let pool = self.pools.get(&record.pool)?;
        let misses = record.past.as_deref().map_or(0, |past| past.fetch_misses) + more;
        let beyond = misses.checked_sub(pool.pool.pull.fetch_misses)?;
        let spec = &record.job.spec;
        (spec.fetchable && !pool.could_build(&spec.architecture)).then_some(beyond + 1)
    }

    /// Whether what a job goes out as depends on which nodes there are.
    pub(crate) fn depends_on_fleet(&self, record: &JobRecord) -> bool {
        let spec = &record.job.spec;
        spec.fetchable || (spec.kind == JobKind::Eval && spec.fetch_task && spec.evaluate_task)
    }

    /// Makes a job what it goes out as.
    pub(super) fn narrow(&self, record: &JobRecord, job: &mut Job) {
        let task = self.task(record);
        match (job.spec.kind, task) {
            (JobKind::Build, Some(_)) => {
                let spec = Arc::make_mut(&mut job.spec);
                spec.architecture = landfall_model::JobSpec::empty().architecture;
                (spec.features, spec.inputs) = (Vec::new(), None);
            }
            // The pause was between two looks elsewhere; now somebody can build it.
            (JobKind::Build, None) if job.spec.fetchable && record.failures == 0 => job.retry_at = None,
            (JobKind::Eval, Some(Task::Fetch)) => Arc::make_mut(&mut job.spec).evaluate_task = false,
            (JobKind::Eval, Some(Task::Evaluate)) => Arc::make_mut(&mut job.spec).fetch_task = false,
            _ => {}
        }
    }
}

impl PoolState {
    /// Whether a node is connected that could build for an architecture. One that never said what it can is not asked.
    fn could_build(&self, architecture: &Name) -> bool {
        let can = |node: &Node| match &node.capabilities {
            Some(can) => can.architectures.contains(architecture),
            None => node.features.is_empty(),
        };
        let is_builtin = *architecture == landfall_model::JobSpec::empty().architecture;
        is_builtin || self.present().any(|node| is_connected(node) && can(node))
    }

    /// Whether a worker that can evaluate but not fetch has nothing to do.
    fn has_idle_evaluator(&self) -> bool {
        let only_evaluates =
            |node: &Node| node.capabilities.as_ref().is_some_and(|can| can.eval && !can.fetch);
        let idles = |node: &Node| node.takes_work() && node.placements.is_empty();
        self.present().any(|node| idles(node) && only_evaluates(node))
    }
}

fn is_connected(node: &Node) -> bool {
    !matches!(node.state, NodeState::Unknown | NodeState::Down)
}
