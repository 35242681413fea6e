//! Bytes that changed on disk are noticed, and said.

use std::path::Path;

use landfall_store::sqlite::Sqlite;
use landfall_store::{Reader, Store, StoreError, encode_state};
use tempfile::tempdir;

use super::support::Script;
use super::{meddle, open};

/// Thirty batches, with a snapshot after the tenth and the twentieth.
fn journal(dir: &Path) -> (Script, [u64; 2]) {
    let mut store = open(dir);
    let mut script = Script::new(11, 2);
    let mut seqs = [0; 2];
    for round in 0..30 {
        store.append(&script.turns(5)).unwrap();
        if round == 9 || round == 19 {
            let seq = store.last_seq().unwrap();
            store.snapshot(seq, &encode_state(script.state())).unwrap();
            seqs[round / 10] = seq;
        }
    }
    (script, seqs)
}

/// Changes one byte in the middle of a blob.
fn flip(dir: &Path, table: &str, column: &str, seq_column: &str, seq: u64) {
    let conn = meddle(dir);
    let select = format!("SELECT {column} FROM {table} WHERE {seq_column} = ?1");
    let mut bytes: Vec<u8> = conn.query_row(&select, [seq], |row| row.get(0)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    let update = format!("UPDATE {table} SET {column} = ?1 WHERE {seq_column} = ?2");
    assert_eq!(conn.execute(&update, rusqlite::params![bytes, seq]).unwrap(), 1);
}

#[test]
fn a_damaged_snapshot_is_replaced_by_the_older_one_and_more_events() {
    let dir = tempdir().unwrap();
    let (script, [older, newer]) = journal(dir.path());
    assert_eq!(open(dir.path()).load().unwrap().snapshot_seq, newer);
    flip(dir.path(), "snapshot_parts", "bytes", "seq", newer);
    let loaded = open(dir.path()).load().unwrap();
    assert_eq!(loaded.snapshot_seq, older);
    assert_eq!(loaded.state, *script.state());
    flip(dir.path(), "snapshot_parts", "bytes", "seq", older);
    let loaded = open(dir.path()).load().unwrap();
    assert_eq!((loaded.snapshot_seq, loaded.replayed), (0, loaded.seq), "all events are still there");
    assert_eq!(loaded.state, *script.state());
}

#[test]
fn a_missing_part_or_a_wrong_number_is_a_damaged_snapshot() {
    let dir = tempdir().unwrap();
    let (script, [older, newer]) = journal(dir.path());
    meddle(dir.path()).execute("DELETE FROM snapshot_parts WHERE seq = ?1", [newer]).unwrap();
    assert_eq!(open(dir.path()).load().unwrap().snapshot_seq, older);
    let conn = meddle(dir.path());
    conn.execute("UPDATE snapshots SET seq = seq + 1 WHERE seq = ?1", [older]).unwrap();
    conn.execute("UPDATE snapshot_parts SET seq = seq + 1", []).unwrap();
    drop(conn);
    let loaded = open(dir.path()).load().unwrap();
    assert_eq!(loaded.snapshot_seq, 0);
    assert_eq!(loaded.state, *script.state());
}

#[test]
fn a_damaged_snapshot_can_be_stored_again() {
    let dir = tempdir().unwrap();
    let (_, [_, newer]) = journal(dir.path());
    let mut store = open(dir.path());
    let good: Vec<u8> = meddle(dir.path())
        .query_row("SELECT bytes FROM snapshot_parts WHERE seq = ?1", [newer], |row| row.get(0))
        .unwrap();
    flip(dir.path(), "snapshot_parts", "bytes", "seq", newer);
    store.snapshot(newer, &good).unwrap();
    assert_eq!(store.load().unwrap().snapshot_seq, newer);
}

#[test]
fn without_a_good_snapshot_dropped_events_are_an_error() {
    let dir = tempdir().unwrap();
    let (_, seqs) = journal(dir.path());
    let mut store = open(dir.path());
    store.compact(landfall_model::Time::from_millis(i64::MAX)).unwrap();
    for seq in seqs {
        flip(dir.path(), "snapshot_parts", "bytes", "seq", seq);
    }
    let error = store.load().unwrap_err();
    assert!(matches!(error, StoreError::Damaged { seq: Some(1), .. }), "{error}");
}

#[test]
fn a_damaged_row_is_an_error_that_names_its_events_wherever_it_is() {
    let dir = tempdir().unwrap();
    journal(dir.path());
    let conn = meddle(dir.path());
    let rows: Vec<u64> = conn
        .prepare("SELECT first_seq FROM journal ORDER BY first_seq DESC LIMIT 4")
        .and_then(|mut query| query.query_map([], |row| row.get(0))?.collect())
        .unwrap();
    drop(conn);
    // The last row first, then one before it.
    for first in [rows[0], rows[3]] {
        flip(dir.path(), "journal", "events", "first_seq", first);
        let mut store = open(dir.path());
        let error = store.load().unwrap_err();
        assert!(matches!(error, StoreError::Damaged { seq: Some(seq), .. } if seq == first), "{error}");
        assert!(error.to_string().contains(&first.to_string()), "{error}");
        assert!(error.hint().contains("backup"), "{}", error.hint());
        assert!(store.events(first - 1, 1).is_err());
        assert_eq!(store.events(first - 2, 1).unwrap().len(), 1, "those before can be read");
    }
}

#[test]
fn a_changed_number_time_or_epoch_of_a_row_is_noticed() {
    for column in ["last_seq", "at", "epoch"] {
        let dir = tempdir().unwrap();
        journal(dir.path());
        let change = format!(
            "UPDATE journal SET {column} = {column} + 1 WHERE first_seq = (SELECT max(first_seq) FROM journal)"
        );
        meddle(dir.path()).execute(&change, []).unwrap();
        let error = open(dir.path()).load().unwrap_err();
        assert_eq!(error.code(), "store_damaged", "{column}: {error}");
    }
}

#[test]
fn a_missing_row_is_noticed() {
    let dir = tempdir().unwrap();
    journal(dir.path());
    let conn = meddle(dir.path());
    let first: u64 = conn
        .query_row("SELECT first_seq FROM journal ORDER BY first_seq DESC LIMIT 1 OFFSET 2", [], |row| {
            row.get(0)
        })
        .unwrap();
    conn.execute("DELETE FROM journal WHERE first_seq = ?1", [first]).unwrap();
    drop(conn);
    let error = open(dir.path()).load().unwrap_err();
    assert!(matches!(error, StoreError::Damaged { seq: Some(seq), .. } if seq == first), "{error}");
}

#[test]
fn what_is_behind_the_last_event_is_verified_too() {
    let dir = tempdir().unwrap();
    let (_, [_, newer]) = journal(dir.path());
    assert!(Sqlite::verify(dir.path()).unwrap().is_good());
    // Rows behind the newer snapshot are missing, then the one that leads to it as well.
    for first in [newer + 1, newer] {
        meddle(dir.path()).execute("DELETE FROM journal WHERE last_seq >= ?1", [first]).unwrap();
        let error = Sqlite::verify(dir.path()).unwrap_err();
        assert_eq!(error.code(), "store_damaged", "{error}");
        assert!(error.to_string().contains("ends at event"), "{error}");
    }
}

#[test]
fn a_backup_of_a_damaged_journal_names_the_damage() {
    let dir = tempdir().unwrap();
    journal(dir.path());
    let conn = meddle(dir.path());
    conn.execute("UPDATE records SET value = x'00' WHERE key = (SELECT min(key) FROM records)", []).unwrap();
    drop(conn);
    let copy = dir.path().join("copy");
    let error = Sqlite::open_reader(dir.path()).unwrap().backup(&copy).unwrap_err();
    assert!(error.to_string().contains("the record "), "{error}");
    assert!(!copy.exists());
}
