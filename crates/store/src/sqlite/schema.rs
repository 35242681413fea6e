//! Tables, their format version, and how older formats become the present one.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::explain;
use super::head::Head;
use crate::error::StoreError;

/// Marks our databases: "LAND".
pub const APPLICATION_ID: i32 = 0x4c41_4e44;

/// The format that this program writes.
pub const FORMAT: u32 = 2;

/// Brings a database from the format before to the one of its position; the first makes the tables.
type Migration = fn(&Transaction<'_>) -> rusqlite::Result<()>;

const MIGRATIONS: [Migration; FORMAT as usize] = [make_tables, name_and_check];

fn make_tables(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    tx.execute_batch(&format!(
        "CREATE TABLE head (
            one INTEGER PRIMARY KEY CHECK (one = 1),
            epoch INTEGER NOT NULL
        );
        INSERT INTO head VALUES (1, 0);
        {JOURNAL};
        {SNAPSHOTS};
        {SNAPSHOT_PARTS};
        CREATE TABLE records (
            kind INTEGER NOT NULL,
            key TEXT NOT NULL,
            value BLOB NOT NULL,
            PRIMARY KEY (kind, key)
        );"
    ))?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)
}

/// The tables. What a database says of itself is compared with these word by word: a changed letter there could change what
/// is compared as a number and what as text.
const JOURNAL: &str = "CREATE TABLE journal (
            first_seq INTEGER PRIMARY KEY,
            last_seq INTEGER NOT NULL,
            at INTEGER NOT NULL,
            epoch INTEGER NOT NULL,
            events BLOB NOT NULL
        )";
const SNAPSHOTS: &str = "CREATE TABLE snapshots (
            seq INTEGER PRIMARY KEY,
            parts INTEGER NOT NULL,
            checksum BLOB NOT NULL
        )";
const SNAPSHOT_PARTS: &str = "CREATE TABLE snapshot_parts (
            seq INTEGER NOT NULL,
            part INTEGER NOT NULL,
            bytes BLOB NOT NULL,
            PRIMARY KEY (seq, part)
        )";
const HEAD: &str = "CREATE TABLE head (
            one INTEGER PRIMARY KEY CHECK (one = 1),
            epoch INTEGER NOT NULL,
            last_seq INTEGER NOT NULL,
            incarnation TEXT NOT NULL,
            backup INTEGER NOT NULL,
            checksum BLOB NOT NULL
        )";
const RECORDS: &str = "CREATE TABLE records (
            kind INTEGER NOT NULL,
            key TEXT NOT NULL,
            value BLOB NOT NULL,
            checksum BLOB NOT NULL,
            PRIMARY KEY (kind, key)
        )";

/// Format 2: the journal has a name of its own, and head and records have checksums.
fn name_and_check(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    tx.execute_batch(&format!(
        "ALTER TABLE head RENAME TO old_head;
         ALTER TABLE records RENAME TO old_records;
         {HEAD};
         {RECORDS};"
    ))?;
    let epoch = tx.query_row("SELECT epoch FROM old_head", [], |row| row.get(0))?;
    let last_seq = super::journal::last(tx)?;
    let head = Head { epoch, last_seq, incarnation: new_incarnation(tx)?, backup: false };
    head.write(tx)?;
    {
        let mut query = tx.prepare("SELECT kind, key, value FROM old_records ORDER BY kind, key")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let (kind, key, value): (i64, String, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
            super::records::put(tx, kind, &key, &value)?;
        }
    }
    tx.execute_batch("DROP TABLE old_head; DROP TABLE old_records;")
}

/// In which way the tables are not those of this format, if they are not.
pub(super) fn differs(conn: &Connection, format: u32) -> rusqlite::Result<Option<String>> {
    if format != FORMAT {
        return Ok(None);
    }
    let mut query = conn.prepare("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name")?;
    let found: Vec<(String, Option<String>)> =
        query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    let wanted = [
        ("head", HEAD),
        ("journal", JOURNAL),
        ("records", RECORDS),
        ("snapshot_parts", SNAPSHOT_PARTS),
        ("snapshots", SNAPSHOTS),
    ];
    let same = |((name, sql), (table, made)): (&(String, Option<String>), &(&str, &str))| {
        name == table && sql.as_deref() == Some(*made)
    };
    if found.len() == wanted.len() && found.iter().zip(&wanted).all(same) {
        return Ok(None);
    }
    Ok(Some("its tables are not as they were made".to_owned()))
}

/// A name that no other journal has.
pub(super) fn new_incarnation(conn: &Connection) -> rusqlite::Result<String> {
    conn.query_row("SELECT lower(hex(randomblob(8)))", [], |row| row.get(0))
}

/// Checks a database that is opened to write, sets it up, and brings it to the present format. A `careful` one is looked at
/// first: what is damaged would be copied as if it were good.
pub(super) fn prepare(conn: &mut Connection, path: &Path, careful: bool) -> Result<(), StoreError> {
    let format = check(conn, path)?;
    set_up(conn).map_err(explain(path))?;
    if careful && format > 0 {
        super::verify::at_start(conn, path, format)?;
    }
    migrate(conn, &MIGRATIONS).map_err(explain(path))
}

