//! `offer-relation`: how near the peer is in the arbiter's membership table.

use crate::term::{Family, TermInfo};
use crate::view::View;
use landfall_model::Scope;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "offer-relation",
    range: (0.0, Some(0.15)),
    description: "Prefers peers that are near in the arbiter's membership table.",
    ..TermInfo::of(Family::Offer, |_| Ok(Box::new(score)))
};

fn score(view: &View<'_>) -> f64 {
    match view.node.peer.as_ref().map_or(Scope::Commons, |peer| peer.scope) {
        Scope::Local => 0.15,
        Scope::Cell => 0.12,
        Scope::Org => 0.08,
        Scope::Federation => 0.04,
        Scope::Commons => 0.0,
    }
}
