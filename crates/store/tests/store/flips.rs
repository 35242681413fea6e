//! Single bits that change in the file: each is harmless or said, none goes unnoticed.

use std::fs;
use std::path::Path;

use landfall_store::sqlite::Sqlite;
use landfall_store::{Batch, Change, Reader, Store, StoreError, Stored, Table, encode_state};
use landfall_testkit::Rng;
use tempfile::tempdir;

use super::open;
use super::support::Script;

/// Bits that are flipped, one after the other.
const FLIPS: usize = 300;
/// So many of them in the header of the file, one in each byte.
const IN_HEADER: usize = 100;

/// Everything that can be read.
#[derive(PartialEq)]
struct All {
    state: [u8; 32],
    records: Vec<(String, Vec<u8>)>,
    events: Vec<Stored>,
}

fn read_all(dir: &Path) -> Result<All, StoreError> {
    let mut store = Sqlite::open(dir)?;
    let state = store.load()?.state.hash();
    let mut records = Vec::new();
    for table in Table::ALL {
        let found = store.scan(table, None, usize::MAX, false)?;
        for (key, value) in &found {
            assert_eq!(store.get(table, key)?.as_ref(), Some(value), "what is listed is found");
        }
        records.extend(found);
    }
    let events = store.events(0, usize::MAX)?;
    Ok(All { state, records, events })
}

/// Events before and behind two snapshots, records of every kind, small and large, and pages that were freed.
fn fill(dir: &Path) {
    let mut store = open(dir);
    let mut script = Script::new(5, 2);
    for round in 0..40 {
        let mut batch = script.turns(4);
        batch.changes.extend(Table::ALL.map(|table| {
            let size = if round % 8 == 0 { 6000 } else { 40 };
            Change::put(table, format!("key {round}"), vec![b'a' + round as u8; size])
        }));
        store.append(&batch).unwrap();
        if round == 10 || round == 30 {
            let seq = store.last_seq().unwrap();
            store.snapshot(seq, &encode_state(script.state())).unwrap();
        }
    }
    let epoch = script.state().epoch;
    let changes = (0..10).map(|round| Change::delete(Table::Archive, format!("key {round}"))).collect();
    store.append(&Batch { epoch, changes, ..Batch::default() }).unwrap();
}

#[test]
fn no_flipped_bit_goes_unnoticed() {
    let seed = std::env::var("LANDFALL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(13);
    println!("LANDFALL_SEED={seed}");
    let dir = tempdir().unwrap();
    fill(dir.path());
    let good = read_all(dir.path()).unwrap();
    assert!(good.events.len() > 100 && good.records.len() > 300);
    let bytes = fs::read(dir.path().join("journal.db")).unwrap();
    let mut rng = Rng::new(seed);
    let (mut harmless, mut said) = (0, 0);
    for flip in 0..FLIPS {
        let at = if flip < IN_HEADER { flip } else { rng.index(bytes.len()) };
        let bit = rng.below(8);
        let other = tempdir().unwrap();
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << bit;
        fs::write(other.path().join("journal.db"), flipped).unwrap();
        match read_all(other.path()) {
            Ok(all) => {
                assert!(all == good, "bit {bit} of byte {at} (page {}) changed what is read", at / 4096 + 1);
                harmless += 1;
            }
            Err(error) => {
                assert!(
                    matches!(error.code(), "store_damaged" | "store_not_ours" | "store_newer_version"),
                    "bit {bit} of byte {at}: {} {error}",
                    error.code()
                );
                said += 1;
                // Somebody who wants to know more hears it, and nothing panics.
                if let Ok(checked) = Sqlite::check(other.path(), &mut |_| {}) {
                    assert!(!checked.damage.is_empty(), "bit {bit} of byte {at}: {error}");
                }
            }
        }
    }
    println!("{harmless} harmless, {said} said");
    assert!(said > FLIPS / 3, "most of the file is something that counts");
}

#[test]
fn a_file_that_was_cut_is_refused() {
    let dir = tempdir().unwrap();
    fill(dir.path());
    let bytes = fs::read(dir.path().join("journal.db")).unwrap();
    for part in [1, 100, 500, 900, 990, 995, 999] {
        let other = tempdir().unwrap();
        // Within a page, too.
        fs::write(other.path().join("journal.db"), &bytes[..bytes.len() * part / 1000 + 1]).unwrap();
        let error = Sqlite::open(other.path()).and_then(|mut store| store.load().map(|_| ())).unwrap_err();
        assert_eq!(error.code(), "store_damaged", "{part} of 1000: {error}");
    }
}
