//! Walltimes, lost nodes, drained nodes and jobs that never start.

use landfall_model::Time;
use landfall_replay::cluster::Change;
use landfall_replay::run::Ending;

use crate::world::{Row, arrival, engine, replay, starts};

const FIFO: &str = "order = \"fifo\"\ncycle_on_events = true";

fn row(id: &str, nodes: u32, walltime: u64, run: u64) -> Row<'_> {
    Row { id, submit: 0, nodes, walltime, run, user: 0, tenant: None, qos_wait: None }
}

#[test]
fn a_job_that_takes_longer_than_it_may_ends_at_its_walltime() {
    let run = replay(engine(1, FIFO, ""), vec![arrival(&row("long", 1, 100, 500))], Vec::new());
    assert_eq!(run.jobs[0].ending, Ending::Walltime);
    // What it did until then was delivered, and is its run as far as slowdowns are concerned.
    assert_eq!((run.jobs[0].held_ms, run.jobs[0].lost_ms, run.jobs[0].run_ms), (100_000, 0, 100_000));
}

#[test]
fn a_lost_node_sends_its_job_back_and_the_time_is_lost() {
    let node = engine(2, FIFO, "").state().pools.values().next().expect("a pool").nodes[0].clone();
    let changes = vec![
        (Time::from_secs(30), Change::Down(node.id.clone())),
        (Time::from_secs(70), Change::Up(Box::new(node))),
    ];
    let arrivals = vec![arrival(&row("pair", 2, 100, 50))];
    let run = replay(engine(2, FIFO, ""), arrivals, changes);
    let job = &run.jobs[0];
    assert_eq!((job.started, job.ended), (Some(Time::ZERO), Some(Time::from_secs(120))));
    assert_eq!((job.held_ms, job.lost_ms, run.counts.requeues), (80_000, 30_000, 1));
    let capacity: Vec<(i64, u64)> =
        run.capacity.iter().map(|there| (there.from.as_millis() / 1000, there.units / 1000)).collect();
    assert_eq!(capacity, [(0, 2), (30, 1), (70, 2)]);
}

#[test]
fn a_drained_node_takes_nothing_new() {
    let node = engine(2, FIFO, "").state().places.keys().next().expect("a node").clone();
    let drain = Change::Drain(node);
    let arrivals =
        vec![arrival(&row("a", 1, 50, 50)), arrival(&row("b", 1, 50, 50)), arrival(&row("c", 1, 50, 50))];
    let run = replay(engine(2, FIFO, ""), arrivals, vec![(Time::from_secs(10), drain)]);
    assert_eq!(starts(&run), [0, 0, 50]);
    assert!(run.jobs.iter().all(|job| job.ending == Ending::Completed));
}

#[test]
fn a_node_that_takes_work_again_keeps_what_runs_on_it() {
    let node = engine(1, FIFO, "").state().pools.values().next().expect("a pool").nodes[0].clone();
    let changes = vec![
        (Time::from_secs(10), Change::Drain(node.id.clone())),
        (Time::from_secs(20), Change::Up(Box::new(node))),
    ];
    let arrivals = vec![arrival(&row("long", 1, 100, 100))];
    let run = replay(engine(1, FIFO, ""), arrivals, changes);
    assert_eq!((run.jobs[0].ended, run.counts.requeues), (Some(Time::from_secs(100)), 0));
}

#[test]
fn a_job_that_never_ends_holds_its_node_and_the_replay_ends() {
    let mut endless = arrival(&row("endless", 1, 100, 100));
    endless.runs.last.run = None;
    let mut spec = (*endless.submission.job.spec).clone();
    spec.lifecycle = landfall_model::Lifecycle::Unbounded;
    endless.submission.job.spec = std::sync::Arc::new(spec);
    let run = replay(engine(1, FIFO, ""), vec![endless, arrival(&row("next", 1, 10, 10))], Vec::new());
    assert_eq!(run.jobs[0].ending, Ending::Failed("unfinished".into()));
    assert!(matches!(run.jobs[1].ending, Ending::NeverStarted(_)), "{:?}", run.jobs[1].ending);
}

#[test]
fn a_job_that_fits_nowhere_is_listed_with_its_reason() {
    let run = replay(engine(2, FIFO, ""), vec![arrival(&row("wide", 3, 10, 10))], Vec::new());
    assert_eq!(run.jobs[0].ending, Ending::NeverStarted("never_fits".into()));
}
