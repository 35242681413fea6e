//! The server: takes requests in, drives the engine, stores what happened, tells agents what to do. It decides nothing.
//!
//! ```text
//!  HTTP handlers ──► Handle ──► driver thread ──► Engine::step ──► events ──► Store::append (one commit for all)
//!   (tokio)            ▲          owns engine                        │
//!                      │          and store                          ▼ only after the commit
//!                      └──────────── answers ◄──────────── effects ──► connected agents, event stream, metrics
//! ```
//!
//! Nothing leaves before it is stored: no answer, no command to an agent, no event. Start at [`serve()`].
#![forbid(unsafe_code)]

pub mod clock;
pub mod config;
pub mod driver;
mod embedded;
pub mod error;
mod foreign;
pub mod http;
pub mod logs;
#[cfg(feature = "mutations")]
pub mod mutation;
mod peers;
pub mod restore;
pub mod serve;

pub use config::{Config, PeerConfig, PoolConfig, Tls};
pub use embedded::Embedded;
pub use error::ServerError;
pub use foreign::Foreign;
pub use peers::{peer_address, peer_called_at, peer_id, peer_settings};
pub use serve::{Ready, check, serve};
