//! `offer-queue`: how short the peer's own queue is.

use crate::params::{ParamError, Params};
use crate::term::{Class, Family, Term, TermInfo};
use crate::view::View;

/// A queue of this length earns nothing.
const FULL: f64 = 10.0;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "offer-queue",
    class: Class::Soft,
    range: (0.0, Some(1.0)),
    unit: "share",
    description: "Prefers peers with short queues.",
    ..TermInfo::of(Family::Offer, build)
};

struct OfferQueue;

fn build(_: &Params<'_>) -> Result<Box<dyn Term>, ParamError> {
    Ok(Box::new(OfferQueue))
}

impl Term for OfferQueue {
    fn score(&self, view: &View<'_>) -> f64 {
        let queued = view.node.peer.as_ref().map_or(0, |peer| peer.queued);
        1.0 - (queued as f64 / FULL).min(1.0)
    }
}
