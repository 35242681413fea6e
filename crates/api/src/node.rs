//! Nodes: how agents tell about them and how they are shown.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use landfall_model::life::Fence;

/// The code of an error: a newer agent speaks for the node, so this one has to stop.
pub const NODE_TAKEN: &str = "node_taken";

/// The code of an error: what was said is about another journal, as after a restore; register to begin afresh.
pub const OTHER_JOURNAL: &str = "other_journal";

/// One GPU in a heartbeat.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct GpuFacts {
    /// Its index.
    pub index: u16,
    /// What it calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    pub vram_mib: Option<u64>,
    /// Memory in use in MiB.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    pub vram_used_mib: Option<u64>,
    /// Measured memory bandwidth in GB/s.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub bandwidth_gb_s: Option<f64>,
    /// Which GPUs it shares a fast link with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_group: Option<u16>,
    /// What it is capable of, such as `sm_90`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
    /// Whether it is given out in slices.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sliced: bool,
    /// What programs call it, if not by its index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
}

/// What the agent estimates of its machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct PerformanceEstimates {
    /// Memory bandwidth of the fastest GPU.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub gpu_bandwidth_gb_s: Option<f64>,
    /// Tokens per second of a reference model.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub estimated_llm_tok_s: Option<f64>,
    /// Containers that fit at once.
    #[serde(deserialize_with = "amount")]
    pub max_concurrent_containers: u64,
    /// Memory for WebAssembly modules.
    #[serde(deserialize_with = "amount")]
    pub wasm_memory_limit_mb: u64,
    /// What it can run.
    pub supported_runtimes: Vec<String>,
}

/// A heartbeat: each replaces all live fields; an absent one means unknown, but for `cache` and `images`, which then stay as they
/// were. Unknown fields are ignored. A figure that cannot be true counts as absent, and the node is shown with it under `doubted`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Heartbeat {
    /// Which start of the agent this is; larger than that of any earlier start.
    pub epoch: u64,
    /// Which heartbeat of that start; one that is not larger than the last is ignored.
    pub seq: u64,
    /// Version of the agent.
    pub agent_version: String,
    /// `desktop`, `ios`, `android` or `browser`.
    #[schema(example = "desktop")]
    pub platform: String,
    /// Whether its owner and its agent take work.
    pub accepting: bool,
    /// Jobs it runs.
    #[serde(deserialize_with = "amount")]
    pub active_jobs: u64,
    /// Workloads that are warm: these and no others; if left out, those whose jobs ran there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Vec<String>>,
    /// Images of containers that are there, 128 at most: these and no others; if left out, as before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<Vec<String>>,
    /// All its CPU in milli-cores.
    #[serde(deserialize_with = "amount")]
    pub cpu_milli: u64,
    /// All its memory in MiB.
    #[serde(deserialize_with = "amount")]
    pub ram_mib: u64,
    /// Its NUMA domains, if they are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory_domains: Vec<DomainFacts>,
    /// Its GPUs.
    pub gpus: Vec<GpuFacts>,
    /// Memory in use on the whole machine.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    pub memory_used_mb: Option<u64>,
    /// `nominal`, `fair`, `serious` or `critical`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thermal: Option<String>,
    /// Charge of the battery.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "percent")]
    #[schema(maximum = 100)]
    pub battery_pct: Option<u8>,
    /// Whether it charges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charging: Option<bool>,
    /// Whether it has a Neural Engine.
    pub neural_engine: bool,
    /// Whether it has an NPU.
    pub npu: bool,
    /// Whether it has a Metal GPU.
    pub metal_gpu: bool,
    /// Whether its CPU and its GPUs share one memory.
    pub unified_memory: bool,
    /// How busy its CPUs are.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub cpu_usage_pct: Option<f64>,
    /// Memory available.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    pub ram_free_mib: Option<u64>,
    /// Disk speed of recent jobs.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub disk_mb_s: Option<f64>,
    /// Network speed of recent transfers.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub network_mbit_s: Option<f64>,
    /// Speed of one core.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "score")]
    pub cpu_core_score: Option<u32>,
    /// What it draws from the mains, in watts, as measured.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub power_w: Option<f64>,
    /// What its disks read and wrote lately, in bytes per second.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    pub io_bytes_s: Option<u64>,
    /// What the agent estimates.
    pub performance_estimates: PerformanceEstimates,
    /// Its configuration in one word, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// The attempts it is running.
    #[schema(value_type = Vec<FenceView>)]
    pub running: Vec<Fence>,
    /// What jobs that it runs say about themselves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<JobMetric>,
}

