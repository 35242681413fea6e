//! `gpu-clustering`: jobs of one GPU shape go together.

use landfall_model::GpuShape;

use crate::term::{Family, Reads, TermInfo};
use crate::view::View;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "gpu-clustering",
    range: (-1e6, Some(100.0)),
    unit: "points",
    description: "Prefers nodes that run jobs of the same GPU shape, then nodes without GPU jobs.",
    reads: Reads { placements: true, ..Reads::PAIR },
    ..TermInfo::of(Family::Packing, |_| Ok(Box::new(score)))
};

/// Compute of a full-size node, in milli-GPU.
const FULL_NODE: f64 = 8000.0;

fn score(view: &View<'_>) -> f64 {
    let shape = GpuShape::of(view.spec);
    if shape == GpuShape::None {
        return 0.0;
    }
    let base = (25.0 * (FULL_NODE - view.node.gpu_milli_free() as f64) / FULL_NODE).trunc();
    let (mut same, mut other) = (false, false);
    for placement in &view.node.placements {
        match placement.gpu_shape {
            GpuShape::None => {}
            running if running == shape => same = true,
            _ => other = true,
        }
    }
    base + match (same, other) {
        (true, false) => 75.0,
        (true, true) => 50.0,
        (false, false) => 25.0,
        (false, true) => 0.0,
    }
}
