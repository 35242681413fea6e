//! Each device is scored as if it were alone; the best by score, then by index, are taken.
//!
//! `gradient` is the same for shared jobs and takes the lowest indices for whole devices.

use super::Positions;
use crate::evaluate::Pair;
use crate::policy::Policy;
use crate::score::q;
use crate::view::{Devices, Mode};

pub(super) fn choose(fitting: &[u16], policy: &Policy, pair: Pair<'_>) -> Positions {
    let count = pair.job.spec.gpu_count as usize;
    if fitting.len() <= count {
        return fitting.iter().take(count).copied().collect();
    }
    let mut alone = Devices { mode: Mode::Gpu, chosen: Positions::new() };
    let mut scored: smallvec::SmallVec<[(std::cmp::Reverse<i64>, u16); 8]> = fitting
        .iter()
        .map(|&position| {
            alone.chosen.clear();
            alone.chosen.push(position);
            (std::cmp::Reverse(q(policy.total_with(pair, &alone))), position)
        })
        .collect();
    scored.sort_unstable();
    scored.iter().take(count).map(|&(_, position)| position).collect()
}
