//! What a node's record becomes after each job: speed correction, karma and cool-down.

use landfall_model::{Correction, JobSpec, Millis, Node};
use serde::{Deserialize, Serialize};

/// Weight of a new sample.
const ALPHA: f64 = 0.2;
/// Bounds of one sample.
const SAMPLE_RANGE: (f64, f64) = (0.25, 4.0);
/// Shorter runs tell nothing.
const RUN_MIN: Millis = Millis::secs(5);

/// Whether what was learned about the speed of one node holds for the other: it has the same hardware.
pub fn same_hardware(a: &Node, b: &Node) -> bool {
    let models = |node: &Node| -> Vec<_> {
        node.gpus.iter().map(|gpu| gpu.model.as_ref().map(|model| model.name.clone())).collect()
    };
    (a.cpu_total, a.ram_total) == (b.cpu_total, b.ram_total) && models(a) == models(b)
}

/// Takes in one observed ratio of real to estimated speed; values that mean nothing change nothing.
pub fn corrected(correction: Correction, ratio: f64) -> Correction {
    if !ratio.is_finite() || ratio <= 0.0 {
        return correction;
    }
    let sample = ratio.clamp(SAMPLE_RANGE.0, SAMPLE_RANGE.1);
    Correction { factor: (1.0 - ALPHA) * correction.factor + ALPHA * sample, samples: correction.samples + 1 }
}

/// What a good run tells of the speed of its node: observed over estimated, and the new work constant of its workload. A language
/// model is measured while it runs, so it has no constant and `told` is its ratio; `raw` is the estimate when it was placed.
pub fn observed(
    spec: &JobSpec,
    raw: Option<f64>,
    told: Option<f64>,
    constant: Option<f64>,
    run: Millis,
) -> (Option<f64>, Option<f64>) {
    let Some(raw) = raw else { return (None, None) };
    if spec.runs_with("llmcpp") {
        return (told.filter(|ratio| ratio.is_finite() && *ratio > 0.0), None);
    }
    work_ratio(constant, raw, run).unzip()
}

/// Observed over estimated speed of a run, and the workload's new work constant.
///
/// The first success sets the constant; later ones first give their ratio and then move it. `raw` is the speed before
/// clamping and correction.
fn work_ratio(constant: Option<f64>, raw: f64, run: Millis) -> Option<(f64, f64)> {
    if run < RUN_MIN || !raw.is_finite() || raw <= 0.0 {
        return None;
    }
    let work = run.as_secs_f64() * raw;
    Some(match constant {
        None => (1.0, work),
        Some(constant) => (constant / raw / run.as_secs_f64(), (1.0 - ALPHA) * constant + ALPHA * work),
    })
}

/// Good service of a node in the past. It breaks ties and never earns points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Karma {
    pub karma: i64,
    /// Minutes served towards the next point.
    pub pending_minutes: i64,
}

/// Minutes of service per point.
const KARMA_MINUTES: i64 = 60;
/// Below this karma, minutes count half more.
const KARMA_BOOST_BELOW: i64 = 10;
const KARMA_MIN: i64 = -100;

impl Karma {
    /// After a successful job.
    #[must_use]
    pub fn served(self, duration: Millis) -> Self {
        let ms = i64::try_from(duration.get()).unwrap_or(i64::MAX / 3);
        let effective = if self.karma < KARMA_BOOST_BELOW { ms * 3 / 2 } else { ms } / 60_000;
        let minutes = self.pending_minutes + effective;
        Self { karma: self.karma + minutes / KARMA_MINUTES, pending_minutes: minutes % KARMA_MINUTES }
    }

    /// After a fault of the node.
    #[must_use]
    pub fn faulted(self) -> Self {
        self.lowered(1)
    }

    /// After a result that was proven wrong.
    #[must_use]
    pub fn proven_wrong(self) -> Self {
        self.lowered(5)
    }

    fn lowered(self, by: i64) -> Self {
        Self { karma: (self.karma - by).max(KARMA_MIN), ..self }
    }
}

/// How long a node rests after its k-th fault in a row.
pub fn cooldown(consecutive_faults: u32) -> Millis {
    const BASE_S: u64 = 60;
    const MAX_S: u64 = 3600;
    let Some(doublings) = consecutive_faults.checked_sub(1) else { return Millis::ZERO };
    Millis::secs((BASE_S << doublings.min(16)).min(MAX_S))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, want: f64) {
        assert!((got - want).abs() < 1e-6, "{got} {want}");
    }

    #[test]
    fn f35_cooldown_doubles_up_to_an_hour() {
        assert_eq!([0, 1, 2, 3, 7, 99].map(|k| cooldown(k).get() / 1000), [0, 60, 120, 240, 3600, 3600]);
    }

    #[test]
    fn f38_corrections_follow_the_observed_ratio() {
        let mut correction = Correction::default();
        for (ratio, want) in [(0.8, 0.96), (0.8, 0.928), (1.2, 0.9824)] {
            correction = corrected(correction, ratio);
            near(correction.factor, want);
        }
        assert_eq!(correction.samples, 3);
        for nothing in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            assert_eq!(corrected(correction, nothing), correction);
        }
        near(corrected(Correction::default(), 100.0).factor, 0.8 + 0.2 * 4.0);
        near(corrected(Correction::default(), 0.001).factor, 0.8 + 0.2 * 0.25);
    }

    #[test]
    fn f40_work_constant_of_a_workload() {
        let mut constant = None;
        let (mut a, mut b) = (Correction::default(), Correction::default());
        for (node, raw, secs, want_ratio, want) in
            [("a", 50.0, 100, 1.0, 1.0), ("b", 100.0, 80, 0.625, 0.925), ("a", 50.0, 125, 0.896, 0.9792)]
        {
            let (ratio, next) = work_ratio(constant, raw, Millis::secs(secs)).unwrap();
            constant = Some(next);
            near(ratio, want_ratio);
            let correction = if node == "a" { &mut a } else { &mut b };
            *correction = corrected(*correction, ratio);
            near(correction.factor, want);
        }
        near(constant.unwrap(), 5730.0);
        assert_eq!(work_ratio(None, 50.0, Millis::new(4999)), None, "too short to tell");
    }

    #[test]
    fn f41_karma_grows_by_the_hour() {
        let mut karma = Karma::default();
        for (minutes, want) in [(25, (0, 37)), (20, (1, 7)), (45, (2, 14))] {
            karma = karma.served(Millis::secs(minutes * 60));
            assert_eq!((karma.karma, karma.pending_minutes), want);
        }
        let seasoned = Karma { karma: 10, pending_minutes: 0 };
        assert_eq!(seasoned.served(Millis::secs(59 * 60)).pending_minutes, 59);
    }

    #[test]
    fn f42_karma_falls_with_faults_down_to_a_bound() {
        assert_eq!(Karma::default().faulted().karma, -1);
        assert_eq!(Karma::default().faulted().proven_wrong().karma, -6);
        assert_eq!(
            Karma { karma: -99, pending_minutes: 7 }.proven_wrong(),
            Karma { karma: -100, pending_minutes: 7 }
        );
    }
}
