//! Fragmentation of a node's GPUs for an expected job mix (Weng et al., USENIX ATC 2023).
//!
//! For each class of the mix, the free compute of a node that the class could not use counts as fragmented; the
//! measure is the mean over the mix. Placing a job where the measure falls most keeps devices usable for what is still
//! to come.

use landfall_model::{Gpu, MixShare, Name, Node};
use smallvec::SmallVec;

/// Free compute per device, in milli-GPU.
pub(crate) type Free = SmallVec<[u64; 8]>;

/// Why compute is of no use to a class. Sums are kept per reason and added up in this order, because published results
/// depend on the order of additions.
#[derive(Clone, Copy)]
enum Waste {
    LackBoth,
    LackGpu,
    LackCpu,
    CpuOnlyFits,
    CpuOnlyLacks,
    NoAccess,
}

/// Free compute of a node's devices.
pub(crate) fn free_of(node: &Node) -> Free {
    node.gpus.iter().map(|gpu| gpu.milli_free().get()).collect()
}

/// Fragmented compute of a node in milli-GPU.
pub fn fragmentation(node: &Node, mix: &[MixShare]) -> f64 {
    fragmented(&free_of(node), node.cpu_free().get(), &node.gpus, mix)
}

pub(crate) fn fragmented(free: &[u64], cpu_free: u64, gpus: &[Gpu], mix: &[MixShare]) -> f64 {
    let total: u64 = free.iter().sum();
    let mut waste = [0.0; 6];
    let models = models_of(gpus);
    for class in mix.iter().filter(|class| !class.rare) {
        let (reason, amount) = wasted(free, total, cpu_free, &models, class);
        waste[reason as usize] += class.share * amount as f64;
    }
    waste.iter().sum()
}

/// The models of a node's devices; mostly all have one.
fn models_of(gpus: &[Gpu]) -> SmallVec<[&Name; 2]> {
    let mut models: SmallVec<[&Name; 2]> = SmallVec::new();
    for model in gpus.iter().filter_map(|gpu| gpu.model.as_ref()) {
        if models.last() != Some(&&model.name) {
            models.push(&model.name);
        }
    }
    models
}

fn wasted(free: &[u64], total: u64, cpu_free: u64, models: &[&Name], class: &MixShare) -> (Waste, u64) {
    let cpu_fits = cpu_free >= class.cpu_milli.get();
    if class.gpu_count == 0 {
        return (if cpu_fits { Waste::CpuOnlyFits } else { Waste::CpuOnlyLacks }, total);
    }
    if !class.gpu_models.is_empty() && !models.iter().any(|model| class.gpu_models.contains(model)) {
        return (Waste::NoAccess, total);
    }
    let ask = class.gpu_milli.get();
    let gpu_fits = free.iter().filter(|&&milli| milli >= ask).count() >= class.gpu_count as usize;
    match (cpu_fits, gpu_fits) {
        (true, true) => (Waste::LackGpu, free.iter().filter(|&&milli| milli < ask).sum()),
        (true, false) => (Waste::LackGpu, total),
        (false, true) => (Waste::LackCpu, total),
        (false, false) => (Waste::LackBoth, total),
    }
}
