//! Filters of the packing policies, one file each.

pub(crate) mod block;
mod cpu;
mod expiry;
mod gpu;
mod pods;
mod provider;
mod ram;
mod tier;

use crate::filter::FilterInfo;

/// All of them, in the order in which policies list them.
pub(crate) const ALL: &[&FilterInfo] = &[
    &block::INFO,
    &tier::INFO,
    &provider::INFO,
    &expiry::INFO,
    &cpu::INFO,
    &ram::INFO,
    &gpu::INFO,
    &pods::INFO,
];
