//! The driver with a real journal and an agent that is played by the test.

use std::path::Path;

use landfall_api::agent::{Ask, Command, ReportItem, Reports};
use landfall_api::job::{DependsOn, JobRequest};
use landfall_api::node::{Heartbeat, Registration};
use landfall_engine::input::Report;
use landfall_engine::{Answer, Fence, Input};
use landfall_model::{Dispatch, Indices, JobId, MilliCpu, Name, NodeId, Pool, PoolId};
use landfall_store::Store as _;
use landfall_store::sqlite::Sqlite;
use tempfile::TempDir;
use tokio::sync::mpsc::Receiver;

use super::nodes::{Most, Registering};
use super::{Caller, Failure, Handle, JobFilter};
use crate::config::{Config, PoolConfig};

/// A server without HTTP.
struct Bench {
    handle: Handle,
    thread: Option<super::Driver>,
}

fn config(dir: &Path, dispatch: Dispatch) -> Config {
    let pool = Pool::new(PoolId::new("default").unwrap(), dispatch);
    Config { pools: vec![PoolConfig { pool, policy: None }], ..Config::new(dir.to_path_buf()) }
}

fn start(config: &Config) -> Bench {
    let store = Sqlite::open(&config.data_dir).unwrap();
    let (handle, _, thread) = super::start(config, Box::new(store)).unwrap();
    Bench { handle, thread: Some(thread) }
}

/// A server with one node, and what its agent is told.
async fn with_node(dispatch: Dispatch) -> (TempDir, Bench, Receiver<Command>) {
    let dir = TempDir::new().unwrap();
    let bench = start(&config(dir.path(), dispatch));
    let commands = bench.join("n1").await;
    (dir, bench, commands)
}

impl Bench {
    async fn end(mut self) {
        self.handle.close().await;
        self.thread.take().unwrap().join().unwrap().unwrap();
    }

    async fn join(&self, node: &str) -> Receiver<Command> {
        self.join_running(node, Vec::new()).await
    }

    async fn join_running(&self, node: &str, running: Vec<Fence>) -> Receiver<Command> {
        let id = NodeId::new(node).unwrap();
        let commands = self.handle.connections().open(id.clone());
        let heartbeat = Heartbeat {
            epoch: 1,
            seq: 1,
            running,
            platform: "desktop".into(),
            accepting: true,
            cpu_milli: 2000,
            ram_mib: 4096,
            performance_estimates: landfall_api::node::PerformanceEstimates {
                supported_runtimes: vec!["process".into()],
                ..Default::default()
            },
            ..Heartbeat::default()
        };
        let registration = Registration { heartbeat, max_concurrent: Some(2), ..Registration::default() };
        self.handle
            .register(Registering { node: id, registration, journal: None, most: Most::default() })
            .await
            .unwrap();
        commands
    }

    async fn submit(&self, job: JobRequest) -> Result<String, Failure> {
        self.handle.submit(Caller::default(), job, None).await.map(|submitted| submitted.id)
    }

    async fn report(&self, node: &str, fence: &Fence, report: Report) -> String {
        let reports = Reports { reports: vec![ReportItem::new(fence.clone(), report)], ask: 0 };
        let answers = self.handle.reports(NodeId::new(node).unwrap(), reports).await.unwrap();
        answers.answers[0].clone()
    }

    async fn state(&self, job: &str) -> String {
        let id = JobId::new(job).unwrap();
        self.handle.read(move |view| view.job(&id)).await.unwrap().unwrap().state
    }
}

fn job(cpu_milli: u64) -> JobRequest {
    let mut job = JobRequest::default();
    job.needs.cpu_milli = Some(MilliCpu::new(cpu_milli));
    job.run.command = vec!["true".into()];
    job
}

fn exited(code: i32) -> Report {
    Report::Exited { code, failure: None, usage: Box::default() }
}

