//! What nodes say about jobs: fenced, idempotent, forwards only.

use landfall_model::{Dispatch, JobId, JobKind, Millis, NodeId, OnDisconnect};

use crate::effect::{Answer, Effect};
use crate::engine::Engine;
use crate::event::{Back, Event};
use crate::input::{Report, RunUsage, StartRefusal};
use crate::record::{Cause, JobRecord, JobState, Phase, Run};
use landfall_model::life::{Failure, Fence, Task};

/// How long after a node would not have it a job is offered again.
const OFFER_AGAIN: Millis = Millis::secs(1);

impl Engine {
    pub(crate) fn report(&mut self, node: &NodeId, fence: &Fence, report: Report) -> Answer {
        if !self.is_current(fence) {
            // Whatever still runs under an old fence has to stop; nobody waits for its result.
            if !matches!(report, Report::Refused(_) | Report::Exited { .. } | Report::Stopped) {
                self.want(Effect::Stop { fence: fence.clone(), node: node.clone(), grace: Millis::ZERO });
            }
            return Answer::Ignored("stale_fence".into());
        }
        let job = fence.job.clone();
        let Some(phase) = self.phase_on(&job, node) else { return Answer::Ignored("not_assigned".into()) };
        if phase == Phase::Ended {
            return Answer::Ignored("ended".into());
        }
        match report {
            Report::Started => self.node_started(&job, node, phase, false),
            Report::StartedAfresh => self.node_started(&job, node, phase, true),
            Report::Refused(refusal) if phase == Phase::Assigned => self.start_refused(&job, node, refusal),
            Report::Refused(_) => Answer::Ignored("started".into()),
            Report::Checkpointed => self.node_saved(&job, node, phase),
            Report::CheckpointProgress => self.saving_gets_on(&job),
            Report::CheckpointFailed => self.save_failed(&job),
            Report::Exited { code, failure, usage } => {
                self.note_phase(&job, node, Phase::Ended, Some(code));
                self.note_short_run(&job, node);
                let answer = self.node_exited(&job, code, failure, &usage);
                self.start_ahead(node);
                answer
            }
            Report::Stopped => {
                self.note_phase(&job, node, Phase::Ended, None);
                let answer = self.node_stopped(&job, node);
                self.start_ahead(node);
                answer
            }
        }
    }

    fn phase_on(&self, job: &JobId, node: &NodeId) -> Option<Phase> {
        let run = self.state.job(job)?.run.as_ref()?;
        run.nodes.iter().find(|at| at.node == *node).map(|at| at.phase)
    }

    fn note_phase(&mut self, job: &JobId, node: &NodeId, phase: Phase, exit: Option<i32>) {
        self.emit(Event::Reported { job: job.clone(), node: node.clone(), phase, exit });
    }

    pub(crate) fn run_of(&self, job: &JobId) -> Option<&Run> {
        self.state.job(job)?.run.as_deref()
    }

    fn all_reached(&self, job: &JobId, phase: Phase) -> bool {
        self.run_of(job).is_some_and(|run| run.nodes.iter().all(|at| at.phase >= phase))
    }

    fn node_started(&mut self, job: &JobId, node: &NodeId, phase: Phase, afresh: bool) -> Answer {
        if phase >= Phase::Started {
            return Answer::Ignored("started".into());
        }
        // It was not told to go on where the newest checkpoint is not.
        let elsewhere =
            |record: &JobRecord| record.state == JobState::Staging && record.resumes() == (true, false);
        if afresh || self.state.job(job).is_some_and(elsewhere) {
            self.emit(Event::Afresh { job: job.clone(), node: node.clone() });
        }
        self.note_phase(job, node, Phase::Started, None);
        let ahead = self.state.job(job).filter(|record| record.run.as_ref().is_some_and(|run| run.ahead));
        if ahead.is_some_and(|record| self.state.has_room(node, record)) {
            self.emit(Event::TookRoom(job.clone()));
        }
        if self.is_in(job, JobState::Staging) && self.all_reached(job, Phase::Started) {
            self.emit(Event::Started(job.clone()));
        }
        Answer::Done
    }

    fn start_refused(&mut self, job: &JobId, node: &NodeId, refusal: StartRefusal) -> Answer {
        let grows = self.is_in(job, JobState::Running) || self.is_in(job, JobState::Checkpointing);
        if !grows && !self.is_in(job, JobState::Staging) {
            // It was being stopped anyway, and it does not run there.
            self.note_phase(job, node, Phase::Ended, None);
            return self.node_stopped(job, node);
        }
        match refusal {
            // The command goes out again by itself.
            StartRefusal::Busy => return Answer::Ignored("busy".into()),
            _ if grows => {
                if matches!(refusal, StartRefusal::Unsupported | StartRefusal::Failed) {
                    self.fault(node, true);
                }
                self.grown_in_vain(job, std::slice::from_ref(node));
            }
            StartRefusal::Malformed => {
                self.stop_on_nodes(job, Millis::ZERO);
                let (job, state) = (job.clone(), JobState::Failed);
                self.emit(Event::Ended { job, state, cause: Cause::Malformed });
            }
            // It never began, and another node may have room at once.
            StartRefusal::Returned => {
                let back = Back { cause: Cause::OfferRejected, retry_at: None, counts: false, failed: false };
                self.back_or_fail(job, back);
            }
            StartRefusal::Draining | StartRefusal::AtCapacity => {
                self.stop_on_nodes(job, Millis::ZERO);
                // Not at once: the node would be offered it again before it has said that it takes no more.
                let retry_at = Some(self.now + OFFER_AGAIN);
                let back = Back { cause: Cause::OfferRejected, retry_at, counts: false, failed: false };
                self.back_or_fail(job, back);
            }
            StartRefusal::Unsupported | StartRefusal::Failed => {
                self.fault(node, true);
                self.not_started(job, false);
            }
        }
        Answer::Done
    }

