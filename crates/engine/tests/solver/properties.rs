//! Promises that hold for every pool, tried on pools drawn from a seed.

use std::collections::{BTreeMap, BTreeSet};

use landfall_engine::solver::Plan;
use landfall_model::{Backfill, BatchSettings, Caps, JobSpec, Millis, NodeCount, NodePower, Time};

use landfall_testkit::Rng;

use super::support::{Run, Setting, groups, job_id, starts};

/// Draws that share nothing with those of neighbouring seeds.
pub(crate) fn draws(seed: u64) -> Rng {
    Rng::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
}

/// A pool in which some work runs and some waits.
pub(crate) fn draw(seed: u64) -> Setting {
    let mut draws = draws(seed);
    let sizes: Vec<usize> = (0..1 + draws.below(3)).map(|_| 1 + draws.below(4) as usize).collect();
    let mut setting = Setting::new(groups(&sizes));
    let modes = [Backfill::Easy, Backfill::Easy, Backfill::Conservative];
    setting.settings = BatchSettings {
        backfill: modes[draws.below(3) as usize],
        depth: 1 + draws.below(3) as u32,
        preemption: false,
        ..BatchSettings::default()
    };
    if draws.below(3) == 0 {
        for node in &mut setting.nodes {
            let extra = 100 * (1 + draws.below(3));
            node.power = Some(NodePower { idle_w: 50, busy_w: 50 + extra });
        }
        setting.caps = Caps { power_w: Some(300 + draws.below(10) * 100), io_bytes_s: Some(10) };
    }
    let all = setting.nodes.len() as u64;
    let mut free: Vec<String> = setting.nodes.iter().map(|node| node.id.to_string()).collect();
    for at in 0..draws.below(3) {
        let count = 1 + draws.below(2) as usize;
        if free.len() > count {
            let nodes = free.split_off(free.len() - count);
            let ends_at = Some(Time::from_secs(10 * (1 + draws.below(30) as i64)));
            let spec = JobSpec { walltime_ms: Millis::secs(7500), ..JobSpec::empty() };
            setting.running.push(Run {
                job: job_id(&format!("r{at}")),
                spec: spec.into(),
                nodes,
                shares: Vec::new(),
                started: Time::from_secs(-7200),
                ends_at,
                expected_end: None,
                borrower: false,
            });
        }
    }
    for at in 0..2 + draws.below(8) {
        let count = 1 + draws.below(all) as u32;
        let spec = JobSpec {
            nodes: NodeCount { min: count, max: count },
            walltime_ms: Millis::secs(10 * (1 + draws.below(40))),
            class: 5,
            io_bytes_s: landfall_model::Bytes::new(draws.below(4)),
            max_span: (draws.below(5) == 0).then_some(1 + draws.below(2) as u32),
            ..JobSpec::empty()
        };
        setting.wait(&format!("j{at:02}"), spec);
    }
    setting
}

/// Lets a plan happen, with every job as long as its walltime, until nothing is left; gives back each reservation's
/// promise together with what came of it.
fn forward(
    setting: &mut Setting,
    mut check: impl FnMut(&Setting, &Plan),
) -> (BTreeMap<String, i64>, BTreeMap<String, i64>) {
    let (mut promised, mut started) = (BTreeMap::new(), BTreeMap::new());
    let mut events: BTreeSet<i64> =
        setting.running.iter().filter_map(|run| Some(run.ends_at?.as_millis())).collect();
    events.insert(0);
    while let Some(now) = events.pop_first() {
        setting.now = Time::from_millis(now);
        let (ended, running): (Vec<Run>, Vec<Run>) =
            setting.running.drain(..).partition(|run| run.ends_at <= Some(setting.now));
        setting.running = running;
        for run in ended {
            release(setting, &run);
        }
        let plan = setting.plan();
        check(setting, &plan);
        for start in starts(&plan) {
            let place = setting.waiting.iter().position(|(job, _)| *job == start.job).unwrap();
            let (job, spec) = setting.waiting.remove(place);
            let ends_at = setting.now + spec.walltime_ms;
            started.insert(job.to_string(), now);
            events.insert(ends_at.as_millis());
            let nodes = start.nodes.iter().map(ToString::to_string).collect();
            if let Some(power) = &mut setting.caps.power_w {
                *power -= start.value.extra_power_w;
            }
            if let Some(io) = &mut setting.caps.io_bytes_s {
                *io -= spec.io_bytes_s.get();
            }
            setting.running.push(Run {
                job,
                spec,
                nodes,
                shares: Vec::new(),
                started: setting.now,
                ends_at: Some(ends_at),
                expected_end: None,
                borrower: false,
            });
        }
        for reservation in &plan.reservations {
            promised.entry(reservation.job.to_string()).or_insert(reservation.start.as_millis());
            events.insert(reservation.start.as_millis());
        }
        setting.reservations = plan.reservations;
    }
    (promised, started)
}

