//! The protocol between server and agent.
//!
//! The agent speaks first, always: it registers (`PUT /nodes/{id}/registration`), sends heartbeats
//! (`POST /nodes/{id}/heartbeat`), keeps one long answer open on which commands arrive as lines of JSON
//! (`GET /nodes/{id}/commands`), and says what became of them (`POST /nodes/{id}/reports`). So an agent needs no open port.
//!
//! *Nothing gets lost.* The server repeats a start command that nobody answered; the agent repeats a report until the
//! server says that it is stored. A heartbeat names what runs, and the server stops what should not. *Nothing runs twice.*
//! Every command carries a fence (job, attempt, epoch). The agent remembers the highest attempt it has seen of a job and
//! ignores commands with a lower one; a start of an attempt that runs already is answered with `started` again.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use landfall_model::life::Fence;
use landfall_model::life::Report;
use landfall_model::life::Task;

use crate::job::{RunSpec, Typed};
use crate::node::FenceView;

/// What a job gets on this node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Share {
    /// CPU in milli-cores; 0 means nothing was asked.
    pub cpu_milli: u64,
    /// Memory in MiB; 0 means nothing was asked.
    pub ram_mib: u64,
    /// Indices of its GPUs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<u16>,
    /// Memory of each of its GPUs in MiB.
    pub vram_mib: u64,
    /// Compute of each of its GPUs in thousandths.
    pub gpu_milli: u64,
    /// Whether it has the node to itself.
    pub exclusive: bool,
    /// The slice that it has of its GPU, such as `2g@4`: compute slices and the first memory slice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<String>,
}

/// A job to be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Start {
    /// The attempt.
    #[schema(value_type = FenceView)]
    pub fence: Fence,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What runs it.
    pub runtime: String,
    /// What it runs.
    pub run: RunSpec,
    /// What it gets.
    pub share: Share,
    /// Its pool.
    pub pool: String,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The array it belongs to, and which element it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<(String, u32)>,
    /// All nodes of a gang in order; this node's place is its rank.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Whether it goes on from a checkpoint.
    #[serde(default)]
    pub resume: bool,
    /// How long it may run at most, for agents that lose the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walltime_ms: Option<u64>,
    /// After how much silence of the server the node stops it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_after_silence_ms: Option<u64>,
    /// The server's time when it said so, in milliseconds since 1970: what arrives long after need not hold any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_at_ms: Option<i64>,
    /// Inputs it reads, by digest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// Whether it begins only when another element of its array ends on this node. That it began is said before that the
    /// other one ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ahead: bool,
    /// What it is to do this time, if that is less than all of the job; it reads it as `LANDFALL_TASK`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// Thousandths of tokens per second that a language model should generate here, by what was known when it was placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_milli_tok_s: Option<u64>,
}

/// What an agent is told, one line of JSON each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Start a job.
    Start(Box<Start>),
    /// Ask a job to end; kill it after the grace.
    Stop {
        /// The attempt.
        #[schema(value_type = FenceView)]
        fence: Fence,
        /// Milliseconds until it is killed; zero means at once.
        grace_ms: u64,
    },
    /// Give a job back that was told ahead, unless it has begun.
    GiveBack {
        /// The attempt.
        #[schema(value_type = FenceView)]
        fence: Fence,
    },
    /// Ask a job to save its work.
    Checkpoint {
        /// The attempt.
        #[schema(value_type = FenceView)]
        fence: Fence,
        /// Milliseconds until that is given up.
        within_ms: u64,
        /// Whether it ends afterwards.
        leave: bool,
    },
    /// Tell a job that its node will be wanted back.
    Notice {
        /// The attempt.
        #[schema(value_type = FenceView)]
        fence: Fence,
        /// In how many milliseconds.
        in_ms: u64,
    },
    /// Somebody who is at a job typed something.
    Input {
        /// The attempt.
        #[schema(value_type = FenceView)]
        fence: Fence,
        /// What was typed.
        typed: Typed,
    },
    /// Look whether the node is well, and say so.
    Probe,
    /// There is work in a pull pool: ask for it.
    Work,
    /// Say which inputs of these jobs are missing here (`POST /nodes/{id}/fetches`).
    Offer {
        /// Jobs with the digests of their inputs and, where known, their sizes.
        jobs: Vec<Offered>,
    },
    /// The line is alive.
    Ping,
}

