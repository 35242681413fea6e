//! The deterministic engine: one ledger, four ways to dispatch, the whole life of a job.
//!
//! [`Engine::step`] takes an instant and an input and gives events (facts for the journal), effects (things to be done
//! outside) and an answer. It reads no clock, no file and no network, draws no random number and keeps no thread: the
//! server, the simulator, `plan` and the tests all drive the same function.
//!
//! ```text
//!            ┌───────────────────────────── Engine ─────────────────────────────┐
//! input ───► │ life, dispatch ──► Proposal ──► ledger ──► Event ──► State        │ ───► events, effects, answer
//!            │       ▲                         (check)             │            │
//!            │       └──────── queues, indexes, timers ◄───────────┘            │
//!            └──────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The [`State`] changes by events alone, so it can be rebuilt from its journal. Start at [`Engine`]; what may be placed is
//! decided in [`ledger`], who proposes what in `dispatch`, what becomes of jobs and nodes in `life`.
#![forbid(unsafe_code)]

pub mod answers;
pub mod array;
pub mod codec;
pub mod effect;
pub mod event;
pub mod habits;
pub mod heartbeat;
pub mod input;
pub mod ledger;
pub mod notes;
pub mod record;
pub mod state;
pub mod units;

pub mod checkpoint;
pub mod counted;
pub mod dag;
pub mod loans;
pub mod preempt;
pub mod quota;
pub mod solver;
mod specs;
pub mod staging;

#[cfg(feature = "mutations")]
pub mod mutation;

mod dispatch;
mod engine;
pub mod life;
mod timers;

pub use answers::Estimates;
pub use effect::{Alert, Answer, Effect};
pub use engine::{Engine, Outcome};
pub use event::Event;
pub use input::Input;
pub use landfall_capacity::reactive::{Sample, ScaleAlert};
pub use landfall_model::life::{Fence, Refused};
pub use state::State;
pub use timers::Timer;
