//! Turns the rows of a scenario file into a situation, checking what the row types cannot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ROWS_MAX;
use super::error::ScenarioError;
use super::rows::{BlockRow, File, GpuRow, JobRow, NodeRow, PeerRow, TenantRow};
use crate::gpu_table::GpuModel;
use crate::{
    Block, BlockId, Budget, Capabilities, DeviceHealth, DeviceShare, Gpu, GpuShape, Job, JobError, JobId,
    JobMaker, JobReport, JobSpec, Links, Metrics, Mib, MilliCpu, MilliGpu, MixShare, Name, Needs, Node,
    NodeId, Peer, Placement, Platform, Provider, Quota, Situation, SituationError, Tenant, Time, WorkloadId,
    World,
};

type Result<T> = std::result::Result<T, ScenarioError>;

/// Highest bandwidth a device may claim, in GB/s.
const BANDWIDTH_MAX: f64 = 20_000.0;
const GPU_INDEX_MAX: usize = 1023;
/// Most devices of one node.
const GPUS_MAX: usize = 64;

pub(super) fn situation(file: File) -> Result<Situation> {
    let now = file.now_ms;
    let mut world =
        World { providers: file.providers.unwrap_or_else(Provider::defaults), ..World::default() };
    for (i, provider) in world.providers.iter().enumerate() {
        if world.providers[..i].iter().any(|other| other.name == provider.name) {
            let message = format!("`{}` is there already", provider.name);
            return Err(
                ScenarioError::at(format!("providers[{i}].name"), message).hint("each name may be used once")
            );
        }
    }
    world.providers.sort_by(|a, b| a.name.cmp(&b.name));
    for (i, row) in file.pools.into_iter().enumerate() {
        row.validate()
            .map_err(|error| ScenarioError::at(format!("pools[{i}].{}", error.field), error.message))?;
        once(&mut world.pools, row.id.clone(), row, || format!("pools[{i}].id"))?;
    }
    for (i, row) in file.tenants.into_iter().enumerate() {
        let tenant = tenant(&row, &format!("tenants[{i}]"))?;
        once(&mut world.tenants, row.id, tenant, || format!("tenants[{i}].id"))?;
    }
    let mut shapes: BTreeMap<BlockId, BlockShape> = BTreeMap::new();
    for (i, row) in file.blocks.into_iter().enumerate() {
        let id = row.id.clone();
        shapes.insert(id.clone(), BlockShape::of(&row));
        let block = block(row, now, &format!("blocks[{i}]"))?;
        once(&mut world.blocks, id, Arc::new(block), || format!("blocks[{i}].id"))?;
    }
    let mut templates: BTreeMap<WorkloadId, Needs> = BTreeMap::new();
    for (i, row) in file.workloads.into_iter().enumerate() {
        let path = format!("workloads[{i}]");
        let mut spec = row.needs.clone().spec().map_err(|error| bad_needs(error, &path))?;
        spec.workload = Some(row.id.clone());
        if let Some(prediction) = row.prediction {
            in_range(prediction.oom_rate, 0.0, 1.0, || format!("{path}.prediction.oom_rate"))?;
            world.predictions.insert(row.id.clone(), prediction);
        }
        templates.insert(row.id.clone(), row.needs);
        once(&mut world.workloads, row.id, Arc::new(spec), || format!("{path}.id"))?;
    }
    for row in file.history {
        world.history.entry(row.workload.clone()).or_default().push_back(row);
    }
    instance(&file.instance)?;
    world.instance = file.instance;
    world.mix = mix(file.mix)?;
    world.regions = file.regions.into_iter().map(|(name, row)| (name, row.adjacent)).collect();
    if let Some(price) = file.energy_price {
        world.energy_price = Some(finite(price, || "energy_price".into())?);
    }
    if let Some(row) = file.backlog {
        let queued = in_range(row.queued_gpu_hours, 0.0, 1e15, || "backlog.queued_gpu_hours".into())?;
        let running = in_range(row.running_gpu_hours, 0.0, 1e15, || "backlog.running_gpu_hours".into())?;
        world.backlog = Some((queued, running));
    }
    for (name, weight) in &file.policy.weights {
        finite(*weight, || format!("policy.weights.{name}"))?;
    }
    world.policy = file.policy;
    for pool in file.policies.keys() {
        known(world.pools.contains_key(pool), pool, "pool", || format!("policies.{pool}"))?;
    }
    world.policies = file.policies;

    let mut models = Models::default();
    let mut nodes = Vec::with_capacity(file.nodes.len());
    for (i, mut row) in file.nodes.into_iter().enumerate() {
        let path = format!("nodes[{i}]");
        if let Some(shape) = row.block.as_ref().and_then(|block| shapes.get(block)) {
            shape.fill(&mut row);
        }
        let (count, id) = (copies(row.count, nodes.len(), &path)?, row.id.clone());
        let first = node(row, now, &world.blocks, &mut models, &path)?;
        match count {
            None => nodes.push(first),
            Some(count) => {
                for copy in 0..count {
                    let id = copy_id(id.as_str(), copy, count, &path, NodeId::new)?;
                    nodes.push(Node { id, ..first.clone() });
                }
            }
        }
    }
    let mut jobs = Vec::with_capacity(file.jobs.len());
    let mut maker = JobMaker::new(world.providers.clone());
    for (i, row) in file.jobs.into_iter().enumerate() {
        let path = format!("jobs[{i}]");
        let (count, id) = (copies(row.count, jobs.len(), &path)?, row.id.clone());
        let first = job(row, now, &templates, &mut maker, &path)?;
        match count {
            None => jobs.push(first),
            Some(count) => {
                for copy in 0..count {
                    let id = copy_id(id.as_str(), copy, count, &path, JobId::new)?;
                    jobs.push(Job { id, ..first.clone() });
                }
            }
        }
    }
    let node_ids: BTreeSet<&NodeId> = nodes.iter().map(|node| &node.id).collect();
    let job_ids: BTreeSet<&JobId> = jobs.iter().map(|job| &job.id).collect();
    for (i, row) in file.reports.into_iter().enumerate() {
        let path = format!("reports[{i}]");
        known(node_ids.contains(&row.node), &row.node, "node", || format!("{path}.node"))?;
        known(job_ids.contains(&row.job), &row.job, "job", || format!("{path}.job"))?;
        let report = JobReport {
            missing_inputs: row.missing_inputs,
            missing_bytes: row.missing_bytes.map(crate::Bytes::get),
        };
        let of_job = world.reports.entry(row.job).or_default();
        once(of_job, row.node, report, || format!("{path}.node"))?;
    }
    for (i, id) in file.node_order.iter().enumerate() {
        if file.node_order[..i].contains(id) {
            return Err(ScenarioError::at(format!("node_order[{i}]"), format!("`{id}` is there already")));
        }
    }
    Situation::new(now, nodes, jobs, &file.node_order, world).map_err(|error| {
        let field = match &error {
            SituationError::NodeTwice(_) => "nodes",
            SituationError::JobTwice(_) => "jobs",
            SituationError::UnknownNode(_) => "node_order",
        };
        ScenarioError::at(field, error.to_string()).hint("each id may be used once")
    })
}

