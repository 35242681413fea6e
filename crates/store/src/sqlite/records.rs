//! Records beside the journal, by kind and key, each with a checksum over both and its value.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::explain;
use crate::error::StoreError;
use crate::frame;
use crate::store::{Change, Table};

fn checksum(kind: i64, key: &str, value: &[u8]) -> [u8; 16] {
    frame::check(&[b"landfall record", &kind.to_le_bytes(), key.as_bytes(), value])
}

/// Puts and deletes in the order given.
pub(super) fn apply(tx: &Transaction<'_>, changes: &[Change]) -> rusqlite::Result<()> {
    for change in changes {
        let (kind, key) = (change.table.number(), &change.key);
        match &change.value {
            Some(value) => put(tx, kind, key, value)?,
            None => {
                tx.prepare_cached("DELETE FROM records WHERE kind = ?1 AND key = ?2")?
                    .execute(params![kind, key])?;
            }
        }
    }
    Ok(())
}

pub(super) fn put(tx: &Transaction<'_>, kind: i64, key: &str, value: &[u8]) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO records VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value, checksum = excluded.checksum",
    )?
    .execute(params![kind, key, value, checksum(kind, key, value)])?;
    Ok(())
}

/// A record with its kind.
pub(super) type Record = (i64, String, Vec<u8>);

/// Gives all records of all kinds as they lie in the file, from one end or the other, each read or why it cannot be.
pub(super) fn all(
    conn: &Connection,
    path: &Path,
    format: u32,
    newest_first: bool,
    mut each: impl FnMut(Result<Record, StoreError>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut query = conn
        .prepare(&format!(
            "SELECT key, value, {}, kind FROM records NOT INDEXED ORDER BY rowid {}",
            // Records had no checksums in format 1.
            if format < 2 { "NULL" } else { "checksum" },
            if newest_first { "DESC" } else { "ASC" }
        ))
        .map_err(explain(path))?;
    let mut rows = query.query([]).map_err(explain(path))?;
    while let Some(row) = rows.next().map_err(explain(path))? {
        let kind: i64 = row.get(3).map_err(explain(path))?;
        let name = Table::ALL.iter().find(|table| table.number() == kind).map_or("?", |table| table.name());
        let record = match if format < 2 { plain(row) } else { read(kind, row) } {
            Ok((key, value)) => Ok((kind, key, value)),
            Err(wrong) => Err(damaged(name, wrong)),
        };
        each(record)?;
    }
    Ok(())
}

/// What a row says of itself; `Err` is why it is damaged.
type Read = Result<(String, Vec<u8>), (String, String)>;

/// A row of key, value and checksum.
fn read(kind: i64, row: &rusqlite::Row<'_>) -> Read {
    let key = match row.get_ref(0).map(|key| key.as_str().map(str::to_owned)) {
        Ok(Ok(key)) => key,
        _ => return Err(("?".to_owned(), "its key is no text".to_owned())),
    };
    let part = |column| row.get_ref(column).ok().and_then(|part| part.as_blob().ok());
    match (part(1), part(2)) {
        (Some(value), Some(check)) if checksum(kind, &key, value) == check => Ok((key, value.to_vec())),
        (Some(_), Some(_)) => Err((key, "its checksum is wrong".to_owned())),
        _ => Err((key, "it has parts of another kind".to_owned())),
    }
}

/// A row of key and value as format 1 has it.
fn plain(row: &rusqlite::Row<'_>) -> Read {
    match (row.get(0), row.get(1)) {
        (Ok(key), Ok(value)) => Ok((key, value)),
        (key, _) => Err((key.unwrap_or_else(|_| "?".into()), "it has parts of another kind".into())),
    }
}

fn damaged(name: &str, (key, why): (String, String)) -> StoreError {
    StoreError::damaged(format!("the record {name}/{key}"), why)
}

pub(super) fn get(
    conn: &Connection,
    path: &Path,
    table: Table,
    key: &str,
) -> Result<Option<Vec<u8>>, StoreError> {
    let found = conn
        .prepare_cached("SELECT key, value, checksum FROM records WHERE kind = ?1 AND key = ?2")
        .and_then(|mut query| {
            query.query_row(params![table.number(), key], |row| Ok(read(table.number(), row))).optional()
        })
        .map_err(explain(path))?;
    match found {
        None => Ok(None),
        Some(Ok((_, value))) => Ok(Some(value)),
        Some(Err(wrong)) => Err(damaged(table.name(), wrong)),
    }
}

pub(super) fn scan(
    conn: &Connection,
    path: &Path,
    table: Table,
    after: Option<&str>,
    limit: usize,
    newest_first: bool,
) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
    let query = match (after.is_some(), newest_first) {
        (false, false) => {
            "SELECT key, value, checksum FROM records WHERE kind = ?1 AND ?2 IS NULL ORDER BY key LIMIT ?3"
        }
        (false, true) => {
            "SELECT key, value, checksum FROM records WHERE kind = ?1 AND ?2 IS NULL ORDER BY key DESC LIMIT ?3"
        }
        (true, false) => {
            "SELECT key, value, checksum FROM records WHERE kind = ?1 AND key > ?2 ORDER BY key LIMIT ?3"
        }
        (true, true) => {
            "SELECT key, value, checksum FROM records WHERE kind = ?1 AND key < ?2 ORDER BY key DESC LIMIT ?3"
        }
    };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows: Vec<Read> = conn
        .prepare_cached(query)
        .and_then(|mut query| {
            query
                .query_map(params![table.number(), after, limit], |row| Ok(read(table.number(), row)))?
                .collect()
        })
        .map_err(explain(path))?;
    rows.into_iter().map(|row| row.map_err(|wrong| damaged(table.name(), wrong))).collect()
}
