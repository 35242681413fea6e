//! Filter `pack-tier`: node and job are of one tier.

use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Quantity, Refusal, Wake};
use crate::view::View;
use landfall_model::Tier;

/// What the catalogue says.
pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pack-tier",
    description: "Admits nodes of the tier the job asks for.",
    reasons: &["tier"],
    params: &[],
    clock: false,
    job_identity: false,
    build,
};

struct PackTier;

fn build(_: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(PackTier))
}

impl Filter for PackTier {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let (wanted, found) = (view.spec.tier, view.node.tier());
        if wanted == found {
            return None;
        }
        Some(
            Refusal::never(
                "tier",
                Quantity::Word(word(wanted)),
                Quantity::Word(word(found)),
                Wake::NodeAdded,
            )
            .remedy(
                view.say(|| format!("submit the job as {}, or add {} capacity", word(found), word(wanted))),
            ),
        )
    }
}

fn word(tier: Tier) -> &'static str {
    match tier {
        Tier::Fast => "FAST",
        Tier::Flex => "FLEX",
    }
}
