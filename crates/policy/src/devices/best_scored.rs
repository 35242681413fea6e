//! Each device is scored as if it were alone; the best by score, then by index, are taken.

use super::{Positions, best_by};
use crate::evaluate::Pair;
use crate::policy::Policy;

pub(super) fn choose(fitting: &[u16], policy: &Policy, pair: Pair<'_>) -> Positions {
    best_by(fitting, pair.job.spec.gpu_count as usize, |_, _| false, |alone| policy.total_with(pair, alone))
}
