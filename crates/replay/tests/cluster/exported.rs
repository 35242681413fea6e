//! A server's journal becomes a trace, and the trace makes the same decisions again. The server is an engine with a late clock and
//! agents that take their time, in virtual time, so that many seeds can be tried.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_engine::dag::{Edge, EdgeKind};
use landfall_engine::input::{NodeOrder, Report, RunUsage, Submission};
use landfall_engine::{Effect, Engine, Event, Fence, Input};
use landfall_model::scenario::{Format, parse};
use landfall_model::{Indices, Job, JobId, JobSpec, MilliCpu, Millis, NodeId, PoolId, TenantId, Time};
use landfall_replay::decisions::Decisions;
use landfall_replay::subject::{Chosen, Cluster, Cycles, PolicyKind, Subject};
use landfall_replay::trace::journal::Recorder;
use landfall_replay::trace::own::{Header, Trace, Writer};
use landfall_replay::trace::random::Random;

const CYCLE_MS: i64 = 5000;

const CLUSTER: &str = r#"
now_ms = 0
pools = [
  { id = "quick", dispatch = "push", heartbeats = false },
  { id = "hpc", dispatch = "batch", heartbeats = false, batch = { cycle_ms = 5000, min_run_ms = 0 } },
]
tenants = [{ id = "red", share = 0.6 }, { id = "blue", share = 0.4, max_nodes = 2 }]
nodes = [
  { id = "q", count = 2, pool = "quick", cpu_milli = 2000, ram_mib = 4096 },
  { id = "h", count = 3, pool = "hpc", cpu_milli = 2000, ram_mib = 4096, group = "rack", fingerprint = "f" },
]
"#;

/// A server that lives through a drawn hour, with everything that its journal would hold.
struct Server {
    engine: Engine,
    draws: Random,
    now: Time,
    /// What is to come, by when and in which order it was caused.
    agenda: BTreeMap<(Time, u64), Input>,
    caused: u64,
    journal: Vec<(Time, Event)>,
}

impl Server {
    fn draw(&mut self, from: u64, to: u64) -> u64 {
        from + self.draws.below(to - from + 1)
    }

    fn later(&mut self, at: Time, input: Input) {
        self.caused += 1;
        self.agenda.insert((at, self.caused), input);
    }

    fn step(&mut self, input: Input) {
        let outcome = self.engine.step(self.now, input);
        for effect in outcome.effects {
            let (node, fence, report, most) = match effect {
                Effect::Start { fence, node, .. } => (node, fence, Report::Started, 60),
                Effect::Stop { fence, node, .. } => (node, fence, Report::Stopped, 40),
                _ => continue,
            };
            let at = self.now + Millis::new(self.draw(1, most));
            self.later(at, Input::Report { node, fence, report });
        }
        for event in &outcome.events {
            if let Event::Started(job) = event {
                self.ends(job);
            }
        }
        self.journal.extend(outcome.events.into_iter().map(|event| (outcome.at, event)));
    }

    fn ends(&mut self, job: &JobId) {
        let state = self.engine.state();
        let Some(record) = state.job(job) else { return };
        let fence: Fence = state.fence(record);
        let nodes: Vec<NodeId> =
            record.run.iter().flat_map(|run| &run.nodes).map(|at| at.node.clone()).collect();
        let at = self.now + Millis::new(self.draw(50, 20_000));
        let code = i32::from(self.draw(0, 9) == 0);
        for node in nodes {
            let usage = Box::new(RunUsage::default());
            let report = Report::Exited { code, failure: None, usage };
            self.later(at, Input::Report { node, fence: fence.clone(), report });
        }
    }

    /// Runs until nothing is left to do; a busy server is late.
    fn run(&mut self) {
        loop {
            let late = Millis::new(self.draw(0, 30));
            let wake = self.engine.next_wake().map(|at| at + late);
            let next = self.agenda.keys().next().map(|(at, _)| *at);
            match (next, wake) {
                (Some(at), wake) if wake.is_none_or(|wake| at <= wake) => {
                    let Some((_, input)) = self.agenda.pop_first() else { return };
                    self.now = self.now.max(at);
                    self.step(input);
                }
                (_, Some(wake)) if next.is_some() || self.engine.waiting_in(&pool("hpc")) > 0 => {
                    self.now = self.now.max(wake);
                    self.step(Input::Tick);
                }
                _ => return,
            }
        }
    }
}

fn pool(id: &str) -> PoolId {
    PoolId::new(id).expect("an id")
}

fn submission(server: &mut Server, number: u64) -> Input {
    let name = ["quick", "hpc"][server.draw(0, 1) as usize];
    let spec = JobSpec {
        pool: Some(pool(name)),
        // Jobs wait for those of their own tenant only.
        tenant: TenantId::new(["red", "blue"][(number / 5 % 2) as usize]).ok(),
        cpu_milli: MilliCpu::new(server.draw(1, 2) * 1000),
        walltime_ms: Millis::secs(server.draw(20, 60)),
        ..JobSpec::empty()
    };
    let id = JobId::new(&format!("{number:03}")).expect("an id");
    let mut one = Submission::new(Job::new(id, Arc::new(spec), Time::ZERO));
    if !number.is_multiple_of(5) && server.draw(0, 2) == 0 {
        let on = JobId::new(&format!("{:03}", number - 1)).expect("an id");
        one.edges.push(Edge { on, kind: EdgeKind::Any });
    }
    if server.draw(0, 9) == 0 {
        return Input::SubmitArray { submission: Box::new(one), indices: Indices::range(1, 9, 2) };
    }
    Input::Submit(vec![one])
}

