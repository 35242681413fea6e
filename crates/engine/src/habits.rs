//! How long jobs of a batch pool take, learned from those that ended.
//!
//! People ask for round and long times and run the same thing again. A job belongs to *circles*, from wide to narrow: the
//! jobs of its user, those of them with the same walltime, those of them on as many nodes, and, if it says what it does,
//! those of them of the same series and workload. Each circle keeps sums over its ended jobs in which older ones fade:
//! with each end a sum `x` becomes `x − x/m + new`; `N` counts jobs so, `R` adds up their run times and `H` one through
//! each. The expectation starts at the walltime, and each circle, from wide to narrow, makes of it
//!
//! ```text
//! r ← (R + r) / (N + 1)      h ← (H + h) / (N + 1)
//! ```
//!
//! so a user with one job is still half believed, and what wider circles say soon does not matter to one that has seen
//! many. In the end `1 s ≤ r ≤ walltime`, whatever was learned.
//!
//! *When* a job will be over is a matter of `r` in milliseconds. *Who goes first* is a matter of `r` and `h` in whole
//! seconds of which none counts as shorter than `BOUND` (`Merit`): logs are planned with the same arithmetic
//! (`counted::learned`), so a pool does what its replay said.

use std::collections::{BTreeMap, VecDeque};

use landfall_model::answer::Fared;
use landfall_model::{JobSpec, Lifecycle, Millis, Name, TenantId, Time, WorkloadId};
use serde::{Deserialize, Serialize};

/// One job, in the fixed point of counts and sums.
pub(crate) const JOB: u64 = 1 << 16;
/// About how many jobs a circle remembers.
const MEMORY: u64 = 8;
/// One per second, in the fixed point of inverse run times.
pub(crate) const PER_SECOND: u64 = 1 << 40;
/// Longest time that is told apart, in seconds: more than a century. Products of it stay within 64 bits.
const LONGEST_SECS: u64 = u32::MAX as u64;
/// Where slowdowns are compared, no run time counts as shorter, in seconds.
const BOUND: u64 = 10;
/// Run times below and above these are not told apart: a second, and more than a century.
const SHORTEST: Millis = Millis::secs(1);
const LONGEST: Millis = Millis::secs(LONGEST_SECS);
/// Circles that are remembered; beyond, those that learned nothing for longest are forgotten, half of them at once.
const CIRCLES_MAX: usize = 20_000;
/// Ended jobs whose expectations are compared with what became of them.
const FARED_MAX: usize = 100;
/// Fewer than these say nothing.
const FARED_LEAST: usize = 5;

/// Jobs that are alike in what is given here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Circle {
    tenant: Option<TenantId>,
    user: Option<Name>,
    walltime: Option<Millis>,
    nodes: Option<u32>,
    does: Option<(Option<Name>, Option<WorkloadId>)>,
}

/// Sums over ended jobs, in which older ones fade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Sums {
    jobs: u64,
    runs: u64,
    inverses: u64,
}

impl Sums {
    /// A job ended after so many seconds.
    pub(crate) fn learn(&mut self, run: u64, memory: u64) {
        self.jobs = fade(self.jobs, JOB, memory);
        self.runs = fade(self.runs, run * JOB, memory);
        self.inverses = fade(self.inverses, PER_SECOND / run, memory);
    }
}

/// What a job is expected to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expectation {
    /// Its run time in seconds.
    pub(crate) run: u64,
    /// One through its run time, in parts of [`PER_SECOND`].
    pub(crate) inverse: u64,
}

impl Expectation {
    /// Of a job that may run for so many seconds, by the circles it belongs to, from wide to narrow.
    pub(crate) fn of(circles: impl IntoIterator<Item = Sums>, duration: u64, shortest: u64) -> Self {
        let longest = duration.max(shortest);
        let (mut run, mut inverse) = (longest * JOB, PER_SECOND / longest);
        for sums in circles {
            run = mean(sums.runs, run, sums.jobs);
            inverse = mean(sums.inverses, inverse, sums.jobs);
        }
        Self { run: (run / JOB).clamp(shortest, longest), inverse: inverse.max(PER_SECOND / longest) }
    }

    /// The slowdown by now of all who learn from a job that has waited for so many milliseconds, in parts of
    /// [`PER_SECOND`].
    pub(crate) fn slowdown(&self, waited: i64, pupils: u32) -> u128 {
        let waited = waited.max(0) as u64 / 1000;
        let slowdown = u128::from(PER_SECOND) + u128::from(waited) * u128::from(self.inverse);
        slowdown.saturating_mul(u128::from(pupils))
    }
}

