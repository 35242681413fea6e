//! A seeded cluster that a benchmark drives.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use landfall_engine::Fence;
use landfall_engine::input::{Input, Report, RunUsage, Submission};
use landfall_engine::{Answer, Effect, Engine};
use landfall_model::{
    Dispatch, Gpu, Indices, Job, JobId, JobKind, JobSpec, Mib, MilliCpu, Millis, Name, Node, NodeId, Pool,
    PoolId, Tenant, TenantId, Time,
};
use landfall_testkit::Rng;

/// A way to dispatch that has nodes and a queue in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Push,
    Pull,
    Batch,
}

impl Mode {
    pub(crate) const ALL: [Self; 3] = [Self::Push, Self::Pull, Self::Batch];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Pull => "pull",
            Self::Batch => "batch",
        }
    }
}

const CLASSES: usize = 40;
/// Jobs that end between two cycles of a batch pool.
const ENDS_PER_CYCLE: usize = 50;

pub(crate) struct Cluster {
    engine: Engine,
    mode: Mode,
    rng: Rng,
    now: Time,
    classes: Vec<Arc<JobSpec>>,
    /// Attempts that run, with a node each.
    running: Vec<(Fence, Vec<NodeId>)>,
    workers: VecDeque<NodeId>,
    heard_at: Time,
    next_job: u64,
    /// How long the last input took by itself, without what nodes answered to its effects.
    pub(crate) last: Duration,
    /// The same in CPU time of this thread, which others on the machine do not lengthen.
    pub(crate) last_cpu: Duration,
    pub(crate) steps: u64,
    pub(crate) events: u64,
}

/// CPU time of this thread.
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

impl Cluster {
    pub(crate) fn new(mode: Mode, nodes: usize) -> Self {
        let mut cluster = Self {
            engine: Engine::new(),
            mode,
            rng: Rng::new(2026),
            now: Time::ZERO,
            classes: (0..CLASSES).map(|class| Arc::new(spec(mode, class))).collect(),
            running: Vec::new(),
            workers: VecDeque::new(),
            heard_at: Time::ZERO,
            next_job: 0,
            last: Duration::ZERO,
            last_cpu: Duration::ZERO,
            steps: 0,
            events: 0,
        };
        let dispatch = match mode {
            Mode::Push => Dispatch::Push,
            Mode::Pull => Dispatch::Pull,
            Mode::Batch => Dispatch::Batch,
        };
        let mut pool = Pool::new(PoolId::new("pool").expect("a valid id"), dispatch);
        pool.policy = Some(name(match mode {
            Mode::Push => "bin-pack",
            Mode::Pull => "resource-aware",
            Mode::Batch => "balanced",
        }));
        let id = pool.id.clone();
        cluster.step(Input::SetPool { pool: Box::new(pool), policy: None });
        for tenant in 0..8 {
            let mut tenant = Tenant::new(TenantId::new(&format!("t{tenant}")).expect("a valid id"));
            tenant.share = 0.125;
            cluster.step(Input::SetTenant(Box::new(tenant)));
        }
        for number in 0..nodes {
            let node = node(mode, number);
            cluster.workers.push_back(node.id.clone());
            cluster.step(Input::Join { pool: id.clone(), node: Box::new(node), running: None });
        }
        cluster
    }

    fn step(&mut self, input: Input) -> Answer {
        // Only cycles are measured one by one: asking for the CPU time takes as long as a tenth of a step.
        let begin = (self.mode == Mode::Batch).then(|| (Instant::now(), cpu_time()));
        let outcome = self.engine.step(self.now, input);
        let took = begin.map(|(begin, cpu)| (begin.elapsed(), cpu_time().saturating_sub(cpu)));
        self.steps += 1;
        self.events += outcome.events.len() as u64;
        let mut started: Vec<(Fence, NodeId)> = Vec::new();
        for effect in outcome.effects {
            if let Effect::Start { fence, node, .. } = effect {
                started.push((fence, node));
            }
        }
        for (fence, node) in started {
            match self.running.last_mut().filter(|(known, _)| *known == fence) {
                Some((_, nodes)) => nodes.push(node.clone()),
                None => self.running.push((fence.clone(), vec![node.clone()])),
            }
            self.step(Input::Report { node, fence, report: Report::Started });
        }
        (self.last, self.last_cpu) = took.unwrap_or_default();
        outcome.answer
    }

