//! `offer-hints`: bonuses for what the job would like, capped.

use crate::params::{ParamError, ParamInfo, Params};
use crate::term::{Class, Family, Term, TermInfo};
use crate::view::View;

const REGION: ParamInfo = ParamInfo::at_least("region_bonus", 0.05, 0.0, "", "Bonus of a preferred region.");
const PEER: ParamInfo = ParamInfo::at_least("peer_bonus", 0.10, 0.0, "", "Bonus of a preferred peer.");
const COLOCATE: ParamInfo =
    ParamInfo::at_least("colocate_bonus", 0.10, 0.0, "", "Bonus of a peer that runs a job to be beside.");
const CAP: ParamInfo = ParamInfo::at_least("hints_cap", 0.10, 0.0, "", "Largest sum of the bonuses.");

pub(crate) const INFO: TermInfo = TermInfo {
    name: "offer-hints",
    class: Class::Soft,
    range: (0.0, Some(0.10)),
    description: "Adds bonuses for a preferred region, a preferred peer and a job to run beside, up to a cap.",
    params: &[REGION, PEER, COLOCATE, CAP],
    ..TermInfo::of(Family::Offer, build)
};

struct OfferHints {
    region: f64,
    peer: f64,
    colocate: f64,
    cap: f64,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Term>, ParamError> {
    Ok(Box::new(OfferHints {
        region: params.number(&REGION)?,
        peer: params.number(&PEER)?,
        colocate: params.number(&COLOCATE)?,
        cap: params.number(&CAP)?,
    }))
}

impl Term for OfferHints {
    fn score(&self, view: &View<'_>) -> f64 {
        let hints = &view.spec.hints;
        let in_region = view.node.region.as_ref().is_some_and(|region| hints.prefer_regions.contains(region));
        let preferred = hints.prefer_peers.contains(&view.node.id);
        let beside =
            view.node.placements.iter().any(|placement| hints.colocate_with.contains(&placement.job));
        let bonus = |applies: bool, points: f64| if applies { points } else { 0.0 };
        let sum = bonus(in_region, self.region) + bonus(preferred, self.peer) + bonus(beside, self.colocate);
        sum.min(self.cap)
    }
}