/// Milliseconds as whole seconds, rounded up.
pub(crate) fn seconds(millis: u64) -> u64 {
    millis.div_ceil(1000).min(LONGEST_SECS)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Habit {
    jobs: u64,
    /// In milliseconds.
    runs: u64,
    last: Time,
    /// In whole seconds, for comparing slowdowns.
    #[serde(default)]
    bounded: Sums,
}

/// What a pool has learned.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Habits {
    circles: BTreeMap<Circle, Habit>,
    /// How long the last jobs were expected to run, and how long they ran.
    fared: VecDeque<(Millis, Millis)>,
}

fn circles(spec: &JobSpec) -> impl Iterator<Item = Circle> {
    let user = Circle {
        tenant: spec.tenant.clone(),
        user: spec.user.clone(),
        walltime: None,
        nodes: None,
        does: None,
    };
    let long = Circle { walltime: Some(spec.walltime_ms), ..user.clone() };
    let wide = Circle { nodes: Some(spec.nodes.min), ..long.clone() };
    let does = (spec.series.clone(), spec.workload.clone());
    let told = (does != (None, None)).then(|| Circle { does: Some(does), ..wide.clone() });
    [user, long, wide].into_iter().chain(told)
}

/// Jobs that learn from each other: the narrowest circle of a job.
pub(crate) fn alike(spec: &JobSpec) -> Option<Circle> {
    circles(spec).last()
}

/// What puts a waiting job before others where slowdowns are compared: as much slowdown as can be ended per node-second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Merit {
    pub(crate) expected: Expectation,
    /// How many learn from the next of its circle that runs: all that wait, if none of them runs.
    pub(crate) pupils: u32,
    pub(crate) nodes: u32,
}

impl Merit {
    /// The slowdown of those who learn from it through the node-seconds it is expected to take.
    pub(crate) fn of(&self, waited: i64) -> f64 {
        let cost = self.expected.run.saturating_mul(u64::from(self.nodes.max(1)));
        self.expected.slowdown(waited, self.pupils) as f64 / cost as f64
    }
}

impl Habits {
    /// How long a job is expected to run that may run for so long.
    pub fn expect(&self, spec: &JobSpec, walltime: Millis) -> Millis {
        let longest = walltime.clamp(SHORTEST, LONGEST);
        let mut run = longest.get() * JOB;
        for circle in circles(spec) {
            // Who is known in a narrow circle is known in the wide one.
            let Some(habit) = self.circles.get(&circle) else { break };
            run = mean(habit.runs, run, habit.jobs);
        }
        Millis::new(run / JOB).clamp(SHORTEST, longest).min(walltime)
    }

    /// What a job is expected to take, where slowdowns are compared.
    pub(crate) fn bounded(&self, spec: &JobSpec) -> Expectation {
        let known = circles(spec).map_while(|circle| self.circles.get(&circle)).map(|habit| habit.bounded);
        let longest = match spec.lifecycle {
            Lifecycle::Bounded => seconds(spec.walltime_ms.get()),
            _ => LONGEST_SECS,
        };
        Expectation::of(known, longest, BOUND)
    }

    /// A job ended by itself after so long; it was expected to take as long as that.
    pub(crate) fn learn(&mut self, spec: &JobSpec, ran: Millis, expected: Option<Millis>, now: Time) {
        if let Some(expected) = expected {
            self.fared.truncate(FARED_MAX - 1);
            self.fared.push_front((expected, ran));
        }
        let run = ran.clamp(SHORTEST, LONGEST).get();
        for circle in circles(spec) {
            let habit = self.circles.entry(circle).or_default();
            habit.jobs = fade(habit.jobs, JOB, MEMORY);
            habit.runs = fade(habit.runs, run * JOB, MEMORY);
            habit.bounded.learn(seconds(ran.get()).max(BOUND), MEMORY);
            habit.last = now;
        }
        if self.circles.len() > CIRCLES_MAX {
            let mut lasts: Vec<Time> = self.circles.values().map(|habit| habit.last).collect();
            let (_, middle, _) = lasts.select_nth_unstable(CIRCLES_MAX / 2);
            let middle = *middle;
            self.circles.retain(|_, habit| habit.last > middle);
        }
    }

