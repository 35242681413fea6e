//! One amount over time, as a step function.
//!
//! A sorted list of (instant, value): each value holds from its instant to the next one, the last one for ever. Booking
//! an interval splits it at most twice. Instants are milliseconds; [`FOREVER`] ends an interval without end.

/// The end of an interval without end.
pub(super) const FOREVER: i64 = i64::MAX;

/// A step function from some instant on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Timeline {
    steps: Vec<(i64, i64)>,
}

impl Timeline {
    /// From changes at sorted instants, none before `start`.
    pub(super) fn from_changes(start: i64, value: i64, changes: impl Iterator<Item = (i64, i64)>) -> Self {
        let mut steps = vec![(start, value)];
        for (at, change) in changes.filter(|&(at, _)| at != FOREVER) {
            let last = steps.last_mut().map_or((start, value), |last| *last);
            if last.0 == at {
                steps.pop();
            }
            steps.push((at, last.1.saturating_add(change)));
        }
        Self { steps }
    }

    /// Place of the step that holds at an instant.
    fn place(&self, at: i64) -> usize {
        self.steps.partition_point(|&(from, _)| from <= at).saturating_sub(1)
    }

    /// The smallest value in `[from, to)`.
    pub(super) fn min(&self, from: i64, to: i64) -> i64 {
        let first = self.place(from);
        let mut least = self.steps[first].1;
        for &(at, value) in &self.steps[first + 1..] {
            if at >= to {
                break;
            }
            least = least.min(value);
        }
        least
    }

    /// Adds to the value in `[from, to)`.
    pub(super) fn add(&mut self, from: i64, to: i64, amount: i64) {
        if from >= to || amount == 0 {
            return;
        }
        let first = self.split(from);
        let last = if to == FOREVER { self.steps.len() } else { self.split(to) };
        for step in &mut self.steps[first..last] {
            step.1 = step.1.saturating_add(amount);
        }
    }

    /// Makes a step begin at an instant, and says where.
    fn split(&mut self, at: i64) -> usize {
        let place = self.steps.partition_point(|&(from, _)| from < at);
        if self.steps.get(place).is_none_or(|&(from, _)| from != at) {
            let value = self.steps[place.saturating_sub(1)].1;
            self.steps.insert(place, (at, value));
        }
        place
    }

    /// The steps, for whoever merges them.
    pub(super) fn steps(&self) -> &[(i64, i64)] {
        &self.steps
    }

    /// The first instant not before `from` at which the value is at least `least` and stays so for `span`, looking no
    /// farther than `horizon`. Only instants at which the value rises, and `from` itself, are looked at: at any other
    /// instant that will do, the one before it will do as well.
    pub(super) fn first_window(&self, from: i64, span: i64, least: i64, horizon: i64) -> Option<i64> {
        let mut start = from;
        let mut place = self.place(from);
        loop {
            // Go to the first step that is high enough.
            while self.steps[place].1 < least {
                place += 1;
                start = self.steps.get(place)?.0;
            }
            if start > horizon {
                return None;
            }
            let end = start.saturating_add(span);
            let low = (place + 1..self.steps.len())
                .take_while(|&at| self.steps[at].0 < end)
                .find(|&at| self.steps[at].1 < least);
            match low {
                None => return Some(start),
                Some(at) => place = at,
            }
        }
    }

    /// The first instant after `after` at which the value rises.
    pub(super) fn next_rise(&self, after: i64) -> Option<i64> {
        let first = self.steps.partition_point(|&(from, _)| from <= after).max(1);
        (first..self.steps.len())
            .find(|&at| self.steps[at].1 > self.steps[at - 1].1)
            .map(|at| self.steps[at].0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booking_and_unbooking_leave_the_values_as_they_were() {
        let mut line = Timeline::from_changes(0, 10, std::iter::empty());
        line.add(5, 8, -4);
        line.add(7, FOREVER, -3);
        let values = |line: &Timeline| [0, 5, 7, 8, 100].map(|at| line.min(at, at + 1));
        assert_eq!(values(&line), [10, 6, 3, 7, 7]);
        assert_eq!((line.min(0, 5), line.min(0, 6), line.min(5, 8), line.min(8, FOREVER)), (10, 6, 3, 7));
        line.add(7, FOREVER, 3);
        line.add(5, 8, 4);
        assert_eq!(values(&line), [10; 5]);
    }

    #[test]
    fn windows_begin_where_the_value_rises() {
        let line = Timeline::from_changes(0, 2, [(10, 3), (10, 1), (20, -5), (30, 9)].into_iter());
        assert_eq!(line.steps(), [(0, 2), (10, 6), (20, 1), (30, 10)]);
        assert_eq!(line.first_window(0, 5, 2, 99), Some(0));
        assert_eq!(line.first_window(0, 10, 6, 99), Some(10), "ends where the value falls");
        assert_eq!(line.first_window(0, 11, 6, 99), Some(30));
        assert_eq!(line.first_window(0, FOREVER, 2, 99), Some(30));
        assert_eq!(line.first_window(12, 5, 6, 99), Some(12));
        assert_eq!(line.first_window(0, 11, 6, 29), None, "beyond the horizon");
        assert_eq!(line.first_window(0, 1, 11, 99), None);
        assert_eq!((line.next_rise(0), line.next_rise(10), line.next_rise(30)), (Some(10), Some(30), None));
    }
}
