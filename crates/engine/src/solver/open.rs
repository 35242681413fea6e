//! Nodes open to sharing, planned by amounts.
//!
//! Such a node carries *uses*, each an interval with its CPU, RAM and devices. A new use must fit beside those it
//! overlaps at every instant. For jobs that want whole nodes, the node is taken wherever any use covers it; so a use
//! books a node of the kind exactly on the parts of its interval that no other use covers.

use landfall_model::{DeviceShare, Gpu, JobSpec, MilliGpu, Node};
use landfall_policy::devices::link_bandwidth;
use landfall_policy::rules::locality::{self, Picture};

/// What one job takes of a node, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) cpu: u64,
    pub(super) ram: u64,
    pub(super) devices: Vec<DeviceShare>,
    /// Tells uses of one node apart.
    pub(super) key: u64,
}

impl Use {
    /// The whole node, whatever it has.
    pub(super) fn of_all(from: i64, to: i64, key: u64) -> Self {
        Self { from, to, cpu: u64::MAX / 4, ram: 0, devices: Vec::new(), key }
    }
}

/// The uses of one node, with their sums and bounds: on a busy node most questions are answered by these alone, and a
/// machine with many cores has many uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Uses {
    list: Vec<Use>,
    cpu: u64,
    ram: u64,
    last_from: i64,
    first_to: i64,
    last_to: i64,
}

impl Default for Uses {
    fn default() -> Self {
        Self { list: Vec::new(), cpu: 0, ram: 0, last_from: i64::MIN, first_to: i64::MAX, last_to: i64::MIN }
    }
}

impl std::ops::Deref for Uses {
    type Target = [Use];

    fn deref(&self) -> &[Use] {
        &self.list
    }
}

impl Uses {
    fn count_in(&mut self, used: &Use) {
        self.cpu = self.cpu.saturating_add(used.cpu);
        self.ram = self.ram.saturating_add(used.ram);
        self.last_from = self.last_from.max(used.from);
        self.first_to = self.first_to.min(used.to);
        self.last_to = self.last_to.max(used.to);
    }

    pub(super) fn push(&mut self, used: Use) {
        self.insert(self.list.len(), used);
    }

    pub(super) fn insert(&mut self, place: usize, used: Use) {
        self.count_in(&used);
        self.list.insert(place, used);
    }

    pub(super) fn remove(&mut self, place: usize) -> Use {
        let used = self.list.remove(place);
        let list = std::mem::take(self).list;
        list.iter().for_each(|left| self.count_in(left));
        self.list = list;
        used
    }

    pub(super) fn pop(&mut self) {
        if !self.list.is_empty() {
            self.remove(self.list.len() - 1);
        }
    }

    /// Whether every use covers this instant, and none begins later.
    fn all_at(&self, at: i64) -> bool {
        self.last_from <= at && at < self.first_to
    }

    /// The same as [`uncovered`].
    pub(super) fn uncovered(&self, from: i64, to: i64) -> Vec<(i64, i64)> {
        if self.list.is_empty() || !self.all_at(from) {
            return uncovered(&self.list, from, to);
        }
        if self.last_to < to { vec![(self.last_to, to)] } else { Vec::new() }
    }

    /// Whether a job fits beside all of them during `[from, to)`; the same as asking [`fit`].
    pub(super) fn has_room(&self, spec: &JobSpec, node: &Node, from: i64, to: i64) -> bool {
        let cpu = self.cpu.saturating_add(spec.cpu_milli.get()) <= node.cpu_total.get();
        let ram = self.ram.saturating_add(spec.ram_mib.get()) <= node.ram_total.get();
        match (cpu && ram, spec.gpu_count) {
            (true, 0) => true,
            (false, _) if self.all_at(from) => false,
            _ => fit(spec, node, &self.list, from, to).is_some(),
        }
    }
}

/// The parts of `[from, to)` that no use covers.
pub(super) fn uncovered(uses: &[Use], from: i64, to: i64) -> Vec<(i64, i64)> {
    let mut covered: Vec<(i64, i64)> =
        uses.iter().map(|u| (u.from.max(from), u.to.min(to))).filter(|(a, b)| a < b).collect();
    covered.sort_unstable();
    let mut parts = Vec::new();
    let mut at = from;
    for (start, end) in covered {
        if start > at {
            parts.push((at, start));
        }
        at = at.max(end);
    }
    if at < to {
        parts.push((at, to));
    }
    parts
}

