//! A client of the server: for the command line and for agents.
//!
//! [`Client`] speaks JSON over HTTP; [`ClientError`] tells apart what went wrong and what to do about it; [`Lines`] reads
//! long answers line by line, and [`Events`] those that are streams of server-sent events; [`PlacementEvents`] says what happens to a
//! job that peers place. Nothing here decides anything.
#![forbid(unsafe_code)]

mod agent;
mod client;
mod error;
mod events;
mod lines;
mod path;
mod placement;

pub use agent::Commands;
pub use client::{Client, Settings};
pub use error::ClientError;
pub use events::{Events, ServerEvent};
pub use lines::Lines;
pub use path::{segment, with_query};
pub use placement::{PlacementEvent, PlacementEvents};
