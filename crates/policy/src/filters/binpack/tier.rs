//! Filter `pack-tier`: node and job are of one tier.

use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;
use landfall_model::Tier;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pack-tier",
    description: "Admits nodes of the tier the job asks for.",
    reasons: &[Reason::Tier],
    about: About::Registration,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    if view.spec.tier == view.node.tier() {
        return None;
    }
    let (wanted, found) = (word(view.spec.tier), word(view.node.tier()));
    let remedy = view.say(|| format!("submit the job as {found}, or add {wanted} capacity"));
    let (needed, found) = (Quantity::word(wanted), Quantity::word(found));
    Some(Refusal::never(Reason::Tier, needed, found, Wake::NodeAdded).remedy(remedy))
}

fn word(tier: Tier) -> &'static str {
    match tier {
        Tier::Fast => "FAST",
        Tier::Flex => "FLEX",
    }
}
