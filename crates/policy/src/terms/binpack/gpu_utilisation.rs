//! `gpu-utilisation`: how full the node's GPU memory would be.

use crate::term::{Family, TermInfo};
use crate::view::View;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "gpu-utilisation",
    range: (0.0, Some(1.0)),
    unit: "share",
    description: "Prefers nodes whose GPU memory would be fuller with the job on them.",
    ..TermInfo::of(Family::BinPack, |_| Ok(Box::new(score)))
};

fn score(view: &View<'_>) -> f64 {
    let (mut used, mut total) = (0u64, 0u64);
    for gpu in &view.node.gpus {
        used += gpu.vram_in_use().get();
        total += gpu.vram_total().get();
    }
    if total == 0 {
        return 0.0;
    }
    // A slice takes its share of a device's memory, whatever of it was asked for.
    let slice = || view.gpus().next()?.slice_vram(view.spec.slice()?.compute);
    let vram = view.spec.gpu_slice.as_ref().and_then(|_| slice()).unwrap_or(view.spec.vram_mib);
    let asked = vram.get() * u64::from(view.spec.gpu_count);
    ((used + asked) as f64 / total as f64).min(1.0)
}
