//! How jobs come to an end or go back to the queue, and the commands to their nodes that go with it.

use landfall_model::{Dispatch, HistoryRow, JobId, Millis, NodeId, RETRY_DELAY_MAX, Requeue};
use landfall_policy::rules::node_record::observed;
use landfall_policy::rules::pull::back_off;

use crate::effect::Effect;
use crate::engine::Engine;
use crate::event::{Back, Event};
use crate::input::RunUsage;
use crate::record::{Cause, JobState, Phase, Run};
use landfall_model::life::{Failure, Fence, Task};

/// Starts that may fail before the job does.
const START_TRIES: u32 = 3;

impl Engine {
    /// Tells every node of a job to stop it, except those where it has ended.
    pub(crate) fn stop_on_nodes(&mut self, job: &JobId, grace: Millis) {
        let Some(record) = self.state.job(job) else { return };
        let fence = self.state.fence(record);
        let nodes: Vec<NodeId> = record
            .run
            .iter()
            .flat_map(|run| &run.nodes)
            .filter(|at| at.phase != Phase::Ended)
            .map(|at| at.node.clone())
            .collect();
        for node in nodes {
            self.want(Effect::Stop { fence: fence.clone(), node, grace });
        }
    }

    /// Sends a job back to the queue, or ends it if it may not go back.
    pub(crate) fn back_or_fail(&mut self, job: &JobId, back: Back) {
        let Some(record) = self.state.job(job) else { return };
        let spec = &record.job.spec;
        let spent = back.counts && record.requeues >= spec.max_requeue;
        let allowed = match (&back.cause, spec.requeue) {
            (Cause::OfferRejected | Cause::FetchMiss | Cause::Fetched, _) => true,
            (Cause::NotStarted | Cause::Transient, _) => true,
            // Whoever wants no second run gets none, also where a lost node costs nothing.
            (Cause::NodeLost | Cause::TenantRevoked, _) => !spec.runs_once(),
            (Cause::Preempted | Cause::Reclaimed, requeue) => requeue != Requeue::Never,
            (_, requeue) => requeue == Requeue::Always,
        };
        if allowed && !spent {
            self.emit(Event::Requeued { job: job.clone(), back: Box::new(back) });
        } else {
            self.emit(Event::Ended { job: job.clone(), state: JobState::Failed, cause: back.cause });
        }
    }

    /// A node of the job is gone: the others are told to stop, and the job goes back as a whole.
    pub(crate) fn lost_on(&mut self, job: &JobId, node: &NodeId) {
        let Some(record) = self.state.job(job) else { return };
        let pull = self.dispatch_of(job) == Some(Dispatch::Pull);
        let stopping = record.run.as_ref().and_then(|run| run.stop.clone());
        let fence = self.state.fence(record);
        let others: Vec<NodeId> = record
            .run
            .iter()
            .flat_map(|run| &run.nodes)
            .filter(|at| at.node != *node && at.phase != Phase::Ended)
            .map(|at| at.node.clone())
            .collect();
        for node in others {
            self.want(Effect::Stop { fence: fence.clone(), node, grace: Millis::ZERO });
        }
        // A job that was being stopped is where it was going.
        if let Some(stop) = stopping.filter(|stop| stop.cause.takes_back()) {
            self.emit(Event::Ended { job: job.clone(), state: JobState::Cancelled, cause: stop.cause });
            return;
        }
        self.back_or_fail(job, Back { cause: Cause::NodeLost, retry_at: None, counts: !pull, failed: false });
    }

    /// A start failed: again, unless it failed too often, or it may have run somewhere and must not run twice.
    pub(crate) fn not_started(&mut self, job: &JobId, unanswered: bool) {
        let Some(record) = self.state.job(job) else { return };
        let began = |run: &Run| run.nodes.iter().any(|at| at.phase != Phase::Assigned);
        let may_have_run = unanswered || record.run.as_deref().is_some_and(began);
        let last = record.start_failures + 1 >= START_TRIES || (may_have_run && record.job.spec.runs_once());
        self.stop_on_nodes(job, Millis::ZERO);
        if last {
            let (job, state) = (job.clone(), JobState::Failed);
            self.emit(Event::Ended { job, state, cause: Cause::StartFailed });
        } else {
            let back = Back { cause: Cause::NotStarted, retry_at: None, counts: false, failed: true };
            self.emit(Event::Requeued { job: job.clone(), back: Box::new(back) });
        }
    }

    /// All nodes of a stopping job have stopped: it ends up where its cause says.
    pub(crate) fn all_stopped(&mut self, job: &JobId) {
        let Some(record) = self.state.job(job) else { return };
        let Some(stop) = record.run.as_ref().and_then(|run| run.stop.clone()) else { return };
        let ended = |state, cause| Event::Ended { job: job.clone(), state, cause };
        match stop.cause {
            cause @ (Cause::Preempted | Cause::Reclaimed | Cause::TenantRevoked) => {
                self.back_or_fail(job, Back { cause, retry_at: None, counts: false, failed: false });
            }
            cause if cause.takes_back() => self.emit(ended(JobState::Cancelled, cause)),
            cause => self.emit(ended(JobState::Failed, cause)),
        }
    }

