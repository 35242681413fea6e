//! Batch: a cycle starts, the queue is ordered by score, and the solver says who starts where, who gets a reservation and
//! why the rest waits. What it proposes goes to the ledger in the order of the walk.
//!
//! One cycle: suspended jobs come back, then score, solve, propose, remember. Whether running jobs save their work is asked on a
//! beat of its own, so also where nothing waits.

mod census;
mod fits;
mod follow;
mod queue;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use landfall_model::{Job, JobId, Millis, PoolId, Time};
use landfall_policy::view::Pass;

use super::{Dispatcher, Queue};
use crate::checkpoint::{self, Candidate};
use crate::engine::Engine;
use crate::event::Back;
use crate::record::{JobState, RunNode};
use crate::timers::Timer;

pub(crate) use fits::against_ever;
pub(super) use queue::BatchQueue;

/// How often running jobs are asked whether they should save their work.
const CHECKPOINT_EVERY: Millis = Millis::secs(30);

impl Engine {
    /// One cycle; nodes may have come back before they were expected since the last one.
    pub(crate) fn batch_cycle(&mut self, id: &PoolId, freed_early: bool) {
        self.bring_back_suspended(id);
        let scaling: Vec<JobId> = match self.pools.get(id).map(|pool| &pool.queue) {
            Some(Queue::Batch(queue)) => queue.scaling.iter().cloned().collect(),
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
        let suspended: Vec<JobId> = queue.suspended.iter().cloned().collect();
        for job in suspended {
            let cause = self
                .state
                .job(&job)
                .filter(|record| record.state == JobState::Suspended)
                .and_then(|record| record.past().suspended);
            if let Some(cause) = cause {
                self.back_or_fail(&job, Back { cause, retry_at: None, counts: false, failed: false });
            }
        }
    }

    /// Has the running jobs of a pool that save their work by themselves asked on the next beat, if there are any.
    pub(crate) fn set_save_timer(&mut self, id: &PoolId) {
        let timer = Timer::Saves(id.clone());
        let Some(Queue::Batch(queue)) = self.pools.get(id).map(|pool| &pool.queue) else { return };
        if self.timers.of(&timer).is_none() && !queue.saving.is_empty() {
            let every = CHECKPOINT_EVERY.get() as i64;
            let beats = self.now.as_millis().div_euclid(every) + 1;
            self.timers.set(timer, Some(Time::from_millis(beats * every)));
        }
    }

    /// Asks running jobs that save their work by themselves whether it is time.
    pub(crate) fn save_where_worth(&mut self, id: &PoolId) {
        let Some(fleet) = self.fleet(id) else { return };
        let pool = self.state.pools.get(id).zip(self.pools.get(id));
        let Some((pool, Dispatcher { queue: Queue::Batch(queue), policy, .. })) = pool else { return };
        let settings = pool.pool.batch.checkpoint;
        let backlog = self.backlog_of(id);
        let pass = Pass::of_parts(self.now, &pool.world, &[], Default::default());
        // Many run on nodes of the same kinds.
        let mut known: BTreeMap<(u8, BTreeSet<usize>), u64> = BTreeMap::new();
        let mut above = |job: &JobId, class: u8| {
            let nodes = self.run_of(job).into_iter().flat_map(|run| &run.nodes);
            let kind_of = |at: &RunNode| fleet.kind_at(fleet.slot(&at.node)?);
            let kinds: BTreeSet<usize> = nodes.filter_map(kind_of).collect();
            *known.entry((class, kinds)).or_insert_with_key(|(class, kinds)| {
                let uses = |job: &Job, kind| policy.is_eligible(&pass, job, fleet.standing_for(kind));
                queue.waiting_above(*class, |job| kinds.iter().any(|&kind| uses(job, kind)))
            })
        };
        let worth: Vec<JobId> = queue
            .saving
            .iter()
            .filter(|job| {
                self.checkpoint_candidate(job, backlog).is_some_and(|seen| {
                    let seen = Candidate { higher_waiting: above(job, seen.class), ..seen };
                    checkpoint::decide(&settings, &seen).saves()
                })
            })
            .cloned()
            .collect();
        for job in worth {
            self.checkpoint(&job);
        }
        self.set_save_timer(id);
    }

    fn checkpoint_candidate(&self, job: &JobId, backlog: f64) -> Option<Candidate> {
        let record = self.state.job(job)?;
        let run = record.run.as_ref()?;
        let spec = &record.job.spec;
        if record.state != JobState::Running || run.saving.is_some() {
            return None;
        }
        let since = run.saved_at.or(run.started_at)?;
        Some(Candidate {
            nodes: run.nodes.len() as u64,
            gpus_per_node: u64::from(spec.gpu_count),
            since_saved: self.now.since(since),
            class: spec.class,
            higher_waiting: 0,
            backlog,
            sensitive: spec.sensitive,
        })
    }
}
