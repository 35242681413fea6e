//! A whole situation as a file: what [`super::parse`] reads back equal, but for templates of jobs, which every job carries already.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::written::{Written, WrittenBlock, WrittenNode, WrittenTenant};
use crate::{
    Bytes, HistoryRow, Instance, Job, JobId, Mib, MilliCpu, MilliGpu, Millis, MixShare, Name, Node, NodeId,
    Placement, PolicySetting, Pool, PoolId, Provider, Situation, Time,
};

#[derive(Serialize)]
struct File<'a> {
    now_ms: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    energy_price: Option<f64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    node_order: &'a [NodeId],
    #[serde(skip_serializing_if = "Option::is_none")]
    backlog: Option<Backlog>,
    #[serde(skip_serializing_if = "is_usual")]
    policy: &'a PolicySetting,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    policies: &'a BTreeMap<PoolId, Arc<str>>,
    #[serde(skip_serializing_if = "is_usual")]
    instance: &'a Instance,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    regions: BTreeMap<&'a Name, Region<'a>>,
    providers: &'a [Provider],
    pools: Vec<&'a Pool>,
    tenants: Vec<WrittenTenant<'a>>,
    blocks: Vec<WrittenBlock<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    mix: &'a [MixShare],
    nodes: Vec<NodeRow<'a>>,
    jobs: Vec<JobRow<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reports: Vec<Report<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    history: Vec<&'a HistoryRow>,
}

fn is_usual<T: Default + PartialEq>(value: &&T) -> bool {
    **value == T::default()
}

#[derive(Serialize)]
struct Backlog {
    queued_gpu_hours: f64,
    running_gpu_hours: f64,
}

#[derive(Serialize)]
struct Region<'a> {
    adjacent: &'a [Name],
}

#[derive(Serialize)]
struct Report<'a> {
    node: &'a NodeId,
    job: &'a JobId,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing_inputs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing_bytes: Option<Bytes>,
}

#[derive(Serialize)]
struct NodeRow<'a> {
    #[serde(flatten)]
    node: WrittenNode<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heartbeat_age_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    placements: Vec<PlacementRow<'a>>,
}

#[derive(Serialize)]
struct PlacementRow<'a> {
    job: &'a JobId,
    cpu_milli: MilliCpu,
    ram_mib: Mib,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gpus: Vec<u16>,
    vram_mib: Mib,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_milli: Option<MilliGpu>,
    exclusive: bool,
    expected_duration_ms: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    walltime_ms: Option<Millis>,
}

#[derive(Serialize)]
struct JobRow<'a> {
    #[serde(flatten)]
    job: Written<'a>,
    submitted_at_ms: Time,
    queued_at_ms: Time,
    ready_at_ms: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at_ms: Option<Time>,
    rescore_count: u32,
    round: u32,
}

fn placement(placement: &Placement) -> PlacementRow<'_> {
    let device = placement.devices.first();
    PlacementRow {
        job: &placement.job,
        cpu_milli: placement.cpu,
        ram_mib: placement.ram,
        gpus: placement.devices.iter().map(|device| device.index).collect(),
        vram_mib: device.map_or(Mib::ZERO, |device| device.vram),
        gpu_milli: device.map(|device| device.milli),
        exclusive: placement.exclusive_node,
        expected_duration_ms: placement.expected_duration,
        walltime_ms: placement.walltime,
    }
}

fn node(node: &Node, now: Time) -> NodeRow<'_> {
    NodeRow {
        node: WrittenNode(node),
        heartbeat_age_ms: node.heartbeat_at.map(|at| now.since(at)),
        placements: node.placements.iter().map(placement).collect(),
    }
}

fn job(job: &Job) -> JobRow<'_> {
    JobRow {
        job: Written(job),
        submitted_at_ms: job.submitted_at,
        queued_at_ms: job.queued_at,
        ready_at_ms: job.ready_at,
        retry_at_ms: job.retry_at,
        rescore_count: job.rescore_count,
        round: job.round,
    }
}

