//! `fit`: how well the job fills what it would use: neither wasteful nor tight.

use super::speed::MODEL_SHARE;
use crate::params::rule;
use crate::rules::fit::utilisation;
use crate::term::{Family, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::View;

rule! { Term Fit {
    model_share: f64 = MODEL_SHARE,
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "fit",
    range: (0.0, Some(100.0)),
    unit: "points",
    description: "How well the job fills the memory or machine it would use: neither wasteful nor tight.",
    params: Fit::PARAMS,
    ..TermInfo::of(Family::Fit, Fit::build)
};

impl Term for Fit {
    fn score(&self, view: &View<'_>) -> f64 {
        let (u, curve) = utilisation(view, self.model_share);
        curve.at(u)
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        facts.note("utilisation", Fact::Number(utilisation(view, self.model_share).0));
    }
}
