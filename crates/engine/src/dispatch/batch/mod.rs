//! Batch: a cycle starts, the queue is ordered by score, and the solver says who starts where, who gets a reservation and
//! why the rest waits. What it proposes goes to the ledger in the order of the walk.
//!
//! One cycle: suspended jobs come back, running jobs may save their work, then score, solve, propose, remember.

mod census;
mod follow;
mod queue;
mod view;

use landfall_model::{JobId, Millis, PoolId};

use super::Queue;
use crate::checkpoint::{self, Candidate};
use crate::engine::Engine;
use crate::event::Back;
use crate::record::{Cause, JobState};

pub(super) use queue::BatchQueue;
pub(crate) use view::could_ever_fit;

/// How often running jobs are asked whether they should save their work.
const CHECKPOINT_EVERY: Millis = Millis::secs(30);

impl Engine {
    /// One cycle; nodes may have come back before they were expected since the last one.
    pub(crate) fn batch_cycle(&mut self, id: &PoolId, freed_early: bool) {
        self.bring_back_suspended(id);
        self.save_where_worth(id);
        let scaling: Vec<JobId> = match self.pools.get(id).map(|pool| &pool.queue) {
            Some(Queue::Batch(queue)) => queue.scaling().cloned().collect(),
            _ => Vec::new(),
        };
        self.raise_to_min(&scaling);
        self.widen_arrays(id);
        // Each time one of those who were promised a time starts.
        let most = self.state.pools.get(id).map_or(0, |pool| pool.reservations.len());
        for walked in 0..=most {
            let Some(plan) = self.solve_pool(id, freed_early && walked == 0) else { return };
            let again = plan.again;
            self.follow_plan(id, plan);
            if !again {
                return;
            }
        }
    }

    /// Jobs that were suspended for others are eligible again.
    fn bring_back_suspended(&mut self, id: &PoolId) {
        let Some(Queue::Batch(queue)) = self.pools.get(id).map(|pool| &pool.queue) else { return };
        let suspended: Vec<JobId> = queue.suspended().cloned().collect();
        for job in suspended {
            let cause = self
                .state
                .job(&job)
                .filter(|record| record.state == JobState::Suspended)
                .and_then(|record| record.past().suspended);
            if let Some(cause) = cause {
                let counts = cause == Cause::Reclaimed;
                self.back_or_fail(&job, Back { cause, retry_at: None, counts, failed: false });
            }
        }
    }

    /// Asks running jobs that save their work by themselves whether it is time.
    fn save_where_worth(&mut self, id: &PoolId) {
        let Some(pool) = self.state.pools.get(id) else { return };
        // Cycles come more often than this question, and on a beat of their own.
        let beat = |at: landfall_model::Time| at.as_millis().div_euclid(CHECKPOINT_EVERY.get() as i64);
        if beat(self.now) == beat(self.now - pool.pool.batch.cycle_ms) {
            return;
        }
        let Some(Queue::Batch(queue)) = self.pools.get(id).map(|pool| &pool.queue) else { return };
        let settings = pool.pool.batch.checkpoint;
        let backlog = self.backlog_of(id);
        let worth: Vec<JobId> = queue
            .saving()
            .filter(|job| {
                self.checkpoint_candidate(job, backlog)
                    .is_some_and(|job| checkpoint::decide(&settings, &job).saves())
            })
            .cloned()
            .collect();
        for job in worth {
            self.checkpoint(&job);
        }
    }

    fn checkpoint_candidate(&self, job: &JobId, backlog: f64) -> Option<Candidate> {
        let record = self.state.job(job)?;
        let run = record.run.as_ref()?;
        let spec = &record.job.spec;
        let auto = spec.checkpoint == landfall_model::Checkpoint::Auto;
        if record.state != JobState::Running || !auto || run.saving.is_some() {
            return None;
        }
        let since = run.saved_at.or(run.started_at)?;
        let Some(Queue::Batch(queue)) = self.pools.get(&record.pool).map(|pool| &pool.queue) else {
            return None;
        };
        Some(Candidate {
            nodes: run.nodes.len() as u64,
            gpus_per_node: u64::from(spec.gpu_count),
            since_saved: self.now.since(since),
            class: spec.class,
            higher_waiting: queue.waiting_above(spec.class),
            backlog,
            sensitive: spec.sensitive,
        })
    }
}
