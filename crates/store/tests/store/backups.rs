//! Copies that are made while the server runs.

use std::fs;
use std::path::Path;

use landfall_store::sqlite::Sqlite;
use landfall_store::{Reader, Store, StoreError, encode_state};
use tempfile::tempdir;

use super::support::Script;
use super::{fresh, open};

fn restored(file: &Path) -> Sqlite {
    Sqlite::restore(file, &file.with_extension("dir"), &mut |_| {}).unwrap().0
}

#[test]
fn a_backup_is_one_consistent_file_that_starts_a_server() {
    let (dir, elsewhere) = (tempdir().unwrap(), tempdir().unwrap());
    let mut store = open(dir.path());
    let mut script = Script::new(21, 3);
    store.append(&script.turns(300)).unwrap();
    let seq = store.last_seq().unwrap();
    store.snapshot(seq, &encode_state(script.state())).unwrap();
    store.append(&script.turns(30)).unwrap();
    let then = script.state().clone();
    let file = elsewhere.path().join("backup.db");
    let mut reader = store.reader().unwrap();
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| reader.backup(&file));
        copying.join().unwrap().unwrap();
    });
    store.append(&script.turns(30)).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let loaded = restored(&file).load().unwrap();
    assert!(loaded.seq > seq);
    assert_eq!(loaded.state, then);
}

#[test]
fn a_backup_while_appends_go_on_has_a_state_that_was() {
    let (dir, elsewhere) = (tempdir().unwrap(), tempdir().unwrap());
    let mut store = open(dir.path());
    let mut script = Script::new(22, 3);
    store.append(&script.turns(2000)).unwrap();
    let mut hashes = vec![script.state().hash()];
    let file = elsewhere.path().join("backup.db");
    let mut reader = store.reader().unwrap();
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| reader.backup(&file));
        for _ in 0..30 {
            store.append(&script.turn()).unwrap();
            hashes.push(script.state().hash());
        }
        copying.join().unwrap().unwrap();
    });
    let state = restored(&file).load().unwrap().state;
    assert!(hashes.contains(&state.hash()));
}

#[test]
fn a_backup_never_overwrites_and_leaves_nothing_after_an_error() {
    let (dir, mut store) = fresh();
    let file = dir.path().join("copy");
    fs::write(&file, "").unwrap();
    let error = store.backup(&file).unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }), "{error}");
    assert_eq!(fs::read(&file).unwrap(), b"");
    assert_eq!(store.backup(&dir.path().join("no/such/place")).unwrap_err().code(), "store_io");
}
