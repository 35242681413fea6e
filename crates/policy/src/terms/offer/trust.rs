//! `offer-trust`: the arbiter's own trust in the peer.

use crate::term::{Family, TermInfo};
use crate::view::View;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "offer-trust",
    range: (0.0, Some(1.0)),
    unit: "share",
    description: "Prefers peers that the arbiter trusts more.",
    ..TermInfo::of(Family::Offer, |_| Ok(Box::new(score)))
};

fn score(view: &View<'_>) -> f64 {
    view.node.peer.as_ref().map_or(0.0, |peer| peer.trust)
}
