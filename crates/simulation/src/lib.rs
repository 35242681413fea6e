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

/// Lets the world of a plan happen.
///
/// # Errors
/// What must not be and was, in one sentence.
pub fn run(plan: &Plan) -> Result<(), String> {
    happen(plan, false).0
}

/// The same, and what happened, line by line.
pub fn tell(plan: &Plan) -> (Result<(), String>, Vec<String>) {
    happen(plan, true)
}

fn happen(plan: &Plan, told: bool) -> (Result<(), String>, Vec<String>) {
    let root = tempfile::Builder::new().prefix("landfall-world-").tempdir_in(place());
    let root = match root {
        Ok(root) => root,
        Err(error) => return (Err(format!("no place for a world: {error}")), Vec::new()),
    };
    let Some(mut world) = World::new(plan, root.path()) else {
        return (Err("the world cannot be made".to_owned()), Vec::new());
    };
    world.history.story = told.then(Vec::new);
    world.run();
    let outcome = world.history.wrong.take().map_or(Ok(()), Err);
    (outcome, world.history.story.take().unwrap_or_default())
}
