//! The targets, by what they read.

pub(crate) mod http;
pub(crate) mod journal;
pub(crate) mod keeper;
pub(crate) mod messages;
pub(crate) mod peers;
pub(crate) mod policy;
pub(crate) mod scenario;
pub(crate) mod trace;

use std::path::{Path, PathBuf};

/// Where files are made: in memory where the system has such a place, because nothing here is about disks.
fn memory() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() }
}
