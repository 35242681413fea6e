//! Snapshots: stored in parts, counted when complete, read newest first.

use std::path::Path;

use landfall_engine::State;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use super::explain;
use crate::codec::decode_state;
use crate::error::StoreError;
use crate::frame;

/// Size of a part. Each is a transaction of its own, and an append waits for one part at most.
const PART: usize = 4 << 20;
/// Snapshots that are kept.
const KEPT: i64 = 2;

/// Binds the bytes of a state to the number of its last event.
fn checksum(seq: u64, state: &[u8]) -> [u8; 16] {
    // The head of the bytes has a checksum of all of them already.
    let head = &state[..state.len().min(frame::HEAD)];
    frame::check(&[&seq.to_le_bytes(), &(state.len() as u64).to_le_bytes(), head])
}

pub(super) fn store(conn: &mut Connection, path: &Path, seq: u64, state: &[u8]) -> Result<(), StoreError> {
    let last = super::head::Head::read(conn, path)?.last_seq;
    if seq > last {
        return Err(StoreError::Ahead { seq, last });
    }
    let stored = store_parts(conn, seq, state);
    if stored.is_err() {
        // Room is what may be missing, so parts go at once if they can; the next snapshot sweeps otherwise.
        let swept = sweep(conn);
        tracing::debug!(swept = swept.is_ok(), seq, "a snapshot was not stored");
    }
    match stored.map_err(explain(path))? {
        true => Ok(()),
        false => Err(StoreError::Busy { waited_s: 0 }),
    }
}

/// Gives `false` when somebody else stored a snapshot at the same time and took the parts for left over ones.
fn store_parts(conn: &mut Connection, seq: u64, state: &[u8]) -> rusqlite::Result<bool> {
    // One of the same number may be half written, or damaged: why else would it be stored again.
    conn.execute("DELETE FROM snapshots WHERE seq = ?1", [seq])?;
    sweep(conn)?;
    let parts = state.chunks(PART);
    let count = parts.len();
    for (part, bytes) in parts.enumerate() {
        conn.prepare_cached("INSERT INTO snapshot_parts VALUES (?1, ?2, ?3)")?
            .execute(params![seq, part, bytes])?;
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let complete = "SELECT count(*) = ?2 FROM snapshot_parts WHERE seq = ?1";
    if !tx.query_row(complete, params![seq, count], |row| row.get(0))? {
        return Ok(false);
    }
    tx.execute("INSERT INTO snapshots VALUES (?1, ?2, ?3)", params![seq, count, checksum(seq, state)])?;
    tx.execute(
        "DELETE FROM snapshots WHERE seq NOT IN (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT ?1)",
        [KEPT],
    )?;
    tx.commit()?;
    sweep(conn)?;
    Ok(true)
}

/// Deletes parts that belong to no snapshot, one after the other.
fn sweep(conn: &Connection) -> rusqlite::Result<()> {
    let mut delete = conn.prepare_cached(
        "DELETE FROM snapshot_parts WHERE rowid =
         (SELECT rowid FROM snapshot_parts WHERE seq NOT IN (SELECT seq FROM snapshots) LIMIT 1)",
    )?;
    while delete.execute([])? > 0 {}
    Ok(())
}

/// All states that are stored, oldest first, with the numbers of their last events.
pub(super) fn all(conn: &Connection, path: &Path) -> Result<Vec<(State, u64)>, StoreError> {
    let heads = heads(conn, path)?.into_iter().rev();
    heads.map(|head| Ok((read(conn, path, &head)?, head.seq))).collect()
}

/// What is said of a snapshot beside its parts.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) seq: u64,
    parts: usize,
    check: Vec<u8>,
}

/// All snapshots, the newest first.
pub(super) fn heads(conn: &Connection, path: &Path) -> Result<Vec<Head>, StoreError> {
    conn.prepare("SELECT seq, parts, checksum FROM snapshots ORDER BY seq DESC")
        .and_then(|mut query| {
            query
                .query_map([], |row| Ok(Head { seq: row.get(0)?, parts: row.get(1)?, check: row.get(2)? }))?
                .collect()
        })
        .map_err(explain(path))
}

/// What snapshots give.
#[derive(Debug, Default)]
pub(super) struct Newest {
    /// The newest state that can be read; the empty one if there is none.
    pub(super) state: State,
    /// The number of its last event.
    pub(super) seq: u64,
    /// The numbers of newer ones that cannot be read.
    pub(super) damaged: Vec<u64>,
}

/// The newest state that can be read.
pub(super) fn newest_good(conn: &Connection, path: &Path) -> Result<Newest, StoreError> {
    let mut damaged = Vec::new();
    for head in heads(conn, path)? {
        match read(conn, path, &head) {
            Ok(state) => return Ok(Newest { state, seq: head.seq, damaged }),
            Err(error @ StoreError::Damaged { .. }) => {
                tracing::warn!(seq = head.seq, %error, "a snapshot is damaged; going on with an older one and more events");
                damaged.push(head.seq);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Newest { damaged, ..Newest::default() })
}

/// Forgets a snapshot that cannot be read, so that nothing is dropped because of it.
pub(super) fn forget(conn: &Connection, seq: u64) -> rusqlite::Result<()> {
    conn.execute("DELETE FROM snapshots WHERE seq = ?1", [seq])?;
    sweep(conn)
}

pub(super) fn read(conn: &Connection, path: &Path, head: &Head) -> Result<State, StoreError> {
    let Head { seq, parts, check } = head;
    let mut query = conn
        .prepare_cached("SELECT bytes FROM snapshot_parts WHERE seq = ?1 AND part = ?2")
        .map_err(explain(path))?;
    let damaged = |why: String| StoreError::damaged(format!("the snapshot of event {seq}"), why);
    let mut state = Vec::new();
    for part in 0..*parts {
        let found = query.query_row(params![seq, part], |row| {
            Ok(row.get_ref(0)?.as_blob().map(|bytes| state.extend_from_slice(bytes)).is_ok())
        });
        if found.optional().map_err(explain(path))? != Some(true) {
            return Err(damaged(format!("part {part} is missing")));
        }
    }
    if checksum(*seq, &state) != check.as_slice() {
        return Err(damaged("its checksum is wrong".to_owned()));
    }
    decode_state(&state)
}
