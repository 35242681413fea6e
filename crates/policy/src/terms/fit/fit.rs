//! `fit`: how well the job fills what it would use: neither wasteful nor tight.

use super::speed::MODEL_SHARE;
use crate::params::{ParamError, Params};
use crate::rules::fit::utilisation;
use crate::term::{Class, Family, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::View;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "fit",
    class: Class::Soft,
    range: (0.0, Some(100.0)),
    unit: "points",
    description: "How well the job fills the memory or machine it would use: neither wasteful nor tight.",
    params: &[MODEL_SHARE],
    ..TermInfo::of(Family::Fit, build)
};

struct Fit {
    model_share: f64,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Term>, ParamError> {
    Ok(Box::new(Fit { model_share: params.number(&MODEL_SHARE)? }))
}

impl Term for Fit {
    fn score(&self, view: &View<'_>) -> f64 {
        let (u, curve) = utilisation(view, self.model_share);
        curve.at(u)
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        facts.note("utilisation", Fact::Number(utilisation(view, self.model_share).0));
    }
}