    /// All nodes of a job have ended by themselves.
    pub(crate) fn all_exited(&mut self, job: &JobId, code: i32, failure: Option<Failure>, usage: &RunUsage) {
        let Some(record) = self.state.job(job) else { return };
        let over = record.run.as_ref().is_some_and(|run| run.over_walltime);
        let stop = record.run.as_ref().and_then(|run| run.stop.clone());
        self.remember_run(job, usage, code != 0);
        let cancelled = stop.as_ref().is_some_and(|stop| stop.cause.takes_back());
        if code == 0 && !cancelled {
            self.note_service(job, usage);
            let cause = if over { Cause::OverWalltime } else { Cause::Exit(0) };
            self.emit(Event::Ended { job: job.clone(), state: JobState::Completed, cause });
            return;
        }
        if stop.is_some() {
            self.all_stopped(job);
            return;
        }
        let Some(record) = self.state.job(job) else { return };
        let spec = &record.job.spec;
        let pause = back_off(spec.retry_delay_ms, record.failures + 1).min(RETRY_DELAY_MAX);
        let retry_at = (!pause.is_zero()).then(|| self.now + pause);
        // A code that the job named means "try again", whatever it says of other failures.
        let again = failure == Some(Failure::Transient) && record.requeues < spec.max_requeue;
        let cause = if again { Cause::Transient } else { Cause::Exit(code) };
        self.back_or_fail(job, Back { cause, retry_at, counts: true, failed: true });
    }

    /// A failed build of a pull pool: some failures may pass.
    pub(crate) fn build_failed(&mut self, job: &JobId, failure: Failure, code: i32, usage: &RunUsage) {
        self.remember_run(job, usage, true);
        let Some(record) = self.state.job(job) else { return };
        let settings =
            self.state.pools.get(&record.pool).map(|pool| pool.pool.pull.clone()).unwrap_or_default();
        match failure {
            Failure::FetchMiss => {
                let retry_at = self
                    .state
                    .stalled(record, 1)
                    .map(|tries| self.now + back_off(settings.retry_base_ms, tries));
                let back = Back { cause: Cause::FetchMiss, retry_at, counts: false, failed: false };
                self.back_or_fail(job, back);
            }
            Failure::Transient | Failure::MissingInput if record.failures + 1 < settings.max_attempts => {
                let retry_at = Some(self.now + back_off(settings.retry_base_ms, record.failures + 1));
                self.back_or_fail(
                    job,
                    Back { cause: Cause::Transient, retry_at, counts: false, failed: true },
                );
            }
            _ => {
                let (state, cause) = (JobState::Failed, Cause::Exit(code));
                self.emit(Event::Ended { job: job.clone(), state, cause });
            }
        }
    }

    /// Adds a run to the history that predictions come from.
    fn remember_run(&mut self, job: &JobId, usage: &RunUsage, failed: bool) {
        let Some(record) = self.state.job(job) else { return };
        let Some(workload) = record.job.spec.workload.clone() else { return };
        // How long a fetch took says nothing about the work itself.
        if record.run.as_ref().is_some_and(|run| run.task == Some(Task::Fetch)) {
            return;
        }
        let started = record.run.as_ref().and_then(|run| run.started_at);
        let row = HistoryRow {
            workload,
            input_bytes: record.job.spec.inputs_total_bytes(),
            peak_ram_mib: usage.peak_ram,
            cpu_time_ms: usage.cpu_time,
            build_time_ms: started.map(|started| self.now.since(started)),
            disk_bytes: usage.disk,
            oom: usage.oom,
            finished_at_ms: Some(self.now),
            tenant: record.job.spec.tenant.clone(),
            failed,
        };
        let pool = record.pool.clone();
        self.emit(Event::History { pool, row: Box::new(row) });
    }

    /// Nodes earn karma and a speed correction for work well done.
    fn note_service(&mut self, job: &JobId, usage: &RunUsage) {
        let Some(record) = self.state.job(job) else { return };
        let Some(run) = &record.run else { return };
        let ran = run.started_at.map_or(Millis::ZERO, |started| self.now.since(started));
        let nodes: Vec<NodeId> = run.nodes.iter().map(|at| at.node.clone()).collect();
        let spec = &record.job.spec;
        let known = self.state.pools.get(&record.pool).map(|pool| &pool.work).zip(spec.workload.as_ref());
        let known = known.and_then(|(work, workload)| work.get(workload).copied());
        let took = usage.wall.unwrap_or(ran);
        let (speed_ratio, work) = observed(spec, run.why.raw_speed, usage.speed_ratio, known, took);
        for node in nodes {
            self.emit(Event::NodeServed { node, job: job.clone(), ran, speed_ratio, work });
        }
    }

    /// How the pool of a job dispatches.
    pub(crate) fn dispatch_of(&self, job: &JobId) -> Option<Dispatch> {
        let record = self.state.job(job)?;
        self.state.pools.get(&record.pool).map(|pool| pool.pool.dispatch)
    }

    /// Whether a fence is the present one of its job.
    pub(crate) fn is_current(&self, fence: &Fence) -> bool {
        self.state.job(&fence.job).is_some_and(|record| {
            record.attempt == fence.attempt && fence.epoch <= self.state.epoch && record.run.is_some()
        })
    }
}
