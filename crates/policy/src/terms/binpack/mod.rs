//! Terms of the packing policies, one file each.

mod block_expiry;
mod duration_mix;
mod fragmentation_gradient;
mod gpu_fragmentation;
mod gpu_utilisation;
mod provider_affinity;

use crate::term::TermInfo;

/// All of them, in the order in which policies list them.
pub(crate) const ALL: &[&TermInfo] = &[
    &gpu_utilisation::INFO,
    &gpu_fragmentation::INFO,
    &block_expiry::INFO,
    &provider_affinity::INFO,
    &fragmentation_gradient::INFO,
    &duration_mix::INFO,
];
