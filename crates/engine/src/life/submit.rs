//! Accepting jobs: all of a submission or nothing.

use landfall_model::{Dispatch, Job, JobId, Name, PoolId, Warmth};

use super::{refused, unknown};
use crate::dag;
use crate::effect::{Answer, Effect, Refused};
use crate::engine::Engine;
use crate::event::Event;
use crate::input::Submission;
use crate::quota;

impl Engine {
    pub(crate) fn submit(&mut self, jobs: Vec<Submission>) -> Answer {
        let mut accepted: Vec<(Job, PoolId, bool)> = Vec::with_capacity(jobs.len());
        let mut new: Vec<dag::NewJob> = Vec::new();
        let linked = jobs.iter().any(|job| !job.edges.is_empty() || job.element.is_some());
        if let Some(taken) = jobs.iter().map(|submission| &submission.job.id).find(|id| self.is_of_array(id))
        {
            let message = format!("`{taken}` is an array, or an element of one");
            return Answer::Refused(Refused::new("duplicate_job", message, "give the job an id of its own"));
        }
        // An id that is known already changes nothing; the whole submission must then be the same one.
        let known = jobs.iter().filter(|submission| self.state.jobs.contains_key(&submission.job.id)).count();
        if known > 0 {
            if known == jobs.len() {
                return Answer::Ignored("submitted_before".into());
            }
            let message = "some of these jobs were submitted before and some were not";
            return refused("duplicate_job", message, "give the new jobs ids of their own");
        }
        let tenant = jobs.first().and_then(|submission| submission.job.spec.tenant.clone());
        for submission in jobs {
            let pool = match self.pool_for(&submission) {
                Ok(pool) => pool,
                Err(refused) => return Answer::Refused(refused),
            };
            if let Err(refused) = self.acceptable(&submission.job, &pool, 1) {
                return Answer::Refused(refused);
            }
            if linked {
                new.push(dag::NewJob {
                    id: submission.job.id.clone(),
                    element: submission.element.clone(),
                    join: submission.join,
                    edges: submission.edges.clone(),
                    mutex: submission.job.spec.mutex.clone(),
                });
            }
            let job = self.as_accepted(submission.job, submission.not_before, &submission.edges);
            accepted.push((job, pool, submission.user_hold));
        }
        if !linked {
            let ids = accepted.iter().map(|(job, ..)| &job.id).collect::<std::collections::BTreeSet<_>>();
            if ids.len() < accepted.len() {
                let refused =
                    Refused::new("duplicate_job", "two jobs have one id", "give each an id of its own");
                return Answer::Refused(refused);
            }
        }
        let edges = linked.then_some(dag::Submission { tenant, jobs: new });
        if let Some(edges) = &edges
            && let Err(error) = self.state.graph.check(edges, |id| self.state.known(id, edges))
        {
            let code = error.code();
            return Answer::Refused(Refused::new(code, error.to_string(), "change the dependencies"));
        }
        for (job, pool, user_hold) in accepted {
            self.stage(&job, &pool);
            let (id, awarded) = (job.id.clone(), self.end_award(&job.id));
            self.emit(Event::Submitted { job: Box::new(job), pool: pool.clone(), user_hold });
            if awarded {
                self.place_first(&pool, &id);
            }
        }
        if let Some(edges) = edges {
            self.emit(Event::Linked(Box::new(edges)));
        }
        Answer::Done
    }

    /// Whether an id belongs to an array that was submitted as one.
    fn is_of_array(&self, id: &JobId) -> bool {
        self.state.folded.contains_key(id) || self.state.element_of(id).is_some()
    }

    pub(super) fn pool_for(&self, submission: &Submission) -> Result<PoolId, Refused> {
        let named = submission.pool.as_ref().or(submission.job.spec.pool.as_ref());
        match named {
            Some(pool) if self.state.pools.contains_key(pool) => Ok(pool.clone()),
            Some(pool) => Err(unknown("pool", pool.as_str())),
            None if self.state.pools.len() == 1 => Ok(self
                .state
                .pools
                .keys()
                .next()
                .cloned()
                .unwrap_or_else(|| unreachable!("there is one pool"))),
            None => {
                let message = format!("job `{}` names no pool", submission.job.id);
                Err(Refused::new("no_pool", message, "name the pool; there is not exactly one"))
            }
        }
    }

