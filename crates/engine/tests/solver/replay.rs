//! Case B27: seven jobs in virtual time, a cycle after every event, in five modes.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_engine::solver::Estimates;
use landfall_model::{Backfill, BackfillOrder, BatchSettings, JobSpec, Millis, NodeCount, Time};

use super::support::{Run, Setting, groups, job_id, starts};

const JOBS: [(i64, u32, u64); 7] =
    [(0, 2, 200), (20, 3, 100), (30, 1, 40), (40, 3, 100), (50, 2, 120), (50, 1, 120), (50, 1, 80)];

/// When each job starts, and its first planned time.
fn replay(settings: BatchSettings) -> (Vec<i64>, Vec<Option<i64>>) {
    let mut setting = Setting::new(groups(&[4]));
    setting.settings = BatchSettings { preemption: false, ..settings };
    setting.estimates = Estimates::All;
    let mut started: BTreeMap<String, i64> = BTreeMap::new();
    let mut first: BTreeMap<String, i64> = BTreeMap::new();
    let mut events: std::collections::BTreeSet<i64> = JOBS.iter().map(|job| job.0).collect();
    while let Some(now) = events.pop_first() {
        setting.now = Time::from_secs(now);
        setting.running.retain(|run| run.ends_at > Some(setting.now));
        for (at, &(submit, nodes, walltime)) in JOBS.iter().enumerate() {
            if submit == now {
                let spec = JobSpec {
                    nodes: NodeCount { min: nodes, max: nodes },
                    walltime_ms: Millis::secs(walltime),
                    ..JobSpec::empty()
                };
                setting.waiting.push((job_id(&format!("j{}", at + 1)), Arc::new(spec)));
            }
        }
        let plan = setting.plan();
        assert!(plan.moved.is_empty(), "no reservation moves later");
        for start in starts(&plan) {
            let id = start.job.to_string();
            let place = setting.waiting.iter().position(|(job, _)| *job == start.job).unwrap();
            let (job, spec) = setting.waiting.remove(place);
            let ends_at = setting.now + spec.walltime_ms;
            let nodes = start.nodes.iter().map(ToString::to_string).collect();
            let run = Run {
                job,
                spec,
                nodes,
                shares: Vec::new(),
                started: setting.now,
                ends_at: Some(ends_at),
                expected_end: None,
                borrower: false,
            };
            setting.running.push(run);
            started.insert(id, now);
            events.insert(ends_at.as_millis() / 1000);
        }
        for wait in &plan.waiting {
            if let Some(at) = wait.planned_start {
                first.entry(wait.job.to_string()).or_insert(at.as_millis() / 1000);
            }
        }
        setting.reservations = plan.reservations;
    }
    let ids = || (1..=JOBS.len()).map(|at| format!("j{at}"));
    (ids().map(|id| started[&id]).collect(), ids().map(|id| first.get(&id).copied()).collect())
}

fn mode(backfill: Backfill) -> BatchSettings {
    BatchSettings { backfill, ..BatchSettings::default() }
}

#[test]
fn b27_five_modes() {
    let starts = |settings| replay(settings).0;
    assert_eq!(starts(mode(Backfill::Strict)), [0, 200, 200, 300, 400, 400, 400]);
    assert_eq!(starts(mode(Backfill::Greedy)), [0, 290, 30, 390, 170, 50, 70]);
    assert_eq!(starts(mode(Backfill::Easy)), [0, 200, 30, 300, 400, 50, 70]);
    let shortest = BatchSettings { backfill_order: BackfillOrder::Shortest, ..mode(Backfill::Easy) };
    assert_eq!(starts(shortest), [0, 200, 30, 300, 400, 70, 50]);
    assert_eq!(starts(mode(Backfill::Conservative)), [0, 200, 30, 300, 70, 190, 310]);
}

#[test]
fn b28_first_planned_times() {
    let planned = replay(mode(Backfill::Easy)).1;
    let want = [None, Some(200), None, Some(300), Some(400), None, Some(70)];
    assert_eq!(planned, want);
}
