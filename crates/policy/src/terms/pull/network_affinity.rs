//! `NetworkAffinityRule`: sends downloads to nodes with fast networks.

use landfall_model::JobKind;

use super::arith::{fraction, usual};
use crate::params::rule;
use crate::term::{Family, Term, TermInfo};
use crate::view::View;

rule! { Term NetworkAffinity {
    points_max: f64 = at_least(80.0, 0.0, "points", "Points of a network as fast as jobs usually need."),
    fallback_network_mbit_s: f64 = at_least(
        100.0, 0.0, "Mbit/s",
        "The usual peak of a job while none has been measured.",
    ),
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "NetworkAffinityRule",
    range: (0.0, Some(80.0)),
    unit: "points",
    description: "Sends downloads to nodes with fast networks.",
    params: NetworkAffinity::PARAMS,
    ..TermInfo::of(Family::Pull, NetworkAffinity::build)
};

impl Term for NetworkAffinity {
    fn score(&self, view: &View<'_>) -> f64 {
        if view.spec.kind != JobKind::Build || !view.spec.network_bound {
            return 0.0;
        }
        let Some(network) = view.node.metrics.and_then(|metrics| metrics.network_mbit_s) else { return 0.0 };
        let reference = usual(view.pass.world.instance.network_mbit_s.h24, self.fallback_network_mbit_s);
        if reference <= 0.0 {
            return self.points_max;
        }
        self.points_max * fraction(network, reference)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, close};
    use super::INFO;

    fn network(mbit_s: f64) -> Case {
        Case::of(&INFO).job("network_bound = true").metrics(&format!("network_mbit_s = {mbit_s:?}"))
    }

    #[test]
    fn p20_downloads_like_fast_networks() {
        close(network(100.0).score(), 80.0);
        close(network(10.0).score(), 8.0);
        close(Case::of(&INFO).job("network_bound = true").metrics("cpu_count = 1").score(), 0.0);
        close(network(100.0).job("network_bound = false").score(), 0.0);
    }

    #[test]
    fn both_ends_of_the_range() {
        close(network(0.0).score(), 0.0);
        close(network(1e9).score(), 80.0);
    }

    #[test]
    fn a_node_without_metrics_gets_nothing() {
        close(Case::of(&INFO).job("network_bound = true").score(), 0.0);
    }

    #[test]
    fn the_window_of_a_day_is_the_reference() {
        close(network(100.0).instance("network_mbit_s.h24 = 1000.0").score(), 8.0);
        close(network(100.0).instance("network_mbit_s = { m5 = 1e6, h1 = 1e6 }").score(), 80.0);
    }

    #[test]
    fn where_jobs_need_no_network_any_will_do() {
        close(network(0.0).instance("network_mbit_s.h24 = 0.0").score(), 80.0);
    }

    #[test]
    fn evals_get_nothing() {
        close(network(100.0).job("kind = 'eval'\nnetwork_bound = true").score(), 0.0);
    }

    #[test]
    fn constants_can_be_changed() {
        close(network(100.0).params("points_max = 10\nfallback_network_mbit_s = 200").score(), 5.0);
    }
}
