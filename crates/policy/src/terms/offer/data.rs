//! `offer-data`: the share of the asked data that the peer holds.

use crate::params::{ParamError, Params};
use crate::term::{Class, Family, Term, TermInfo};
use crate::view::View;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "offer-data",
    class: Class::Soft,
    range: (0.0, Some(1.0)),
    unit: "share",
    description: "Prefers peers that hold the data the job asks to be near.",
    ..TermInfo::of(Family::Offer, build)
};

struct OfferData;

fn build(_: &Params<'_>) -> Result<Box<dyn Term>, ParamError> {
    Ok(Box::new(OfferData))
}

impl Term for OfferData {
    fn score(&self, view: &View<'_>) -> f64 {
        let asked = &view.spec.hints.data;
        let Some(peer) = view.node.peer.as_ref().filter(|_| !asked.is_empty()) else { return 0.0 };
        asked.iter().filter(|digest| peer.data.contains(*digest)).count() as f64 / asked.len() as f64
    }
}
