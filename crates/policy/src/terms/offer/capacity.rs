//! `offer-capacity`: the scarcest free share of CPU, RAM and GPUs.

use crate::rules::offer::capacity_ratio;
use crate::term::{Family, TermInfo};
use crate::view::View;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "offer-capacity",
    range: (0.0, Some(1.0)),
    unit: "share",
    description: "Prefers peers whose scarcest free amount is large.",
    ..TermInfo::of(Family::Offer, |_| Ok(Box::new(score)))
};

fn score(view: &View<'_>) -> f64 {
    capacity_ratio(view.node, view.spec.is_gpu_job())
}
