//! `offer-hints`: bonuses for what the job would like, capped.

use crate::params::rule;
use crate::term::{Family, Term, TermInfo};
use crate::view::View;

rule! { Term OfferHints {
    region_bonus: f64 = at_least(0.05, 0.0, "", "Bonus of a preferred region."),
    peer_bonus: f64 = at_least(0.10, 0.0, "", "Bonus of a preferred peer."),
    colocate_bonus: f64 = at_least(0.10, 0.0, "", "Bonus of a peer that runs a job to be beside."),
    hints_cap: f64 = at_least(0.10, 0.0, "", "Largest sum of the bonuses."),
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "offer-hints",
    range: (0.0, Some(0.10)),
    description: "Adds bonuses for a preferred region, a preferred peer and a job to run beside, up to a cap.",
    params: OfferHints::PARAMS,
    ..TermInfo::of(Family::Offer, OfferHints::build)
};

impl Term for OfferHints {
    fn score(&self, view: &View<'_>) -> f64 {
        let hints = &view.spec.hints;
        let in_region = view.node.region.as_ref().is_some_and(|region| hints.prefer_regions.contains(region));
        let preferred = hints.prefer_peers.contains(&view.node.id);
        let beside =
            view.node.placements.iter().any(|placement| hints.colocate_with.contains(&placement.job));
        let bonus = |applies: bool, points: f64| if applies { points } else { 0.0 };
        let sum = bonus(in_region, self.region_bonus)
            + bonus(preferred, self.peer_bonus)
            + bonus(beside, self.colocate_bonus);
        sum.min(self.hints_cap)
    }
}
