//! What was in use and what waited, over time: exact for short runs, means over equal stretches for long ones.

use std::collections::BTreeMap;

use landfall_model::Time;

use crate::measures::Window;
use crate::run::Run;

/// Runs with more changes than this are drawn as means over [`STRETCHES`].
const CHANGES_MAX: usize = 600;
/// Into how many stretches a long run is cut; about one per point of paper.
const STRETCHES: u64 = 400;

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Timeline {
    /// Ends of stretches in seconds since the first submission; one more than there are stretches.
    pub(super) bounds_s: Vec<f64>,
    /// Whether a stretch has one value throughout.
    pub(super) exact: bool,
    /// Part of units in use, in per cent.
    pub(super) units: Vec<f64>,
    /// Part of GPUs in use, in per cent; empty if there are none.
    pub(super) gpus: Vec<f64>,
    pub(super) waiting_jobs: Vec<Level>,
    /// Units that waiting jobs asked for.
    pub(super) waiting_units: Vec<Level>,
}

/// A value during a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Level {
    pub(super) mean: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Level {
    /// The value in wholes of so many parts.
    fn shared(self, parts: u64) -> Self {
        let parts = parts as f64;
        Self { mean: self.mean / parts, min: self.min / parts, max: self.max / parts }
    }
}

impl Timeline {
    /// Of a run; nothing if no time passed.
    pub(super) fn of(run: &Run) -> Option<Self> {
        let window = Window::whole(run).filter(|window| window.length_ms() > 0)?;
        let (from, to) = (window.from.as_millis(), window.to.as_millis());
        let mut busy = Steps::default();
        let mut busy_gpus = Steps::default();
        let mut jobs = Steps::default();
        let mut units = Steps::default();
        for job in &run.jobs {
            let queued = job.queued.as_millis();
            let started = job.started.map_or(to, Time::as_millis);
            jobs.add(queued, started, 1);
            units.add(queued, started, i128::from(job.units));
            if job.started.is_some() {
                let ended = job.ended.map_or(to, Time::as_millis);
                let stay = i128::from(ended - started).max(1);
                // A job that was stopped in between is drawn as holding a part of its units throughout.
                let held = i128::from(job.held_ms).min(stay);
                busy.add(started, ended, i128::from(job.units) * 1000 * held / stay);
                busy_gpus.add(started, ended, i128::from(job.gpu_milli) * held / stay);
            }
        }
        let (mut capacity, mut capacity_gpus) = (Steps::default(), Steps::default());
        for (place, there) in run.capacity.iter().enumerate() {
            let until = run.capacity.get(place + 1).map_or(to, |next| next.from.as_millis());
            capacity.add(there.from.as_millis(), until, i128::from(there.units) * 1000);
            capacity_gpus.add(there.from.as_millis(), until, i128::from(there.gpu_milli));
        }
        let all = [&mut busy, &mut busy_gpus, &mut jobs, &mut units, &mut capacity, &mut capacity_gpus];
        let mut changes: Vec<i64> = Vec::new();
        for steps in all {
            steps.settle();
            changes.extend(steps.changes.iter().map(|change| change.0).filter(|at| (from..to).contains(at)));
        }
        changes.extend([from, to]);
        changes.sort_unstable();
        changes.dedup();
        let exact = changes.len() <= CHANGES_MAX;
        let bounds = if exact { changes } else { even(from, to) };
        let levels = |steps: &Steps| steps.levels(&bounds);
        let parts = |busy: &Steps, there: &Steps| -> Vec<f64> {
            let part = |(busy, there): (Level, Level)| {
                if there.mean > 0.0 { 100.0 * busy.mean / there.mean } else { 0.0 }
            };
            levels(busy).into_iter().zip(levels(there)).map(part).collect()
        };
        Some(Self {
            exact,
            units: parts(&busy, &capacity),
            gpus: if capacity_gpus.changes.is_empty() {
                Vec::new()
            } else {
                parts(&busy_gpus, &capacity_gpus)
            },
            waiting_jobs: levels(&jobs),
            waiting_units: levels(&units).into_iter().map(|level| level.shared(run.parts())).collect(),
            bounds_s: bounds.iter().map(|at| (at - from) as f64 / 1000.0).collect(),
        })
    }

    /// The same with means over eight stretches at a time, for drawings with several lines. A run that is drawn exactly
    /// stays as it is.
    pub(super) fn coarse(&self) -> Self {
        const TOGETHER: usize = 8;
        if self.exact {
            return self.clone();
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let means = |values: &[f64]| values.chunks(TOGETHER).map(mean).collect();
        let levels = |levels: &[Level]| -> Vec<Level> {
            let join = |part: &[Level]| Level {
                mean: part.iter().map(|level| level.mean).sum::<f64>() / part.len() as f64,
                min: part.iter().map(|level| level.min).fold(f64::INFINITY, f64::min),
                max: part.iter().map(|level| level.max).fold(0.0, f64::max),
            };
            levels.chunks(TOGETHER).map(join).collect()
        };
        let mut bounds_s: Vec<f64> = self.bounds_s.iter().copied().step_by(TOGETHER).collect();
        if bounds_s.last() != self.bounds_s.last() {
            bounds_s.extend(self.bounds_s.last());
        }
        Self {
            bounds_s,
            exact: false,
            units: means(&self.units),
            gpus: means(&self.gpus),
            waiting_jobs: levels(&self.waiting_jobs),
            waiting_units: levels(&self.waiting_units),
        }
    }

    /// Values as points in the middle of their stretches, from end to end.
    pub(super) fn middles(&self, values: &[f64]) -> Vec<(f64, f64)> {
        let first = values.first().map(|value| (0.0, *value));
        let last = values.last().map(|value| (self.length_s(), *value));
        let middles =
            self.bounds_s.windows(2).zip(values).map(|(ends, value)| ((ends[0] + ends[1]) / 2.0, *value));
        first.into_iter().chain(middles).chain(last).collect()
    }

    pub(super) fn length_s(&self) -> f64 {
        self.bounds_s.last().copied().unwrap_or(0.0)
    }
}

/// Bounds of equal stretches.
fn even(from: i64, to: i64) -> Vec<i64> {
    let length = i128::from(to - from);
    let stretches = i128::from(STRETCHES).min(length);
    (0..=stretches).map(|place| from + (length * place / stretches) as i64).collect()
}

/// A value that changes at instants.
#[derive(Default)]
struct Steps {
    /// Until settled: by how much it changes; then: what it is from there on.
    changes: Vec<(i64, i128)>,
}

impl Steps {
    /// Adds `amount` from one instant until another.
    fn add(&mut self, from: i64, until: i64, amount: i128) {
        if from < until && amount != 0 {
            self.changes.extend([(from, amount), (until, -amount)]);
        }
    }

