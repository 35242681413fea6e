//! How many units are free from now on, as a step function of time.

/// Free units over time: from each step's instant on, until the next one's. After the last step nothing changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    steps: Vec<(i64, i64)>,
}

impl Profile {
    /// So many units free from an instant on.
    pub fn new(now: i64, free: u64) -> Self {
        Self { steps: vec![(now, free as i64)] }
    }

    /// So many units free now, and more as releases come, which are given by time. What was due before is free now.
    pub fn of_releases(now: i64, free: u32, releases: impl Iterator<Item = (i64, u32)>) -> Self {
        let mut profile = Self::new(now, u64::from(free));
        for (at, units) in releases {
            let last = profile.steps.len() - 1;
            let (step, level) = profile.steps[last];
            if at <= step {
                profile.steps[last].1 += i64::from(units);
            } else {
                profile.steps.push((at, level + i64::from(units)));
            }
        }
        profile
    }

    /// Units are taken from one instant until another.
    pub fn take(&mut self, from: i64, until: i64, units: u64) {
        self.change(from, until, -(units as i64));
    }

    /// Undoes [`Profile::take`].
    pub fn give(&mut self, from: i64, until: i64, units: u64) {
        self.change(from, until, units as i64);
    }

    fn change(&mut self, from: i64, until: i64, units: i64) {
        let start = self.steps[0].0;
        if until <= start {
            return;
        }
        let first = self.step_at(from.max(start));
        let last = self.step_at(until);
        for step in &mut self.steps[first..last] {
            step.1 += units;
        }
    }

    /// The first instant from which so many units are free for so long.
    pub fn earliest(&self, units: u64, duration: i64) -> Option<i64> {
        self.earliest_from(self.steps[0].0, units, duration)
    }

    /// The same, and not before an instant.
    pub(super) fn earliest_from(&self, from: i64, units: u64, duration: i64) -> Option<i64> {
        let units = units as i64;
        let mut at = self.steps.partition_point(|step| step.0 <= from).saturating_sub(1);
        loop {
            at += self.steps[at..].iter().position(|step| step.1 >= units)?;
            let start = self.steps[at].0.max(from);
            let end = start.saturating_add(duration);
            let blocked =
                self.steps[at..].iter().take_while(|step| step.0 < end).position(|step| step.1 < units);
            match blocked {
                None => return Some(start),
                Some(offset) => at += offset,
            }
        }
    }

    /// The fewest units free at any time from one instant until another.
    pub(super) fn fewest(&self, from: i64, until: i64) -> i64 {
        let first = self.steps.partition_point(|step| step.0 <= from).saturating_sub(1);
        let steps = self.steps[first..].iter();
        let during = steps.enumerate().take_while(|(place, step)| *place == 0 || step.0 < until);
        during.map(|(_, step)| step.1).min().unwrap_or(0)
    }

    /// The place of the step at an instant, made if there is none.
    fn step_at(&mut self, at: i64) -> usize {
        match self.steps.binary_search_by_key(&at, |step| step.0) {
            Ok(place) => place,
            Err(place) => {
                let free = self.steps[place.saturating_sub(1)].1;
                self.steps.insert(place, (at, free));
                place
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_within_a_step_is_a_beginning_too() {
        let mut profile = Profile::new(10, 4);
        profile.take(30, 50, 3);
        assert_eq!(profile.earliest_from(15, 4, 15), Some(15));
        assert_eq!(profile.earliest_from(16, 4, 15), Some(50));
        assert_eq!(profile.earliest_from(40, 1, 90), Some(40));
        assert_eq!(profile.earliest_from(0, 4, 20), profile.earliest(4, 20));
    }

    #[test]
    fn the_fewest_units_of_a_span_count_its_beginning_and_not_its_end() {
        let mut profile = Profile::of_releases(10, 4, [(20, 2), (40, 1)].into_iter());
        profile.take(30, 50, 5);
        // 4 from 10, 6 from 20, 1 from 30, 2 from 40, 7 from 50.
        let table =
            [((10, 30), 4), ((10, 31), 1), ((20, 30), 6), ((25, 26), 6), ((45, 90), 2), ((60, 61), 7)];
        for ((from, until), fewest) in table {
            assert_eq!(profile.fewest(from, until), fewest, "{from} until {until}");
        }
        assert_eq!(profile.fewest(30, 30), 1, "an instant is a span too");
    }
}
