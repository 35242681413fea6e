//! Room: how many of a node's free GPUs the jobs still to come are expected to use.
//!
//! *Problem.* Jobs arrive one by one and stay. What a placement costs is what later jobs can no longer use: devices too full
//! for any of them, devices without CPU beside them, GPUs that some of them cannot do without.
//!
//! *Measure.* Filled with jobs of one class of the expected mix alone, a node would use so many GPUs: as many jobs as
//! devices and CPU allow, each with its part of a GPU. A node is not filled with the next class that comes by, though: among
//! a handful of offers, one suits. Room is therefore the expected best of that many classes drawn from the mix, times the
//! weight of all classes that accept the node's GPUs, by which nodes that some classes depend on are worth more.
//!
//! *Places.* The best of several draws does not see the class that fits on hardly any node: others fill such a node as well. So
//! each place for a job of such a class is worth something of its own, whatever else would fill the node; see
//! [`Supply::weights`](super::supply::Supply::weights).

use landfall_model::{Gpu, MixShare};
use smallvec::SmallVec;

use super::supply::Weights;

/// The expected mix as a node sees it.
#[derive(Clone, Copy)]
pub(crate) struct Demand<'a> {
    pub(crate) mix: &'a [MixShare],
    pub(crate) weights: &'a Weights,
    /// How many draws the best is taken of.
    pub(crate) offers: u32,
}

/// Expected use of a node's free GPUs, in milli-GPU. `free` is the free compute of each device.
pub(crate) fn room(free: &[u64], cpu_free: u64, gpus: &[Gpu], demand: Demand<'_>) -> f64 {
    let mut fitting: SmallVec<[(f64, f64); 64]> = SmallVec::new();
    let mut accepting = 0.0;
    let alike = are_alike(gpus);
    let mut places = 0.0;
    let Weights { room, spare } = demand.weights;
    for ((class, &weight), &spare) in demand.mix.iter().zip(&**room).zip(&**spare) {
        // What is true of one device is true of all where all are alike.
        let looked_at = if alike { &gpus[..gpus.len().min(1)] } else { gpus };
        if (weight <= 0.0 && spare <= 0.0) || !looked_at.iter().any(|gpu| accepts(class, gpu)) {
            continue;
        }
        if spare > 0.0 {
            places += spare * jobs_of(class, free, cpu_free, |at| alike || accepts(class, &gpus[at])).floor();
        }
        if weight <= 0.0 {
            continue;
        }
        accepting += weight;
        let used = filled_with(class, free, cpu_free, |position| alike || accepts(class, &gpus[position]));
        if used > 0.0 {
            fitting.push((used, weight));
        }
    }
    if fitting.is_empty() {
        return places;
    }
    // Equal entries are interchangeable, so the sum does not depend on the order of the mix.
    fitting.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let fitting_weight: f64 = fitting.iter().map(|(_, weight)| weight).sum();
    // The chance that a draw is worth at most so much; the best of several is worth at most that much if all are.
    let mut below = (1.0 - fitting_weight / accepting).max(0.0);
    let mut all_below = power(below, demand.offers);
    let mut expected = 0.0;
    for (used, weight) in fitting {
        below += weight / accepting;
        let all_up_to = power(below, demand.offers);
        expected += used * (all_up_to - all_below);
        all_below = all_up_to;
    }
    accepting * expected + places
}

/// GPU compute in use if the node took as many jobs of the class as it can.
fn filled_with(class: &MixShare, free: &[u64], cpu_free: u64, accepts: impl Fn(usize) -> bool) -> f64 {
    let gpu = class.gpu_milli.get() * u64::from(class.gpu_count);
    jobs_of(class, free, cpu_free, accepts) * gpu as f64
}

/// How many jobs of the class the node could take.
///
/// CPU counts in fractions: what is left beside the last job of this class will do for a smaller one.
fn jobs_of(class: &MixShare, free: &[u64], cpu_free: u64, accepts: impl Fn(usize) -> bool) -> f64 {
    let (ask, count, cpu) = (class.gpu_milli.get(), u64::from(class.gpu_count), class.cpu_milli.get());
    if cpu_free < cpu {
        return 0.0;
    }
    let (mut devices, mut shares) = (0, 0);
    for (position, &milli) in free.iter().enumerate() {
        if milli >= ask && accepts(position) {
            devices += 1;
            // Most devices hold one at most, and a division is dear.
            shares += if milli < 2 * ask { 1 } else { milli / ask };
        }
    }
    if devices < count {
        return 0.0;
    }
    let by_gpu = (shares / count) as f64;
    if cpu == 0 { by_gpu } else { by_gpu.min(cpu_free as f64 / cpu as f64) }
}

/// Whether every class accepts all of the devices or none.
fn are_alike(gpus: &[Gpu]) -> bool {
    let kinds = gpus.iter().map(|gpu| (gpu.slices.is_none(), gpu.model.as_ref().map(|model| &model.name)));
    kinds.clone().zip(kinds.skip(1)).all(|(kind, next)| kind == next)
}

/// Whether jobs of the class may use the device. The slices of a partitioned device are devices of their own.
fn accepts(class: &MixShare, gpu: &Gpu) -> bool {
    gpu.slices.is_none()
        && (class.gpu_models.is_empty()
            || gpu.model.as_ref().is_some_and(|model| class.gpu_models.contains(&model.name)))
}

/// By multiplication alone, which gives the same bits everywhere.
pub(super) fn power(base: f64, exponent: u32) -> f64 {
    (0..exponent).fold(1.0, |product, _| product * base)
}

#[cfg(test)]
mod tests {
    use landfall_model::{Gpu, MilliCpu, MilliGpu, MixShare};
    use proptest::prelude::*;

    use super::{Demand, Weights, room};

    fn class() -> impl Strategy<Value = MixShare> {
        (1u32..4, 1u64..=1000, 0u64..32_000).prop_map(|(gpu_count, milli, cpu)| MixShare {
            share: 0.0,
            gpu_count,
            gpu_milli: MilliGpu::new(if gpu_count > 1 { 1000 } else { milli }),
            cpu_milli: MilliCpu::new(cpu),
            gpu_models: Vec::new(),
            rare: false,
        })
    }

    proptest! {
        #[test]
        fn less_free_is_never_more_room(
            mix in prop::collection::vec(class(), 1..12),
            free in prop::collection::vec(0u64..=1000, 1..8),
            taken in prop::collection::vec(0u64..=1000, 8),
            cpu in 0u64..128_000,
            cpu_taken in 0u64..128_000,
            offers in 1u32..8,
        ) {
            let gpus: Vec<Gpu> = (0..free.len() as u16).map(|index| Gpu::new(index, None, None)).collect();
            let room_weights = vec![1.0 / mix.len() as f64; mix.len()];
            let weights = Weights { room: room_weights.into(), spare: vec![0.0; mix.len()].into() };
            let demand = Demand { mix: &mix, weights: &weights, offers };
            let before = room(&free, cpu, &gpus, demand);
            let left: Vec<u64> = free.iter().zip(&taken).map(|(free, taken)| free.saturating_sub(*taken)).collect();
            let after = room(&left, cpu.saturating_sub(cpu_taken), &gpus, demand);
            let all: u64 = free.iter().sum();
            prop_assert!(after <= before + 1e-9, "{before} became {after}");
            prop_assert!(0.0 <= after && before <= all as f64 + 1e-9, "{before} of {all}");
        }
    }
}
