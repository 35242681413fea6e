//! `MissingPathsRule`: prefers jobs most of whose inputs the node holds.

use super::arith::{fraction, usual};
use crate::params::rule;
use crate::term::{Family, Reads, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::View;

rule! { Term MissingPaths {
    points_max: f64 = at_least(200.0, 0.0, "points", "Points when nothing is missing."),
    window_factor: f64 = at_least(2.0, 0.0, "", "No points are left at this many times the usual number."),
    fallback_inputs: f64 = at_least(
        20.0, 0.0, "inputs",
        "The usual number of missing inputs while none has been measured.",
    ),
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "MissingPathsRule",
    range: (0.0, Some(200.0)),
    unit: "points",
    description: "Prefers jobs most of whose inputs this node already holds.",
    params: MissingPaths::PARAMS,
    reads: Reads { report: true, ..Reads::PAIR },
    ..TermInfo::of(Family::Pull, MissingPaths::build)
};

impl Term for MissingPaths {
    fn score(&self, view: &View<'_>) -> f64 {
        let Some(missing) = missing_inputs(view) else { return 0.0 };
        let base =
            self.window_factor * usual(view.pass.world.instance.missing_inputs.h1, self.fallback_inputs);
        if base <= 0.0 {
            return if missing == 0 { self.points_max } else { 0.0 };
        }
        self.points_max * (1.0 - fraction(missing as f64, base))
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        if let Some(missing) = missing_inputs(view) {
            facts.note("missing_inputs", Fact::Count(missing));
        }
    }
}

fn missing_inputs(view: &View<'_>) -> Option<u64> {
    view.report()?.missing_inputs
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, close};
    use super::INFO;

    fn missing(count: u64, instance: &str) -> f64 {
        Case::of(&INFO).report(&format!("missing_inputs = {count}")).instance(instance).score()
    }

    #[test]
    fn p1_points_fall_to_none_at_twice_the_mean() {
        for (count, want) in [(0, 200.0), (2, 180.0), (10, 100.0), (20, 0.0), (u64::MAX >> 1, 0.0)] {
            close(missing(count, "missing_inputs.h1 = 10.0"), want);
        }
    }

    #[test]
    fn p2_a_mean_of_zero_leaves_all_or_nothing() {
        close(missing(0, "missing_inputs.h1 = 0.0"), 200.0);
        close(missing(1, "missing_inputs.h1 = 0.0"), 0.0);
    }

    #[test]
    fn without_a_window_twenty_is_usual() {
        close(missing(10, ""), 150.0);
        close(missing(10, "missing_inputs = { m5 = 1.0, h24 = 1.0 }"), 150.0);
    }

    #[test]
    fn an_unknown_number_gives_nothing() {
        close(Case::of(&INFO).score(), 0.0);
        close(Case::of(&INFO).report("missing_bytes = 0").score(), 0.0);
    }

    #[test]
    fn both_kinds_count() {
        close(Case::of(&INFO).job("kind = 'eval'").report("missing_inputs = 0").score(), 200.0);
    }

    #[test]
    fn constants_can_be_changed() {
        let case = Case::of(&INFO).report("missing_inputs = 10");
        close(case.params("points_max = 10\nwindow_factor = 1\nfallback_inputs = 40").score(), 7.5);
    }
}
