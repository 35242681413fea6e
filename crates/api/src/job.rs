//! Jobs: how they are submitted and how they are shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use landfall_model::Indices;
pub use landfall_model::Needs;
use landfall_model::life::{EdgeKind, Join};

use crate::ApiError;
use crate::needs::NeedsSchema;

/// Why a job was cancelled that was there for a failure which did not happen: nothing is wrong with it.
pub const UNNEEDED: &str = "unneeded";

/// States by which jobs can be asked for; the first two stand for several.
pub const STATES_ASKED: [&str; 11] = [
    "live",
    "ended",
    "pending",
    "staging",
    "running",
    "checkpointing",
    "stopping",
    "suspended",
    "completed",
    "failed",
    "cancelled",
];

/// What a job runs. Which fields count depends on the runtime, which stands in its needs (`process` if left out).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunSpec {
    /// Program and arguments. `wasm`: arguments of the module; `container`: command in the image.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Environment variables beside those that the agent sets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Working directory, as the node sees it. If left out, the directory it was submitted from where that is on the node, else a
    /// fresh one, which is kept for a while if the job leaves something in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Where it was submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitted_from: Option<SubmittedFrom>,
    /// Image of a `container`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Path of the module of a `wasm` job, as the node sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Path of the model of an `llmcpp` job, as the node sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Directories of the node that the job may read or write (`wasm`, `container`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
    /// Text for standard input; empty if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Text of a script, whose first line says what runs it (`#!/bin/sh`); `command` is then its name and its arguments (`process`).
    /// Lists leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// A file that standard output goes to, from the working directory; standard error goes there, too, unless `stderr` names another
    /// file. `{job}`, `{array}`, `{index}`, `{name}`, `{node}`, `{rank}` and `{attempt}` are filled in (`process`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// A file that standard error goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Whether the job is also told what it is in the variables of Slurm, such as `SLURM_JOB_ID`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub slurm: bool,
    /// Whether it gets the cores it asks for to itself, as far as other pinned jobs go; it then asks for whole ones (`process`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pin: bool,
    /// Somebody is at its standard input while it runs (`POST /jobs/{id}/input`), in a terminal of this size, or through pipes where rows
    /// and columns are 0 (`process`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal: Option<Terminal>,
    /// After how many milliseconds in which nothing is heard of them it ends; a minute if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hang_up_ms: Option<u64>,
    /// Whether the job is cut off from the network (`container`; `wasm` has none).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub offline: bool,
    /// Longest run in milliseconds, enforced by the agent in every pool. Batch pools also enforce `needs.walltime_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The exit codes that mean "try again": the job goes back to the queue while it has requeues left.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retry_on: Vec<i32>,
    /// The signal that asks the job to save its work (`USR1` if left out).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_signal: Option<String>,
}

impl RunSpec {
    /// What runs it, where its needs do not say.
    pub fn runtime(&self) -> &'static str {
        match (&self.image, &self.module, &self.model) {
            (Some(_), ..) => "container",
            (_, Some(_), _) => "wasm",
            (.., Some(_)) => "llmcpp",
            _ => "process",
        }
    }
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Terminal {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub cols: u16,
}

/// What somebody who is at a job does. An empty one says that they are still there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Typed {
    /// Bytes for its standard input, in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 1000000)]
    pub data: String,
    /// The terminal has this size now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Terminal>,
    /// No more input comes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub end: bool,
}

/// Where somebody stood who submitted a job. An agent of the same user on the same machine runs the job there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmittedFrom {
    /// The name of the machine.
    pub host: String,
    /// The number of the user.
    pub uid: u32,
    /// The directory.
    pub dir: String,
}

/// A directory of the node inside a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// Path on the node.
    pub source: String,
    /// Path inside the job.
    pub target: String,
    /// Whether the job may write there.
    #[serde(default)]
    pub writable: bool,
}

/// What a job waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DependsOn {
    /// The job or array; in a DAG also the key of another job of the same submission.
    pub on: String,
    /// What is needed of it: `success` if left out, `failure`, `any`, `corresponding`, `mutex`.
    #[serde(default)]
    pub kind: EdgeKind,
}

/// A job as it is submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JobRequest {
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub name: Option<String>,
    /// How other jobs of the same DAG call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The workload it is made from; what the job says itself comes before what the workload says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// What it needs, and how it wants to be treated: the fields of a job in a scenario (docs/reference/scenario.md).
    #[serde(skip_serializing_if = "Needs::is_empty")]
    #[schema(value_type = NeedsSchema)]
    pub needs: Needs,
    /// What it runs.
    pub run: RunSpec,
    /// Submit one job for each index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<Indices>,
    /// Whether the array takes more elements, until it is closed (`POST /arrays/{id}/elements`, `POST /arrays/{id}/close`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// What differs from element to element, one for each in order: an element finds its own in `LANDFALL_ENTRY`, and where its command
    /// says `{entry}`, or `{entry.FIELD}` of one that is an object in JSON. Without `array` the elements count from 1.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<String>,
    /// What it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<DependsOn>,
    /// Whether it waits for all of that or any: `all` if left out.
    pub join: Join,
    /// The DAG it joins: its id, or that of any job or array of it. Jobs that are submitted together are a DAG without saying so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dag: Option<String>,
    /// Not before this instant, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before_ms: Option<u64>,
    /// Accept it, but do not start it before it is released.
    pub hold: bool,
    /// Negotiated placement, for pools that negotiate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementRequest>,
    /// Refuse it if no node that its pool has could ever run it, instead of a warning.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
}

