//! What agent and keeper say to each other: one JSON value per line, in both directions, never waiting for an answer.

use serde::{Deserialize, Serialize};

use landfall_model::life::Fence;

/// What a job may use at most, where that can be enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// CPU in milli-cores; zero means not limited.
    pub cpu_milli: u64,
    /// Memory in MiB; zero means not limited.
    pub ram_mib: u64,
}

/// What the agent must still know about a job after it was started anew itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Note {
    pub runtime: String,
    /// Exit codes that mean "try again".
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retry_on: Vec<i32>,
    /// The signal that asks it to save its work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_signal: Option<String>,
    /// How long it may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walltime_ms: Option<u64>,
    /// After how much silence of the server it is stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_after_silence_ms: Option<u64>,
    /// Whether it had saved its work elsewhere and began anew here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub afresh: bool,
    /// The cores it has to itself, if it was pinned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// Whether somebody is at it, so that what it writes is wanted at once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub attended: bool,
    /// Tokens per second that this machine should reach, for models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_milli_tok_s: Option<u64>,
    /// Bytes of output that the server has, for standard output and standard error.
    #[serde(skip_serializing_if = "is_nothing")]
    pub shipped: (u64, u64),
}

fn is_nothing(shipped: &(u64, u64)) -> bool {
    *shipped == (0, 0)
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Program {
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Its working directory; a fresh one if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Text of a script that is among its arguments, by the name that the layout gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// A file of the job's own for standard output, and for standard error if there is no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// A file of the job's own for standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// How many cores it gets to itself; zero if it may run on any.
    #[serde(skip_serializing_if = "is_zero")]
    pub pin: u32,
    /// Run this instead of sending a signal that asks it to end; `{grace_s}` becomes the seconds it has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop_command: Vec<String>,
    /// Run this beside killing it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kill_command: Vec<String>,
    /// Whether the work is done by another process, so that the usage of this one says nothing.
    pub elsewhere: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawn {
    pub fence: Fence,
    #[serde(flatten)]
    pub program: Program,
    /// What the agent wants to be told again later.
    pub note: Note,
    /// The array that it is an element of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    /// Whether it begins only when another element of its array ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ahead: bool,
}

/// Why a job was asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The server wanted it.
    Stopped,
    /// It ran longer than it may.
    Timeout,
    /// It ran longer than its walltime, and the server was not there to say so.
    Walltime,
    /// It saved its work and had to leave.
    Checkpointed,
    /// The server was silent for longer than the job may go on without it.
    Disconnected,
    /// It began, and how it ended nobody knows: its keeper was killed, or the machine.
    Lost,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Start a job. Starting one that is there already does nothing.
    Spawn(Box<Spawn>),
    /// Begin a job that was to begin when another one ends.
    Begin { fence: Fence },
    /// Give such a job back, unless it has begun.
    GiveBack { fence: Fence },
    /// Send a signal to all its processes.
    Signal {
        fence: Fence,
        /// Such as `USR1`.
        signal: String,
    },
    /// Ask it to end, and kill it after the grace.
    Stop {
        fence: Fence,
        /// Milliseconds until it is killed; zero means at once.
        grace_ms: u64,
        cause: Cause,
    },
    /// The server knows how these ended: forget them and remove their files.
    Forget { fences: Vec<Fence> },
    /// The server has so much of the output of a job.
    Shipped {
        fence: Fence,
        /// Bytes of standard output and standard error.
        shipped: (u64, u64),
    },
    /// How long it may run has changed.
    Walltime { fence: Fence, walltime_ms: Option<u64> },
    /// The server has just been heard, in case jobs must not go on without it.
    Heard,
    /// The agent leaves for good: no reason to stay if nothing runs.
    Bye,
}

/// What the keeper says first on every connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    pub pid: u32,
    /// How limits are enforced, in one line.
    pub limits: String,
    /// Which are; an older keeper does not say.
    #[serde(default)]
    pub enforced: Option<landfall_api::node::Limits>,
    pub running: Vec<Running>,
    /// What ended and was not forgotten yet.
    pub ended: Vec<Ended>,
    /// Whether all that ever began in this directory is known: an attempt that is not named never began.
    #[serde(default)]
    pub remembers: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pub fence: Fence,
    /// For how long already.
    pub for_ms: u64,
    pub note: Note,
    /// Whether it has yet to begin, when another one ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ahead: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    pub fence: Fence,
    /// Its exit code; 128 and the number of the signal if one ended it.
    pub code: i32,
    /// Why it was asked to end, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// How long it ran.
    #[serde(default)]
    pub wall_ms: u64,
    /// CPU time, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// Peak memory, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_ram_bytes: Option<u64>,
    /// Bytes read from disk and written to disk.
    #[serde(default)]
    pub disk_bytes: u64,
    /// Whether the kernel killed it for memory.
    #[serde(default)]
    pub oom: bool,
    /// Bytes it wrote on standard output and standard error.
    #[serde(default)]
    pub written: (u64, u64),
    /// Where what it left in its fresh directory is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    pub note: Note,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// First on every connection.
    Hello(Box<Hello>),
    /// A job that is about to begin got these cores to itself.
    Pinned {
        fence: Fence,
        cpus: String,
    },
    Spawned(Fence),
    /// A job could not be started through no fault of its own.
    Unstartable {
        fence: Fence,
        why: String,
    },
    /// Where another one began in its place, that was told before.
    Ended(Box<Ended>),
    /// A job was given back before it began.
    Returned(Fence),
}
