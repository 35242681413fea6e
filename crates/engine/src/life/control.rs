//! What people do to jobs: cancel, hold, suspend, resume, checkpoint, change the walltime, forget.

use landfall_model::{Checkpoint, Dispatch, JobId, Lifecycle, Millis, NodeId, Placement, Time};

use super::{refused, unknown};
use crate::checkpoint;
use crate::effect::{Answer, Effect, Refused};
use crate::engine::Engine;
use crate::event::{Back, Event};
use crate::record::{Cause, JobRecord, JobState};
use crate::solver::{KindKey, Reservation};

impl Engine {
    pub(crate) fn cancel(&mut self, job: &JobId) -> Answer {
        if self.state.folded.contains_key(job) {
            return self.cancel_array(job);
        }
        if let Some((array, position)) = self.state.folded_element(job) {
            let array = array.job.id.clone();
            return self.cancel_folded(&array, position);
        }
        if self.call_off(job) {
            return Answer::Done;
        }
        let Some(record) = self.state.job(job) else { return Answer::Refused(unknown("job", job.as_str())) };
        let stop = record.run.as_ref().and_then(|run| run.stop.as_ref());
        match record.state {
            JobState::Completed | JobState::Failed | JobState::Cancelled => Answer::Ignored("ended".into()),
            JobState::Pending | JobState::Suspended => {
                self.end_unplaced(job, Cause::User);
                Answer::Done
            }
            JobState::Stopping if stop.is_some_and(|stop| stop.cause == Cause::User) => {
                Answer::Ignored("stopping".into())
            }
            JobState::Staging | JobState::Running | JobState::Checkpointing | JobState::Stopping => {
                self.stop_job(job, Cause::User);
                Answer::Done
            }
        }
    }

    /// Tells a job to end, and its nodes to kill it after the grace.
    pub(crate) fn stop_job(&mut self, job: &JobId, cause: Cause) {
        let grace = self.kill_grace(job);
        self.stop_on_nodes(job, grace);
        self.emit(Event::Stopping { job: job.clone(), cause, kill_at: self.now + grace });
    }

    pub(crate) fn kill_grace(&self, job: &JobId) -> Millis {
        let pool = self.state.job(job).and_then(|record| self.state.pools.get(&record.pool));
        let grace = pool.map_or(Millis::secs(30), |pool| pool.pool.batch.kill_grace_ms);
        // What runs for a peer is gone within two seconds, or another one may begin beside it.
        match pool.is_some_and(|pool| pool.pool.dispatch == Dispatch::Negotiate) {
            true => grace.min(Millis::secs(2)),
            false => grace,
        }
    }

    pub(crate) fn user_hold(&mut self, job: JobId, held: bool) -> Answer {
        if self.state.folded.contains_key(&job) {
            return self.hold_array(&job, held);
        }
        if let Some((array, _)) = self.state.folded_element(&job)
            && array.user_hold == held
        {
            return Answer::Ignored("as_it_was".into());
        }
        if let Err(refused) = self.unfold_named(&job) {
            return Answer::Refused(refused);
        }
        let Some(record) = self.state.job(&job) else { return Answer::Refused(unknown("job", job.as_str())) };
        if record.state != JobState::Pending {
            let message = format!("job `{job}` does not wait");
            return refused("not_pending", message, "only waiting jobs can be held");
        }
        if record.user_hold == held {
            return Answer::Ignored("as_it_was".into());
        }
        self.emit(Event::UserHold { job, held });
        Answer::Done
    }

    /// Makes a running job leave its nodes: with a checkpoint if it can, else by stopping it.
    pub(crate) fn evict(&mut self, job: &JobId, cause: Cause) {
        let Some(record) = self.state.job(job) else { return };
        if record.state != JobState::Running {
            return;
        }
        if self.can_save(record).is_err() {
            self.stop_job(job, cause);
            return;
        }
        self.ask_to_save(job, Some(cause));
    }

    /// Refuses to have a job saved that cannot be, or that has nowhere to save to.
    fn can_save(&self, record: &JobRecord) -> Result<(), Refused> {
        let (job, pool) = (&record.job.id, &record.pool);
        if record.job.spec.checkpoint == Checkpoint::None {
            let hint = "cancel it, or submit it with checkpoint = \"auto\" or \"manual\"";
            return Err(Refused::new("no_checkpoint", format!("job `{job}` cannot save its work"), hint));
        }
        if self
            .state
            .pools
            .get(pool)
            .is_some_and(|pool| !checkpoint::has_storage(&pool.pool.batch.checkpoint))
        {
            let message = format!("pool `{pool}` has nowhere to save the work of job `{job}`");
            let hint = "give the pool a `batch.checkpoint.storage_gib_s` above 0, or cancel the job";
            return Err(Refused::new("no_checkpoint_storage", message, hint));
        }
        Ok(())
    }

    /// The refusal for a job that is asked to save its work and does not run, or cannot.
    fn not_savable(&self, job: &JobId) -> Option<Answer> {
        if let Some(refused) = self.not_while_folded(job) {
            return Some(refused);
        }
        let Some(record) = self.state.job(job) else {
            return Some(Answer::Refused(unknown("job", job.as_str())));
        };
        if record.state != JobState::Running {
            let (message, hint) =
                (format!("job `{job}` does not run"), "only running jobs can save their work");
            return Some(refused("not_running", message, hint));
        }
        self.can_save(record).err().map(Answer::Refused)
    }

    fn ask_to_save(&mut self, job: &JobId, leaves: Option<Cause>) {
        let Some(record) = self.state.job(job) else { return };
        let deadline = self.now + checkpoint::timeout(record.job.spec.sensitive);
        let fence = self.state.fence(record);
        let leave = leaves.is_some();
        let nodes: Vec<_> = record.run.iter().flat_map(|run| &run.nodes).map(|at| at.node.clone()).collect();
        for node in nodes {
            self.want(Effect::Checkpoint { fence: fence.clone(), node, deadline, leave });
        }
        self.emit(Event::Saving { job: job.clone(), deadline, leaves });
    }

