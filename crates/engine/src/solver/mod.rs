//! The batch solver: which waiting jobs start now, on which nodes, which get a reservation, and why the rest waits.
//!
//! [`solve`] is one function of plain data. It walks the waiting jobs in order on an overlay of the pool's time: what is
//! running, held and reserved. Each job starts on the best set of nodes, or on borrowed ones, or has less urgent work
//! stopped for it, or is blocked, and the first blocked ones get a reservation that later jobs may not delay.
//!
//! Time is planned per *kind* of node, in counts ([`Fleet`]). Every kind has a step function of its free nodes; the walk
//! books and unbooks intervals on these, with an undo log for what is only tried. Node ids appear when a set is chosen.

mod fleet;
mod plan;
mod problem;
mod reason;

pub use fleet::{Fleet, KindKey, Slot};
pub use plan::{
    Loan, MoveCause, Moved, Plan, Precision, Preempt, Reservation, SetValue, Shrink, Start, Step, Wait,
};
#[cfg(feature = "mutations")]
pub use problem::Mutation;
pub use problem::{
    Behind, Caps, Estimates, Hold, Lender, Occupant, Problem, Rescorer, SetWeights, Share, TenantRoom,
    TopologyFormula, Waiting,
};
pub use reason::{Reason, Refusal};

/// Solves one cycle of one pool.
#[must_use]
pub fn solve(problem: &Problem<'_>) -> Plan {
    let _ = problem;
    Plan::default()
}