/// Writes a situation as a scenario file.
///
/// # Errors
/// When a number has no place in such a file.
pub fn write(situation: &Situation) -> Result<String, toml::ser::Error> {
    let world = &situation.world;
    let reports = world.reports.iter().flat_map(|(job, nodes)| {
        nodes.iter().map(move |(node, report)| Report {
            node,
            job,
            missing_inputs: report.missing_inputs,
            missing_bytes: report.missing_bytes.map(Bytes::new),
        })
    });
    toml::to_string(&File {
        now_ms: situation.now,
        energy_price: world.energy_price,
        node_order: &world.node_order,
        backlog: world
            .backlog
            .map(|(queued_gpu_hours, running_gpu_hours)| Backlog { queued_gpu_hours, running_gpu_hours }),
        policy: &world.policy,
        policies: &world.policies,
        instance: &world.instance,
        regions: world.regions.iter().map(|(name, adjacent)| (name, Region { adjacent })).collect(),
        providers: &world.providers,
        pools: world.pools.values().collect(),
        tenants: world.tenants.values().map(WrittenTenant).collect(),
        blocks: world.blocks.values().map(|block| WrittenBlock(block)).collect(),
        mix: &world.mix,
        nodes: situation.nodes().iter().map(|each| node(each, situation.now)).collect(),
        jobs: situation.jobs().iter().map(job).collect(),
        reports: reports.collect(),
        history: world.history.values().flatten().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Format, parse};
    use super::*;

    #[test]
    fn a_situation_reads_back_equal() {
        let text = r#"
            now_ms = 1000000
            energy_price = 0.5
            node_order = ["b", "a"]
            pools = [{ id = "p", dispatch = "batch", batch = { depth = 3 } }, { id = "q", policy = "bin-pack" }]
            tenants = [{ id = "t", share = 0.5, max_nodes = 2.0, max_cpu_milli = 3000 }]
            blocks = [{ id = "x", tier = "FAST", status = "active", end_at_ms = 2000000 }]
            mix = [{ share = 1.0, gpu_count = 1 }]
            reports = [{ node = "a", job = "w", missing_inputs = 2, missing_bytes = 77 }]
            history = [{ workload = "llm", peak_ram_mib = 5, oom = true }, { workload = "llm", cpu_time_ms = 9 }]
            [backlog]
            queued_gpu_hours = 1.0
            running_gpu_hours = 2.0
            [policy]
            weights = { wait = 0.5 }
            [policies]
            q = "name = 'mine'\n"
            [instance.wait_secs]
            h1 = 3.5
            [regions.eu]
            adjacent = ["us"]
            [regions.us]
            [[nodes]]
            id = "a"
            pool = "p"
            block = "x"
            cpu_milli = 4000
            ram_mib = "8GiB"
            heartbeat_age_ms = 700
            gpus = [{ count = 2, model = "A100", vram_mib = "40GiB" }]
            placements = [{ job = "r", cpu_milli = 1000, ram_mib = 10, gpus = [1], vram_mib = 100, gpu_milli = 500, walltime_ms = 60000 },
                { job = "s", cpu_milli = 500 }]
            [[nodes]]
            id = "b"
            pool = "q"
            state = "drained"
            [[jobs]]
            id = "r"
            pool = "p"
            tenant = "t"
            cpu_milli = 1000
            [[jobs]]
            id = "w"
            pool = "q"
            workload = "llm"
            waits_for = "r"
            submitted_at_ms = 900000
            ready_at_ms = 950000
            retry_at_ms = 1100000
            rescore_count = 4
        "#;
        let read = parse(text, Format::Toml).unwrap();
        let written = write(&read).unwrap();
        let again = parse(&written, Format::Toml).unwrap_or_else(|error| panic!("{error:?} in\n{written}"));
        assert_eq!(again, read, "{written}");
        assert_eq!(write(&again).unwrap(), written);
    }
}
