//! Terms of the packing policies, one file each.

mod block_expiry;
mod duration_mix;
mod fragmentation_gradient;
mod gpu_fragmentation;
mod gpu_utilisation;
mod image_local;
mod mix_room;
mod provider_affinity;

use crate::rules::fragmentation::free_of;
use crate::term::TermInfo;
use crate::view::{Measure, View};

/// All of them, in the order in which policies list them.
pub(crate) const ALL: &[&TermInfo] = &[
    &gpu_utilisation::INFO,
    &gpu_fragmentation::INFO,
    &block_expiry::INFO,
    &provider_affinity::INFO,
    &fragmentation_gradient::INFO,
    &duration_mix::INFO,
    &image_local::INFO,
    &mix_room::INFO,
];

/// A measure of the node's free compute per device and free CPU, before and after placing the job.
fn before_and_after(view: &View<'_>, what: Measure, measure: impl Fn(&[u64], u64) -> f64) -> (f64, f64) {
    let mut free = free_of(view.node);
    let cpu_free = view.node.cpu_free().get();
    let before = view.measured(what, || measure(&free, cpu_free));
    for &position in &view.devices.chosen {
        let device = &mut free[usize::from(position)];
        *device = device.saturating_sub(view.spec.gpu_milli.get());
    }
    (before, measure(&free, cpu_free.saturating_sub(view.spec.cpu_milli.get())))
}
