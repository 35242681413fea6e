//! Acceptance cases B27 and B28 of batch scheduling through the whole engine.

use landfall_replay::run::Run;

use crate::world::{ON_EVENTS, Row, arrival, engine, replay, starts};

const TENANTS: &str = "[[tenants]]\nid = \"a\"\nshare = 0.5\n[[tenants]]\nid = \"b\"\nshare = 0.5\n";

fn seven(batch: &str, cycles: &str) -> Run {
    let rows = [
        ("j1", 0, 2, 200, "b"),
        ("j2", 20, 3, 100, "a"),
        ("j3", 30, 1, 40, "b"),
        ("j4", 40, 3, 100, "a"),
        ("j5", 50, 2, 120, "b"),
        ("j6", 50, 1, 120, "b"),
        ("j7", 50, 1, 80, "a"),
    ];
    let arrivals = rows.iter().map(|&(id, submit, nodes, run, tenant)| {
        arrival(&Row {
            id,
            submit,
            nodes,
            walltime: run,
            run,
            user: 0,
            tenant: Some(tenant),
            qos_wait: Some(60),
        })
    });
    let settings = format!("order = \"fifo\"\npreemption = false\n{cycles}{batch}");
    replay(engine(4, &settings, TENANTS), arrivals.collect(), Vec::new())
}

#[test]
fn b27_starts_of_seven_jobs_in_every_mode() {
    let table = [
        ("backfill = \"strict\"", [0, 200, 200, 300, 400, 400, 400]),
        ("backfill = \"greedy\"", [0, 290, 30, 390, 170, 50, 70]),
        ("backfill = \"easy\"", [0, 200, 30, 300, 400, 50, 70]),
        ("backfill = \"easy\"\nbackfill_order = \"shortest\"", [0, 200, 30, 300, 400, 70, 50]),
        ("backfill = \"conservative\"", [0, 200, 30, 300, 70, 190, 310]),
    ];
    for (batch, expected) in table {
        assert_eq!(starts(&seven(batch, ON_EVENTS)), expected, "{batch}");
        assert_eq!(starts(&seven(batch, "")), expected, "{batch}, every five seconds");
    }
}

#[test]
fn b28_first_estimates_and_counts() {
    let run = seven("backfill = \"easy\"", ON_EVENTS);
    let estimates: Vec<Option<i64>> =
        run.jobs.iter().map(|job| job.first_estimate.map(|at| at.as_millis() / 1000)).collect();
    assert_eq!(estimates, [None, Some(200), None, Some(300), Some(400), None, Some(70)]);
    assert_eq!((run.counts.starts, run.counts.backfills), (7, 3));
    assert_eq!(
        run.jobs.iter().map(|job| job.held_ms / 1000).collect::<Vec<_>>(),
        [200, 100, 40, 100, 120, 120, 80]
    );
}

#[test]
fn b29_two_runs_give_the_same_bytes() {
    let easy = || seven("backfill = \"easy\"", ON_EVENTS);
    assert_eq!(easy(), easy());
    assert_eq!(easy().decisions_sha256.len(), 64);
    assert_ne!(easy().decisions_sha256, seven("backfill = \"strict\"", ON_EVENTS).decisions_sha256);
}
