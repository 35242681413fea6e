//! Filter `peer-budget`: the offer is not too dear.

use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Quantity, Refusal, Wake};
use crate::rules::offer::Terms;
use crate::view::View;

/// What the catalogue says.
pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "peer-budget",
    description: "Admits offers within the job's price limit.",
    reasons: &["over_budget"],
    params: &[],
    clock: false,
    job_identity: false,
    build,
};

struct PeerBudget {
    terms: Terms,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(PeerBudget { terms: Terms::build(params)? }))
}

impl Filter for PeerBudget {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let limit = view.spec.max_cost?;
        let cost = self.terms.cost(view.node);
        if cost <= limit {
            return None;
        }
        Some(
            Refusal::not_now(
                "over_budget",
                Quantity::Count(limit),
                Quantity::Count(cost),
                Wake::PlacementEnded,
            )
            .remedy(
                view.say(|| format!("raise max_cost to {cost}, or wait until the peer's queue is shorter")),
            ),
        )
    }
}
