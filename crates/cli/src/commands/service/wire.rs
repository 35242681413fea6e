//! Explanations and plans as they arrive: the engine's answers are written to be sent, these are written to be read.
//!
//! Only what pages show is read; `--json` passes on what the server said, word for word.

use landfall_engine::Refused;
use landfall_engine::breakdown::Breakdown;
use landfall_engine::record::{Cause, JobState, StartKind};
use landfall_engine::solver::Precision;
use landfall_model::{Dispatch, Time};
use serde::Deserialize;
use serde_json::Value;

/// A job's place among those that wait.
#[derive(Debug, Deserialize)]
pub(crate) struct QueuePlace {
    pub(crate) position: u64,
    pub(crate) of: u64,
    pub(crate) ahead: Option<String>,
}

/// One reason why a job waits.
#[derive(Debug, Deserialize)]
pub(crate) struct Why {
    pub(crate) reason: String,
    pub(crate) detail: String,
}

/// One node of a placed job.
#[derive(Debug, Deserialize)]
pub(crate) struct OnNode {
    pub(crate) node: String,
    #[serde(default)]
    pub(crate) gpus: Vec<u16>,
    pub(crate) lender: Option<String>,
}

/// Where a job was placed and why.
#[derive(Debug, Deserialize)]
pub(crate) struct Placed {
    pub(crate) kind: StartKind,
    pub(crate) nodes: Vec<OnNode>,
    pub(crate) leaves: Option<Cause>,
    pub(crate) why: Breakdown,
}

/// How a job ended.
#[derive(Debug, Deserialize)]
pub(crate) struct Ended {
    pub(crate) cause: Cause,
}

/// Why a job is where it is.
#[derive(Debug, Deserialize)]
pub(crate) struct Explanation {
    pub(crate) now_ms: Time,
    pub(crate) state: JobState,
    pub(crate) pool: String,
    pub(crate) dispatch: Dispatch,
    pub(crate) policy: String,
    pub(crate) attempt: u32,
    pub(crate) queue: Option<QueuePlace>,
    #[serde(default)]
    pub(crate) reasons: Vec<Why>,
    #[serde(default)]
    pub(crate) help: Vec<String>,
    pub(crate) placed: Option<Placed>,
    pub(crate) ended: Option<Ended>,
}

/// When a job starts.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Estimate {
    pub(crate) planned_start_ms: Option<Time>,
    pub(crate) likely_start_ms: Option<Time>,
    pub(crate) precision: Precision,
    pub(crate) reason: String,
}

/// What stands between one job and one node.
#[derive(Debug, Deserialize)]
pub(crate) struct WhyNot {
    pub(crate) job: String,
    pub(crate) node: String,
    pub(crate) placed_here: bool,
    pub(crate) node_state: String,
    pub(crate) verdict: Verdict,
    #[serde(default)]
    pub(crate) ledger: Vec<String>,
    #[serde(default)]
    pub(crate) occupants: Vec<String>,
    pub(crate) kept_for: Option<String>,
}

/// What the policy says about a pair.
#[derive(Debug, Deserialize)]
pub(crate) struct Verdict {
    #[serde(default)]
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) total: Option<f64>,
    #[serde(default)]
    pub(crate) terms: Vec<Term>,
    #[serde(default)]
    pub(crate) vetoes: Vec<String>,
    pub(crate) barred: Option<String>,
}

/// One reason against a pair.
#[derive(Debug, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) filter: String,
    pub(crate) reason: String,
    pub(crate) class: String,
    pub(crate) needed: Value,
    pub(crate) found: Value,
    #[serde(default)]
    pub(crate) remedy: String,
}

/// What one term gave.
#[derive(Debug, Deserialize)]
pub(crate) struct Term {
    pub(crate) term: String,
    pub(crate) raw: f64,
    pub(crate) weight: f64,
    pub(crate) contribution: f64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Plan {
    pub(crate) now_ms: Time,
    pub(crate) refused: Option<Refused>,
    pub(crate) starts: Vec<Start>,
    pub(crate) stopped: Vec<Stopped>,
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) moved: Vec<Moved>,
    pub(crate) waiting_total: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Start {
    pub(crate) job: String,
    pub(crate) kind: StartKind,
    pub(crate) nodes: Vec<OnNode>,
    pub(crate) why: Breakdown,
}

/// Who would have to leave.
#[derive(Debug, Deserialize)]
pub(crate) struct Stopped {
    pub(crate) job: String,
    pub(crate) cause: Cause,
    pub(crate) state: JobState,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) job: String,
    pub(crate) estimate: Option<Estimate>,
    pub(crate) explanation: Explanation,
}

/// Whose start would move.
#[derive(Debug, Deserialize)]
pub(crate) struct Moved {
    pub(crate) job: String,
    pub(crate) before: Estimate,
    pub(crate) after: Estimate,
}
