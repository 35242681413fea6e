//! Terms on the offers of peers, one file each.

mod capacity;
mod cell;
mod data;
mod hints;
mod jitter;
mod queue;
mod relation;
mod rtt;
mod trust;

use crate::term::TermInfo;

/// All of them, in the order in which policies list them.
pub(crate) const ALL: &[&TermInfo] = &[
    &trust::INFO,
    &capacity::INFO,
    &queue::INFO,
    &rtt::INFO,
    &data::INFO,
    &hints::INFO,
    &relation::INFO,
    &cell::INFO,
    &jitter::INFO,
];
