//! The one row that says which journal this is, how far it goes and who may write it.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::explain;
use crate::error::StoreError;
use crate::frame;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// The highest epoch that has written.
    pub(super) epoch: u32,
    /// Number of the last event.
    pub(super) last_seq: u64,
    /// Which journal this is: made at random with it, and anew by a restore.
    pub(super) incarnation: String,
    /// Whether this file is a backup, on which no server may start.
    pub(super) backup: bool,
}

impl Head {
    fn checksum(&self) -> [u8; 16] {
        frame::check(&[
            b"landfall head",
            &self.epoch.to_le_bytes(),
            &self.last_seq.to_le_bytes(),
            self.incarnation.as_bytes(),
            &[u8::from(self.backup)],
        ])
    }

    pub(super) fn read(conn: &Connection, path: &Path) -> Result<Self, StoreError> {
        let row = conn
            .prepare_cached("SELECT epoch, last_seq, incarnation, backup, checksum FROM head")
            .and_then(|mut query| {
                query
                    .query_row([], |row| {
                        let head = Self {
                            epoch: row.get(0)?,
                            last_seq: row.get(1)?,
                            incarnation: row.get(2)?,
                            backup: row.get(3)?,
                        };
                        Ok((head, row.get::<_, Vec<u8>>(4)?))
                    })
                    .optional()
            });
        let damaged = |why: &str| StoreError::damaged("the head of the journal", why);
        match row {
            Ok(Some((head, checksum))) if head.checksum() == checksum.as_slice() => Ok(head),
            Ok(Some(_)) => Err(damaged("its checksum is wrong")),
            Ok(None) => Err(damaged("it is missing")),
            Err(error) => Err(explain(path)(error)),
        }
    }

    pub(super) fn write(&self, conn: &Connection) -> rusqlite::Result<()> {
        conn.prepare_cached("INSERT OR REPLACE INTO head VALUES (1, ?1, ?2, ?3, ?4, ?5)")?
            .execute(params![self.epoch, self.last_seq, self.incarnation, self.backup, self.checksum()])?;
        Ok(())
    }
}
