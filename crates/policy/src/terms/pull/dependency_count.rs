//! `DependencyCountRule`: prefers jobs that many others wait for.

use landfall_model::JobKind;

use super::arith::{fraction, usual};
use super::preset::{PRESET, Preset};
use crate::params::rule;
use crate::term::{Family, Term, TermInfo};
use crate::view::View;

rule! { Term DependencyCount {
    points_max: f64 = at_least(50.0, 0.0, "points", "Points from the full count on, all in all."),
    window_factor: f64 = at_least(2.0, 0.0, "", "The count is full at this many times the usual number."),
    fallback_dependencies: f64 = at_least(
        10.0, 0.0, "jobs",
        "The usual number of dependencies while none has been measured.",
    ),
    preset: Preset = PRESET,
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "DependencyCountRule",
    range: (0.0, Some(50.0)),
    unit: "points",
    description: "Prefers jobs that many others wait for.",
    params: DependencyCount::PARAMS,
    ..TermInfo::of(Family::Pull, DependencyCount::build)
};

impl Term for DependencyCount {
    fn score(&self, view: &View<'_>) -> f64 {
        if view.spec.kind == JobKind::Eval {
            return 0.0;
        }
        let count = match self.preset {
            Preset::Documented => view.spec.dependents,
            Preset::Upstream => view.spec.direct_inputs,
        };
        let base = self.window_factor
            * usual(view.pass.world.instance.dependency_count.h1, self.fallback_dependencies);
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
