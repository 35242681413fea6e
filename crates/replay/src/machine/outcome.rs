//! What came of a replayed log, as a [`Run`].

use std::collections::BTreeMap;

use landfall_model::{JobId, Millis, Time};
use serde::Serialize;

use super::Schedule;
use crate::decisions::Decisions;
use crate::run::{Capacity, Counts, Ending, JobRun, Run, TenantRun};
use crate::trace::batch::BatchJob;

/// A start as it is logged.
#[derive(Serialize)]
struct Decision {
    at_s: i64,
    job: i64,
    kind: &'static str,
    procs: u64,
}

/// Puts a schedule together with the jobs it is of. Users count as tenants without shares.
pub fn run_of(
    jobs: &[BatchJob],
    procs: u64,
    schedule: &Schedule,
    mut decisions: Decisions<'_>,
) -> std::io::Result<Run> {
    let mut users: Vec<i64> = jobs.iter().map(|job| job.user).collect();
    users.sort_unstable();
    users.dedup();
    for ticket in &schedule.order {
        let at = *ticket as usize;
        let kind = if schedule.backfilled[at] { "backfill" } else { "start" };
        let at_s = schedule.started[at].map_or(0, |start| start.as_millis() / 1000);
        decisions.note(&Decision { at_s, job: jobs[at].number, kind, procs: jobs[at].procs });
    }
    let first = jobs.first().map_or(0, |job| job.submit);
    let backfills = schedule.backfilled.iter().filter(|backfilled| **backfilled).count() as u64;
    let moved = (schedule.moved_later > 0).then(|| ("rebuilt".to_owned(), schedule.moved_later));
    Ok(Run {
        unit: "processors",
        unit_parts: 1,
        jobs: jobs.iter().enumerate().map(|(at, job)| job_run(job, at, &users, schedule)).collect(),
        tenants: users.iter().map(|user| TenantRun { name: format!("user {user}"), share: 0.0 }).collect(),
        capacity: vec![Capacity { from: Time::from_secs(first), units: procs, gpu_milli: 0 }],
        counts: Counts {
            starts: schedule.order.len() as u64,
            backfills,
            passes: schedule.passes,
            decisions: schedule.order.len() as u64,
            moved: moved.into_iter().collect::<BTreeMap<_, _>>(),
            ..Counts::default()
        },
        decisions_sha256: decisions.finish()?,
        ..Run::default()
    })
}

fn job_run(job: &BatchJob, at: usize, users: &[i64], schedule: &Schedule) -> JobRun {
    let run = Millis::secs(job.run.max(0) as u64);
    let started = schedule.started[at];
    JobRun {
        job: JobId::new(&job.number.to_string()).unwrap_or_else(|_| unreachable!("a number is an id")),
        tenant: users.binary_search(&job.user).ok().map(|place| place as u32),
        units: job.procs,
        gpu_milli: 0,
        queued: Time::from_secs(job.submit),
        started,
        ended: started.map(|start| start + run),
        run_ms: run.get(),
        held_ms: started.map_or(0, |_| run.get()),
        lost_ms: 0,
        first_estimate: schedule.promised[at],
        qos_wait_ms: None,
        backfilled: schedule.backfilled[at],
        preemptions: 0,
        ending: match started {
            Some(_) => Ending::Completed,
            None => Ending::NeverStarted("stopped".into()),
        },
    }
}
