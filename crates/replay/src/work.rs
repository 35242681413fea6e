//! How a job really runs: what the scheduler cannot know, and only the replay does.

use std::collections::VecDeque;

use landfall_model::Millis;
use serde::{Deserialize, Serialize};

/// One run of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Attempt {
    /// How long it runs; `None` if it runs until it is stopped.
    #[serde(rename = "run_ms", skip_serializing_if = "Option::is_none")]
    pub run: Option<Millis>,
    /// From the decision until it runs.
    #[serde(rename = "start_ms", skip_serializing_if = "is_nothing")]
    pub start: Millis,
    /// From the order to stop until it is gone.
    #[serde(rename = "stop_ms", skip_serializing_if = "is_nothing")]
    pub stop: Millis,
    /// The exit code with which it ends by itself.
    #[serde(skip_serializing_if = "is_zero")]
    pub exit: i32,
}

fn is_nothing(span: &Millis) -> bool {
    span.is_zero()
}

fn is_zero(code: &i32) -> bool {
    *code == 0
}

/// All runs of a job that end by themselves. Those that are stopped, because a node is lost or somebody else goes first,
/// are not among them: whether that happens is what a replay finds out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Runs {
    /// Those before the last, which failed.
    pub retried: Vec<Attempt>,
    pub last: Attempt,
}

impl Runs {
    /// A job that ends well, after so long.
    pub fn once(run: Option<Millis>) -> Self {
        Self { retried: Vec::new(), last: Attempt { run, ..Attempt::default() } }
    }

    /// In order; the last one is repeated as often as it is needed.
    pub(crate) fn in_order(self) -> VecDeque<Attempt> {
        self.retried.into_iter().chain([self.last]).collect()
    }
}
