//! Why a job of a batch pool waits: what the solver said in the last cycle, or would say now.

use std::borrow::Cow;

use super::explain::{QueuePlace, Waiting};
use super::reason::{Why, meaning, named};
use crate::engine::Engine;
use crate::record::JobRecord;
use crate::solver::{Refusal, Step, Wait};

/// Reasons of which the solver counts the nodes they stand against.
const ABOUT_NODES: [&str; 13] = [
    "node_state",
    "node_taken",
    "gpu_model",
    "gpu_count",
    "gpu_memory",
    "cpu",
    "memory",
    "feature",
    "unified_memory",
    "fingerprint",
    "block_end",
    "held",
    "quarantine",
];

impl Engine {
    pub(super) fn batch_waiting(&self, record: &JobRecord) -> Waiting {
        let id = &record.job.id;
        let counts = |other: &&JobRecord| {
            other.pool == record.pool && other.state == crate::record::JobState::Pending && !other.user_hold
        };
        let of = self.state.jobs.values().map(|other| &**other).filter(counts).count() as u64;
        let of = of + self.folded_places(record, |_| true, |_| ()).0;
        if let Some(wait) = self.pools.get(&record.pool).and_then(|pool| pool.last_wait(id)) {
            return waited(wait, of);
        }
        let Some(plan) = self.solve_for_show(&record.pool) else { return Waiting::default() };
        if let Some(wait) = plan.waiting.iter().find(|wait| wait.job == *id) {
            return waited(wait, of);
        }
        let starts = plan.steps.iter().find_map(|step| match step {
            Step::Start(start) if start.job == *id => Some(Why::new("next_cycle", meaning("next_cycle"))),
            Step::Preempt(preempt) if preempt.job == *id => {
                let detail = format!("{} would be stopped for it in the next cycle", named(&preempt.victims));
                let why = Why::new("preempting", detail).jobs(preempt.victims.clone());
                Some(why.until(Some(preempt.ready_at)))
            }
            _ => None,
        });
        let reasons = match starts {
            Some(why) => vec![why],
            None if record.user_hold => Vec::new(),
            None => vec![Why::new("next_cycle", "no cycle has looked at it yet")],
        };
        Waiting { reasons, ..Waiting::default() }
    }
}

fn waited(wait: &Wait, of: u64) -> Waiting {
    let position = u64::from(wait.position);
    let queue = QueuePlace { position, of: of.max(position), ahead: wait.ahead.clone() };
    let mut reasons: Vec<Why> = wait.refusals.iter().map(why).collect();
    let primary = wait.reason.to_string();
    match reasons.iter().position(|why| why.reason == primary) {
        Some(0) => {}
        Some(at) => {
            let first = reasons.remove(at);
            reasons.insert(0, first);
        }
        None => {
            let detail = meaning(&primary);
            reasons.insert(0, Why::new(primary, detail));
        }
    }
    if let Some(first) = reasons.first_mut().filter(|why| why.until.is_none()) {
        first.until = wait.planned_start;
    }
    Waiting { queue: Some(queue), reasons, ..Waiting::default() }
}

fn why(refusal: &Refusal) -> Why {
    let name = refusal.reason.to_string();
    let mut detail = meaning(&name).to_owned();
    let of_nodes = ABOUT_NODES.contains(&name.as_str());
    if of_nodes {
        detail += &format!(" ({} of them)", short(refusal.found));
    } else if refusal.needed > 0.0 || refusal.found > 0.0 {
        detail += &format!(" ({} needed, {} found)", short(refusal.needed), short(refusal.found));
    }
    if !refusal.jobs.is_empty() {
        detail += &format!(": {}", named(&refusal.jobs));
    }
    let mut why = Why::new(Cow::Owned(name), detail).jobs(refusal.jobs.clone());
    let said = refusal.needed > 0.0 || refusal.found > 0.0;
    why.needed = Some(refusal.needed).filter(|_| said && !of_nodes);
    why.found = Some(refusal.found).filter(|_| said);
    why
}

/// A number without decimals that say nothing.
fn short(number: f64) -> String {
    if number.fract() == 0.0 { format!("{number:.0}") } else { format!("{number:.2}") }
}
