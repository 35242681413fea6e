//! The embedded store: one SQLite database in a data directory, nothing to install.
//!
//! ```text
//! DIR/            mode 0700
//!   lock          held while a server runs; has its process id
//!   journal.db    mode 0600; tables: journal, head, snapshots, snapshot_parts, records
//!   journal.db-wal, journal.db-shm   SQLite's own; part of the database while it is open
//! ```
//!
//! **Durable.** Write-ahead log with `synchronous=FULL`: a commit is synced before [`append`](crate::Store::append) returns, so it
//! survives the loss of power as far as the disk keeps its word. A transaction is there as a whole or not at all; SQLite
//! never leaves a torn last row. A row whose checksum is wrong was therefore damaged after it was written, wherever it
//! stands, and is an error.
//!
//! **Journal.** A batch is one row, or several when it is large: a row has at most 1024 events or about 256 KiB, so
//! neither a large batch nor a reader of a few events needs much memory. All rows of a batch are in one transaction.
//!
//! **Snapshots are rows of the same database**, cut into parts that are stored in a transaction each; the row that makes a
//! snapshot count is written last. Files beside the database would be written once instead of twice, but a backup
//! would no longer be one file, and "this snapshot is there, so those events may go" would no longer be a transaction.
//!
//! **Epochs.** The highest epoch that ever wrote is kept, and compared in the transaction of each append.

mod backup;
mod directory;
mod head;
mod journal;
mod reader;
mod rebuild;
mod records;
mod replayed;
mod schema;
mod snapshots;
mod verify;
mod wal;

use std::path::{Path, PathBuf};
use std::time::Duration;

use landfall_engine::State;
use landfall_model::Time;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::error::StoreError;
use crate::store::{Batch, Compacted, Loaded, Reader, Snapshotter, Store, Stored, Table};
use directory::Directory;
use head::Head;
use reader::Reading;
use snapshots::Newest;

pub use replayed::Verified;
pub use schema::{APPLICATION_ID, FORMAT};
pub use verify::{Checked, Damage, Progress};

/// How long a write waits for another one.
const BUSY: Duration = Duration::from_secs(10);

/// Settings of an embedded store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// The database may not grow beyond so many bytes; appends then say [`StoreError::Full`].
    pub max_bytes: Option<u64>,
}

/// The journal of one server in a data directory.
#[derive(Debug)]
pub struct Sqlite {
    // Closed before the directory is unlocked.
    reading: Reading,
    directory: Directory,
}

impl Sqlite {
    /// Opens a data directory, or makes one.
    ///
    /// # Errors
    /// When another server has it, or it has something else in it, or a newer program wrote it.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        Self::open_with(dir, Options::default())
    }

    /// Opens a data directory, or makes one, with settings.
    pub fn open_with(dir: &Path, options: Options) -> Result<Self, StoreError> {
        let mut directory = Directory::lock(dir)?;
        let path = directory.database()?;
        if let Some(found) = wal::damage(&path)? {
            return Err(StoreError::damaged(found.what, found.why));
        }
        let mut conn = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        schema::prepare(&mut conn, &path, true)?;
        if let Some(bytes) = options.max_bytes {
            limit(&conn, bytes).map_err(explain(&path))?;
        }
        let head = Head::read(&conn, &path)?;
        if head.backup {
            return Err(StoreError::Backup { path });
        }
        Ok(Self { reading: Reading { conn, path, incarnation: head.incarnation }, directory })
    }

    /// Opens a data directory to read, whether a server runs on it or not.
    ///
    /// # Errors
    /// When there is no journal, or it is not one that this version can read.
    pub fn open_reader(dir: &Path) -> Result<Box<dyn Reader>, StoreError> {
        Ok(Box::new(Reading::open(&dir.join(directory::DATABASE))?))
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(explain(path))?;
    conn.busy_timeout(BUSY).map_err(explain(path))?;
    Ok(conn)
}

fn limit(conn: &Connection, bytes: u64) -> rusqlite::Result<()> {
    let page: u64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let pages = i64::try_from((bytes / page.max(1)).max(1)).unwrap_or(i64::MAX);
    conn.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
}

/// Says what an error of SQLite means for us.
fn explain(path: &Path) -> impl Fn(rusqlite::Error) -> StoreError + '_ {
    move |source| {
        let path = || path.to_path_buf();
        let error = match &source {
            rusqlite::Error::SqliteFailure(error, _) => error,
            // A column has something that we never write into it.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..) => {
                return StoreError::damaged(format!("the database {}", path().display()), source.to_string());
            }
            _ => return StoreError::Database { source },
        };
        match error.code {
            // The index of the write-ahead log could not grow: no room either.
            _ if error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE => {
                StoreError::Full { path: path() }
            }
            // The file ends within a page.
            _ if error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHORT_READ => {
                StoreError::damaged(format!("the database {}", path().display()), "it is cut off")
            }
            ErrorCode::DiskFull => StoreError::Full { path: path() },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                StoreError::Busy { waited_s: BUSY.as_secs() }
            }
            ErrorCode::NotADatabase => {
                StoreError::NotOurs { path: path(), why: "it is not an SQLite database".into() }
            }
            ErrorCode::DatabaseCorrupt => {
                StoreError::damaged(format!("the database {}", path().display()), source.to_string())
            }
            ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied => StoreError::Disk { path: path(), source },
            _ => StoreError::Database { source },
        }
    }
}