    /// How past expectations fared; `None` while there are too few.
    pub fn fared(&self) -> Option<Fared> {
        let mut ratios: Vec<f64> =
            self.fared.iter().map(|(expected, ran)| ran.as_secs_f64() / expected.as_secs_f64()).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let at = |part: usize| ratios[(ratios.len() - 1) * part / 10];
        (ratios.len() >= FARED_LEAST).then(|| Fared {
            low: at(1),
            middle: at(5),
            high: at(9),
            ratios: ratios.clone(),
        })
    }
}

/// The mean over jobs that were seen and one more.
pub(crate) fn mean(sum: u64, one_more: u64, jobs: u64) -> u64 {
    let sum = u128::from(sum) + u128::from(one_more);
    (sum * u128::from(JOB) / u128::from(jobs.saturating_add(JOB))) as u64
}

/// A sum after one more value; what is in it already counts less.
pub(crate) fn fade(sum: u64, new: u64, memory: u64) -> u64 {
    (sum - sum / memory).saturating_add(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(user: &str, minutes: u64, nodes: u32) -> JobSpec {
        let mut spec = JobSpec::empty();
        spec.user = Name::new(user).ok();
        spec.walltime_ms = Millis::secs(60 * minutes);
        spec.nodes = landfall_model::NodeCount { min: nodes, max: nodes };
        spec
    }

    fn expected(habits: &Habits, spec: &JobSpec) -> u64 {
        habits.expect(spec, spec.walltime_ms).get() / 1000
    }

    #[test]
    fn a_newcomer_is_believed_and_who_asks_for_ten_times_too_much_soon_is_not() {
        let (mut habits, spec) = (Habits::default(), job("ann", 60, 4));
        let mut last = 3600;
        for ended in 0..6 {
            let now = expected(&habits, &spec);
            assert!(ended == 0 && now == 3600 || (360..last).contains(&now), "{now} s after {ended} jobs");
            last = now;
            habits.learn(&spec, Millis::secs(360), None, Time::from_secs(ended));
        }
        assert!(expected(&habits, &spec) < 400);
        assert!((360..7200).contains(&expected(&habits, &job("ann", 120, 4))), "the user is known");
        assert_eq!(expected(&habits, &job("bob", 60, 4)), 3600, "others are not");
    }

    #[test]
    fn worked_by_hand() {
        // One job of 100 s, asked for 200: N = 1 in every circle, R = 100; (100 + 200)/2 = 150, then 125, then 112.5.
        let (mut habits, mut spec) = (Habits::default(), job("ann", 0, 1));
        spec.walltime_ms = Millis::secs(200);
        habits.learn(&spec, Millis::secs(100), None, Time::ZERO);
        assert_eq!(habits.expect(&spec, spec.walltime_ms), Millis::new(112_500));
    }

    #[test]
    fn nonsense_stays_within_a_second_and_the_walltime() {
        let (mut habits, spec) = (Habits::default(), job("ann", 60, 1));
        for run in [Millis::ZERO, Millis::new(u64::MAX), Millis::ZERO] {
            for _ in 0..50 {
                habits.learn(&spec, run, None, Time::ZERO);
            }
            assert!((1..=3600).contains(&expected(&habits, &spec)));
        }
        assert_eq!(habits.expect(&spec, Millis::new(10)), Millis::new(10), "never more than it may run");
    }

    #[test]
    fn old_circles_make_room_for_new_ones() {
        let mut habits = Habits::default();
        for user in 0..CIRCLES_MAX as i64 {
            let spec = job(&format!("user{user}"), 60, 1);
            habits.learn(&spec, Millis::secs(60), None, Time::from_secs(user));
            assert!(habits.circles.len() <= CIRCLES_MAX + 4);
        }
        assert_eq!(expected(&habits, &job("user0", 60, 1)), 3600);
        assert!(expected(&habits, &job(&format!("user{}", CIRCLES_MAX - 1), 60, 1)) < 1200);
    }

    #[test]
    fn how_expectations_fared_is_told_once_a_few_have() {
        let (mut habits, spec) = (Habits::default(), job("ann", 60, 1));
        for ran in 1..=200 {
            assert_eq!(habits.fared().is_some(), ran > FARED_LEAST as u64);
            habits.learn(&spec, Millis::secs(ran), Some(Millis::secs(100)), Time::ZERO);
        }
        let fared = habits.fared().unwrap();
        assert_eq!((fared.low, fared.middle, fared.high), (1.10, 1.50, 1.90), "of the last hundred");
    }
}
