//! Who may run a job, how well, and why.
//!
//! A policy is data: filters that admit or refuse a pair of job and node with a reason, weighted terms that give points,
//! and rules that turn totals into a choice. [`Policy::rank_nodes`] ranks nodes for a job and [`Policy::rank_jobs`]
//! ranks jobs for a node; both return a [`verdict::Ranking`] in which every candidate explains itself. The
//! [`index`] module finds the same best candidate without looking at all of them.
//!
//! This crate never reads a clock, a file or the network and keeps no state between questions except in the indexes
//! that its caller owns. Start at [`Policy`]; the list of parts is [`catalogue`].
#![forbid(unsafe_code)]

pub mod params;
pub mod refusal;
pub mod view;

pub use landfall_model::verdict;

pub mod filter;
pub mod planning;
pub mod term;

pub mod devices;
pub mod filters;
pub mod rules;
pub mod terms;

pub mod builtin;
pub mod catalogue;
pub mod policy_file;
pub mod spec;

mod choice;
mod evaluate;
mod following;
mod policy;
mod rank;
#[cfg(test)]
mod reference;
mod score;

pub mod index;

pub use choice::CHOICE_PARAMS;
pub use following::tier_utilisation;
pub use policy::{Policy, PolicyError};
pub use rank::{Best, Looked};
pub use score::q;
