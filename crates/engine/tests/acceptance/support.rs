//! A small cluster that a test drives by hand.

use landfall_engine::Fence;
use landfall_engine::input::{Report, RunUsage, Submission};
use landfall_engine::record::{JobRecord, JobState};
use landfall_engine::{Answer, Effect, Engine, Event, Input, Outcome};
use landfall_model::scenario::{Format, parse};
use landfall_model::{Dispatch, JobId, Node, NodeId, Pool, PoolId, Time};

pub(crate) struct Cluster {
    pub(crate) engine: Engine,
    pub(crate) now: Time,
    pub(crate) last: Option<Outcome>,
    pub(crate) events: Vec<(Time, Event)>,
}

pub(crate) fn job_id(text: &str) -> JobId {
    JobId::new(text).unwrap()
}

pub(crate) fn node_id(text: &str) -> NodeId {
    NodeId::new(text).unwrap()
}

pub(crate) fn pool(dispatch: Dispatch, change: impl FnOnce(&mut Pool)) -> Pool {
    let mut pool = Pool::new(PoolId::new("p").unwrap(), dispatch);
    change(&mut pool);
    pool
}

impl Cluster {
    /// A pool with the nodes and blocks of a scenario.
    pub(crate) fn new(pool: Pool, scenario: &str) -> Self {
        let mut cluster = Self { engine: Engine::new(), now: Time::ZERO, last: None, events: Vec::new() };
        cluster.add_pool(pool, scenario);
        cluster
    }

    pub(crate) fn add_pool(&mut self, pool: Pool, scenario: &str) {
        let situation = parse(scenario, Format::Toml).unwrap();
        let id = pool.id.clone();
        self.done(Input::SetPool { pool: Box::new(pool), policy: None });
        self.done(Input::SetProviders(situation.world.providers.clone()));
        for tenant in situation.world.tenants.values() {
            self.done(Input::SetTenant(Box::new(tenant.clone())));
        }
        for node in situation.nodes() {
            let node: Node = node.clone();
            self.done(Input::Join { pool: id.clone(), node: Box::new(node), running: None });
        }
    }

    pub(crate) fn at(&mut self, secs: f64) -> &mut Self {
        self.now = Time::from_millis((secs * 1000.0).round() as i64);
        self
    }

    pub(crate) fn step(&mut self, input: Input) -> Answer {
        let outcome = self.engine.step(self.now, input);
        let answer = outcome.answer.clone();
        self.events.extend(outcome.events.iter().map(|event| (outcome.at, event.clone())));
        self.last = Some(outcome);
        answer
    }

    pub(crate) fn done(&mut self, input: Input) {
        let answer = self.step(input);
        assert_eq!(answer, Answer::Done);
    }

    /// The code of a refusal.
    pub(crate) fn refused(&mut self, input: Input) -> String {
        match self.step(input) {
            Answer::Refused(refused) => {
                assert!(!refused.message.is_empty() && !refused.hint.is_empty());
                refused.code.into_owned()
            }
            other => panic!("not refused: {other:?}"),
        }
    }

    /// Jobs as a scenario writes them.
    pub(crate) fn jobs(text: &str) -> Vec<Submission> {
        let situation = parse(text, Format::Toml).unwrap();
        situation.jobs().iter().cloned().map(Submission::new).collect()
    }

    pub(crate) fn submit(&mut self, text: &str) {
        for submission in Self::jobs(text) {
            self.done(Input::Submit(vec![submission]));
        }
    }

    /// Submits at the very beginning, and one of the jobs is placed at once and runs.
    pub(crate) fn running(&mut self, job: &str, text: &str) {
        self.at(0.0).submit(text);
        self.run_until(0.0);
        self.start(job);
    }

    pub(crate) fn tick(&mut self) {
        self.done(Input::Tick);
    }

    /// Lets time pass up to an instant, calling the engine whenever it asks for it.
    pub(crate) fn run_until(&mut self, secs: f64) {
        let end = Time::from_millis((secs * 1000.0).round() as i64);
        while let Some(at) = self.engine.next_wake().filter(|at| *at <= end) {
            assert!(at >= self.now, "time goes forwards");
            self.now = at;
            self.tick();
        }
        self.now = end;
    }

    pub(crate) fn record(&self, job: &str) -> &JobRecord {
        self.engine.state().job(&job_id(job)).unwrap()
    }

    pub(crate) fn state(&self, job: &str) -> JobState {
        self.record(job).state
    }

    pub(crate) fn nodes_of(&self, job: &str) -> Vec<String> {
        let run = self.record(job).run.as_ref();
        run.iter().flat_map(|run| &run.nodes).map(|at| at.node.to_string()).collect()
    }

    pub(crate) fn devices_of(&self, job: &str) -> Vec<u16> {
        let record = self.record(job);
        let node = &record.run.as_ref().unwrap().nodes[0].node;
        let (node, _) = self.engine.state().node(node).unwrap();
        let placement = node.placements.iter().find(|placement| placement.job == record.job.id).unwrap();
        placement.devices.iter().map(|share| share.index).collect()
    }

    pub(crate) fn fence(&self, job: &str) -> Fence {
        self.engine.state().fence(self.record(job))
    }

    pub(crate) fn report(&mut self, job: &str, node: &str, report: Report) -> Answer {
        let fence = self.fence(job);
        self.step(Input::Report { node: node_id(node), fence, report })
    }

    /// All nodes of a job say that it runs.
    pub(crate) fn start(&mut self, job: &str) {
        for node in self.nodes_of(job) {
            assert_eq!(self.report(job, &node, Report::Started), Answer::Done);
        }
        assert_eq!(self.state(job), JobState::Running);
    }

    /// All nodes of a job say that it ended.
    pub(crate) fn exit(&mut self, job: &str, code: i32) {
        for node in self.nodes_of(job) {
            let report = Report::Exited { code, failure: None, usage: Box::new(RunUsage::default()) };
            self.report(job, &node, report);
        }
    }

    pub(crate) fn effects(&self) -> &[Effect] {
        self.last.as_ref().map_or(&[], |outcome| &outcome.effects)
    }

    /// Lets time pass with heartbeats, so that no node falls silent.
    pub(crate) fn keep_alive(&mut self, until: f64) {
        let mut at = self.now.as_millis() as f64 / 1000.0;
        while at + 10.0 < until {
            at += 10.0;
            self.run_until(at);
            self.heartbeats();
        }
        self.run_until(until);
        self.heartbeats();
    }

    /// Heartbeats of all nodes, so that none falls silent.
    pub(crate) fn heartbeats(&mut self) {
        let nodes: Vec<NodeId> = self.engine.state().places.keys().cloned().collect();
        for node in nodes {
            self.step(Input::Heartbeat { node, heartbeat: Box::default(), running: Vec::new() });
        }
    }
}
