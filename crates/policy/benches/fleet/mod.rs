//! Seeded fleets and queues for benchmarks and properties: small in tests, large in benchmarks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_model::gpu_table::GpuModel;
use landfall_model::{
    Block, BlockId, BlockStatus, Bytes, Capabilities, Checkpoint, FeatureNeed, Gpu, Input, Job, JobId,
    JobKind, JobReport, JobSpec, Metrics, Mib, MilliCpu, MilliGpu, Millis, MixShare, Money, Name, Node,
    NodeId, Offload, Peer, Placement, Prediction, Provider, Scope, Tenant, TenantId, Thermal, Tier, Time,
    Warmth, WorkloadId, World,
};
use landfall_testkit::Rng;

/// Hardware: cores, RAM in GiB, GPU model, GPUs, GPU memory in GiB.
const SHAPES: [(u64, u64, &str, u16, u64); 14] = [
    (8, 32, "", 0, 0),
    (16, 64, "", 0, 0),
    (64, 256, "", 0, 0),
    (128, 512, "", 0, 0),
    (16, 64, "NVIDIA GeForce RTX 3060", 1, 12),
    (16, 64, "NVIDIA GeForce RTX 3090", 1, 24),
    (24, 96, "NVIDIA GeForce RTX 4070", 2, 12),
    (32, 128, "NVIDIA GeForce RTX 4090", 2, 24),
    (32, 128, "NVIDIA L4", 4, 24),
    (48, 192, "NVIDIA A10", 4, 24),
    (64, 256, "NVIDIA A40", 4, 48),
    (64, 512, "NVIDIA A100-SXM4-80GB", 8, 80),
    (96, 768, "NVIDIA H100 80GB HBM3", 8, 80),
    (96, 1024, "Mystery accelerator", 8, 141),
];

const REGIONS: [&str; 4] = ["eu", "uk", "us", "ap"];
const RUNTIMES: [&str; 5] = ["container", "llmcpp", "wasm", "onnx", "diffusers"];

/// A name; equal names share their text, as names from one file do.
pub(crate) fn name(text: &str) -> Name {
    thread_local! {
        static NAMES: RefCell<BTreeMap<String, Name>> = RefCell::default();
    }
    NAMES.with_borrow_mut(|names| {
        names.entry(text.to_owned()).or_insert_with(|| Name::new(text).expect("a valid name")).clone()
    })
}

/// A fleet with its world and the classes of jobs that come to it.
#[derive(Debug, Clone)]
pub(crate) struct Fleet {
    pub(crate) now: Time,
    pub(crate) nodes: Vec<Node>,
    pub(crate) tie_ranks: Vec<u32>,
    pub(crate) world: World,
    pub(crate) specs: Vec<Arc<JobSpec>>,
}

impl Fleet {
    /// So many nodes of mixed hardware under random load, and so many classes of jobs.
    pub(crate) fn new(seed: u64, nodes: usize, classes: usize) -> Self {
        let mut rng = Rng::new(seed);
        let now = Time::from_secs(10_000_000);
        let models: Vec<Arc<GpuModel>> = SHAPES.iter().map(|shape| model(shape.2)).collect();
        let blocks: Vec<Arc<Block>> =
            (0..nodes.div_ceil(8)).map(|i| Arc::new(block(&mut rng, i, now))).collect();
        let specs: Vec<Arc<JobSpec>> = (0..classes).map(|i| Arc::new(spec(&mut rng, i))).collect();
        let mut fleet = Self {
            now,
            nodes: (0..nodes).map(|i| node(&mut rng, i, now, &models, &blocks)).collect(),
            tie_ranks: (0..nodes as u32).collect(),
            world: world(&mut rng, &specs),
            specs,
        };
        fleet.load(&mut rng);
        fleet
    }

    /// Puts random jobs on random nodes until about two thirds of the attempts per node are spent.
    fn load(&mut self, rng: &mut Rng) {
        for attempt in 0..self.nodes.len() * 4 {
            let slot = rng.index(self.nodes.len());
            let spec = self.specs[rng.index(self.specs.len())].clone();
            let id = JobId::new(&format!("load-{attempt}")).expect("a valid id");
            place_anywhere(&mut self.nodes[slot], id, &spec);
        }
    }