    fn node_saved(&mut self, job: &JobId, node: &NodeId, phase: Phase) -> Answer {
        let saving = self.run_of(job).and_then(|run| run.saving.clone());
        let Some(saving) = saving.filter(|_| phase == Phase::Started) else {
            return Answer::Ignored("not_asked".into());
        };
        self.note_phase(job, node, Phase::Checkpointed, None);
        if !self.all_reached(job, Phase::Checkpointed) {
            return Answer::Done;
        }
        let stopped_by_walltime = self
            .run_of(job)
            .and_then(|run| run.stop.as_ref())
            .is_some_and(|stop| stop.cause == Cause::Walltime);
        if stopped_by_walltime {
            self.stop_on_nodes(job, Millis::ZERO);
            self.emit(Event::Suspended { job: job.clone(), cause: Cause::Walltime });
        } else if let Some(cause) = saving.leaves {
            // A report of an earlier checkpoint may have counted; whatever still runs must not run beside its successor.
            self.stop_on_nodes(job, Millis::ZERO);
            self.emit(Event::Suspended { job: job.clone(), cause });
        } else {
            self.emit(Event::Saved(job.clone()));
        }
        Answer::Done
    }

    fn saving_gets_on(&mut self, job: &JobId) -> Answer {
        let Some(saving) = self.run_of(job).and_then(|run| run.saving.clone()) else {
            return Answer::Ignored("not_asked".into());
        };
        if saving.extended {
            return Answer::Ignored("extended_before".into());
        }
        let half = Millis::new(saving.deadline.since(saving.asked_at).get() / 2);
        self.emit(Event::SavingExtended { job: job.clone(), deadline: saving.deadline + half });
        Answer::Done
    }

    fn save_failed(&mut self, job: &JobId) -> Answer {
        let Some(saving) = self.run_of(job).and_then(|run| run.saving.clone()) else {
            return Answer::Ignored("not_asked".into());
        };
        self.give_up_saving(job, saving.leaves);
        Answer::Done
    }

    /// A checkpoint came to nothing: a job that has to leave is stopped, any other goes on.
    pub(crate) fn give_up_saving(&mut self, job: &JobId, leaves: Option<Cause>) {
        match leaves {
            Some(cause) if !self.is_in(job, JobState::Stopping) => self.stop_job(job, cause),
            _ => self.emit(Event::SaveFailed(job.clone())),
        }
    }

    fn node_exited(
        &mut self,
        job: &JobId,
        code: i32,
        failure: Option<crate::input::Failure>,
        usage: &RunUsage,
    ) -> Answer {
        if self.is_in(job, JobState::Staging) && self.all_reached(job, Phase::Started) {
            // It was over before it said that it began.
            self.emit(Event::Started(job.clone()));
        }
        if code != 0 {
            // A gang fails as a whole with its first failure.
            self.stop_on_nodes(job, Millis::ZERO);
            let pull = self.dispatch_of(job) == Some(Dispatch::Pull);
            let stopping = self.is_in(job, JobState::Stopping);
            let failure = if self.seeks_result(job) { missed(failure) } else { failure };
            match failure.filter(|_| pull && !stopping) {
                Some(failure) => self.build_failed(job, failure, code, usage),
                None => self.all_exited(job, code, failure, usage),
            }
            return Answer::Done;
        }
        if self.all_reached(job, Phase::Ended) {
            if self.is_first_half(job) {
                let back = Back { cause: Cause::Fetched, retry_at: None, counts: false, failed: false };
                self.back_or_fail(job, back);
                return Answer::Done;
            }
            self.all_exited(job, 0, None, usage);
        }
        Answer::Done
    }

    /// Whether the present run of a build looks for its result elsewhere.
    fn seeks_result(&self, job: &JobId) -> bool {
        let record = self.state.job(job);
        let is_build = record.is_some_and(|record| record.job.spec.kind == JobKind::Build);
        is_build && self.run_of(job).is_some_and(|run| run.task == Some(Task::Fetch))
    }

    /// Whether the present run of an eval was to fetch only, and nobody stopped it.
    fn is_first_half(&self, job: &JobId) -> bool {
        let fetches = |run: &Run| run.task == Some(Task::Fetch) && run.stop.is_none();
        !self.seeks_result(job) && self.run_of(job).is_some_and(fetches)
    }

    fn node_stopped(&mut self, job: &JobId, node: &NodeId) -> Answer {
        if self.is_in(job, JobState::Stopping) {
            if self.all_reached(job, Phase::Ended) {
                self.all_stopped(job);
            }
        } else {
            // Nobody asked for it: as if the node had lost it, unless the job stops by itself where no server is in reach.
            let spec = self.state.job(job).map(|record| &record.job.spec);
            if spec.is_some_and(|spec| spec.on_disconnect != OnDisconnect::Stop) {
                self.fault(node, false);
            }
            self.lost_on(job, node);
        }
        Answer::Done
    }
}

/// How a run failed that looked for a result elsewhere: it was not there, unless the node knows better.
fn missed(failure: Option<Failure>) -> Option<Failure> {
    match failure {
        None | Some(Failure::Transient | Failure::MissingInput) => Some(Failure::FetchMiss),
        known => known,
    }
}
