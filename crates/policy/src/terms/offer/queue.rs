//! `offer-queue`: how short the peer's own queue is.

use crate::term::{Family, TermInfo};
use crate::view::View;

/// A queue of this length earns nothing.
const FULL: f64 = 10.0;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "offer-queue",
    range: (0.0, Some(1.0)),
    unit: "share",
    description: "Prefers peers with short queues.",
    ..TermInfo::of(Family::Offer, |_| Ok(Box::new(score)))
};

fn score(view: &View<'_>) -> f64 {
    let queued = view.node.peer.as_ref().map_or(0, |peer| peer.queued);
    1.0 - (queued as f64 / FULL).min(1.0)
}