    /// A job of a random class.
    pub(crate) fn job(&self, rng: &mut Rng, number: usize) -> Job {
        let spec = self.specs[rng.index(self.specs.len())].clone();
        Job::new(JobId::new(&format!("job-{number}")).expect("a valid id"), spec, self.now)
    }
}

/// Puts a job on the first devices that take it, if any do.
pub(crate) fn place_anywhere(node: &mut Node, id: JobId, spec: &JobSpec) -> bool {
    let devices: Vec<u16> = node
        .gpus
        .iter()
        .filter(|gpu| gpu.milli_free() >= spec.gpu_milli && gpu.vram_free() >= spec.vram_mib)
        .map(|gpu| gpu.index)
        .take(spec.gpu_count as usize)
        .collect();
    devices.len() == spec.gpu_count as usize && node.place(Placement::of(id, spec, &devices)).is_ok()
}

fn model(text: &str) -> Arc<GpuModel> {
    GpuModel::new(name(if text.is_empty() { "none" } else { text }))
}

fn block(rng: &mut Rng, i: usize, now: Time) -> Block {
    let hours = rng.choose(&[1, 2, 6, 24, 24 * 7, 24 * 30]);
    Block {
        id: BlockId::new(&format!("block-{i}")).expect("a valid id"),
        provider: name(rng.choose(&["prime", "sfcompute", "elsewhere"])),
        instance_type: None,
        tier: if rng.one_in(5) { Tier::Flex } else { Tier::Fast },
        status: if rng.one_in(50) { BlockStatus::Pending } else { BlockStatus::Active },
        start_at: rng.one_in(20).then(|| now + Millis::secs(rng.below(60))),
        end_at: (!rng.one_in(3)).then(|| now + Millis::secs(hours * 3600 + rng.below(3600))),
        drain_deadline: None,
        cost_per_hour: Money::ZERO,
        preemptible: false,
    }
}

fn node(rng: &mut Rng, i: usize, now: Time, models: &[Arc<GpuModel>], blocks: &[Arc<Block>]) -> Node {
    let shape = rng.index(SHAPES.len());
    let (cores, ram, _, gpus, vram) = SHAPES[shape];
    let mut node = Node::new(
        NodeId::new(&format!("node-{i:07}")).expect("a valid id"),
        MilliCpu::cores(cores),
        Mib::gib(ram),
    );
    node.gpus = (0..gpus)
        .map(|index| {
            let mut gpu = Gpu::new(index, Some(models[shape].clone()), Some(Mib::gib(vram)));
            gpu.link_group = Some(index / 4);
            if rng.one_in(12) {
                gpu.vram_reported = Mib::gib(rng.below(vram));
            }
            gpu
        })
        .collect();
    node.block = (!rng.one_in(4)).then(|| blocks[i / 8].clone());
    node.region = (!rng.one_in(10)).then(|| name(rng.choose(&REGIONS)));
    node.runtimes = RUNTIMES.iter().filter(|_| !rng.one_in(10)).map(|runtime| name(runtime)).collect();
    node.karma = rng.below(20) as i64 - 5;
    node.heartbeat_at = Some(now - Millis::new(rng.below(33_000)));
    node.cooldown_until = rng.one_in(20).then(|| now + Millis::secs(rng.below(120)));
    node.accepting = !rng.one_in(40);
    node.active_reported = rng.below(3);
    node.health.thermal = rng.one_in(10).then_some(Thermal::Serious);
    node.cache = (0..3).filter(|_| rng.one_in(3)).map(|w| workload(w * 7)).collect();
    node.group = Some(name(&format!("rack-{}", i / 32)));
    node.fingerprint = (!rng.one_in(10)).then(|| name(rng.choose(&["p", "p", "p", "q"])));
    node.metrics = (!rng.one_in(8)).then(|| Metrics {
        cpu_count: cores as u32,
        cpu_core_score: 500 + rng.below(2000) as u32,
        ram_total_mib: Mib::gib(ram),
        ram_free_mib: (!rng.one_in(5)).then(|| Mib::new(rng.below(ram * 1024))),
        cpu_usage_pct: (!rng.one_in(5)).then(|| rng.below(100) as f64),
        disk_mb_s: rng.one_in(2).then(|| rng.below(1000) as f64),
        network_mbit_s: rng.one_in(2).then(|| rng.below(1000) as f64),
    });
    node.capabilities = (!rng.one_in(10)).then(|| Capabilities {
        architectures: ["x86_64", "aarch64"]
            .iter()
            .filter(|_| !rng.one_in(3))
            .map(|arch| name(arch))
            .collect(),
        fetch: rng.one_in(2),
        eval: !rng.one_in(3),
    });
    node.features = ["kvm", "big-parallel"].iter().filter(|_| !rng.one_in(3)).map(|f| (name(f), 1)).collect();
    node.peer = Some(Box::new(Peer {
        trust: rng.below(11) as f64 / 10.0,
        queued: rng.below(12),
        rtt_ms: (!rng.one_in(4)).then(|| rng.below(600) as f64),
        scope: rng.choose(&[Scope::Local, Scope::Cell, Scope::Org, Scope::Federation, Scope::Commons]),
        data: ["d1", "d2", "d3"].iter().filter(|_| rng.one_in(2)).map(|d| name(d)).collect(),
        ..Peer::default()
    }));
    node
}