/// More elements for an array that is open: so many, or one for each entry.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MoreElements {
    /// How many, where the elements of the array have no entries.
    #[schema(maximum = 1000000)]
    pub count: u32,
    /// What they differ in, one for each in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<String>,
}

/// How a negotiated job wants to be placed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PlacementRequest {
    /// Wishes: `prefer_peers`, `prefer_regions`, `avoid_peers`, `colocate_with`, `data`.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub hints: Map<String, Value>,
    /// Most it will pay, in credits per 1000 fuel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<u64>,
    /// Named weights for offers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// How long offers are collected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliberation_ms: Option<u64>,
    /// How long an award lasts without renewal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// The farthest peer that may run it: `local`, `cell`, `org`, `federation`, `commons`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_scope: Option<String>,
    /// The farthest peer that is asked at first; each further round reaches a step further, up to `max_scope`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_scope: Option<String>,
    /// The only scopes that may run it; none means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_scopes: Vec<String>,
    /// The cell it would like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    /// Whether offers are compared: `always`, `never` (the first one that fits is taken), or `auto`, by whether the job says what it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub negotiate: Option<String>,
}

/// Jobs that depend on each other, accepted together or not at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DagRequest {
    /// The jobs; each may have a `key` by which others name it in `depends_on`.
    #[schema(min_items = 1, max_items = 1000)]
    pub jobs: Vec<JobRequest>,
}

/// A job as it would be submitted: all that its request, its workload, the token and the defaults say, put together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedJob {
    /// What the plan calls it: `planned`, or `planned-1` and so on where there are several. Elements of an array add
    /// their index.
    pub id: String,
    /// How other jobs of the same DAG call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its pool.
    pub pool: String,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// What it needs, without what is as usual.
    #[schema(value_type = NeedsSchema)]
    pub needs: Needs,
    /// What it runs.
    pub run: RunSpec,
    /// Which elements it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<Indices>,
    /// The jobs it waits for; those that have ended as they should are left out.
    pub depends_on: Vec<DependsOn>,
    /// Whether it waits for all of that or any.
    #[schema(value_type = String, example = "all")]
    pub join: Join,
    /// Not before this instant, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before_ms: Option<u64>,
    /// Whether it is kept from starting until it is released.
    pub held: bool,
}

/// What a submission became.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Submitted {
    /// The job, or the array.
    pub id: String,
    /// How many jobs that are.
    pub count: u64,
    /// Whether the same submission had been accepted before under the same idempotency key.
    #[serde(default)]
    pub repeated: bool,
    /// What whoever submits it should know, such as that no node could ever run it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What one line of many submissions became.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SubmittedLine {
    /// Which line, from 1.
    pub line: u64,
    /// What it became, if it was accepted.
    #[serde(flatten)]
    pub submitted: Option<Submitted>,
    /// Why it was not accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ApiError>,
}

/// What the jobs of a DAG became, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SubmittedDag {
    /// The id of the DAG: that of its first job.
    #[serde(default)]
    pub id: String,
    /// One entry per job.
    pub jobs: Vec<SubmittedKey>,
    /// Whether the same submission had been accepted before under the same idempotency key.
    #[serde(default)]
    pub repeated: bool,
    /// What whoever submits it should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// One job of a DAG.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SubmittedKey {
    /// Its key, if it has one.
    pub key: Option<String>,
    /// Its id.
    pub id: String,
}

/// A node that a job holds or held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OnNode {
    /// The node.
    pub node: String,
    /// Indices of the GPUs it holds there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<u16>,
    /// The cores it has to itself there, if it was pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// How far it is there: `assigned`, `started`, `checkpointed`, `ended`.
    pub phase: String,
    /// Its exit code there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// What a run used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct UsageView {
    /// Peak memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_ram_mib: Option<u64>,
    /// CPU time in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_time_ms: Option<u64>,
    /// How long it ran in milliseconds, as its node measured it: an agent that was away reports an end late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// Bytes read and written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// Most bytes a second that the network carried in one direction, if it had its node to itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_bytes_s: Option<u64>,
    /// Whether it was killed for memory.
    pub oom: bool,
}

