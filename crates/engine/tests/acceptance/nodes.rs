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

fn ten_nodes() -> Cluster {
    let policy = |pool: &mut landfall_model::Pool| pool.policy = Some(Name::new("bin-pack").unwrap());
    let nodes = r#"nodes = [{ id = "n", count = 10, cpu_milli = 1000, ram_mib = 1000 }]"#;
    let mut cluster = Cluster::new(pool(Dispatch::Push, policy), nodes);
    cluster.at(0.0);
    cluster
}

fn fail_five_starts(cluster: &mut Cluster, on: &str) {
    for attempt in 0..5 {
        let job = format!("j{attempt}");
        cluster.submit(&format!(r#"jobs = [{{ id = "{job}" }}]"#));
        let node = cluster.nodes_of(&job).remove(0);
        assert_eq!(node, on, "the same node is the best each time");
        cluster.report(&job, &node, Report::Refused(StartRefusal::Failed));
        cluster.done(Input::Cancel(job_id(&job)));
        let cancelled = cluster.nodes_of(&job);
        for node in cancelled {
            cluster.report(&job, &node, Report::Stopped);
        }
    }
}

#[test]
fn a_node_that_a_probe_found_ill_is_not_well_after_a_silence() {
    let join = |cluster: &mut Cluster| {
        let (node, _) = cluster.engine.state().node(&node_id("n-0")).unwrap();
        let (pool, node) = (node.pool.clone().unwrap(), Box::new(node.clone()));
        cluster.done(Input::Join { pool, node, running: None });
    };
    let hear = |cluster: &mut Cluster| assert_eq!(beat(cluster, "n-0"), Answer::Done);
    for heard in [hear as fn(&mut Cluster), join] {
        let mut cluster = batch(TWO);
        cluster.at(0.0).done(Input::Probe { node: node_id("n-0"), good: false });
        cluster.run_until(40.0);
        assert_eq!(state_of(&cluster, "n-0"), NodeState::Unknown);
        heard(&mut cluster);
        assert_eq!(state_of(&cluster, "n-0"), NodeState::Degraded);
        cluster.done(Input::Probe { node: node_id("n-0"), good: true });
        cluster.run_until(80.0);
        heard(&mut cluster);
        assert_eq!(state_of(&cluster, "n-0"), NodeState::Ready);
    }
}

#[test]
fn nodes_that_left_for_good_do_not_count() {
    let leave = |cluster: &mut Cluster| {
        for node in 4..10 {
            let node = node_id(&format!("n-{node}"));
            cluster.done(Input::Order { node, order: NodeOrder::Leave });
        }
    };
    let mut cluster = ten_nodes();
    leave(&mut cluster);
    cluster.done(Input::Probe { node: node_id("n-0"), good: false });
    fail_five_starts(&mut cluster, "n-1");
    assert_eq!(state_of(&cluster, "n-1"), NodeState::Ready, "two of four: the jobs are the likelier fault");

    let mut cluster = batch(r#"nodes = [{ id = "n", count = 10, cpu_milli = 1000 }]"#);
    let lendable = |cluster: &Cluster| {
        let state = cluster.engine.state();
        state.lendable(state.pools.values().next().unwrap())
    };
    assert_eq!(lendable(&cluster), 2);
    leave(&mut cluster);
    assert_eq!(lendable(&cluster), 0, "a fifth of four is none");
}

#[test]
fn five_failed_starts_take_a_node_out_until_a_probe_is_good() {
    let mut cluster = ten_nodes();
    fail_five_starts(&mut cluster, "n-0");
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

#[test]
fn silence_counts_from_when_somebody_listened() {
    // Away for half an hour, then a new server, the same one after a pause, or one that read its journal back.
    let takes_over = |cluster: &mut Cluster| cluster.done(Input::TakeOver);
    let listens = |cluster: &mut Cluster| cluster.done(Input::Listen);
    let ways: [&dyn Fn(&mut Cluster); 2] = [&takes_over, &listens];
    for way in ways {
        let mut cluster = batch(TWO);
        cluster.running("j", r#"jobs = [{ id = "j" }]"#);
        let node = cluster.nodes_of("j").remove(0);
        cluster.at(1800.0);
        way(&mut cluster);
        cluster.run_until(1830.0);
        assert_eq!(state_of(&cluster, &node), NodeState::Ready, "it has all the time again");
        cluster.run_until(1831.0);
        assert_eq!(state_of(&cluster, &node), NodeState::Unknown);
        cluster.run_until(1920.0);
        assert_eq!((state_of(&cluster, &node), cluster.state("j")), (NodeState::Unknown, JobState::Running));
        cluster.run_until(1921.0);
        assert_eq!((state_of(&cluster, &node), cluster.record("j").attempt), (NodeState::Down, 2));
    }
}

#[test]
fn what_ended_while_nobody_listened_is_heard_before_its_time_is_over() {
    let mut cluster = batch(TWO);
    cluster.running("j", r#"jobs = [{ id = "j", walltime_ms = "10min" }]"#);
    cluster.at(7200.0);
    cluster.done(Input::TakeOver);
    cluster.run_until(7229.0);
    assert_eq!(cluster.state("j"), JobState::Running);
    cluster.exit("j", 0);
    assert_eq!(cluster.state("j"), JobState::Completed);
    // Whoever says nothing is over its time all the same.
    let mut cluster = batch(TWO);
    cluster.running("j", r#"jobs = [{ id = "j", walltime_ms = "10min" }]"#);
    cluster.at(7200.0);
    cluster.done(Input::TakeOver);
    cluster.run_until(7231.0);
    assert_eq!(cluster.state("j"), JobState::Stopping);
}

#[test]
fn an_unanswered_start_is_not_given_up_because_of_a_pause() {
    let mut cluster = batch(TWO);
    cluster.at(0.0);
    cluster.submit(r#"jobs = [{ id = "j" }]"#);
    cluster.run_until(0.5);
    assert_eq!(cluster.state("j"), JobState::Staging);
    cluster.at(600.0);
    cluster.done(Input::TakeOver);
    cluster.run_until(600.5);
    assert_eq!((cluster.state("j"), cluster.record("j").attempt), (JobState::Staging, 1));
    assert_eq!(cluster.record("j").run.as_ref().unwrap().sends, 1);
    cluster.start("j");
    assert_eq!(cluster.state("j"), JobState::Running);
}

#[test]
fn a_start_that_its_node_names_is_not_given_up() {
    let mut cluster = batch(TWO);
    cluster.submit(r#"jobs = [{ id = "j" }]"#);
    cluster.run_until(0.5);
    let node = cluster.nodes_of("j").remove(0);
    let fence = cluster.engine.state().fence(cluster.record("j"));
    // Its report that it began is lost again and again; its heartbeats are not.
    for secs in (2..40).step_by(2) {
        cluster.run_until(f64::from(secs));
        let (node, running) = (node_id(&node), vec![fence.clone()]);
        cluster.step(Input::Heartbeat { node, heartbeat: Box::default(), running });
        assert_eq!((cluster.state("j"), cluster.record("j").attempt), (JobState::Staging, 1), "{secs} s");
    }
    // When it no longer names it, the start is given up.
    cluster.run_until(40.0);
    beat(&mut cluster, &node);
    cluster.run_until(60.0);
    assert!(cluster.state("j") == JobState::Pending || cluster.record("j").attempt > 1);
}

#[test]
fn a_start_is_not_given_up_while_its_answer_may_stand_in_line() {
    let mut cluster = batch(TWO);
    cluster.at(0.0).submit(r#"jobs = [{ id = "j" }]"#);
    cluster.run_until(0.0);
    // A disk that takes three seconds for each commit.
    for secs in (3..40).step_by(3) {
        cluster.run_until(f64::from(secs));
        cluster.done(Input::Stalled);
        assert_eq!((cluster.state("j"), cluster.record("j").attempt), (JobState::Staging, 1), "{secs} s");
    }
    assert_eq!(cluster.record("j").run.as_ref().unwrap().sends, 4, "it went out as often as ever");
    cluster.run_until(48.0);
    assert_eq!(cluster.record("j").attempt, 1);
    cluster.run_until(49.0);
    assert_eq!(cluster.record("j").attempt, 2, "ten seconds after the last of them");
}

#[test]
fn times_of_silence_are_settings_of_the_pool() {
    use landfall_model::Millis;
    let set = |pool: &mut landfall_model::Pool| {
        let silence = &mut pool.silence;
        (silence.node_unknown_after_ms, silence.node_down_after_ms) = (Millis::secs(3), Millis::secs(5));
        silence.requeue_after_ms = Millis::secs(40);
    };
    let mut cluster = Cluster::new(pool(Dispatch::Batch, set), TWO);
    cluster.running("j", r#"jobs = [{ id = "j" }]"#);
    let busy = cluster.nodes_of("j").remove(0);
    let idle = if busy == "n-0" { "n-1" } else { "n-0" };
    for (secs, expected) in [
        (3.0, (NodeState::Ready, NodeState::Ready)),
        (4.0, (NodeState::Unknown, NodeState::Unknown)),
        (6.0, (NodeState::Unknown, NodeState::Down)),
        (40.0, (NodeState::Unknown, NodeState::Down)),
        (41.0, (NodeState::Down, NodeState::Down)),
    ] {
        cluster.run_until(secs);
        assert_eq!((state_of(&cluster, &busy), state_of(&cluster, idle)), expected, "at {secs}");
    }
}

#[test]
fn when_many_nodes_fall_silent_a_few_are_given_up_per_minute() {
    let down = |cluster: &Cluster| {
        let nodes = &cluster.engine.state().pools.values().next().unwrap().nodes;
        nodes.iter().filter(|node| node.state == NodeState::Down).count()
    };
    let mut cluster = batch(r#"nodes = [{ id = "n", count = 10, cpu_milli = 1000 }]"#);
    cluster.at(0.0);
    for number in 0..10 {
        cluster.submit(&format!(r#"jobs = [{{ id = "j{number}", cpu_milli = 1000 }}]"#));
    }
    cluster.run_until(5.0);
    for number in 0..10 {
        cluster.start(&format!("j{number}"));
    }
    let limited = |cluster: &Cluster| cluster.engine.state().pools.values().next().unwrap().requeue_limited;
    let pool_id = PoolId::new("p").unwrap();
    for (secs, gone) in [(120.0, 0), (121.0, 2), (180.0, 2), (182.0, 4), (243.0, 6)] {
        cluster.run_until(secs);
        assert_eq!(down(&cluster), gone, "at {secs}");
        assert_eq!(limited(&cluster), gone > 0);
        assert_eq!(cluster.engine.overdue(&pool_id), if gone == 0 { 0 } else { 10 - gone as u64 });
        let alarm = |effect: &Effect| {
            matches!(effect, Effect::Alert(landfall_engine::Alert::RequeueLimited { waiting: 8, .. }))
        };
        assert_eq!(cluster.effects().iter().any(alarm), gone == 2 && secs < 180.0, "said once, at {secs}");
    }
    // The network is back: the others run on, and all is well.
    for number in 0..10 {
        beat(&mut cluster, &format!("n-{number}"));
    }
    assert!(!limited(&cluster));
    let attempts = (0..10).filter(|number| cluster.record(&format!("j{number}")).attempt == 1).count();
    assert_eq!(attempts, 4, "those that were not given up run on");
}

#[test]
fn a_heartbeat_that_changes_nothing_is_no_event() {
    use landfall_engine::heartbeat::Heartbeat;
    use landfall_model::Mib;
    let mut cluster = batch(r#"nodes = [{ id = "n", ram_mib = 32000 }]"#);
    cluster.at(0.0);
    let events = |cluster: &mut Cluster, ram: u64| {
        let heartbeat =
            Heartbeat { ram_used: Some(Mib::new(ram)), accepting: Some(true), ..Heartbeat::default() };
        cluster.tick();
        let (now, node) = (cluster.engine.now(), node_id("n"));
        let input = Input::Heartbeat { node, heartbeat: Box::new(heartbeat), running: Vec::new() };
        cluster.engine.step(now, input).events.len()
    };
    assert_eq!(events(&mut cluster, 1000), 1, "it is in touch, and what it uses was not known");
    for _ in 0..3 {
        assert_eq!(events(&mut cluster, 1000), 0);
    }
    assert_eq!(events(&mut cluster, 1000 + 7000), 0, "a little more");
    assert_eq!(events(&mut cluster, 1000 + 9000), 1, "much more");
    cluster.run_until(20.0);
    beat(&mut cluster, "n");
    cluster.run_until(40.0);
    beat(&mut cluster, "n");
    cluster.run_until(60.0);
    assert_eq!(events(&mut cluster, 10_000 + 900), 0);
    assert_eq!(events(&mut cluster, 10_000 + 1100), 1, "a little more, once a minute");
    assert_eq!(events(&mut cluster, 10_000 + 3000), 0);
    let heard = cluster.engine.heard_at(&node_id("n"));
    assert_eq!(heard, Some(cluster.engine.now()), "but it was heard");
    cluster.run_until(89.0);
    assert_eq!(state_of(&cluster, "n"), NodeState::Ready);
}

#[test]
fn what_became_due_while_nobody_listened_happens() {
    let mut cluster = batch(TWO);
    cluster.at(0.0);
    let mut later = Cluster::jobs(r#"jobs = [{ id = "j" }]"#);
    later[0].not_before = Some(landfall_model::Time::from_secs(100));
    cluster.done(Input::Submit(later));
    cluster.at(600.0);
    cluster.done(Input::TakeOver);
    for node in ["n-0", "n-1"] {
        beat(&mut cluster, node);
    }
    cluster.run_until(610.0);
    assert_eq!(cluster.state("j"), JobState::Staging);
}

#[test]
fn load_counts_from_when_it_was_last_remembered() {
    use landfall_engine::heartbeat::Heartbeat;
    use landfall_model::{Metrics, WorkloadId};
    let mut cluster = Cluster::new(pool(Dispatch::Pull, |_| {}), r#"nodes = [{ id = "n", ram_mib = 1000 }]"#);
    // Something else is news with every heartbeat.
    for (secs, cpu_pct, remembered) in [
        (0, 10.0, 10.0),
        (20, 20.0, 10.0),
        (40, 20.0, 10.0),
        (59, 20.0, 10.0),
        (60, 20.0, 20.0),
        (70, 40.0, 20.0),
        (80, 46.0, 20.0),
        (90, 86.0, 86.0),
        (100, 89.5, 86.0),
        (110, 91.0, 91.0),
        (120, 99.0, 91.0),
    ] {
        cluster.run_until(f64::from(secs));
        let metrics = Some(Metrics { cpu_usage_pct: Some(cpu_pct), ..Metrics::default() });
        let cache = Some([WorkloadId::new(&format!("w{secs}")).unwrap()].into());
        let heartbeat = Box::new(Heartbeat { metrics, cache, ..Heartbeat::default() });
        cluster.done(Input::Heartbeat { node: node_id("n"), heartbeat, running: Vec::new() });
        let (node, _) = cluster.engine.state().node(&node_id("n")).unwrap();
        assert_eq!(node.metrics.unwrap().cpu_usage_pct, Some(remembered), "at {secs}");
    }
}

#[test]
fn a_node_that_loses_a_job_did_wrong() {
    let record = |cluster: &Cluster, node: &str| {
        let (node, record) = cluster.engine.state().node(&node_id(node)).unwrap();
        (node.karma, record.faults, record.start_failures, node.cooldown_until.is_some())
    };
    let wrong = (-1, 1, 0, true);
    let right = (0, 0, 0, false);
    let mut cluster = batch(TWO);
    cluster.running("j", r#"jobs = [{ id = "j" }]"#);
    let busy = cluster.nodes_of("j").remove(0);
    cluster.run_until(121.0);
    for node in ["n-0", "n-1"] {
        assert_eq!(state_of(&cluster, node), NodeState::Down);
        assert_eq!(record(&cluster, node), if node == busy { wrong } else { right }, "{node}");
    }
    // One that an operator takes out did nothing wrong, nor did one that stops a job because the job wants that.
    for (asks, leaves, expected) in
        [("", false, wrong), (", on_disconnect = 'stop'", false, right), ("", true, right)]
    {
        let mut cluster = batch(TWO);
        cluster.running("j", &format!(r#"jobs = [{{ id = "j"{asks} }}]"#));
        let node = cluster.nodes_of("j").remove(0);
        if leaves {
            cluster.done(Input::Order { node: node_id(&node), order: NodeOrder::Leave });
        } else {
            assert_eq!(cluster.report("j", &node, Report::Stopped), Answer::Done);
        }
        assert_eq!(record(&cluster, &node), expected, "{asks}");
    }
    // All that it loses at once is one mishap.
    let policy = |pool: &mut landfall_model::Pool| pool.policy = Some(Name::new("bin-pack").unwrap());
    let nodes = r#"nodes = [{ id = "n", cpu_milli = 2000 }]"#;
    let mut cluster = Cluster::new(pool(Dispatch::Push, policy), nodes);
    cluster.at(0.0);
    for job in ["j", "k"] {
        cluster.submit(&format!(r#"jobs = [{{ id = "{job}", cpu_milli = 1000 }}]"#));
        cluster.start(job);
    }
    for job in ["j", "k"] {
        assert_eq!(cluster.report(job, "n", Report::Stopped), Answer::Done);
    }
    assert_eq!(record(&cluster, "n"), wrong);
    // One that was asked to stop it did nothing wrong.
    let mut cluster = batch(TWO);
    cluster.running("j", r#"jobs = [{ id = "j" }]"#);
    let node = cluster.nodes_of("j").remove(0);
    cluster.done(Input::Cancel(job_id("j")));
    cluster.report("j", &node, Report::Stopped);
    assert_eq!(record(&cluster, &node), right);
}

#[test]
fn a_pool_takes_no_job_that_it_would_start_beside_itself() {
    let job = |id: &str, asks: &str| {
        let text = format!(r#"jobs = [{{ id = "{id}", on_disconnect = "stop"{asks} }}]"#);
        Input::Submit(Cluster::jobs(&text))
    };
    let set = |secs| {
        let pool =
            pool(Dispatch::Batch, |pool| pool.silence.requeue_after_ms = landfall_model::Millis::secs(secs));
        Input::SetPool { pool: Box::new(pool), policy: None }
    };
    let mut cluster = batch(TWO);
    assert_eq!(cluster.refused(job("late", ", disconnect_stop_after_ms = 110000")), "stops_too_late");
    cluster.done(job("usual", ""));
    assert_eq!(cluster.refused(set(100)), "stops_too_late");
    cluster.done(set(105));
    cluster.done(Input::Cancel(job_id("usual")));
    cluster.done(set(100));
    assert_eq!(cluster.refused(job("now", "")), "stops_too_late");
}
