//! A shared job's device is drawn; whole devices are the lowest-numbered.

use super::{Positions, first_fit};
use crate::evaluate::Pair;
use crate::policy::Policy;
use crate::score::{draw, hash64};

pub(super) fn choose(fitting: &[u16], policy: &Policy, pair: Pair<'_>) -> Positions {
    let spec = &pair.job.spec;
    if !spec.shares_a_gpu() || fitting.is_empty() {
        return first_fit::choose(fitting, spec.gpu_count as usize);
    }
    let hash = hash64(&[
        &policy.choice.seed.to_be_bytes(),
        pair.job.id.as_str().as_bytes(),
        &[0],
        pair.node.id.as_str().as_bytes(),
    ]);
    std::iter::once(fitting[draw(hash, fitting.len())]).collect()
}
