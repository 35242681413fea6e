//! The journal and snapshots of the server: what is acknowledged survives.
//!
//! ```text
//! engine ──► Batch { events, changes } ──► Store::append ──► one transaction, on disk when it returns
//! start  ◄── Loaded { state, seq }     ◄── Store::load   ◄── newest good snapshot + the events after it
//! ```
//!
//! The journal keeps events (facts), never calls, so old journals are not decided anew by newer code. Beside it stand
//! records: payloads of jobs, tokens, answers to repeated requests. Events and the records that belong to them go into one
//! [`Batch`], which becomes durable as a whole or not at all.
//!
//! [`Store`] is what a server needs of a database; [`sqlite::Sqlite`] is the embedded one. This crate decides nothing: it
//! reads no clock and knows no job. Start at [`Store`]; what is on disk is told in [`sqlite`].
#![forbid(unsafe_code)]

mod codec;
mod error;
mod frame;
#[cfg(feature = "mutations")]
pub mod mutation;
pub mod sqlite;
mod store;

pub use codec::{decode_state, encode_state};
pub use error::StoreError;
pub use store::{Batch, Change, Compacted, Loaded, Reader, Snapshotter, Store, Stored, Table};
