//! What tests and benchmarks of several crates share: draws from a seed, what must always hold, and simulated providers.
#![forbid(unsafe_code)]

pub mod invariants;
pub mod peers;
pub mod provider;
mod rng;

pub use rng::Rng;
