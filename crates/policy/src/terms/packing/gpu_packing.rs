//! `gpu-packing`: shared devices first, then started nodes, then empty ones.

use crate::term::{Family, TermInfo};
use crate::view::View;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "gpu-packing",
    range: (0.0, Some(100.0)),
    unit: "points",
    description: "Fills shared devices before free devices of started nodes, and those before empty nodes.",
    ..TermInfo::of(Family::Packing, |_| Ok(Box::new(score)))
};

/// A wholly free device.
const WHOLE: u64 = 1000;

fn score(view: &View<'_>) -> f64 {
    if !view.spec.is_gpu_job() {
        return 0.0;
    }
    let mut free = crate::rules::fragmentation::free_of(view.node);
    if free.iter().all(|&milli| milli == WHOLE) {
        let devices = free.len() as f64;
        return (33.0 - devices).max(devices);
    }
    free.retain(|milli| *milli >= view.spec.gpu_milli.get());
    free.sort_unstable();
    free.truncate(view.spec.gpu_count as usize);
    let whole = free.iter().filter(|&&milli| milli == WHOLE).count() as f64;
    if whole > 0.0 {
        return (50.0 - whole).max(33.0);
    }
    let free_percent = free.iter().map(|&milli| milli as f64 / 10.0).sum::<f64>();
    (100.0 - (free_percent / 10.0).trunc()).max(50.0)
}
