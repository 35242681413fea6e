//! `PreferLocalBuildRule`: sends jobs marked as local to nodes that hold their inputs.

use landfall_model::JobKind;

use super::arith::{fraction, usual};
use crate::params::rule;
use crate::term::{Family, Reads, Term, TermInfo};
use crate::view::View;

rule! { Term PreferLocalBuild {
    points_max: f64 = at_least(150.0, 0.0, "points", "Points when nothing is missing."),
    window_factor: f64 = at_least(2.0, 0.0, "", "No points are left at this many times the usual number."),
    fallback_slope: f64 = at_least(
        20.0, 0.0, "points/input",
        "Points lost with each missing input while no usual number above 0 has been measured.",
    ),
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "PreferLocalBuildRule",
    range: (0.0, Some(150.0)),
    unit: "points",
    description: "Sends jobs marked as local to nodes that hold their inputs.",
    params: PreferLocalBuild::PARAMS,
    reads: Reads { report: true, ..Reads::PAIR },
    ..TermInfo::of(Family::Pull, PreferLocalBuild::build)
};

impl Term for PreferLocalBuild {
    fn score(&self, view: &View<'_>) -> f64 {
        if view.spec.kind == JobKind::Eval || !view.spec.prefer_local {
            return 0.0;
        }
        let Some(missing) = view.report().and_then(|report| report.missing_inputs) else { return 0.0 };
        let knee = self.window_factor * usual(view.pass.world.instance.missing_inputs.h1, 0.0);
        if knee > 0.0 {
            return self.points_max * (1.0 - fraction(missing as f64, knee));
        }
        (self.points_max - missing as f64 * self.fallback_slope).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, close};
    use super::INFO;

    fn missing(count: u64) -> Case {
        Case::of(&INFO).job("prefer_local = true").report(&format!("missing_inputs = {count}"))
    }

    #[test]
    fn p19_each_missing_input_costs_twenty_points() {
        for (count, want) in [(0, 150.0), (2, 110.0), (8, 0.0), (u64::MAX >> 1, 0.0)] {
            close(missing(count).score(), want);
        }
        close(Case::of(&INFO).job("prefer_local = true").score(), 0.0);
        close(missing(0).job("prefer_local = false").score(), 0.0);
    }

    #[test]
    fn a_measured_window_sets_the_knee() {
        for (count, want) in [(0, 150.0), (5, 112.5), (20, 0.0), (21, 0.0)] {
            close(missing(count).instance("missing_inputs.h1 = 10.0").score(), want);
        }
    }

    #[test]
    fn a_measured_zero_sets_none() {
        close(missing(2).instance("missing_inputs.h1 = 0.0").score(), 110.0);
    }

    #[test]
    fn evals_get_nothing() {
        close(missing(0).job("kind = 'eval'\nprefer_local = true").score(), 0.0);
    }

    #[test]
    fn a_report_without_a_number_gives_nothing() {
        close(missing(0).report("missing_bytes = 0").score(), 0.0);
    }

    #[test]
    fn constants_can_be_changed() {
        close(missing(2).params("points_max = 10\nfallback_slope = 3").score(), 4.0);
        let case = missing(2).params("points_max = 10\nwindow_factor = 1");
        close(case.instance("missing_inputs.h1 = 4.0").score(), 5.0);
    }
}
