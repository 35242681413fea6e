//! A small cluster, driven by a seed, whose steps are what a server would store.

use std::collections::VecDeque;
use std::sync::Arc;

use landfall_engine::Fence;
use landfall_engine::heartbeat::Heartbeat;
use landfall_engine::input::{Report, RunUsage, Submission};
use landfall_engine::{Effect, Engine, Input, State};
use landfall_model::{
    Dispatch, Gpu, Job, JobId, JobSpec, Mib, MilliCpu, Millis, Node, NodeId, Pool, PoolId, Tenant, TenantId,
    Time,
};
use landfall_store::{Batch, Change, Table};
use landfall_testkit::Rng;

/// The cluster and what its nodes will say next.
pub(crate) struct Script {
    engine: Engine,
    rng: Rng,
    now: Time,
    next_job: u64,
    specs: Vec<Arc<JobSpec>>,
    nodes: Vec<NodeId>,
    running: Vec<(Fence, NodeId)>,
    ended: Vec<JobId>,
    todo: VecDeque<Input>,
}

/// Submissions pause at so many jobs, so that long scripts stay fast.
const JOBS_PER_NODE: usize = 20;

const POOLS: [(&str, Dispatch); 2] = [("batch", Dispatch::Batch), ("push", Dispatch::Push)];

fn pool_id(name: &str) -> PoolId {
    PoolId::new(name).expect("a valid id")
}

impl Script {
    /// A new cluster of two pools with so many nodes in each.
    pub(crate) fn new(seed: u64, nodes: usize) -> Self {
        let mut script = Self::of(Engine::new(), seed);
        script.todo.push_back(Input::TakeOver);
        for tenant in 0..4 {
            let tenant = Tenant::new(TenantId::new(&format!("t{tenant}")).expect("a valid id"));
            script.todo.push_back(Input::SetTenant(Box::new(tenant)));
        }
        for (name, dispatch) in POOLS {
            let pool = Box::new(Pool::new(pool_id(name), dispatch));
            script.todo.push_back(Input::SetPool { pool, policy: None });
            for number in 0..nodes {
                let node = Box::new(node(name, number));
                script.nodes.push(node.id.clone());
                script.todo.push_back(Input::Join { pool: pool_id(name), node, running: None });
            }
        }
        script
    }

    /// Goes on from what was loaded, as a server does that starts again.
    pub(crate) fn resume(state: State, seed: u64) -> Self {
        let mut script = Self::of(Engine::of(state), seed);
        let state = script.engine.state();
        script.now = state.now;
        script.nodes = state.places.keys().cloned().collect();
        script.next_job = state.version * 1000;
        for record in state.jobs.values() {
            let fence = state.fence(record);
            let nodes = record.run.iter().flat_map(|run| &run.nodes);
            script.running.extend(nodes.map(|at| (fence.clone(), at.node.clone())));
        }
        script
    }

    fn of(engine: Engine, seed: u64) -> Self {
        Self {
            engine,
            rng: Rng::new(seed),
            now: Time::ZERO,
            next_job: 0,
            specs: (0..24).map(|class| Arc::new(spec(class))).collect(),
            nodes: Vec::new(),
            running: Vec::new(),
            ended: Vec::new(),
            todo: VecDeque::new(),
        }
    }

    pub(crate) fn state(&self) -> &State {
        self.engine.state()
    }

    /// One step of the engine, as the batch that a server would store.
    pub(crate) fn turn(&mut self) -> Batch {
        let mut changes = Vec::new();
        let input = self.todo.pop_front().unwrap_or_else(|| self.next_input(&mut changes));
        let outcome = self.engine.step(self.now, input);
        for effect in outcome.effects {
            if let Effect::Start { fence, node, .. } = effect {
                self.running.push((fence.clone(), node.clone()));
                self.todo.push_back(Input::Report { node, fence, report: Report::Started });
            }
        }
        Batch {
            at: outcome.at,
            epoch: self.engine.state().epoch,
            events: outcome.events.into_iter().map(|event| (outcome.at, event)).collect(),
            changes,
        }
    }

