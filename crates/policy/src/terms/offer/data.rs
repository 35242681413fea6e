//! `offer-data`: the share of the asked data that the peer holds.

use crate::term::{Family, TermInfo};
use crate::view::View;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "offer-data",
    range: (0.0, Some(1.0)),
    unit: "share",
    description: "Prefers peers that hold the data the job asks to be near.",
    ..TermInfo::of(Family::Offer, |_| Ok(Box::new(score)))
};

fn score(view: &View<'_>) -> f64 {
    let asked = &view.spec.hints.data;
    let Some(peer) = view.node.peer.as_ref().filter(|_| !asked.is_empty()) else { return 0.0 };
    asked.iter().filter(|digest| peer.data.contains(*digest)).count() as f64 / asked.len() as f64
}
