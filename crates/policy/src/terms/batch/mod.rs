//! Terms of the family `batch`, one file each: nine factors of a queue score and the multiplier `budget`.

mod stage;
#[cfg(test)]
pub(crate) mod testing;

mod backlog;
mod checkpoint;
mod conformance;
mod data;
mod energy;
mod fair_share;
mod priority;
mod topology;
mod wait;

mod budget;

use crate::term::TermInfo;

/// All of them, in the order in which policies list them.
pub(crate) const ALL: &[&TermInfo] = &[
    &priority::INFO,
    &wait::INFO,
    &fair_share::INFO,
    &topology::INFO,
    &data::INFO,
    &backlog::INFO,
    &energy::INFO,
    &checkpoint::INFO,
    &conformance::INFO,
    &budget::INFO,
];
