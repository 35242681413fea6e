//! What would happen if: a change on a copy of the engine, compared with no change.
//!
//! Both copies first do all that can be done at this instant, so that the answer shows what the change does and not what
//! would have happened anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use landfall_model::answer::{Estimate, Moved, Placed, PlanAnswer, StartsNow, StaysWaiting, Stopped};
use landfall_model::{Indices, JobId, Node, NodeId, Pool, PoolId, Tenant};

use super::estimate::Estimates;
use crate::effect::{Answer, Refused};
use crate::engine::Engine;
use crate::event::Event;
use crate::input::{Input, NodeOrder, Submission};
use crate::record::{Cause, JobState};

/// Waiting jobs that are explained one by one.
const EXPLAINED_MAX: usize = 50;

/// Something that might be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Nothing: what this instant brings by itself.
    Nothing,
    /// Jobs are submitted, all or none.
    Submit(Vec<Submission>),
    SubmitArray {
        submission: Box<Submission>,
        indices: Indices,
    },
    /// A job is taken back.
    Cancel(JobId),
    /// Nodes are gone.
    NodesLost(Vec<NodeId>),
    /// Nodes join: each its own pool, or the only one there is.
    NodesAdded(Vec<Node>),
    /// A pool gets other settings or another policy.
    SetPool {
        pool: Box<Pool>,
        /// Its policy file, if it has one of its own.
        policy: Option<Arc<str>>,
    },
    /// A tenant gets another share or quota.
    SetTenant(Box<Tenant>),
}

impl Engine {
    /// What a change would do; this engine stays as it is.
    pub fn plan(&self, change: Change) -> PlanAnswer {
        let mut before = self.clone();
        before.now = self.now;
        let at_rest = before.finish_instant();
        let nothing = change == Change::Nothing;
        let asked: BTreeSet<JobId> = match &change {
            Change::Submit(jobs) => jobs.iter().map(|submission| submission.job.id.clone()).collect(),
            Change::SubmitArray { submission, .. } => BTreeSet::from([submission.job.id.clone()]),
            _ => BTreeSet::new(),
        };
        let mut after = before.clone();
        after.now = before.now;
        let mut happened = Vec::new();
        for input in inputs(&before, change) {
            let outcome = match input {
                Ok(input) => after.step(before.now, input),
                Err(refused) => return self.refused(refused, &before),
            };
            if let Answer::Refused(refused) = outcome.answer {
                return self.refused(refused, &before);
            }
            happened.extend(outcome.events);
        }
        happened.extend(after.finish_instant());
        if nothing {
            happened = at_rest;
        }
        after.answer_of(&before, &happened, &asked)
    }

    fn refused(&self, refused: Refused, before: &Self) -> PlanAnswer {
        PlanAnswer {
            now_ms: self.now,
            refused: Some(refused),
            starts: Vec::new(),
            stopped: Vec::new(),
            waiting: Vec::new(),
            moved: Vec::new(),
            waiting_total: before.waiting_total(),
        }
    }

    fn waiting_total(&self) -> u64 {
        let jobs = self.state.jobs.values().filter(|record| record.state == JobState::Pending).count();
        let folded: u64 = self.state.folded.values().map(|array| u64::from(array.folded.len())).sum();
        jobs as u64 + folded
    }

    /// What differs between this copy, in which something happened, and one in which it did not.
    fn answer_of(&self, before: &Self, happened: &[Event], asked: &BTreeSet<JobId>) -> PlanAnswer {
        let starts = self.starts_among(happened);
        let stopped = self.stopped_among(happened);
        let (was, is) = (before.estimates(), self.estimates());
        let moved = moved(&was, &is);
        let concerned = asked
            .iter()
            .chain(stopped.iter().map(|stopped| &stopped.job))
            .chain(moved.iter().map(|moved| &moved.job))
            .filter(|job| {
                let array = self.state.folded.get(*job);
                let waits = array.is_some_and(|array| array.fresh > 0 || !array.folded.is_empty());
                waits || self.is_in(job, JobState::Pending) || self.is_in(job, JobState::Suspended)
            });
        let mut seen: BTreeSet<&JobId> = BTreeSet::new();
        let waiting = concerned
            .filter(|job| seen.insert(job))
            .take(EXPLAINED_MAX)
            .filter_map(|job| {
                let estimate = is.get(job).cloned().or_else(|| self.estimate(job));
                let explanation = self.explain(job)?;
                Some(StaysWaiting { job: job.clone(), estimate, explanation })
            })
            .collect();
        PlanAnswer {
            now_ms: self.now,
            refused: None,
            starts,
            stopped,
            waiting,
            moved,
            waiting_total: self.waiting_total(),
        }
    }

