//! `ReserveFetchWorkersRule`: keeps nodes that can fetch free for jobs that need it while capacity is short.

use landfall_model::JobKind;

use super::arith::{fraction, minus};
use crate::params::rule;
use crate::term::{Family, Term, TermInfo, TermKind};
use crate::view::View;

rule! { Term ReserveFetchWorkers {
    penalty_max: f64 = at_least(300.0, 0.0, "points", "Points taken while no node is idle."),
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "ReserveFetchWorkersRule",
    class: TermKind::Disqualifier,
    range: (-300.0, Some(0.0)),
    unit: "points",
    description: "Keeps nodes that can fetch free for jobs that need it while capacity is short.",
    params: ReserveFetchWorkers::PARAMS,
    ..TermInfo::of(Family::Pull, ReserveFetchWorkers::build)
};

impl Term for ReserveFetchWorkers {
    fn score(&self, view: &View<'_>) -> f64 {
        let can_fetch = view.node.capabilities.as_ref().is_some_and(|can| can.fetch);
        if view.spec.kind != JobKind::Eval || view.spec.fetch_task || !can_fetch {
            return 0.0;
        }
        let instance = &view.pass.world.instance;
        let spare = match instance.total_nodes {
            0 => 0.0,
            total => fraction(instance.idle_nodes as f64, total as f64),
        };
        minus(self.penalty_max * (1.0 - spare))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, close};
    use super::INFO;

    fn cached_eval(idle: u64, total: u64) -> Case {
        Case::of(&INFO)
            .job("kind = 'eval'\nevaluate_task = true")
            .node("fetch = true\neval = true")
            .instance(&format!("idle_nodes = {idle}\ntotal_nodes = {total}"))
    }

    #[test]
    fn p9_the_penalty_fades_as_nodes_are_idle() {
        for (idle, total, want) in [(0, 4, -300.0), (2, 4, -150.0), (4, 4, 0.0), (0, 0, -300.0), (9, 4, 0.0)]
        {
            close(cached_eval(idle, total).score(), want);
        }
    }

    #[test]
    fn jobs_that_fetch_are_what_the_nodes_are_kept_for() {
        close(cached_eval(0, 4).job("kind = 'eval'\nfetch_task = true\nevaluate_task = true").score(), 0.0);
    }

    #[test]
    fn builds_and_other_nodes_are_left_alone() {
        close(cached_eval(0, 4).job("kind = 'build'").score(), 0.0);
        close(cached_eval(0, 4).node("eval = true").score(), 0.0);
        close(cached_eval(0, 4).node("").score(), 0.0);
    }

    #[test]
    fn nothing_taken_is_a_plain_zero() {
        assert!(cached_eval(4, 4).score().is_sign_positive());
    }

    #[test]
    fn constants_can_be_changed() {
        close(cached_eval(2, 4).params("penalty_max = 10").score(), -5.0);
    }
}