impl Reader for Sqlite {
    fn incarnation(&self) -> &str {
        &self.reading.incarnation
    }

    fn get(&mut self, table: Table, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.reading.get(table, key)
    }

    fn scan(
        &mut self,
        table: Table,
        after: Option<&str>,
        limit: usize,
        newest_first: bool,
    ) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.reading.scan(table, after, limit, newest_first)
    }

    fn events(&mut self, after: u64, limit: usize) -> Result<Vec<Stored>, StoreError> {
        self.reading.events(after, limit)
    }

    fn oldest_seq(&mut self) -> Result<u64, StoreError> {
        self.reading.oldest_seq()
    }

    fn last_seq(&mut self) -> Result<u64, StoreError> {
        self.reading.last_seq()
    }

    fn seq_at(&mut self, at: Time) -> Result<u64, StoreError> {
        self.reading.seq_at(at)
    }

    fn state_at(&mut self, at: Time) -> Result<Option<State>, StoreError> {
        self.reading.state_at(at)
    }

    fn size_bytes(&mut self) -> Result<u64, StoreError> {
        self.reading.size_bytes()
    }

    fn backup(&mut self, to: &Path) -> Result<(), StoreError> {
        self.reading.backup(to)
    }
}

impl Store for Sqlite {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        let Reading { conn, path, .. } = &mut self.reading;
        let Newest { mut state, seq: snapshot_seq, damaged } = snapshots::newest_good(conn, path)?;
        for seq in damaged {
            snapshots::forget(conn, seq).map_err(explain(path))?;
        }
        let oldest = journal::oldest(conn).map_err(explain(path))?;
        if oldest > snapshot_seq + 1 {
            return Err(StoreError::Damaged {
                what: "the journal".into(),
                seq: Some(snapshot_seq + 1),
                why: format!(
                    "no snapshot is good, and events {} to {} were dropped long ago",
                    snapshot_seq + 1,
                    oldest - 1
                ),
            });
        }
        let seq = journal::walk(conn, path, snapshot_seq, |stored| {
            state.apply(stored.at, &stored.event);
            std::ops::ControlFlow::Continue(())
        })?;
        let head = Head::read(conn, path)?;
        if head.last_seq != seq {
            let (least, most) = (head.last_seq.min(seq), head.last_seq.max(seq));
            return Err(StoreError::Damaged {
                what: "the journal".into(),
                seq: Some(least + 1),
                why: format!("it ends at event {seq}; {most} was stored"),
            });
        }
        Ok(Loaded { state, seq, replayed: seq - snapshot_seq, snapshot_seq })
    }

    fn append(&mut self, batch: &Batch) -> Result<u64, StoreError> {
        let Reading { conn, path, .. } = &mut self.reading;
        if batch.is_empty() {
            return journal::last(conn).map_err(explain(path));
        }
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(explain(path))?;
        // An error drops the transaction, which takes everything back.
        let mut head = Head::read(&tx, path)?;
        if batch.epoch < head.epoch {
            return Err(StoreError::Fenced { epoch: batch.epoch, highest: head.epoch });
        }
        let last = journal::append(&tx, path, head.last_seq, batch)?;
        if (head.epoch, head.last_seq) != (batch.epoch, last) {
            (head.epoch, head.last_seq) = (batch.epoch, last);
            head.write(&tx).map_err(explain(path))?;
        }
        records::apply(&tx, &batch.changes).map_err(explain(path))?;
        tx.commit().map_err(explain(path))?;
        Ok(last)
    }

    fn probe(&mut self, epoch: u32) -> Result<(), StoreError> {
        let Reading { conn, path, .. } = &mut self.reading;
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(explain(path))?;
        let head = Head::read(&tx, path)?;
        if epoch < head.epoch {
            return Err(StoreError::Fenced { epoch, highest: head.epoch });
        }
        head.write(&tx).and_then(|()| tx.commit()).map_err(explain(path))
    }

    fn snapshot(&mut self, seq: u64, state: &[u8]) -> Result<(), StoreError> {
        snapshots::store(&mut self.reading.conn, &self.reading.path, seq, state)
    }

    fn compact(&mut self, keep_events_since: Time) -> Result<Compacted, StoreError> {
        let Reading { conn, path, .. } = &mut self.reading;
        let compacted = journal::compact(conn, keep_events_since).map_err(explain(path))?;
        schema::give_back_room(conn).map_err(explain(path))?;
        Ok(compacted)
    }

    fn reader(&self) -> Result<Box<dyn Reader>, StoreError> {
        Ok(Box::new(Reading::open(&self.reading.path)?))
    }

    fn snapshotter(&self) -> Result<Box<dyn Snapshotter>, StoreError> {
        let path = self.reading.path.clone();
        let mut conn = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        schema::prepare(&mut conn, &path, false)?;
        Ok(Box::new(SecondWriter { conn, path }))
    }
}

/// A connection for snapshots alone.
struct SecondWriter {
    conn: Connection,
    path: PathBuf,
}

impl Snapshotter for SecondWriter {
    fn snapshot(&mut self, seq: u64, state: &[u8]) -> Result<(), StoreError> {
        snapshots::store(&mut self.conn, &self.path, seq, state)
    }
}
