//! Pools, tenants, policies, and capacity for placers outside the server.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A pool as it is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolRequest {
    /// Its settings, as in a scenario: `dispatch`, `policy`, `push`, `pull`, `batch`, `loans`. The id comes from the path.
    #[schema(value_type = Object)]
    pub pool: Map<String, Value>,
    /// The text of a policy file of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_text: Option<String>,
}

/// A pool as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolView {
    /// Its id.
    pub id: String,
    /// `push`, `pull`, `batch` or `negotiate`.
    pub dispatch: String,
    /// The name of the policy it asks for.
    pub policy: String,
    /// The name of the policy it uses: another one if it asks for one that this server does not know.
    #[serde(default)]
    pub policy_in_force: String,
    /// What is odd about it, such as a policy that is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The text of its own policy file, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_text: Option<String>,
    /// All its settings.
    #[schema(value_type = Object)]
    pub pool: Value,
    /// Nodes it has.
    pub nodes: u64,
    /// Nodes in service.
    pub nodes_ready: u64,
    /// Jobs that wait.
    pub pending: u64,
    /// Jobs that have nodes.
    pub running: u64,
    /// Whether jobs cost more now because many wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub surging: bool,
    /// Where its settings come from, if the settings file of the server names it. The file wins at every start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings_from: Option<Settings>,
    /// How expectations of run times fared, where time is planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fared: Option<landfall_model::answer::Fared>,
    /// Changes whenever the settings do; the `ETag` is made from it.
    pub version: String,
}

/// A tenant as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TenantView {
    /// Its id.
    pub id: String,
    /// All its settings: `share`, `burst`, `quota`, `budget`.
    #[schema(value_type = Object)]
    pub tenant: Value,
    /// Changes whenever the settings do.
    pub version: String,
    /// Where its settings come from, if the settings file of the server names it. The file wins at every start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings_from: Option<Settings>,
    /// What is odd about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TenantUsage>,
}

/// Which settings are in force of something that the settings file of the server names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Settings {
    /// Those of the file.
    File,
    /// Those of a change while the server runs; until the next start.
    Live,
}

/// What a tenant uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TenantUsage {
    /// Its id.
    pub id: String,
    /// Nodes it holds; parts of a node count as parts.
    pub nodes: f64,
    /// GPUs it holds.
    pub gpus: u64,
    /// CPU that its placed jobs asked for, in milli-cores.
    #[serde(default)]
    pub cpu_milli: u64,
    /// Jobs that have not ended.
    pub jobs: u64,
    /// GPU-hours that ended runs used within the budget window.
    pub gpu_hours_used: f64,
    /// Node-hours that ended runs used within the budget window.
    pub node_hours_used: f64,
    /// GPU-hours left under its cap, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_hours_left: Option<f64>,
    /// What its jobs cost within the budget window, those that are placed included.
    #[serde(default)]
    pub spent: f64,
    /// What they may cost, if that is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<f64>,
    /// Share of each pool that it holds now.
    #[schema(value_type = Object)]
    pub shares: std::collections::BTreeMap<String, f64>,
}

/// What jobs used, summed up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageView {
    /// What a row is about: `tenant`, `user` or `pool`.
    pub by: String,
    /// From this instant on, in milliseconds since 1970.
    pub since_ms: u64,
    /// Up to this instant.
    pub until_ms: u64,
    /// The largest first.
    pub rows: Vec<UsageRow>,
}

/// What the jobs of one tenant, user or pool used: from the start of each to its end, or to now.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct UsageRow {
    /// Whose; empty for jobs that have none.
    pub name: String,
    /// Jobs that ran.
    pub jobs: u64,
    /// Of these, still running.
    pub running: u64,
    /// Ended well.
    pub completed: u64,
    /// Ended badly.
    pub failed: u64,
    /// Taken back while they ran.
    pub cancelled: u64,
    /// Cores they asked for, times how long they ran.
    pub core_hours: f64,
    /// CPU time they really used.
    pub cpu_hours_used: f64,
    /// GPUs they had, times how long they ran.
    pub gpu_hours: f64,
    /// Nodes they were on, times how long they ran; also where they shared them.
    pub node_hours: f64,
    /// How long they waited before they ran, in all.
    pub waited_hours: f64,
    /// What they cost, where their pools have prices.
    #[serde(default)]
    pub price: f64,
}

