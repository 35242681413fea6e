//! Rules that several filters and terms share, as plain functions.

pub mod availability;
pub mod capacity;
pub mod estimates;
pub mod fit;
pub mod fragmentation;
pub mod load;
pub mod locality;
pub mod node_record;
pub mod offer;
pub mod price;
pub mod pull;
pub(crate) mod room;
pub mod service;
pub mod snapshot;
pub(crate) mod supply;
pub mod usage;
pub mod window;
