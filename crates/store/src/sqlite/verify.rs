//! A look at everything that is stored: the structure of the file, the head, snapshots, the journal, records.

use std::path::Path;

use landfall_model::Time;
use rusqlite::Connection;

use super::head::Head;
use super::{explain, journal, records, schema, snapshots};
use crate::error::StoreError;

/// Lines that are asked of SQLite about the structure of a file.
const LINES_MAX: u32 = 20;

/// Looking at so many bytes takes a while that people should know of.
const LARGE: u64 = 256 << 20;

/// Something that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The table and the key, or the numbers of events.
    pub what: String,
    pub why: String,
}

/// What a look at everything found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checked {
    /// Which journal it is, if that can be read.
    pub incarnation: Option<String>,
    pub format: u32,
    pub is_backup: bool,
    /// Events that are there and whole.
    pub events: u64,
    pub records: u64,
    pub snapshots: u64,
    /// The last event that was ever stored, as far as it is known.
    pub last: u64,
    /// The last event up to which everything can be had; there is none without a good snapshot and without the first events.
    pub good_until: Option<u64>,
    /// When that one happened.
    pub good_at: Option<Time>,
    pub damage: Vec<Damage>,
}

impl Checked {
    fn note(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.damage.push(Damage { what: what.into(), why: why.into() });
    }

    /// An error that is damage is one of the things found; any other ends the look.
    fn take<T>(&mut self, read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(StoreError::Damaged { what, why, .. } | StoreError::Unreadable { what, why }) => {
                self.note(what, why);
                Ok(None)
            }
            Err(StoreError::Database { source }) => {
                self.note("the database", source.to_string());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The first thing that is damaged, as an error.
    pub(super) fn sound(&self) -> Result<(), StoreError> {
        let Some(first) = self.damage.first() else { return Ok(()) };
        let more = match self.damage.len() - 1 {
            0 => String::new(),
            more => format!(" ({more} more: `landfall check` lists them)"),
        };
        Err(StoreError::damaged(first.what.clone(), format!("{}{more}", first.why)))
    }
}

/// How far a look is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The structure of so many bytes is looked at.
    Structure(u64),
    /// So many events were read.
    Events(u64),
    /// So many records were read.
    Records(u64),
}

/// What a server looks at before it starts. The journal behind the newest snapshot is looked at when it is loaded, and what is
/// before it when somebody reads it.
pub(super) fn at_start(conn: &Connection, path: &Path, format: u32) -> Result<(), StoreError> {
    let mut checked = Checked { format, ..Checked::default() };
    let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
    if bytes >= LARGE {
        tracing::info!(bytes, file = %path.display(), "looking at everything that is stored");
    }
    structure(conn, path, &mut checked)?;
    checked.sound()?;
    all_records(conn, path, &mut checked, &mut |_| {})?;
    checked.sound()
}

pub(super) fn everything(
    conn: &Connection,
    path: &Path,
    format: u32,
    progress: &mut dyn FnMut(Progress),
) -> Result<Checked, StoreError> {
    let mut checked = Checked { format, ..Checked::default() };
    let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
    progress(Progress::Structure(bytes));
    structure(conn, path, &mut checked)?;
    let head = if format >= 2 { checked.take(Head::read(conn, path))? } else { None };
    if let Some(head) = &head {
        (checked.incarnation, checked.is_backup) = (Some(head.incarnation.clone()), head.backup);
    }
    let base = newest_snapshot(conn, path, &mut checked)?;
    all_events(conn, path, base, &mut checked, progress)?;
    match head {
        Some(head) if head.last_seq > checked.last => {
            let what = format!("the journal at events {} to {}", checked.last + 1, head.last_seq);
            checked.note(what, "they are missing");
            checked.last = head.last_seq;
        }
        Some(head) if head.last_seq < checked.last => {
            let what = format!("the journal at events {} to {}", head.last_seq + 1, checked.last);
            checked.note(what, "they are behind its end");
        }
        _ => {}
    }
    all_records(conn, path, &mut checked, progress)?;
    Ok(checked)
}

/// What SQLite knows of the file, and whether it has the tables that we made.
fn structure(conn: &Connection, path: &Path, checked: &mut Checked) -> Result<(), StoreError> {
    let file = || format!("the database {}", path.display());
    let lines = conn
        .prepare(&format!("PRAGMA integrity_check({LINES_MAX})"))
        .and_then(|mut query| query.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>());
    match checked.take(lines.map_err(explain(path)))? {
        Some(lines) => {
            for line in lines.into_iter().filter(|line| line != "ok") {
                checked.note(file(), line.replace('\n', ", "));
            }
        }
        None => return Ok(()),
    }
    if let Some(Some(why)) = checked.take(schema::differs(conn, checked.format).map_err(explain(path)))? {
        checked.note(file(), why);
    }
    Ok(())
}

/// Looks at all snapshots, and gives the number of the newest that is good.
fn newest_snapshot(conn: &Connection, path: &Path, checked: &mut Checked) -> Result<Option<u64>, StoreError> {
    let mut newest = None;
    for head in checked.take(snapshots::heads(conn, path))?.unwrap_or_default() {
        if checked.take(snapshots::read(conn, path, &head))?.is_some() {
            checked.snapshots += 1;
            newest = newest.max(Some(head.seq));
        }
    }
    Ok(newest)
}

/// Looks at all rows of the journal, and finds out how far it leads from the snapshot `base`.
fn all_events(
    conn: &Connection,
    path: &Path,
    base: Option<u64>,
    checked: &mut Checked,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), StoreError> {
    let mut good_until = base;
    let mut expected = None;
    let walked = journal::rows(conn, path, |head, events| {
        if let Some(missing) = expected.filter(|expected| *expected != head.first) {
            checked.note(
                format!("the journal at events {missing} to {}", head.first.saturating_sub(1)),
                "they are missing",
            );
        }
        expected = Some(head.last.saturating_add(1));
        checked.last = checked.last.max(head.last);
        // A journal that begins with its first event needs no snapshot.
        if head.first == 1 && good_until.is_none() {
            good_until = Some(0);
        }
        match events {
            Ok(()) => {
                checked.events += head.last + 1 - head.first;
                if good_until.is_some_and(|good| head.first <= good + 1 && head.last > good) {
                    (good_until, checked.good_at) = (Some(head.last), Some(head.at));
                }
            }
            Err(StoreError::Damaged { what, why, .. } | StoreError::Unreadable { what, why }) => {
                checked.damage.push(Damage { what, why });
            }
            Err(error) => return Err(error),
        }
        progress(Progress::Events(checked.events));
        Ok(())
    });
    checked.take(walked)?;
    let empty = checked.last == 0 && expected.is_none();
    checked.good_until = good_until.or(empty.then_some(0));
    Ok(())
}

fn all_records(
    conn: &Connection,
    path: &Path,
    checked: &mut Checked,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), StoreError> {
    let walked = records::all(conn, path, checked.format, false, |read| {
        match read {
            Ok(_) => checked.records += 1,
            Err(StoreError::Damaged { what, why, .. }) => checked.damage.push(Damage { what, why }),
            Err(error) => return Err(error),
        }
        if checked.records.is_multiple_of(1024) {
            progress(Progress::Records(checked.records));
        }
        Ok(())
    });
    checked.take(walked)?;
    Ok(())
}
