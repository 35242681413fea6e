//! Pools, tenants and other settings.

use std::sync::Arc;

use landfall_model::{HistoryRow, Instance, JobKind, Pool, PoolId, Prediction, Tenant, TenantId};
use landfall_policy::rules::pull::{ActiveBuild, WorkShares};

use super::{refused, unknown};
use crate::dispatch::Dispatcher;
use crate::effect::{Answer, Refused};
use crate::engine::Engine;
use crate::event::Event;
use crate::timers::Timer;

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

    /// Answers to starts that went out before now may stand in line.
    pub(crate) fn stalled(&mut self) -> Answer {
        self.stalled_at = self.now;
        Answer::Done
    }

    pub(crate) fn set_pool(&mut self, pool: Box<Pool>, policy: Option<Arc<str>>) -> Answer {
        if let Err(error) = pool.validate() {
            return Answer::Refused(Refused::new("out_of_range", error.message, "change the setting"));
        }
        if let Some(state) = self.state.pools.get(&pool.id) {
            let busy = state.pool.dispatch != pool.dispatch && self.has_jobs(&pool.id);
            if busy {
                let message = format!("pool `{}` has jobs, so its way to dispatch cannot change", pool.id);
                return refused("pool_busy", message, "let its jobs end, or make a new pool");
            }
            // What it promised to the jobs that it took, it keeps.
            let live = self.state.jobs.values().filter(|it| it.pool == pool.id && !it.state.is_final());
            let arrays = self.state.folded.values().filter(|it| it.pool == pool.id && !it.is_over());
            for job in live.map(|it| &it.job).chain(arrays.map(|it| &it.job)) {
                let before = state.pool.starts_beside(&job.spec);
                if let Some((message, hint)) = pool.starts_beside(&job.spec).filter(|_| before.is_none()) {
                    let message = format!("job `{}` {message}", job.id);
                    return refused("stops_too_late", message, format!("{hint}; or let it end first"));
                }
            }
        }
        if let Err(refused) = Dispatcher::check_policy(policy.as_deref()) {
            return Answer::Refused(refused);
        }
        self.emit(Event::PoolSet { pool, policy });
        Answer::Done
    }

    pub(crate) fn set_tenant(&mut self, tenant: Box<Tenant>) -> Answer {
        let numbers = [tenant.share, tenant.burst, tenant.quota.max_nodes.unwrap_or_default()];
        if !numbers.iter().all(|number| number.is_finite() && *number >= 0.0) || tenant.share > 1.0 {
            let message = format!("tenant `{}` has a share, burst or quota out of range", tenant.id);
            return refused("out_of_range", message, "share is 0 to 1, the others 0 or more");
        }
        self.emit(Event::TenantSet(tenant));
        Answer::Done
    }

    /// Whether a pool has jobs that have not ended.
    fn has_jobs(&self, pool: &PoolId) -> bool {
        let arrays = self.state.folded.values().filter(|array| array.pool == *pool);
        let jobs = self.state.jobs.values().filter(|record| record.pool == *pool);
        arrays.into_iter().any(|array| !array.is_over())
            || jobs.into_iter().any(|record| !record.state.is_final())
    }

    /// Takes a pool away. Nothing is stopped or sent elsewhere for it: what it has is dealt with first, by whoever can say how.
    pub(crate) fn delete_pool(&mut self, id: PoolId) -> Answer {
        let refuse =
            |code: &'static str, message, hint: String| Answer::Refused(Refused::new(code, message, hint));
        let Some(state) = self.state.pools.get(&id) else {
            return Answer::Refused(unknown("pool", id.as_str()));
        };
        if self.has_jobs(&id) {
            let message = format!("pool `{id}` has jobs that wait or run");
            let hint = format!("let them end or cancel them; `landfall jobs --pool {id}` lists them");
            return refuse("pool_busy", message, hint);
        }
        if let Some(node) = state.present().next() {
            let (node, count) = (&node.id, state.present().count());
            let message = match count {
                1 => format!("pool `{id}` has node `{node}`"),
                _ => format!("pool `{id}` has {count} nodes, such as `{node}`"),
            };
            let hint = format!(
                "end their agents, then `landfall remove {node}`; `landfall nodes --pool {id}` lists them"
            );
            return refuse("pool_has_nodes", message, hint);
        }
        if self.state.pools.len() == 1 {
            let message = format!("pool `{id}` is the only one there is, and jobs need one");
            return refuse(
                "last_pool",
                message,
                "make another one first: `landfall pools set NAME --dispatch push`".into(),
            );
        }
        self.timers.set(Timer::Peer(id.clone()), None);
        self.emit(Event::PoolDeleted(id));
        Answer::Done
    }

    /// Takes a tenant away; what its jobs used stays in their records.
    pub(crate) fn delete_tenant(&mut self, id: TenantId) -> Answer {
        let Some(state) = self.state.tenants.get(&id) else {
            return Answer::Refused(unknown("tenant", id.as_str()));
        };
        if state.jobs > 0 {
            let message = format!("tenant `{id}` has jobs that wait or run: {}", state.jobs);
            let hint = format!("let them end or cancel them; `landfall jobs --tenant {id}` lists them");
            return Answer::Refused(Refused::new("tenant_busy", message, hint));
        }
        self.emit(Event::TenantDeleted(id));
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
