//! `offer-cell`: the peer is in the cell asked for.

use crate::term::{Family, TermInfo};
use crate::view::View;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "offer-cell",
    range: (0.0, Some(1.0)),
    unit: "share",
    description: "Prefers peers of the cell the job asks for.",
    ..TermInfo::of(Family::Offer, |_| Ok(Box::new(score)))
};

fn score(view: &View<'_>) -> f64 {
    let cell = view.node.peer.as_ref().and_then(|peer| peer.cell.as_ref());
    if cell.is_some() && cell == view.spec.cell.as_ref() { 1.0 } else { 0.0 }
}