/// Refuses what is not ours and what is too new, before anything is changed. Gives the format; 0 is an empty file.
pub(super) fn check(conn: &Connection, path: &Path) -> Result<u32, StoreError> {
    let number =
        |name| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(explain(path));
    let (application, found) = (number("application_id")?, number("user_version")?);
    if application == i64::from(APPLICATION_ID) {
        return match u32::try_from(found) {
            Ok(found) if (1..=FORMAT).contains(&found) => Ok(found),
            Ok(0) => Err(StoreError::damaged(format!("{}", path.display()), "its format is 0")),
            Ok(found) => Err(StoreError::NewerVersion { path: path.to_path_buf(), found, known: FORMAT }),
            Err(_) => {
                Err(StoreError::damaged(format!("{}", path.display()), format!("its format is {found}")))
            }
        };
    }
    // A database that was being made when the power went has nothing in it yet.
    let things: i64 =
        conn.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0)).map_err(explain(path))?;
    if application == 0 && found == 0 && things == 0 {
        return Ok(0);
    }
    let why =
        format!("it is an SQLite database of another program (application {application}, {things} tables)");
    Err(StoreError::NotOurs { path: path.to_path_buf(), why })
}

fn set_up(conn: &Connection) -> rusqlite::Result<()> {
    let set = |name, value: &str| conn.pragma_update_and_check(None, name, value, |_| Ok(())).or_else(no_row);
    // Has an effect only while the file is empty.
    set("auto_vacuum", "INCREMENTAL")?;
    set("journal_mode", "WAL")?;
    set("synchronous", "FULL")?;
    // On systems where a plain sync only reaches the cache of the disk.
    set("fullfsync", "ON")?;
    set("checkpoint_fullfsync", "ON")?;
    set("wal_autocheckpoint", "4000")?;
    set("journal_size_limit", "67108864")?;
    set("cache_size", "-16384")
}

/// Some pragmas answer, some do not.
fn no_row(error: rusqlite::Error) -> rusqlite::Result<()> {
    if error == rusqlite::Error::QueryReturnedNoRows { Ok(()) } else { Err(error) }
}

/// All migrations that are missing, in one transaction.
fn migrate(conn: &mut Connection, migrations: &[Migration]) -> rusqlite::Result<()> {
    let version =
        |conn: &Connection| conn.pragma_query_value(None, "user_version", |row| row.get::<_, usize>(0));
    if version(conn)? >= migrations.len() {
        return Ok(());
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let from = version(&tx)?;
    for migration in migrations.iter().skip(from) {
        migration(&tx)?;
    }
    tx.pragma_update(None, "user_version", migrations.len())?;
    tx.commit()?;
    if from > 0 {
        tracing::info!(from, to = migrations.len(), "brought the journal to a newer format");
    }
    Ok(())
}

/// Pages given back to the file system in one go.
const PAGES_AT_ONCE: u64 = 2048;

/// Shortens the file by a few pages when much of it is empty.
pub(super) fn give_back_room(conn: &Connection) -> rusqlite::Result<()> {
    let number = |name| conn.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
    let (free, all) = (number("freelist_count")?, number("page_count")?);
    if free < PAGES_AT_ONCE || free * 4 < all {
        return Ok(());
    }
    let mut shorten = conn.prepare(&format!("PRAGMA incremental_vacuum({PAGES_AT_ONCE})"))?;
    let mut rows = shorten.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(conn: &Connection) -> Vec<String> {
        let mut names =
            conn.prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").unwrap();
        names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn an_older_format_gets_only_what_it_lacks() {
        let second: Migration = |tx| tx.execute_batch("CREATE TABLE later (x)");
        let mut conn = Connection::open_in_memory().unwrap();
        migrate(&mut conn, &[make_tables]).unwrap();
        conn.execute("UPDATE head SET epoch = 7", []).unwrap();
        migrate(&mut conn, &[make_tables, second]).unwrap();
        assert!(tables(&conn).contains(&"later".to_owned()));
        assert_eq!(conn.query_row("SELECT epoch FROM head", [], |row| row.get::<_, i64>(0)).unwrap(), 7);
        assert_eq!(conn.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)).unwrap(), 2);
    }

    #[test]
    fn a_migration_that_fails_changes_nothing() {
        let good: Migration = |tx| tx.execute_batch("CREATE TABLE later (x)");
        let bad: Migration = |tx| tx.execute_batch("INSERT INTO nowhere VALUES (1)");
        let mut conn = Connection::open_in_memory().unwrap();
        migrate(&mut conn, &[make_tables]).unwrap();
        let before = tables(&conn);
        assert!(migrate(&mut conn, &[make_tables, good, bad]).is_err());
        assert_eq!(tables(&conn), before);
        assert_eq!(conn.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)).unwrap(), 1);
    }
}
