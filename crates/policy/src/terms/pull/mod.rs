//! Terms of the family `pull`, one file each.

mod arith;
mod preset;

mod builtin_deprioritize;
mod dependency_count;
mod disk_affinity;
mod fair_share;
mod missing_nar_size;
mod missing_paths;
mod network_affinity;
mod prefer_local_build;
mod rescore_wait;
mod reserve_fetch_workers;
mod resource_fit;
pub(crate) mod resource_saturation;
mod wait_time;

#[cfg(test)]
mod contract_test;
#[cfg(test)]
mod testing;

use crate::term::TermInfo;

/// All of them, in the order in which policies list them.
pub(crate) const ALL: &[&TermInfo] = &[
    &missing_paths::INFO,
    &missing_nar_size::INFO,
    &rescore_wait::INFO,
    &dependency_count::INFO,
    &wait_time::INFO,
    &builtin_deprioritize::INFO,
    &reserve_fetch_workers::INFO,
    &resource_fit::INFO,
    &resource_saturation::INFO,
    &prefer_local_build::INFO,
    &fair_share::INFO,
    &network_affinity::INFO,
    &disk_affinity::INFO,
];
