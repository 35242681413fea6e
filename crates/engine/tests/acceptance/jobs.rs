//! The life of a job in a batch pool: dependencies, quotas, locks, walltime, checkpoints (batch-scheduling.md §10–§18).

use landfall_engine::dag::{Edge, EdgeKind, Element, Join};
use landfall_engine::input::{NodeOrder, Report, RunUsage, StartRefusal, Submission};
use landfall_engine::record::{Cause, JobState};
use landfall_engine::{Answer, Effect, Event, Input};
use landfall_model::reason::Reason;
use landfall_model::scenario::{Format, parse};
use landfall_model::{Bytes, Dispatch, Millis, PoolId, QuotaOnSubmit, Time, Usage};

use crate::support::{Cluster, job_id, node_id, pool};

fn batch(scenario: &str) -> Cluster {
    Cluster::new(pool(Dispatch::Batch, |_| {}), scenario)
}

const FOUR: &str = r#"nodes = [{ id = "n", count = 4, cpu_milli = 1000, ram_mib = 1000 }]"#;

fn job(id: &str, more: &str) -> Submission {
    Cluster::jobs(&format!(r#"jobs = [{{ id = "{id}", {more} }}]"#)).remove(0)
}

fn after(id: &str, on: &[(&str, EdgeKind)], join: Join) -> Submission {
    let mut submission = job(id, "nodes = 1");
    submission.edges = on.iter().map(|&(on, kind)| Edge { on: job_id(on), kind }).collect();
    submission.join = join;
    submission
}

/// Places what can be placed and lets all nodes say that it runs.
fn run(cluster: &mut Cluster, job: &str) {
    let until = cluster.now.as_millis() as f64 / 1000.0 + 5.0;
    cluster.heartbeats();
    cluster.run_until(until);
    cluster.start(job);
}

#[test]
fn b41_failure_cancels_the_whole_chain_in_one_step() {
    let mut cluster = batch(FOUR);
    let chain = vec![
        job("a", "nodes = 1"),
        after("b", &[("a", EdgeKind::Success)], Join::All),
        after("c", &[("b", EdgeKind::Success)], Join::All),
    ];
    cluster.at(0.0).done(Input::Submit(chain));
    run(&mut cluster, "a");
    assert_eq!((cluster.state("b"), cluster.state("c")), (JobState::Pending, JobState::Pending));
    cluster.exit("a", 1);
    assert_eq!(cluster.state("a"), JobState::Failed);
    for job in ["b", "c"] {
        assert_eq!(cluster.state(job), JobState::Cancelled);
        let cause = &cluster.record(job).ended.as_ref().unwrap().0;
        assert!(matches!(cause, Cause::DependencyUnsatisfiable { on_failure: false, .. }), "{cause:?}");
    }
}

#[test]
fn b42_failure_edges_and_joins() {
    let start = |join| {
        let mut cluster = batch(FOUR);
        let edges = [("a", EdgeKind::Failure), ("b", EdgeKind::Failure)];
        let jobs = vec![job("a", "nodes = 1"), job("b", "nodes = 1"), after("h", &edges, join)];
        cluster.at(0.0).done(Input::Submit(jobs));
        cluster.heartbeats();
        cluster.run_until(5.0);
        cluster.start("a");
        cluster.start("b");
        cluster
    };
    let mut any = start(Join::Any);
    any.exit("a", 1);
    assert!(any.record("h").is_queued(), "one failure is enough while b runs");
    let mut any = start(Join::Any);
    any.exit("a", 0);
    assert_eq!(any.state("h"), JobState::Pending);
    any.exit("b", 0);
    assert_eq!(any.state("h"), JobState::Cancelled);
    let mut all = start(Join::All);
    all.exit("a", 0);
    assert_eq!(all.state("h"), JobState::Cancelled, "at once");
    let cause = all.record("h").ended.as_ref().unwrap().0.clone();
    assert!(matches!(cause, Cause::DependencyUnsatisfiable { on_failure: true, .. }));
}

#[test]
fn b43_arrays_sizes_and_cycles() {
    let mut cluster = batch(FOUR);
    let element = |array: &str, index: u32| {
        let mut submission = job(&format!("{array}-{index}"), "nodes = 1");
        submission.element = Some(Element { array: job_id(array), index });
        submission
    };
    cluster.at(0.0).done(Input::Submit((0..3).map(|index| element("first", index)).collect()));
    let successors = (0..5).map(|index| {
        let mut submission = element("second", index);
        submission.edges = vec![Edge { on: job_id("first"), kind: EdgeKind::Corresponding }];
        submission
    });
    cluster.done(Input::Submit(successors.collect()));
    for index in 0..5 {
        let queued = cluster.record(&format!("second-{index}")).is_queued();
        assert_eq!(queued, index >= 3, "element {index}");
    }
    let many = (0..1001).map(|index| after(&format!("m{index}"), &[("first-0", EdgeKind::Any)], Join::All));
    let before = cluster.engine.state().hash();
    cluster.refused(Input::Submit(many.collect()));
    let cycle = vec![
        after("x", &[("y", EdgeKind::Success)], Join::All),
        after("y", &[("x", EdgeKind::Success)], Join::All),
    ];
    assert_eq!(cluster.refused(Input::Submit(cycle)), "cycle");
    let unknown = vec![after("x", &[("nobody", EdgeKind::Success)], Join::All)];
    assert_eq!(cluster.refused(Input::Submit(unknown)), "unknown_dependency");
    assert_eq!(cluster.engine.state().hash(), before, "nothing is stored on failure");
}

#[test]
fn queue_time_begins_when_the_last_of_what_a_job_waits_for_has_come() {
    for (not_before, queued_at) in [(1, 5), (60, 60)] {
        let mut cluster = batch(FOUR);
        let mut later = after("b", &[("a", EdgeKind::Success)], Join::All);
        later.not_before = Some(Time::from_secs(not_before));
        cluster.at(0.0).done(Input::Submit(vec![job("a", "nodes = 1"), later]));
        run(&mut cluster, "a");
        cluster.exit("a", 0);
        assert_eq!(
            cluster.record("b").job.queued_at,
            Time::from_secs(queued_at),
            "not before {not_before} s"
        );
    }
}

#[test]
fn a_job_that_goes_back_keeps_its_successors_waiting() {
    let mut cluster = batch(FOUR);
    let jobs = vec![job("a", "requeue = \"always\""), after("b", &[("a", EdgeKind::Any)], Join::All)];
    cluster.at(0.0).done(Input::Submit(jobs));
    run(&mut cluster, "a");
    cluster.exit("a", 3);
    assert_eq!((cluster.state("a"), cluster.record("a").requeues), (JobState::Pending, 1));
    assert!(cluster.record("b").job.waits_for.is_some());
}

#[test]
fn what_failed_is_repeated_after_a_pause_that_doubles() {
    let mut cluster = Cluster::new(pool(Dispatch::Push, |pool| pool.heartbeats = false), FOUR);
    cluster.at(0.0).done(Input::Submit(vec![job("a", "requeue = \"always\", retry_delay_ms = \"2s\"")]));
    let mut now = 0.0;
    for (attempt, pause) in [(1, 2.0), (2, 4.0), (3, 8.0)] {
        cluster.start("a");
        cluster.exit("a", 3);
        assert_eq!((cluster.state("a"), cluster.record("a").attempt), (JobState::Pending, attempt + 1));
        cluster.run_until(now + pause - 0.1);
        assert_eq!(cluster.state("a"), JobState::Pending, "before {pause} s are over");
        now += pause;
        cluster.run_until(now);
        assert_eq!(cluster.state("a"), JobState::Staging, "after {pause} s");
    }
    cluster.start("a");
    cluster.exit("a", 3);
    assert_eq!(cluster.state("a"), JobState::Failed, "three times is enough");
}

#[test]
fn an_exit_code_that_means_try_again_does() {
    let mut cluster = Cluster::new(pool(Dispatch::Push, |pool| pool.heartbeats = false), FOUR);
    cluster.at(0.0).done(Input::Submit(vec![job("a", "max_requeue = 1")]));
    for state in [JobState::Pending, JobState::Failed] {
        cluster.start("a");
        let node = cluster.nodes_of("a").remove(0);
        let failure = Some(landfall_engine::input::Failure::Transient);
        cluster.report("a", &node, Report::Exited { code: 75, failure, usage: Box::default() });
        assert_eq!(cluster.state("a"), state);
        let later = cluster.now.as_millis() as f64 / 1000.0 + 1.5;
        cluster.run_until(later);
    }
    assert!(matches!(cluster.record("a").ended.as_deref(), Some((Cause::Exit(75), _))));
}

#[test]
fn b37_quota_at_submission_and_at_commit() {
    let quota = |on_submit: QuotaOnSubmit| {
        let settings = pool(Dispatch::Batch, |pool| pool.batch.quota_on_submit = on_submit);
        let nodes = r#"
            tenants = [{ id = "t", max_nodes = 200.0 }]
            nodes = [{ id = "n", count = 300 }]"#;
        let mut cluster = Cluster::new(settings, nodes);
        cluster.at(0.0).submit(r#"jobs = [{ id = "used", tenant = "t", nodes = 195 }]"#);
        cluster.heartbeats();
        cluster.run_until(5.0);
        assert_eq!(cluster.nodes_of("used").len(), 195);
        cluster.start("used");
        cluster
    };
    let ten = || vec![job("ten", "tenant = \"t\", nodes = 10")];
    assert_eq!(quota(QuotaOnSubmit::Reject).refused(Input::Submit(ten())), "quota_nodes");
    let mut queue = quota(QuotaOnSubmit::Queue);
    queue.done(Input::Submit(ten()));
    queue.heartbeats();
    queue.run_until(10.0);
    assert_eq!(queue.state("ten"), JobState::Pending);
    let too_many = vec![job("more", "tenant = \"t\", nodes = 201")];
    assert_eq!(queue.refused(Input::Submit(too_many)), "quota_nodes");
    queue.exit("used", 0);
    queue.heartbeats();
    queue.run_until(20.0);
    assert_eq!(queue.state("ten"), JobState::Staging);
}

/// The shares in use of tenants two hours after the beginning, where use fades by half each hour.
fn shares(nodes: u32, drive: impl Fn(&mut Cluster)) -> [f64; 2] {
    let settings = pool(Dispatch::Batch, |pool| {
        (pool.batch.usage, pool.batch.half_life_ms) = (Usage::Decayed, Millis::secs(3600));
        pool.heartbeats = false;
    });
    let text = format!(
        r#"
        tenants = [{{ id = "a", share = 0.5 }}, {{ id = "b", share = 0.5 }}]
        nodes = [{{ id = "n", count = {nodes} }}]"#
    );
    let mut cluster = Cluster::new(settings, &text);
    drive(&mut cluster);
    cluster.run_until(7199.0);
    // A cycle looks at it anew.
    cluster.at(7200.0).submit(r#"jobs = [{ id = "last" }]"#);
    cluster.tick();
    let tenants = &cluster.engine.state().pools.values().next().unwrap().world.tenants;
    let of: Vec<f64> = tenants.values().map(|tenant| (tenant.usage * 1e3).round() / 1e3).collect();
    [of[0], of[1]]
}

#[test]
fn a_share_in_use_is_of_what_the_pool_had_since_it_began() {
    let held = |cluster: &mut Cluster, at: f64, nodes: u32, jobs: &[(&str, &str)]| {
        cluster.run_until(at);
        for (id, tenant) in jobs {
            cluster.submit(&format!(
                r#"jobs = [{{ id = "{id}", tenant = "{tenant}", nodes = {nodes}, walltime_ms = "9h" }}]"#
            ));
        }
        cluster.tick();
        jobs.iter().for_each(|(id, _)| cluster.start(id));
    };
    // Both hold half of the pool in the second hour; one had a job before.
    let alike = shares(20, |cluster| {
        held(cluster, 0.0, 1, &[("early", "a")]);
        cluster.at(0.001).exit("early", 0);
        held(cluster, 3600.0, 10, &[("a", "a"), ("b", "b")]);
    });
    assert_eq!(alike, [0.333, 0.333]);
    let grows = shares(10, |cluster| {
        held(cluster, 0.0, 5, &[("a", "a")]);
        cluster.run_until(3600.0);
        for node in parse(r#"nodes = [{ id = "m", count = 10 }]"#, Format::Toml).unwrap().nodes() {
            let pool = PoolId::new("p").unwrap();
            cluster.done(Input::Join { pool, node: Box::new(node.clone()), running: None });
        }
    });
    assert_eq!(grows, [0.3, 0.0]);
}

#[test]
fn whatever_a_quota_limits_is_refused_at_submission_where_a_pool_says_so() {
    let asks = |quota: &str, more: &str| {
        let settings = pool(Dispatch::Batch, |pool| pool.batch.quota_on_submit = QuotaOnSubmit::Reject);
        let nodes = format!(
            r#"
            tenants = [{{ id = "t", {quota} }}]
            nodes = [{{ id = "n", count = 4, cpu_milli = 8000, gpus = [{{ count = 8 }}] }}]"#
        );
        let mut cluster = Cluster::new(settings, &nodes);
        let used =
            r#"jobs = [{ id = "used", tenant = "t", gpu_count = 4, cpu_milli = 4000, walltime_ms = "10h" }]"#;
        cluster.running("used", used);
        match cluster.step(Input::Submit(vec![job("more", &format!("tenant = \"t\", {more}"))])) {
            Answer::Refused(refused) => refused.code.into_owned(),
            _ => String::new(),
        }
    };
    for (quota, more, want) in [
        ("max_gpus = 8", "gpu_count = 5", "quota_gpus"),
        ("max_gpus = 8", "gpu_count = 4", ""),
        ("max_gpus = 8", "gpu_count = 2, nodes = { min = 1, max = 3 }", "quota_gpus"),
        ("max_cpu_milli = 8000", "cpu_milli = 4001", "quota_cpus"),
        ("gpu_hours_cap = 48", "gpu_count = 8, walltime_ms = \"1h\"", ""),
        ("gpu_hours_cap = 48", "gpu_count = 8, walltime_ms = \"2h\"", "gpu_hours"),
    ] {
        assert_eq!(asks(quota, more), want, "{quota}: {more}");
    }
}

#[test]
fn nodes_kept_for_a_tenant_count_at_submission() {
    let settings = pool(Dispatch::Batch, |pool| pool.batch.quota_on_submit = QuotaOnSubmit::Reject);
    let nodes = r#"
        tenants = [{ id = "t", max_nodes = 2.0 }]
        nodes = [{ id = "n", count = 2 }]"#;
    let mut cluster = Cluster::new(settings, nodes);
    cluster.running("low", r#"jobs = [{ id = "low", nodes = 2, class = 1, walltime_ms = "10h" }]"#);
    cluster.keep_alive(700.0);
    cluster.submit(r#"jobs = [{ id = "high", tenant = "t", nodes = 2, class = 9 }]"#);
    cluster.keep_alive(705.0);
    assert_eq!(cluster.state("low"), JobState::Stopping);
    assert_eq!(cluster.refused(Input::Submit(vec![job("more", "tenant = \"t\"")])), "quota_nodes");
}

#[test]
fn locks_are_held_by_one_job_at_a_time() {
    let mut cluster = batch(FOUR);
    cluster.at(0.0).submit(r#"jobs = [{ id = "a", mutex = ["db"] }, { id = "b", mutex = ["db"] }]"#);
    cluster.heartbeats();
    cluster.run_until(5.0);
    assert_eq!((cluster.state("a"), cluster.state("b")), (JobState::Staging, JobState::Pending));
    cluster.start("a");
    cluster.exit("a", 0);
    cluster.heartbeats();
    cluster.run_until(10.0);
    assert_eq!(cluster.state("b"), JobState::Staging);
}

#[test]
fn a_job_whose_lock_is_taken_leaves_the_nodes_to_those_behind_it() {
    let mut cluster = batch(r#"nodes = [{ id = "n", count = 2, cpu_milli = 1000 }]"#);
    let first = job("a", "walltime_ms = \"2h\"");
    let jobs = vec![first, after("b", &[("a", EdgeKind::Mutex)], Join::All), job("c", "class = 1")];
    cluster.at(0.0).done(Input::Submit(jobs));
    cluster.run_until(0.0);
    let states = |cluster: &Cluster| ["a", "b", "c"].map(|job| cluster.state(job));
    assert_eq!(states(&cluster), [JobState::Staging, JobState::Pending, JobState::Staging]);
    cluster.start("a");
    cluster.start("c");
    cluster.exit("c", 0);
    cluster.keep_alive(60.0);
    assert_eq!(states(&cluster), [JobState::Running, JobState::Pending, JobState::Completed]);
    let refused = cluster.events.iter().filter(|(_, event)| matches!(event, Event::Rejected(_))).count();
    assert_eq!(refused, 0, "nothing was proposed that the ledger had to refuse");
    let wait = cluster.engine.explain(&job_id("b")).unwrap().reasons;
    assert_eq!(wait.first().map(|why| why.reason), Some(Reason::Mutex), "{wait:?}");
    cluster.exit("a", 0);
    cluster.keep_alive(65.0);
    assert_eq!(cluster.state("b"), JobState::Staging);
}

#[test]
fn b45_walltime_with_grace() {
    let started = || {
        let mut cluster = batch(FOUR);
        cluster.at(0.0).submit(r#"jobs = [{ id = "j", walltime_ms = "3600s" }]"#);
        cluster.heartbeats();
        cluster.run_until(0.0);
        cluster.start("j");
        cluster.keep_alive(3599.0);
        cluster.run_until(3599.999);
        assert_eq!(cluster.state("j"), JobState::Running);
        cluster.run_until(3600.0);
        assert_eq!(cluster.state("j"), JobState::Stopping);
        assert!(matches!(cluster.effects(), [Effect::Stop { grace, .. }] if *grace == Millis::secs(30)));
        cluster
    };
    let mut inside = started();
    inside.at(3610.0).exit("j", 0);
    assert_eq!(inside.state("j"), JobState::Completed);
    assert_eq!(inside.record("j").ended.as_ref().unwrap().0, Cause::OverWalltime);
    let mut over = started();
    over.run_until(3629.999);
    assert_eq!(over.state("j"), JobState::Stopping);
    over.run_until(3630.0);
    assert_eq!(over.state("j"), JobState::Failed);
    assert_eq!(over.record("j").ended.as_ref().unwrap().0, Cause::Walltime);
    assert!(
        over.effects().iter().any(|effect| matches!(effect, Effect::Stop { grace, .. } if grace.is_zero()))
    );
}

#[test]
fn start_commands_go_out_again_and_are_given_up() {
    let mut cluster = batch(FOUR);
    cluster.at(0.0).submit(r#"jobs = [{ id = "j" }]"#);
    cluster.run_until(0.0);
    assert_eq!(cluster.state("j"), JobState::Staging);
    let starts = |cluster: &Cluster| {
        let start = |effect: &&Effect| matches!(effect, Effect::Start { .. });
        cluster.effects().iter().filter(start).count()
    };
    for at in [1.0, 2.0, 5.0] {
        cluster.at(at).tick();
        assert_eq!(starts(&cluster), 1, "at {at}");
    }
    assert_eq!(cluster.record("j").attempt, 1);
    cluster.at(10.0).tick();
    assert_eq!((cluster.record("j").attempt, cluster.record("j").start_failures), (2, 1));
    cluster.run_until(29.0);
    cluster.heartbeats();
    cluster.run_until(59.0);
    assert_eq!(cluster.state("j"), JobState::Failed);
    assert_eq!(cluster.record("j").ended.as_ref().unwrap().0, Cause::StartFailed);
}

#[test]
fn refusals_of_a_node_by_their_kind() {
    let refused = |refusal| {
        let mut cluster = batch(FOUR);
        cluster.at(0.0).submit(r#"jobs = [{ id = "j" }]"#);
        cluster.run_until(0.0);
        let node = cluster.nodes_of("j").remove(0);
        cluster.report("j", &node, Report::Refused(refusal));
        (cluster.state("j"), cluster.record("j").attempt)
    };
    assert_eq!(refused(StartRefusal::Busy), (JobState::Staging, 1));
    assert_eq!(refused(StartRefusal::Unsupported), (JobState::Pending, 2));
    assert_eq!(refused(StartRefusal::Malformed), (JobState::Failed, 1));
    let mut cluster = batch(FOUR);
    cluster.running("j", r#"jobs = [{ id = "j" }]"#);
    let node = cluster.nodes_of("j").remove(0);
    assert_eq!(cluster.report("j", &node, Report::Started), Answer::Ignored("started".into()));
}

#[test]
fn a_gang_fails_as_a_whole_and_completes_when_all_have() {
    let gang = || {
        let mut cluster = batch(FOUR);
        cluster.at(0.0).submit(r#"jobs = [{ id = "g", nodes = 3 }]"#);
        cluster.run_until(0.0);
        assert_eq!(cluster.nodes_of("g").len(), 3);
        cluster.start("g");
        cluster
    };
    let exit = |code| Report::Exited { code, failure: None, usage: Box::new(RunUsage::default()) };
    let mut cluster = gang();
    let nodes = cluster.nodes_of("g");
    cluster.report("g", &nodes[0], exit(0));
    cluster.report("g", &nodes[1], exit(0));
    assert_eq!(cluster.state("g"), JobState::Running);
    cluster.report("g", &nodes[2], exit(0));
    assert_eq!(cluster.state("g"), JobState::Completed);
    let mut cluster = gang();
    cluster.report("g", &nodes[1], exit(7));
    assert_eq!(cluster.state("g"), JobState::Failed);
    let stops = cluster.effects().iter().filter(|effect| matches!(effect, Effect::Stop { .. })).count();
    assert_eq!(stops, 2, "the others are told");
}

#[test]
fn suspend_saves_and_resume_goes_on_with_what_was_left() {
    let mut cluster = batch(FOUR);
    cluster.running("j", r#"jobs = [{ id = "j", checkpoint = "manual", walltime_ms = "1000s" }]"#);
    cluster.keep_alive(400.0);
    cluster.done(Input::Suspend(job_id("j")));
    assert_eq!(cluster.state("j"), JobState::Checkpointing);
    assert!(matches!(cluster.effects(), [Effect::Checkpoint { leave: true, .. }]));
    let node = cluster.nodes_of("j").remove(0);
    cluster.keep_alive(410.0);
    assert_eq!(cluster.report("j", &node, Report::Checkpointed), Answer::Done);
    assert_eq!(cluster.state("j"), JobState::Suspended);
    assert!(cluster.nodes_of("j").is_empty());
    cluster.keep_alive(500.0);
    assert_eq!(cluster.state("j"), JobState::Suspended, "only its owner lets it go on");
    cluster.done(Input::Resume { job: job_id("j"), walltime: None });
    cluster.keep_alive(505.0);
    cluster.start("j");
    assert!(matches!(cluster.fence("j").attempt, 2));
    let run = cluster.record("j").run.as_ref().unwrap();
    assert_eq!(run.ends_at.unwrap().since(run.started_at.unwrap()), Millis::secs(590));
}

#[test]
fn a_job_goes_on_only_from_its_newest_checkpoint() {
    let mut cluster = batch(r#"nodes = [{ id = "n", count = 2, cpu_milli = 1000, ram_mib = 1000 }]"#);
    cluster.running("j", r#"jobs = [{ id = "j", checkpoint = "manual", walltime_ms = "1000s" }]"#);
    // Saves its work where it runs, and begins again; says whether it is told to go on from there.
    let again = |cluster: &mut Cluster, elsewhere: bool, secs: f64| {
        cluster.keep_alive(secs);
        let node = cluster.nodes_of("j").remove(0);
        cluster.done(Input::Suspend(job_id("j")));
        cluster.report("j", &node, Report::Checkpointed);
        let order = |order| Input::Order { node: node_id(&node), order };
        if elsewhere {
            cluster.done(order(NodeOrder::Drain));
        }
        cluster.done(Input::Resume { job: job_id("j"), walltime: None });
        let told = loop {
            let start = cluster.effects().iter().find_map(|effect| match effect {
                Effect::Start { resume, .. } => Some(*resume),
                _ => None,
            });
            if start.is_some() {
                break start;
            }
            cluster.now = cluster.engine.next_wake().unwrap();
            cluster.tick();
        };
        cluster.start("j");
        if elsewhere {
            assert_ne!(cluster.nodes_of("j"), std::slice::from_ref(&node));
            cluster.done(order(NodeOrder::Return));
        }
        (told, cluster.record("j").run.as_ref().unwrap().afresh)
    };
    let first = cluster.nodes_of("j");
    assert_eq!(again(&mut cluster, false, 100.0), (Some(true), false));
    assert_eq!(again(&mut cluster, true, 200.0), (Some(false), true), "there is nothing, and it says so");
    assert_eq!(cluster.record("j").walltime(), Some(Millis::secs(1000)), "with all of its walltime");
    assert_eq!(again(&mut cluster, true, 300.0), (Some(false), true), "what lies there is older");
    assert_eq!(cluster.nodes_of("j"), first);
    assert_eq!(again(&mut cluster, false, 400.0), (Some(true), false));
}

#[test]
fn a_job_whose_walltime_is_used_up_goes_on_only_with_a_new_one() {
    let mut cluster = batch(FOUR);
    cluster.running("j", r#"jobs = [{ id = "j", checkpoint = "manual", walltime_ms = "1000s" }]"#);
    cluster.keep_alive(990.0);
    cluster.done(Input::Checkpoint(job_id("j")));
    cluster.run_until(1000.0);
    assert_eq!(cluster.state("j"), JobState::Stopping);
    let node = cluster.nodes_of("j").remove(0);
    cluster.at(1005.0).report("j", &node, Report::Checkpointed);
    assert_eq!(cluster.record("j").past().suspended, Some(Cause::Walltime));
    let resume = |walltime| Input::Resume { job: job_id("j"), walltime };
    for none in [None, Some(Millis::ZERO)] {
        assert_eq!(cluster.refused(resume(none)), "walltime_used_up");
    }
    assert_eq!(cluster.state("j"), JobState::Suspended);
    cluster.done(resume(Some(Millis::secs(50))));
    cluster.keep_alive(1010.0);
    cluster.start("j");
    let run = cluster.record("j").run.as_ref().unwrap();
    assert_eq!(run.ends_at.unwrap().since(run.started_at.unwrap()), Millis::secs(50));
}

#[test]
fn a_walltime_that_was_changed_stays_changed() {
    let mut cluster = batch(FOUR);
    cluster
        .running("j", r#"jobs = [{ id = "j", walltime_ms = "1000s" }, { id = "w", walltime_ms = "1000s" }]"#);
    let walltime = Millis::secs(5000);
    for job in ["j", "w"] {
        cluster.done(Input::SetWalltime { job: job_id(job), walltime });
    }
    assert_eq!(cluster.record("j").run.as_ref().unwrap().ends_at, Some(Time::from_secs(5000)));
    let node = cluster.nodes_of("j").remove(0);
    let lost = Input::Order { node: node_id(&node), order: NodeOrder::Leave };
    cluster.done(lost);
    assert_eq!((cluster.state("j"), cluster.record("j").attempt), (JobState::Pending, 2));
    for job in ["j", "w"] {
        assert_eq!(cluster.record(job).walltime(), Some(walltime), "{job}");
    }
}

#[test]
fn a_longer_walltime_is_refused_where_it_would_move_a_reservation() {
    let says = |job: &str, waits: &str| {
        let nodes = r#"nodes = [
            { id = "a", cpu_milli = 1000, gpus = [{ count = 1 }] }, { id = "n", count = 4, cpu_milli = 8000 },
        ]"#;
        let mut cluster = Cluster::new(pool(Dispatch::Batch, |pool| pool.heartbeats = false), nodes);
        for (id, asks) in [
            ("short", r#"cpu_milli = 2000, walltime_ms = "1h""#),
            ("long", r#"cpu_milli = 2000, nodes = 3, walltime_ms = "2h""#),
            ("gpu", r#"gpu_count = 1, walltime_ms = "2h""#),
        ] {
            cluster.submit(&format!(r#"jobs = [{{ id = "{id}", {asks} }}]"#));
            cluster.tick();
            let now = cluster.now.as_millis() as f64 / 1000.0;
            cluster.run_until(now + 5.0);
            cluster.start(id);
        }
        cluster.submit(&format!(r#"jobs = [{{ id = "waits", walltime_ms = "1h", {waits} }}]"#));
        cluster.run_until(30.0);
        let reservations = &cluster.engine.state().pools.values().next().unwrap().reservations;
        assert!(reservations.values().all(|one| one.start > Time::from_secs(7000)), "{waits}");
        assert_eq!(reservations.len(), 1, "{waits}");
        let longer = Input::SetWalltime { job: job_id(job), walltime: Millis::secs(5 * 3600) };
        match cluster.step(longer) {
            Answer::Refused(refused) => refused.code.into_owned(),
            _ => String::new(),
        }
    };
    for (job, waits, want) in [
        ("short", "gpu_count = 1", ""),
        ("gpu", "gpu_count = 1", "reserved"),
        ("gpu", "cpu_milli = 2000, nodes = 4", ""),
        ("short", "cpu_milli = 2000, nodes = 4", "reserved"),
        ("short", "cpu_milli = 2000, nodes = 3", ""),
        ("long", "cpu_milli = 2000, nodes = 3", "reserved"),
    ] {
        assert_eq!(says(job, waits), want, "{job} on, {waits}");
    }
}

#[test]
fn a_job_that_goes_on_counts_for_what_is_left_of_its_time() {
    let mut cluster = batch(
        r#"
        tenants = [{ id = "t", gpu_hours_cap = 12.0 }]
        nodes = [{ id = "n", count = 2, gpus = [{ count = 1 }] }]"#,
    );
    let job = |id: &str, hours: u32| {
        format!(
            r#"jobs = [{{ id = "{id}", tenant = "t", gpu_count = 1, checkpoint = "manual", walltime_ms = "{hours}h" }}]"#
        )
    };
    cluster.running("j", &job("j", 10));
    cluster.keep_alive(6.0 * 3600.0);
    cluster.done(Input::Suspend(job_id("j")));
    let node = cluster.nodes_of("j").remove(0);
    cluster.report("j", &node, Report::Checkpointed);
    cluster.done(Input::Resume { job: job_id("j"), walltime: None });
    let promised = |cluster: &Cluster| {
        let tenant = cluster.engine.state().tenants.values().next().unwrap();
        tenant.gpu_ms_promised / 3_600_000
    };
    // 6 of 12 hours are used; the 4 that are left fit, the whole 10 would not.
    cluster.keep_alive(6.0 * 3600.0 + 5.0);
    cluster.start("j");
    assert_eq!(promised(&cluster), 4);
    cluster.submit(&job("long", 3));
    cluster.submit(&job("short", 1));
    cluster.keep_alive(6.0 * 3600.0 + 10.0);
    assert_eq!((cluster.state("long"), cluster.state("short")), (JobState::Pending, JobState::Staging));
    cluster.done(Input::SetWalltime { job: job_id("j"), walltime: Millis::secs(7200) });
    assert_eq!(promised(&cluster), 2 + 1, "what it no longer asks for is given back");
    cluster.start("short");
    cluster.exit("j", 0);
    cluster.exit("short", 0);
    assert_eq!(promised(&cluster), 0);
}

#[test]
fn gpu_hours_under_a_cap_are_those_used_and_those_that_are_promised() {
    let job =
        |id: &str, more: &str| format!(r#"jobs = [{{ id = "{id}", tenant = "t", gpu_count = 1, {more} }}]"#);
    let fits = |cap: &str, hours: u32| {
        let mut cluster = batch(&format!(
            r#"
            tenants = [{{ id = "t", {cap} }}]
            nodes = [{{ id = "n", count = 2, gpus = [{{ count = 1 }}] }}]"#
        ));
        cluster.running("service", &job("service", "lifecycle = \"unbounded\""));
        // The last day was promised, the one before it was used as well.
        cluster.keep_alive(48.0 * 3600.0);
        cluster.submit(&job("more", &format!("walltime_ms = \"{hours}h\"")));
        cluster.keep_alive(48.0 * 3600.0 + 10.0);
        assert!(!cluster.events.iter().any(|(_, event)| matches!(event, Event::Rejected(_))));
        cluster.state("more") == JobState::Staging
    };
    assert_eq!([1, 2, 3].map(|hours| fits("gpu_hours_cap = 50.1", hours)), [true, true, false]);
    let before = "gpu_hours_cap = 60.1, gpu_hours_used = 10";
    assert_eq!([2, 3].map(|hours| fits(before, hours)), [true, false]);
}

#[test]
fn where_nothing_can_be_saved_people_are_told_and_others_do_not_wait_for_it() {
    let without = pool(Dispatch::Batch, |pool| pool.batch.checkpoint.storage_gib_s = 0.0);
    let mut cluster = Cluster::new(without, r#"nodes = [{ id = "n" }]"#);
    cluster.running("j", r#"jobs = [{ id = "j", class = 2, checkpoint = "auto", walltime_ms = "10h" }]"#);
    for order in [Input::Suspend(job_id("j")), Input::Checkpoint(job_id("j"))] {
        assert_eq!(cluster.refused(order), "no_checkpoint_storage");
    }
    cluster.keep_alive(700.0);
    cluster.submit(r#"jobs = [{ id = "high", class = 8 }]"#);
    cluster.keep_alive(705.0);
    assert_eq!(cluster.state("j"), JobState::Stopping, "stopped as if it could not save");
    assert!(!cluster.events.iter().any(|(_, event)| matches!(event, Event::Saving { .. })));
}

#[test]
fn cancel_at_any_point() {
    let mut cluster = batch(FOUR);
    cluster.at(0.0).submit(r#"jobs = [{ id = "wait", nodes = 4 }, { id = "j", nodes = 4 }]"#);
    cluster.done(Input::Cancel(job_id("wait")));
    assert_eq!(cluster.state("wait"), JobState::Cancelled);
    cluster.run_until(0.0);
    assert_eq!(cluster.state("j"), JobState::Staging);
    cluster.done(Input::Cancel(job_id("j")));
    assert_eq!(cluster.state("j"), JobState::Stopping);
    assert_eq!(cluster.step(Input::Cancel(job_id("j"))), Answer::Ignored("stopping".into()));
    for node in cluster.nodes_of("j") {
        cluster.report("j", &node, Report::Stopped);
    }
    assert_eq!(cluster.state("j"), JobState::Cancelled);
    assert_eq!(cluster.step(Input::Cancel(job_id("j"))), Answer::Ignored("ended".into()));
    assert_eq!(cluster.refused(Input::Cancel(job_id("nobody"))), "unknown_job");
    let (node, _) = cluster.engine.state().node(&node_id("n-0")).unwrap();
    assert!(node.placements.is_empty());
}

#[test]
fn never_fits_is_said_at_submission() {
    let mut cluster = batch(FOUR);
    let refused = |cluster: &mut Cluster, more: &str| cluster.refused(Input::Submit(vec![job("j", more)]));
    assert_eq!(refused(&mut cluster, "nodes = 5"), "never_fits");
    assert_eq!(refused(&mut cluster, "cpu_milli = 1001"), "never_fits");
    cluster.done(Input::Submit(vec![job("j", "nodes = 5, wait_for_capacity = true")]));
    assert_eq!(cluster.state("j"), JobState::Pending);
}

#[test]
fn what_a_set_of_nodes_can_never_be_is_said_at_submission() {
    let scenario = r#"nodes = [
        { id = "a", count = 2, group = "a", fingerprint = "P", power = { idle_w = 100, busy_w = 300 } },
        { id = "b", count = 3, group = "b", fingerprint = "Q", power = { idle_w = 100, busy_w = 400 } },
    ]"#;
    let settings = |pool: &mut landfall_model::Pool| {
        (pool.batch.power_cap_w, pool.batch.io_cap) = (Some(1300), Some(Bytes::new(1000)));
        pool.heartbeats = false;
    };
    let mut cluster = Cluster::new(pool(Dispatch::Batch, settings), scenario);
    for (more, said) in [
        ("nodes = 3, max_span = 1", None),
        ("nodes = 4, max_span = 1", Some("too many groups")),
        ("nodes = 4, max_span = 2, power_w = 100", None),
        ("nodes = 3, sensitive = true, power_w = 100", None),
        ("nodes = 4, sensitive = true, power_w = 100", Some("the configuration")),
        ("nodes = 3", None),
        ("nodes = 4", Some("too much power")),
        ("nodes = 1, io_bytes_s = 1000", None),
        ("nodes = 1, io_bytes_s = 1001", Some("too much data")),
    ] {
        let answer = cluster.step(Input::Submit(vec![job("j", more)]));
        match (answer, said) {
            (Answer::Done, None) => cluster.done(Input::Cancel(job_id("j"))),
            (Answer::Refused(refused), Some(said)) => {
                assert!(
                    refused.code == "never_fits" && refused.message.contains(said),
                    "{more}: {refused:?}"
                );
            }
            (answer, _) => panic!("{more}: {answer:?}"),
        }
        cluster.step(Input::Forget(job_id("j")));
    }
    let caps = landfall_model::Caps { power_w: None, io_bytes_s: Some(500) };
    cluster.done(Input::SetCaps(caps));
    assert_eq!(cluster.refused(Input::Submit(vec![job("j", "io_bytes_s = 1000")])), "never_fits");
}

#[test]
fn a_window_of_every_node_does_not_make_a_job_impossible() {
    let mut cluster = batch(FOUR);
    for node in ["n-0", "n-1", "n-2", "n-3"] {
        let (node, at) = (node_id(node), Some(Time::from_millis(60_000)));
        cluster.done(Input::Maintain { node, at, why: None });
    }
    cluster.done(Input::Submit(vec![job("long", "nodes = 1, walltime_ms = 7200000")]));
    cluster.done(Input::Submit(vec![job("short", "nodes = 1, walltime_ms = 30000")]));
    cluster.run_until(0.0);
    assert_eq!(cluster.state("long"), JobState::Pending);
    assert_eq!(cluster.state("short"), JobState::Staging);
    let reasons = cluster.engine.explain(&job_id("long")).unwrap().reasons;
    assert!(reasons.iter().all(|why| why.reason != Reason::NeverFits), "{reasons:?}");
    assert!(reasons.iter().any(|why| why.reason == Reason::BlockEnd), "{reasons:?}");
    assert_eq!(cluster.refused(Input::Submit(vec![job("wide", "nodes = 5")])), "never_fits");
}
