//! Pools, tenants and blocks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use landfall_model::{
    Block, JobId, Name, Node, NodeId, NodeState, Pool, PoolId, Provider, Region, Tenant, TenantId, Time,
    Usage, WorkloadId, World,
};
use serde::{Deserialize, Serialize};

use super::jobs::{cpu_of, price_of};
use super::{State, TenantState, Touched};
use crate::habits::Habits;
use crate::preempt::PreemptBudget;
use crate::quota::{BUDGET_WINDOW, UsageMeter, hours};
use crate::record::{JobRecord, NodeRecord};
use crate::solver::Reservation;
use crate::units::{MICRO, Micro};

/// Finished runs kept per workload.
pub(super) const HISTORY_ROWS_KEPT: usize = 800;

/// Whether the units of a node in that state count.
fn counts(state: NodeState) -> bool {
    matches!(state, NodeState::Ready | NodeState::Draining)
}

/// Whole nodes kept for a job that others have to make room for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    pub nodes: Vec<NodeId>,
    /// Until when at most.
    pub until: Time,
    /// The jobs that have to leave first.
    pub victims: Vec<JobId>,
}

/// What was measured outside, in place of what is added up here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    pub at: Time,
    /// Watts drawn, if measured.
    pub power_w: Option<u64>,
    /// Storage traffic in bytes per second, if measured.
    pub io_bytes_s: Option<u64>,
}

/// One pool with its nodes, and what its policy reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolState {
    pub pool: Pool,
    /// Its policy file, if it has one of its own.
    pub policy: Option<Arc<str>>,
    /// Its nodes; a node keeps its position for life.
    pub nodes: Vec<Node>,
    /// What the ledger keeps of each node, by position.
    pub records: Vec<NodeRecord>,
    /// Nodes in service or finishing what they have.
    pub in_service: u64,
    /// What its policy reads beside nodes and jobs.
    pub world: World,
    /// Node units held by each tenant here, in millionths; jobs without tenant are under `None`.
    pub held: BTreeMap<Option<TenantId>, Micro>,
    /// Use of each tenant that fades, where the pool measures it so.
    pub meters: BTreeMap<TenantId, UsageMeter>,
    /// What the pool had since it is measured, for tenants that come later.
    #[serde(default)]
    pub had: Option<UsageMeter>,
    /// Watts above idle that placed jobs count for.
    pub power_w: u64,
    /// Storage traffic of placed jobs, in bytes per second.
    pub io_bytes_s: u64,
    /// What was measured last.
    pub measured: Option<Measured>,
    /// What may still be stopped for more urgent work.
    pub preempt_budget: PreemptBudget,
    /// Future time kept for waiting jobs.
    pub reservations: BTreeMap<JobId, Reservation>,
    /// Whole nodes kept for jobs that others have to make room for.
    pub kept: BTreeMap<JobId, Kept>,
    /// Timer rounds of a pull pool so far.
    pub rounds: u64,
    /// When the next cycle or tick is due.
    pub next_cycle: Time,
    /// When it is looked at next whether many jobs wait, where that makes them cost more.
    #[serde(default)]
    pub surge_next: Time,
    /// How long jobs take here, where time is planned.
    #[serde(default)]
    pub habits: Habits,
    /// How much work there is in a job of each workload: how long it takes, times the speed of the node.
    #[serde(default)]
    pub work: BTreeMap<WorkloadId, f64>,
    /// Whether nodes came back before they were expected since the last cycle.
    #[serde(default)]
    pub freed_early: bool,
    /// When nodes with jobs were given up because of silence, within the last minute.
    #[serde(default)]
    pub given_up: VecDeque<Time>,
    /// Whether silent nodes keep their jobs because many fell silent at once.
    #[serde(default)]
    pub requeue_limited: bool,
}

