//! `offer-capacity`: the scarcest free share of CPU, RAM and GPUs.

use crate::params::{ParamError, Params};
use crate::rules::offer::capacity_ratio;
use crate::term::{Class, Family, Term, TermInfo};
use crate::view::View;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "offer-capacity",
    class: Class::Soft,
    range: (0.0, Some(1.0)),
    unit: "share",
    description: "Prefers peers whose scarcest free amount is large.",
    ..TermInfo::of(Family::Offer, build)
};

struct OfferCapacity;

fn build(_: &Params<'_>) -> Result<Box<dyn Term>, ParamError> {
    Ok(Box::new(OfferCapacity))
}

impl Term for OfferCapacity {
    fn score(&self, view: &View<'_>) -> f64 {
        capacity_ratio(view.node, view.spec.is_gpu_job())
    }
}
