//! Jobs one at a time, smallest score first, without overtaking.
//!
//! The loop of published studies of priority functions: sort the queue, take the first job, and wait for it. While it
//! waits, arrivals up to the next end join before that end. Nothing else starts until it does; then the queue is sorted
//! again. A newcomer with a smaller score therefore does not push aside the one that was chosen.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::trace::batch::BatchJob;

/// What decides who is next; smallest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Score {
    Fcfs,
    /// Estimate, then submission.
    Sjf,
    /// log₁₀(estimate) · processors + 870 · log₁₀(submission), fitted by Carastan-Santos and de Camargo (SC 2017).
    F1,
}

impl Score {
    fn of(self, job: &BatchJob) -> f64 {
        match self {
            Self::Fcfs => job.submit as f64,
            Self::Sjf => job.estimate as f64,
            Self::F1 => {
                // Before the first second of a log both logarithms have no value; one second stands in.
                let log = |value: i64| libm::log10(value.max(1) as f64);
                log(job.estimate) * job.procs as f64 + 870.0 * log(job.submit)
            }
        }
    }
}

/// When each of the jobs starts, in seconds, on a machine that is empty at first. Jobs are in the order of the log.
pub fn committed(jobs: &[BatchJob], procs: u64, score: Score) -> Vec<i64> {
    let mut started = vec![0; jobs.len()];
    let mut free = procs;
    let mut ends: BinaryHeap<Reverse<(i64, usize)>> = BinaryHeap::new();
    let mut arrivals = jobs.iter().map(|job| job.submit).enumerate().peekable();
    // By score, then submission, then place; floats are compared as total order.
    let key = |at: usize| (score.of(&jobs[at]), jobs[at].submit, at);
    let mut queue: Vec<(f64, i64, usize)> = Vec::new();
    let join = |queue: &mut Vec<(f64, i64, usize)>, at: usize| {
        let new = key(at);
        let before = |old: &(f64, i64, usize)| {
            old.0.total_cmp(&new.0).then(old.1.cmp(&new.1)).then(old.2.cmp(&new.2)).is_gt()
        };
        // Smallest last, so that taking it moves nothing.
        let place = queue.partition_point(before);
        queue.insert(place, new);
    };
    let mut now = i64::MIN;
    loop {
        if queue.is_empty() {
            let Some((at, submit)) = arrivals.next() else { break };
            now = now.max(submit);
            join(&mut queue, at);
        }
        let Some((_, _, chosen)) = queue.pop() else { break };
        while jobs[chosen].procs > free {
            let end = ends.peek().map(|Reverse((end, _))| *end);
            match (arrivals.peek().copied(), end) {
                (Some((at, submit)), end) if end.is_none_or(|end| submit <= end) => {
                    arrivals.next();
                    now = now.max(submit);
                    join(&mut queue, at);
                }
                (_, Some(end)) => {
                    if let Some(Reverse((_, ended))) = ends.pop() {
                        free += jobs[ended].procs;
                    }
                    now = now.max(end);
                }
                // Nothing can come any more: the job is larger than the machine.
                _ => return started,
            }
        }
        free -= jobs[chosen].procs;
        started[chosen] = now;
        ends.push(Reverse((now + jobs[chosen].run, chosen)));
    }
    started
}
