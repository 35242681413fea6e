//! Batch scheduling where counts suffice: alike units, each job takes some of them to itself.
//!
//! A pool whose nodes are one kind and whose jobs differ only in how many they take and for how long needs no sets of
//! nodes: a count says it all. The [`Planner`] is the batch walk (`solver`) for such pools, kept between passes instead
//! of made anew: the line of waiting jobs, the same jobs in backfill order, and the expected releases. A pass then costs
//! what it changes, which is what makes a log of years replay in seconds. Both walks give the same schedule; a test
//! holds them against each other.
//!
//! *State*: `free` units, releases `(when, units)` of running jobs by their durations, waiting jobs by ticket. Tickets
//! are given in order of arrival and are the order of the line (`fifo`).
//!
//! *Pass* at `now`: jobs start from the head of the line while they fit. If the head does not fit, what may overtake
//! it depends on the [`Mode`]. Under `easy` the head is promised its *shadow*, the first instant at which by the
//! durations of those running it fits; `extra` units are free even then. A later job starts if it fits now and is over
//! by the shadow, or is content with `extra`. So nobody who overtakes can delay the promise, however short the jobs
//! that run turn out to be.
//!
//! *Durations* are what jobs ask for, or predictions from what their users' jobs took before ([`Rules::learned`]): half of
//! the last two together, as published under the name EASY++. A job that outlives its prediction is expected to end later
//! ([`Corrector`]); with predictions the shadow is a guess and not a promise.
//!
//! [`learned`] is a second planner with an interface of the same manner: it orders by what users' jobs took before.

mod forecast;
pub mod learned;
mod line;
mod planner;
mod profile;
mod reservations;

pub use forecast::Corrector;
pub use planner::{Ask, Mode, Planner, Rules, Start, Ticket};
pub use profile::Profile;
