//! `ResourceFitRule`: avoids nodes with too little memory for the job's history and steers CPU-heavy jobs to fast cores.

use landfall_model::{Metrics, Prediction};

use super::arith::{minus, rate, usual};
use crate::params::rule;
use crate::term::{Family, Reads, Term, TermInfo, TermKind};
use crate::verdict::{Fact, Facts};
use crate::view::View;

rule! { Term ResourceFit {
    ram_penalty: f64 = at_least(400.0, 0.0, "points", "Points taken when as much memory again is missing."),
    overshoot_max: f64 = at_least(
        2.0, 0.0, "",
        "Memory missing beyond this many times the free amount takes no more points.",
    ),
    fallback_oom_rate: f64 = between(
        0.0, 0.0, 1.0, "",
        "The usual share of jobs killed for memory while none has been measured.",
    ),
    core_points: f64 = at_least(50.0, 0.0, "points", "Points of a reference core for CPU-heavy jobs."),
    core_score_reference: f64 = at_least(1000.0, 1.0, "", "The speed score of a reference core."),
    core_factor_max: f64 = at_least(
        2.0, 0.0, "",
        "Cores faster than this many reference cores give no more points.",
    ),
    fallback_cpu_time_ms: f64 = at_least(
        60_000.0, 0.0, "ms",
        "The usual CPU time while none has been measured; a job above it is CPU-heavy.",
    ),
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "ResourceFitRule",
    class: TermKind::Mixed,
    range: (-3200.0, Some(100.0)),
    unit: "points",
    description: "Avoids nodes with too little memory for the job's history; steers CPU-heavy jobs to fast cores.",
    params: ResourceFit::PARAMS,
    reads: Reads { history: true, ..Reads::PAIR },
    ..TermInfo::of(Family::Pull, ResourceFit::build)
};

impl Term for ResourceFit {
    fn score(&self, view: &View<'_>) -> f64 {
        // Without metrics the history would be looked up for nothing.
        let Some(metrics) = &view.node.metrics else { return 0.0 };
        let history = view.pass.history(view.spec);
        if history.samples == 0 {
            return 0.0;
        }
        self.memory(view, metrics, &history) + self.cpu(view, metrics, &history)
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        if view.node.metrics.is_some() {
            let history = view.pass.history(view.spec);
            facts.note("history_samples", Fact::Count(history.samples));
            facts.note("predicted_peak_ram_mib", Fact::Count(history.predicted_peak_ram_mib.get()));
        }
    }
}

impl ResourceFit {
    fn memory(&self, view: &View<'_>, metrics: &Metrics, history: &Prediction) -> f64 {
        let predicted = history.predicted_peak_ram_mib;
        // No free memory at all is no measure to divide by; the saturation rule speaks for that case.
        match metrics.ram_free_mib {
            Some(free) if !free.is_zero() && free < predicted => {
                let overshoot = (predicted.as_f64() - free.as_f64()) / free.as_f64();
                let usual_oom = usual(view.pass.world.instance.oom_rate.h1, self.fallback_oom_rate);
                let risk = (1.0 + rate(history.oom_rate)) * (1.0 + rate(usual_oom));
                minus(self.ram_penalty * overshoot.min(self.overshoot_max) * risk)
            }
            _ => 0.0,
        }
    }

    fn cpu(&self, view: &View<'_>, metrics: &Metrics, history: &Prediction) -> f64 {
        let usual = usual(view.pass.world.instance.cpu_time_ms.h1, self.fallback_cpu_time_ms);
        if history.avg_cpu_time_ms.as_f64() <= usual {
            return 0.0;
        }
        self.core_points
            * (f64::from(metrics.cpu_core_score) / self.core_score_reference).min(self.core_factor_max)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, close};
    use super::INFO;

    fn memory(free: u64, predicted: u64, oom_rate: f64) -> Case {
        Case::of(&INFO).metrics(&format!("ram_total_mib = 64000, ram_free_mib = {free}")).prediction(
            &format!("samples = 5, predicted_peak_ram_mib = {predicted}, oom_rate = {oom_rate:?}"),
        )
    }

    fn cpu(core_score: u32, cpu_time_ms: u64) -> Case {
        Case::of(&INFO)
            .metrics(&format!("cpu_core_score = {core_score}"))
            .prediction(&format!("samples = 5, avg_cpu_time_ms = {cpu_time_ms}"))
    }

    #[test]
    fn p10_missing_memory_takes_points_up_to_a_limit() {
        for (predicted, want) in [(1000, 0.0), (1500, -200.0), (3000, -800.0), (9000, -800.0)] {
            close(memory(1000, predicted, 0.0).score(), want);
        }
    }

    #[test]
    fn p11_the_lower_bound() {
        close(memory(100, 1_000_000, 1.0).instance("oom_rate.h1 = 1.0").score(), -3200.0);
    }

    #[test]
    fn p12_cpu_heavy_jobs_like_fast_cores() {
        close(cpu(1500, 120_000).score(), 75.0);
        close(cpu(100_000, 120_000).score(), 100.0);
        close(cpu(1500, 60_000).score(), 0.0);
    }

    #[test]
    fn p13_evals_are_judged_alike() {
        close(memory(16_000, 40_000, 0.0).job("kind = 'eval'").score(), -600.0);
        close(memory(64_000, 40_000, 0.0).job("kind = 'eval'").score(), 0.0);
    }

    #[test]
    fn p14_what_is_absent_takes_nothing() {
        let no_samples = "predicted_peak_ram_mib = 9000, samples = 0";
        close(memory(100, 0, 0.0).prediction(no_samples).score(), 0.0);
        let large = "samples = 5, predicted_peak_ram_mib = 64000";
        close(Case::of(&INFO).prediction(large).score(), 0.0);
        close(Case::of(&INFO).prediction(large).metrics("ram_total_mib = 8000").score(), 0.0);
        close(memory(0, 64_000, 0.0).score(), 0.0);
        close(Case::of(&INFO).metrics("ram_free_mib = 1").score(), 0.0);
    }

    #[test]
    fn both_parts_add() {
        let case = Case::of(&INFO)
            .metrics("ram_free_mib = 1000, cpu_core_score = 1000")
            .prediction("samples = 1, predicted_peak_ram_mib = 1500, avg_cpu_time_ms = 60001");
        close(case.score(), -150.0);
    }

    #[test]
    fn a_measured_window_says_what_is_usual() {
        close(cpu(1000, 10).instance("cpu_time_ms.h1 = 0.0").score(), 50.0);
        close(cpu(1000, 120_000).instance("cpu_time_ms.h1 = 120000.0").score(), 0.0);
        close(cpu(1000, 120_000).instance("cpu_time_ms = { m5 = 1e9, h24 = 1e9 }").score(), 50.0);
        close(memory(1000, 1500, 0.5).instance("oom_rate.h1 = 0.5").score(), -450.0);
    }

    #[test]
    fn a_node_without_metrics_costs_no_look_up() {
        let case = Case::of(&INFO);
        assert_eq!(case.lazy_calls(), (0, 0));
        assert_eq!(case.metrics("cpu_count = 1").lazy_calls(), (1, 0));
    }

    #[test]
    fn constants_can_be_changed() {
        let params = "ram_penalty = 10\novershoot_max = 1\nfallback_oom_rate = 1";
        close(memory(100, 9000, 0.0).params(params).score(), -20.0);
        let params =
            "core_points = 3\ncore_score_reference = 100\ncore_factor_max = 4\nfallback_cpu_time_ms = 5";
        close(cpu(300, 6).params(params).score(), 9.0);
        close(cpu(900, 6).params(params).score(), 12.0);
    }
}
