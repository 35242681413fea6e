//! What is in a trace, in figures: how many jobs, over what time, how wide, how long, whose, and how much work.

use std::collections::BTreeMap;

use serde::Serialize;

/// One job, reduced to what is counted.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryJob {
    /// When it came, in seconds.
    pub submit_s: f64,
    /// How long it ran, in seconds, if known.
    pub run_s: Option<f64>,
    /// Processors, nodes or GPUs, whichever the trace counts.
    pub width: f64,
    /// What its user asked for, in seconds, if known.
    pub estimate_s: Option<f64>,
    /// Whose it is, if known.
    pub user: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    pub mean: f64,
    /// Half are at most this.
    pub p50: f64,
    /// Nineteen of twenty are at most this.
    pub p95: f64,
    pub max: f64,
}

impl Spread {
    /// By nearest rank; `None` of nothing.
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let max = *values.last()?;
        let rank = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Some(Self { mean: rounded(mean), p50: rounded(rank(50)), p95: rounded(rank(95)), max: rounded(max) })
    }
}

/// Jobs of one class of width.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SizeBand {
    pub from: u64,
    pub to: u64,
    pub jobs: u64,
}

/// A trace in figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub jobs: u64,
    pub first_submit_s: Option<f64>,
    /// From the first to the last submission, in seconds.
    pub span_s: Option<f64>,
    /// Work asked for as a share of what the machine could do between first and last submission.
    pub load: Option<f64>,
    /// Width times run time, in hours.
    pub work_hours: f64,
    pub width: Option<Spread>,
    /// Widths by class: 1, 2, 3 to 4, 5 to 8, …
    pub sizes: Vec<SizeBand>,
    pub run_s: Option<Spread>,
    /// Jobs that say how long they will run.
    pub estimates_known: u64,
    /// Run time as a share of the estimate, over jobs that have both.
    pub estimate_used: Option<Spread>,
    pub users: u64,
    /// Share of the jobs that the busiest user has.
    pub busiest_user: Option<f64>,
}

/// Six decimals, so that two runs print the same bytes.
fn rounded(value: f64) -> f64 {
    let rounded = (value * 1e6).round() / 1e6;
    if rounded.is_finite() { rounded } else { value }
}

impl Summary {
    /// Sums up jobs on a machine of this capacity, where that is known.
    pub fn of(jobs: &[SummaryJob], capacity: Option<f64>) -> Self {
        let submits = jobs.iter().map(|job| job.submit_s);
        let first = submits.clone().min_by(f64::total_cmp);
        let last = submits.max_by(f64::total_cmp);
        let span = first.zip(last).map(|(first, last)| last - first);
        let work: f64 = jobs.iter().filter_map(|job| Some(job.width * job.run_s?)).sum();
        let load = capacity.zip(span).filter(|&(capacity, span)| capacity > 0.0 && span > 0.0);
        let used = |job: &SummaryJob| Some(job.run_s? / job.estimate_s.filter(|&estimate| estimate > 0.0)?);
        let mut users: BTreeMap<&str, u64> = BTreeMap::new();
        for user in jobs.iter().filter_map(|job| job.user.as_deref()) {
            *users.entry(user).or_default() += 1;
        }
        let busiest = users.values().max().map(|&count| rounded(count as f64 / jobs.len() as f64));
        Self {
            jobs: jobs.len() as u64,
            first_submit_s: first,
            span_s: span,
            load: load.map(|(capacity, span)| rounded(work / (capacity * span))),
            work_hours: rounded(work / 3600.0),
            width: Spread::of(jobs.iter().map(|job| job.width).collect()),
            sizes: sizes(jobs),
            run_s: Spread::of(jobs.iter().filter_map(|job| job.run_s).collect()),
            estimates_known: jobs.iter().filter(|job| job.estimate_s.is_some()).count() as u64,
            estimate_used: Spread::of(jobs.iter().filter_map(used).collect()),
            users: users.len() as u64,
            busiest_user: busiest,
        }
    }
}

/// Doubling classes: 0, 1, 2, 3 to 4, 5 to 8, …; a part of a unit counts as one.
fn sizes(jobs: &[SummaryJob]) -> Vec<SizeBand> {
    let mut classes: BTreeMap<u64, u64> = BTreeMap::new();
    for job in jobs {
        let width = job.width.ceil().max(0.0) as u64;
        let to = width.checked_next_power_of_two().unwrap_or(u64::MAX).max(u64::from(width > 0));
        let to = if width == 0 { 0 } else { to };
        *classes.entry(to).or_default() += 1;
    }
    let class = |(to, jobs)| SizeBand { from: if to > 2 { to / 2 + 1 } else { to }, to, jobs };
    classes.into_iter().map(class).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(submit_s: f64, run_s: f64, width: f64, estimate_s: Option<f64>, user: &str) -> SummaryJob {
        SummaryJob { submit_s, run_s: Some(run_s), width, estimate_s, user: Some(user.to_owned()) }
    }

    #[test]
    fn figures_of_three_jobs() {
        let jobs = [
            job(100.0, 10.0, 1.0, Some(20.0), "a"),
            job(0.0, 30.0, 4.0, None, "a"),
            job(50.0, 20.0, 3.0, Some(20.0), "b"),
        ];
        let summary = Summary::of(&jobs, Some(2.0));
        assert_eq!((summary.first_submit_s, summary.span_s), (Some(0.0), Some(100.0)));
        assert_eq!(summary.load, Some(190.0 / 200.0));
        assert_eq!(summary.run_s, Some(Spread { mean: 20.0, p50: 20.0, p95: 30.0, max: 30.0 }));
        let sizes: Vec<_> = summary.sizes.iter().map(|class| (class.from, class.to, class.jobs)).collect();
        assert_eq!(sizes, [(1, 1, 1), (3, 4, 2)]);
        assert_eq!((summary.estimates_known, summary.users), (2, 2));
        assert_eq!(summary.estimate_used.map(|used| (used.mean, used.max)), Some((0.75, 1.0)));
        assert_eq!(summary.busiest_user, Some(0.666667));
    }

    #[test]
    fn nothing_has_no_figures() {
        let summary = Summary::of(&[], Some(2.0));
        assert_eq!((summary.jobs, summary.load, summary.span_s, summary.run_s), (0, None, None, None));
        assert!(Summary::of(&[job(5.0, 1.0, 0.5, None, "a")], Some(1.0)).load.is_none());
    }
}