async fn started(commands: &mut Receiver<Command>) -> Fence {
    loop {
        match commands.recv().await.expect("a command") {
            Command::Start(start) => return start.fence,
            Command::Ping | Command::Work => {}
            other => panic!("a start was expected, not {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_job_goes_to_a_node_and_its_end_is_kept() {
    let dir = TempDir::new().unwrap();
    let config = config(dir.path(), Dispatch::Push);
    let bench = start(&config);
    let mut commands = bench.join("n1").await;
    let id = bench.submit(job(1000)).await.unwrap();
    let fence = started(&mut commands).await;
    assert_eq!(fence.job.as_str(), id);
    assert_eq!(bench.report("n1", &fence, Report::Started).await, "done");
    assert_eq!(bench.state(&id).await, "running");
    assert_eq!(bench.report("n1", &fence, exited(0)).await, "done");
    assert_eq!(bench.state(&id).await, "completed");
    bench.end().await;

    let bench = start(&config);
    assert_eq!(bench.state(&id).await, "completed");
    let next = bench.submit(job(1000)).await.unwrap();
    assert_eq!(next, "2", "numbers go on after a restart");
    bench.end().await;
}

#[tokio::test]
async fn a_running_job_goes_on_when_the_server_comes_back() {
    let dir = TempDir::new().unwrap();
    let config = config(dir.path(), Dispatch::Push);
    let bench = start(&config);
    let mut commands = bench.join("n1").await;
    let id = bench.submit(job(1000)).await.unwrap();
    let fence = started(&mut commands).await;
    bench.report("n1", &fence, Report::Started).await;
    bench.end().await;

    let bench = start(&config);
    assert_eq!(
        bench.report("n1", &fence, exited(3)).await,
        "done",
        "the epoch of a start is not that of its end"
    );
    let id = JobId::new(&id).unwrap();
    let view = bench.handle.read(move |view| view.job(&id)).await.unwrap().unwrap();
    assert_eq!((view.state.as_str(), view.exit_code), ("failed", Some(3)));
    assert_eq!(view.nodes[0].node, "n1");
    bench.end().await;
}

#[tokio::test]
async fn the_same_key_gives_the_same_job_and_another_request_is_refused() {
    let dir = TempDir::new().unwrap();
    let config = config(dir.path(), Dispatch::Push);
    let bench = start(&config);
    let key = || Some("k".to_owned());
    let submit = |job| bench.handle.submit(Caller::default(), job, key());
    let first = submit(job(1000)).await.unwrap();
    let again = submit(job(1000)).await.unwrap();
    assert_eq!((again.id, again.repeated), (first.id.clone(), true));
    let Err(Failure::Refused(422, error)) = submit(job(2000)).await else { panic!("not refused") };
    assert_eq!(error.code, "idempotency_mismatch");
    bench.end().await;
    let bench = start(&config);
    let again = bench.handle.submit(Caller::default(), job(1000), key()).await.unwrap();
    assert_eq!((again.id, again.repeated), (first.id, true), "also after a restart");
    bench.end().await;
}

#[tokio::test]
async fn what_makes_no_sense_names_its_field() {
    let dir = TempDir::new().unwrap();
    let bench = start(&config(dir.path(), Dispatch::Push));
    let with = |change: fn(&mut JobRequest)| {
        let mut job = job(1000);
        change(&mut job);
        job
    };
    let cases: [(JobRequest, &str, &str); 8] = [
        (with(|j| j.needs.class = Some(11)), "invalid_needs", "needs.class"),
        (with(|j| j.needs.provider = Name::new("nope").ok()), "invalid_needs", "needs.provider"),
        (with(|j| j.needs.pool = PoolId::new("nope").ok()), "unknown_pool", "needs.pool"),
        (with(|j| j.run.command.clear()), "invalid", "run.command"),
        (with(|j| drop(j.run.env.insert("A=B".into(), String::new()))), "invalid", "run.env"),
        (with(|j| j.name = Some("a\u{7}".into())), "invalid", "name"),
        (with(|j| j.workload = Some("w".into())), "unknown_workload", "workload"),
        (
            with(|j| j.depends_on.push(DependsOn { on: "77".into(), kind: Default::default() })),
            "unknown_job",
            "depends_on[0].on",
        ),
    ];
    for (job, code, field) in cases {
        let Err(Failure::Refused(422, error)) = bench.submit(job).await else { panic!("{code} not refused") };
        assert_eq!((error.code.as_str(), error.field.as_deref()), (code, Some(field)), "{error}");
    }
    // Nothing of them is left.
    let page = bench.handle.read(|view| view.jobs(&JobFilter::default())).await.unwrap();
    assert!(page.items.is_empty());
    assert_eq!(bench.submit(job(1000)).await.unwrap(), "1");
    bench.end().await;
}

#[tokio::test]
async fn jobs_of_a_dag_name_each_other_and_follow_each_other() {
    let (_dir, bench, mut commands) = with_node(Dispatch::Push).await;
    let first = JobRequest { key: Some("a".into()), ..job(1000) };
    let depends_on = vec![DependsOn { on: "a".into(), kind: Default::default() }];
    let second = JobRequest { key: Some("b".into()), depends_on, ..job(1000) };
    let dag = landfall_api::job::DagRequest { jobs: vec![first, second] };
    let dag = bench.handle.submit_dag(Caller::default(), dag, None).await.unwrap();
    let fence = started(&mut commands).await;
    assert_eq!(fence.job.as_str(), dag.jobs[0].id);
    assert_eq!(bench.state(&dag.jobs[1].id).await, "pending");
    bench.report("n1", &fence, exited(0)).await;
    assert_eq!(started(&mut commands).await.job.as_str(), dag.jobs[1].id);
    bench.end().await;
}

#[tokio::test]
async fn an_array_runs_all_its_elements_in_order_and_counts_them() {
    let (_dir, bench, mut commands) = with_node(Dispatch::Push).await;
    let array = Some(Indices::range(1, 30, 1));
    let id = bench.submit(JobRequest { array, ..job(1000) }).await.unwrap();
    for index in 1..=30 {
        let fence = started(&mut commands).await;
        assert_eq!(fence.job.as_str(), format!("{id}.{index:02}"));
        bench.report("n1", &fence, exited(i32::from(index == 7))).await;
    }
    let view = bench.handle.read(move |view| view.array(&id)).await.unwrap().unwrap();
    assert_eq!((view.total, view.completed, view.failed, view.pending), (30, 29, 1, 0));
    bench.end().await;
}

#[tokio::test]
async fn a_pull_worker_gets_work_when_it_asks_and_is_told_when_there_is_some() {
    let (_dir, bench, mut commands) = with_node(Dispatch::Pull).await;
    let node = NodeId::new("n1").unwrap();
    let ask = || bench.handle.ask_for_work(node.clone(), Ask { kind: "build".into(), slots: 5 });
    let asked = ask().await.unwrap();
    assert!(asked.granted.is_empty() && asked.reason.is_some(), "{asked:?}");
    for _ in 0..3 {
        bench.submit(job(100)).await.unwrap();
    }
    assert_eq!(commands.recv().await, Some(Command::Work));
    let asked = ask().await.unwrap();
    assert_eq!(asked.granted.len(), 2, "two at once are its limit: {asked:?}");
    started(&mut commands).await;
    bench.end().await;
}

#[tokio::test]
async fn pages_follow_each_other_without_gaps_newest_first() {
    let (_dir, bench, mut commands) = with_node(Dispatch::Push).await;
    for _ in 0..25 {
        bench.submit(job(1000)).await.unwrap();
    }
    for _ in 0..5 {
        let fence = started(&mut commands).await;
        bench.report("n1", &fence, exited(0)).await;
    }
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let filter = JobFilter { limit: 4, cursor: cursor.take(), ..JobFilter::default() };
        let page = bench.handle.read(move |view| view.jobs(&filter)).await.unwrap();
        seen.extend(page.items.iter().map(|job| job.id.parse::<u32>().unwrap()));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, (1..=25).rev().collect::<Vec<_>>());
    let ended = JobFilter { states: vec!["ended".into()], limit: 100, ..JobFilter::default() };
    let page = bench.handle.read(move |view| view.jobs(&ended)).await.unwrap();
    assert_eq!(page.items.len(), 5);
    bench.end().await;
}

#[tokio::test]
async fn ended_jobs_leave_the_memory_and_can_still_be_asked_about() {
    let dir = TempDir::new().unwrap();
    let config = Config { ended_in_memory: 2, ..config(dir.path(), Dispatch::Push) };
    let bench = start(&config);
    let mut commands = bench.join("n1").await;
    for _ in 0..6 {
        bench.submit(job(2000)).await.unwrap();
        let fence = started(&mut commands).await;
        bench.report("n1", &fence, exited(0)).await;
    }
    bench.handle.apply(Input::Tick).await.unwrap();
    let known = bench.handle.read(|view| view.engine.state().jobs.len()).await.unwrap();
    assert!(known <= 3, "{known} jobs are in memory");
    assert_eq!(bench.state("1").await, "completed");
    let mut after = job(100);
    after.depends_on = vec![DependsOn { on: "1".into(), kind: Default::default() }];
    let id = bench.submit(after).await.unwrap();
    assert_eq!(bench.state(&id).await, "staging", "what it waited for completed long ago");
    let refused = bench.handle.apply(Input::Cancel(JobId::new("99").unwrap())).await.unwrap();
    assert!(matches!(refused, Answer::Refused(_)));
    bench.end().await;
}

#[tokio::test]
async fn a_full_disk_refuses_and_what_was_accepted_before_is_all_there() {
    let dir = TempDir::new().unwrap();
    let config = config(dir.path(), Dispatch::Push);
    let options = landfall_store::sqlite::Options { max_bytes: Some(400_000) };
    let store = Sqlite::open_with(&config.data_dir, options).unwrap();
    let (handle, _, thread) = super::start(&config, Box::new(store)).unwrap();
    let bench = Bench { handle, thread: Some(thread) };
    let mut accepted = 0;
    let refused = loop {
        let mut job = job(1000);
        job.run.env.insert("BALLAST".into(), format!("{accepted:0>20000}"));
        match bench.submit(job).await {
            Ok(_) => accepted += 1,
            Err(failure) => break failure,
        }
        assert!(accepted < 1000, "the disk is never full");
    };
    assert!(matches!(refused, Failure::Storage(_)), "{refused:?}");
    let known = bench.handle.read(|view| view.engine.state().jobs.len()).await.unwrap();
    assert_eq!(known, accepted, "the memory is what is on disk");
    bench.end().await;
    let bench = start(&config);
    let known = bench.handle.read(|view| view.engine.state().jobs.len()).await.unwrap();
    assert_eq!(known, accepted);
    assert_eq!(bench.submit(job(1000)).await.unwrap(), (accepted + 1).to_string());
    bench.end().await;
}

#[tokio::test]
async fn a_stale_report_is_answered_by_one_stop_however_often_it_comes() {
    let (_dir, bench, mut commands) = with_node(Dispatch::Push).await;
    bench.submit(job(1000)).await.unwrap();
    let fence = started(&mut commands).await;
    bench.report("n1", &fence, Report::Started).await;
    bench.report("n1", &fence, exited(0)).await;
    for _ in 0..500 {
        assert_eq!(bench.report("n1", &fence, Report::Checkpointed).await, "stale_fence");
    }
    let mut stops = 0;
    while let Ok(command) = commands.try_recv() {
        stops += usize::from(matches!(command, Command::Stop { .. }));
    }
    assert!((1..10).contains(&stops), "{stops} stops");
    bench.end().await;
}

#[tokio::test]
async fn a_journal_whose_pool_stages_opens_and_stages_nothing() {
    let dir = TempDir::new().unwrap();
    let config = config(dir.path(), Dispatch::Batch);
    start(&config).end().await;
    let mut store = Sqlite::open(&config.data_dir).unwrap();
    let mut pool = config.pools[0].pool.clone();
    pool.id = PoolId::new("old").unwrap();
    pool.batch.staging = true;
    let epoch = store.load().unwrap().state.epoch;
    let event = landfall_engine::Event::PoolSet { pool: Box::new(pool.clone()), policy: None };
    let batch = landfall_store::Batch {
        epoch,
        events: vec![(landfall_model::Time::ZERO, event)],
        ..Default::default()
    };
    store.append(&batch).unwrap();
    drop(store);
    let bench = start(&config);
    let stages = bench.handle.read(|view| view.engine.state().pools["old"].pool.batch.staging).await;
    assert!(!stages.unwrap());
    let set = bench.handle.apply(Input::SetPool { pool: Box::new(pool), policy: None }).await.unwrap();
    assert!(matches!(set, Answer::Refused(refused) if refused.code == "staging_unsupported"));
    bench.end().await;
}

#[tokio::test]
async fn a_walltime_is_told_where_it_is_enforced_and_whenever_it_changes() {
    async fn told(commands: &mut Receiver<Command>) -> (Fence, Option<u64>) {
        loop {
            if let Command::Start(start) = commands.recv().await.expect("a command") {
                return (start.fence, start.walltime_ms);
            }
        }
    }
    for dispatch in [Dispatch::Push, Dispatch::Batch] {
        let (_dir, bench, mut commands) = with_node(dispatch).await;
        let id = JobId::new(&bench.submit(job(1000)).await.unwrap()).unwrap();
        let set = |secs| Input::SetWalltime { job: id.clone(), walltime: landfall_model::Millis::secs(secs) };
        let (fence, walltime) = told(&mut commands).await;
        if dispatch == Dispatch::Push {
            assert_eq!(walltime, None);
            let refused = bench.handle.apply(set(60)).await.unwrap();
            assert!(matches!(refused, Answer::Refused(refused) if refused.code == "walltime_unsupported"));
            bench.end().await;
            continue;
        }
        assert_eq!(walltime, Some(3_600_000));
        assert_eq!(bench.report("n1", &fence, Report::Started).await, "done");
        assert_eq!(bench.handle.apply(set(60)).await.unwrap(), Answer::Done);
        assert_eq!(told(&mut commands).await, (fence.clone(), Some(60_000)));
        // One that was away then hears of it when it listens again.
        let mut commands = bench.join_running("n1", vec![fence.clone()]).await;
        let running = vec![fence.clone()];
        let beat =
            Heartbeat { epoch: 1, seq: 2, running, cpu_milli: 2000, ram_mib: 4096, ..Heartbeat::default() };
        bench.handle.heartbeat(NodeId::new("n1").unwrap(), beat, Most::default()).await.unwrap();
        assert_eq!(told(&mut commands).await, (fence, Some(60_000)));
        bench.end().await;
    }
}

#[test]
fn what_another_server_stored_is_not_taken_over() {
    let dir = TempDir::new().unwrap();
    let config = config(dir.path(), Dispatch::Push);
    let store = Box::new(Sqlite::open(dir.path()).unwrap());
    let mut core = super::core::Core::open(
        &config,
        store,
        Default::default(),
        Default::default(),
        &crate::clock::Clock::start,
    )
    .unwrap();
    core.set_up(&config).unwrap();
    core.commit().unwrap();
    core.go_back();
    assert!(core.fenced().is_none());
    // As if it had begun before the server whose epoch is stored.
    core.engine = landfall_engine::Engine::new();
    core.go_back();
    let fenced = core.fenced();
    assert!(
        matches!(fenced, Some(landfall_store::StoreError::Fenced { epoch: 0, highest: 1 })),
        "{fenced:?}"
    );
}

/// What a decision takes on disk and in memory. `LANDFALL_DECISIONS=1000000 LANDFALL_NODES=10000 cargo test -p landfall-server --lib
/// keeps_is_bounded -- --nocapture` prints what docs/performance.md tells; each takes the same however many there are.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_decision_keeps_is_bounded() {
    use landfall_engine::{Event, codec};
    let number = |name, usual| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (nodes, wanted): (usize, usize) = (number("LANDFALL_NODES", 50), number("LANDFALL_DECISIONS", 250));
    let resident = || {
        let pages: u64 = std::fs::read_to_string("/proc/self/statm")
            .ok()
            .and_then(|text| text.split(' ').nth(1)?.parse().ok())
            .unwrap_or(0);
        pages * 4096 / 1_000_000
    };
    let dir = TempDir::new().unwrap();
    let mut config = config(dir.path(), Dispatch::Push);
    // A million decisions take minutes, and these nodes say nothing meanwhile.
    config.pools[0].pool.heartbeats = false;
    let bench = std::sync::Arc::new(start(&config));
    let size = async || bench.handle.read(|view| view.store.size_bytes()).await.unwrap().unwrap();
    for first in (0..nodes).step_by(500) {
        let joins = (first..nodes.min(first + 500)).map(|node| {
            let bench = bench.clone();
            tokio::spawn(async move { drop(bench.join(&format!("node-{node:05}")).await) })
        });
        for join in joins.collect::<Vec<_>>() {
            join.await.unwrap();
        }
    }
    let (before, memory) = (size().await, resident());
    let mut jobs = 0;
    while jobs < wanted {
        // Ten classes, so that what is kept ready for each is counted too.
        let batch = (jobs..wanted.min(jobs + 500.min(2 * nodes))).map(|n| {
            let bench = bench.clone();
            tokio::spawn(async move { bench.submit(job(500 + 50 * (n as u64 % 10))).await.unwrap() })
        });
        let batch: Vec<_> = batch.collect();
        jobs += batch.len();
        for submitted in batch {
            submitted.await.unwrap();
        }
        // A node has room for two. Where more are wanted, jobs end and others take their places.
        if wanted > nodes {
            let runs = bench.handle.read(|view| {
                let state = view.engine.state();
                let on = |record: &landfall_engine::record::JobRecord| {
                    Some((record.run.as_ref()?.nodes.first()?.node.clone(), state.fence(record)))
                };
                state.jobs.values().filter_map(|record| on(record)).collect::<Vec<_>>()
            });
            let reports = runs.await.unwrap().into_iter().map(|(node, fence)| {
                let bench = bench.clone();
                tokio::spawn(async move { bench.report(node.as_str(), &fence, exited(0)).await })
            });
            for report in reports.collect::<Vec<_>>() {
                assert_eq!(report.await.unwrap(), "done");
            }
        }
    }
    let (after, then) = (size().await, resident());
    let (mut decisions, mut with, mut without) = (0u64, 0usize, 0usize);
    let mut store = Sqlite::open_reader(dir.path()).unwrap();
    let mut at = 0;
    loop {
        let page = store.events(at, 10_000).unwrap();
        let Some(last) = page.last() else { break };
        at = last.seq;
        for stored in page {
            let Event::Committed(mut commit) = stored.event else { continue };
            let bytes = |commit: &landfall_engine::event::Commit| {
                let mut bytes = Vec::new();
                codec::write_event(&mut bytes, 0, &Event::Committed(Box::new(commit.clone()))).unwrap();
                bytes.len()
            };
            decisions += 1;
            with += bytes(&commit);
            commit.beside = None;
            without += bytes(&commit);
        }
    }
    let each = |bytes: usize| bytes as u64 / decisions.max(1);
    println!(
        "{nodes} nodes, {decisions} decisions, of which {} bytes each before packing, {} without what was looked at",
        each(with),
        each(without)
    );
    println!(
        "the journal grew by {} bytes per job with its submission, {} MB for a million",
        (after - before) / decisions.max(1),
        (after - before) / decisions.max(1)
    );
    println!("memory: {memory} MB with the nodes, {then} MB with all decisions made");
    assert!(decisions as usize >= wanted);
    assert!(with > without, "something is kept");
    assert!(each(with) < 2500, "and not much: a handful of runners-up, not all nodes");
}

#[tokio::test]
async fn a_repeat_in_the_same_round_is_known_however_many_keys_came_before() {
    use futures::StreamExt as _;
    let dir = TempDir::new().unwrap();
    let bench = start(&config(dir.path(), Dispatch::Push));
    let submit = |key: String| bench.handle.submit(Caller::default(), job(1000), Some(key));
    // One less than are kept in memory.
    let many = (0..9_999).map(|number| submit(format!("key-{number}")));
    let accepted =
        futures::stream::iter(many).buffer_unordered(200).filter(|it| std::future::ready(it.is_ok()));
    assert_eq!(accepted.count().await, 9_999);
    // While the driver answers a question, the others come together and share a round.
    let question = bench.handle.read(|_| std::thread::sleep(std::time::Duration::from_millis(300)));
    let together = async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let [x, y, again] = ["x", "y", "x"].map(|key| submit(key.to_owned()));
        tokio::join!(x, y, again)
    };
    let (_, (first, _, again)) = tokio::join!(question, together);
    let (first, again) = (first.unwrap(), again.unwrap());
    assert_eq!((again.repeated, again.id), (true, first.id));
    bench.end().await;
}
