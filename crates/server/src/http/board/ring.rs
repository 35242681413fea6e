//! The last decisions, with what was known when they were made.
//!
//! The engine keeps the breakdown of the winner with each commit, not the candidates that lost. So each entry here has one
//! candidate, the winner; `runner_up` names the next best.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use landfall_api::answer::DecisionView;
use serde_json::Value;

/// Decisions that are kept.
const KEPT: usize = 200;

/// A decision and its circumstances.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Kept {
    pub(crate) decision: DecisionView,
    /// 0 for an eval, 1 for a build.
    pub(crate) kind: u8,
    pub(crate) pool: String,
    /// Whose job it was.
    pub(crate) tenant: Option<String>,
    /// What people call the job.
    pub(crate) name: Option<String>,
    /// The array it belongs to.
    pub(crate) parent: Option<String>,
    pub(crate) node_context: Value,
    pub(crate) job_context: Value,
    /// What was known of the pool.
    pub(crate) instance_context: Value,
}

impl Kept {
    /// The id by which the board finds it.
    pub(crate) fn id(&self) -> String {
        format!("d{}", self.decision.seq)
    }

    /// The node it went to, the first one of a gang.
    pub(crate) fn node(&self) -> Option<&str> {
        self.decision.nodes.first().map(|granted| granted.node.as_str())
    }
}

/// The last decisions, newest last.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    kept: Mutex<VecDeque<Kept>>,
}

impl Ring {
    fn kept(&self) -> std::sync::MutexGuard<'_, VecDeque<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are kept at most.
    pub(crate) const fn room() -> usize {
        KEPT
    }

    /// Adds decisions; the oldest go.
    pub(crate) fn extend(&self, decisions: impl IntoIterator<Item = Kept>) {
        let mut kept = self.kept();
        for decision in decisions {
            if kept.len() == KEPT {
                kept.pop_front();
            }
            kept.push_back(decision);
        }
    }

    pub(crate) fn newest_first(&self) -> Vec<Kept> {
        self.kept().iter().rev().cloned().collect()
    }

    /// The decision of that id, or the newest about that job.
    pub(crate) fn find(&self, id: &str) -> Option<Kept> {
        let kept = self.kept();
        let by_id = kept.iter().find(|decision| decision.id() == id);
        by_id.or_else(|| kept.iter().rev().find(|decision| decision.decision.job == id)).cloned()
    }

    /// Earlier decisions about the same job, newest first.
    pub(crate) fn earlier(&self, than: &Kept) -> Vec<Kept> {
        let same =
            |other: &&Kept| other.decision.job == than.decision.job && other.decision.seq < than.decision.seq;
        self.kept().iter().rev().filter(same).cloned().collect()
    }
}
