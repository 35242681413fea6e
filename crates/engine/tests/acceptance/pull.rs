//! Pull: requests, rounds, reports, retries (pull-rules.md §2, §7, §8, §10).

use landfall_engine::input::{Failure, NodeOrder, Report, RunUsage, StartRefusal};
use landfall_engine::record::{Cause, JobState};
use landfall_engine::{Answer, Effect, Input};
use landfall_model::life::Task;
use landfall_model::scenario::{Format, parse};
use landfall_model::{Dispatch, JobKind, JobReport, Name, PoolId, TenantId};

use crate::support::{Cluster, job_id, node_id, pool};

const WORKER: &str = r#"nodes = [{ id = "w", architectures = ["x86_64"], max_concurrent = 2, cpu_milli = 8000, ram_mib = 8000, fetch = true, eval = true }]"#;

fn farm(workers: &str) -> Cluster {
    Cluster::new(pool(Dispatch::Pull, |pool| pool.policy = Some(Name::new("simple").unwrap())), workers)
}

fn build(id: &str) -> String {
    format!(r#"jobs = [{{ id = "{id}", architecture = "x86_64" }}]"#)
}

fn ask(cluster: &mut Cluster) -> Answer {
    cluster.step(Input::Ask { node: node_id("w"), kind: JobKind::Build })
}

fn fetched(cluster: &mut Cluster, job: &str) {
    let report = Some(JobReport { missing_inputs: Some(0), missing_bytes: Some(0) });
    cluster.done(Input::Fetches { node: node_id("w"), entries: vec![(job_id(job), report)] });
}

fn work(answer: &Answer) -> Option<String> {
    match answer {
        Answer::Work(fence) => Some(fence.job.to_string()),
        _ => None,
    }
}

#[test]
fn p33_a_worker_takes_as_much_as_it_said() {
    let mut cluster = farm(WORKER);
    for job in ["a", "b", "c"] {
        cluster.at(0.0).submit(&build(job));
        fetched(&mut cluster, job);
    }
    assert_eq!(work(&ask(&mut cluster)).as_deref(), Some("a"));
    assert_eq!(work(&ask(&mut cluster)).as_deref(), Some("b"));
    assert_eq!(ask(&mut cluster), Answer::Nothing("at_capacity".into()));
    cluster.start("a");
    cluster.exit("a", 0);
    cluster.done(Input::Order { node: node_id("w"), order: NodeOrder::Drain });
    for kind in [JobKind::Build, JobKind::Eval] {
        let answer = cluster.step(Input::Ask { node: node_id("w"), kind });
        assert_eq!(answer, Answer::Nothing("draining".into()));
    }
}

#[test]
fn p34_rounds_count_timer_ticks_while_pending() {
    let mut cluster = farm(WORKER);
    cluster.at(0.0).submit(&build("j"));
    let rounds = |cluster: &Cluster| cluster.engine.state().rounds(cluster.record("j"));
    cluster.run_until(0.0);
    let first = rounds(&cluster);
    assert_eq!(first, 1, "the first tick comes with the first arrival");
    // Three kicks in between do not count: a worker that asks, a report, another job that comes.
    ask(&mut cluster);
    cluster.submit(&build("other"));
    ask(&mut cluster);
    cluster.heartbeats();
    cluster.run_until(5.0);
    assert_eq!(rounds(&cluster), 2);
    fetched(&mut cluster, "j");
    assert_eq!(work(&ask(&mut cluster)).as_deref(), Some("j"));
    assert_eq!(cluster.record("j").job.rescore_count, 2, "at dispatch");
    cluster.run_until(10.0);
    cluster.report("j", "w", Report::Refused(StartRefusal::AtCapacity));
    assert_eq!(cluster.state("j"), JobState::Pending);
    assert_eq!(rounds(&cluster), 2, "kept after release");
}

#[test]
fn an_offer_that_is_rejected_takes_no_attempt_but_a_new_fence() {
    let mut cluster = farm(WORKER);
    cluster.at(0.0).submit(&build("j"));
    fetched(&mut cluster, "j");
    let Answer::Work(old) = ask(&mut cluster) else { panic!() };
    cluster.report("j", "w", Report::Refused(StartRefusal::Draining));
    assert_eq!((cluster.record("j").failures, cluster.record("j").attempt), (0, 2));
    let late = cluster.step(Input::Report { node: node_id("w"), fence: old, report: Report::Started });
    assert_eq!(late, Answer::Ignored("stale_fence".into()));
    assert!(matches!(cluster.effects(), [Effect::Stop { .. }]), "whatever runs under the old fence stops");
}

#[test]
fn transient_failures_back_off_and_give_up() {
    let mut cluster = farm(WORKER);
    cluster.at(0.0).submit(&build("j"));
    let fail = |cluster: &mut Cluster| {
        fetched(cluster, "j");
        assert_eq!(work(&ask(cluster)).as_deref(), Some("j"));
        cluster.start("j");
        let usage = Box::new(RunUsage::default());
        cluster.report("j", "w", Report::Exited { code: 1, failure: Some(Failure::Transient), usage });
    };
    fail(&mut cluster);
    assert_eq!(cluster.state("j"), JobState::Pending);
    fetched(&mut cluster, "j");
    cluster.heartbeats();
    cluster.run_until(29.999);
    assert_eq!(work(&ask(&mut cluster)), None, "the wait is an eligibility check");
    cluster.run_until(30.0);
    fail(&mut cluster);
    cluster.heartbeats();
    cluster.keep_alive(89.999);
    fetched(&mut cluster, "j");
    assert_eq!(work(&ask(&mut cluster)), None);
    cluster.run_until(90.0);
    fail(&mut cluster);
    assert_eq!(cluster.state("j"), JobState::Failed, "three attempts in all");
}

#[test]
fn a_lost_worker_takes_no_attempt() {
    let mut cluster = farm(WORKER);
    cluster.at(0.0).submit(&build("j"));
    fetched(&mut cluster, "j");
    ask(&mut cluster);
    cluster.start("j");
    cluster.run_until(119.0);
    assert_eq!(cluster.state("j"), JobState::Running);
    cluster.run_until(121.0);
    assert_eq!(cluster.state("j"), JobState::Pending);
    assert_eq!(
        (cluster.record("j").failures, cluster.record("j").requeues, cluster.record("j").attempt),
        (0, 0, 2)
    );
}

#[test]
fn a_revoked_tenant_gets_its_jobs_back() {
    let workers = r#"
        tenants = [{ id = "t" }, { id = "u" }]
        nodes = [{ id = "w", architectures = ["x86_64"], max_concurrent = 2, tenants = ["t", "u"] }]"#;
    let mut cluster = farm(workers);
    cluster.at(0.0).submit(r#"jobs = [{ id = "j", architecture = "x86_64", tenant = "t" }]"#);
    fetched(&mut cluster, "j");
    assert_eq!(work(&ask(&mut cluster)).as_deref(), Some("j"));
    let tenant = TenantId::new("t").unwrap();
    cluster.done(Input::RevokeTenant { node: node_id("w"), tenant });
    assert!(matches!(cluster.effects(), [Effect::Stop { .. }]));
    assert_eq!(cluster.state("j"), JobState::Stopping, "it must not run twice");
    cluster.report("j", "w", Report::Stopped);
    assert_eq!(cluster.state("j"), JobState::Pending);
    assert_eq!(cluster.record("j").failures, 0);
    assert_eq!(work(&ask(&mut cluster)), None);
}

#[test]
fn a_revoked_tenant_does_not_get_back_what_runs_once_or_was_cancelled() {
    let workers = r#"
        tenants = [{ id = "t" }]
        nodes = [{ id = "w", architectures = ["x86_64"], max_concurrent = 4, tenants = ["t"] }]"#;
    for (asks, cancelled, state) in [
        (r#"requeue = "never""#, false, JobState::Failed),
        ("max_requeue = 0", false, JobState::Failed),
        ("max_requeue = 1", true, JobState::Cancelled),
    ] {
        let mut cluster = farm(workers);
        cluster
            .at(0.0)
            .submit(&format!(r#"jobs = [{{ id = "j", architecture = "x86_64", tenant = "t", {asks} }}]"#));
        fetched(&mut cluster, "j");
        ask(&mut cluster);
        cluster.start("j");
        if cancelled {
            cluster.done(Input::Cancel(job_id("j")));
        }
        cluster.done(Input::RevokeTenant { node: node_id("w"), tenant: TenantId::new("t").unwrap() });
        cluster.report("j", "w", Report::Stopped);
        assert_eq!(cluster.state("j"), state, "{asks}");
    }
}

#[test]
fn a_paused_pool_gives_nothing() {
    let mut cluster = farm(WORKER);
    cluster.at(0.0).submit(&build("j"));
    let paused = pool(Dispatch::Pull, |pool| {
        pool.policy = Some(Name::new("simple").unwrap());
        pool.pull.paused = true;
    });
    cluster.done(Input::SetPool { pool: Box::new(paused), policy: None });
    assert_eq!(ask(&mut cluster), Answer::Nothing("paused".into()));
}

#[test]
fn queueing_an_id_again_changes_nothing() {
    let mut cluster = farm(WORKER);
    cluster.at(0.0).submit(&build("j"));
    let before = cluster.engine.state().hash();
    let again = cluster.step(Input::Submit(Cluster::jobs(&build("j"))));
    assert_eq!(again, Answer::Ignored("submitted_before".into()));
    assert_eq!(cluster.engine.state().hash(), before);
}

#[test]
fn a_job_the_ledger_refuses_does_not_block_the_next() {
    let workers = r#"
        tenants = [{ id = "t", max_jobs = 5, max_nodes = 0.0 }]
        nodes = [{ id = "w", architectures = ["x86_64"], cpu_milli = 1000, ram_mib = 100 }]"#;
    let mut cluster = farm(workers);
    let text =
        r#"jobs = [{ id = "a", architecture = "x86_64", tenant = "t", cpu_milli = 500, exclusive = false }]"#;
    cluster.at(0.0).submit(text);
    cluster.submit(&build("b"));
    fetched(&mut cluster, "a");
    fetched(&mut cluster, "b");
    assert_eq!(work(&ask(&mut cluster)).as_deref(), Some("b"));
    assert_eq!(cluster.state("a"), JobState::Pending);
}

#[test]
fn a_fetch_miss_goes_back_without_an_attempt() {
    let mut cluster = farm(WORKER);
    cluster.at(0.0).submit(&build("j"));
    fetched(&mut cluster, "j");
    ask(&mut cluster);
    cluster.start("j");
    let usage = Box::new(RunUsage::default());
    cluster.report("j", "w", Report::Exited { code: 1, failure: Some(Failure::FetchMiss), usage });
    let record = cluster.record("j");
    assert_eq!((record.state, record.failures, record.past().fetch_misses), (JobState::Pending, 0, 1));
    let usage = Box::new(RunUsage::default());
    fetched(&mut cluster, "j");
    ask(&mut cluster);
    cluster.start("j");
    cluster.report("j", "w", Report::Exited { code: 1, failure: Some(Failure::Permanent), usage });
    assert_eq!(cluster.record("j").ended.as_ref().unwrap().0, Cause::Exit(1));
}

#[test]
fn a_job_that_fewer_wait_for_is_worth_less_at_once() {
    let mut cluster = farm(WORKER);
    cluster.at(0.0).submit(&build("first"));
    cluster.at(0.0).submit(&build("waited"));
    for job in ["first", "waited"] {
        fetched(&mut cluster, job);
    }
    let mut later = Cluster::jobs(&build("later")).remove(0);
    later.edges = vec![landfall_engine::dag::Edge {
        on: job_id("waited"),
        kind: landfall_engine::dag::EdgeKind::Success,
    }];
    cluster.done(Input::Submit(vec![later]));
    cluster.done(Input::Cancel(job_id("later")));
    assert_eq!(work(&ask(&mut cluster)).as_deref(), Some("first"), "nobody waits for the other one any more");
}

const FARM: &str = r#"nodes = [
    { id = "w", architectures = ["x86_64"], cpu_milli = 8000, ram_mib = 8000 },
    { id = "arm", architectures = ["aarch64"], cpu_milli = 8000, ram_mib = 8000 }]"#;

fn fetchable(architecture: &str) -> String {
    format!(
        r#"jobs = [{{ id = "j", architecture = "{architecture}", features = ["kvm"], fetchable = true }}]"#
    )
}

fn ask_as(cluster: &mut Cluster, node: &str, kind: JobKind) -> Option<String> {
    if cluster.state("j") == JobState::Pending {
        let report = Some(JobReport { missing_inputs: Some(0), missing_bytes: Some(0) });
        cluster.done(Input::Fetches { node: node_id(node), entries: vec![(job_id("j"), report)] });
    }
    let answer = cluster.step(Input::Ask { node: node_id(node), kind });
    work(&answer)
}

fn exit_on(cluster: &mut Cluster, node: &str, code: i32) {
    cluster.start("j");
    let usage = Box::new(RunUsage::default());
    cluster.report("j", node, Report::Exited { code, failure: None, usage });
}

fn task(cluster: &Cluster) -> Option<Task> {
    cluster.record("j").run.as_ref().unwrap().task
}

#[test]
fn a_fetchable_job_is_looked_for_by_anybody_and_built_after_enough_misses() {
    let mut cluster = farm(&FARM.replace("\"x86_64\"]", "\"x86_64\"], features = [\"kvm\"]"));
    cluster.at(0.0).submit(&fetchable("x86_64"));
    for misses in 1..=2 {
        assert_eq!(
            ask_as(&mut cluster, "arm", JobKind::Build).as_deref(),
            Some("j"),
            "no architecture, no feature"
        );
        assert_eq!(task(&cluster), Some(Task::Fetch));
        exit_on(&mut cluster, "arm", 1);
        let record = cluster.record("j");
        assert_eq!(
            (record.state, record.failures, record.past().fetch_misses),
            (JobState::Pending, 0, misses)
        );
    }
    assert_eq!(ask_as(&mut cluster, "arm", JobKind::Build), None, "now it needs its own architecture");
    assert_eq!(ask_as(&mut cluster, "w", JobKind::Build).as_deref(), Some("j"));
    assert_eq!(task(&cluster), None);
    exit_on(&mut cluster, "w", 0);
    assert_eq!(cluster.state("j"), JobState::Completed);
}

#[test]
fn a_fetchable_job_that_is_found_is_done() {
    let mut cluster = farm(FARM);
    cluster.at(0.0).submit(&fetchable("x86_64"));
    assert_eq!(ask_as(&mut cluster, "arm", JobKind::Build).as_deref(), Some("j"));
    exit_on(&mut cluster, "arm", 0);
    assert_eq!(cluster.state("j"), JobState::Completed);
}

#[test]
fn a_fetchable_job_that_nobody_can_build_is_looked_for_with_a_pause_until_somebody_can() {
    let mut cluster = farm(FARM);
    cluster.at(0.0).submit(&fetchable("riscv64"));
    for _ in 0..2 {
        assert_eq!(ask_as(&mut cluster, "w", JobKind::Build).as_deref(), Some("j"));
        exit_on(&mut cluster, "w", 1);
    }
    assert_eq!(ask_as(&mut cluster, "w", JobKind::Build), None, "stalled: the pause");
    cluster.keep_alive(29.999);
    assert_eq!(ask_as(&mut cluster, "w", JobKind::Build), None);
    cluster.run_until(30.0);
    assert_eq!(ask_as(&mut cluster, "w", JobKind::Build).as_deref(), Some("j"));
    assert_eq!(task(&cluster), Some(Task::Fetch), "still builtin");
    exit_on(&mut cluster, "w", 1);
    assert_eq!(cluster.record("j").job.retry_at.map(|at| at.as_millis()), Some(90_000), "the pause doubles");
    let text = r#"nodes = [{ id = "r", architectures = ["riscv64"], features = ["kvm"] }]"#;
    let node = parse(text, Format::Toml).unwrap().nodes()[0].clone();
    let pool = PoolId::new("p").unwrap();
    cluster.done(Input::Join { pool, node: Box::new(node), running: None });
    assert_eq!(ask_as(&mut cluster, "w", JobKind::Build), None);
    assert_eq!(
        ask_as(&mut cluster, "r", JobKind::Build).as_deref(),
        Some("j"),
        "nobody waits for a pause now"
    );
    assert_eq!(task(&cluster), None);
}

#[test]
fn an_eval_with_both_tasks_is_split_while_somebody_idles_who_can_only_evaluate() {
    let both = r#"nodes = [{ id = "w", fetch = true, eval = true, architectures = [] }]"#;
    let eval = r#"jobs = [{ id = "j", kind = "eval", fetch_task = true, evaluate_task = true }]"#;
    let mut whole = farm(both);
    whole.at(0.0).submit(eval);
    assert_eq!(ask_as(&mut whole, "w", JobKind::Eval).as_deref(), Some("j"));
    assert_eq!(task(&whole), None, "nobody else could evaluate it");
    let apart = r#"nodes = [{ id = "f", fetch = true, architectures = [] }, { id = "e", eval = true, architectures = [] }]"#;
    let mut split = farm(apart);
    split.at(0.0).submit(eval);
    assert_eq!(ask_as(&mut split, "e", JobKind::Eval), None, "it has to be fetched first");
    assert_eq!(ask_as(&mut split, "f", JobKind::Eval).as_deref(), Some("j"));
    assert_eq!(task(&split), Some(Task::Fetch));
    exit_on(&mut split, "f", 0);
    let record = split.record("j");
    assert_eq!((record.state, record.failures, record.requeues), (JobState::Pending, 0, 0));
    assert_eq!(ask_as(&mut split, "e", JobKind::Eval).as_deref(), Some("j"));
    assert_eq!(task(&split), Some(Task::Evaluate));
    exit_on(&mut split, "e", 0);
    assert_eq!(split.state("j"), JobState::Completed);
}

#[test]
fn failed_starts_use_up_no_attempts() {
    let mut cluster = farm(WORKER);
    cluster.at(0.0).submit(&build("j"));
    let take = |cluster: &mut Cluster| {
        fetched(cluster, "j");
        assert_eq!(work(&ask(cluster)).as_deref(), Some("j"));
    };
    for _ in 0..2 {
        take(&mut cluster);
        cluster.report("j", "w", Report::Refused(StartRefusal::Failed));
    }
    take(&mut cluster);
    cluster.start("j");
    let usage = Box::new(RunUsage::default());
    cluster.report("j", "w", Report::Exited { code: 1, failure: Some(Failure::Transient), usage });
    let record = cluster.record("j");
    assert_eq!((record.state, record.failures, record.start_failures), (JobState::Pending, 1, 2));
    // The wait is that of a first failure.
    assert_eq!(record.job.retry_at.map(|at| at.as_millis()), Some(30_000));
}