    /// Several steps in one batch.
    pub(crate) fn turns(&mut self, turns: usize) -> Batch {
        let mut all = self.turn();
        for _ in 1..turns {
            let batch = self.turn();
            (all.at, all.epoch) = (batch.at, batch.epoch);
            all.events.extend(batch.events);
            all.changes.extend(batch.changes);
        }
        all
    }

    fn next_input(&mut self, changes: &mut Vec<Change>) -> Input {
        self.now = self.now + Millis::new(1 + self.rng.word() % 300);
        match self.rng.below(20) {
            0..7 if self.engine.state().jobs.len() < self.nodes.len() * JOBS_PER_NODE => self.submit(changes),
            7..12 if !self.running.is_empty() => {
                let at = self.rng.index(self.running.len());
                let (fence, node) = self.running.swap_remove(at);
                self.ended.push(fence.job.clone());
                let code = i32::from(self.rng.below(5) == 0);
                let report = Report::Exited { code, failure: None, usage: Box::new(RunUsage::default()) };
                Input::Report { node, fence, report }
            }
            12 if !self.running.is_empty() => {
                let at = self.rng.index(self.running.len());
                Input::Cancel(self.running[at].0.job.clone())
            }
            13..17 => match self.ended.pop() {
                Some(job) => {
                    changes.push(Change::delete(Table::Jobs, job.as_str()));
                    changes.push(Change::put(Table::Archive, job.as_str(), b"ended".as_slice()));
                    Input::Forget(job)
                }
                None => Input::Tick,
            },
            0..19 if !self.nodes.is_empty() => {
                let node = self.nodes[self.rng.index(self.nodes.len())].clone();
                // One that says nothing new would be no event.
                let heartbeat = Heartbeat { active: Some(self.rng.below(1000)), ..Heartbeat::default() };
                Input::Heartbeat { node, heartbeat: Box::new(heartbeat), running: Vec::new() }
            }
            _ => Input::Tick,
        }
    }

    fn submit(&mut self, changes: &mut Vec<Change>) -> Input {
        let class = self.rng.index(self.specs.len());
        let id = JobId::new(&format!("job-{:012}", self.next_job)).expect("a valid id");
        self.next_job += 1;
        changes.push(Change::put(Table::Jobs, id.as_str(), format!("payload of {id}").into_bytes()));
        let mut submission = Submission::new(Job::new(id, self.specs[class].clone(), self.now));
        submission.pool = Some(pool_id(POOLS[class % 2].0));
        Input::Submit(vec![submission])
    }
}

fn spec(class: usize) -> JobSpec {
    let mut spec = JobSpec::empty();
    spec.tenant = TenantId::new(&format!("t{}", class % 4)).ok();
    spec.cpu_milli = MilliCpu::cores(1 + (class % 8) as u64);
    spec.ram_mib = Mib::gib(1 + (class % 5) as u64 * 4);
    spec.priority = (class % 3) as i32;
    if class.is_multiple_of(2) {
        spec.exclusive = true;
        (spec.nodes.min, spec.nodes.max) = ([1, 1, 2, 3][class / 2 % 4], [1, 1, 2, 3][class / 2 % 4]);
        spec.walltime_ms = Millis::secs(600 * (1 + (class % 6) as u64));
    } else {
        spec.gpu_count = (class % 3) as u32;
        spec.vram_mib = Mib::gib(u64::from(spec.gpu_count) * 10);
    }
    spec
}

fn node(pool: &str, number: usize) -> Node {
    let id = NodeId::new(&format!("{pool}-{number:04}")).expect("a valid id");
    let mut node = Node::new(id, MilliCpu::cores(64), Mib::gib(512));
    node.gpus = (0..4).map(|index| Gpu::new(index, None, Some(Mib::gib(80)))).collect();
    node.max_concurrent = 8;
    node
}
