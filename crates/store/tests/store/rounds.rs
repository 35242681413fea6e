//! What is stored comes back: states, events, snapshots, compaction.

use landfall_engine::State;
use landfall_model::Time;
use landfall_store::{Batch, Change, Reader, Store, StoreError, Table, decode_state, encode_state};
use tempfile::tempdir;

use super::support::Script;
use super::{fresh, meddle, open};

#[test]
fn a_new_directory_has_nothing_and_an_empty_batch_adds_nothing() {
    let (_dir, mut store) = fresh();
    assert_eq!(store.append(&Batch::default()).unwrap(), 0);
    let loaded = store.load().unwrap();
    assert_eq!((loaded.seq, loaded.replayed, loaded.snapshot_seq), (0, 0, 0));
    assert_eq!(loaded.state, State::default());
    assert_eq!((store.oldest_seq().unwrap(), store.last_seq().unwrap()), (1, 0));
    assert_eq!(store.events(0, 10).unwrap(), []);
}

#[test]
fn a_server_that_starts_again_goes_on_where_it_was() {
    let dir = tempdir().unwrap();
    let mut script = Script::new(1, 3);
    for _ in 0..5 {
        let mut store = open(dir.path());
        for _ in 0..40 {
            store.append(&script.turn()).unwrap();
        }
        drop(store);
        let loaded = open(dir.path()).load().unwrap();
        assert_eq!(loaded.state, *script.state());
        assert_eq!(loaded.state.hash(), script.state().hash());
        assert_eq!(loaded.seq, script.state().version);
        script = Script::resume(loaded.state, loaded.seq);
    }
    assert!(script.state().version > 100, "the script did something: {}", script.state().version);
}

#[test]
fn events_come_back_in_pages_with_their_instants() {
    let (_dir, mut store) = fresh();
    let mut script = Script::new(2, 2);
    let mut all = Vec::new();
    for turns in [1, 30, 700, 2, 1, 1] {
        let batch = script.turns(turns);
        all.extend(batch.events.clone());
        assert_eq!(store.append(&batch).unwrap(), all.len() as u64);
    }
    let mut reader = store.reader().unwrap();
    for limit in [1000, 64, 7] {
        let mut after = 0;
        while (after as usize) < all.len() {
            let page = reader.events(after, limit).unwrap();
            assert_eq!(page.len(), limit.min(all.len() - after as usize));
            for stored in page {
                after += 1;
                assert_eq!(stored.seq, after);
                assert_eq!((stored.at, stored.event), all[after as usize - 1]);
            }
        }
    }
    assert_eq!(reader.events(all.len() as u64, 5).unwrap(), []);
    assert_eq!(reader.events(u64::MAX, 5).unwrap(), []);
    assert_eq!(reader.events(0, 0).unwrap(), []);
}

#[test]
fn a_batch_of_many_rows_is_one_batch() {
    let (_dir, mut store) = fresh();
    let mut script = Script::new(3, 4);
    let batch = script.turns(8000);
    assert!(batch.events.len() > 5 * 1024, "several rows: {}", batch.events.len());
    store.append(&batch).unwrap();
    let loaded = store.load().unwrap();
    assert_eq!(loaded.seq, batch.events.len() as u64);
    assert_eq!(loaded.state, *script.state());
}

#[test]
fn a_snapshot_is_used_and_its_tail_is_short() {
    let (_dir, mut store) = fresh();
    let mut script = Script::new(4, 3);
    store.append(&script.turns(100)).unwrap();
    let seq = store.last_seq().unwrap();
    store.snapshot(seq, &encode_state(script.state())).unwrap();
    let tail = script.turns(20);
    store.append(&tail).unwrap();
    let loaded = store.load().unwrap();
    assert_eq!((loaded.snapshot_seq, loaded.replayed), (seq, tail.events.len() as u64));
    assert_eq!(loaded.state, *script.state());
    let ahead = store.snapshot(loaded.seq + 1, &encode_state(script.state()));
    assert!(matches!(ahead, Err(StoreError::Ahead { .. })), "{ahead:?}");
}

