//! Sums made afresh, for comparison with those kept by adding and removing.

use std::collections::BTreeMap;

use landfall_model::{Lifecycle, MilliGpu, Millis, Money, Name, Node, NodeId, TenantId};

use landfall_engine::event::Hold;
use landfall_engine::record::JobRecord;
use landfall_engine::state::State;

/// What is given away on one node.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) cpu: u64,
    pub(super) ram: u64,
    /// Memory and milli-GPU by device.
    pub(super) devices: BTreeMap<u16, (u64, u64)>,
}

impl Sums {
    pub(super) fn add(&mut self, placement: &landfall_model::Placement) {
        self.cpu += placement.cpu.get();
        self.ram += placement.ram.get();
        for share in &placement.devices {
            let device = self.devices.entry(share.index).or_default();
            device.0 += share.vram.get();
            device.1 += share.milli.get();
        }
    }
}

pub(super) fn sums_on(node: &Node, holds: &[&Hold]) -> Sums {
    let mut sums = Sums::default();
    node.placements.iter().chain(holds.iter().map(|hold| &hold.placement)).for_each(|part| sums.add(part));
    sums
}

pub(super) fn holds_by_node(state: &State) -> BTreeMap<&NodeId, Vec<&Hold>> {
    let mut by_node: BTreeMap<&NodeId, Vec<&Hold>> = BTreeMap::new();
    for hold in state.holds.values() {
        by_node.entry(&hold.node).or_default().push(hold);
    }
    by_node
}

/// What a tenant has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) units: u64,
    pub(super) gpus: u64,
    pub(super) cpu_milli: u64,
    pub(super) jobs: u64,
    pub(super) gpu_ms: u128,
    pub(super) price: Money,
}

impl Held {
    pub(super) fn add(&mut self, record: &JobRecord) {
        self.jobs += u64::from(!record.state.is_final());
        if record.run.is_some() {
            self.price += record.past().price.unwrap_or_default();
        }
        if let Some(run) = record.run.as_ref().filter(|run| !run.ahead) {
            self.units += run.units;
            self.gpus += run.gpus;
            self.cpu_milli += record.job.spec.cpu_milli.get() * run.nodes.len() as u64;
            let spec = &record.job.spec;
            let whole = (spec.lifecycle == Lifecycle::Bounded).then_some(spec.walltime_ms);
            self.gpu_ms += may_use(run.promised.or(whole), run.gpus);
        }
    }
}

/// GPU-milliseconds that a job may use up: a day where it has no end.
pub(super) fn may_use(walltime: Option<Millis>, gpus: u64) -> u128 {
    u128::from(walltime.map_or(86_400_000, Millis::get)) * u128::from(gpus)
}

/// The part of a node that a placement takes, in millionths.
pub(super) fn part_of(node: &Node, placement: &landfall_model::Placement) -> u64 {
    if placement.exclusive_node {
        return 1_000_000;
    }
    let part = |taken: u64, total: u64| if total == 0 { 0 } else { (taken * 1_000_000).div_ceil(total) };
    let milli: u64 = placement.devices.iter().map(|share| share.milli.get()).sum();
    let whole = MilliGpu::WHOLE.get() * node.gpus.len() as u64;
    let parts = [
        part(milli, whole),
        part(placement.cpu.get(), node.cpu_total.get()),
        part(placement.ram.get(), node.ram_total.get()),
    ];
    parts.into_iter().max().unwrap_or(0).min(1_000_000)
}

/// GPUs that a placed job counts for: as many as it asked for on each node that has it.
pub(super) fn gpus_of(state: &State, record: &JobRecord) -> u64 {
    let nodes = record.run.iter().flat_map(|run| &run.nodes).filter_map(|at| state.node(&at.node));
    let placements = nodes.flat_map(|(node, _)| &node.placements);
    let here = placements.filter(|placement| placement.job == record.job.id).count() as u64;
    here * u64::from(record.job.spec.gpu_count)
}

/// The locks that a job takes.
pub(super) fn locks_of(state: &State, record: &JobRecord) -> Vec<(Option<TenantId>, Name)> {
    let spec = &record.job.spec;
    let mut own: Vec<_> = spec.mutex.iter().map(|name| (spec.tenant.clone(), name.clone())).collect();
    own.sort_unstable();
    own.dedup();
    let edges = state.edge_locks.get(&record.job.id).into_iter().flatten();
    own.extend(edges.map(|lock| (None, lock.name())));
    own
}
