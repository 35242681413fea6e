//! Surges: jobs cost more while many wait, where their pool says so.

use landfall_model::{Node, PoolId, Time};

use crate::dispatch::Dispatcher;
use crate::engine::Engine;
use crate::event::Event;
use crate::state::PoolState;

impl Engine {
    /// When it is looked at next whether many jobs wait in a pool; `None` where that changes nothing.
    pub(crate) fn surge_due(&self, id: &PoolId, pool: &PoolState) -> Option<Time> {
        let surges = pool.pool.price.is_some_and(|price| price.surge);
        let waits = || self.pools.get(id).is_some_and(Dispatcher::has_queued);
        (surges && (pool.world.surging.contains(id) || waits())).then_some(pool.surge_next)
    }

    /// Looks where it is due.
    pub(crate) fn look_for_surges(&mut self) {
        let due =
            |(id, pool): &(&PoolId, &PoolState)| self.surge_due(id, pool).is_some_and(|at| at <= self.now);
        let due: Vec<(PoolId, bool, Time)> = (self.state.pools.iter().filter(due))
            .filter_map(|(id, pool)| {
                let price = pool.pool.price?;
                let takes_work = |node: &&Node| {
                    node.takes_work() && node.block.as_ref().is_none_or(|block| block.usable_at(self.now))
                };
                let nodes = pool.nodes.iter().filter(takes_work).count();
                let many = self.waiting_in(id) as f64 > price.surge_ratio * nodes as f64;
                Some((id.clone(), many, self.now + price.surge_every_ms))
            })
            .collect();
        for (pool, on, next) in due {
            self.emit(Event::Surge { pool, on, next });
        }
    }
}
