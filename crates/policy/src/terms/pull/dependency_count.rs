//! `DependencyCountRule`: prefers jobs that many others wait for.

use landfall_model::JobKind;

use super::arith::{fraction, usual};
use super::preset::{PRESET, Preset};
use crate::params::{ParamError, ParamInfo, Params};
use crate::term::{Class, Family, Term, TermInfo};
use crate::view::View;

const POINTS_MAX: ParamInfo =
    ParamInfo::at_least("points_max", 50.0, 0.0, "points", "Points from the full count on, all in all.");
const FACTOR: ParamInfo = ParamInfo::at_least(
    "window_factor",
    2.0,
    0.0,
    "",
    "The count is full at this many times the usual number.",
);
const FALLBACK: ParamInfo = ParamInfo::at_least(
    "fallback_dependencies",
    10.0,
    0.0,
    "jobs",
    "The usual number of dependencies while none has been measured.",
);

pub(crate) const INFO: TermInfo = TermInfo {
    name: "DependencyCountRule",
    class: Class::Soft,
    range: (0.0, Some(50.0)),
    unit: "points",
    description: "Prefers jobs that many others wait for.",
    params: &[POINTS_MAX, FACTOR, FALLBACK, PRESET],
    ..TermInfo::of(Family::Pull, build)
};

struct DependencyCount {
    points_max: f64,
    factor: f64,
    fallback: f64,
    preset: Preset,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Term>, ParamError> {
    Ok(Box::new(DependencyCount {
        points_max: params.number(&POINTS_MAX)?,
        factor: params.number(&FACTOR)?,
        fallback: params.number(&FALLBACK)?,
        preset: Preset::build(params)?,
    }))
}

impl Term for DependencyCount {
    fn score(&self, view: &View<'_>) -> f64 {
        if view.spec.kind == JobKind::Eval {
            return 0.0;
        }
        let count = match self.preset {
            Preset::Documented => view.spec.dependents,
            Preset::Upstream => view.spec.direct_inputs,
        };
        let base = self.factor * usual(view.pass.world.instance.dependency_count.h1, self.fallback);
        if base <= 0.0 {
            return if count > 0 { self.points_max } else { 0.0 };
        }
        self.points_max * fraction(count as f64, base)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, close};
    use super::INFO;

    fn build_with(dependents: u64) -> Case {
        Case::of(&INFO).job(&format!("dependents = {dependents}\ndirect_inputs = 1"))
    }

    #[test]
    fn p5_the_cap_is_on_the_total() {
        for (dependents, want) in [(0, 0.0), (1, 2.5), (15, 37.5), (20, 50.0), (100_000, 50.0)] {
            close(build_with(dependents).instance("dependency_count.h1 = 10.0").score(), want);
        }
        let eval = Case::of(&INFO).job("kind = 'eval'\ndependents = 5");
        close(eval.instance("dependency_count.h1 = 10.0").score(), 0.0);
    }

    #[test]
    fn upstream_counts_direct_inputs() {
        close(build_with(15).params("preset = 'upstream'").score(), 2.5);
    }

    #[test]
    fn a_mean_of_zero_leaves_all_or_nothing() {
        close(build_with(0).instance("dependency_count.h1 = 0.0").score(), 0.0);
        close(build_with(1).instance("dependency_count.h1 = 0.0").score(), 50.0);
    }

    #[test]
    fn without_a_window_ten_is_usual() {
        close(build_with(10).score(), 25.0);
        close(build_with(10).instance("dependency_count = { m5 = 1.0, h24 = 1.0 }").score(), 25.0);
    }

    #[test]
    fn constants_can_be_changed() {
        let case = build_with(1).params("points_max = 8\nwindow_factor = 1\nfallback_dependencies = 4");
        close(case.score(), 2.0);
    }
}
