//! A connection that reads.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use landfall_engine::State;
use landfall_model::Time;
use rusqlite::{Connection, OpenFlags};

use super::head::Head;
use super::{backup, connect, explain, journal, records, schema, snapshots};
use crate::error::StoreError;
use crate::store::{Reader, Stored, Table};

/// A connection and the path of its database.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) conn: Connection,
    pub(super) path: PathBuf,
    pub(super) incarnation: String,
}

impl Reading {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        // Looked at without opening: closing a file drops all locks that this process has on it, SQLite's own included.
        std::fs::metadata(path)
            .map_err(|error| StoreError::io(format!("cannot open {}", path.display()), error))?;
        let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        if schema::check(&conn, path)? != schema::FORMAT {
            let why = "a server has to open it first and bring it to the present format".into();
            return Err(StoreError::Unreadable { what: path.display().to_string(), why });
        }
        let incarnation = Head::read(&conn, path)?.incarnation;
        Ok(Self { conn, path: path.to_path_buf(), incarnation })
    }
}

impl Reader for Reading {
    fn incarnation(&self) -> &str {
        &self.incarnation
    }

    fn get(&mut self, table: Table, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        records::get(&self.conn, &self.path, table, key)
    }

    fn scan(
        &mut self,
        table: Table,
        after: Option<&str>,
        limit: usize,
        newest_first: bool,
    ) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        records::scan(&self.conn, &self.path, table, after, limit, newest_first)
    }

    fn events(&mut self, after: u64, limit: usize) -> Result<Vec<Stored>, StoreError> {
        let Self { conn, path, .. } = self;
        // One transaction, so that nothing is dropped between the look at the oldest and the reading.
        let tx = conn.transaction().map_err(explain(path))?;
        let oldest = journal::oldest(&tx).map_err(explain(path))?;
        if after.saturating_add(1) < oldest {
            return Err(StoreError::Compacted { oldest });
        }
        let mut events = Vec::new();
        if limit > 0 {
            journal::walk(&tx, path, after, |stored| {
                events.push(stored);
                if events.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        Ok(events)
    }

    fn oldest_seq(&mut self) -> Result<u64, StoreError> {
        journal::oldest(&self.conn).map_err(explain(&self.path))
    }

    fn last_seq(&mut self) -> Result<u64, StoreError> {
        journal::last(&self.conn).map_err(explain(&self.path))
    }

    fn seq_at(&mut self, at: Time) -> Result<u64, StoreError> {
        let Self { conn, path, .. } = self;
        let tx = conn.transaction().map_err(explain(path))?;
        journal::last_until(&tx, at).map_err(explain(path))
    }

    fn state_at(&mut self, at: Time) -> Result<Option<State>, StoreError> {
        let Self { conn, path, .. } = self;
        // One transaction, so that nothing is dropped meanwhile.
        let tx = conn.transaction().map_err(explain(path))?;
        let mut base = None;
        for head in snapshots::heads(&tx, path)? {
            match snapshots::read(&tx, path, &head) {
                Ok(state) if state.now <= at => {
                    base = Some((state, head.seq));
                    break;
                }
                // It is later, or an older one has to do.
                Ok(_) | Err(StoreError::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let (mut state, seq) = base.unwrap_or_default();
        if journal::oldest(&tx).map_err(explain(path))? > seq + 1 {
            return Ok(None);
        }
        journal::walk(&tx, path, seq, |stored| {
            if stored.at > at {
                return ControlFlow::Break(());
            }
            state.apply(stored.at, &stored.event);
            ControlFlow::Continue(())
        })?;
        Ok(Some(state))
    }

    fn size_bytes(&mut self) -> Result<u64, StoreError> {
        let mut bytes = 0;
        for end in ["", "-wal"] {
            let mut name = self.path.clone().into_os_string();
            name.push(end);
            match std::fs::metadata(&name) {
                Ok(metadata) => bytes += metadata.len(),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(StoreError::io(format!("cannot look at {}", name.display()), error));
                }
            }
        }
        Ok(bytes)
    }

    fn backup(&mut self, to: &Path) -> Result<(), StoreError> {
        backup::write(&self.conn, &self.path, to)
    }
}
