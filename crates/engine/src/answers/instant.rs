//! Lets a copy of the engine do everything that can be done at this instant.
//!
//! A live engine waits for the next tick, and for workers to ask. A copy that is only looked at does not: cycles run
//! now, and the workers of pull pools ask now, by id, as long as there is work for them.

use std::collections::BTreeSet;

use landfall_model::{Dispatch, JobId, JobKind, NodeId, PoolId};

use crate::effect::Answer;
use crate::engine::Engine;
use crate::event::Event;

/// Rounds after which an instant is over in any case.
const ROUNDS_MAX: u32 = 16;

impl Engine {
    /// A copy in which everything that can start at this instant has been committed.
    pub fn after_this_instant(&self) -> Self {
        let mut copy = self.clone();
        copy.now = self.now;
        copy.finish_instant();
        copy
    }

    /// Starts whatever can start now; gives all that happened.
    pub(super) fn finish_instant(&mut self) -> Vec<Event> {
        let mut happened = self.take_events();
        let pools: Vec<(PoolId, Dispatch)> =
            self.state.pools.iter().map(|(id, pool)| (id.clone(), pool.pool.dispatch)).collect();
        for _ in 0..ROUNDS_MAX {
            for (pool, dispatch) in &pools {
                match dispatch {
                    Dispatch::Push | Dispatch::Negotiate => self.push_pass(pool, true),
                    Dispatch::Pull => {
                        self.idle_workers_ask(pool, u32::MAX);
                    }
                    Dispatch::Batch if self.wants_cycle(pool) => self.cycle(pool),
                    Dispatch::Batch => {}
                }
            }
            self.settle();
            let events = self.take_events();
            let started = events.iter().any(|event| matches!(event, Event::Committed(_)));
            happened.extend(events);
            if !started {
                break;
            }
        }
        happened
    }

    /// Lets every worker with room ask, by id, until none gets anything; gives how many requests are left.
    pub(super) fn idle_workers_ask(&mut self, pool: &PoolId, mut requests: u32) -> u32 {
        loop {
            let mut given = false;
            for kind in [JobKind::Build, JobKind::Eval] {
                for node in self.workers_with_room(pool, kind) {
                    if requests == 0 || !self.pools.get(pool).is_some_and(|pool| pool.has_queued()) {
                        return requests;
                    }
                    requests -= 1;
                    given |= matches!(self.ask(&node, kind), Answer::Work(_));
                }
            }
            if !given {
                return requests;
            }
        }
    }

    /// Workers that would ask for work of a kind, by id.
    fn workers_with_room(&self, pool: &PoolId, kind: JobKind) -> BTreeSet<NodeId> {
        let Some(state) = self.state.pools.get(pool) else { return BTreeSet::new() };
        let open = state.nodes.iter().filter(|node| node.takes_work());
        open.filter(|node| self.has_room(node, kind)).map(|node| node.id.clone()).collect()
    }

    /// Whether a worker takes one more piece of work of a kind.
    pub(super) fn has_room(&self, node: &landfall_model::Node, kind: JobKind) -> bool {
        kind == JobKind::Eval || (node.placements.len() as u64) < u64::from(node.max_concurrent)
    }

    /// Jobs that were committed among some events.
    pub(super) fn committed_among(events: &[Event]) -> Vec<JobId> {
        let of = |event: &Event| match event {
            Event::Committed(commit) => Some(commit.job.clone()),
            _ => None,
        };
        events.iter().filter_map(of).collect()
    }
}
