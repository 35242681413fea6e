//! How long jobs of each class took, and how long the next one is expected to take.

use std::collections::BTreeMap;

use crate::habits::{Expectation, Sums};

/// The classes of a job, from wide to narrow, as places in the history.
pub(super) type Classes = [u32; 3];

/// Whose jobs, of which duration in seconds, of how many units.
type Key = (i64, Option<u64>, Option<u32>);

/// The ended jobs of a class, and those that come.
#[derive(Debug, Clone, Copy, Default)]
struct Habit {
    sums: Sums,
    /// Jobs that ended, none forgotten; expectations made at the same count are the same.
    ended: u32,
    waiting: u32,
    /// Jobs that run.
    running: u32,
}

/// The ended jobs of all classes.
#[derive(Debug, Clone)]
pub(super) struct History {
    /// About how many jobs a class remembers.
    memory: u64,
    /// No run time counts as shorter, in seconds.
    shortest: u64,
    habits: Vec<Habit>,
    classes: BTreeMap<Key, u32>,
}

impl History {
    pub(super) fn new(memory: u16, shortest: u64) -> Self {
        Self {
            memory: u64::from(memory.max(1)),
            shortest: shortest.max(1),
            habits: Vec::new(),
            classes: BTreeMap::new(),
        }
    }

    /// The classes of a job of a duration in seconds.
    pub(super) fn classes(&mut self, user: i64, duration: u64, units: u32) -> Classes {
        [(user, None, None), (user, Some(duration), None), (user, Some(duration), Some(units))]
            .map(|key| self.class(key))
    }

    fn class(&mut self, key: Key) -> u32 {
        let habits = &mut self.habits;
        *self.classes.entry(key).or_insert_with(|| {
            habits.push(Habit::default());
            (habits.len() - 1) as u32
        })
    }

    /// A job of these classes joins the line.
    pub(super) fn joined(&mut self, [.., narrowest]: Classes) {
        self.habits[narrowest as usize].waiting += 1;
    }

    /// A job of these classes starts.
    pub(super) fn started(&mut self, [.., narrowest]: Classes) {
        let habit = &mut self.habits[narrowest as usize];
        habit.waiting -= 1;
        habit.running += 1;
    }

    /// How many jobs learn from the next one of these classes that runs: all that wait, if none of them runs yet.
    pub(super) fn pupils(&self, [.., narrowest]: Classes) -> u32 {
        let habit = &self.habits[narrowest as usize];
        if habit.running == 0 { habit.waiting } else { 1 }
    }

    /// A job ended after so many seconds.
    pub(super) fn learn(&mut self, classes: Classes, run: u64) {
        let run = run.max(self.shortest);
        self.habits[classes[2] as usize].running -= 1;
        for class in classes {
            let habit = &mut self.habits[class as usize];
            habit.sums.learn(run, self.memory);
            habit.ended = habit.ended.wrapping_add(1);
        }
    }

    /// A number that is another one whenever the expectation of a job of these classes may be another one.
    pub(super) fn state(&self, classes: Classes) -> u32 {
        // Who belongs to a narrow class belongs to the widest one too.
        self.habits[classes[0] as usize].ended
    }

    /// What a job of a duration in seconds is expected to take.
    pub(super) fn expect(&self, classes: Classes, duration: u64) -> Expectation {
        Expectation::of(classes.map(|class| self.habits[class as usize].sums), duration, self.shortest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::habits::{PER_SECOND, seconds};

    /// A job comes, runs at once and ends.
    fn ran(history: &mut History, classes: Classes, run: u64) {
        history.joined(classes);
        history.started(classes);
        history.learn(classes, run);
    }

    #[test]
    fn all_who_wait_learn_from_the_first_that_runs() {
        let mut history = History::new(8, 10);
        let classes = history.classes(1, 3600, 4);
        for _ in 0..3 {
            history.joined(classes);
        }
        assert_eq!(history.pupils(classes), 3);
        history.started(classes);
        assert_eq!(history.pupils(classes), 1, "one is on its way");
        history.learn(classes, 20);
        assert_eq!(history.pupils(classes), 2);
    }

    #[test]
    fn a_newcomer_is_believed() {
        let mut history = History::new(8, 10);
        let classes = history.classes(1, 3600, 4);
        assert_eq!(history.expect(classes, 3600), Expectation { run: 3600, inverse: PER_SECOND / 3600 });
    }

    #[test]
    fn a_user_whose_jobs_take_a_tenth_is_believed_so_after_a_few() {
        let mut history = History::new(8, 10);
        let classes = history.classes(1, 3600, 4);
        let mut last = 3600;
        for ended in 1..=5 {
            ran(&mut history, classes, 360);
            let run = history.expect(classes, 3600).run;
            assert!(run < last && run >= 360, "{run} after {ended} jobs");
            last = run;
        }
        assert!(last < 400, "{last} after five jobs");
        // Of a job with another duration less is known, yet the user is known; of other users nothing is.
        let longer = history.classes(1, 7200, 4);
        assert!((360..3600).contains(&history.expect(longer, 7200).run));
        let other = history.classes(2, 3600, 4);
        assert_eq!(history.expect(other, 3600).run, 3600);
    }

    #[test]
    fn worked_by_hand() {
        // Memory 2: one job of 100 s, then one of 40 s, give N = 1.5, R = 90, H = 0.005 + 0.025 in every class.
        let mut history = History::new(2, 10);
        let classes = history.classes(7, 200, 1);
        ran(&mut history, classes, 100);
        ran(&mut history, classes, 40);
        // r: (90 + 200) / 2.5 = 116, (90 + 116) / 2.5 = 82.4, (90 + 82.4) / 2.5 = 68.96.
        let expected = history.expect(classes, 200);
        assert_eq!(expected.run, 68);
        // h: (0.03 + 0.005) / 2.5 = 0.014, then 0.0176, then 0.01904.
        let inverse = expected.inverse as f64 / PER_SECOND as f64;
        assert!((inverse - 0.019_04).abs() < 1e-9, "{inverse}");
    }

    #[test]
    fn extremes_stay_within_bounds() {
        let mut history = History::new(u16::MAX, 0);
        let longest = seconds(u64::MAX);
        let classes = history.classes(-1, longest, u32::MAX);
        for _ in 0..200_000 {
            ran(&mut history, classes, longest);
        }
        // Rounding lets the count of so many jobs grow a little too large.
        assert!(history.expect(classes, longest).run > longest - longest / 50_000);
        for run in [0, 0, 0, 1] {
            ran(&mut history, classes, run);
        }
        let expected = history.expect(classes, 1);
        assert_eq!((expected.run, expected.inverse), (1, PER_SECOND));
    }
}
