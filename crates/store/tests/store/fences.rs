//! An older server cannot write once a newer one has.

use landfall_store::{Batch, Change, Reader, Store, StoreError, Table};
use tempfile::tempdir;

use super::support::Script;
use super::{fresh, open};

#[test]
fn an_epoch_that_is_over_is_refused_and_stores_nothing() {
    let (_dir, mut store) = fresh();
    let mut script = Script::new(1, 1);
    let mut batch = script.turns(4);
    batch.epoch = 7;
    let last = store.append(&batch).unwrap();
    let mut late = script.turns(10);
    late.epoch = 6;
    late.changes.push(Change::put(Table::Meta, "late", b"".as_slice()));
    let refused = store.append(&late).unwrap_err();
    assert!(matches!(refused, StoreError::Fenced { epoch: 6, highest: 7 }), "{refused}");
    assert!(!refused.is_retryable());
    assert_eq!(store.last_seq().unwrap(), last);
    assert_eq!(store.get(Table::Meta, "late").unwrap(), None);
    late.epoch = 7;
    assert_eq!(store.append(&late).unwrap(), last + late.events.len() as u64);
}

#[test]
fn a_server_that_is_over_is_not_ready() {
    let (_dir, mut store) = fresh();
    let changes = vec![Change::put(Table::Meta, "leader", b"b".as_slice())];
    store.append(&Batch { epoch: 3, changes, ..Batch::default() }).unwrap();
    assert!(store.probe(3).is_ok());
    let refused = store.probe(2);
    assert!(matches!(refused, Err(StoreError::Fenced { epoch: 2, highest: 3 })), "{refused:?}");
}

#[test]
fn an_epoch_counts_even_if_it_brought_no_event() {
    let dir = tempdir().unwrap();
    let changes = vec![Change::put(Table::Meta, "leader", b"b".as_slice())];
    open(dir.path()).append(&Batch { epoch: 3, changes: changes.clone(), ..Batch::default() }).unwrap();
    let refused = open(dir.path()).append(&Batch { epoch: 2, changes, ..Batch::default() });
    assert!(matches!(refused, Err(StoreError::Fenced { epoch: 2, highest: 3 })), "{refused:?}");
}
