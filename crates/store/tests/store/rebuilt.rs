//! Journals that are made from others: from backups, and from what is good in damaged ones.

use std::fs;

use landfall_store::sqlite::Sqlite;
use landfall_store::{Batch, Change, Reader, Store, StoreError, Table, encode_state};
use tempfile::tempdir;

use super::support::Script;
use super::{meddle, open};

fn no_progress(_: landfall_store::sqlite::Progress) {}

#[test]
fn a_restored_journal_has_everything_but_the_name() {
    let outside = tempdir().unwrap();
    let (data, file, to) = (outside.path().join("a"), outside.path().join("b.db"), outside.path().join("c"));
    let mut store = open(&data);
    let mut script = Script::new(3, 2);
    let seq = store.append(&script.turns(200)).unwrap();
    store.snapshot(seq, &encode_state(script.state())).unwrap();
    store.append(&script.turns(50)).unwrap();
    store.backup(&file).unwrap();
    let checked = Sqlite::check(&file, &mut no_progress).unwrap();
    assert!(checked.is_backup && checked.damage.is_empty(), "{checked:?}");
    assert_eq!(checked.incarnation.as_deref(), Some(store.incarnation()));
    let (mut restored, _) = Sqlite::restore(&file, &to, &mut no_progress).unwrap();
    assert_ne!(restored.incarnation(), store.incarnation());
    assert_eq!(restored.load().unwrap().state, *script.state());
    assert_eq!(restored.events(0, usize::MAX).unwrap(), store.events(0, usize::MAX).unwrap());
    for table in Table::ALL {
        let all = |store: &mut Sqlite| store.scan(table, None, usize::MAX, false).unwrap();
        assert_eq!(all(&mut restored), all(&mut store));
    }
    let name = restored.incarnation().to_owned();
    drop(restored);
    assert!(matches!(Sqlite::open(&to), Err(StoreError::Backup { .. })), "it is not finished");
    let other = outside.path().join("d");
    let (mut finished, _) = Sqlite::restore(&file, &other, &mut no_progress).unwrap();
    assert_ne!(finished.incarnation(), name, "each restore makes a journal of its own");
    finished.append(&script.turns(5)).unwrap();
    finished.finish().unwrap();
    drop(finished);
    assert_eq!(open(&other).load().unwrap().state, *script.state());
    let error = Sqlite::restore(&file, &other, &mut no_progress).unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }), "{error}");
}

#[test]
fn a_damaged_backup_is_refused_and_nothing_is_left() {
    let outside = tempdir().unwrap();
    let (data, file, to) = (outside.path().join("a"), outside.path().join("b.db"), outside.path().join("c"));
    let mut store = open(&data);
    let changes = vec![Change::put(Table::Jobs, "7", b"what it runs".as_slice())];
    store.append(&Batch { changes, ..Script::new(3, 2).turns(20) }).unwrap();
    store.backup(&file).unwrap();
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.windows(12).position(|part| part == b"what it runs").unwrap();
    bytes[at] ^= 4;
    fs::write(&file, bytes).unwrap();
    let error = Sqlite::restore(&file, &to, &mut no_progress).unwrap_err();
    assert!(error.to_string().contains("the record jobs/7"), "{error}");
    assert!(!to.exists());
}

#[test]
fn falling_back_keeps_what_is_before_the_damage() {
    let outside = tempdir().unwrap();
    let data = outside.path().join("a");
    let mut store = open(&data);
    let mut script = Script::new(8, 2);
    let (mut states, mut seqs) = (Vec::new(), Vec::new());
    for round in 0..20 {
        seqs.push(store.append(&script.turns(5)).unwrap());
        states.push(script.state().clone());
        if round == 9 {
            store.snapshot(seqs[9], &encode_state(script.state())).unwrap();
        }
    }
    let old = store.incarnation().to_owned();
    drop(store);
    // A row before the snapshot, one behind it, and a record.
    let conn = meddle(&data);
    for round in [3, 15] {
        conn.execute("UPDATE journal SET events = zeroblob(40) WHERE last_seq = ?1", [seqs[round]]).unwrap();
    }
    let key: String =
        conn.query_row("SELECT key FROM records WHERE kind = 2 LIMIT 1", [], |row| row.get(0)).unwrap();
    conn.execute("UPDATE records SET value = x'00' WHERE kind = 2 AND key = ?1", [&key]).unwrap();
    drop(conn);
    let error = Sqlite::open(&data).unwrap_err();
    assert!(error.to_string().contains(&format!("the record jobs/{key}")), "{error}");
    let checked = Sqlite::check(&data, &mut no_progress).unwrap();
    assert_eq!((checked.good_until, checked.last), (Some(seqs[14]), seqs[19]));
    assert_eq!(checked.damage.len(), 3, "{:?}", checked.damage);
    let (mut store, _, kept) = Sqlite::fall_back(&data, &mut no_progress).unwrap();
    assert!(kept.exists());
    assert_ne!(store.incarnation(), old);
    let loaded = store.load().unwrap();
    assert_eq!((loaded.seq, &loaded.state), (seqs[14], &states[14]));
    assert_eq!(store.get(Table::Jobs, &key).unwrap(), None);
    assert_eq!(
        store.oldest_seq().unwrap(),
        seqs[3] + 1,
        "of a damaged row nothing is kept, nor what is before it"
    );
    let more = Script::resume(loaded.state, 1).turns(5);
    assert_eq!(store.append(&more).unwrap(), seqs[14] + more.events.len() as u64);
    store.finish().unwrap();
    drop(store);
    open(&data).load().unwrap();
    assert!(matches!(Sqlite::fall_back(&data, &mut no_progress), Err(StoreError::Whole { .. })));
}