fn once<K: Ord + std::fmt::Display + Clone, V>(
    map: &mut BTreeMap<K, V>,
    key: K,
    value: V,
    path: impl FnOnce() -> String,
) -> Result<()> {
    let name = key.clone();
    match map.insert(key, value) {
        None => Ok(()),
        Some(_) => {
            Err(ScenarioError::at(path(), format!("`{name}` is there already"))
                .hint("each id may be used once"))
        }
    }
}

fn known(found: bool, id: impl std::fmt::Display, what: &str, path: impl FnOnce() -> String) -> Result<()> {
    if found { Ok(()) } else { Err(ScenarioError::at(path(), format!("there is no {what} `{id}`"))) }
}

fn finite(value: f64, path: impl FnOnce() -> String) -> Result<f64> {
    if value.is_finite() {
        return Ok(value);
    }
    Err(ScenarioError::at(path(), format!("{value} is not a finite number"))
        .hint("write a number, or leave the field out"))
}

fn in_range(value: f64, min: f64, max: f64, path: impl FnOnce() -> String) -> Result<f64> {
    if value.is_finite() && (min..=max).contains(&value) {
        return Ok(value);
    }
    Err(ScenarioError::at(path(), format!("{value} is out of range: {min} to {max}")))
}

/// How many copies a row stands for; `None` means just itself.
pub(super) fn copies(count: Option<usize>, so_far: usize, path: &str) -> Result<Option<usize>> {
    let total = so_far.saturating_add(count.unwrap_or(1));
    if total > ROWS_MAX {
        return Err(ScenarioError::at(
            format!("{path}.count"),
            format!("that makes {total} rows, {ROWS_MAX} at most"),
        )
        .hint("split the scenario"));
    }
    if count == Some(0) {
        return Err(ScenarioError::at(format!("{path}.count"), "count must be 1 or more"));
    }
    Ok(count)
}

