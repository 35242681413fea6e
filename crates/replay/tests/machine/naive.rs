//! EASY backfilling written down once more, as plainly as it can be said, for comparison.

use landfall_replay::trace::batch::BatchJob;

/// Starts by looking at every second's list of what could happen next, with all ends of an instant before all arrivals
/// and one pass after them.
pub(crate) fn easy(jobs: &[BatchJob], procs: u64, shortest: bool) -> Vec<i64> {
    let mut started: Vec<Option<i64>> = vec![None; jobs.len()];
    let end = |started: &[Option<i64>], at: usize| started[at].map(|start| start + jobs[at].run);
    let mut now = i64::MIN;
    loop {
        let arrivals = jobs.iter().map(|job| job.submit).filter(|at| *at > now);
        let ends = (0..jobs.len()).filter_map(|at| end(&started, at)).filter(|at| *at > now);
        let Some(next) = arrivals.chain(ends).min() else { break };
        now = next;
        let runs = |started: &[Option<i64>], at: usize| end(started, at).is_some_and(|end| end > now);
        let used = |started: &[Option<i64>]| -> u64 {
            (0..jobs.len()).filter(|at| runs(started, *at)).map(|at| jobs[at].procs).sum()
        };
        let waits = |started: &[Option<i64>], at: usize| jobs[at].submit <= now && started[at].is_none();
        // From the head while it fits.
        let head = loop {
            let Some(head) = (0..jobs.len()).find(|at| waits(&started, *at)) else { break None };
            if jobs[head].procs > procs - used(&started) {
                break Some(head);
            }
            started[head] = Some(now);
        };
        let Some(head) = head else { continue };
        // By estimates, when the head fits, and what is free then beside it.
        let free_at = |started: &[Option<i64>], time: i64| {
            let holds = |at: &usize| {
                runs(started, *at) && started[*at].is_some_and(|start| start + jobs[*at].estimate > time)
            };
            procs - (0..jobs.len()).filter(holds).map(|at| jobs[at].procs).sum::<u64>()
        };
        let mut times: Vec<i64> = (0..jobs.len())
            .filter(|at| runs(&started, *at))
            .filter_map(|at| started[at].map(|start| start + jobs[at].estimate))
            .collect();
        times.sort_unstable();
        let shadow = times.into_iter().find(|time| free_at(&started, *time) >= jobs[head].procs);
        let shadow = shadow.expect("the head fits once all have ended");
        let mut extra = free_at(&started, shadow) - jobs[head].procs;
        let mut rest: Vec<usize> = (0..jobs.len()).filter(|at| *at != head && waits(&started, *at)).collect();
        if shortest {
            rest.sort_by_key(|at| (jobs[*at].estimate, *at));
        }
        for at in rest {
            let job = &jobs[at];
            let in_time = now + job.estimate <= shadow;
            if job.procs <= procs - used(&started) && (in_time || job.procs <= extra) {
                started[at] = Some(now);
                if !in_time {
                    extra -= job.procs;
                }
            }
        }
    }
    started.into_iter().map(|start| start.expect("every job that fits into the machine starts")).collect()
}