/// How a service does on a node, in its own words.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JobMetric {
    /// The job.
    pub job: String,
    /// What it measures; nothing if what it wrote is no number.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub value: Option<f64>,
    /// Requests that wait.
    #[serde(deserialize_with = "amount")]
    pub queue: u64,
}

/// One NUMA domain of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct DomainFacts {
    /// Its CPUs.
    pub cpus: u32,
    /// Its GPUs.
    pub gpus: u32,
}

/// A number as somebody wrote it; what is none becomes NaN, so that one absurd figure does not cost a node the others.
struct Figure;

impl<'de> serde::de::Visitor<'de> for Figure {
    type Value = Option<f64>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E>(self, value: u64) -> Result<Option<f64>, E> {
        Ok(Some(value as f64))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Option<f64>, E> {
        Ok(Some(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Option<f64>, E> {
        Ok(Some(value))
    }

    fn visit_str<E>(self, _: &str) -> Result<Option<f64>, E> {
        Ok(Some(f64::NAN))
    }

    fn visit_unit<E>(self) -> Result<Option<f64>, E> {
        Ok(None)
    }
}

fn number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    from.deserialize_any(Figure)
}

/// The value if it is a whole number that the type has, otherwise the type's largest, which no machine has.
fn whole<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let fits = |value: f64| (0.0..9e15).contains(&value) && value.fract() == 0.0;
    Ok(number(from)?.map(|value| if fits(value) { value as u64 } else { u64::MAX }))
}

fn amount<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(whole(from)?.unwrap_or_default())
}

fn score<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    Ok(whole(from)?.map(|value| u32::try_from(value).unwrap_or(u32::MAX)))
}

fn percent<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u8>, D::Error> {
    Ok(whole(from)?.map(|value| u8::try_from(value).unwrap_or(u8::MAX)))
}

/// One attempt of one job under one epoch of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FenceView {
    /// The job.
    pub job: String,
    /// Which attempt.
    pub attempt: u32,
    /// Which start of the server.
    pub epoch: u32,
}

/// Whether a node keeps jobs within the CPU and memory that they asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Limits {
    /// Whether limits of CPU bind.
    pub cpu: bool,
    /// Whether limits of memory bind.
    pub memory: bool,
    /// How, or why not.
    pub how: String,
}

/// A node that registers: what does not change from one heartbeat to the next, and a first heartbeat.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Registration {
    /// The pool it wants to serve; the only one there is if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Where it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The block it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    /// The network group it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Tenants it serves; all if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,
    /// CPU architectures it runs natively, for pull pools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<String>,
    /// Features, for pull pools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// Whether it evaluates, in pull pools.
    pub eval: bool,
    /// Whether it fetches, in pull pools.
    pub fetch: bool,
    /// Jobs it takes at once in pull pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    /// Idle and busy watts, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_w: Option<(u64, u64)>,
    /// Whether it cannot tell what began there before: its machine was started anew, or its data directory is another.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forgot: bool,
    /// Whether nothing runs there: `landfall hollow` made it up, to try a server with many nodes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hollow: bool,
    /// Which limits of jobs bind there, if it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Its first heartbeat, with every attempt it still runs.
    pub heartbeat: Heartbeat,
}

