//! `offer-rtt`: how near the peer is in the network; unknown earns nothing.

use crate::term::{Family, TermInfo};
use crate::view::View;

/// A round trip of this many ms earns nothing.
const FAR_MS: f64 = 500.0;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "offer-rtt",
    range: (0.0, Some(1.0)),
    unit: "share",
    description: "Prefers peers that answer quickly.",
    ..TermInfo::of(Family::Offer, |_| Ok(Box::new(score)))
};

fn score(view: &View<'_>) -> f64 {
    let rtt = view.node.peer.as_ref().and_then(|peer| peer.rtt_ms);
    rtt.map_or(0.0, |ms| 1.0 - (ms / FAR_MS).min(1.0))
}