/// `gpu-07` for the eighth of up to a hundred copies, so that ids sort as they count.
pub(super) fn copy_id<T>(
    id: &str,
    copy: usize,
    count: usize,
    path: &str,
    make: impl Fn(&str) -> std::result::Result<T, crate::IdError>,
) -> Result<T> {
    let width = (count - 1).max(1).ilog10() as usize + 1;
    make(&format!("{id}-{copy:0width$}"))
        .map_err(|error| ScenarioError::at(format!("{path}.id"), error.to_string()))
}

pub(super) fn tenant(row: &TenantRow, path: &str) -> Result<Tenant> {
    let hours = |value: Option<f64>, field: &str| match value {
        Some(value) => in_range(value, 0.0, 1e15, || format!("{path}.{field}")).map(Some),
        None => Ok(None),
    };
    Ok(Tenant {
        id: row.id.clone(),
        share: in_range(row.share, 0.0, 1.0, || format!("{path}.share"))?,
        usage: in_range(row.usage, 0.0, 1e6, || format!("{path}.usage"))?,
        burst: in_range(row.burst, 1.0, 1e6, || format!("{path}.burst"))?,
        work_share: match row.work_share {
            Some(share) => Some(in_range(share, 0.0, 1.0, || format!("{path}.work_share"))?),
            None => None,
        },
        budget: Budget {
            gpu_hours: hours(row.gpu_hours, "gpu_hours")?,
            gpu_hours_used: in_range(row.gpu_hours_used, 0.0, 1e15, || format!("{path}.gpu_hours_used"))?,
            node_hours: hours(row.node_hours, "node_hours")?,
            node_hours_used: in_range(row.node_hours_used, 0.0, 1e15, || format!("{path}.node_hours_used"))?,
            money: row.money,
            money_used: row.money_used,
        },
        quota: Quota {
            max_nodes: hours(row.max_nodes, "max_nodes")?,
            max_cpu_milli: row.max_cpu_milli,
            max_gpus: row.max_gpus,
            max_jobs: row.max_jobs,
            gpu_hours_cap: hours(row.gpu_hours_cap, "gpu_hours_cap")?,
        },
    })
}

/// What the nodes of a block have unless they say otherwise.
struct BlockShape {
    gpus: u16,
    vram: Option<Mib>,
    cpu: Option<MilliCpu>,
    ram: Option<Mib>,
    region: Option<Name>,
}

impl BlockShape {
    fn of(row: &BlockRow) -> Self {
        Self {
            gpus: row.gpus_per_node,
            vram: row.vram_mib_per_gpu,
            cpu: row.cpu_milli_per_node,
            ram: row.ram_mib_per_node,
            region: row.region.clone(),
        }
    }

    fn fill(&self, row: &mut NodeRow) {
        if row.gpus.is_empty() && self.gpus > 0 {
            row.gpus.push(GpuRow { count: Some(self.gpus), vram_mib: self.vram, ..GpuRow::default() });
        }
        for gpu in &mut row.gpus {
            gpu.vram_mib = gpu.vram_mib.or(self.vram);
        }
        row.cpu_milli = row.cpu_milli.or(self.cpu);
        row.ram_mib = row.ram_mib.or(self.ram);
        if row.region.is_none() {
            row.region.clone_from(&self.region);
        }
    }
}

pub(super) fn block(row: BlockRow, now: Time, path: &str) -> Result<Block> {
    if row.end_at_ms.is_some() && row.ends_in_ms.is_some() {
        return Err(ScenarioError::at(
            format!("{path}.ends_in_ms"),
            "end_at_ms and ends_in_ms contradict each other",
        )
        .hint("give one of the two"));
    }
    let end_at = row.end_at_ms.or(row.ends_in_ms.map(|span| now + span));
    if let (Some(start), Some(end)) = (row.start_at_ms, end_at)
        && end < start
    {
        let field = if row.end_at_ms.is_some() { "end_at_ms" } else { "ends_in_ms" };
        return Err(ScenarioError::at(format!("{path}.{field}"), "the block ends before it starts"));
    }
    let default_provider = || Name::new("sfcompute").map_err(|e| ScenarioError::at(path, e.to_string()));
    Ok(Block {
        id: row.id,
        provider: row.provider.map_or_else(default_provider, Ok)?,
        instance_type: row.instance_type,
        tier: row.tier,
        status: row.status,
        start_at: row.start_at_ms,
        end_at,
        drain_deadline: row.drain_deadline_ms,
        cost_per_hour: row.cost_per_hour,
        preemptible: row.preemptible,
    })
}

