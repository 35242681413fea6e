//! How long jobs of a batch pool take, learned from those that ended.
//!
//! People ask for round and long times and run the same thing again. A job belongs to three *circles*, from wide to narrow:
//! the jobs of its user, those of them of the same series and workload, those of them with the same walltime and number of
//! nodes as well. Each circle keeps sums over its ended jobs in which older ones fade: with each end a sum `x` becomes
//! `x − x/m + new`; `N` counts jobs so and `R` adds up their run times. The expectation starts at the walltime, and each
//! circle, from wide to narrow, makes of it
//!
//! ```text
//! r ← (R + r) / (N + 1)
//! ```
//!
//! so a user with one job is still half believed, and what wider circles say soon does not matter to one that has seen
//! many. In the end `1 s ≤ r ≤ walltime`, whatever was learned.

use std::collections::{BTreeMap, VecDeque};

use landfall_model::answer::Fared;
use landfall_model::{JobSpec, Millis, Name, TenantId, Time, WorkloadId};
use serde::{Deserialize, Serialize};

/// One job, in the fixed point of counts and sums.
pub(crate) const JOB: u64 = 1 << 16;
/// About how many jobs a circle remembers.
const MEMORY: u64 = 8;
/// Run times below and above these are not told apart: a second, and more than a century.
const SHORTEST: Millis = Millis::secs(1);
const LONGEST: Millis = Millis::secs(u32::MAX as u64);
/// Circles that are remembered; beyond, those that learned nothing for longest are forgotten, half of them at once.
const CIRCLES_MAX: usize = 20_000;
/// Ended jobs whose expectations are compared with what became of them.
const FARED_MAX: usize = 100;
/// Fewer than these say nothing.
const FARED_LEAST: usize = 5;

/// Jobs that are alike in what is given here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Circle {
    tenant: Option<TenantId>,
    user: Option<Name>,
    does: Option<(Option<Name>, Option<WorkloadId>)>,
    size: Option<(Millis, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Habit {
    jobs: u64,
    /// In milliseconds.
    runs: u64,
    last: Time,
}

/// What a pool has learned.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Habits {
    circles: BTreeMap<Circle, Habit>,
    /// How long the last jobs were expected to run, and how long they ran.
    fared: VecDeque<(Millis, Millis)>,
}

fn circles(spec: &JobSpec) -> [Circle; 3] {
    let wide = Circle { tenant: spec.tenant.clone(), user: spec.user.clone(), does: None, size: None };
    let does = Some((spec.series.clone(), spec.workload.clone()));
    let same = Circle { does, ..wide.clone() };
    let size = Some((spec.walltime_ms, spec.nodes.min));
    let narrow = Circle { size, ..same.clone() };
    [wide, same, narrow]
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
            assert!(habits.circles.len() <= CIRCLES_MAX + 3);
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
