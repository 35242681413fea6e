//! Node units: what a placement counts for in quotas and shares.

use landfall_model::{Node, Placement};

/// Millionths of a node unit.
pub type Micro = u64;

pub const MICRO: Micro = 1_000_000;

/// What a placement counts for: one if the job has the node to itself, else the largest part of GPUs, CPU or RAM it takes.
///
/// Integers, so that a sum kept by adding and removing equals one made afresh.
pub fn node_units(node: &Node, placement: &Placement) -> Micro {
    if placement.exclusive_node {
        return MICRO;
    }
    let part = |taken: u64, total: u64| {
        if total == 0 {
            0
        } else {
            (u128::from(taken) * u128::from(MICRO)).div_ceil(u128::from(total)) as u64
        }
    };
    let gpu_milli: u64 = placement.devices.iter().map(|share| share.milli.get()).sum();
    part(gpu_milli, 1000 * node.gpus.len() as u64)
        .max(part(placement.cpu.get(), node.cpu_total.get()))
        .max(part(placement.ram.get(), node.ram_total.get()))
        .min(MICRO)
}
