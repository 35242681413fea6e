//! Answers to people's questions: why does it wait, when will it start, what would happen if.
//!
//! Every answer comes from the code that decides. [`Engine::explain`] looks at the state and asks policy, ledger and
//! solver; [`Engine::estimate`] and [`Engine::plan`] let a copy of the engine run on, in virtual time or after a change.
//! None of them changes the engine that was asked.
//!
//! ```text
//!  explain ──► record, queue, policy verdicts, ledger check, solver's waits
//!  estimate ─► copy ──► ends in order of time ──► dispatch ──► first start of each job
//!  plan ─────► copy ──► change ──► this instant ──► what differs from not changing anything
//! ```
//!
//! [`Engine`]: crate::Engine
//! [`Engine::explain`]: crate::Engine::explain
//! [`Engine::estimate`]: crate::Engine::estimate
//! [`Engine::plan`]: crate::Engine::plan

mod arrays;
mod batch;
mod estimate;
mod explain;
mod export;
mod forecast;
mod instant;
mod plan;
mod pull;
mod push;
mod situation;

pub use estimate::Estimates;
pub use export::Exported;
pub use plan::Change;
pub use situation::{as_text, dispatch_of, misfit};