fn workload(number: usize) -> WorkloadId {
    WorkloadId::new(&format!("workload-{number}")).expect("a valid id")
}

fn spec(rng: &mut Rng, i: usize) -> JobSpec {
    let mut spec = JobSpec::empty();
    spec.workload = Some(workload(i));
    spec.tenant = Some(TenantId::new(rng.choose(&["red", "green", "blue"])).expect("a valid id"));
    spec.runtime = name(RUNTIMES[i % RUNTIMES.len()]);
    spec.cpu_milli = MilliCpu::new(rng.choose(&[0, 500, 1000, 2000, 4000, 8000, 16_000]));
    spec.ram_mib = Mib::new(rng.choose(&[512, 2048, 4096, 8192, 16_384, 65_536]));
    if !i.is_multiple_of(3) {
        spec.gpu_count = rng.choose(&[1, 1, 1, 2, 4, 8]);
        spec.vram_mib = Mib::gib(rng.choose(&[4, 8, 10, 16, 20, 40]));
        if spec.gpu_count == 1 && rng.one_in(2) {
            spec.gpu_milli = MilliGpu::new(rng.choose(&[100, 250, 300, 500, 700]));
        }
    }
    spec.offload = if rng.one_in(2) { Offload::Allow } else { Offload::Never };
    spec.region = rng.one_in(2).then(|| name(rng.choose(&REGIONS)));
    spec.expected_duration_ms = Millis::secs(rng.choose(&[60, 600, 3600, 7200, 36_000]));
    spec.walltime_ms = spec.expected_duration_ms;
    spec.priority = rng.below(5) as i32;
    spec.tier = if rng.one_in(4) { Tier::Flex } else { Tier::Fast };
    spec.class = rng.below(10) as u8;
    spec.kind = if rng.one_in(4) { JobKind::Eval } else { JobKind::Build };
    spec.architecture = name(rng.choose(&["x86_64", "aarch64", "builtin"]));
    spec.features =
        if rng.one_in(4) { vec![FeatureNeed { name: name("kvm"), count: 1 }] } else { Vec::new() };
    spec.fetch_task = rng.one_in(2);
    spec.evaluate_task = rng.one_in(2);
    spec.prefer_local = rng.one_in(3);
    spec.network_bound = rng.one_in(4);
    spec.dependents = rng.below(40);
    spec.direct_inputs = rng.below(40);
    spec.inputs = rng.one_in(2).then(|| {
        let tiers = [Warmth::Hot, Warmth::Cold];
        let input = |rng: &mut Rng| Input {
            digest: name("d1"),
            bytes: Some(Bytes::new(rng.below(1 << 30))),
            tier: rng.choose(&tiers),
        };
        vec![input(rng), input(rng)]
    });
    spec.checkpoint = rng.choose(&[Checkpoint::None, Checkpoint::Auto, Checkpoint::Manual]);
    spec.hints.data = if rng.one_in(2) { vec![name("d1"), name("d2")] } else { Vec::new() };
    spec.hints.prefer_regions = if rng.one_in(3) { vec![name("eu")] } else { Vec::new() };
    spec.max_cost = rng.one_in(3).then_some(12);
    spec
}

