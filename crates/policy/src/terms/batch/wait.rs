//! Factor 2, `wait`: how long the job has waited, on a scale that flattens.

use crate::params::rule;
use crate::term::{Family, Reads, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::View;

rule! { Term Wait {
    reference_wait: f64 = at_least(
        3600.0, 0.001, "s",
        "The wait that gives ln 2; the unit in which waits are counted.",
    ),
    wait_cap: f64 = at_least(f64::INFINITY, 0.0, "", "The largest value; without it there is none."),
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "wait",
    range: (0.0, None),
    description: "Prefers jobs that have waited longer, by the logarithm of the wait.",
    params: Wait::PARAMS,
    reads: Reads { queue_wait: true, ..Reads::PAIR },
    ..TermInfo::of(Family::Batch, Wait::build)
};

/// Seconds since the job became eligible; none if that lies ahead.
fn waited(view: &View<'_>) -> f64 {
    view.now().since(view.job.queued_at).as_secs_f64()
}

impl Term for Wait {
    fn score(&self, view: &View<'_>) -> f64 {
        libm::log(1.0 + waited(view) / self.reference_wait).min(self.wait_cap)
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        facts.note("waited_s", Fact::Number(waited(view)));
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::LN_2;

    use super::INFO;
    use crate::params::Params;
    use crate::terms::batch::testing::{close, queue};

    fn of(seconds: i64, params: &str) -> f64 {
        let scenario = format!(
            r#"now_ms = {}
            nodes = [{{ id = "n" }}]
            jobs = [{{ id = "j", queued_at_ms = 10000 }}]"#,
            10_000 + seconds * 1000
        );
        queue(&INFO, params, &scenario)
    }

    #[test]
    fn b1_logarithm_of_the_wait() {
        for (seconds, want) in [(-5, 0.0), (0, 0.0), (1800, 0.405_465), (3600, LN_2), (86_400, 3.218_876)] {
            close(of(seconds, ""), want);
        }
    }

    #[test]
    fn reference_and_cap_can_be_set() {
        close(of(60, "reference_wait = 60"), LN_2);
        assert_eq!(of(86_400, "wait_cap = 2"), 2.0);
        close(of(1800, "wait_cap = 2"), 0.405_465);
        assert_eq!(of(0, "wait_cap = 0"), 0.0);
    }

    #[test]
    fn a_reference_of_nothing_is_refused() {
        let own = toml::from_str("reference_wait = 0").unwrap();
        let shared = std::collections::BTreeMap::new();
        assert!((INFO.build)(&Params { own: &own, shared: &shared }).is_err());
    }
}