fn instance(instance: &crate::Instance) -> Result<()> {
    for (name, window) in instance.windows() {
        let max = if name == "oom_rate" { 1.0 } else { 1e18 };
        for value in window.values() {
            in_range(value, 0.0, max, || format!("instance.{name}"))?;
        }
    }
    Ok(())
}

fn mix(mut classes: Vec<MixShare>) -> Result<Vec<MixShare>> {
    for (i, class) in classes.iter().enumerate() {
        in_range(class.share, 0.0, 1e12, || format!("mix[{i}].share"))?;
    }
    let sum: f64 = classes.iter().filter(|class| !class.rare).map(|class| class.share).sum();
    if !classes.is_empty() && sum <= 0.0 {
        return Err(ScenarioError::at("mix", "the shares of the mix sum to 0"));
    }
    if (sum - 1.0).abs() > 1e-12 {
        classes.iter_mut().for_each(|class| class.share /= sum);
    }
    Ok(classes)
}

/// Looks each model name up once, however many devices carry it.
#[derive(Debug, Default)]
pub(super) struct Models(BTreeMap<Name, Arc<GpuModel>>);

impl Models {
    fn get(&mut self, name: Name) -> Arc<GpuModel> {
        self.0.entry(name).or_insert_with_key(|name| GpuModel::new(name.clone())).clone()
    }
}