fn world(rng: &mut Rng, specs: &[Arc<JobSpec>]) -> World {
    let mut world = World { providers: Provider::defaults(), ..World::default() };
    world.regions.insert(name("eu"), vec![name("uk"), name("us")]);
    world.regions.insert(name("us"), vec![name("eu")]);
    for (id, share) in [("red", 0.5), ("green", 0.25), ("blue", 0.0)] {
        let mut tenant = Tenant::new(TenantId::new(id).expect("a valid id"));
        (tenant.share, tenant.usage, tenant.work_share) = (share, 0.3, Some(share));
        tenant.budget.gpu_hours = (id == "red").then_some(100.0);
        tenant.budget.gpu_hours_used = 95.0;
        world.tenants.insert(tenant.id.clone(), tenant);
    }
    for spec in specs {
        let Some(workload) = spec.workload.clone().filter(|_| rng.one_in(2)) else { continue };
        let prediction = Prediction {
            predicted_peak_ram_mib: Mib::new(rng.below(64_000)),
            avg_cpu_time_ms: Millis::new(rng.below(200_000)),
            build_time_ms: Millis::new(rng.below(200_000)),
            avg_disk_bytes: Bytes::new(rng.below(1 << 30)),
            oom_rate: rng.below(11) as f64 / 10.0,
            samples: rng.below(30),
        };
        world.predictions.insert(workload, prediction);
    }
    world.instance.wait_secs.h1 = rng.one_in(2).then(|| rng.below(300) as f64);
    world.instance.missing_inputs.h1 = rng.one_in(2).then(|| rng.below(50) as f64);
    (world.instance.total_nodes, world.instance.idle_nodes) = (10, rng.below(10));
    world.energy_price = Some(0.3);
    let gpu_specs: Vec<&Arc<JobSpec>> = specs.iter().take(20).collect();
    world.mix = gpu_specs
        .iter()
        .map(|spec| MixShare {
            share: 1.0 / gpu_specs.len() as f64,
            gpu_count: spec.gpu_count,
            gpu_milli: spec.gpu_milli,
            cpu_milli: spec.cpu_milli,
            gpu_models: Vec::new(),
            rare: false,
        })
        .collect();
    world
}

/// A queue of jobs with some minutes between the oldest and the newest, and reports from some nodes for some classes.
pub(crate) fn queue(fleet: &mut Fleet, seed: u64, jobs: usize) -> Vec<Job> {
    let mut rng = Rng::new(seed);
    (0..jobs)
        .map(|number| {
            let mut job = fleet.job(&mut rng, number);
            job.ready_at = fleet.now - Millis::new(rng.below(900_000));
            job.queued_at = job.ready_at;
            job.rescore_count = rng.choose(&[0, 4, 9]);
            report(fleet, &job);
            job
        })
        .collect()
}

/// What the first nodes report for a job. Jobs with the same inputs miss the same on a node, so reports follow the class.
pub(crate) fn report(fleet: &mut Fleet, job: &Job) {
    if job.spec.dependents.is_multiple_of(2) {
        let missing = job.spec.direct_inputs;
        let report = JobReport { missing_inputs: Some(missing % 7), missing_bytes: Some(missing << 24) };
        let reports = fleet.nodes.iter().take(4).map(|node| (node.id.clone(), report)).collect();
        fleet.world.reports.insert(job.id.clone(), reports);
    }
}
