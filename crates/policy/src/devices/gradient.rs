//! A shared job goes to the device that costs the expected mix least; whole devices are the lowest-numbered.

use super::{Positions, best_by, first_fit};
use crate::evaluate::Pair;
use crate::policy::Policy;

/// The terms that know what a device costs the mix; the policy's first of them decides, on the scale the policy uses.
const TERMS: [&str; 2] = ["fragmentation-gradient", "mix-room"];

pub(super) fn choose(fitting: &[u16], policy: &Policy, pair: Pair<'_>) -> Positions {
    let spec = &pair.job.spec;
    match policy.terms.iter().find(|bound| TERMS.contains(&bound.info.name)) {
        Some(gradient) if spec.shares_a_gpu() => {
            let cost = |alone: &_| gradient.term.score(&pair.view(&policy.filters, alone));
            // Both terms count the devices of a node by model and free compute, so alike ones cost the same.
            let alike = |a: u16, b: u16| {
                let [a, b] = [a, b].map(|position| &pair.node.gpus[usize::from(position)]);
                let [model, other] = [a, b].map(|gpu| gpu.model.as_ref().map(|model| &model.name));
                a.milli_free() == b.milli_free() && model == other
            };
            best_by(fitting, spec.gpu_count as usize, alike, cost)
        }
        _ => first_fit::choose(fitting, spec.gpu_count as usize),
    }
}
