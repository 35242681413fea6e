//! A whole cluster in virtual time: pools, tenants, gangs, GPUs, departures, nodes that go and come.
//!
//! The engine is the production one and does not know that nobody is there: submissions, reports and node changes come
//! from the trace and from agents that always obey. No clock passes; the next instant is the earliest of what the trace
//! brings, what ends, and what the engine wants to be woken for.
//!
//! At one instant: settings, answers and ends, node changes, arrivals, orders, timers, then cycles; ends, changes and arrivals
//! by id, the rest as the trace has it. A job ends after its actual run time, unless its walltime is over before; stopped
//! without a checkpoint it starts over, with one it goes on from there.
//!
//! A trace of a server also tells what depended on the machines of that day: how long a start and a stop took, and when a
//! busy server got round to its cycles. With these, decisions fall at the same instants as they did.

mod agents;
mod books;
mod simulate;

pub use simulate::{Arrival, Change, Workload, simulate};
