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
    let (wanted, found) = (view.spec.tier, view.node.tier());
    if wanted == found {
        return None;
    }
    Some(
        Refusal::never(
            Reason::Tier,
            Quantity::word(word(wanted)),
            Quantity::word(word(found)),
            Wake::NodeAdded,
        )
        .remedy(view.say(|| format!("submit the job as {}, or add {} capacity", word(found), word(wanted)))),
    )
}

fn word(tier: Tier) -> &'static str {
    match tier {
        Tier::Fast => "FAST",
        Tier::Flex => "FLEX",
    }
}
