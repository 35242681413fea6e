//! Why a job of a push pool waits: what all nodes say, what the ledger says of the best one, who is ahead.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use landfall_model::answer::{NodeReason, Why};
use landfall_model::reason::{Concern, Reason};
use landfall_model::verdict::Decision;
use landfall_model::{Discipline, Dispatch, Job, JobId, PoolId};
use landfall_policy::view::Pass;

use super::explain::Waiting;
use crate::dispatch::{against_ever, proposal, tie_ranks};
use crate::engine::Engine;
use crate::record::JobRecord;
use crate::state::PoolState;

impl Engine {
    pub(super) fn push_waiting(&self, record: &JobRecord) -> Waiting {
        let (Some(state), Some(dispatcher)) =
            (self.state.pools.get(&record.pool), self.pools.get(&record.pool))
        else {
            return Waiting::default();
        };
        let key = |other: &JobRecord| (Reverse(other.job.spec.priority), other.job.submitted_at);
        let queue = self.place_by(record, |_| true, key);
        let pass = Pass::of_parts(self.now, &state.world, &state.nodes, dispatcher.backlog());
        let policy = dispatcher.policy(record.job.spec.kind);
        let ranking =
            policy.rank_nodes_in(&pass, &tie_ranks(&state.nodes, &state.world.node_order), &record.job);
        let there: BTreeSet<&str> = state.present().map(|node| node.id.as_str()).collect();
        let nodes = NodeReason::count(
            ranking.candidates.iter().filter(|verdict| there.contains(verdict.candidate.as_str())),
        );
        let winner = ranking.winner.as_ref().and_then(|winner| {
            let verdict = ranking.candidates.iter().find(|verdict| verdict.candidate == *winner)?;
            let node = state.nodes.iter().find(|node| node.id.as_str() == winner.as_str())?;
            Some((verdict, node))
        });
        let reasons = match winner {
            Some((verdict, node)) => {
                let against = self.ledger_reasons(record, &proposal(record, node, verdict, None));
                if !against.is_empty() {
                    against
                } else if let Some(ahead) = self.blocked_by(record, state) {
                    let detail = format!("{ahead} is ahead of it and waits, and nothing of its tier passes");
                    vec![Why::new(Reason::StrictOrder, detail).jobs(vec![ahead])]
                } else if dispatcher.ledger_refused(&record.job.spec) {
                    vec![Why::new(
                        Reason::Conflict,
                        format!("node {} admits it now; it is tried again", node.id),
                    )]
                } else {
                    vec![Why::new(
                        Reason::NextLook,
                        format!("node {} admits it; it is placed when looked at next", node.id),
                    )]
                }
            }
            None => {
                let of = there.len() as u64;
                let mut reasons = vec![decided(&ranking.decision, nodes.first(), of)];
                reasons.extend(nodes.iter().map(|node| node.why(of)));
                reasons
            }
        };
        let decision = winner.is_none().then_some(ranking.decision);
        Waiting { queue, reasons, nodes, decision }
    }

    /// Why no node that a pool has could ever run a job, whatever ends there; `None` if one could, or if there are no nodes.
    pub fn never(&self, job: &Job, pool: &PoolId) -> Option<Why> {
        let (state, dispatcher) = (self.state.pools.get(pool)?, self.pools.get(pool)?);
        let sets = state.pool.dispatch == Dispatch::Batch;
        let against = if sets { against_ever(self, job, pool) } else { Vec::new() };
        if sets && against.is_empty() {
            return None;
        }
        let pass = Pass::of_parts(self.now, &state.world, &state.nodes, dispatcher.backlog());
        let policy = dispatcher.policy(job.spec.kind);
        let mut able = state.present().filter(|node| policy.could_run(&pass, job, node));
        // One will do where jobs are placed one at a time. It is asked about each job that is submitted, and is mostly among the first.
        if !sets && able.next().is_some() {
            return None;
        }
        let (able, of) = (able.count(), state.present().count() as u64);
        if of == 0 {
            return None;
        }
        if able > 0 {
            let detail = match job.spec.nodes.min {
                needed if needed as usize > able => {
                    format!("needs {needed} nodes; {able} of the pool could run it")
                }
                _ => against.iter().map(|reason| reason.said()).collect::<Vec<_>>().join("; "),
            };
            return Some(Why::new(Reason::NeverFits, detail));
        }
        let ranking = policy.rank_nodes_in(&pass, &tie_ranks(&state.nodes, &state.world.node_order), job);
        let there: BTreeSet<&str> = state.present().map(|node| node.id.as_str()).collect();
        let candidates = ranking.candidates.iter();
        let nodes =
            NodeReason::count(candidates.filter(|verdict| there.contains(verdict.candidate.as_str())));
        let why = nodes.iter().find(|node| !node.may_pass).or(nodes.first())?.why(of);
        Some(Why { reason: Reason::NeverFits, ..why })
    }

    /// Why no node that its pool has could ever run a job that waits, if that is so.
    pub fn can_never_start(&self, job: &JobId) -> Option<Why> {
        let known = self.state.job(job).map(|record| (&record.job, &record.pool));
        let known = known.or_else(|| self.state.folded.get(job).map(|array| (&array.job, &array.pool)));
        known.and_then(|(job, pool)| self.never(job, pool))
    }

    /// Under strict order, the first job of the tier that is ahead and waits for more than the passing of time.
    fn blocked_by(&self, record: &JobRecord, state: &PoolState) -> Option<JobId> {
        if state.pool.push.queue_discipline != Discipline::Strict {
            return None;
        }
        let key = |other: &JobRecord| {
            (Reverse(other.job.spec.priority), other.job.submitted_at, other.job.id.clone())
        };
        let mine = key(record);
        let ahead = self.state.jobs.values().filter(|other| {
            other.pool == record.pool
                && other.is_queued()
                && other.job.spec.tier == record.job.spec.tier
                && other.job.retry_at.is_none_or(|at| at <= self.now)
                && key(other) < mine
                && !self.is_unsatisfiable(&other.pool, &other.job.id)
        });
        ahead.min_by_key(|other| key(other)).map(|other| other.job.id.clone())
    }
}

/// A decision against any node as a reason, in the words of the reason that stands against most nodes.
fn decided(decision: &Decision, most: Option<&NodeReason>, of: u64) -> Why {
    let (reason, detail) = match decision {
        Decision::RequestMoreCapacity { reason, detail, .. }
        | Decision::QueueForFlex { reason, detail, .. }
        | Decision::Wait { reason, detail } => (*reason, detail.clone()),
        Decision::ExistingNode { winner } => (Reason::NextLook, format!("node {winner} admits it")),
    };
    match (reason.concerns(), most.map(|most| most.why(of))) {
        (Concern::Pool, Some(most)) => Why { reason, ..most },
        (Concern::Pool, None) if of == 0 => {
            Why::new(reason, "the pool has no nodes").help("add one: `landfall agent` on a machine joins it")
        }
        _ => Why::new(reason, detail),
    }
}
