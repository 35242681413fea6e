//! `FairShareRule`: holds back tenants that already occupy much of a full farm.

use super::arith::{minus, rate};
use crate::params::rule;
use crate::term::{Family, Reads, Term, TermInfo, TermKind};
use crate::view::View;

rule! { Term FairShare {
    penalty_max: f64 = at_least(
        500.0, 0.0, "points",
        "Points taken from a tenant that has all of the running work.",
    ),
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "FairShareRule",
    class: TermKind::Disqualifier,
    range: (-500.0, Some(0.0)),
    unit: "points",
    description: "Holds back tenants that already occupy much of a full farm.",
    params: FairShare::PARAMS,
    reads: Reads { tenant_work_share: true, ..Reads::PAIR },
    ..TermInfo::of(Family::Pull, FairShare::build)
};

impl Term for FairShare {
    fn score(&self, view: &View<'_>) -> f64 {
        // A node below its own limit is not full, so slots are the gate and not idle nodes.
        if view.pass.world.instance.spare_slots > 0 {
            return 0.0;
        }
        let share = view.pass.tenant_work_share(view.spec);
        share.map_or(0.0, |share| minus(self.penalty_max * rate(share)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, close};
    use super::INFO;

    #[test]
    fn p22_a_full_farm_holds_back_large_shares() {
        let share = |line: &str| Case::of(&INFO).tenant(line);
        close(share("work_share = 1.0").score(), -500.0);
        close(share("work_share = 0.01").score(), -5.0);
        close(share("work_share = 0.0").score(), 0.0);
        close(share("").score(), 0.0);
        close(share("work_share = 1.0").instance("spare_slots = 1").score(), 0.0);
    }

    #[test]
    fn idle_nodes_are_not_the_gate() {
        let case = Case::of(&INFO).tenant("work_share = 1.0").instance("idle_nodes = 3\ntotal_nodes = 3");
        close(case.score(), -500.0);
    }

    #[test]
    fn both_kinds_count() {
        close(Case::of(&INFO).job("kind = 'eval'").tenant("work_share = 1.0").score(), -500.0);
    }

    #[test]
    fn the_share_is_looked_up_only_when_the_farm_is_full() {
        assert_eq!(Case::of(&INFO).lazy_calls(), (0, 1));
        assert_eq!(Case::of(&INFO).instance("spare_slots = 1").lazy_calls(), (0, 0));
    }

    #[test]
    fn constants_can_be_changed() {
        close(Case::of(&INFO).tenant("work_share = 0.5").params("penalty_max = 8").score(), -4.0);
    }
}
