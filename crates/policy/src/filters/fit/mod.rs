//! Filters of the `fit` policy, one file each.

pub(crate) mod accepting;
pub(crate) mod approved;
pub(crate) mod cooldown;
mod cpu;
mod gpu;
pub(crate) mod maintenance;
pub(crate) mod online;
mod platform;
mod ram;
mod runtime;

use crate::filter::FilterInfo;

/// All of them, in the order in which policies list them.
pub(crate) const ALL: &[&FilterInfo] = &[
    &online::INFO,
    &approved::INFO,
    &accepting::INFO,
    &cooldown::INFO,
    &runtime::INFO,
    &platform::INFO,
    &cpu::INFO,
    &ram::INFO,
    &gpu::INFO,
    &maintenance::INFO,
];
