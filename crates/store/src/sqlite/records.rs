//! Records beside the journal, by kind and key.

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use crate::store::{Change, Table};

/// Puts and deletes in the order given.
pub(super) fn apply(tx: &Transaction<'_>, changes: &[Change]) -> rusqlite::Result<()> {
    for change in changes {
        let (kind, key) = (change.table.number(), &change.key);
        match &change.value {
            Some(value) => tx
                .prepare_cached(
                    "INSERT INTO records VALUES (?1, ?2, ?3)
                     ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value",
                )?
                .execute(params![kind, key, value])?,
            None => tx
                .prepare_cached("DELETE FROM records WHERE kind = ?1 AND key = ?2")?
                .execute(params![kind, key])?,
        };
    }
    Ok(())
}

pub(super) fn get(conn: &Connection, table: Table, key: &str) -> rusqlite::Result<Option<Vec<u8>>> {
    conn.prepare_cached("SELECT value FROM records WHERE kind = ?1 AND key = ?2")?
        .query_row(params![table.number(), key], |row| row.get(0))
        .optional()
}

pub(super) fn scan(
    conn: &Connection,
    table: Table,
    after: Option<&str>,
    limit: usize,
    newest_first: bool,
) -> rusqlite::Result<Vec<(String, Vec<u8>)>> {
    let query = match (after.is_some(), newest_first) {
        (false, false) => {
            "SELECT key, value FROM records WHERE kind = ?1 AND ?2 IS NULL ORDER BY key LIMIT ?3"
        }
        (false, true) => {
            "SELECT key, value FROM records WHERE kind = ?1 AND ?2 IS NULL ORDER BY key DESC LIMIT ?3"
        }
        (true, false) => "SELECT key, value FROM records WHERE kind = ?1 AND key > ?2 ORDER BY key LIMIT ?3",
        (true, true) => {
            "SELECT key, value FROM records WHERE kind = ?1 AND key < ?2 ORDER BY key DESC LIMIT ?3"
        }
    };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    conn.prepare_cached(query)?
        .query_map(params![table.number(), after, limit], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}
