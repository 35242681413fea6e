//! The rows of a scenario file as people write them. Every field that may be left out has a default in `build`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use crate::job_read::{Form, give};
use crate::{
    Approval, BlockId, BlockStatus, Bytes, Correction, FeatureNeed, HistoryRow, Instance, JobFacts, JobId,
    MemoryDomain, Mib, MilliCpu, MilliGpu, Millis, MixShare, Money, Name, Needs, NodeId, NodePower,
    NodeState, Platform, PolicySetting, Pool, PoolId, Prediction, Price, Provider, Scope, Slices, TenantId,
    Thermal, Tier, Time, WorkloadId,
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    /// Free text for people: what this scenario shows.
    #[serde(rename = "description")]
    pub(super) _description: Option<String>,
    pub(super) now_ms: Time,
    pub(super) nodes: Vec<NodeRow>,
    pub(super) jobs: Vec<JobRow>,
    pub(super) workloads: Vec<WorkloadRow>,
    pub(super) pools: Vec<Pool>,
    pub(super) tenants: Vec<TenantRow>,
    pub(super) blocks: Vec<BlockRow>,
    pub(super) providers: Option<Vec<Provider>>,
    pub(super) history: Vec<HistoryRow>,
    pub(super) reports: Vec<ReportRow>,
    pub(super) instance: Instance,
    pub(super) mix: Vec<MixShare>,
    pub(super) regions: BTreeMap<Name, RegionRow>,
    pub(super) node_order: Vec<NodeId>,
    pub(super) energy_price: Option<f64>,
    pub(super) backlog: Option<BacklogRow>,
    pub(super) policy: PolicySetting,
    pub(super) policies: BTreeMap<PoolId, Arc<str>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BacklogRow {
    pub(super) queued_gpu_hours: f64,
    pub(super) running_gpu_hours: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RegionRow {
    #[serde(default)]
    pub(super) adjacent: Vec<Name>,
}

/// A tenant as people write it; [`super::Rows`] makes a tenant of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantRow {
    pub(super) id: TenantId,
    #[serde(default)]
    pub(super) share: f64,
    #[serde(default)]
    pub(super) usage: f64,
    #[serde(default = "one")]
    pub(super) burst: f64,
    pub(super) work_share: Option<f64>,
    pub(super) gpu_hours: Option<f64>,
    #[serde(default)]
    pub(super) gpu_hours_used: f64,
    pub(super) node_hours: Option<f64>,
    #[serde(default)]
    pub(super) node_hours_used: f64,
    pub(super) max_nodes: Option<f64>,
    pub(super) max_cpu_milli: Option<MilliCpu>,
    pub(super) max_gpus: Option<u64>,
    pub(super) max_jobs: Option<u64>,
    pub(super) gpu_hours_cap: Option<f64>,
    pub(super) money: Option<Price>,
    #[serde(default)]
    pub(super) money_used: Price,
}

fn one() -> f64 {
    1.0
}

/// A block as people write it; [`super::Rows`] makes a block of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockRow {
    pub(super) id: BlockId,
    pub(super) provider: Option<Name>,
    pub(super) instance_type: Option<Name>,
    #[serde(default)]
    pub(super) tier: Tier,
    #[serde(default)]
    pub(super) status: BlockStatus,
    pub(super) start_at_ms: Option<Time>,
    pub(super) end_at_ms: Option<Time>,
    pub(super) ends_in_ms: Option<Millis>,
    pub(super) drain_deadline_ms: Option<Time>,
    #[serde(default)]
    pub(super) gpus_per_node: u16,
    pub(super) vram_mib_per_gpu: Option<Mib>,
    pub(super) cpu_milli_per_node: Option<MilliCpu>,
    pub(super) ram_mib_per_node: Option<Mib>,
    pub(super) region: Option<Name>,
    #[serde(default)]
    pub(super) cost_per_hour: Money,
    #[serde(default)]
    pub(super) preemptible: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportRow {
    pub(super) node: NodeId,
    pub(super) job: JobId,
    pub(super) missing_inputs: Option<u64>,
    pub(super) missing_bytes: Option<Bytes>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GpuRow {
    pub(super) index: Option<u16>,
    pub(super) count: Option<u16>,
    pub(super) model: Option<Name>,
    pub(super) vram_mib: Option<Mib>,
    #[serde(default)]
    pub(super) vram_committed_mib: Mib,
    #[serde(default)]
    pub(super) vram_used_mib: Mib,
    pub(super) bandwidth_gb_s: Option<f64>,
    pub(super) link_group: Option<u16>,
    pub(super) capability: Option<Name>,
    pub(super) slices: Option<Slices>,
    pub(super) holder: Option<JobId>,
    pub(super) hold: Option<JobId>,
    #[serde(default)]
    pub(super) milli_committed: MilliGpu,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlacementRow {
    pub(super) job: JobId,
    #[serde(default)]
    pub(super) cpu_milli: MilliCpu,
    #[serde(default)]
    pub(super) ram_mib: Mib,
    #[serde(default)]
    pub(super) gpus: Vec<u16>,
    #[serde(default)]
    pub(super) vram_mib: Mib,
    pub(super) gpu_milli: Option<MilliGpu>,
    #[serde(default)]
    pub(super) exclusive: bool,
    pub(super) expected_duration_ms: Option<Millis>,
    pub(super) walltime_ms: Option<Millis>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkRow {
    pub(super) from: u16,
    pub(super) to: u16,
    pub(super) gb_s: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MetricsRow {
    #[serde(default)]
    pub(super) cpu_count: u32,
    #[serde(default)]
    pub(super) cpu_core_score: u32,
    pub(super) ram_total_mib: Option<Mib>,
    pub(super) ram_free_mib: Option<Mib>,
    pub(super) cpu_usage_pct: Option<f64>,
    pub(super) disk_mb_s: Option<f64>,
    pub(super) network_mbit_s: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PeerRow {
    #[serde(default)]
    pub(super) trust: f64,
    #[serde(default)]
    pub(super) queued: u64,
    pub(super) cost: Option<u64>,
    pub(super) start_delay_ms: Option<u64>,
    pub(super) rtt_ms: Option<f64>,
    #[serde(default)]
    pub(super) scope: Scope,
    pub(super) cell: Option<Name>,
    #[serde(default)]
    pub(super) data: Vec<Name>,
    #[serde(default)]
    pub(super) cpu_measured_milli: MilliCpu,
    #[serde(default)]
    pub(super) cpu_own_milli: MilliCpu,
    #[serde(default)]
    pub(super) ram_measured_mib: Mib,
    #[serde(default)]
    pub(super) ram_own_mib: Mib,
    #[serde(default)]
    pub(super) probe_age_ms: u64,
    pub(super) storage_free_mib: Option<Mib>,
    pub(super) network_mbit_s: Option<u32>,
    pub(super) gpu_capability: Option<Name>,
}

/// A node as people write it; [`super::Rows`] makes a node of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeRow {
    pub(super) id: NodeId,
    pub(super) count: Option<usize>,
    pub(super) pool: Option<PoolId>,
    pub(super) block: Option<BlockId>,
    pub(super) region: Option<Name>,
    #[serde(default)]
    pub(super) platform: Platform,
    #[serde(default)]
    pub(super) approval: Approval,
    #[serde(default = "yes")]
    pub(super) accepting: bool,
    pub(super) heartbeat_age_ms: Option<Millis>,
    pub(super) cooldown_until_ms: Option<Time>,
    #[serde(default)]
    pub(super) state: NodeState,
    pub(super) supported_runtimes: Option<Vec<Name>>,
    pub(super) cpu_milli: Option<MilliCpu>,
    #[serde(default)]
    pub(super) cpu_committed_milli: MilliCpu,
    pub(super) ram_mib: Option<Mib>,
    #[serde(default)]
    pub(super) ram_committed_mib: Mib,
    pub(super) memory_used_mb: Option<Mib>,
    #[serde(default)]
    pub(super) gpus: Vec<GpuRow>,
    pub(super) gpu_bandwidth_gb_s: Option<f64>,
    pub(super) wasm_memory_limit_mb: Option<Mib>,
    #[serde(default)]
    pub(super) active_jobs: u64,
    #[serde(default)]
    pub(super) placements: Vec<PlacementRow>,
    #[serde(default)]
    pub(super) cache: Vec<WorkloadId>,
    #[serde(default)]
    pub(super) images: Vec<Name>,
    #[serde(default)]
    pub(super) karma: i32,
    #[serde(default)]
    pub(super) corrections: BTreeMap<Name, Correction>,
    pub(super) thermal: Option<Thermal>,
    pub(super) battery_pct: Option<u8>,
    pub(super) charging: Option<bool>,
    #[serde(default)]
    pub(super) neural_engine: bool,
    #[serde(default)]
    pub(super) npu: bool,
    #[serde(default)]
    pub(super) metal_gpu: bool,
    pub(super) metrics: Option<MetricsRow>,
    pub(super) architectures: Option<Vec<Name>>,
    #[serde(default)]
    pub(super) features: Vec<FeatureNeed>,
    pub(super) fetch: Option<bool>,
    pub(super) eval: Option<bool>,
    #[serde(default)]
    pub(super) tenants: Vec<TenantId>,
    pub(super) max_concurrent: Option<u32>,
    pub(super) group: Option<Name>,
    pub(super) fingerprint: Option<Name>,
    #[serde(default)]
    pub(super) drifted: bool,
    #[serde(default)]
    pub(super) links: Vec<LinkRow>,
    #[serde(default)]
    pub(super) memory_domains: Vec<MemoryDomain>,
    #[serde(default)]
    pub(super) unified_memory: bool,
    pub(super) power: Option<NodePower>,
    pub(super) maintenance_at_ms: Option<Time>,
    pub(super) peer: Option<PeerRow>,
}

fn yes() -> bool {
    true
}

/// A job as people write it; [`super::Rows`] makes a job of it.
#[derive(Debug)]
pub struct JobRow {
    pub(super) id: JobId,
    pub(super) count: Option<usize>,
    pub(super) facts: JobFacts,
    pub(super) needs: Needs,
}

#[derive(Debug)]
pub(super) struct WorkloadRow {
    pub(super) id: WorkloadId,
    pub(super) prediction: Option<Prediction>,
    pub(super) needs: Needs,
}

impl<'de> Deserialize<'de> for JobRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(JobVisitor)
    }
}

struct JobVisitor;

impl<'de> Visitor<'de> for JobVisitor {
    type Value = JobRow;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a job")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<JobRow, A::Error> {
        let (mut id, mut count, mut facts) = (None, None, JobFacts::default());
        let needs = Form::Job.read(map, |key, map| match key {
            "id" => give(key, &mut id, map),
            "count" => give(key, &mut count, map),
            "submitted_at_ms" => give(key, &mut facts.submitted_at_ms, map),
            "queued_at_ms" => give(key, &mut facts.queued_at_ms, map),
            "ready_at_ms" => give(key, &mut facts.ready_at_ms, map),
            "waits_for" => give(key, &mut facts.waits_for, map),
            "retry_at_ms" => give(key, &mut facts.retry_at_ms, map),
            "rescore_count" => give(key, &mut facts.rescore_count, map),
            "round" => give(key, &mut facts.round, map),
            _ => give(key, &mut facts.digest, map),
        })?;
        let id = id.ok_or_else(|| Error::missing_field("id"))?;
        Ok(JobRow { id, count, facts, needs })
    }
}

impl<'de> Deserialize<'de> for WorkloadRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(WorkloadVisitor)
    }
}

struct WorkloadVisitor;

impl<'de> Visitor<'de> for WorkloadVisitor {
    type Value = WorkloadRow;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a workload")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WorkloadRow, A::Error> {
        let (mut id, mut prediction) = (None, None);
        let needs = Form::Workload.read(map, |key, map| match key {
            "id" => give(key, &mut id, map),
            _ => give(key, &mut prediction, map),
        })?;
        let id = id.ok_or_else(|| Error::missing_field("id"))?;
        Ok(WorkloadRow { id, prediction, needs })
    }
}