fn live(seed: u64) -> Vec<(Time, Event)> {
    let situation = parse(CLUSTER, Format::Toml).expect("a scenario");
    let start = Time::from_secs(1_800_000_000);
    let (engine, draws) = (Engine::new(), Random::new(seed));
    let mut server =
        Server { engine, draws, now: start, agenda: BTreeMap::new(), caused: 0, journal: Vec::new() };
    for one in situation.world.pools.values() {
        server.step(Input::SetPool { pool: Box::new(one.clone()), policy: None });
    }
    for tenant in situation.world.tenants.values() {
        server.step(Input::SetTenant(Box::new(tenant.clone())));
    }
    for node in situation.nodes() {
        let input = Input::Join {
            pool: node.pool.clone().expect("a pool"),
            node: Box::new(node.clone()),
            running: None,
        };
        server.step(input);
    }
    let mut at = start + Millis::new(12_345);
    for number in 0..60 {
        let input = submission(&mut server, number);
        server.later(at, input);
        let job = JobId::new(&format!("{number:03}")).expect("an id");
        match number {
            20 => server.later(
                at,
                Input::Order { node: NodeId::new("h-1").expect("an id"), order: NodeOrder::Drain },
            ),
            35 => server.later(
                at,
                Input::Order { node: NodeId::new("h-1").expect("an id"), order: NodeOrder::Return },
            ),
            _ if server.draw(0, 9) == 0 => {
                let when = at + Millis::new(server.draw(1, 9000));
                server.later(when, Input::Cancel(job));
            }
            _ => {}
        }
        at = at + Millis::new(server.draw(0, 3000));
    }
    server.run();
    server.journal
}

/// When each attempt was decided, in order.
fn starts(rows: impl Iterator<Item = (i64, String)>) -> Vec<((String, usize), i64)> {
    let mut attempts: BTreeMap<String, usize> = BTreeMap::new();
    rows.map(|(at, job)| {
        let attempt = attempts.entry(job.clone()).or_default();
        *attempt += 1;
        ((job, *attempt), at)
    })
    .collect()
}

fn exported(journal: &[(Time, Event)]) -> Trace {
    let mut recorder = Recorder::new(None);
    for (seq, (at, event)) in (1..).zip(journal) {
        recorder.take(seq, *at, event.clone());
    }
    let recorded = recorder.finish(journal.last().map_or(Time::ZERO, |(at, _)| *at));
    let mut writer = Writer::new(Vec::new(), &Header::default()).expect("memory");
    recorded.records.iter().for_each(|record| writer.record(record).expect("memory"));
    Trace::read(writer.into_inner().as_slice()).expect("what is written is read")
}

fn replayed(trace: Trace, what: PolicyKind) -> Vec<((String, usize), i64)> {
    let cluster = Subject::Cluster(Box::new(Cluster {
        name: "live".into(),
        nodes: trace.nodes.clone(),
        node_order: Vec::new(),
        world: Default::default(),
        trace,
        cycles: Cycles::AsTold,
        inputs_sha256: BTreeMap::new(),
    }));
    let mut log = Vec::new();
    let policy = Chosen { name: "own".into(), what, sha256: None };
    let decisions = Decisions::new(Some(&mut log));
    cluster.run(&policy, 0, decisions, &mut |_| true).expect("a replay");
    let lines = log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let rows = lines.map(|line| {
        let row: serde_json::Value = serde_json::from_slice(line).expect("JSON");
        (row["at_ms"].as_i64().expect("an instant"), row["job"].as_str().expect("a job").to_owned())
    });
    starts(rows)
}

#[test]
fn the_same_jobs_start_in_the_same_order_within_a_cycle() {
    let (mut all, mut exact) = (0, 0);
    for seed in 0..20 {
        let journal = live(seed);
        let origin = journal
            .iter()
            .find(|(_, event)| matches!(event, Event::Submitted { .. } | Event::ArraySubmitted { .. }));
        let origin = origin.map_or(0, |(at, _)| at.as_millis());
        let commits = journal.iter().filter_map(|(at, event)| match event {
            Event::Committed(commit) => Some((at.as_millis() - origin, commit.job.to_string())),
            _ => None,
        });
        let before = starts(commits);
        let again: BTreeMap<_, _> = replayed(exported(&journal), PolicyKind::Own).into_iter().collect();
        assert_eq!(before.len(), again.len(), "seed {seed}");
        for (job, at) in &before {
            let off = again.get(job).map(|again| (again - at).abs());
            assert!(off.is_some_and(|off| off <= CYCLE_MS), "seed {seed}: {job:?} is {off:?} off");
            all += 1;
            exact += usize::from(off == Some(0));
        }
        for (first, earlier) in &before {
            for (second, _) in before.iter().filter(|(_, later)| *later > earlier + CYCLE_MS) {
                assert!(again[first] < again[second], "seed {seed}: {first:?} and {second:?} changed places");
            }
        }
    }
    println!("{exact} of {all} starts at the very millisecond");
    assert!(exact * 100 >= all * 95, "{exact} of {all} starts at the very millisecond");
}

#[test]
fn another_policy_decides_in_the_pools_it_is_made_for() {
    let trace = exported(&live(1));
    let spec = landfall_policy::builtin::spec("balanced").expect("built in").expect("it compiles");
    let starts = replayed(trace.clone(), PolicyKind::Spec(Box::new(spec)));
    assert!(starts.len() > 60, "{}", starts.len());
    assert_ne!(
        starts,
        replayed(trace, PolicyKind::Own),
        "cycles on the beat are not those of the busy server"
    );
}
