//! Measures: what came of a replay, in figures. Definitions are in docs; the same names are the keys of the JSON answer.
//!
//! [`Measures::of`] reads one [`Run`](crate::run::Run); [`Comparison`] puts several side by side: mean and spread over
//! seeds, and the difference to a baseline. Nothing here draws or prints; see [`report`](crate::report).
//!
//! Sums run over jobs in their order, so that the last digit does not depend on how a figure was computed.

mod catalogue;
mod compare;
mod distribution;
mod fairness;
mod groups;
mod number;
mod packing;
mod summary;
mod usage;

#[cfg(test)]
mod properties;
#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;

pub use catalogue::{Better, CATALOGUE, Measure, Unit};
pub use compare::{Against, Cell, CompareError, Comparison, PolicyRuns, Row, Verdict};
pub use distribution::{Distribution, nearest_rank};
pub use fairness::{Deviation, jain};
pub use groups::{Group, SizeBand};
pub(crate) use number::with_decimals;
pub use number::{grouped, rounded};
pub use packing::{LOADS, Packing};
pub use summary::{Estimates, GpuHours, Measures, bounded_slowdown};
pub use usage::{Usage, Window};
