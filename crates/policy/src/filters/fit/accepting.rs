//! Filter `accepting`: the owner and the agent take work.

use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "accepting",
    description: "Admits nodes whose owner has not paused them.",
    reasons: &[Reason::Paused],
    about: About::Registration,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

pub(crate) fn check(view: &View<'_>) -> Option<Refusal> {
    if view.node.accepting {
        return None;
    }
    let (needed, found) = (Quantity::word("accepting"), Quantity::word("paused"));
    let refusal = Refusal::not_now(Reason::Paused, needed, found, Wake::Heartbeat);
    Some(refusal.remedy(
        "the owner must resume the node, or its own preconditions (power, network, schedule) must hold",
    ))
}
