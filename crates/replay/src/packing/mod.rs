//! GPU packing without time: pods arrive one at a time, are placed at once or turned away, and never leave.
//!
//! The protocol of Weng et al. (USENIX ATC 2023), driven through the production engine: a push pool with the policy under
//! test, one submission per pod. What matters is how much of the GPUs is given when as much was asked for as there is
//! (100 % arrived), and beyond.
//!
//! 1. The expected mix is taken from the trace ([`typical_mix`]).
//! 2. Pods come in a given order, or in one drawn from a seed ([`Sequence::drawn`]).
//! 3. Between nodes of equal score the one earliest in a fixed order wins.
//! 4. After every pod, placed or not, what was asked for, what is given and what is fragmented is noted; the curve over
//!    per cent arrived is made of these notes ([`Curve`]).

mod curve;
mod mix;
mod place;
mod sequence;

pub use curve::Curve;
pub use mix::{expected_mix, typical_mix};
pub use place::{Packed, PackingError, pack, published};
pub use sequence::{RATIO, Sequence};