impl UsageRow {
    /// Nothing used yet.
    pub fn of(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// A policy that comes with the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyView {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The policy as a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Pools that use it.
    pub pools: Vec<String>,
    /// What admits and what gives points, in the policy's order; only where one policy is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleView>,
}

/// A filter or a term as a policy uses it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleView {
    /// Its name in the catalogue.
    pub name: String,
    /// What it does.
    pub description: String,
    /// `filter`, or what a term may do to a total.
    pub class: String,
    /// What a term's value is multiplied by; words where it depends on the job, absent for filters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<String>,
    /// Smallest value of a term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Largest value of a term; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Whether the policy uses it.
    pub enabled: bool,
}

/// A term of the catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TermView {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What it may do to a total.
    pub class: String,
    /// Smallest value.
    pub min: f64,
    /// Largest value, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

/// What energy costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnergyPrice {
    /// 0 is free, 1 and more is dear; absent means unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub price: Option<f64>,
}

/// What all pools together may draw and move, and what they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapsView {
    /// Watts that all pools may draw together; absent without a cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<u64>,
    /// Bytes per second that all jobs may move to and from storage; absent without a cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_bytes_s: Option<u64>,
    /// Watts drawn now: what nodes draw when idle and what placed jobs add, or what was measured if that is more.
    pub drawn_w: u64,
    /// Bytes per second moved now: what placed jobs say, or what was measured if that is more.
    pub moved_bytes_s: u64,
}

/// A GPU in a capacity snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CapacityGpu {
    /// Its index.
    pub index: u16,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its memory.
    pub vram_mib: u64,
    /// Memory that is free.
    pub vram_free_mib: u64,
    /// Compute that is free, in thousandths.
    pub milli_free: u64,
    /// Whether a job or a hold has it.
    pub occupied: bool,
    /// The job that has it, or that it is kept for; only for those who may see that job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// A node in a capacity snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CapacityNode {
    /// Its id.
    pub id: String,
    /// Its pool.
    pub pool: String,
    /// `FAST` or `FLEX`.
    pub tier: String,
    /// Where it stands in its life.
    pub state: String,
    /// The block it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    /// All its CPU.
    pub cpu_milli: u64,
    /// CPU that is free.
    pub cpu_free_milli: u64,
    /// All its memory.
    pub ram_mib: u64,
    /// Memory that is free.
    pub ram_free_mib: u64,
    /// Its GPUs.
    pub gpus: Vec<CapacityGpu>,
}

/// What is free, for a placer outside the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CapacitySnapshot {
    /// Nodes of usable blocks and nodes without block.
    pub nodes: Vec<CapacityNode>,
    /// When, in milliseconds since 1970.
    pub timestamp: i64,
    /// Version of the ledger.
    pub version: u64,
}

/// A placer outside the server wants devices kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReserveRequest {
    /// The job they are for.
    pub job_id: String,
    /// The node.
    pub node_id: String,
    /// Indices of the devices.
    #[serde(default)]
    #[schema(max_items = 1024)]
    pub gpu_indices: Vec<u16>,
    /// For how many seconds: 1 to 86400.
    #[serde(default = "five_minutes")]
    #[schema(minimum = 1, maximum = 86400)]
    pub expires_in_sec: u64,
    /// The attempt they are for, if not the present one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<crate::node::FenceView>,
}

fn five_minutes() -> u64 {
    300
}

/// What is kept for a placement that is being prepared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HoldView {
    /// Its id.
    pub id: String,
    /// The job it is for.
    pub job_id: String,
    /// The node.
    pub node_id: String,
    /// Indices of the devices.
    pub gpu_indices: Vec<u16>,
    /// Live before this instant, in milliseconds since 1970.
    pub expires_at: i64,
    /// When it was made.
    pub created_at: i64,
}

/// A hold is given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// Its id.
    pub reservation_id: String,
}

/// What became of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Released {
    /// `released`, also if there was nothing to release.
    pub status: String,
}