fn release(setting: &mut Setting, run: &Run) {
    let extra = |id: &String| {
        let node = setting.nodes.iter().find(|node| node.id.as_str() == id).unwrap();
        node.power.map_or(0, |power| power.busy_w - power.idle_w)
    };
    let watts: u64 = run.nodes.iter().map(extra).sum();
    if let Some(power) = &mut setting.caps.power_w {
        *power += watts;
    }
    if let Some(io) = &mut setting.caps.io_bytes_s {
        *io += run.spec.io_bytes_s.get();
    }
}

const SEEDS: std::ops::Range<u64> = 0..400;

/// How many seeds show a job that started after its promise.
fn delays(ignore_reservations: bool) -> Vec<(u64, String)> {
    let mut late = Vec::new();
    for seed in SEEDS {
        let mut setting = draw(seed);
        setting.ignore_reservations = ignore_reservations;
        let (promised, started) = forward(&mut setting, |_, _| {});
        for (job, at) in promised {
            if started.get(&job).is_none_or(|&start| start > at) {
                late.push((seed, job));
            }
        }
    }
    late
}

#[test]
fn a_backfilled_job_never_delays_a_reservation() {
    assert_eq!(delays(false), [], "seed and job");
}

#[cfg(feature = "mutations")]
#[test]
fn a_walk_that_ignores_reservations_is_noticed() {
    assert!(!delays(true).is_empty());
}

#[test]
fn no_node_is_given_twice_in_a_plan() {
    for seed in SEEDS {
        forward(&mut draw(seed), |setting, plan| {
            let mut taken: BTreeSet<&str> =
                setting.running.iter().flat_map(|run| &run.nodes).map(String::as_str).collect();
            for start in starts(plan) {
                let (_, spec) = setting.waiting.iter().find(|(job, _)| *job == start.job).unwrap();
                assert_eq!(start.nodes.len(), spec.nodes.min as usize, "seed {seed}");
                for node in &start.nodes {
                    assert!(taken.insert(node.as_str()), "seed {seed}: {node} twice");
                }
            }
        });
    }
}

#[test]
fn caps_hold_at_every_instant() {
    for seed in SEEDS {
        forward(&mut draw(seed), |setting, plan| {
            let watts: u64 = starts(plan).iter().map(|start| start.value.extra_power_w).sum();
            assert!(setting.caps.power_w.is_none_or(|room| watts <= room), "seed {seed}");
            let io = |start: &&&landfall_engine::solver::Start| {
                let (_, spec) = setting.waiting.iter().find(|(job, _)| *job == start.job).unwrap();
                spec.io_bytes_s.get()
            };
            let io: u64 = starts(plan).iter().map(|start| io(&start)).sum();
            assert!(setting.caps.io_bytes_s.is_none_or(|room| io <= room), "seed {seed}");
            for start in starts(plan) {
                let (_, spec) = setting.waiting.iter().find(|(job, _)| *job == start.job).unwrap();
                assert!(spec.max_span.is_none_or(|most| start.value.span <= most), "seed {seed}");
            }
        });
    }
}

#[test]
fn the_same_question_has_the_same_answer() {
    for seed in 0..50 {
        assert_eq!(draw(seed).plan(), draw(seed).plan(), "seed {seed}");
    }
}