    fn starts_among(&self, happened: &[Event]) -> Vec<StartsNow> {
        let mut jobs: Vec<JobId> = Vec::new();
        for job in Self::committed_among(happened) {
            if !jobs.contains(&job) {
                jobs.push(job);
            }
        }
        let of = |job: JobId| {
            let Placed { kind, nodes, price, why, .. } = self.explain(&job)?.placed?;
            Some(StartsNow { job, kind, nodes, price, why })
        };
        jobs.into_iter().filter_map(of).collect()
    }

    fn stopped_among(&self, happened: &[Event]) -> Vec<Stopped> {
        let mut causes: BTreeMap<&JobId, &Cause> = BTreeMap::new();
        for event in happened {
            let (job, cause) = match event {
                Event::Stopping { job, cause, .. }
                | Event::Noticed { job, cause, .. }
                | Event::Suspended { job, cause }
                | Event::Ended { job, cause, .. }
                | Event::Saving { job, leaves: Some(cause), .. } => (job, cause),
                Event::Requeued { job, back } => (job, &back.cause),
                Event::Resized { job, lost, .. } if !lost.is_empty() => (job, &Cause::Reclaimed),
                _ => continue,
            };
            causes.entry(job).or_insert(cause);
        }
        let of = |(job, cause): (&JobId, &Cause)| {
            let state = self.state.job(job)?.state;
            Some(Stopped { job: job.clone(), cause: cause.clone(), state })
        };
        causes.into_iter().filter_map(of).collect()
    }
}

/// Jobs that wait before and after, with another time to start; soonest first.
fn moved(was: &Estimates, is: &Estimates) -> Vec<Moved> {
    let mut moved: Vec<Moved> = was
        .iter()
        .filter_map(|(job, before)| {
            let after = is.get(job)?;
            let times = |estimate: &Estimate| (estimate.planned_start, estimate.likely_start);
            (times(before) != times(after)).then(|| Moved {
                job: job.clone(),
                before: before.clone(),
                after: after.clone(),
            })
        })
        .collect();
    moved.sort_by(|a, b| (a.before.planned_start, &a.job).cmp(&(b.before.planned_start, &b.job)));
    moved
}

fn inputs(engine: &Engine, change: Change) -> Vec<Result<Input, Refused>> {
    match change {
        Change::Nothing => Vec::new(),
        Change::Submit(jobs) => vec![Ok(Input::Submit(jobs))],
        Change::SubmitArray { submission, indices } => vec![Ok(Input::SubmitArray { submission, indices })],
        Change::Cancel(job) => vec![Ok(Input::Cancel(job))],
        Change::NodesLost(nodes) => {
            nodes.into_iter().map(|node| Ok(Input::Order { node, order: NodeOrder::Leave })).collect()
        }
        Change::NodesAdded(nodes) => nodes
            .into_iter()
            .map(|node| {
                let pool = pool_of(engine, &node)?;
                Ok(Input::Join { pool, node: Box::new(node), running: None })
            })
            .collect(),
        Change::SetPool { pool, policy } => vec![Ok(Input::SetPool { pool, policy })],
        Change::SetTenant(tenant) => vec![Ok(Input::SetTenant(tenant))],
    }
}

fn pool_of(engine: &Engine, node: &Node) -> Result<PoolId, Refused> {
    let pools = &engine.state.pools;
    if engine.state.places.contains_key(&node.id) {
        let message = format!("there is a node `{}` already", node.id);
        return Err(Refused::new("duplicate_node", message, "give the new node an id of its own"));
    }
    let only = pools.keys().next().filter(|_| pools.len() == 1);
    node.pool.clone().or_else(|| only.cloned()).ok_or_else(|| {
        let message = format!("node `{}` names no pool, and there are several", node.id);
        Refused::new("no_pool", message, "give the node a pool")
    })
}
