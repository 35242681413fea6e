//! `ResourceSaturationRule`: keeps work off overloaded nodes and off nodes where it would probably run out of memory.

use landfall_model::{JobKind, Metrics};

use super::arith::minus;
use super::preset::{PRESET, Preset};
use crate::params::rule;
use crate::term::{Family, Reads, Term, TermInfo, TermKind};
use crate::verdict::{Fact, Facts};
use crate::view::View;

rule! { Term ResourceSaturation {
    overload_penalty: f64 = at_least(1000.0, 0.0, "points", "Points taken on an overloaded node."),
    memory_penalty: f64 = at_least(
        1000.0, 0.0, "points",
        "Points taken where the job would probably run out of memory.",
    ),
    cpu_limit_pct: f64 = between(
        90.0, 0.0, 1000.0, "%",
        "CPU use from which a node is overloaded (documented).",
    ),
    cpu_limit_upstream_pct: f64 = between(
        80.0, 0.0, 1000.0, "%",
        "CPU use from which a node is overloaded for real work (upstream).",
    ),
    cpu_limit_builtin_pct: f64 = between(
        90.0, 0.0, 1000.0, "%",
        "CPU use from which a node is overloaded for builtin work (upstream).",
    ),
    // Whole numbers keep the comparisons of memory exact.
    ram_free_divisor: u64 = whole(
        10, "",
        "A node is overloaded when its free memory times this is no more than all of it.",
    ),
    headroom_pct: u64 = whole(110, "%", "The part of the predicted peak that should be free."),
    preset: Preset = PRESET,
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "ResourceSaturationRule",
    class: TermKind::Disqualifier,
    range: (-2000.0, Some(0.0)),
    unit: "points",
    description: "Keeps work off overloaded nodes and off nodes where it would probably run out of memory.",
    params: ResourceSaturation::PARAMS,
    reads: Reads { history: true, ..Reads::PAIR },
    ..TermInfo::of(Family::Pull, ResourceSaturation::build)
};

impl Term for ResourceSaturation {
    fn score(&self, view: &View<'_>) -> f64 {
        let Some(metrics) = &view.node.metrics else { return 0.0 };
        let exempt = view.spec.is_builtin() && self.preset == Preset::Documented;
        if view.spec.kind == JobKind::Eval || exempt {
            return 0.0;
        }
        let limit = match self.preset {
            _ if view.spec.is_builtin() => self.cpu_limit_builtin_pct,
            Preset::Documented => self.cpu_limit_pct,
            Preset::Upstream => self.cpu_limit_upstream_pct,
        };
        let overload = if self.is_overloaded(metrics, limit) { self.overload_penalty } else { 0.0 };
        let memory = if self.lacks_memory(view, metrics) { self.memory_penalty } else { 0.0 };
        minus(overload + memory)
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        let Some(metrics) = &view.node.metrics else { return };
        if let Some(pct) = metrics.cpu_usage_pct {
            facts.note("cpu_usage_pct", Fact::Number(pct));
        }
        if let Some(free) = metrics.ram_free_mib {
            facts.note("ram_free_mib", Fact::Count(free.get()));
        }
    }
}

impl ResourceSaturation {
    /// CPU and memory overload are one overload: it is taken for once.
    fn is_overloaded(&self, metrics: &Metrics, limit: f64) -> bool {
        let total = u128::from(metrics.ram_total_mib.get());
        let busy = metrics.cpu_usage_pct.is_some_and(|pct| pct >= limit);
        let full = metrics
            .ram_free_mib
            .is_some_and(|free| u128::from(free.get()) * u128::from(self.ram_free_divisor) <= total);
        busy || (total > 0 && full)
    }

    fn lacks_memory(&self, view: &View<'_>, metrics: &Metrics) -> bool {
        // Without a measured amount the history would be looked up for nothing.
        let Some(free) = metrics.ram_free_mib else { return false };
        let history = view.pass.history(view.spec);
        let predicted = u128::from(history.predicted_peak_ram_mib.get());
        history.samples > 0 && predicted * u128::from(self.headroom_pct) > u128::from(free.get()) * 100
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, close};
    use super::INFO;

    fn node(cpu_pct: f64, free: u64, total: u64) -> Case {
        Case::of(&INFO)
            .metrics(&format!("cpu_usage_pct = {cpu_pct:?}, ram_free_mib = {free}, ram_total_mib = {total}"))
    }

    const BUILTIN: &str = "architecture = 'builtin'";

    #[test]
    fn p15_overload_counts_once() {
        let cases = [
            (95.0, 8000, -1000.0),
            (10.0, 800, -1000.0),
            (10.0, 8000, 0.0),
            (85.0, 8000, 0.0),
            (95.0, 800, -1000.0),
        ];
        for (cpu, free, want) in cases {
            close(node(cpu, free, 16_000).score(), want);
        }
    }

    #[test]
    fn limits_are_included() {
        close(node(90.0, 8000, 16_000).score(), -1000.0);
        close(node(89.999, 8000, 16_000).score(), 0.0);
        close(node(0.0, 1600, 16_000).score(), -1000.0);
        close(node(0.0, 1601, 16_000).score(), 0.0);
    }

    #[test]
    fn p16_upstream_has_other_limits() {
        let upstream = |cpu| node(cpu, 8000, 16_000).params("preset = 'upstream'");
        close(upstream(85.0).score(), -1000.0);
        close(upstream(85.0).job(BUILTIN).score(), 0.0);
        close(upstream(92.0).job(BUILTIN).score(), -1000.0);
    }

    #[test]
    fn p17_both_parts_add() {
        let predicted = |case: Case| case.prediction("samples = 5, predicted_peak_ram_mib = 10000").score();
        close(predicted(node(10.0, 8000, 16_000)), -1000.0);
        close(predicted(node(10.0, 12_000, 32_000)), 0.0);
        close(predicted(node(10.0, 11_000, 32_000)), 0.0);
        close(predicted(node(10.0, 10_999, 32_000)), -1000.0);
        close(predicted(node(99.0, 8000, 16_000)), -2000.0);
    }

    #[test]
    fn p18_before_the_first_heartbeat_nothing_is_known() {
        let large = "samples = 5, predicted_peak_ram_mib = 64000";
        close(Case::of(&INFO).metrics("ram_total_mib = 16000").prediction(large).score(), 0.0);
        close(Case::of(&INFO).prediction(large).score(), 0.0);
    }

    #[test]
    fn builtin_work_is_exempt_as_documented_and_checked_upstream() {
        let case =
            node(99.0, 1, 16_000).job(BUILTIN).prediction("samples = 5, predicted_peak_ram_mib = 9000");
        close(case.score(), 0.0);
        close(case.params("preset = 'upstream'").score(), -2000.0);
    }

    #[test]
    fn evals_are_exempt() {
        close(node(99.0, 1, 16_000).job("kind = 'eval'").score(), 0.0);
    }

    #[test]
    fn without_samples_a_prediction_counts_for_nothing() {
        close(
            node(10.0, 8000, 16_000).prediction("samples = 0, predicted_peak_ram_mib = 64000").score(),
            0.0,
        );
    }

    #[test]
    fn an_unknown_total_is_no_overload() {
        close(node(10.0, 0, 0).score(), 0.0);
    }

    #[test]
    fn each_metric_may_be_absent() {
        close(Case::of(&INFO).metrics("cpu_usage_pct = 95.0").score(), -1000.0);
        close(Case::of(&INFO).metrics("ram_free_mib = 1, ram_total_mib = 16").score(), -1000.0);
        assert_eq!(Case::of(&INFO).metrics("cpu_usage_pct = 95.0").lazy_calls(), (0, 0));
    }

    #[test]
    fn constants_can_be_changed() {
        let params = "overload_penalty = 3\nmemory_penalty = 4\ncpu_limit_pct = 50\nheadroom_pct = 200";
        let case = node(60.0, 100, 1000).prediction("samples = 1, predicted_peak_ram_mib = 60");
        close(case.params(params).score(), -7.0);
        close(node(0.0, 400, 1000).params("ram_free_divisor = 2").score(), -1000.0);
    }
}
