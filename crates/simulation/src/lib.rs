//! A whole service in virtual time: the server's driver on the real store, agents, keepers, clients, and between them a network,
//! clocks and disks that fail, all drawn from one seed and moved by one queue of events on one thread.
//!
//! ```text
//!  seed ──► Plan (jobs, nodes, troubles) ──► World ──► History (what clients and machines saw) ──► what must hold
//!                    ▲                                                                               │
//!                    └────────────── shrink: leave things out while it still fails ◄─────────────────┘
//! ```
//!
//! *Real*: the driver and its rounds, the engine, the store with SQLite on files in memory, backups and restores, the clock's state
//! machine, the agent's rules and its files, the keeper's journal. *Played*: HTTP, tokens, processes, the keeper's threads, and the
//! tasks of the agent that wait (see `landfall_agent::simulation`).
//!
//! It is a crate of its own because it needs both server and agent, and `testkit` is used by the tests of what those two are
//! made of: there it would have to be built with every one of them, and twice.
#![forbid(unsafe_code)]

mod disk;
mod history;
pub mod mutation;
pub mod plan;
mod server;
mod shrink;
mod world;

use std::path::{Path, PathBuf};

pub use plan::Plan;
pub use shrink::shrink;

use world::World;

/// Where the files of worlds are: in memory where there is such a place, so that nobody waits for a disk.
fn place() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() }
}

/// Lets the world of a plan happen; what must not be, if something was.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn run(plan: &Plan) -> Result<(), String> {
    let root = tempfile::Builder::new().prefix("landfall-world-").tempdir_in(place());
    let root = root.map_err(|error| format!("no place for a world: {error}"))?;
    let mut world = World::new(plan, root.path()).ok_or("the world cannot be made")?;
    world.run();
    match world.history.wrong.take() {
        Some(wrong) => Err(wrong),
        None => Ok(()),
    }
}