/// A job that a pull worker may look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Offered {
    /// The job.
    pub job: String,
    /// Digests and sizes of its inputs.
    pub inputs: Vec<(String, Option<u64>)>,
}

/// Something an agent says about an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportItem {
    /// The attempt.
    #[schema(value_type = FenceView)]
    pub fence: Fence,
    /// What became of it: `"started"`, `"started_afresh"`, `{"refused": "busy"}`, `{"exited": {"code": 0, "failure": null, "usage": {}}}`,
    /// `"stopped"`, `"checkpointed"`, `"checkpoint_progress"`, `"checkpoint_failed"`.
    #[schema(value_type = Object)]
    pub report: Report,
    /// Where on the node lies what an ended attempt left in its fresh directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// The cores that a pinned attempt has to itself, such as `0-1,4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// Most bytes a second that the network carried in one direction during an ended attempt, if it had the node to itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_bytes_s: Option<u64>,
}

impl ReportItem {
    /// A report and nothing beside it.
    pub fn new(fence: Fence, report: Report) -> Self {
        Self { fence, report, files: None, cpus: None, network_bytes_s: None }
    }
}

/// Several reports in order. The answer comes when all of them are stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reports {
    /// The reports.
    #[schema(max_items = 10000)]
    pub reports: Vec<ReportItem>,
    /// Slots that became free, in a pull pool: ask for so many jobs in the same breath.
    #[serde(default)]
    pub ask: u32,
}

/// What became of reports, in order: `done`, or why one was ignored or refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReportAnswers {
    /// One word per report.
    pub answers: Vec<String>,
    /// Jobs that the node was given because it asked; their start commands are on the way.
    #[serde(default)]
    pub granted: u32,
}

/// A pull worker asks for work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// `build` (if left out) or `eval`.
    #[serde(default = "build")]
    pub kind: String,
    /// How many jobs it has room for.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 1000)]
    pub slots: u32,
}

fn build() -> String {
    "build".to_owned()
}

fn one() -> u32 {
    1
}

/// What a pull worker gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Asked {
    /// Attempts it was given; their start commands are on the way.
    #[schema(value_type = Vec<FenceView>)]
    pub granted: Vec<Fence>,
    /// Why there were no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a node would have to fetch for jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Fetches {
    /// One entry per job.
    #[schema(max_items = 1000)]
    pub entries: Vec<FetchEntry>,
}

/// What a node would have to fetch for one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FetchEntry {
    /// The job.
    pub job: String,
    /// Inputs that are not there; absent takes the report back.
    #[serde(default)]
    pub missing_inputs: Option<u64>,
    /// Their size as far as it is known.
    #[serde(default)]
    pub missing_bytes: Option<u64>,
}

/// What jobs wrote since the last time. The server keeps it; the same piece sent twice is kept once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LogPieces {
    /// The pieces.
    pub pieces: Vec<LogPiece>,
}

/// A piece of what one attempt wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LogPiece {
    /// The attempt.
    #[schema(value_type = FenceView)]
    pub fence: Fence,
    /// `stdout` or `stderr`.
    pub stream: String,
    /// Where in the stream it begins.
    pub offset: u64,
    /// The bytes, in base64.
    pub data: String,
}

/// What became of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Probed {
    /// Whether the node is well.
    pub good: bool,
}

/// Where the pieces that follow have to begin, in the order of the pieces that were sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogsKept {
    /// One offset per piece.
    pub next: Vec<u64>,
}
