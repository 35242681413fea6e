//! Sequences cut out of a log, each on a machine that is empty at first.
//!
//! Published studies of priority functions compare on such sequences (RLScheduler, SC 2020) and take jobs from a log in
//! their own way, which is not that of whole-log studies: by number, failed runs included, on as many processors as a job
//! asked for or got.

use landfall_model::Time;

use super::{Schedule, Score, committed};
use crate::trace::batch::{BatchJob, TIME_MAX};
use crate::trace::swf::Log;

/// Run time that stands in for an unknown one, in seconds.
const UNKNOWN_RUN: i64 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    /// Its first job, counted from 0.
    pub start: usize,
    pub count: usize,
}

/// The jobs of a log by number. One whose run time is unknown runs for 10 s, one that did not run is left out; a job
/// needs the larger of what it asked for and what it got, and an unknown estimate is the run time.
pub fn jobs_by_number(log: &Log) -> Vec<BatchJob> {
    let mut rows: Vec<_> = log
        .jobs
        .iter()
        .filter(|job| job.run != 0 && job.submit.max(job.run).max(job.estimate) <= TIME_MAX)
        .collect();
    rows.sort_by_key(|job| job.number);
    let job = |row: &crate::trace::swf::SwfJob| {
        let run = if row.run < 0 { UNKNOWN_RUN } else { row.run };
        BatchJob {
            number: row.number,
            submit: row.submit,
            run,
            procs: u64::try_from(row.allocated.max(row.requested)).unwrap_or(0),
            estimate: if row.estimate == -1 { run } else { row.estimate },
            user: row.user,
            group: row.group,
            executable: row.executable,
            wait: row.wait,
        }
    };
    rows.into_iter().map(job).collect()
}

/// A schedule of jobs one at a time, smallest score first.
pub fn one_at_a_time(jobs: &[BatchJob], procs: u64, score: Score) -> Schedule {
    let starts = committed(jobs, procs, score);
    let mut order: Vec<u32> = (0..jobs.len() as u32).collect();
    order.sort_by_key(|at| starts[*at as usize]);
    Schedule {
        started: starts.into_iter().map(|start| Some(Time::from_secs(start))).collect(),
        backfilled: vec![false; jobs.len()],
        promised: vec![None; jobs.len()],
        order,
        ..Schedule::default()
    }
}
