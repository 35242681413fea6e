//! The life of nodes: silence, loss, return, quarantine, drain (batch-scheduling.md §18, fit-scoring.md §3).

use landfall_engine::input::{NodeOrder, Report, StartRefusal};
use landfall_engine::record::{Cause, JobState};
use landfall_engine::{Answer, Effect, Input};
use landfall_model::{Dispatch, Name, NodeState, PoolId};

use crate::support::{Cluster, job_id, node_id, pool};

fn batch(scenario: &str) -> Cluster {
    Cluster::new(pool(Dispatch::Batch, |_| {}), scenario)
}

const TWO: &str = r#"nodes = [{ id = "n", count = 2 }]"#;

fn state_of(cluster: &Cluster, node: &str) -> NodeState {
    cluster.engine.state().node(&node_id(node)).unwrap().0.state
}

fn beat(cluster: &mut Cluster, node: &str) -> Answer {
    cluster.step(Input::Heartbeat { node: node_id(node), heartbeat: Box::default(), running: Vec::new() })
}

#[test]
fn a_silent_node_is_unknown_then_down_and_its_job_runs_elsewhere() {
    let mut cluster = batch(TWO);
    cluster.running("j", r#"jobs = [{ id = "j" }]"#);
    let node = cluster.nodes_of("j").remove(0);
    let other = if node == "n-0" { "n-1" } else { "n-0" };
    for secs in (10..=120).step_by(10) {
        cluster.run_until(f64::from(secs));
        beat(&mut cluster, other);
        let want = if secs <= 30 { NodeState::Ready } else { NodeState::Unknown };
        assert_eq!(state_of(&cluster, &node), want, "at {secs}");
        assert_eq!(cluster.state("j"), JobState::Running);
    }
    let old = cluster.fence("j");
    cluster.run_until(126.0);
    assert_eq!(state_of(&cluster, &node), NodeState::Down);
    assert_eq!(cluster.nodes_of("j"), [other]);
    assert_eq!((cluster.record("j").requeues, cluster.record("j").attempt), (1, 2));
    // It comes back with the old attempt still running: that one is stopped by its fence.
    let heartbeat =
        Input::Heartbeat { node: node_id(&node), heartbeat: Box::default(), running: vec![old.clone()] };
    assert_eq!(cluster.refused(heartbeat), "rejoin");
    let (known, _) = cluster.engine.state().node(&node_id(&node)).unwrap();
    let join = Input::Join {
        pool: PoolId::new("p").unwrap(),
        node: Box::new(known.clone()),
        running: Some(vec![old.clone()]),
    };
    cluster.done(join);
    assert_eq!(state_of(&cluster, &node), NodeState::Ready);
    let stops = |effect: &Effect| matches!(effect, Effect::Stop { fence, .. } if *fence == old);
    assert!(cluster.effects().iter().any(stops));
    assert_eq!(cluster.state("j"), JobState::Staging, "the new attempt goes on");
}

#[test]
fn a_heartbeat_in_time_changes_nothing() {
    let mut cluster = batch(TWO);
    cluster.at(0.0);
    for secs in 1..20 {
        cluster.run_until(f64::from(secs * 30));
        beat(&mut cluster, "n-0");
        assert_eq!(state_of(&cluster, "n-0"), NodeState::Ready);
    }
    assert_eq!(state_of(&cluster, "n-1"), NodeState::Down);
}

#[test]
fn a_job_that_may_not_go_back_fails_with_its_node() {
    let mut cluster = batch(TWO);
    cluster.running("j", r#"jobs = [{ id = "j", requeue = "never", nodes = 2 }]"#);
    cluster.done(Input::Order { node: node_id("n-0"), order: NodeOrder::Leave });
    assert_eq!(cluster.state("j"), JobState::Failed);
    assert_eq!(cluster.record("j").ended.as_ref().unwrap().0, Cause::NodeLost);
    let stops = |effect: &Effect| matches!(effect, Effect::Stop { node, .. } if node.as_str() == "n-1");
    assert!(cluster.effects().iter().any(stops), "the other half is told to stop");
}

#[test]
fn a_draining_node_finishes_what_it_has() {
    let mut cluster = batch(TWO);
    cluster.running("j", r#"jobs = [{ id = "j" }]"#);
    let node = cluster.nodes_of("j").remove(0);
    cluster.done(Input::Order { node: node_id(&node), order: NodeOrder::Drain });
    assert_eq!(state_of(&cluster, &node), NodeState::Draining);
    cluster.exit("j", 0);
    assert_eq!(state_of(&cluster, &node), NodeState::Drained);
    cluster.done(Input::Order { node: node_id(&node), order: NodeOrder::Return });
    assert_eq!(state_of(&cluster, &node), NodeState::Ready);
}

#[test]
fn five_failed_starts_take_a_node_out_until_a_probe_is_good() {
    let policy = |pool: &mut landfall_model::Pool| pool.policy = Some(Name::new("bin-pack").unwrap());
    let nodes = r#"nodes = [{ id = "n", count = 10, cpu_milli = 1000, ram_mib = 1000 }]"#;
    let mut cluster = Cluster::new(pool(Dispatch::Push, policy), nodes);
    cluster.at(0.0);
    for attempt in 0..5 {
        let job = format!("j{attempt}");
        cluster.submit(&format!(r#"jobs = [{{ id = "{job}" }}]"#));
        let node = cluster.nodes_of(&job).remove(0);
        assert_eq!(node, "n-0", "the same node is the best each time");
        cluster.report(&job, &node, Report::Refused(StartRefusal::Failed));
        cluster.done(Input::Cancel(job_id(&job)));
        let cancelled = cluster.nodes_of(&job);
        for node in cancelled {
            cluster.report(&job, &node, Report::Stopped);
        }
    }
    assert_eq!(state_of(&cluster, "n-0"), NodeState::Degraded);
    cluster.submit(r#"jobs = [{ id = "after" }]"#);
    assert_eq!(cluster.nodes_of("after"), ["n-1"]);
    let mut at = 0.0;
    while at < 300.0 {
        at += 10.0;
        cluster.run_until(at);
        cluster.heartbeats();
    }
    cluster.done(Input::Probe { node: node_id("n-0"), good: true });
    assert_eq!(state_of(&cluster, "n-0"), NodeState::Ready);
    let (_, record) = cluster.engine.state().node(&node_id("n-0")).unwrap();
    assert_eq!(record.start_failures, 2, "the counter is halved");
}

#[test]
fn a_node_that_shrinks_under_its_jobs_loses_them() {
    let mut cluster =
        batch(r#"nodes = [{ id = "n", cpu_milli = 4000, ram_mib = 100, gpus = [{ count = 2 }] }]"#);
    cluster.running("j", r#"jobs = [{ id = "j", gpu_count = 2, cpu_milli = 4000 }]"#);
    let (known, _) = cluster.engine.state().node(&node_id("n")).unwrap();
    let mut smaller = known.clone();
    smaller.gpus.truncate(1);
    cluster.done(Input::Join { pool: PoolId::new("p").unwrap(), node: Box::new(smaller), running: None });
    assert_eq!(cluster.state("j"), JobState::Pending);
    let (node, _) = cluster.engine.state().node(&node_id("n")).unwrap();
    assert!(node.placements.is_empty() && node.gpus.len() == 1 && node.gpus[0].holder.is_none());
}

#[test]
fn a_worker_that_restarted_without_its_job_has_lost_it() {
    let mut cluster = batch(TWO);
    cluster.running("j", r#"jobs = [{ id = "j" }]"#);
    let node = cluster.nodes_of("j").remove(0);
    let (known, _) = cluster.engine.state().node(&node_id(&node)).unwrap();
    let same = known.clone();
    let fence = cluster.fence("j");
    let join =
        |running| Input::Join { pool: PoolId::new("p").unwrap(), node: Box::new(same.clone()), running };
    cluster.done(join(Some(vec![fence])));
    assert_eq!(cluster.state("j"), JobState::Running);
    cluster.done(join(Some(Vec::new())));
    assert_eq!(cluster.record("j").attempt, 2);
}
