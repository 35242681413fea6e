//! `offer-trust`: the arbiter's own trust in the peer.

use crate::params::{ParamError, Params};
use crate::term::{Class, Family, Term, TermInfo};
use crate::view::View;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "offer-trust",
    class: Class::Soft,
    range: (0.0, Some(1.0)),
    unit: "share",
    description: "Prefers peers that the arbiter trusts more.",
    ..TermInfo::of(Family::Offer, build)
};

struct OfferTrust;

fn build(_: &Params<'_>) -> Result<Box<dyn Term>, ParamError> {
    Ok(Box::new(OfferTrust))
}

impl Term for OfferTrust {
    fn score(&self, view: &View<'_>) -> f64 {
        view.node.peer.as_ref().map_or(0.0, |peer| peer.trust)
    }
}
