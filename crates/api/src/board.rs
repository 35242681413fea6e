//! What the board shows: the fleet as a map, the queue with its reasons, how both went over the last hours, and what changes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::token::Role;

/// A session is asked for with one of the two.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionRequest {
    /// A code that was made for this and works once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The secret of a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// Who is signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionView {
    /// The name of the token behind it.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The tenant of a submitter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// When the session ends, in milliseconds since 1970; absent for a token that was sent with the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
}

/// A code that becomes a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionCode {
    /// The code; it works once.
    pub code: String,
    /// What comes behind the address of the server.
    pub path: String,
    /// When it stops working, in milliseconds since 1970.
    pub expires_at_ms: u64,
}

/// How much there is of something and how much of it is given away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Used {
    /// All of it.
    pub total: u64,
    /// What is given away.
    pub used: u64,
}

/// Jobs that wait for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReasonCount {
    /// The stable name of the reason.
    pub reason: String,
    /// The reason in words.
    pub detail: String,
    /// What would help, if something would.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub help: String,
    /// How many jobs wait for it.
    pub jobs: u64,
    /// One of them, if the asker may see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// Whether no node of the pool could ever run them.
    pub never: bool,
}

/// A pool at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolGlance {
    /// Its name.
    pub id: String,
    /// How it dispatches.
    pub dispatch: String,
    /// The policy in force.
    pub policy: String,
    /// Its nodes.
    pub nodes: u64,
    /// Those that take work.
    pub ready: u64,
    /// Whole GPUs in thousandths.
    pub gpu_milli: Used,
    /// Cores in thousandths.
    pub cpu_milli: Used,
    /// Memory in MiB.
    pub ram_mib: Used,
    /// Jobs that wait.
    pub waiting: u64,
    /// Jobs that have nodes.
    pub running: u64,
    /// Why they wait, largest groups first.
    pub reasons: Vec<ReasonCount>,
    /// Jobs whose reason was not asked for.
    pub unexplained: u64,
}

/// Something that wants somebody's attention.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Alarm {
    /// `bad` stops work, `warn` may.
    pub level: String,
    /// What is wrong, in words.
    pub text: String,
    /// What to do.
    pub hint: String,
    /// The page of the board that says more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
}

/// The cluster at a glance. It is made at most once a second for everybody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OverviewView {
    /// When it was made, in milliseconds since 1970.
    pub at_ms: u64,
    /// Number of the last event that it knows.
    pub seq: u64,
    /// When waiting jobs were last counted by reason; absent until that was done once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasons_at_ms: Option<u64>,
    /// Nodes by state.
    pub nodes: BTreeMap<String, u64>,
    /// Agents with an open line.
    pub agents_connected: u64,
    /// Pools by name.
    pub pools: Vec<PoolGlance>,
    /// What wants attention, worst first.
    pub alarms: Vec<Alarm>,
}

/// A node of the map. Numbers are places in the lists of the map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MapNode {
    /// Its id.
    pub id: String,
    /// Its pool.
    pub pool: u32,
    /// Its state.
    pub state: u32,
    /// The model of its GPUs; absent if it has none or does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<u32>,
    /// Cores given away, in per cent.
    pub cpu: u8,
    /// Memory given away, in per cent.
    pub ram: u8,
    /// Each GPU: how much of it is given away, in per cent.
    pub gpus: Vec<u8>,
    /// Each GPU: which of `jobs` has it, -1 for none.
    pub by: Vec<i32>,
    /// Jobs on the node; an empty name is somebody else's.
    pub jobs: Vec<String>,
    /// The tenant of each job, -1 for none.
    pub tenants: Vec<i32>,
}

/// The fleet as a map. With `since` only nodes that changed after that version; `gone` are no longer there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct MapView {
    /// Give this as `since` the next time.
    pub version: u64,
    /// When it was made, in milliseconds since 1970.
    pub at_ms: u64,
    /// Whether all nodes are here, not only those that changed.
    pub whole: bool,
    /// Names of pools.
    pub pools: Vec<String>,
    /// Names of states.
    pub states: Vec<String>,
    /// Names of GPU models.
    pub models: Vec<String>,
    /// Names of tenants that the asker may see.
    pub tenants: Vec<String>,
    /// Nodes by id.
    pub nodes: Vec<MapNode>,
    /// Ids of nodes that left.
    pub gone: Vec<String>,
}

/// How a pool or a tenant did, a number for each instant.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Series {
    /// Whole GPUs there are; 0 for tenants.
    pub gpus: Vec<f32>,
    /// Whole GPUs given away.
    pub gpus_used: Vec<f32>,
    /// Cores there are; 0 for tenants.
    pub cpus: Vec<f32>,
    /// Cores given away.
    pub cpus_used: Vec<f32>,
    /// Jobs that wait; for tenants jobs that have not ended.
    pub waiting: Vec<f32>,
    /// Jobs that have nodes; for tenants node units held.
    pub running: Vec<f32>,
}

