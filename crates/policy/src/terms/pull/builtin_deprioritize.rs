//! `BuiltinDeprioritizeRule`: lets real work go before fetch-only work, except on nodes that can do nothing else.

use landfall_model::JobKind;

use crate::params::rule;
use crate::term::{Family, Term, TermInfo};
use crate::view::View;

rule! { Term BuiltinDeprioritize {
    real_points: f64 = at_least(50.0, 0.0, "points", "Points of real work."),
    builtin_points: f64 = at_least(
        100.0, 0.0, "points",
        "Points of fetch-only work on a node without architectures.",
    ),
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "BuiltinDeprioritizeRule",
    range: (0.0, Some(100.0)),
    unit: "points",
    description: "Lets real work go before fetch-only work, except on nodes that can do nothing else.",
    params: BuiltinDeprioritize::PARAMS,
    ..TermInfo::of(Family::Pull, BuiltinDeprioritize::build)
};

impl Term for BuiltinDeprioritize {
    fn score(&self, view: &View<'_>) -> f64 {
        // A node that never said what it can do lists no architectures either.
        let lists_none = view.node.capabilities.as_ref().is_none_or(|can| can.architectures.is_empty());
        match view.spec.kind {
            JobKind::Eval => 0.0,
            JobKind::Build if !view.spec.is_builtin() => self.real_points,
            JobKind::Build if lists_none => self.builtin_points,
            JobKind::Build => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, close};
    use super::INFO;

    const ARCH_LESS: &str = "architectures = []\nfetch = true";

    #[test]
    fn p4_builtin_work_goes_to_nodes_without_architectures() {
        let builtin = Case::of(&INFO).job("architecture = 'builtin'");
        close(Case::of(&INFO).score(), 50.0);
        close(builtin.score(), 0.0);
        close(builtin.node(ARCH_LESS).score(), 100.0);
        close(Case::of(&INFO).job("kind = 'eval'").node(ARCH_LESS).score(), 0.0);
    }

    #[test]
    fn real_work_has_its_points_on_any_node() {
        close(Case::of(&INFO).node(ARCH_LESS).score(), 50.0);
    }

    #[test]
    fn a_node_that_never_sent_capabilities_lists_no_architectures() {
        close(Case::of(&INFO).job("architecture = 'builtin'").node("").score(), 100.0);
    }

    #[test]
    fn an_eval_gets_nothing_whatever_its_architecture() {
        close(Case::of(&INFO).job("kind = 'eval'\narchitecture = 'x86_64'").score(), 0.0);
    }

    #[test]
    fn constants_can_be_changed() {
        let case = Case::of(&INFO).params("real_points = 1\nbuiltin_points = 2");
        close(case.score(), 1.0);
        close(case.job("architecture = 'builtin'").node("").score(), 2.0);
    }
}