pub(super) fn node(
    row: NodeRow,
    now: Time,
    blocks: &BTreeMap<BlockId, Arc<Block>>,
    models: &mut Models,
    path: &str,
) -> Result<Node> {
    let (cpu, ram) = (row.cpu_milli.unwrap_or_default(), row.ram_mib.unwrap_or_default());
    let mut node = Node::new(row.id, cpu, ram);
    let short =
        |field: &str| ScenarioError::at(format!("{path}.{field}"), "more is committed than the node has");
    if row.cpu_committed_milli > cpu {
        return Err(short("cpu_committed_milli"));
    }
    if row.ram_committed_mib > ram {
        return Err(short("ram_committed_mib"));
    }
    node.cpu_committed = row.cpu_committed_milli;
    node.ram_committed = row.ram_committed_mib;
    node.ram_reported = row.memory_used_mb;
    node.block = match row.block {
        None => None,
        Some(id) => {
            let block = blocks.get(&id);
            known(block.is_some(), &id, "block", || format!("{path}.block"))
                .map_err(|error| error.did_you_mean(id.as_str(), blocks.keys().map(BlockId::as_str)))?;
            block.cloned()
        }
    };
    (node.pool, node.region, node.platform) = (row.pool, row.region, row.platform);
    (node.approval, node.accepting, node.state) = (row.approval, row.accepting, row.state);
    node.heartbeat_at = row.heartbeat_age_ms.map(|age| now - age);
    node.cooldown_until = row.cooldown_until_ms;
    node.runtimes = match row.supported_runtimes {
        Some(runtimes) => runtimes.into_iter().collect(),
        None => default_runtimes(node.platform),
    };
    node.gpus = gpus(row.gpus, models, path)?;
    let holds: Vec<(u16, JobId)> =
        node.gpus.iter().filter_map(|gpu| Some((gpu.index, gpu.hold()?.clone()))).collect();
    for (index, job) in holds {
        node.hold_device(index, Some(job)).map_err(|error| ScenarioError::at(path, error.to_string()))?;
    }
    if let Some(gb_s) = row.gpu_bandwidth_gb_s {
        node.gpu_bandwidth_gb_s =
            Some(in_range(gb_s, 0.0, BANDWIDTH_MAX, || format!("{path}.gpu_bandwidth_gb_s"))?);
    }
    (node.wasm_limit, node.active_reported, node.karma) =
        (row.wasm_memory_limit_mb, row.active_jobs, i64::from(row.karma));
    node.cache = row.cache.into_iter().collect();
    node.images = row.images.iter().filter_map(|image| crate::image_name(image.as_str())).collect();
    for (runtime, correction) in &row.corrections {
        in_range(correction.factor, 0.0, 1e6, || format!("{path}.corrections.{runtime}.factor"))?;
    }
    node.corrections = row.corrections;
    if row.battery_pct.is_some_and(|pct| pct > 100) {
        return Err(ScenarioError::at(format!("{path}.battery_pct"), "a battery holds 0 to 100 %"));
    }
    node.health = DeviceHealth {
        thermal: row.thermal,
        battery_pct: row.battery_pct,
        charging: row.charging,
        neural_engine: row.neural_engine,
        npu: row.npu,
        metal_gpu: row.metal_gpu,
    };
    if let Some(m) = row.metrics {
        let number = |value: Option<f64>, max: f64, field: &str| match value {
            Some(value) => in_range(value, 0.0, max, || format!("{path}.metrics.{field}")).map(Some),
            None => Ok(None),
        };
        node.metrics = Some(Metrics {
            cpu_count: m.cpu_count,
            cpu_core_score: m.cpu_core_score,
            ram_total_mib: m.ram_total_mib.unwrap_or(ram),
            ram_free_mib: m.ram_free_mib,
            cpu_usage_pct: number(m.cpu_usage_pct, 100.0, "cpu_usage_pct")?,
            disk_mb_s: number(m.disk_mb_s, 1e9, "disk_mb_s")?,
            network_mbit_s: number(m.network_mbit_s, 1e9, "network_mbit_s")?,
        });
    }
    if row.architectures.is_some() || row.fetch.is_some() || row.eval.is_some() {
        node.capabilities = Some(Capabilities {
            architectures: row.architectures.unwrap_or_default().into_iter().collect(),
            fetch: row.fetch.unwrap_or(false),
            eval: row.eval.unwrap_or(false),
        });
    }
    node.features = row.features.into_iter().map(|feature| (feature.name, feature.count)).collect();
    node.tenants = row.tenants.into_iter().collect();
    node.max_concurrent = row.max_concurrent.unwrap_or(1);
    (node.group, node.fingerprint, node.drifted) = (row.group, row.fingerprint, row.drifted);
    if !row.links.is_empty() {
        node.links = Some(Links::new(row.links.iter().map(|link| (link.from, link.to, link.gb_s))));
    }
    node.memory_domains = row.memory_domains;
    node.unified_memory = row.unified_memory;
    node.power = row.power;
    node.maintenance_at = row.maintenance_at_ms;
    if let Some(row) = row.peer {
        let peer = peer(row, &format!("{path}.peer"))?;
        if let Some(capability) = &peer.gpu_capability {
            for gpu in &mut node.gpus {
                gpu.capability.get_or_insert_with(|| Box::new(capability.clone()));
            }
        }
        node.peer = Some(Box::new(peer));
    }
    for (i, row) in row.placements.into_iter().enumerate() {
        let milli = row.gpu_milli.unwrap_or(MilliGpu::WHOLE);
        let gpu_shape = match row.gpus.len() {
            0 => GpuShape::None,
            _ if milli < MilliGpu::WHOLE => GpuShape::Shared,
            n => GpuShape::Whole(n as u32),
        };
        let placement = Placement {
            job: row.job,
            cpu: row.cpu_milli,
            ram: row.ram_mib,
            devices: row.gpus.iter().map(|&index| DeviceShare::new(index, row.vram_mib, milli)).collect(),
            gpu_shape,
            exclusive_node: row.exclusive,
            expected_duration: row.expected_duration_ms.unwrap_or(JobSpec::empty().expected_duration_ms),
            walltime: row.walltime_ms,
        };
        node.place(placement)
            .map_err(|error| ScenarioError::at(format!("{path}.placements[{i}]"), error.to_string()))?;
    }
    Ok(node)
}

/// A node that does not list its runtimes has all that its platform allows.
pub(super) fn default_runtimes(platform: Platform) -> BTreeSet<Name> {
    let names: &[&str] = match platform {
        Platform::Desktop => &["container", "diffusers", "llmcpp", "onnx", "process", "wasm"],
        Platform::Ios => &["coreml", "llmcpp", "wasm"],
        Platform::Android => &["onnx", "wasm"],
        Platform::Browser => &["llmcpp", "wasm"],
    };
    names.iter().filter_map(|name| Name::new(name).ok()).collect()
}

