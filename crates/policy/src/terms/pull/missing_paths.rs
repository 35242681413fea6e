//! `MissingPathsRule`: prefers jobs most of whose inputs the node holds.

use crate::params::{ParamError, ParamInfo, Params};
use crate::rules::window::or_else;
use crate::score::clamp01;
use crate::term::{Class, Family, Reads, Term, TermInfo};
use crate::view::View;

const CAP: ParamInfo = ParamInfo::at_least("cap", 200.0, 0.0, "points", "Points when nothing is missing.");
const FACTOR: ParamInfo =
    ParamInfo::at_least("window_factor", 2.0, 0.0, "", "No points are left at this many times the usual number.");
const FALLBACK: ParamInfo =
    ParamInfo::at_least("fallback", 20.0, 0.0, "inputs", "The usual number while none has been measured.");

/// What the catalogue says.
pub(crate) const INFO: TermInfo = TermInfo {
    name: "MissingPathsRule",
    family: Family::Pull,
    class: Class::Soft,
    range: (0.0, Some(200.0)),
    unit: "points",
    description: "Prefers jobs most of whose inputs this node already holds.",
    params: &[CAP, FACTOR, FALLBACK],
    reads: Reads { report: true, ..Reads::PAIR },
    build,
};

struct MissingPaths {
    cap: f64,
    factor: f64,
    fallback: f64,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Term>, ParamError> {
    Ok(Box::new(MissingPaths {
        cap: params.number(&CAP)?,
        factor: params.number(&FACTOR)?,
        fallback: params.number(&FALLBACK)?,
    }))
}

impl Term for MissingPaths {
    fn score(&self, view: &View<'_>) -> f64 {
        let Some(missing) = view.report().and_then(|report| report.missing_inputs) else { return 0.0 };
        let base = self.factor * or_else(view.pass.world.instance.missing_inputs.h1, self.fallback);
        if base <= 0.0 {
            return if missing == 0 { self.cap } else { 0.0 };
        }
        self.cap * (1.0 - clamp01(missing as f64 / base))
    }
}
