//! Rules that several filters and terms share, as plain functions.

pub mod capacity;
pub mod fit;
pub mod fragmentation;
pub mod locality;
pub mod offer;
pub mod pull;
pub mod snapshot;
pub mod usage;
pub mod window;
