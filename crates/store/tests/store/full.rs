//! No room: nothing is stored in part, and everything goes on once there is room.

use std::path::Path;
use std::process::Command;

use landfall_store::sqlite::{Options, Sqlite};
use landfall_store::{Reader, Store, StoreError};
use tempfile::tempdir;

use super::open;
use super::support::Script;

/// Appends until there is no room, and gives the batch that found none, with the number of the event before it.
fn fill(store: &mut Sqlite, script: &mut Script) -> (landfall_store::Batch, u64) {
    for _ in 0..100_000 {
        let last = store.last_seq().unwrap();
        let batch = script.turns(20);
        match store.append(&batch) {
            Ok(_) => {}
            Err(error) => {
                assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
                assert!(error.is_retryable());
                assert_eq!(store.last_seq().unwrap(), last, "nothing of the batch is there");
                for change in batch.changes.iter().filter(|change| change.value.is_some()) {
                    assert_eq!(store.get(change.table, &change.key).unwrap(), None);
                }
                return (batch, last);
            }
        }
    }
    panic!("there was always room");
}

#[test]
fn at_its_limit_a_store_refuses_and_stays_good() {
    let dir = tempdir().unwrap();
    let mut script = Script::new(31, 2);
    let mut store = Sqlite::open_with(dir.path(), Options { max_bytes: Some(1 << 20) }).unwrap();
    let (batch, last) = fill(&mut store, &mut script);
    assert!(store.append(&batch).is_err(), "still no room");
    let noise: Vec<u8> = (0..1 << 21).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert!(
        matches!(store.snapshot(last, &noise), Err(StoreError::Full { .. })),
        "a snapshot finds no room either"
    );
    assert_eq!(store.load().unwrap().seq, last, "reading goes on");
    drop(store);
    let mut store = Sqlite::open_with(dir.path(), Options { max_bytes: Some(2 << 20) }).unwrap();
    assert_eq!(store.append(&batch).unwrap(), last + batch.events.len() as u64);
    assert_eq!(store.load().unwrap().state, *script.state());
}

/// A small file system; unmounted when it goes.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn new(at: &'a Path) -> Result<Self, String> {
        let mounting = Command::new("mount").args(["-t", "tmpfs", "-o", "size=3m", "tmpfs"]).arg(at).output();
        match mounting {
            Ok(output) if output.status.success() => Ok(Self(at)),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "the small file system is unmounted");
    }
}

/// Where mounting is not allowed, the limit above stands for the full disk: SQLite says the same error for both.
#[test]
fn on_a_full_disk_a_store_refuses_and_goes_on_once_there_is_room() {
    let dir = tempdir().unwrap();
    let mounted = match Mounted::new(dir.path()) {
        Ok(mounted) => mounted,
        Err(why) => {
            eprintln!("cannot mount a small file system ({why}): trying a limit instead of a full disk");
            return at_its_limit_a_store_refuses_and_stays_good();
        }
    };
    let data = dir.path().join("data");
    let ballast = dir.path().join("ballast");
    std::fs::write(&ballast, vec![0; 1 << 20]).unwrap();
    let mut script = Script::new(32, 2);
    let mut store = open(&data);
    let (batch, last) = fill(&mut store, &mut script);
    assert!(matches!(store.append(&batch), Err(StoreError::Full { .. })), "still no room");
    assert!(matches!(store.backup(&dir.path().join("copy")), Err(StoreError::Full { .. })));
    assert!(!dir.path().join("copy").exists());
    assert_eq!(store.load().unwrap().seq, last, "reading goes on");
    std::fs::remove_file(&ballast).unwrap();
    assert_eq!(
        store.append(&batch).unwrap(),
        last + batch.events.len() as u64,
        "the same store, now with room"
    );
    assert_eq!(store.load().unwrap().state, *script.state());
    drop(store);
    assert_eq!(open(&data).load().unwrap().state, *script.state());
    drop(mounted);
}
