//! The end of all trouble: every machine comes back, limits are wide, and everything that can end must.

use landfall_engine::Input;
use landfall_engine::input::NodeOrder;
use landfall_engine::record::{JobRecord, JobState};
use landfall_model::{Caps, Dispatch, Mib, Millis, Node, NodeId, NodeState, Quota, Tenant, TenantId};

use crate::world::{Found, World, violation};

/// Virtual time after which whatever can end has ended.
const ENOUGH: Millis = Millis::secs(8 * 3600);

impl World {
    /// Ends all trouble and waits for the ends of all jobs.
    pub(crate) fn heal(&mut self) -> Found {
        self.calm = true;
        self.widen_limits()?;
        let nodes: Vec<NodeId> = self.agents.keys().cloned().collect();
        for id in &nodes {
            if let Some(agent) = self.agents.get_mut(id) {
                (agent.up, agent.cut) = (true, false);
            }
            self.join(id)?;
        }
        // One machine stays out of service: nobody may wait for it in vain.
        let out = self.rng.chance(40).then(|| self.rng.pick(&nodes)).flatten();
        for node in nodes {
            let out = out.as_ref() == Some(&node);
            let order = if out { NodeOrder::Drain } else { NodeOrder::Return };
            self.step(Input::Order { node, order })?;
        }
        let until = self.now + ENOUGH;
        while self.open().next().is_some() && self.now < until {
            self.release_people()?;
            for _ in 0..20 {
                self.advance()?;
            }
            if self.open().all(|record| !self.can_end(record)) {
                break;
            }
        }
        let stuck: Vec<String> = self.open().filter(|record| self.can_end(record)).map(describe).collect();
        if stuck.is_empty() {
            return Ok(());
        }
        violation(
            "everything_feasible_ends",
            format!("at {}:\n{}\n{}", self.now, stuck.join("\n"), self.fleet()),
        )
    }

    fn widen_limits(&mut self) -> Found {
        for mut pool in self.pools.clone() {
            pool.pull.paused = false;
            pool.price = None;
            // In strict order a job that cannot run keeps all others waiting, as it should.
            pool.push.queue_discipline = landfall_model::Discipline::BestEffort;
            if pool.batch.backfill == landfall_model::Backfill::Strict {
                pool.batch.backfill = landfall_model::Backfill::Easy;
            }
            (pool.batch.power_cap_w, pool.batch.io_cap) = (None, None);
            self.step(Input::SetPool { pool: Box::new(pool), policy: None })?;
        }
        self.step(Input::SetCaps(Caps::default()))?;
        let tenants: Vec<TenantId> = self.engine.state().tenants.keys().cloned().collect();
        for id in tenants {
            let mut tenant = Tenant::new(id);
            tenant.quota = Quota::default();
            self.step(Input::SetTenant(Box::new(tenant)))?;
        }
        Ok(())
    }

    /// People let go of what they keep.
    fn release_people(&mut self) -> Found {
        let arrays = self.engine.state().folded.values();
        let held: Vec<_> = arrays.filter(|array| array.user_hold).map(|array| array.job.id.clone()).collect();
        for job in held {
            self.step(Input::UserHold { job, held: false })?;
        }
        let kept = self.open().filter(|record| record.user_hold || record.state == JobState::Suspended);
        let kept: Vec<_> = kept.map(|record| (record.job.id.clone(), record.user_hold)).collect();
        for (job, held) in kept {
            if held {
                self.step(Input::UserHold { job, held: false })?;
            } else {
                self.step(Input::Resume { job, walltime: Some(Millis::secs(60)) })?;
            }
        }
        Ok(())
    }

    fn open(&self) -> impl Iterator<Item = &JobRecord> {
        self.engine.state().jobs.values().map(|record| &**record).filter(|record| !record.state.is_final())
    }

    /// Whether enough machines of its pool could run it, were they idle.
    fn can_end(&self, record: &JobRecord) -> bool {
        if record.state != JobState::Pending {
            return true;
        }
        if record.job.waits_for.is_some() {
            let state = self.engine.state();
            let array = state.element_of(&record.job.id).map(|(array, _)| &array.job.id);
            let open = state.graph.open_edges(array.unwrap_or(&record.job.id));
            return open.is_none_or(|(_, mut edges)| {
                edges.all(|edge| {
                    // What becomes of a whole array is not looked into.
                    if state.folded.contains_key(&edge.on) || state.element_of(&edge.on).is_some() {
                        return false;
                    }
                    self.engine.state().job(&edge.on).is_none_or(|on| on.state.is_final() || self.can_end(on))
                })
            });
        }
        let Some(pool) = self.engine.state().pools.get(&record.pool) else { return false };
        let spec = &record.job.spec;
        let fits = |node: &&Node| {
            let devices = node.gpus.iter().filter(|gpu| gpu.vram_total() >= spec.vram_mib).count();
            let fingerprint = !spec.sensitive || (node.fingerprint.is_some() && !node.drifted);
            let ram = spec.ram_mib + node.ram_reported.unwrap_or(Mib::ZERO);
            node.state == NodeState::Ready
                && node.accepting
                && node.cpu_total >= spec.cpu_milli
                && node.ram_total >= ram
                && devices >= spec.gpu_count as usize
                && fingerprint
                && (node.tenants.is_empty() || pool.pool.dispatch != Dispatch::Pull)
        };
        pool.nodes.iter().filter(fits).count() >= spec.nodes.min as usize
    }

    fn fleet(&self) -> String {
        let nodes = self.engine.state().pools.values().flat_map(|pool| pool.nodes.iter().zip(&pool.records));
        let lines = nodes.map(|(node, kept)| {
            let gpus: Vec<u64> = node.gpus.iter().map(|gpu| gpu.vram_total().get() / 1024).collect();
            let on: Vec<_> = node.placements.iter().map(|placement| &placement.job).collect();
            format!(
                "  {} in {:?}: {:?}, {} {} GPUs {gpus:?}, has {on:?}, kept for {:?}, rests until {:?}",
                node.id,
                node.pool,
                node.state,
                node.cpu_total,
                node.ram_total,
                kept.kept_for,
                node.cooldown_until
            )
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn describe(record: &JobRecord) -> String {
    let spec = &record.job.spec;
    format!(
        "  {} in {} is {:?} in attempt {} ({} nodes, {} {} {} GPUs of {} at {}, exclusive {}, sensitive {}), waits for {:?}, not before {:?}, past {:?}",
        record.job.id,
        record.pool,
        record.state,
        record.attempt,
        spec.nodes.min,
        spec.cpu_milli,
        spec.ram_mib,
        spec.gpu_count,
        spec.vram_mib,
        spec.gpu_milli.get(),
        spec.exclusive,
        spec.sensitive,
        record.job.waits_for,
        record.job.retry_at,
        record.past
    )
}
