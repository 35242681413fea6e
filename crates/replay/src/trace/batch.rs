//! The jobs of a log that a machine of alike processors can run, as published comparisons choose them.
//!
//! A job is left out if it did not run, asked for no time, was submitted before the log began, has no processor count,
//! or is wider than the machine. What is left runs for no longer than it asked for, on the processors it asked for (on
//! those it got, where the request is unknown).

use super::swf::{Log, SwfJob};

/// A job as a machine of alike processors sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchJob {
    pub number: i64,
    /// When it was submitted, in seconds.
    pub submit: i64,
    /// How long it runs, in seconds; never longer than `estimate`.
    pub run: i64,
    pub procs: u64,
    /// How long its user says it will run, in seconds.
    pub estimate: i64,
    /// Its user; −1 if unknown.
    pub user: i64,
    /// Its group; −1 if unknown.
    pub group: i64,
    /// Its program; −1 if unknown.
    pub executable: i64,
    /// How long it waited according to the log, in seconds; −1 if unknown.
    pub wait: i64,
}

/// The latest instant and longest time taken, in seconds: some 3000 years.
pub const TIME_MAX: i64 = 100_000_000_000;

/// Jobs that were left out, by the first reason that applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Run time zero, negative or unknown.
    pub no_run: u64,
    /// Requested time zero, negative or unknown, in a log that knows it for other jobs.
    pub no_estimate: u64,
    /// Submitted before the log began, or unknown when.
    pub no_submit: u64,
    /// Neither requested nor allocated processors are known.
    pub no_processors: u64,
    /// Needs more processors than there are.
    pub too_wide: u64,
    /// A time beyond anything a clock will see.
    pub out_of_range: u64,
}

impl Dropped {
    /// Counts with their reasons in words, in the order of checking.
    pub fn by_reason(&self) -> [(&'static str, u64); 6] {
        [
            ("did not run", self.no_run),
            ("no requested time", self.no_estimate),
            ("no submit time", self.no_submit),
            ("no processor count", self.no_processors),
            ("wider than the machine", self.too_wide),
            ("time out of range", self.out_of_range),
        ]
    }

    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, count)| count).sum()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept {
    /// Jobs by (submit, number).
    pub jobs: Vec<BatchJob>,
    pub dropped: Dropped,
    /// Jobs kept with their run time as estimate, because the log knows no estimates at all.
    pub estimates_defaulted: u64,
    /// Jobs kept whose run was cut to their estimate.
    pub runs_cut: u64,
}

impl Kept {
    /// Chooses the jobs that a machine of `procs` processors can run.
    ///
    /// A missing estimate drops a job from a log that has estimates: it is a hole in the record. Where no job has one,
    /// the log simply does not record them, and the run time stands in.
    pub fn of(log: &Log, procs: u64) -> Self {
        let has_estimates = log.jobs.iter().any(|job| job.estimate > 0);
        let mut kept = Self { jobs: Vec::with_capacity(log.jobs.len()), ..Self::default() };
        for job in &log.jobs {
            kept.take(job, procs, has_estimates);
        }
        kept.jobs.sort_unstable_by_key(|job| (job.submit, job.number));
        kept
    }

    fn take(&mut self, job: &SwfJob, procs: u64, has_estimates: bool) {
        let width = if job.requested > 0 { job.requested } else { job.allocated };
        let width = u64::try_from(width).unwrap_or(0);
        let dropped = &mut self.dropped;
        let reason = if job.run <= 0 {
            &mut dropped.no_run
        } else if has_estimates && job.estimate <= 0 {
            &mut dropped.no_estimate
        } else if job.submit < 0 {
            &mut dropped.no_submit
        } else if width == 0 {
            &mut dropped.no_processors
        } else if width > procs {
            &mut dropped.too_wide
        } else if job.submit.max(job.run).max(job.estimate) > TIME_MAX {
            &mut dropped.out_of_range
        } else {
            let estimate = if has_estimates { job.estimate } else { job.run };
            self.estimates_defaulted += u64::from(!has_estimates);
            self.runs_cut += u64::from(job.run > estimate);
            self.jobs.push(BatchJob {
                number: job.number,
                submit: job.submit,
                run: job.run.min(estimate),
                procs: width,
                estimate,
                user: job.user,
                group: job.group,
                executable: job.executable,
                wait: job.wait,
            });
            return;
        };
        *reason += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(rows: &[(i64, i64, i64, i64, i64)]) -> Log {
        let jobs = rows.iter().zip(1..).map(|(&(submit, run, allocated, requested, estimate), number)| {
            SwfJob { number, submit, run, allocated, requested, estimate, ..SwfJob::UNKNOWN }
        });
        Log { comments: vec![], jobs: jobs.collect() }
    }

    #[test]
    fn each_reason_is_counted_once_by_the_first_that_applies() {
        let kept = Kept::of(
            &log(&[
                (5, 10, 2, 4, 20),
                (5, 0, 2, 4, 0),
                (5, 10, 2, 4, -1),
                (-1, 10, 2, 4, 20),
                (5, 10, -1, -1, 20),
                (5, 10, 0, 0, 20),
                (5, 10, 2, 9, 20),
                (1, 30, 3, -1, 20),
            ]),
            8,
        );
        let expected = Dropped {
            no_run: 1,
            no_estimate: 1,
            no_submit: 1,
            no_processors: 2,
            too_wide: 1,
            out_of_range: 0,
        };
        assert_eq!(kept.dropped, expected);
        assert_eq!(kept.dropped.total(), 6);
        let rows: Vec<_> =
            kept.jobs.iter().map(|j| (j.number, j.submit, j.run, j.procs, j.estimate)).collect();
        assert_eq!(rows, [(8, 1, 20, 3, 20), (1, 5, 10, 4, 20)]);
        assert_eq!((kept.runs_cut, kept.estimates_defaulted), (1, 0));
    }

    #[test]
    fn a_log_without_any_estimate_uses_run_times() {
        let kept = Kept::of(&log(&[(0, 10, 1, -1, -1), (0, 7, 1, -1, 0)]), 1);
        let rows: Vec<_> = kept.jobs.iter().map(|j| (j.number, j.run, j.estimate)).collect();
        assert_eq!(rows, [(1, 10, 10), (2, 7, 7)]);
        assert_eq!((kept.dropped.total(), kept.estimates_defaulted, kept.runs_cut), (0, 2, 0));
    }

    #[test]
    fn simultaneous_jobs_come_by_number_whatever_the_order_of_lines() {
        let mut unsorted = log(&[(9, 1, 1, 1, 1), (3, 1, 1, 1, 1), (3, 1, 1, 1, 1)]);
        unsorted.jobs.reverse();
        let numbers: Vec<_> = Kept::of(&unsorted, 1).jobs.iter().map(|job| job.number).collect();
        assert_eq!(numbers, [2, 3, 1]);
    }
}