/// The most of an amount in use at any instant of `[from, to)`.
fn peak(uses: &[Use], from: i64, to: i64, amount: impl Fn(&Use) -> u64) -> u64 {
    let instants = uses.iter().map(|u| u.from.max(from)).filter(|&at| at < to).chain(std::iter::once(from));
    let at = |at: i64| uses.iter().filter(|u| u.from <= at && at < u.to).map(&amount).sum();
    instants.map(at).max().unwrap_or(0)
}

fn model_allowed(spec: &JobSpec, gpu: &Gpu) -> bool {
    spec.gpu_models.is_empty() || gpu.model.as_ref().is_some_and(|m| spec.gpu_models.contains(&m.name))
}

/// Indices of the devices of a node that a job could have throughout `[from, to)`.
fn free_devices(spec: &JobSpec, node: &Node, uses: &[Use], from: i64, to: i64) -> Vec<u16> {
    let of = |u: &Use, index: u16, amount: fn(&DeviceShare) -> u64| -> u64 {
        u.devices.iter().filter(|share| share.index == index).map(amount).sum()
    };
    let fits = |gpu: &&Gpu| {
        let milli = peak(uses, from, to, |u| of(u, gpu.index, |share| share.milli.get()));
        let vram = peak(uses, from, to, |u| of(u, gpu.index, |share| share.vram.get()));
        gpu.slices.is_none()
            && milli.saturating_add(spec.gpu_milli.get()) <= MilliGpu::WHOLE.get()
            && vram.saturating_add(spec.vram_mib.get()) <= gpu.vram_total().get()
            && model_allowed(spec, gpu)
    };
    node.gpus.iter().filter(fits).map(|gpu| gpu.index).collect()
}

/// The devices that a shared job would get on a node during `[from, to)`; `None` if it does not fit.
pub(super) fn fit(spec: &JobSpec, node: &Node, uses: &[Use], from: i64, to: i64) -> Option<Vec<u16>> {
    let cpu = peak(uses, from, to, |u| u.cpu).saturating_add(spec.cpu_milli.get());
    let ram = peak(uses, from, to, |u| u.ram).saturating_add(spec.ram_mib.get());
    if cpu > node.cpu_total.get() || ram > node.ram_total.get() {
        return None;
    }
    if spec.gpu_count == 0 {
        return Some(Vec::new());
    }
    let free = free_devices(spec, node, uses, from, to);
    let count = spec.gpu_count as usize;
    if free.len() < count {
        return None;
    }
    let mut chosen = match &node.links {
        Some(links) => link_bandwidth::choose(&free, count, links),
        None => free.into_iter().take(count).collect(),
    };
    chosen.sort_unstable();
    Some(chosen)
}

/// The devices that a job would get on a node as it is now, beside whoever is on it; `None` if there is no room.
pub(crate) fn devices_now(spec: &JobSpec, node: &Node) -> Option<Vec<u16>> {
    let there = &node.placements;
    if spec.exclusive || there.iter().any(|placement| placement.exclusive_node) {
        return there.is_empty().then(Vec::new);
    }
    let uses = there.iter().map(|placement| Use {
        from: 0,
        to: 1,
        cpu: placement.cpu.get(),
        ram: placement.ram.get(),
        devices: placement.devices.to_vec(),
        key: 0,
    });
    fit(spec, node, &uses.collect::<Vec<_>>(), 0, 1)
}

/// What a job takes of a node with the given devices.
pub(super) fn usage(spec: &JobSpec, devices: &[u16], from: i64, to: i64, key: u64) -> Use {
    let share = |&index: &u16| DeviceShare::new(index, spec.vram_mib, spec.gpu_milli);
    Use {
        from,
        to,
        cpu: spec.cpu_milli.get(),
        ram: spec.ram_mib.get(),
        devices: devices.iter().map(share).collect(),
        key,
    }
}

/// How close what is left of a node lies together for a job; unknown counts as the middle.
pub(super) fn locality_left(spec: &JobSpec, node: &Node, uses: &[Use], from: i64, to: i64) -> f64 {
    if node.links.is_none() || spec.gpu_count < 2 {
        // Which devices are left is of no account.
        return locality::locality(spec, node, Picture::Now).unwrap_or(locality::UNKNOWN);
    }
    let free = free_devices(spec, node, uses, from, to);
    // The fastest pair of the whole node is the measure, so the node keeps its devices, those in use as taken ones.
    let mut whole = node.clone();
    for gpu in &mut whole.gpus {
        gpu.milli_committed = if free.contains(&gpu.index) { MilliGpu::ZERO } else { MilliGpu::WHOLE };
        gpu.holder = None;
        gpu.vram_committed = landfall_model::Mib::ZERO;
    }
    locality::locality(spec, &whole, Picture::Now).unwrap_or(locality::UNKNOWN)
}