fn gpus(rows: Vec<GpuRow>, models: &mut Models, path: &str) -> Result<Vec<Gpu>> {
    let mut gpus: Vec<Gpu> = Vec::new();
    for (i, row) in rows.into_iter().enumerate() {
        let path = format!("{path}.gpus[{i}]");
        let count = row.count.unwrap_or(1);
        if row.index.is_some() && count != 1 {
            return Err(ScenarioError::at(format!("{path}.count"), "a row with an index is one device"));
        }
        if count == 0 || gpus.len() + usize::from(count) > GPUS_MAX {
            return Err(ScenarioError::at(
                format!("{path}.count"),
                format!("a node has 1 to {GPUS_MAX} devices"),
            ));
        }
        if let Some(gb_s) = row.bandwidth_gb_s {
            in_range(gb_s, 0.0, BANDWIDTH_MAX, || format!("{path}.bandwidth_gb_s"))?;
        }
        let mut gpu = Gpu::new(0, row.model.map(|name| models.get(name)), row.vram_mib);
        if row.vram_committed_mib > gpu.vram_total() {
            return Err(ScenarioError::at(
                format!("{path}.vram_committed_mib"),
                "more is committed than the device has",
            ));
        }
        if row.slices.as_ref().is_some_and(|slices| !crate::slices::fit_together(&slices.taken)) {
            let message = "these slices cannot be on one device: each is [compute slices, first memory slice]; 1 begins at 0 to 6, 2 at 0, 2 or 4, 3 at 0 or 4, 4 and 7 at 0, and they must not overlap";
            return Err(ScenarioError::at(format!("{path}.slices.taken"), message));
        }
        (gpu.vram_committed, gpu.vram_reported) = (row.vram_committed_mib, row.vram_used_mib);
        (gpu.bandwidth_gb_s, gpu.link_group, gpu.slices) =
            (row.bandwidth_gb_s, row.link_group, row.slices.map(Box::new));
        gpu.capability = row.capability.map(Box::new);
        (gpu.holder, gpu.hold, gpu.milli_committed) =
            (row.holder, row.hold.map(Box::new), row.milli_committed);
        for _ in 0..count {
            let index = row.index.unwrap_or_else(|| gpus.iter().map(|gpu| gpu.index + 1).max().unwrap_or(0));
            if usize::from(index) > GPU_INDEX_MAX {
                let message = format!("a device index is at most {GPU_INDEX_MAX}, not {index}");
                return Err(ScenarioError::at(format!("{path}.index"), message));
            }
            if gpus.iter().any(|gpu| gpu.index == index) {
                return Err(ScenarioError::at(
                    format!("{path}.index"),
                    format!("there are two devices {index}"),
                ));
            }
            gpus.push(Gpu { index, ..gpu.clone() });
        }
    }
    gpus.sort_by_key(|gpu| gpu.index);
    Ok(gpus)
}

fn peer(row: PeerRow, path: &str) -> Result<Peer> {
    Ok(Peer {
        trust: in_range(row.trust, 0.0, 1.0, || format!("{path}.trust"))?,
        queued: row.queued,
        cost: row.cost,
        start_delay_ms: row.start_delay_ms,
        rtt_ms: match row.rtt_ms {
            Some(rtt) => Some(in_range(rtt, 0.0, 1e9, || format!("{path}.rtt_ms"))?),
            None => None,
        },
        scope: row.scope,
        cell: row.cell,
        data: row.data.into_iter().collect(),
        cpu_measured: row.cpu_measured_milli,
        cpu_own: row.cpu_own_milli,
        ram_measured: row.ram_measured_mib,
        ram_own: row.ram_own_mib,
        probe_age_ms: row.probe_age_ms,
        storage_free: row.storage_free_mib,
        network_mbit_s: row.network_mbit_s,
        gpu_capability: row.gpu_capability,
    })
}

/// What is wrong with the needs of a row.
fn bad_needs(error: JobError, path: &str) -> ScenarioError {
    let mut found = ScenarioError::at(format!("{path}.{}", error.field), error.message);
    found.hint = error.hint;
    found
}

pub(super) fn job(
    row: JobRow,
    now: Time,
    templates: &BTreeMap<WorkloadId, Needs>,
    maker: &mut JobMaker,
    path: &str,
) -> Result<Job> {
    let template = row.needs.workload.as_ref().and_then(|id| templates.get(id));
    let needs = match template {
        Some(template) => row.needs.or(template.clone()),
        None => row.needs,
    };
    maker.make(row.id, row.facts, needs, now).map_err(|error| bad_needs(error, path))
}