#[test]
fn a_snapshot_is_the_state_byte_for_byte() {
    let mut script = Script::new(5, 3);
    script.turns(500);
    let bytes = encode_state(script.state());
    let state = decode_state(&bytes).unwrap();
    assert_eq!(state.hash(), script.state().hash());
    assert_eq!(encode_state(&state), bytes);
    for length in [0, 1, 16, 17, bytes.len() / 2, bytes.len() - 1] {
        assert!(decode_state(&bytes[..length]).is_err(), "{length} bytes of it");
    }
}

#[test]
fn compaction_keeps_what_the_older_snapshot_and_the_time_ask_for() {
    let (_dir, mut store) = fresh();
    let mut script = Script::new(6, 3);
    let end = Time::from_millis(i64::MAX);
    let mut seqs = Vec::new();
    for round in 0..3 {
        for _ in 0..50 {
            store.append(&script.turn()).unwrap();
        }
        let seq = store.last_seq().unwrap();
        if round < 2 {
            store.snapshot(seq, &encode_state(script.state())).unwrap();
            seqs.push(seq);
        }
        if round == 0 {
            assert_eq!(store.compact(end).unwrap().rows, 0, "one snapshot alone is not enough");
        }
    }
    assert_eq!(store.compact(Time::ZERO).unwrap().rows, 0, "nothing is that old");
    let done = store.compact(end).unwrap();
    assert_eq!((done.events, done.oldest, done.more), (seqs[0], seqs[0] + 1, false));
    assert_eq!(store.oldest_seq().unwrap(), seqs[0] + 1);
    assert_eq!(store.compact(end).unwrap().rows, 0);
    let gone = store.events(seqs[0] - 1, 1);
    assert!(matches!(gone, Err(StoreError::Compacted { oldest }) if oldest == seqs[0] + 1), "{gone:?}");
    assert_eq!(store.events(seqs[0], 1).unwrap()[0].seq, seqs[0] + 1);
    assert_eq!(store.load().unwrap().state, *script.state());
}

#[test]
fn compaction_does_a_bounded_amount_and_says_that_there_is_more() {
    let (_dir, mut store) = fresh();
    let mut script = Script::new(7, 2);
    let mut batches = 0;
    while batches < 1200 {
        let batch = script.turn();
        batches += usize::from(!batch.events.is_empty());
        store.append(&batch).unwrap();
    }
    for _ in 0..2 {
        store.append(&script.turns(5)).unwrap();
        let seq = store.last_seq().unwrap();
        store.snapshot(seq, &encode_state(script.state())).unwrap();
    }
    let mut calls = 1;
    while store.compact(Time::from_millis(i64::MAX)).unwrap().more {
        calls += 1;
    }
    assert_eq!(calls, 3, "512 rows at a time");
    assert_eq!(store.load().unwrap().state, *script.state());
}

#[test]
fn compaction_gives_room_back() {
    let (dir, mut store) = fresh();
    let pages =
        || -> u64 { meddle(dir.path()).pragma_query_value(None, "page_count", |row| row.get(0)).unwrap() };
    let empty = pages();
    let change = |key: usize, value| Change { table: Table::Archive, key: key.to_string(), value };
    let put = (0..20).map(|key| change(key, Some(vec![7; 1 << 20]))).collect();
    store.append(&Batch { changes: put, ..Batch::default() }).unwrap();
    let full = pages();
    let delete = (0..20).map(|key| change(key, None)).collect();
    store.append(&Batch { changes: delete, ..Batch::default() }).unwrap();
    for _ in 0..3 {
        store.compact(Time::ZERO).unwrap();
    }
    let after = pages();
    assert!(after + 2048 < full && after < empty + 2048, "{empty} pages, then {full}, then {after}");
}

#[test]
fn snapshots_are_stored_from_another_thread_while_the_server_appends() {
    let (_dir, mut store) = fresh();
    let mut script = Script::new(8, 3);
    store.append(&script.turns(3000)).unwrap();
    let (seq, bytes) = (store.last_seq().unwrap(), encode_state(script.state()));
    let mut snapshotter = store.snapshotter().unwrap();
    let thread = std::thread::spawn(move || snapshotter.snapshot(seq, &bytes));
    for _ in 0..50 {
        store.append(&script.turn()).unwrap();
    }
    thread.join().unwrap().unwrap();
    let loaded = store.load().unwrap();
    assert_eq!(loaded.snapshot_seq, seq);
    assert_eq!(loaded.state, *script.state());
}
