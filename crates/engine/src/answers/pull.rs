//! Why a job of a pull pool waits: the best that any worker says of it.
//!
//! From best to worst: a worker with room would take it, every worker that would is full, it is below the floor, it is
//! vetoed, no worker is eligible.

use landfall_model::answer::{NodeReason, Why};
use landfall_model::reason::Reason;
use landfall_model::verdict::{Direction, Verdict};
use landfall_model::{JobKind, Node};
use landfall_policy::view::Pass;

use super::explain::Waiting;
use crate::dispatch::proposal;
use crate::engine::Engine;
use crate::record::JobRecord;

impl Engine {
    pub(super) fn pull_waiting(&self, record: &JobRecord) -> Waiting {
        let (Some(state), Some(dispatcher)) =
            (self.state.pools.get(&record.pool), self.pools.get(&record.pool))
        else {
            return Waiting::default();
        };
        let kind = record.job.spec.kind;
        let queue = self.place_by(record, |other| other.job.spec.kind == kind, |other| other.job.ready_at);
        let policy = dispatcher.policy(kind);
        let pass = Pass::of_parts(self.now, &state.world, &state.nodes, dispatcher.backlog());
        let job = self.state.job_for_workers(record);
        let judged: Vec<(&Node, Verdict)> = state
            .present()
            .map(|node| (node, policy.pair_verdict(&pass, &job, node, Direction::JobsForNode)))
            .map(|(node, mut verdict)| {
                // Workers rank jobs, so a verdict names the job; here the node is what tells them apart.
                if let Ok(name) = landfall_model::Name::new(node.id.as_str()) {
                    verdict.candidate = name;
                }
                (node, verdict)
            })
            .collect();
        let nodes = NodeReason::count(judged.iter().map(|(_, verdict)| verdict));
        let mut reasons = Vec::new();
        if state.pool.pull.paused {
            reasons.push(Why::new(Reason::Paused, "the pool gives out no work").help("let the pool go on"));
        }
        if self.state.stalled(record, 0).is_some() {
            let architecture = &record.job.spec.architecture;
            let misses = record.past().fetch_misses;
            let text = format!(
                "its result was not found elsewhere {misses} times, and no node of architecture {architecture} is connected"
            );
            let help = format!(
                "add a node of architecture {architecture}; until then it is looked for from time to time"
            );
            reasons.push(Why::new(Reason::Architecture, text).help(help));
        }
        reasons.extend(self.best_of(record, &judged, policy.dispatch_floor()));
        let known = nodes.iter().filter(|node| node.reason != Reason::AtCapacity);
        reasons.extend(known.map(|node| node.why(judged.len() as u64)));
        Waiting { queue, reasons, nodes, decision: None }
    }

    fn best_of(&self, record: &JobRecord, judged: &[(&Node, Verdict)], floor: Option<f64>) -> Vec<Why> {
        let kind = record.job.spec.kind;
        let best = |suits: &dyn Fn(&Node, &Verdict) -> bool| {
            let found = judged.iter().filter(|(node, verdict)| verdict.is_admitted() && suits(node, verdict));
            let total = |verdict: &Verdict| landfall_policy::q(verdict.total.unwrap_or_default());
            found.max_by(|(a, x), (b, y)| total(x).cmp(&total(y)).then_with(|| b.id.cmp(&a.id)))
        };
        if let Some((node, verdict)) =
            best(&|node, verdict| verdict.barred.is_none() && node.takes_work() && self.has_room(node, kind))
        {
            let against = self.ledger_reasons(record, &proposal(record, node, verdict, None));
            if !against.is_empty() {
                return against;
            }
            let detail = format!("worker {} may take it with its next request", node.id);
            return vec![Why::new(Reason::NextRequest, detail)];
        }
        // The policy of the pool may refuse full workers itself; that is no reason against the job.
        let only_full = |verdict: &Verdict| {
            verdict.refusals.iter().all(|refused| refused.refusal.reason == Reason::AtCapacity)
        };
        let full_one = judged.iter().find(|(node, verdict)| {
            node.takes_work() && !self.has_room(node, kind) && verdict.barred.is_none() && only_full(verdict)
        });
        if let Some((node, _)) = full_one {
            return vec![full(node, kind)];
        }
        if let Some((node, verdict)) = best(&|_, verdict| verdict.barred == Some(Reason::BelowFloor)) {
            let total = verdict.total.unwrap_or_default();
            let short = floor.map_or(0.0, |floor| floor - total);
            let detail =
                format!("{short:.1} points below the floor on worker {}, where it has most", node.id);
            let mut why = Why::new(Reason::BelowFloor, detail);
            (why.needed, why.found) = (floor, verdict.total);
            return vec![why];
        }
        if let Some((node, verdict)) = best(&|_, verdict| !verdict.vetoes.is_empty()) {
            let detail = format!("vetoed by {} on worker {}", verdict.vetoes.join(", "), node.id);
            return vec![
                Why::new(Reason::Vetoed, detail)
                    .help("lift what the rule looks at, or give it another worker"),
            ];
        }
        if let Some((node, _)) = best(&|_, verdict| verdict.barred.is_none()) {
            let detail = format!("worker {} would take it, and takes no work now", node.id);
            return vec![Why::new(Reason::NodeState, detail)];
        }
        let detail = match judged.len() {
            0 => "the pool has no workers".to_owned(),
            1 => "the only worker may not take it".to_owned(),
            count => format!("none of {count} workers may take it"),
        };
        vec![Why::new(Reason::NoEligibleNode, detail)]
    }
}

fn full(node: &Node, kind: JobKind) -> Why {
    let what = if kind == JobKind::Build { "builds" } else { "evals" };
    let detail = format!(
        "every worker that may run it is full; {} has {} of {} {what}",
        node.id,
        node.placements.len(),
        node.max_concurrent
    );
    let jobs = node.placements.iter().map(|placement| placement.job.clone()).collect();
    Why::new(Reason::AtCapacity, detail).jobs(jobs)
}