    fn settle(&mut self) {
        self.changes.sort_unstable_by_key(|change| change.0);
        let mut value = 0;
        for change in &mut self.changes {
            value += change.1;
            change.1 = value;
        }
        // Of changes at one instant the last one holds all.
        self.changes.reverse();
        self.changes.dedup_by_key(|change| change.0);
        self.changes.reverse();
    }

    /// Mean, lowest and highest value between each two bounds.
    fn levels(&self, bounds: &[i64]) -> Vec<Level> {
        let mut next = 0;
        let mut value = 0;
        let mut found = Vec::with_capacity(bounds.len());
        for pair in bounds.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            while self.changes.get(next).is_some_and(|change| change.0 <= from) {
                value = self.changes[next].1;
                next += 1;
            }
            let (mut at, mut area, mut min, mut max) = (from, 0_i128, value, value);
            while let Some(&(change, after)) = self.changes.get(next).filter(|change| change.0 < to) {
                area += value * i128::from(change - at);
                (at, value) = (change, after);
                (min, max) = (min.min(value), max.max(value));
                next += 1;
            }
            area += value * i128::from(to - at);
            let mean = area as f64 / (to - from) as f64;
            found.push(Level { mean, min: min as f64, max: max as f64 });
        }
        found
    }
}

/// Reasons and how often, most frequent first; for lists.
pub(super) fn by_frequency(counts: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    let mut rows: Vec<(&str, u64)> = counts.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    rows.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::Measures;
    use crate::measures::samples::{b28, busy};

    #[test]
    fn a_short_run_is_exact() {
        let found = Timeline::of(&b28()).unwrap();
        assert!(found.exact);
        // j1 alone until 30; j1 and j3; then j6 from 50 on; j1, j6, j7 from 70 on.
        let at = |seconds: f64| found.bounds_s.iter().rposition(|bound| *bound <= seconds).unwrap();
        assert_eq!(
            [0.0, 30.0, 60.0, 100.0].map(|seconds| found.units[at(seconds)]),
            [50.0, 75.0, 100.0, 100.0]
        );
        assert_eq!(
            [0.0, 25.0, 50.0, 399.0].map(|seconds| found.waiting_jobs[at(seconds)].mean),
            [0.0, 1.0, 4.0, 1.0]
        );
        assert_eq!(found.waiting_units[at(399.0)].mean, 2.0);
        assert!(found.gpus.is_empty());
    }

    #[test]
    fn parts_of_nodes_are_drawn_as_nodes() {
        let whole = Timeline::of(&b28()).unwrap();
        let mut run = b28();
        run.unit_parts = 1000;
        run.jobs.iter_mut().for_each(|job| job.units *= 1000);
        run.capacity.iter_mut().for_each(|capacity| capacity.units *= 1000);
        assert_eq!(Timeline::of(&run).unwrap(), whole);
        let (found, whole) = (Measures::of(&run), Measures::of(&b28()));
        assert_eq!(
            (found.sizes, found.tenants, found.utilisation),
            (whole.sizes, whole.tenants, whole.utilisation)
        );
    }

    #[test]
    fn stretches_keep_the_mean_and_are_few() {
        let run = busy("easy", 3, 4000);
        let found = Timeline::of(&run).unwrap();
        assert!(!found.exact && found.bounds_s.len() <= 601);
        let measures = Measures::of(&run);
        // Capacity changes within the run, so weigh each stretch with what there was.
        let there = |place: usize| {
            let mid = (found.bounds_s[place] + found.bounds_s[place + 1]) / 2.0;
            if (40_000.0..80_000.0).contains(&mid) { 3000.0 } else { 4096.0 }
        };
        let (mut busy, mut all) = (0.0, 0.0);
        for (place, part) in found.units.iter().enumerate() {
            let length = found.bounds_s[place + 1] - found.bounds_s[place];
            busy += part / 100.0 * there(place) * length;
            all += there(place) * length;
        }
        assert!((busy / all - measures.utilisation.unwrap()).abs() < 0.002, "{}", busy / all);
        let coarse = found.coarse();
        assert_eq!((coarse.bounds_s.len(), coarse.units.len(), coarse.waiting_jobs.len()), (51, 50, 50));
        assert_eq!(coarse.length_s(), found.length_s());
        assert!(found.waiting_jobs.iter().all(|level| level.min <= level.mean && level.mean <= level.max));
    }
}
