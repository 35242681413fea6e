//! What decisions looked at beside whom they chose. Nothing depends on it: it is for whoever keeps decisions.
//!
//! It is no part of the events that steps make, because those are the same whatever an engine has kept ready, and what is kept
//! ready decides which of several reasons is known of a node.

use std::collections::BTreeMap;

use landfall_model::life::{Beside, RUNNERS_UP_KEPT, RunnerUp};
use landfall_model::reason::Reason;
use landfall_model::verdict::{Direction, Verdict};
use landfall_model::{JobId, JobKind, Millis, Node, NodeId, PoolId, Time};
use landfall_policy::view::Pass;
use landfall_policy::{Looked, Policy};
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::record::JobRecord;

/// What stands against a class of jobs or a worker is told again after this long, though it is the same.
const TOLD_AGAIN_AFTER: Millis = Millis::secs(300);

/// A decision that chose nobody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Undecided {
    /// The job that nodes were ranked for; others like it wait behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// The worker that jobs were ranked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    pub beside: Beside,
}

/// A decision, as whoever keeps decisions hears of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// The job that was placed, or that nobody could take.
    pub job: Option<JobId>,
    /// The worker that asked, in a pull pool.
    pub asked: Option<(NodeId, JobKind)>,
    pub placed: bool,
    /// Whether it says something that was not said a short while ago.
    pub is_news: bool,
    pub beside: Beside,
    /// In a pull pool the jobs that were scored, best first.
    pub candidates: Vec<Verdict>,
}

/// What was last told about a class of jobs or a worker that nobody was chosen for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told(Option<(Time, Vec<Reason>)>);

impl Told {
    /// Whether this is to be told, and not the same as a short while ago.
    pub(crate) fn is_news(&mut self, now: Time, beside: &Beside) -> bool {
        let mut reasons: Vec<Reason> = beside.against.iter().map(|against| against.reason).collect();
        reasons.sort_unstable();
        if let Some((at, said)) = &self.0
            && *said == reasons
            && now.since(*at) < TOLD_AGAIN_AFTER
        {
            return false;
        }
        self.0 = Some((now, reasons));
        true
    }
}

impl Engine {
    /// From now on decisions tell what they looked at; see [`Engine::take_notes`].
    pub fn keep_notes(&mut self) {
        self.notes.get_or_insert_default();
    }

    /// What the decisions since the last call looked at.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.notes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// How long ago a node said something of itself.
    pub(crate) fn heard_ago(&self, node: &NodeId) -> Option<Millis> {
        self.heard_at(node).map(|at| self.now.since(at))
    }
}

/// What was looked at when nodes were ranked for a job, and one of them was chosen or none.
pub(crate) fn of_nodes(
    policy: &Policy,
    pass: &Pass<'_>,
    record: &JobRecord,
    chosen: Option<&Node>,
    looked: &Looked,
) -> Beside {
    let nodes = pass.nodes();
    let points = |slot: &usize| {
        let verdict = policy.pair_points(pass, &record.job, &nodes[*slot], Direction::NodesForJob);
        RunnerUp::of(&verdict)
    };
    let facts = chosen.map(|node| policy.pair_verdict(pass, &record.job, node, Direction::NodesForJob).facts);
    Beside {
        pool: Some(record.pool.clone()),
        looked_at: nodes.len() as u32,
        runners_up: looked.runners_up.iter().filter_map(points).collect(),
        against: Beside::counted(looked.against.clone()),
        facts: facts.unwrap_or_default(),
        heard_ms: None,
    }
}

/// What was looked at when jobs were ranked for a worker.
pub(crate) fn of_jobs(
    pool: &PoolId,
    waiting: usize,
    chosen: Option<&JobId>,
    candidates: &[Verdict],
    against: BTreeMap<Reason, u32>,
) -> Beside {
    let others = candidates
        .iter()
        .filter(|verdict| chosen.is_none_or(|job| verdict.candidate.as_str() != job.as_str()));
    Beside {
        pool: Some(pool.clone()),
        looked_at: waiting as u32,
        runners_up: others.filter_map(RunnerUp::of).take(RUNNERS_UP_KEPT).collect(),
        against: Beside::counted(against),
        ..Beside::default()
    }
}
