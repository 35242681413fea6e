//! Answers that belong to no single kind of thing: what became of an order, where the server stands, decisions, events.

use std::collections::BTreeMap;

use landfall_model::answer::{Explanation, Placed, PlanAnswer, WhyNot};
use landfall_model::life::{Against, JobState, Points, RunnerUp};
use landfall_model::reason::Reason;
use landfall_model::verdict::Facts;
use landfall_model::{JobId, PoolId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::job::{JobView, PlannedJob};
use crate::peer::NegotiationView;

/// What became of an order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Acted {
    /// Why nothing changed, if nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored: Option<String>,
}

/// What may be changed about a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JobPatch {
    /// How long it may run in all, in milliseconds; only in batch pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub walltime_ms: Option<u64>,
    /// Whether somebody keeps it from starting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
}

/// How a suspended job goes on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResumeRequest {
    /// Its new walltime in milliseconds, if it used up the old one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub walltime_ms: Option<u64>,
}

/// How a service does, said by whoever knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricRequest {
    /// Its metric, or how busy it is from 0 to 1 if it has no target.
    pub value: f64,
    /// Requests that wait.
    #[serde(default)]
    pub queue: u64,
}

/// Where the server stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatusView {
    /// Version of the server.
    pub version: String,
    /// When it started.
    pub started_at_ms: u64,
    /// Its clock.
    pub now_ms: u64,
    /// Which start of the server this is.
    pub epoch: u32,
    /// Number of the last event in the journal.
    pub seq: u64,
    /// Number of the oldest event that is still kept.
    #[serde(default)]
    pub oldest: u64,
    /// Which journal this is; another one after a restore.
    #[serde(default)]
    pub journal: String,
    /// Bytes that the journal takes on disk.
    pub store_bytes: u64,
    /// Jobs by state; ended ones as far as they are in memory.
    pub jobs: BTreeMap<String, u64>,
    /// Nodes by state.
    pub nodes: BTreeMap<String, u64>,
    /// Pools with how many jobs wait in each.
    pub pools: BTreeMap<String, u64>,
    /// Agents that are connected for commands.
    pub agents_connected: u64,
    /// Pools in which many nodes fell silent at once, with how many of them keep their jobs for now.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requeue_limited: BTreeMap<String, u64>,
    /// Nodes that do not keep jobs within the memory they asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unbound: Option<Unbound>,
    /// How the clock of the server's machine stands to the server's time.
    #[serde(default)]
    pub clock: ClockView,
    /// Who asks: the name of the token.
    pub token: String,
    /// What that token may do.
    pub role: crate::token::Role,
    /// The only tenant that token acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// Nodes that do not keep jobs within the memory they asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unbound {
    /// How many.
    pub nodes: u64,
    /// One of them.
    pub node: String,
    /// Why it does not.
    pub why: String,
}

/// How the clock of the server's machine stands to the server's time, which does not jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ClockView {
    /// How far it is ahead, in milliseconds; negative if behind.
    pub ahead_ms: i64,
    /// How often it jumped since the server started.
    pub jumps: u64,
    /// Whether nothing is erased, because it cannot be told how long the server was away.
    pub rests: bool,
}

/// A node that a decision gave to a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Granted {
    /// The node.
    pub node: String,
    /// Indices of its GPUs.
    pub gpus: Vec<u16>,
    /// The pool that lends the node, if another one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lender: Option<String>,
}

/// A decision with its breakdown and what it looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DecisionView {
    /// Number of its event in the journal.
    pub seq: u64,
    /// When.
    pub at_ms: u64,
    /// The job it chose, or could choose nobody for; absent if a worker asked and no job was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The worker that asked and got nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// The pool whose scheduler decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// `start`, `backfill`, `preempt`, or `none` if nobody was chosen.
    pub kind: String,
    /// What the job got; empty if nobody was chosen.
    pub nodes: Vec<Granted>,
    /// The total; absent if nothing was scored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What each term gave, in the order of the policy.
    pub terms: Vec<Points>,
    /// The next best candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<String>,
    /// Candidates there were: nodes, or in a pull pool waiting jobs. 0 if nothing was noted.
    #[serde(default)]
    pub looked_at: u32,
    /// The best of the others with their totals, best first.
    #[serde(default)]
    pub runners_up: Vec<RunnerUp>,
    /// What stood against the rest, with how many.
    #[serde(default)]
    pub against: Vec<Against>,
    /// What the winner's points rest on.
    #[serde(default)]
    pub facts: Facts,
    /// How old what the node had said of itself was, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_ms: Option<u64>,
}

/// An event of the journal, as the event stream tells it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventView {
    /// Its number. The `id` of the stream is the journal and this number, as in `9f86d081884c7d65-12`.
    pub seq: u64,
    /// When.
    pub at_ms: i64,
    /// What kind; also the `event` of the stream.
    pub kind: String,
    /// The job it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The node it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Everything it says.
    #[schema(value_type = Object)]
    pub event: Value,
}

/// Something that might be done. Exactly one field is given; none asks what this instant brings by itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PlanRequest {
    /// A job is submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submit: Option<crate::job::JobRequest>,
    /// Jobs that depend on each other are submitted, all or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<crate::job::JobRequest>>,
    /// What a job file says is submitted: its text, in TOML or JSON, with one job or several under `jobs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// A job is taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<String>,
    /// Nodes are gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 10000)]
    pub lose: Option<Vec<String>>,
    /// Nodes join: each in the fields of a scenario, with `count` for several alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>, max_items = 1000)]
    pub add: Option<Vec<serde_json::Map<String, Value>>>,
    /// A tenant gets another share or quota: the fields of a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub set_tenant: Option<serde_json::Map<String, Value>>,
    /// A pool gets other settings: the fields of a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub set_pool: Option<serde_json::Map<String, Value>>,
    /// With `set_pool`: the text of a policy file of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_text: Option<String>,
}

/// What is now, as a scenario file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScenarioView {
    /// The file, in TOML.
    pub text: String,
    /// What could not be told in it, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// Why a job is where it is, or what stands between it and a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Explained {
    /// What stands between it and the node that was asked about.
    Node(Box<WhyNot>),
    /// Why it is where it is.
    Job(Box<Explanation>),
    /// How it ended, if that is long enough ago that nothing more is at hand.
    Ended(Box<JobView>),
}

/// Where a job is and why there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlacementView {
    /// The job.
    pub job: JobId,
    /// Where it stands.
    pub state: JobState,
    /// Its pool.
    pub pool: PoolId,
    /// Which attempt this is.
    pub attempt: u32,
    /// The primary reason why it waits.
    pub reason: Option<Reason>,
    /// Nodes, fence and breakdown; null while it waits.
    pub placed: Option<Placed>,
    /// Every offer with its terms, and who declined why, if peers place it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negotiation: Option<crate::peer::NegotiationView>,
}

/// What would happen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlanView {
    /// Who would start, stop, wait and move.
    #[serde(flatten)]
    pub answer: PlanAnswer,
    /// The jobs as they would be submitted, if the change submits any.
    pub submitted: Vec<PlannedJob>,
    /// What peers offer for the job, if they would place it: nothing is kept and nothing is awarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negotiation: Option<NegotiationView>,
}