impl PoolState {
    /// Its nodes, but for those that left for good.
    pub fn present(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| !node.has_left())
    }

    /// Nodes whose units count: in service or finishing what they have.
    pub fn units(&self) -> Micro {
        self.in_service * MICRO
    }

    /// Changes the state of a node and counts it.
    pub(super) fn move_node(&mut self, at: Time, slot: usize, to: NodeState) {
        let node = &mut self.nodes[slot];
        self.in_service -= u64::from(counts(node.state));
        self.in_service += u64::from(counts(to));
        node.state = to;
        if self.pool.batch.usage == Usage::Decayed {
            let (units, half_life) = (self.in_service as f64, self.pool.batch.half_life_ms);
            let meters = self.meters.values_mut().chain(&mut self.had);
            meters.for_each(|meter| meter.resize(at, units, half_life));
        }
    }

    /// The share of the pool that a tenant holds now.
    fn share_of(&self, tenant: &TenantId, at: Time) -> f64 {
        if self.pool.batch.usage == Usage::Decayed {
            let share = |meter: &UsageMeter| meter.share(at, self.pool.batch.half_life_ms);
            return self.meters.get(tenant).map_or(0.0, share);
        }
        let units = self.units();
        let held = self.held.get(&Some(tenant.clone())).copied().unwrap_or(0);
        if units == 0 { 0.0 } else { held as f64 / units as f64 }
    }

    /// Changes what a tenant holds here, and with it the tenant's share in use.
    pub(super) fn hold_units(
        &mut self,
        at: Time,
        tenant: Option<&TenantId>,
        change: impl FnOnce(Micro) -> Micro,
    ) {
        let held = self.held.entry(tenant.cloned()).or_default();
        *held = change(*held);
        if *held == 0 {
            self.held.remove(&tenant.cloned());
        }
        let Some(tenant) = tenant else { return };
        if self.pool.batch.usage == Usage::Decayed {
            let held = self.held.get(&Some(tenant.clone())).copied().unwrap_or(0);
            let (units, half_life) = (self.in_service as f64, self.pool.batch.half_life_ms);
            let had = *self.had.get_or_insert_with(|| UsageMeter::new(at, 0.0, units));
            let meter = self.meters.entry(tenant.clone()).or_insert(had);
            meter.set(at, held as f64 / MICRO as f64, units, half_life);
        }
        let usage = self.share_of(tenant, at);
        if let Some(tenant) = self.world.tenants.get_mut(tenant) {
            tenant.usage = usage;
        }
    }

    pub(super) fn refresh_usage(&mut self, at: Time) {
        let tenants: Vec<TenantId> = self.world.tenants.keys().cloned().collect();
        for id in tenants {
            let usage = self.share_of(&id, at);
            if let Some(tenant) = self.world.tenants.get_mut(&id) {
                tenant.usage = usage;
            }
        }
    }
}

impl State {
    pub(super) fn set_pool(&mut self, pool: &Pool, policy: Option<Arc<str>>, touched: &mut Touched) {
        touched.pools.insert(pool.id.clone());
        touched.worlds.insert(pool.id.clone());
        if let Some(state) = self.pools.get_mut(&pool.id) {
            let measures = pool.batch.usage != state.pool.batch.usage;
            state.pool = pool.clone();
            if measures {
                let units = state.in_service as f64;
                (state.had, state.meters) = (Some(UsageMeter::new(self.now, 0.0, units)), BTreeMap::new());
            }
            for tenant in state.held.keys().filter(|_| measures).cloned().collect::<Vec<_>>() {
                state.hold_units(self.now, tenant.as_ref(), |held| held);
            }
            state.policy = policy;
            state.world.pools.insert(pool.id.clone(), pool.clone());
            set_regions(&mut state.world, pool);
            return;
        }
        let mut world = World { providers: self.providers().to_vec(), ..World::default() };
        set_regions(&mut world, pool);
        if let Some(other) = self.pools.values().next() {
            // Blocks and the price of energy are the same for all pools.
            world.blocks.clone_from(&other.world.blocks);
            world.energy_price = other.world.energy_price;
        }
        world.pools.insert(pool.id.clone(), pool.clone());
        world.tenants = self.tenants.iter().map(|(id, state)| (id.clone(), state.tenant.clone())).collect();
        let state = PoolState {
            pool: pool.clone(),
            policy,
            nodes: Vec::new(),
            records: Vec::new(),
            in_service: 0,
            world,
            held: BTreeMap::new(),
            meters: BTreeMap::new(),
            had: Some(UsageMeter::new(self.now, 0.0, 0.0)),
            power_w: 0,
            io_bytes_s: 0,
            measured: None,
            preempt_budget: PreemptBudget::default(),
            reservations: BTreeMap::new(),
            kept: BTreeMap::new(),
            rounds: 0,
            next_cycle: self.now,
            surge_next: self.now,
            habits: Habits::default(),
            freed_early: false,
            given_up: VecDeque::new(),
            requeue_limited: false,
            work: BTreeMap::new(),
        };
        self.pools.insert(pool.id.clone(), state);
    }

    /// Who sells capacity, by name: the same for all pools.
    pub fn providers(&self) -> &[Provider] {
        self.pools.values().next().map(|pool| &*pool.world.providers).unwrap_or_default()
    }

    pub(super) fn set_tenant(&mut self, tenant: &Tenant, touched: &mut Touched) {
        match self.tenants.get_mut(&tenant.id) {
            Some(state) => state.tenant = tenant.clone(),
            None => {
                // Its jobs may have come before it was known; from now on they count.
                let mut state = TenantState::new(tenant.clone());
                let theirs = |record: &&JobRecord| record.job.spec.tenant.as_ref() == Some(&tenant.id);
                for record in self.jobs.values().map(|record| &**record).filter(theirs) {
                    state.jobs += u64::from(!record.state.is_final());
                    if let Some(run) = &record.run {
                        state.units += run.units;
                        state.gpus += run.gpus;
                        state.cpu_milli += cpu_of(&record.job.spec, run.nodes.len());
                        state.gpu_ms_promised += record.promised_gpu_ms();
                        state.price_promised += price_of(record);
                    }
                }
                let arrays = self.folded.values();
                let theirs = arrays.filter(|array| array.job.spec.tenant.as_ref() == Some(&tenant.id));
                state.jobs += theirs.map(|array| u64::from(array.folded.len())).sum::<u64>();
                self.tenants.insert(tenant.id.clone(), state);
            }
        }
        let at = self.now;
        for (id, pool) in &mut self.pools {
            pool.world.tenants.insert(tenant.id.clone(), tenant.clone());
            pool.refresh_usage(at);
            touched.worlds.insert(id.clone());
        }
    }

