//! A shared job goes to the device that lowers the node's fragmentation most; whole devices are the lowest-numbered.

use super::{Positions, best_by, first_fit};
use crate::evaluate::Pair;
use crate::policy::Policy;

/// The term that knows the gradient, on the scale the policy uses.
const TERM: &str = "fragmentation-gradient";

pub(super) fn choose(fitting: &[u16], policy: &Policy, pair: Pair<'_>) -> Positions {
    let spec = &pair.job.spec;
    match policy.terms.iter().find(|bound| bound.info.name == TERM) {
        Some(gradient) if spec.shares_a_gpu() => {
            best_by(fitting, spec.gpu_count as usize, |alone| gradient.term.score(&pair.view(alone)))
        }
        _ => first_fit::choose(fitting, spec.gpu_count as usize),
    }
}