    pub(crate) fn suspend(&mut self, job: &JobId) -> Answer {
        if let Some(refused) = self.not_savable(job) {
            return refused;
        }
        self.evict(job, Cause::User);
        Answer::Done
    }

    pub(crate) fn resume(&mut self, job: &JobId, walltime: Option<Millis>) -> Answer {
        if let Some(refused) = self.not_while_folded(job) {
            return refused;
        }
        let Some(record) = self.state.job(job) else { return Answer::Refused(unknown("job", job.as_str())) };
        if record.state != JobState::Suspended {
            let message = format!("job `{job}` is not suspended");
            return refused("not_suspended", message, "only suspended jobs can be resumed");
        }
        let walltime = walltime.filter(|walltime| !walltime.is_zero());
        // A checkpoint at the very end leaves a millisecond.
        if walltime.is_none() && record.walltime().is_some_and(|left| left <= Millis::new(1)) {
            let message = format!("the walltime of job `{job}` is used up");
            let hint = format!("give it a new one: `landfall resume {job} --walltime 1h`");
            return refused("walltime_used_up", message, hint);
        }
        if let Some(walltime) = walltime {
            self.emit(Event::WalltimeSet { job: job.clone(), walltime });
        }
        let back = Back { cause: Cause::User, retry_at: None, counts: false, failed: false };
        self.emit(Event::Requeued { job: job.clone(), back: Box::new(back) });
        Answer::Done
    }

    pub(crate) fn checkpoint(&mut self, job: &JobId) -> Answer {
        if let Some(refused) = self.not_savable(job) {
            return refused;
        }
        if self.run_of(job).is_some_and(|run| run.saving.is_some()) {
            return Answer::Ignored("saving".into());
        }
        self.ask_to_save(job, None);
        Answer::Done
    }

    pub(crate) fn set_walltime(&mut self, job: &JobId, walltime: Millis) -> Answer {
        if self.state.folded.contains_key(job) {
            let message = format!("`{job}` is an array");
            return refused("is_array", message, "name one of its elements");
        }
        if let Err(refused) = self.unfold_named(job) {
            return Answer::Refused(refused);
        }
        let Some(record) = self.state.job(job) else { return Answer::Refused(unknown("job", job.as_str())) };
        if record.job.spec.lifecycle != Lifecycle::Bounded || walltime.is_zero() || record.state.is_final() {
            let message = format!("the walltime of job `{job}` cannot be set to {walltime}");
            return refused("out_of_range", message, "give a span above 0 to a bounded job");
        }
        if let Some(run) = record.run.as_ref() {
            let ends = run.started_at.map(|started| started + walltime);
            let later = ends > run.ends_at && run.ends_at.is_some();
            if later && self.would_move_a_reservation(job, ends) {
                let message = format!("a longer walltime of job `{job}` would delay a promised start");
                return refused("reserved", message, "ask for less, or wait");
            }
        }
        self.emit(Event::WalltimeSet { job: job.clone(), walltime });
        Answer::Done
    }

    /// Whether a reservation begins while the job would still be on its nodes, and has too few without those.
    fn would_move_a_reservation(&mut self, job: &JobId, ends: Option<Time>) -> bool {
        let Some(id) = self.state.job(job).map(|record| record.pool.clone()) else { return false };
        let Some((fleet, run)) = self.fleet(&id).zip(self.run_of(job)) else { return false };
        let pool = &self.state.pools[&id];
        let is_on = |node: &NodeId| run.nodes.iter().any(|at| at.node == *node);
        let is_of = |node: &NodeId, kind: KindKey| {
            fleet.slot(node).is_some_and(|slot| fleet.count(&[slot]).contains(&(kind, 1)))
        };
        let all = || pool.reservations.values();
        all().filter(|one| run.ends_at <= Some(one.start) && Some(one.start) < ends).any(|one| {
            let gone = |other: &Placement| {
                self.run_of(&other.job).and_then(|run| run.ends_at).is_some_and(|end| end <= one.start)
            };
            let overlaps = |other: &&Reservation| {
                one.end.is_none_or(|end| other.start < end) && other.end.is_none_or(|end| one.start < end)
            };
            let lacks = |&(kind, _): &(KindKey, u32)| {
                let left = pool.nodes.iter().zip(&pool.records).filter(|(node, kept)| {
                    let free = kept.kept_for.is_none() && node.placements.iter().all(gone);
                    free && is_of(&node.id, kind) && !is_on(&node.id)
                });
                let asked = all().filter(overlaps).flat_map(|other| &other.kinds).filter(|of| of.0 == kind);
                run.nodes.iter().any(|at| is_of(&at.node, kind))
                    && (left.count() as u64) < asked.map(|of| u64::from(of.1)).sum()
            };
            one.shared.iter().any(is_on) || one.kinds.iter().any(lacks)
        })
    }

    pub(crate) fn forget(&mut self, job: JobId) -> Answer {
        if self.state.folded.contains_key(&job) {
            return self.forget_array(&job);
        }
        if self.state.folded_element(&job).is_some() {
            let message = format!("job `{job}` has not ended");
            return refused("not_ended", message, "cancel it first");
        }
        let Some(record) = self.state.job(&job) else { return Answer::Ignored("unknown_job".into()) };
        if !record.state.is_final() {
            let message = format!("job `{job}` has not ended");
            return refused("not_ended", message, "cancel it first");
        }
        self.emit(Event::Forgotten(job));
        Answer::Done
    }
}
