//! Clusters through the whole engine in virtual time.

mod agrees_with_machine;
mod b27;
mod departures;
mod exported;
mod world;