    fn submit(&mut self) {
        let class = self.rng.index(CLASSES);
        let id = JobId::new(&format!("job-{:09}", self.next_job)).expect("a valid id");
        self.next_job += 1;
        let job = Job::new(id, self.classes[class].clone(), self.now);
        self.step(Input::Submit(vec![Submission::new(job)]));
    }

    /// Submits until the pool is full.
    pub(crate) fn fill(&mut self) {
        if self.mode == Mode::Pull {
            self.queue(self.workers.len() * 8);
            return self.ask_all();
        }
        let mut missed = 0;
        while missed < 3 * CLASSES {
            let before = self.running.len();
            for _ in 0..CLASSES {
                self.submit();
            }
            match self.mode {
                Mode::Push | Mode::Pull => {}
                Mode::Batch => self.cycle(),
            }
            missed = if self.running.len() == before { missed + CLASSES } else { 0 };
        }
    }

    /// Every worker takes what it can; jobs that nobody reported on have waited long enough by then.
    fn ask_all(&mut self) {
        self.let_rounds_pass();
        for node in self.workers.clone() {
            while matches!(
                self.step(Input::Ask { node: node.clone(), kind: JobKind::Build }),
                Answer::Work(_)
            ) {}
        }
    }

    /// Submits so many jobs that wait.
    pub(crate) fn queue(&mut self, jobs: usize) {
        for _ in 0..jobs {
            self.submit();
        }
    }

    /// Submits one array of so many elements, each of one core.
    pub(crate) fn array(&mut self, elements: u32) {
        let mut spec = JobSpec::empty();
        spec.tenant = TenantId::new("t0").ok();
        spec.cpu_milli = MilliCpu::cores(1);
        spec.ram_mib = Mib::gib(1);
        spec.exclusive = false;
        let id = JobId::new(&format!("array-{}", self.next_job)).expect("a valid id");
        self.next_job += 1;
        let submission = Box::new(Submission::new(Job::new(id, Arc::new(spec), self.now)));
        self.step(Input::SubmitArray { submission, indices: Indices::range(1, elements, 1) });
    }

    /// Runs elements to their end and forgets them until so many have; gives how many did.
    pub(crate) fn run_elements(&mut self, wanted: usize) -> usize {
        let mut ended = 0;
        while ended < wanted {
            if self.running.is_empty() && self.mode == Mode::Batch {
                self.cycle();
            }
            if self.running.is_empty() {
                break;
            }
            self.now = self.now + Millis::new(1);
            self.end_one();
            ended += 1;
        }
        ended
    }

    /// Bytes of the state as a snapshot.
    pub(crate) fn snapshot_bytes(&self) -> usize {
        let mut bytes = Vec::new();
        ciborium::into_writer(self.engine.state(), &mut bytes).expect("a state can be written");
        bytes.len()
    }

    /// Lets enough timer rounds of a pull pool pass that no job is held back for want of a report.
    pub(crate) fn let_rounds_pass(&mut self) {
        for _ in 0..5 {
            self.now = self.now + Millis::secs(5);
            self.heartbeats();
            self.step(Input::Tick);
        }
    }

    /// Every node says that it is there, before any falls silent.
    fn heartbeats(&mut self) {
        if self.now.since(self.heard_at) < Millis::secs(20) {
            return;
        }
        self.heard_at = self.now;
        for node in self.workers.clone() {
            self.step(Input::Heartbeat { node, heartbeat: Box::default(), running: Vec::new() });
        }
    }

    /// Runs one cycle of a batch pool.
    pub(crate) fn cycle(&mut self) {
        self.heartbeats();
        self.now =
            self.engine.state().pools.values().next().map_or(self.now, |pool| pool.next_cycle.max(self.now));
        self.step(Input::Tick);
    }

