//! The embedded store through its public face. What kills a server outright is in `crash.rs`.

#[path = "../support/mod.rs"]
mod support;

mod backups;
mod damage;
mod fences;
mod flips;
mod full;
mod opening;
mod property;
mod rebuilt;
mod records;
mod rounds;

use std::path::Path;

use landfall_store::sqlite::Sqlite;

fn fresh() -> (tempfile::TempDir, Sqlite) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    (dir, store)
}

/// Opens a data directory that must open.
fn open(dir: &Path) -> Sqlite {
    Sqlite::open(dir).expect("the data directory opens")
}

/// A connection behind the back of the store, to do harm.
fn meddle(dir: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(dir.join("journal.db")).expect("the database opens")
}
