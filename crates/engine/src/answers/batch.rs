//! Why a job of a batch pool waits: what the solver said in the last cycle, or would say now.

use landfall_model::answer::{NodeReason, QueuePlace, Why};
use landfall_model::reason::{Concern, Reason};
use landfall_model::verdict::Direction;
use landfall_policy::view::Pass;

use super::explain::{Waiting, named};
use crate::engine::Engine;
use crate::record::JobRecord;
use crate::solver::{Refusal, Step, Wait};

impl Engine {
    pub(super) fn batch_waiting(&self, record: &JobRecord) -> Waiting {
        let id = &record.job.id;
        let counts = |other: &&JobRecord| {
            other.pool == record.pool && other.state == crate::record::JobState::Pending && !other.user_hold
        };
        let of = self.state.jobs.values().map(|other| &**other).filter(counts).count() as u64;
        let of = of + self.folded_places(record, |_| true, |_| ()).0;
        let Some(plan) = self.solve_for_show(&record.pool, Some(id)) else { return Waiting::default() };
        if let Some(wait) = plan.waiting.iter().find(|wait| wait.job == *id) {
            return self.waited(record, wait, of);
        }
        let starts = plan.steps.iter().find_map(|step| match step {
            Step::Start(start) if start.job == *id => Some(Why::plain(Reason::NextCycle)),
            Step::Preempt(preempt) if preempt.job == *id => {
                let detail = format!("{} would be stopped for it in the next cycle", named(&preempt.victims));
                let why = Why::new(Reason::Preempting, detail).jobs(preempt.victims.clone());
                Some(why.until(Some(preempt.ready_at)))
            }
            _ => None,
        });
        let reasons = match starts {
            Some(why) => vec![why],
            None if record.user_hold => Vec::new(),
            None => vec![Why::new(Reason::NextCycle, "no cycle has looked at it yet")],
        };
        Waiting { reasons, ..Waiting::default() }
    }

    fn waited(&self, record: &JobRecord, wait: &Wait, of: u64) -> Waiting {
        let position = u64::from(wait.position);
        let queue = QueuePlace { position, of: of.max(position), ahead: wait.ahead.clone() };
        let about_nodes = wait.refusals.iter().any(|refusal| refusal.reason.concerns() == Concern::Node);
        let (nodes, of) = if about_nodes { self.judged(record) } else { (Vec::new(), 0) };
        let why = |refusal: &Refusal| match nodes.iter().find(|node| node.reason == refusal.reason) {
            Some(node) => node.why(of),
            None => why(refusal),
        };
        let mut reasons: Vec<Why> = wait.refusals.iter().map(why).collect();
        match reasons.iter().position(|why| why.reason == wait.reason) {
            Some(at) => reasons[..=at].rotate_right(1),
            None => reasons.insert(0, Why::plain(wait.reason)),
        }
        if let Some(first) = reasons.first_mut().filter(|why| why.until.is_none()) {
            first.until = wait.planned_start;
        }
        Waiting { queue: Some(queue), reasons, nodes, decision: None }
    }

    /// What the policy says of the pool's own nodes, and how many there are.
    fn judged(&self, record: &JobRecord) -> (Vec<NodeReason>, u64) {
        let (Some(state), Some(dispatcher)) =
            (self.state.pools.get(&record.pool), self.pools.get(&record.pool))
        else {
            return (Vec::new(), 0);
        };
        let policy = dispatcher.policy(record.job.spec.kind);
        let pass = Pass::of_parts(self.now, &state.world, &state.nodes, dispatcher.backlog());
        let there = || state.present();
        let verdicts: Vec<_> = there()
            .map(|node| policy.pair_verdict(&pass, &record.job, node, Direction::NodesForJob))
            .collect();
        (NodeReason::count(verdicts.iter()), verdicts.len() as u64)
    }
}

/// A refusal of the planner in words.
fn why(refusal: &Refusal) -> Why {
    let (needed, found) = (short(refusal.needed), short(refusal.found));
    let jobs = named(&refusal.jobs);
    let of_nodes = refusal.reason.concerns() == Concern::Node;
    let said = refusal.needed > 0.0 || refusal.found > 0.0;
    let detail = match refusal.reason {
        Reason::Nodes => format!("needs {}; {found} free now", count(refusal.needed, "node")),
        Reason::NeverFits => {
            format!("needs {}; even if all were idle, {found} would do", count(refusal.needed, "node"))
        }
        Reason::Span => format!("would lie in {}; {found} allowed", count(refusal.needed, "group")),
        Reason::Power => format!("would draw {needed} W more; the pool has {found} W left"),
        Reason::Io => format!("would move {needed} B/s more; the pool has {found} B/s left"),
        Reason::QuotaNodes => {
            format!("needs {}; its tenant may take {found} more", count(refusal.needed, "node"))
        }
        Reason::QuotaGpus => {
            format!("needs {}; its tenant may take {found} more", count(refusal.needed, "GPU"))
        }
        Reason::QuotaCpus => {
            format!("needs {}; its tenant may take {found} more", count(refusal.needed, "core"))
        }
        Reason::Budget => format!("costs {needed}; {found} is left of the budget of its tenant"),
        Reason::GpuHours => format!("needs {needed} GPU-hours; its tenant has {found} left"),
        Reason::Reserved if !jobs.is_empty() => format!("would delay {jobs}, for which nodes are reserved"),
        Reason::Held if !jobs.is_empty() => format!("{} kept for {jobs}", are(refusal.found)),
        reason if of_nodes && said => reason.of_some(refusal.found as u64),
        reason if !jobs.is_empty() => format!("{}: {jobs}", reason.said()),
        reason => reason.said().into_owned(),
    };
    let mut why = Why::new(refusal.reason, detail).jobs(refusal.jobs.clone());
    why.needed = Some(refusal.needed).filter(|_| said && !of_nodes);
    why.found = Some(refusal.found).filter(|_| said);
    why
}

fn count(number: f64, what: &str) -> String {
    let plural = if number == 1.0 { "" } else { "s" };
    format!("{} {what}{plural}", short(number))
}

fn are(nodes: f64) -> String {
    format!("{} {}", count(nodes, "node"), if nodes == 1.0 { "is" } else { "are" })
}

/// A number without decimals that say nothing.
fn short(number: f64) -> String {
    if number.fract() == 0.0 { format!("{number:.0}") } else { format!("{number:.2}") }
}