    /// Jobs that ended in the pool keep its name.
    pub(super) fn delete_pool(&mut self, id: &PoolId, touched: &mut Touched) {
        self.pools.remove(id);
        self.peers.remove(id);
        self.places.retain(|_, (pool, _)| pool != id);
        for pool in self.pools.values_mut() {
            pool.world.pools.remove(id);
        }
        touched.pools.insert(id.clone());
    }

    pub(super) fn delete_tenant(&mut self, id: &TenantId, touched: &mut Touched) {
        self.tenants.remove(id);
        for (pool, state) in &mut self.pools {
            state.world.tenants.remove(id);
            state.meters.remove(id);
            touched.worlds.insert(pool.clone());
        }
    }

    pub(super) fn set_block(&mut self, block: &Arc<Block>, touched: &mut Touched) {
        for (id, pool) in &mut self.pools {
            pool.world.blocks.insert(block.id.clone(), block.clone());
            for (slot, node) in (0u32..).zip(&mut pool.nodes) {
                if node.block.as_ref().is_some_and(|known| known.id == block.id) {
                    node.block = Some(block.clone());
                    touched.nodes.push((id.clone(), slot));
                }
            }
        }
    }

    /// What each tenant has used of its budget, running jobs up to now.
    fn refresh_budgets(&mut self, pool: &PoolId) {
        let at = self.now;
        let limited = |Tenant { budget, quota, .. }: &Tenant| {
            budget.gpu_hours.or(budget.node_hours).or(quota.gpu_hours_cap).is_some()
        };
        if !self.pools.get(pool).is_some_and(|state| state.world.tenants.values().any(limited)) {
            return;
        }
        // What runs is on nodes, and nodes are fewer than jobs.
        let placements = self.pools.values().flat_map(|pool| &pool.nodes).flat_map(|node| &node.placements);
        let placed: BTreeSet<&JobId> = placements.map(|placement| &placement.job).collect();
        let mut running: BTreeMap<TenantId, [u128; 3]> = BTreeMap::new();
        for record in placed.into_iter().filter_map(|job| self.jobs.get(job)) {
            let (Some(tenant), Some(run)) = (&record.job.spec.tenant, &record.run) else { continue };
            let Some(started) = run.started_at else { continue };
            let ms = u128::from(at.since(started.max(at - BUDGET_WINDOW)).get());
            let gpu_ms = ms * u128::from(run.gpus);
            let beyond = gpu_ms.saturating_sub(record.promised_gpu_ms());
            let sums = running.entry(tenant.clone()).or_default().iter_mut();
            sums.zip([gpu_ms, ms * run.nodes.len() as u128, beyond]).for_each(|(sum, more)| *sum += more);
        }
        for (id, tenant) in &mut self.tenants {
            tenant.gpu_ms_beyond = running.get(id).map_or(0, |sums| sums[2]);
        }
        let Some(state) = self.pools.get_mut(pool) else { return };
        for (id, tenant) in &mut state.world.tenants {
            let known = self.tenants.get(id);
            let (gpu, node) = known.map_or((0.0, 0.0), |known| known.spending.hours(at));
            let [gpu_now, node_now, _] = running.get(id).copied().unwrap_or_default();
            // What was used before the ledger knew the tenant came with it.
            let before = known.map_or_else(Default::default, |known| known.tenant.budget);
            tenant.budget.gpu_hours_used = before.gpu_hours_used + gpu + hours(gpu_now);
            tenant.budget.node_hours_used = before.node_hours_used + node + hours(node_now);
        }
    }

    pub(super) fn cycled(&mut self, pool: &PoolId, next: Time) {
        let at = self.now;
        self.refresh_budgets(pool);
        if let Some(state) = self.pools.get_mut(pool) {
            state.next_cycle = next;
            state.freed_early = false;
            state.preempt_budget.begin_cycle(at);
            if state.pool.batch.usage == Usage::Decayed {
                state.refresh_usage(at);
            }
        }
    }
}

/// What a pool says about regions; one that says nothing leaves what a situation says.
fn set_regions(world: &mut World, pool: &Pool) {
    if !pool.push.regions.is_empty() {
        let adjacent = |(name, region): (&Name, &Region)| (name.clone(), region.adjacent.clone());
        world.regions = pool.push.regions.iter().map(adjacent).collect();
    }
}
