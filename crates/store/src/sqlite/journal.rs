//! Rows of the journal: written, read in order, dropped when old.

use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::Path;

use landfall_model::Time;
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::explain;
use crate::codec::{EventReader, write_event};
use crate::error::StoreError;
use crate::frame::{self, Broken};
use crate::store::{Batch, Compacted, Stored};

/// A row is closed at so many events,
const EVENTS_PER_ROW: u64 = 1024;
/// or so many bytes of them before packing.
const BYTES_PER_ROW: usize = 256 << 10;

/// Rows that one compaction drops at most.
const ROWS_AT_ONCE: usize = 512;
/// Bytes that one compaction drops at most, about.
const BYTES_AT_ONCE: u64 = 16 << 20;

/// Number of the last event; 0 if there is none.
pub(super) fn last(conn: &Connection) -> rusqlite::Result<u64> {
    let mut query = conn.prepare_cached("SELECT last_seq FROM journal ORDER BY first_seq DESC LIMIT 1")?;
    Ok(query.query_row([], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// Number of the oldest event; one more than the last if there is none.
pub(super) fn oldest(conn: &Connection) -> rusqlite::Result<u64> {
    let mut query = conn.prepare_cached("SELECT min(first_seq) FROM journal")?;
    // The row of the newest event is never dropped, so an empty journal has never had any.
    Ok(query.query_row([], |row| row.get::<_, Option<u64>>(0))?.unwrap_or(1))
}

/// Number of the last event of the rows that are not after an instant; 0 if there is none. Instants never go back, so rows are
/// looked at by halves.
pub(super) fn last_until(conn: &Connection, at: Time) -> rusqlite::Result<u64> {
    let mut query = conn.prepare_cached(
        "SELECT first_seq, last_seq, at FROM journal WHERE first_seq <= ?1 ORDER BY first_seq DESC LIMIT 1",
    )?;
    let (mut low, mut high, mut found) = (oldest(conn)?, last(conn)?, 0);
    while low <= high {
        let middle = low + (high - low) / 2;
        let row: Option<(u64, u64, i64)> =
            query.query_row([middle], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
        let Some((first, last, row_at)) = row else { break };
        if row_at <= at.as_millis() {
            (found, low) = (last, last + 1);
        } else if first <= low {
            break;
        } else {
            high = first - 1;
        }
    }
    Ok(found)
}

/// What a row says beside its events.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) at: Time,
    epoch: u32,
}

impl Head {
    /// What the checksum of the events is bound to.
    fn context(&self) -> [u8; 28] {
        let mut bytes = [0; 28];
        bytes[..8].copy_from_slice(&self.first.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.last.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.at.as_millis().to_le_bytes());
        bytes[24..].copy_from_slice(&self.epoch.to_le_bytes());
        bytes
    }

    fn what(&self) -> String {
        format!("the journal at events {} to {}", self.first, self.last)
    }

    fn damaged(&self, why: impl Into<String>) -> StoreError {
        StoreError::Damaged { what: self.what(), seq: Some(self.first), why: why.into() }
    }
}

/// Writes the events of a batch behind the event `last` and gives the number of the last event.
pub(super) fn append(
    tx: &Transaction<'_>,
    path: &Path,
    mut last: u64,
    batch: &Batch,
) -> Result<u64, StoreError> {
    let mut insert =
        tx.prepare_cached("INSERT INTO journal VALUES (?1, ?2, ?3, ?4, ?5)").map_err(explain(path))?;
    let (mut plain, mut packed) = (Vec::new(), Vec::new());
    let mut head = Head { first: last + 1, last, at: batch.at, epoch: batch.epoch };
    for (index, (at, event)) in batch.events.iter().enumerate() {
        write_event(&mut plain, batch.at, *at, event)?;
        last += 1;
        head.last = last;
        let full = head.last - head.first + 1 >= EVENTS_PER_ROW || plain.len() >= BYTES_PER_ROW;
        if full || index + 1 == batch.events.len() {
            frame::seal(&head.context(), &plain, &mut packed);
            insert
                .execute(params![head.first, head.last, head.at.as_millis(), head.epoch, packed])
                .map_err(explain(path))?;
            plain.clear();
            head.first = last + 1;
        }
    }
    Ok(last)
}

/// Gives the events behind `after` one by one until told to stop, and the number of the last one given (or `after`).
///
/// It is an error when one is missing or damaged.
pub(super) fn walk(
    conn: &Connection,
    path: &Path,
    after: u64,
    mut each: impl FnMut(Stored) -> ControlFlow<()>,
) -> Result<u64, StoreError> {
    let mut query = conn
        .prepare_cached(
            "SELECT first_seq, last_seq, at, epoch, events FROM journal
             WHERE first_seq >= coalesce((SELECT max(first_seq) FROM journal WHERE first_seq <= ?1), 0)
             ORDER BY first_seq",
        )
        .map_err(explain(path))?;
    let mut rows =
        query.query([i64::try_from(after).unwrap_or(i64::MAX).saturating_add(1)]).map_err(explain(path))?;
    let (mut seq, mut plain, mut scratch) = (after, Vec::new(), Vec::new());
    while let Some(row) = rows.next().map_err(explain(path))? {
        let head = read_head(row).map_err(explain(path))?;
        if head.last <= after {
            continue;
        }
        if head.first > seq + 1 || head.last < head.first {
            let why = format!("events {} to {} are missing", seq + 1, head.first.saturating_sub(1));
            return Err(StoreError::Damaged { what: "the journal".into(), seq: Some(seq + 1), why });
        }
        let frame = row.get_ref(4).map_err(explain(path))?;
        let frame = frame.as_blob().map_err(|error| head.damaged(error.to_string()))?;
        unpack(&head, frame, &mut plain)?;
        let mut events = EventReader::new(&plain, head.at, &mut scratch);
        let mut number = head.first;
        while let Some((at, event)) =
            events.next().map_err(|why| StoreError::Unreadable { what: head.what(), why })?
        {
            if number > seq {
                seq = number;
                if each(Stored { seq, at, event }).is_break() {
                    return Ok(seq);
                }
            }
            number += 1;
        }
        if number != head.last + 1 {
            return Err(head.damaged(format!("it has {} events", number - head.first)));
        }
    }
    Ok(seq)
}

/// Looks at all rows in order, each with whether its events can be read. Ends with an error where rows cannot be had.
pub(super) fn rows(
    conn: &Connection,
    path: &Path,
    mut each: impl FnMut(Head, Result<(), StoreError>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut query = conn
        .prepare("SELECT first_seq, last_seq, at, epoch, events FROM journal ORDER BY first_seq")
        .map_err(explain(path))?;
    let mut rows = query.query([]).map_err(explain(path))?;
    let (mut plain, mut scratch) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next().map_err(explain(path))? {
        let head = read_head(row).map_err(explain(path))?;
        let frame = row.get_ref(4).map_err(explain(path))?;
        let looked = match frame.as_blob() {
            Ok(frame) => look_at(&head, frame, &mut plain, &mut scratch),
            Err(error) => Err(head.damaged(error.to_string())),
        };
        each(head, looked)?;
    }
    Ok(())
}

fn look_at(head: &Head, frame: &[u8], plain: &mut Vec<u8>, scratch: &mut Vec<u8>) -> Result<(), StoreError> {
    unpack(head, frame, plain)?;
    let mut events = EventReader::new(plain, head.at, scratch);
    let mut count = 0;
    while events.next().map_err(|why| StoreError::Unreadable { what: head.what(), why })?.is_some() {
        count += 1;
    }
    match head.last.checked_sub(head.first) {
        Some(span) if span + 1 == count => Ok(()),
        _ => Err(head.damaged(format!("it has {count} events"))),
    }
}

/// The first event from which on all rows up to that of event `to` are whole.
pub(super) fn good_from(conn: &Connection, path: &Path, to: u64) -> Result<u64, StoreError> {
    let (mut from, mut next) = (to + 1, None);
    let walked = rows(conn, path, |head, looked| {
        if head.last <= to {
            if looked.is_ok() && next != Some(head.first) {
                from = head.first;
            }
            next = looked.is_ok().then_some(head.last + 1);
        }
        Ok(())
    });
    match walked {
        // Where rows cannot be had, the state and its snapshot do.
        Ok(()) | Err(StoreError::Damaged { .. }) if next == Some(to + 1) => Ok(from),
        Ok(()) | Err(StoreError::Damaged { .. }) => Ok(to + 1),
        Err(error) => Err(error),
    }
}

/// Copies the rows of events `from` to `to` as they are; they were looked at before.
pub(super) fn copy(source: &Connection, into: &mut Connection, from: u64, to: u64) -> rusqlite::Result<()> {
    const ROWS_PER_STEP: usize = 4096;
    let mut query = source.prepare(
        "SELECT first_seq, last_seq, at, epoch, events FROM journal
         WHERE first_seq >= ?1 AND last_seq <= ?2 ORDER BY first_seq",
    )?;
    let mut rows = query.query([from, to])?;
    loop {
        let tx = into.transaction()?;
        for _ in 0..ROWS_PER_STEP {
            let Some(row) = rows.next()? else { return tx.commit() };
            let (first, last, at, epoch): (u64, u64, i64, u32) =
                (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            tx.prepare_cached("INSERT INTO journal VALUES (?1, ?2, ?3, ?4, ?5)")?.execute(params![
                first,
                last,
                at,
                epoch,
                row.get::<_, Vec<u8>>(4)?
            ])?;
        }
        tx.commit()?;
    }
}

fn read_head(row: &rusqlite::Row<'_>) -> rusqlite::Result<Head> {
    Ok(Head { first: row.get(0)?, last: row.get(1)?, at: Time::from_millis(row.get(2)?), epoch: row.get(3)? })
}

fn unpack(head: &Head, frame: &[u8], plain: &mut Vec<u8>) -> Result<(), StoreError> {
    plain.clear();
    let mut payload = frame::open(&head.context(), frame).map_err(|broken| match broken {
        Broken::Kind => StoreError::Unreadable { what: head.what(), why: broken.to_string() },
        Broken::Short | Broken::Checksum => head.damaged(broken.to_string()),
    })?;
    payload.read_to_end(plain).map_err(|error| head.damaged(error.to_string()))?;
    Ok(())
}

/// Drops the oldest rows as far as both the time and the older snapshot allow.
pub(super) fn compact(conn: &mut Connection, keep_since: Time) -> rusqlite::Result<Compacted> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let covered: Option<u64> = tx
        .query_row("SELECT seq FROM snapshots ORDER BY seq DESC LIMIT 1 OFFSET 1", [], |row| row.get(0))
        .optional()?;
    let mut done = Compacted { oldest: oldest(&tx)?, ..Compacted::default() };
    // With one snapshot alone the journal is what is left when that one turns out to be damaged.
    let Some(covered) = covered else { return Ok(done) };
    let mut bytes = 0;
    {
        let mut query = tx.prepare_cached(
            "SELECT first_seq, last_seq, at, length(events) FROM journal ORDER BY first_seq",
        )?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let (first, last, at): (u64, u64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            if last > covered || Time::from_millis(at) >= keep_since {
                break;
            }
            if done.rows as usize == ROWS_AT_ONCE || bytes >= BYTES_AT_ONCE {
                done.more = true;
                break;
            }
            bytes += row.get::<_, u64>(3)?;
            done.rows += 1;
            done.events += last + 1 - first;
            done.oldest = last + 1;
        }
    }
    tx.execute("DELETE FROM journal WHERE last_seq < ?1 AND first_seq < ?1", [done.oldest])?;
    tx.commit()?;
    Ok(done)
}
