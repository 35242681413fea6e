//! Replay: a recorded workload goes through the engine in virtual time, and what came of it is measured.
//!
//! ```text
//!   trace files ──readers──▶ jobs, nodes, changes ──simulator──▶ Run ──measures──▶ tables, report
//!                                                    ▲
//!                                        engine (planner, ledger, policies)
//! ```
//!
//! Three simulators share the clock and the measures, because three kinds of published results ask for three levels of
//! detail: machines of alike processors (`machine`), GPU packing without time (`packing`), and whole clusters with
//! pools, tenants and departures (`cluster`).

#![forbid(unsafe_code)]

pub mod cluster;
pub mod decisions;
pub mod machine;
pub mod measures;
pub mod packing;
pub mod report;
pub mod run;
pub mod subject;
pub mod trace;
pub mod work;
