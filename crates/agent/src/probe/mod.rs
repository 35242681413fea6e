//! Probing: what this machine is, what it can run, how it is doing.

mod drm;
pub mod engines;
pub mod estimate;
pub mod ewma;
pub mod gpu;
pub mod live;
mod machine;
pub mod power;
pub mod score;

pub use machine::{Machine, Programs};
