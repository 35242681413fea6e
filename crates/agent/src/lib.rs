//! The agent: runs jobs on a machine and tells the server about both.
//!
//! Three processes take part. The *agent* ([`run`]) speaks to the server: it registers, sends heartbeats, follows
//! commands, sends reports and output. The *keeper* ([`keeper`], hidden command `landfall keeper`) is the parent of all
//! jobs and stays when the agent goes. *Jobs* are processes in groups of their own with an environment of their own.
//!
//! Inside the agent everything that is decided is decided in [`jobs`](self), a plain value without clock or sockets; the
//! other modules carry it out: `hub` holds what they share, `link` speaks to the keeper, `session` keeps the connection to
//! the server, `reporter` and `logs` send until it is stored. [`runtime`] turns a job into a process, [`probe`] looks at
//! the machine.
//!
//! What must hold:
//! - an attempt is named in every heartbeat from its start until the server has stored its end;
//! - the end of an attempt is kept, by the keeper, until then: neither the agent's nor the server's death loses it;
//! - nothing of the agent's own environment reaches a job, but for a short list of names.
#![forbid(unsafe_code)]

pub mod attend;
mod backoff;
mod config;
mod error;
mod hub;
mod jobs;
pub mod keeper;
mod layout;
mod link;
mod logs;
mod metric;
pub mod probe;
mod reporter;
mod run;
pub mod runtime;
mod server_clock;
mod session;
#[cfg(feature = "simulation")]
pub mod simulation;

use std::path::Path;

pub use config::{Accepting, Config};
pub use error::AgentError;
pub use keeper::KeeperError;
pub use run::run;
pub use runtime::here;
pub use runtime::template::Template;

/// The hidden command `keeper --dir DIR`: keeps the jobs of a data directory until nobody needs it.
pub fn keeper_main(dir: &Path) -> Result<(), KeeperError> {
    keeper::keep(dir)
}
