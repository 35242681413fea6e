//! The keeper: a small process that outlives the agent, so that jobs do too.
//!
//! An agent that is updated, restarted or killed must not take its jobs along, and must still learn how they ended. On
//! Unix only the parent of a process learns that, so somebody who stays has to be the parent. One keeper serves one
//! data directory; it starts processes, waits for them, enforces time limits, keeps how they ended until the server
//! knows, and nothing else: it knows no server, no network and no token, and its environment holds none.
//!
//! One process for all jobs, not one per job: a shim per job would double what a short job costs.
//!
//! If the keeper itself dies, its jobs become orphans of whom nobody can tell how they end. The next keeper finds them
//! in the `journal`, ends them and tells that they are lost; the server counts that as an attempt.
//!
//! The agent's side is `crate::link`.

pub(crate) mod cgroup;
mod cores;
pub mod journal;
mod orphans;
mod outbox;
pub(crate) mod procfs;
mod reap;
mod serve;
pub mod signal;
mod spares;
mod spawn;
mod state;
pub mod wire;

use std::io;
use std::path::Path;

pub use cgroup::Cgroups;
pub use serve::{KeeperError, keep};
#[cfg(feature = "simulation")]
pub(crate) use spawn::lost;
pub(crate) use spawn::say;

/// How long a keeper without jobs waits for an agent, and how long jobs may run past their walltime without one.
pub(crate) const DISCONNECTED_MS: u64 = 60_000;

/// Longest path that a socket address holds on every system.
const SOCKET_PATH_BYTES_MAX: usize = 100;

/// Calls something with a path to a socket that is short enough for a socket address. Data directories may lie deep.
pub(crate) fn with_short_path<T>(path: &Path, call: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return call(path);
    }
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return call(path) };
    let open = std::fs::File::open(dir)?;
    let short = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open));
    call(&Path::new(&short).join(name))
}
