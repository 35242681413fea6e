//! Runs made by hand, for tests.

use landfall_model::{JobId, Time};

use crate::run::{Capacity, CurvePoint, Ending, JobRun, Run, Span, TenantRun};

/// A job that was queued, started and ran, all in seconds.
pub(crate) fn job(name: &str, queued: i64, units: u64, start: i64, run: i64) -> JobRun {
    let run_ms = run.unsigned_abs() * 1000;
    JobRun {
        job: JobId::new(name).unwrap(),
        tenant: None,
        units,
        gpu_milli: 0,
        queued: Time::from_secs(queued),
        started: Some(Time::from_secs(start)),
        ended: Some(Time::from_secs(start + run)),
        run_ms,
        held_ms: run_ms,
        lost_ms: 0,
        first_estimate: None,
        qos_wait_ms: None,
        backfilled: false,
        preemptions: 0,
        ending: Ending::Completed,
    }
}

/// A job that waited in vain.
pub(crate) fn stuck(name: &str, queued: i64, units: u64, reason: &str) -> JobRun {
    JobRun {
        started: None,
        ended: None,
        held_ms: 0,
        ending: Ending::NeverStarted(reason.into()),
        ..job(name, queued, units, queued, 60)
    }
}

/// Jobs on a machine of so many processors.
pub(crate) fn machine(units: u64, jobs: Vec<JobRun>) -> Run {
    Run {
        trace: "by-hand".to_owned(),
        policy: "easy".to_owned(),
        unit: "nodes",
        capacity: vec![Capacity { from: Time::ZERO, units, gpu_milli: 0 }],
        counts: crate::run::Counts { starts: jobs.len() as u64, ..Default::default() },
        jobs,
        ..Run::default()
    }
}

/// The schedule of case B27 under `easy`: queued, nodes, run, tenant, start; and the first estimates of B28.
pub(crate) fn b28() -> Run {
    let rows = [
        ("j1", 0, 2, 200, 1, 0, None),
        ("j2", 20, 3, 100, 0, 200, Some(200)),
        ("j3", 30, 1, 40, 1, 30, None),
        ("j4", 40, 3, 100, 0, 300, Some(300)),
        ("j5", 50, 2, 120, 1, 400, Some(400)),
        ("j6", 50, 1, 120, 1, 50, None),
        ("j7", 50, 1, 80, 0, 70, Some(70)),
    ];
    let jobs = rows.map(|(name, queued, units, run, tenant, start, estimate)| JobRun {
        tenant: Some(tenant),
        qos_wait_ms: Some(60_000),
        first_estimate: estimate.map(Time::from_secs),
        backfilled: ["j3", "j6", "j7"].contains(&name),
        ..job(name, queued, units, start, run)
    });
    let nodes = [[0, 1, 9], [0, 1, 2], [2, 9, 9], [0, 1, 2], [0, 1, 9], [3, 9, 9], [2, 9, 9]];
    let spans = jobs
        .iter()
        .enumerate()
        .flat_map(|(place, job)| {
            nodes[place].into_iter().filter(|node| *node < 9).map(move |node| Span {
                job: place as u32,
                node,
                from: job.started.unwrap(),
                until: job.ended.unwrap(),
            })
        })
        .collect();
    let mut run = machine(4, jobs.into());
    run.counts.backfills = 3;
    run.tenants = ["a", "b"].map(|name| TenantRun { name: name.to_owned(), share: 0.5 }).into();
    run.nodes = (1..=4).map(|node| format!("n{node}")).collect();
    run.spans = spans;
    run
}

/// A packing run whose allocation levels off at `limit` per cent.
pub(crate) fn packing(policy: &str, seed: u64, limit: f64) -> Run {
    let curve = (0..=130)
        .map(|arrived| CurvePoint {
            arrived,
            allocation: f64::from(arrived).min(limit),
            fragmentation_ratio: f64::from(arrived).min(99.0),
            fragmentation: f64::from(arrived) / 20.0,
        })
        .collect();
    Run {
        trace: "pods".to_owned(),
        policy: policy.to_owned(),
        seed: Some(seed),
        unit: "nodes",
        curve,
        ..Run::default()
    }
}

/// A long run with everything in it: tenants, GPUs, restarts, jobs that never start. The same every time.
pub(crate) fn busy(policy: &str, seed: u64, jobs: i64) -> Run {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = move |below: i64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.unsigned_abs()) as i64
    };
    let rows = (0..jobs)
        .map(|place| {
            let name = format!("job-{place}");
            let queued = place * 40 + draw(30);
            let [wide, late, long] = [7, 16, 13].map(|powers| 1 << draw(powers));
            let units = 1 + draw(wide).unsigned_abs();
            if draw(50) == 0 {
                return stuck(&name, queued, units, "capacity");
            }
            let wait = if draw(3) == 0 { 0 } else { draw(2 * late) };
            let mut row = job(&name, queued, units, queued + wait, 1 + draw(2 * long));
            row.tenant = Some(draw(3) as u32);
            row.gpu_milli = 1000 * units;
            row.first_estimate = Some(Time::from_secs(queued + wait + draw(200) - 100));
            row.qos_wait_ms = (draw(2) == 0).then_some(600_000);
            if draw(20) == 0 {
                row.preemptions = 1;
                row.lost_ms = row.held_ms / 3;
            }
            row
        })
        .collect();
    let mut run = machine(4096, rows);
    run.capacity = vec![
        Capacity { from: Time::ZERO, units: 4096, gpu_milli: 4_096_000 },
        Capacity { from: Time::from_secs(jobs * 10), units: 3000, gpu_milli: 3_000_000 },
        Capacity { from: Time::from_secs(jobs * 20), units: 4096, gpu_milli: 4_096_000 },
    ];
    run.policy = policy.to_owned();
    run.seed = Some(seed);
    run.tenants = [("physics", 0.5), ("biology", 0.3), ("guests", 0.0)]
        .map(|(name, share)| TenantRun { name: name.to_owned(), share })
        .into();
    run.counts.passes = jobs.unsigned_abs() * 2;
    run.counts.decisions = jobs.unsigned_abs() * 9;
    run.counts.moved.insert("higher_class".to_owned(), 4);
    run
}
