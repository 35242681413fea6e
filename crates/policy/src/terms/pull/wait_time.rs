//! `WaitTimeRule`: raises jobs the longer they have been ready, so that none starves.

use super::arith::usual;
use crate::params::rule;
use crate::term::{Family, Reads, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::View;

rule! { Term WaitTime {
    points_max: f64 = at_least(4000.0, 0.0, "points", "The most that waiting can give."),
    points_per_usual_wait: f64 = at_least(60.0, 0.0, "points", "Points for waiting as long as is usual."),
    fallback_wait_s: f64 = at_least(60.0, 0.0, "s", "The usual wait while none has been measured."),
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "WaitTimeRule",
    range: (0.0, Some(4000.0)),
    unit: "points",
    description: "Raises jobs the longer they have been ready, so none starves.",
    params: WaitTime::PARAMS,
    reads: Reads { ready_wait: true, ..Reads::PAIR },
    ..TermInfo::of(Family::Pull, WaitTime::build)
};

impl Term for WaitTime {
    fn score(&self, view: &View<'_>) -> f64 {
        let waited = waited_s(view);
        if waited == 0 {
            return 0.0;
        }
        let usual = usual(view.pass.world.instance.wait_secs.h1, self.fallback_wait_s);
        if usual <= 0.0 {
            return self.points_max;
        }
        (self.points_per_usual_wait * waited as f64 / usual).min(self.points_max)
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        facts.note("waited_s", Fact::Count(waited_s(view)));
    }
}

/// Whole seconds since the job became ready; none if that lies ahead of a clock that was set back.
fn waited_s(view: &View<'_>) -> u64 {
    view.now().since(view.job.ready_at).get() / 1000
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, NOW_MS, close};
    use super::INFO;

    fn waited(ms: i64) -> Case {
        Case::of(&INFO).job(&format!("ready_at_ms = {}", NOW_MS - ms))
    }

    #[test]
    fn p6_points_grow_to_the_cap() {
        for (secs, want) in [(0, 0.0), (60, 60.0), (3600, 3600.0), (4000, 4000.0), (10_000, 4000.0)] {
            close(waited(secs * 1000).score(), want);
        }
    }

    #[test]
    fn p7_only_whole_seconds_count() {
        close(waited(59_999).score(), 59.0);
        close(waited(999).score(), 0.0);
    }

    #[test]
    fn a_clock_set_back_gives_nothing() {
        close(waited(-60_000).score(), 0.0);
    }

    #[test]
    fn points_are_relative_to_the_usual_wait() {
        close(waited(60_000).instance("wait_secs.h1 = 600.0").score(), 6.0);
        close(waited(60_000).instance("wait_secs = { m5 = 1.0, h24 = 1.0 }").score(), 60.0);
    }

    #[test]
    fn a_usual_wait_of_zero_leaves_all_or_nothing() {
        close(waited(0).instance("wait_secs.h1 = 0.0").score(), 0.0);
        close(waited(1000).instance("wait_secs.h1 = 0.0").score(), 4000.0);
    }

    #[test]
    fn waiting_for_dependencies_is_not_waiting() {
        let job = format!("queued_at_ms = 0\nready_at_ms = {}", NOW_MS - 60_000);
        close(Case::of(&INFO).job(&job).score(), 60.0);
    }

    #[test]
    fn both_kinds_count() {
        let job = format!("kind = 'eval'\nqueued_at_ms = {}", NOW_MS - 60_000);
        close(Case::of(&INFO).job(&job).score(), 60.0);
    }

    #[test]
    fn constants_can_be_changed() {
        let params = "points_max = 25\npoints_per_usual_wait = 10\nfallback_wait_s = 30";
        close(waited(60_000).params(params).score(), 20.0);
        close(waited(600_000).params(params).score(), 25.0);
    }
}
