//! How peers reach each other: libp2p carries what [`landfall_negotiate`] says, and decides nothing.
//!
//! ```text
//!  server ──Order──► Network ──gossip (signed)──► everybody: requests, claims, closings, capacity
//!         ◄─Heard──          ──direct stream────► one peer: offers, acks, leases, results, bodies, output
//! ```
//!
//! *Who said it.* On a topic every message is signed with the key of its author, and libp2p drops what is not; a direct
//! stream is encrypted and authenticated by noise, so its author is whoever is at the other end. A peer's id is its key.
//!
//! *What is dropped here*, before anybody thinks about it: what is no message in its one encoding, too large, of another
//! version, too much from one author. Each is counted, and the standing of whoever sent or handed it on falls; whoever has lost
//! enough of it is not listened to until some time has passed.
#![forbid(unsafe_code)]

mod behaviour;
mod direct;
mod key;
mod near;
mod network;
mod others;
mod rate;
mod standing;
#[cfg(test)]
mod tests;

pub use direct::{Question, Reply};
pub use key::{Identity, KeyError, peer_id, write_private};
pub use libp2p::Multiaddr;
pub use network::{Heard, Network, NetworkError, Order, Settings, Standing, is_callable, peer_in, port_of};
