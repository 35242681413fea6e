//! Filter `peer-budget`: the offer is not too dear.

use crate::filter::{About, Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::rules::offer::Terms;
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "peer-budget",
    description: "Admits offers within the job's price limit.",
    reasons: &[Reason::OverBudget],
    about: About::Moment,
    ..FilterInfo::of(build)
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
        let (needed, found) = (Quantity::Count(limit), Quantity::Count(cost));
        let refusal = Refusal::not_now(Reason::OverBudget, needed, found, Wake::PlacementEnded);
        Some(refusal.remedy(
            view.say(|| format!("raise max_cost to {cost}, or wait until the peer's queue is shorter")),
        ))
    }
}
