//! Pools, tenants and other settings.

use std::sync::Arc;

use landfall_model::{HistoryRow, Instance, JobKind, Pool, PoolId, Prediction, Tenant, TenantId};
use landfall_policy::rules::pull::{ActiveBuild, WorkShares};

use super::unknown;
use crate::dispatch::Dispatcher;
use crate::effect::{Answer, Refused};
use crate::engine::Engine;
use crate::event::Event;

impl Engine {
    pub(crate) fn take_over(&mut self) -> Answer {
        self.emit(Event::Epoch(self.state.epoch + 1));
        self.listen()
    }

    /// Silence counts from now.
    pub(crate) fn listen(&mut self) -> Answer {
        self.listening_since = self.now;
        self.set_listening_timers();
        Answer::Done
    }

    pub(crate) fn set_pool(&mut self, pool: Box<Pool>, policy: Option<Arc<str>>) -> Answer {
        if let Err(error) = pool.validate() {
            return Answer::Refused(Refused::new("out_of_range", error.message, "change the setting"));
        }
        if let Some(state) = self.state.pools.get(&pool.id) {
            let busy = state.pool.dispatch != pool.dispatch
                && (self.state.folded.values().any(|array| array.pool == pool.id && !array.is_over())
                    || self
                        .state
                        .jobs
                        .values()
                        .any(|record| record.pool == pool.id && !record.state.is_final()));
            if busy {
                let message = format!("pool `{}` has jobs, so its way to dispatch cannot change", pool.id);
                return Answer::Refused(Refused::new(
                    "pool_busy",
                    message,
                    "let its jobs end, or make a new pool",
                ));
            }
        }
        if let Err(refused) = Dispatcher::check_policy(policy.as_deref()) {
            return Answer::Refused(refused);
        }
        self.emit(Event::PoolSet { pool, policy });
        Answer::Done
    }

    pub(crate) fn set_tenant(&mut self, tenant: Box<Tenant>) -> Answer {
        let numbers = [tenant.share, tenant.burst, tenant.quota.max_nodes];
        if !numbers.iter().all(|number| number.is_finite() && *number >= 0.0) || tenant.share > 1.0 {
            let message = format!("tenant `{}` has a share, burst or quota out of range", tenant.id);
            return Answer::Refused(Refused::new(
                "out_of_range",
                message,
                "share is 0 to 1, the others 0 or more",
            ));
        }
        self.emit(Event::TenantSet(tenant));
        Answer::Done
    }

    /// Takes in what a pull pool has lately seen, and how its running work divides between tenants, if its policy asks.
    pub(crate) fn set_instance(&mut self, pool: PoolId, instance: Box<Instance>) -> Answer {
        let usual = instance.build_time_ms.h1;
        let answer = self.in_pool(&pool.clone(), Event::InstanceSet { pool: pool.clone(), instance });
        let asks = |kind| self.pools.get(&pool).is_some_and(|it| it.policy(kind).reads().tenant_work_share);
        if !asks(JobKind::Build) && !asks(JobKind::Eval) {
            return answer;
        }
        let Some(state) = self.state.pools.get(&pool) else { return answer };
        let builds: Vec<ActiveBuild> = state
            .nodes
            .iter()
            .flat_map(|node| &node.placements)
            .filter_map(|placement| self.state.job(&placement.job))
            .filter(|record| record.job.spec.kind == JobKind::Build)
            .map(|record| {
                let spec = &record.job.spec;
                let rows = spec.workload.as_ref().and_then(|workload| state.world.history.get(workload));
                let own = Prediction::from_rows(rows.into_iter().flatten(), spec.inputs_total_bytes());
                ActiveBuild {
                    tenant: spec.tenant.clone(),
                    history_build_time: own.build_time_ms,
                    prefer_local: spec.prefer_local,
                }
            })
            .collect();
        let shares = WorkShares::of(&builds, usual);
        let changed: Vec<(TenantId, Option<f64>)> = state
            .world
            .tenants
            .iter()
            .map(|(id, tenant)| (id.clone(), shares.share(id), tenant.work_share))
            .filter(|(_, share, known)| share != known)
            .map(|(id, share, _)| (id, share))
            .collect();
        for (tenant, share) in changed {
            self.emit(Event::WorkShare { pool: pool.clone(), tenant, share });
        }
        answer
    }

    pub(crate) fn set_energy_price(&mut self, price: Option<f64>) -> Answer {
        if price.is_some_and(|price| !price.is_finite()) {
            let refused =
                Refused::new("not_finite", "the energy price is not a number", "send a number or nothing");
            return Answer::Refused(refused);
        }
        self.emit(Event::EnergyPrice(price));
        Answer::Done
    }

    pub(crate) fn add_history(&mut self, pool: &PoolId, rows: Vec<HistoryRow>) -> Answer {
        if !self.state.pools.contains_key(pool) {
            return Answer::Refused(unknown("pool", pool.as_str()));
        }
        for row in rows {
            self.emit(Event::History { pool: pool.clone(), row: Box::new(row) });
        }
        Answer::Done
    }
}