/// The part of a node that a shared job uses.
pub(super) fn units(spec: &JobSpec, node: &Node) -> f64 {
    let part = |held: f64, all: f64| if all > 0.0 { held / all } else { 0.0 };
    part(spec.gpu_milli_total() as f64, 1000.0 * node.gpus.len() as f64)
        .max(part(spec.cpu_milli.as_f64(), node.cpu_total.as_f64()))
        .max(part(spec.ram_mib.as_f64(), node.ram_total.as_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_model::{Mib, MilliCpu, NodeId};
    use proptest::prelude::*;

    fn used(from: i64, to: i64, cpu: u64, device: Option<(u16, u64)>) -> Use {
        let devices = device.map(|(index, milli)| DeviceShare::new(index, Mib::ZERO, MilliGpu::new(milli)));
        Use { from, to, cpu, ram: 0, devices: devices.into_iter().collect(), key: 0 }
    }

    #[test]
    fn gaps_between_uses_are_uncovered() {
        let uses = [used(0, 5, 1, None), used(3, 8, 1, None), used(10, 20, 1, None)];
        assert_eq!(uncovered(&uses, 0, 30), [(8, 10), (20, 30)]);
        assert_eq!(uncovered(&uses, 4, 7), []);
        assert_eq!(uncovered(&[], 4, 7), [(4, 7)]);
    }

    proptest! {
        #[test]
        fn sums_and_bounds_say_what_looking_at_every_use_says(
            list in proptest::collection::vec((0i64..20, 1i64..20, 0u64..6, any::<bool>()), 0..8),
            at in 0i64..25, span in 1i64..25, cpu in 0u64..12, gpu_count in 0u32..2,
        ) {
            let mut node = Node::new(NodeId::new("n").unwrap(), MilliCpu::new(12), Mib::new(10));
            node.gpus = vec![Gpu::new(0, None, None)];
            let spec = JobSpec {
                cpu_milli: MilliCpu::new(cpu), gpu_count, gpu_milli: MilliGpu::new(500), exclusive: false, ..JobSpec::empty()
            };
            let mut uses = Uses::default();
            let mut plain: Vec<Use> = Vec::new();
            for (number, (from, lasts, taken, device)) in list.into_iter().enumerate() {
                let used = used(from, from + lasts, taken, device.then_some((0, 300)));
                let place = number / 2;
                uses.insert(place, used.clone());
                plain.insert(place, used);
                if number % 3 == 2 {
                    prop_assert_eq!(uses.remove(number / 3), plain.remove(number / 3));
                }
                prop_assert_eq!(&uses[..], &plain[..]);
                prop_assert_eq!(uses.uncovered(at, at + span), uncovered(&plain, at, at + span));
                prop_assert_eq!(
                    uses.has_room(&spec, &node, at, at + span),
                    fit(&spec, &node, &plain, at, at + span).is_some()
                );
            }
        }
    }

    #[test]
    fn a_use_fits_beside_the_peak_of_its_interval() {
        let mut node = Node::new(NodeId::new("n").unwrap(), MilliCpu::new(10), Mib::new(10));
        node.gpus = (0..2).map(|index| Gpu::new(index, None, None)).collect();
        let uses = [used(0, 10, 4, Some((0, 600))), used(5, 15, 4, Some((1, 1000)))];
        let asks = |cpu, gpu_count, milli| JobSpec {
            cpu_milli: MilliCpu::new(cpu),
            gpu_count,
            gpu_milli: MilliGpu::new(milli),
            exclusive: false,
            ..JobSpec::empty()
        };
        assert!(fit(&asks(6, 0, 1000), &node, &uses, 0, 5).is_some());
        assert!(fit(&asks(6, 0, 1000), &node, &uses, 0, 6).is_none(), "both run at 5");
        assert_eq!(fit(&asks(0, 1, 400), &node, &uses, 0, 20), Some(vec![0]));
        assert_eq!(fit(&asks(0, 1, 1000), &node, &uses, 0, 5), Some(vec![1]));
        assert_eq!(fit(&asks(0, 1, 500), &node, &uses, 0, 20), None);
        assert_eq!(fit(&asks(0, 1, 500), &node, &uses, 10, 15), Some(vec![0]));
    }
}
