//! A shared job goes to the device with the least free share that still fits; whole devices are the lowest-numbered.

use landfall_model::{JobSpec, Node};

use super::{Positions, first_fit};

pub(super) fn choose(fitting: &[u16], spec: &JobSpec, node: &Node) -> Positions {
    if !spec.shares_a_gpu() {
        return first_fit::choose(fitting, spec.gpu_count as usize);
    }
    fitting
        .iter()
        .copied()
        .min_by_key(|&position| node.gpus[usize::from(position)].milli_free())
        .into_iter()
        .collect()
}