/// What a node is told when it registers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Registered {
    /// The pool it serves.
    pub pool: String,
    /// How that pool dispatches: in a `pull` pool the agent asks for work.
    pub dispatch: String,
    /// Milliseconds from one heartbeat to the next.
    pub heartbeat_interval_ms: u64,
    /// Which start of the server this is.
    pub server_epoch: u32,
    /// Whether it may take work: `approved`, `pending` or `suspended`.
    pub approval: String,
    /// Which journal the server has: 16 hexadecimal digits, others after a restore. What an agent remembers of jobs is about
    /// this journal from now on, and it names it in the header `landfall-journal` of whatever it says.
    #[serde(default)]
    pub journal: String,
    /// The attempts named in the registration that go on. Where the agent's memory is of another journal, all others have to
    /// be ended, and nothing is believed about them.
    #[serde(default)]
    #[schema(value_type = Vec<FenceView>)]
    pub adopted: Vec<Fence>,
    /// The server's time, in milliseconds since 1970.
    #[serde(default)]
    pub server_time_ms: Option<i64>,
}

/// Why and when a node goes out of service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DrainRequest {
    /// Why, for people; shown with the node and to those whose jobs wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub why: Option<String>,
    /// Not now but from this instant on, in milliseconds since 1970: until then the node takes only what would have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
}

/// What became of a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Heard {
    /// `ok`, `stale` (ignored) or `rejoin` (register again).
    pub status: String,
    /// The server's time, in milliseconds since 1970.
    #[serde(default)]
    pub server_time_ms: Option<i64>,
}

/// A node as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeView {
    /// Its id; absent for those who may not see foreign nodes.
    pub id: String,
    /// Its pool.
    pub pool: String,
    /// `booting`, `ready`, `degraded`, `unknown`, `draining`, `drained`, `down`.
    pub state: String,
    /// `approved`, `pending` or `suspended`.
    pub approval: String,
    /// Whether its owner and its agent take work.
    pub accepting: bool,
    /// Where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// When it was last heard.
    pub heard_at_ms: u64,
    /// When it reached its state.
    pub since_ms: u64,
    /// All its CPU.
    pub cpu_milli: u64,
    /// CPU held by jobs.
    pub cpu_committed_milli: u64,
    /// All its memory.
    pub ram_mib: u64,
    /// Memory held by jobs.
    pub ram_committed_mib: u64,
    /// Its GPUs.
    pub gpus: Vec<GpuView>,
    /// What it can run.
    pub runtimes: Vec<String>,
    /// Jobs on it.
    pub jobs: Vec<String>,
    /// Good service.
    pub karma: i64,
    /// No work before this instant, after faults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown_until_ms: Option<u64>,
    /// How busy its CPUs are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_usage_pct: Option<f64>,
    /// Memory available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ram_free_mib: Option<u64>,
    /// Disk speed of recent jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_mb_s: Option<f64>,
    /// Network speed of recent transfers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_mbit_s: Option<f64>,
    /// What its agent estimates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub performance_estimates: Option<PerformanceEstimates>,
    /// Version of its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// What kind of machine it is: `desktop`, `ios`, `android` or `browser`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub platform: String,
    /// The block of leased capacity it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    /// The network group it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The pool it is on loan to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lent_to: Option<String>,
    /// Its configuration in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Whether its configuration is another than it should be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drifted: bool,
    /// How warm it is: `nominal`, `fair`, `serious` or `critical`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thermal: Option<String>,
    /// Charge of its battery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub battery_pct: Option<u8>,
    /// Whether it charges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charging: Option<bool>,
    /// What it draws from the mains, in watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// Workloads that are warm there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cache: Vec<String>,
    /// Images of containers that are there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Figures of its last heartbeat that cannot be true and count as unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubted: Vec<String>,
    /// Which limits of jobs bind there, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Why an operator took it out of service, or will.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// From when on it will be out of service, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance_at_ms: Option<u64>,
    /// Whether an agent is connected for commands right now.
    pub connected: bool,
    /// Whether nothing runs there, because `landfall hollow` made it up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hollow: bool,
}

/// A GPU as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuView {
    /// Its index.
    pub index: u16,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vram_mib: Option<u64>,
    /// What it is capable of, such as `sm_90`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
    /// Memory held by jobs.
    pub vram_committed_mib: u64,
    /// Compute held by jobs, in thousandths.
    pub milli_committed: u64,
    /// The job that has it to itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// If it is given out in slices, those that are taken, such as `2g@4`: compute slices and the first memory slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<Vec<String>>,
}
