//! Predicted durations as published: Tsafrir, Etsion and Feitelson, "Backfilling using system-generated predictions".

use std::collections::BTreeMap;

use landfall_model::Millis;

const HOUR: i64 = 3_600_000;

/// What is added in turn to a prediction that a job outlives, in milliseconds.
const STEPS: [i64; 13] = [
    HOUR / 60,
    HOUR / 12,
    HOUR / 4,
    HOUR / 2,
    HOUR,
    2 * HOUR,
    5 * HOUR,
    10 * HOUR,
    20 * HOUR,
    50 * HOUR,
    100 * HOUR,
    200 * HOUR,
    500 * HOUR,
];

/// What is expected of a job that has outlived its prediction; never more than it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corrector {
    Asked,
    /// The first prediction and a minute more, then five, and so on in growing steps.
    Steps,
}

impl Corrector {
    /// When a job is now expected to end that was first expected to take so long, and to end at `outlived` of late.
    pub(super) fn after(self, started: i64, first: i64, outlived: i64) -> i64 {
        let first = started.saturating_add(first);
        let steps = STEPS.iter().map(|step| first.saturating_add(*step));
        match self {
            Self::Asked => i64::MAX,
            Self::Steps => steps.into_iter().find(|end| *end > outlived).unwrap_or(i64::MAX),
        }
    }
}

/// The run times of each user's last two jobs that ended, in whole seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct LastTwo {
    runs: BTreeMap<i64, [Option<i64>; 2]>,
}

impl LastTwo {
    /// A job ended after so long.
    pub(super) fn learn(&mut self, user: i64, run: Millis) {
        let [_, last] = self.runs.get(&user).copied().unwrap_or_default();
        let secs = i64::try_from(run.get() / 1000).unwrap_or(i64::MAX);
        self.runs.insert(user, [last, Some(secs)]);
    }

    /// Half of what the last two took together, in milliseconds, at least a second and at most what is asked for; that
    /// while there are not two.
    pub(super) fn expect(&self, user: i64, asked: i64) -> i64 {
        let Some([Some(one), Some(two)]) = self.runs.get(&user) else { return asked };
        (one.saturating_add(*two) / 2).max(1).saturating_mul(1000).min(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1000;

    #[test]
    fn half_of_the_last_two_and_no_more_than_was_asked_for() {
        let mut history = LastTwo::default();
        assert_eq!(history.expect(1, 90 * SECOND), 90 * SECOND, "nothing is known");
        history.learn(1, Millis::secs(10));
        assert_eq!(history.expect(1, 90 * SECOND), 90 * SECOND, "one job says nothing yet");
        history.learn(1, Millis::secs(25));
        assert_eq!(history.expect(1, 90 * SECOND), 17 * SECOND, "(10 + 25) / 2, cut");
        assert_eq!(history.expect(1, 5 * SECOND), 5 * SECOND);
        assert_eq!(history.expect(2, 90 * SECOND), 90 * SECOND, "another user");
        history.learn(1, Millis::secs(60));
        assert_eq!(history.expect(1, 90 * SECOND), 42 * SECOND, "the first is forgotten");
    }

    #[test]
    fn nonsense_stays_within_bounds() {
        let mut history = LastTwo::default();
        for run in [Millis::ZERO, Millis::new(999)] {
            history.learn(1, run);
        }
        assert_eq!(history.expect(1, 90 * SECOND), SECOND, "nothing ends before it began");
        assert_eq!(history.expect(1, 0), 0);
        for _ in 0..2 {
            history.learn(1, Millis::new(u64::MAX));
        }
        assert_eq!(history.expect(1, 90 * SECOND), 90 * SECOND);
        assert_eq!(history.expect(1, i64::MAX), i64::MAX);
    }

    #[test]
    fn a_prediction_that_is_outlived_grows_in_steps() {
        let (started, first) = (1000 * SECOND, 15 * SECOND);
        let mut end = started + first;
        let mut grown = Vec::new();
        for _ in 0..6 {
            end = Corrector::Steps.after(started, first, end);
            grown.push((end - started - first) / (60 * SECOND));
        }
        assert_eq!(grown, [1, 5, 15, 30, 60, 120]);
        assert_eq!(
            Corrector::Steps.after(started, first, started + 1000 * HOUR),
            i64::MAX,
            "what is asked for"
        );
        assert_eq!(Corrector::Asked.after(started, first, started + first), i64::MAX);
    }
}