    pub(super) fn acceptable(&mut self, job: &Job, pool: &PoolId, count: u64) -> Result<(), Refused> {
        let spec = &job.spec;
        if let Err(error) = spec.validate() {
            let hint = format!("change `{}`", error.field);
            return Err(Refused::new(error.code, error.message, hint));
        }
        let Some(state) = self.state.pools.get(pool) else { return Err(unknown("pool", pool.as_str())) };
        if spec.nodes.max > 1 && state.pool.dispatch != Dispatch::Batch {
            let message =
                format!("job `{}` wants several nodes, and pool `{pool}` places one at a time", job.id);
            return Err(Refused::new("gang_unsupported", message, "submit it to a batch pool"));
        }
        if let Some((message, hint)) = state.pool.starts_beside(spec) {
            let message = format!("job `{}` {message}", job.id);
            return Err(Refused::new("stops_too_late", message, hint));
        }
        if let Some(tenant) = spec.tenant.as_ref().and_then(|id| self.state.tenants.get(id)) {
            let limited = tenant.tenant.budget.money.is_some();
            let least = limited.then(|| self.state.least_price(spec, pool)).flatten();
            let on_submit = state.pool.batch.quota_on_submit;
            let kept = self.state.kept_of(&tenant.tenant.id, None);
            quota::at_submission(tenant, spec, count, on_submit, (self.now, least), &kept)?;
        }
        if state.pool.dispatch == Dispatch::Batch && !spec.wait_for_capacity {
            self.could_ever_fit(job, pool)?;
        }
        Ok(())
    }

    /// The job as the ledger keeps it: times set here, dependencies pending.
    pub(super) fn as_accepted(
        &mut self,
        mut job: Job,
        not_before: Option<landfall_model::Time>,
        edges: &[dag::Edge],
    ) -> Job {
        job.spec = self.specs.shared(job.spec);
        (job.submitted_at, job.queued_at, job.ready_at) = (self.now, self.now, self.now);
        job.retry_at = not_before.filter(|at| *at > self.now);
        if let Some(at) = job.retry_at {
            // Waiting for its own time is not waiting.
            (job.queued_at, job.ready_at) = (at, at);
        }
        job.waits_for = edges
            .iter()
            .find(|edge| edge.kind != dag::EdgeKind::Mutex)
            .and_then(|edge| Name::new(edge.on.as_str()).ok());
        job
    }

    /// Has the inputs of a job brought near, where the pool has a stager.
    pub(super) fn stage(&mut self, job: &Job, pool: &PoolId) {
        let staged = self.state.pools.get(pool).is_some_and(|pool| pool.pool.batch.staging);
        let far = job.spec.inputs.iter().flatten().filter(|input| input.tier != Warmth::Hot);
        let inputs: Vec<Name> = far.map(|input| input.digest.clone()).collect();
        if staged && !inputs.is_empty() {
            self.want(Effect::Stage { job: job.id.clone(), inputs });
        }
    }

    /// An input of a waiting job was brought near, or could not be.
    pub(crate) fn staged(&mut self, job: JobId, digest: Name, near: bool) -> Answer {
        let Some(record) = self.state.job(&job) else { return Answer::Refused(unknown("job", job.as_str())) };
        if !record.job.spec.inputs.iter().flatten().any(|input| input.digest == digest) {
            let message = format!("job `{job}` has no input `{digest}`");
            return Answer::Refused(Refused::new("unknown_input", message, "name one of its inputs"));
        }
        self.emit(Event::Staged { job, digest, near });
        Answer::Done
    }

    /// What follows for a job from the end of another.
    pub(crate) fn dependency_changed(&mut self, change: dag::Change) {
        match change {
            dag::Change::Released(job) if self.state.folded.contains_key(&job) => {
                let waits = self.state.folded.get(&job).is_some_and(|array| array.job.waits_for.is_some());
                if waits {
                    self.emit(Event::Eligible(job));
                }
            }
            dag::Change::Released(job) => {
                let waits = self.state.job(&job).is_some_and(|record| record.job.waits_for.is_some());
                if waits {
                    self.emit(Event::Eligible(job));
                }
            }
            dag::Change::Cancelled { job, edge, as_state } => {
                if self.state.folded.contains_key(&job) {
                    let on_failure = as_state == dag::TerminalState::Unneeded;
                    let cause = crate::record::Cause::DependencyUnsatisfiable { edge: edge.on, on_failure };
                    self.end_array(&job, cause);
                } else if self.state.job(&job).is_some_and(|record| !record.state.is_final()) {
                    let on_failure = as_state == dag::TerminalState::Unneeded;
                    self.end_unplaced(
                        &job,
                        crate::record::Cause::DependencyUnsatisfiable { edge: edge.on, on_failure },
                    );
                }
            }
        }
    }

    /// Ends a job that holds no nodes.
    pub(crate) fn end_unplaced(&mut self, job: &JobId, cause: crate::record::Cause) {
        let state = crate::record::JobState::Cancelled;
        self.emit(Event::Ended { job: job.clone(), state, cause });
    }
}
