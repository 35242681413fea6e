//! `MissingNarSizeRule`: prefers jobs that need few bytes fetched.

use super::arith::{fraction, usual};
use crate::params::rule;
use crate::term::{Family, Reads, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::View;

const BYTES_PER_MIB: f64 = 1_048_576.0;

rule! { Term MissingNarSize {
    points_max: f64 = at_least(500.0, 0.0, "points", "Points when nothing is missing."),
    window_factor: f64 = at_least(2.0, 0.0, "", "No points are left at this many times the usual size."),
    fallback_mib: f64 = at_least(1024.0, 0.0, "MiB", "The usual missing size while none has been measured."),
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "MissingNarSizeRule",
    range: (0.0, Some(500.0)),
    unit: "points",
    description: "Prefers jobs that need few bytes fetched.",
    params: MissingNarSize::PARAMS,
    reads: Reads { report: true, ..Reads::PAIR },
    ..TermInfo::of(Family::Pull, MissingNarSize::build)
};

impl Term for MissingNarSize {
    fn score(&self, view: &View<'_>) -> f64 {
        match missing_bytes(view) {
            None => 0.0,
            Some(0) => self.points_max,
            Some(bytes) => {
                let base =
                    self.window_factor * usual(view.pass.world.instance.missing_mib.h1, self.fallback_mib);
                if base <= 0.0 {
                    return 0.0;
                }
                self.points_max * (1.0 - fraction(bytes as f64 / BYTES_PER_MIB, base))
            }
        }
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        if let Some(bytes) = missing_bytes(view) {
            facts.note("missing_bytes", Fact::Count(bytes));
        }
    }
}

fn missing_bytes(view: &View<'_>) -> Option<u64> {
    view.report()?.missing_bytes
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, close};
    use super::INFO;

    fn missing(bytes: u64, instance: &str) -> f64 {
        Case::of(&INFO).report(&format!("missing_bytes = {bytes}")).instance(instance).score()
    }

    #[test]
    fn p3_points_fall_to_none_at_twice_the_mean() {
        for (bytes, want) in [(0, 500.0), (100 << 20, 250.0), (100_000_000_000, 0.0), (1 << 60, 0.0)] {
            close(missing(bytes, "missing_mib.h1 = 100.0"), want);
        }
    }

    #[test]
    fn a_mean_of_zero_leaves_all_or_nothing() {
        close(missing(0, "missing_mib.h1 = 0.0"), 500.0);
        close(missing(1, "missing_mib.h1 = 0.0"), 0.0);
    }

    #[test]
    fn without_a_window_one_gib_is_usual() {
        close(missing(1 << 30, ""), 250.0);
        close(missing(1 << 30, "missing_mib = { m5 = 1.0, h24 = 1.0 }"), 250.0);
    }

    #[test]
    fn an_unknown_size_gives_nothing() {
        close(Case::of(&INFO).score(), 0.0);
        close(Case::of(&INFO).report("missing_inputs = 0").score(), 0.0);
    }

    #[test]
    fn both_kinds_count() {
        close(Case::of(&INFO).job("kind = 'eval'").report("missing_bytes = 0").score(), 500.0);
    }

    #[test]
    fn constants_can_be_changed() {
        let case = Case::of(&INFO).report("missing_bytes = 1048576");
        close(case.params("points_max = 10\nwindow_factor = 1\nfallback_mib = 4").score(), 7.5);
    }
}
