//! Filters of the family `batch`, one file each.

pub(crate) mod block_end;
mod cpu;
mod feature;
mod fingerprint;
mod gpu_count;
mod gpu_memory;
mod gpu_model;
mod memory;
mod ready;
pub(crate) mod state;
pub(crate) mod taken;
mod unified_memory;

use crate::filter::FilterInfo;

/// All of them, in the order in which policies list them.
pub(crate) const ALL: &[&FilterInfo] = &[
    &ready::INFO,
    &state::INFO,
    &taken::INFO,
    &gpu_model::INFO,
    &gpu_count::INFO,
    &gpu_memory::INFO,
    &cpu::INFO,
    &memory::INFO,
    &feature::INFO,
    &unified_memory::INFO,
    &fingerprint::INFO,
    &block_end::INFO,
];