/// How the last hours went. A day is kept.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct HistoryView {
    /// Instants, in seconds since 1970.
    pub at: Vec<u64>,
    /// Pools.
    pub pools: BTreeMap<String, Series>,
    /// Tenants that the asker may see.
    pub tenants: BTreeMap<String, Series>,
}

/// A decision that was just made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DecisionGlance {
    /// Number of the event.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The job.
    pub job: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its pool.
    pub pool: String,
    /// Its tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Where it went.
    pub nodes: Vec<String>,
    /// `start`, `backfill` or `preempt`.
    pub kind: String,
    /// Its score, where the policy gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// The next best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<String>,
}

/// What changed since the message before. The stream begins with one that names nothing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ChangeView {
    /// Number of the last event that is taken in.
    pub seq: u64,
    /// The journal that this is a number of.
    pub journal: String,
    /// Jobs and arrays that changed.
    pub jobs: Vec<String>,
    /// Nodes that changed.
    pub nodes: Vec<String>,
    /// Whether pools, tenants or blocks changed.
    pub settings: bool,
    /// Whether more changed than is named.
    pub more: bool,
    /// Decisions, oldest first.
    pub decisions: Vec<DecisionGlance>,
}

/// What an id is the id of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundView {
    /// The id as it was asked about.
    pub id: String,
    /// `job`, `array` or `node`; absent if there is no such thing that the asker may see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// Something on a node, from when to when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimelineBar {
    /// The job, unless it is somebody else's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// `running`, `kept` (for a job that others make room for), `reserved` (promised) or `block` (the lease).
    pub kind: String,
    /// When it began or begins, in milliseconds since 1970.
    pub start_ms: u64,
    /// When it has to be over; absent means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ms: Option<u64>,
    /// When it is expected to be over, where time is planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_end_ms: Option<u64>,
    /// How many nodes it has or will have.
    pub width: u32,
}

/// A row of the timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimelineRow {
    /// The node; absent for time that is promised on nodes that are not chosen yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The pool.
    pub pool: String,
    /// The node's state.
    pub state: String,
    /// When the node's lease or its time until maintenance ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    /// What is on it.
    pub bars: Vec<TimelineBar>,
}

/// Nodes and what is on them over time, a page at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimelineView {
    /// Now, in milliseconds since 1970.
    pub now_ms: u64,
    /// Promises first, then nodes by id.
    pub rows: Vec<TimelineRow>,
    /// Give this as `cursor` to get the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Where a waiting job stands under one of two policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Standing {
    /// Its place in the order in which waiting jobs would start, from 1.
    pub rank: u32,
    /// When it would start, in milliseconds since 1970; absent if no start can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<u64>,
}

/// A waiting job under two policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RankedJob {
    /// The job.
    pub job: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Under the first policy.
    pub one: Standing,
    /// Under the second one.
    pub other: Standing,
}

/// The present queue of a pool under two policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RanksView {
    /// The pool.
    pub pool: String,
    /// The first policy.
    pub one: String,
    /// The second policy.
    pub other: String,
    /// Jobs that wait.
    pub waiting: u64,
    /// Of those, how many would change places.
    pub moved: u64,
    /// Jobs that the asker may see, those that would move farthest first; at most 500.
    pub jobs: Vec<RankedJob>,
}

/// A job in a graph of dependencies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphJob {
    /// The job or the array.
    pub id: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it stands.
    pub state: String,
}

/// One job waits for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphEdge {
    /// What is waited for.
    pub on: String,
    /// Who waits.
    pub job: String,
    /// What is needed of it: `success`, `failure`, `any`, `mutex`, `corresponding`.
    pub kind: String,
}

/// Jobs that wait for each other, around one of them. What has come true already is no longer in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct GraphView {
    /// The jobs, the one that was asked about first; at most 100.
    pub jobs: Vec<GraphJob>,
    /// Who waits for whom.
    pub edges: Vec<GraphEdge>,
    /// Whether there are more than are shown.
    pub more: bool,
}

/// A node that works for another pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoanView {
    /// The node.
    pub node: String,
    /// The pool that it belongs to, and that lends it.
    pub from: String,
    /// The pool that borrowed it.
    pub to: String,
    /// GPUs that it has.
    pub gpus: u32,
    /// Jobs that it was borrowed for, as far as the asker may see them.
    pub jobs: Vec<String>,
    /// Whose they are.
    pub tenants: Vec<String>,
}

/// Something that happened to a job or a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LifeStep {
    /// Number of its event in the journal.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What happened, by a name for programs: the kind of its event.
    pub kind: String,
    /// What happened, in words.
    pub text: String,
    /// Of a node: the job that it was about, if the asker may see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Of a job: the nodes that it was about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}