/// A job as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobView {
    /// Its id.
    pub id: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The array it belongs to, and which element it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ElementView>,
    /// In lists: this is an array, and so many of its elements are in this state without being listed by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elements: Option<u64>,
    /// `pending`, `staging`, `running`, `checkpointing`, `stopping`, `suspended`, `completed`, `failed`, `cancelled`.
    pub state: String,
    /// Why it is there: why it waits, or how it ended. A name for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it waits, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Its pool.
    pub pool: String,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Who submitted it: the name of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitter: Option<String>,
    /// What it needs, without what is as usual. Other versions may know other fields.
    #[schema(value_type = NeedsSchema)]
    pub needs: Map<String, Value>,
    /// What it runs; environment variables are left out for those who may not steer it.
    pub run: RunSpec,
    /// Which attempt this is.
    pub attempt: u32,
    /// Whether somebody keeps it from starting.
    #[serde(default)]
    pub held: bool,
    /// What it waits for, if that is another job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Its place in a DAG, if it is part of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dag: Option<DagPlace>,
    /// When it was submitted.
    pub submitted_at_ms: u64,
    /// When it first ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<u64>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
    /// Where it is or was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<OnNode>,
    /// Its exit code, once it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageView>,
    /// What it costs where it is or was last, where its pool has prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
    /// Where on its node lies what it left in the fresh directory it ran in, until the node cleans up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// What is worth knowing about this attempt, such as that it could not go on from its checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Changes whenever the job does; the `ETag` of the job is made from it.
    pub version: String,
}

/// A job's place in a DAG.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DagPlace {
    /// The DAG.
    pub id: String,
    /// How the others call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What it depends on, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<DependsOn>,
    /// Whether it needs all of that or any.
    #[serde(default)]
    #[schema(value_type = String, example = "all")]
    pub join: Join,
}

/// Jobs that depend on each other, as one: how many of them are where.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct DagView {
    /// Its id: that of its first job.
    pub id: String,
    /// `pending` until one of them has started, `running` until all have ended, then `completed`, or `failed` if one has failed or was
    /// taken back.
    pub state: String,
    /// Whether one of them has failed while others go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failing: bool,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// When the first of them was submitted.
    pub submitted_at_ms: u64,
    /// When the first of them started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<u64>,
    /// When the last of them ended, once all have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
    /// How many jobs and arrays it has; those that the server has forgotten are left out.
    pub total: u64,
    /// How many wait.
    pub pending: u64,
    /// How many have nodes, or had some and go on later.
    pub running: u64,
    /// How many ended well.
    pub completed: u64,
    /// How many ended badly.
    pub failed: u64,
    /// How many were taken back, or can never start.
    pub cancelled: u64,
    /// How many were there for a failure that did not happen.
    pub unneeded: u64,
    /// The jobs in the order of their ids; lists leave them out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<DagJob>,
}

/// A job or an array of a DAG.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct DagJob {
    /// Its id.
    pub id: String,
    /// How the others call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it stands, as in a job; `unneeded` if it was there for a failure that did not happen.
    pub state: String,
    /// Why it is there, by a name for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its exit code, once it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How many elements it has, if it is an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elements: Option<u64>,
    /// What it depends on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<DependsOn>,
    /// Of that, what it still waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
    /// When it first ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<u64>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
}

/// What came of taking a DAG back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct CancelledDag {
    /// Jobs and arrays that are taken back.
    pub cancelled: u64,
    /// Those that had ended before.
    pub ended: u64,
}

/// A job's place in an array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ElementView {
    /// The array.
    pub id: String,
    /// Which element.
    pub index: u32,
    /// What it differs from the others in, if the submission said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
}

/// An array as it is shown: how many of its jobs are where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArrayView {
    /// Its id.
    pub id: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What its elements run: program and arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Its pool.
    pub pool: String,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Which elements it has.
    pub range: Indices,
    /// When it was submitted.
    pub submitted_at_ms: u64,
    /// How many elements there are.
    pub total: u64,
    /// How many wait.
    pub pending: u64,
    /// How many are placed.
    pub running: u64,
    /// How many ended well.
    pub completed: u64,
    /// How many ended badly.
    pub failed: u64,
    /// How many were taken back.
    pub cancelled: u64,
    /// Why none of them has started, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether it takes more elements.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// The index that the ids of its elements have room for, where that is not the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids_to: Option<u32>,
}

impl ArrayView {
    /// Whether all its jobs have ended, and no more come.
    pub fn is_over(&self) -> bool {
        self.completed + self.failed + self.cancelled >= self.total && !self.open
    }
}

/// A piece of what a job wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogChunk {
    /// `stdout` or `stderr`.
    pub stream: String,
    /// The node that wrote it.
    pub node: String,
    /// The attempt.
    pub attempt: u32,
    /// Where in the stream it begins.
    pub offset: u64,
    /// The bytes, in base64.
    pub data: String,
}
