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

/// What a job takes of a node with the given devices.
pub(super) fn usage(spec: &JobSpec, devices: &[u16], from: i64, to: i64, key: u64) -> Use {
    let share = |&index: &u16| DeviceShare { index, vram: spec.vram_mib, milli: spec.gpu_milli };
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

    fn used(from: i64, to: i64, cpu: u64, device: Option<(u16, u64)>) -> Use {
        let devices =
            device.map(|(index, milli)| DeviceShare { index, vram: Mib::ZERO, milli: MilliGpu::new(milli) });
        Use { from, to, cpu, ram: 0, devices: devices.into_iter().collect(), key: 0 }
    }

    #[test]
    fn gaps_between_uses_are_uncovered() {
        let uses = [used(0, 5, 1, None), used(3, 8, 1, None), used(10, 20, 1, None)];
        assert_eq!(uncovered(&uses, 0, 30), [(8, 10), (20, 30)]);
        assert_eq!(uncovered(&uses, 4, 7), []);
        assert_eq!(uncovered(&[], 4, 7), [(4, 7)]);
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
