//! The batch solver: which waiting jobs start now, on which nodes, which get a reservation, and why the rest waits.
//!
//! [`solve`] is one function of plain data. It walks the waiting jobs in order on an overlay of the pool's time: what is
//! running, held and reserved. Each job starts on the best set of nodes, or on borrowed ones, or has less urgent work
//! stopped for it, or is blocked, and the first blocked ones get a reservation that later jobs may not delay.
//!
//! Time is planned per *kind* of node, in counts ([`Fleet`]). Every kind has a step function of its free nodes; the walk
//! books and unbooks intervals on these, with an undo log for what is only tried. Node ids appear when a set is chosen.

mod attempt;
mod bits;
mod classes;
mod estimates;
mod explain;
mod fleet;
mod gates;
mod ground;
mod line;
mod looked;
mod open;
mod outlook;
mod overlay;
mod pack;
mod plan;
mod problem;
mod promises;
mod reason;
mod sets;
mod standing;
mod stops;
mod timeline;
mod walk;

use landfall_model::Time;

pub use classes::Suited;
pub use fleet::{Fleet, KindKey, Slot};
pub use ground::Ground;
pub(crate) use open::devices_now;
pub use plan::{
    Loan, Looked, MoveCause, Moved, Plan, Precision, Preempt, Reservation, Rests, SetValue, Shrink, Start,
    Step, Wait,
};
#[cfg(feature = "mutations")]
pub use problem::Mutation;
pub use problem::{
    Behind, Classes, Cycles, Estimates, Hold, Lender, Occupant, Problem, Rest, SetWeights, Share, TenantRoom,
    TopologyFormula, Turn, Waiting, Why,
};
pub use reason::{Reason, Refusal};

/// Solves one cycle of one pool.
pub fn solve(problem: &Problem<'_>) -> Plan {
    let mut walk = walk::Walk::new(problem);
    walk.run();
    let (reservations, moved) = walk.reservations();
    let times = walk.estimate();
    let mut plan = Plan { reservations, moved, ..Plan::default() };
    // Whom this walk did not reach the next one may.
    plan.missed = if walk.again { Vec::new() } else { walk.missed() };
    plan.again = walk.again;
    let told = |at: &usize| match (problem.classes, problem.asked) {
        (None, _) => true,
        (Some(_), asked) => asked == Some(walk.waiting[*at].job),
    };
    for at in (0..walk.waiting.len()).filter(told) {
        let Some(against) = walk.outcomes[at].as_ref().and_then(walk::Outcome::against) else { continue };
        let Some(first) = against.first() else { continue };
        let (before, ahead) = match problem.classes {
            None => (plan.waiting.len(), plan.waiting.last().map(|wait: &Wait| wait.job.clone())),
            Some(_) => walk.before_asked(at),
        };
        plan.waiting.push(Wait {
            job: walk.waiting[at].job.clone(),
            reason: first.reason,
            refusals: against.as_ref().clone(),
            position: before as u32 + 1,
            ahead,
            planned_start: times[at].planned.map(Time::from_millis),
            likely_start: times[at].likely.map(Time::from_millis),
            range: times[at].range.map(|(early, late)| (Time::from_millis(early), Time::from_millis(late))),
            precision: times[at].precision,
            rests: times[at].rests.clone(),
        });
    }
    walk.note_waits();
    (plan.steps, plan.looked) = (walk.steps, walk.looked);
    plan
}