    fn end_one(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let at = self.rng.index(self.running.len());
        let (fence, nodes) = self.running.swap_remove(at);
        let job = fence.job.clone();
        for node in &nodes {
            let report = Report::Exited { code: 0, failure: None, usage: Box::new(RunUsage::default()) };
            self.step(Input::Report { node: node.clone(), fence: fence.clone(), report });
        }
        self.step(Input::Forget(job));
        if self.mode == Mode::Pull {
            let node = nodes[0].clone();
            self.step(Input::Ask { node, kind: JobKind::Build });
        }
    }

    /// Ends jobs and submits as many, until about so many steps were made.
    pub(crate) fn turn_over(&mut self, steps: usize) {
        let until = self.steps + steps as u64;
        let mut ends = 0;
        while self.steps < until {
            self.now = self.now + Millis::new(10);
            self.heartbeats();
            self.end_one();
            self.submit();
            ends += 1;
            if self.mode == Mode::Batch && ends % ENDS_PER_CYCLE == 0 {
                self.cycle();
            }
        }
    }

    /// One job ends and one is submitted, and a cycle follows.
    pub(crate) fn cycle_after_a_change(&mut self) {
        self.cycle();
        self.end_one();
        self.submit();
        let pool = self.engine.state().pools.keys().next().cloned();
        pool.into_iter().for_each(|pool| {
            self.step(Input::Cycle(pool));
        });
    }

    /// Ends running jobs without anything in their place.
    pub(crate) fn free_some(&mut self, jobs: usize) {
        for _ in 0..jobs {
            self.end_one();
        }
    }

    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn reserved(&self) -> usize {
        self.engine.state().pools.values().map(|pool| pool.reservations.len()).sum()
    }

    pub(crate) fn free_nodes(&self) -> usize {
        let nodes = self.engine.state().pools.values().flat_map(|pool| &pool.nodes);
        nodes.filter(|node| node.placements.is_empty()).count()
    }
}

fn spec(mode: Mode, class: usize) -> JobSpec {
    let mut spec = JobSpec::empty();
    spec.tenant = TenantId::new(&format!("t{}", class % 8)).ok();
    spec.cpu_milli = MilliCpu::cores(1 + (class % 8) as u64);
    spec.ram_mib = Mib::gib(1 + (class % 5) as u64 * 4);
    spec.priority = (class % 3) as i32;
    spec.exclusive = mode == Mode::Batch;
    match mode {
        Mode::Push => {
            spec.gpu_count = [0, 1, 1, 2, 4, 8][class % 6];
            spec.vram_mib = Mib::gib(if spec.gpu_count == 0 { 0 } else { 10 + (class % 4) as u64 * 10 });
        }
        Mode::Pull => spec.architecture = name(["x86_64", "aarch64", "builtin"][class % 3]),
        Mode::Batch => {
            let nodes = [1, 1, 2, 4, 8, 16, 64][class % 7];
            (spec.nodes.min, spec.nodes.max) = (nodes, nodes);
            spec.gpu_count = (class % 2) as u32 * 4;
            spec.walltime_ms = Millis::secs(1800 * (1 + (class % 12) as u64));
            spec.class = 3 + (class % 4) as u8;
        }
    }
    spec
}

fn node(mode: Mode, number: usize) -> Node {
    let id = NodeId::new(&format!("n{number:06}")).expect("a valid id");
    let mut node = Node::new(id, MilliCpu::cores(64), Mib::gib(512));
    let gpus = match mode {
        Mode::Push => [0, 4, 8][number % 3],
        Mode::Pull => 0,
        Mode::Batch => [4, 8][number % 2],
    };
    node.gpus = (0..gpus).map(|index| Gpu::new(index, None, Some(Mib::gib(80)))).collect();
    node.group = Some(name(&format!("g{:03}", number / 64)));
    node.fingerprint = Some(name(["P", "Q"][usize::from(number.is_multiple_of(10))]));
    node.max_concurrent = 8;
    if mode == Mode::Pull {
        node.capabilities = Some(landfall_model::Capabilities {
            architectures: [name(["x86_64", "aarch64"][number % 2])].into_iter().collect(),
            fetch: true,
            eval: true,
        });
    }
    node
}
