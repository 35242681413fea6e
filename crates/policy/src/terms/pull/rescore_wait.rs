//! `RescoreWaitRule`: holds a build back for a few rounds until the node has said what it would have to fetch.

use landfall_model::JobKind;

use super::arith::minus;
use super::preset::{PRESET, Preset};
use crate::params::rule;
use crate::term::{Family, Reads, Term, TermInfo, TermKind};
use crate::view::View;

rule! { Term RescoreWait {
    hold_penalty: f64 = at_least(1000.0, 0.0, "points", "Points taken while held (documented only)."),
    rescore_rounds: u64 = whole(4, "rounds", "From this timer round on a job is no longer held."),
    preset: Preset = PRESET,
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "RescoreWaitRule",
    class: TermKind::Disqualifier,
    range: (-1000.0, Some(0.0)),
    unit: "points",
    description: "Holds a job back for a few rounds until this node has said what it would have to fetch.",
    params: RescoreWait::PARAMS,
    reads: Reads { report: true, ..Reads::PAIR },
    ..TermInfo::of(Family::Pull, RescoreWait::build)
};

impl RescoreWait {
    /// Only where nodes ask for work do they report, and are rounds counted.
    fn holds(&self, view: &View<'_>) -> bool {
        !view.ranks_nodes
            && view.spec.kind == JobKind::Build
            && u64::from(view.job.rescore_count) < self.rescore_rounds
            && view.report().is_none_or(|report| report.missing_bytes.is_none())
    }
}

impl Term for RescoreWait {
    fn score(&self, view: &View<'_>) -> f64 {
        if self.preset == Preset::Documented && self.holds(view) { minus(self.hold_penalty) } else { 0.0 }
    }

    fn veto(&self, view: &View<'_>) -> bool {
        self.preset == Preset::Upstream && self.holds(view)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, close};
    use super::INFO;

    fn round(rescore_count: u32) -> Case {
        Case::of(&INFO).job(&format!("rescore_count = {rescore_count}"))
    }

    #[test]
    fn p8_documented_takes_points_and_never_vetoes() {
        let eval = Case::of(&INFO).job("kind = 'eval'");
        let known = round(0).report("missing_bytes = 10");
        let cases = [(round(0), -1000.0), (round(3), -1000.0), (round(4), 0.0), (known, 0.0), (eval, 0.0)];
        for (case, want) in cases {
            close(case.score(), want);
            assert!(!case.vetoes());
        }
    }

    #[test]
    fn upstream_vetoes_and_takes_nothing() {
        let upstream = |case: Case| case.params("preset = 'upstream'");
        let eval = Case::of(&INFO).job("kind = 'eval'");
        let known = round(0).report("missing_bytes = 10");
        for (case, want) in
            [(round(0), true), (round(3), true), (round(4), false), (known, false), (eval, false)]
        {
            assert_eq!(upstream(case.clone()).vetoes(), want);
            close(upstream(case).score(), 0.0);
        }
    }

    #[test]
    fn a_report_without_bytes_does_not_release() {
        close(round(0).report("missing_inputs = 0").score(), -1000.0);
    }

    #[test]
    fn zero_bytes_are_an_answer() {
        close(round(0).report("missing_bytes = 0").score(), 0.0);
    }

    #[test]
    fn constants_can_be_changed() {
        close(round(1).params("rescore_rounds = 1").score(), 0.0);
        close(round(9).params("rescore_rounds = 10\nhold_penalty = 5").score(), -5.0);
    }
}
