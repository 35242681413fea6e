//! Records beside the journal.

use landfall_store::{Batch, Change, Reader, Store, Table};

use super::{fresh, open};

fn keys(found: &[(String, Vec<u8>)]) -> Vec<&str> {
    found.iter().map(|(key, _)| key.as_str()).collect()
}

#[test]
fn records_are_put_replaced_deleted_and_found_by_key() {
    let (dir, mut store) = fresh();
    let changes = vec![
        Change::put(Table::Jobs, "b", b"1".as_slice()),
        Change::put(Table::Jobs, "a", b"2".as_slice()),
        Change::put(Table::Jobs, "ä", b"3".as_slice()),
        Change::put(Table::Jobs, "", b"".as_slice()),
        Change::put(Table::Tokens, "b", b"other kind".as_slice()),
        Change::put(Table::Jobs, "b", b"4".as_slice()),
        Change::put(Table::Jobs, "gone", b"5".as_slice()),
        Change::delete(Table::Jobs, "gone"),
        Change::delete(Table::Jobs, "never there"),
    ];
    assert_eq!(store.append(&Batch { changes, ..Batch::default() }).unwrap(), 0, "no event, no number");
    drop(store);
    let mut store = open(dir.path());
    let mut reader = store.reader().unwrap();
    assert_eq!(reader.get(Table::Jobs, "b").unwrap(), Some(b"4".to_vec()));
    assert_eq!(reader.get(Table::Tokens, "b").unwrap(), Some(b"other kind".to_vec()));
    assert_eq!(reader.get(Table::Jobs, "gone").unwrap(), None);
    assert_eq!(keys(&store.scan(Table::Jobs, None, 10, false).unwrap()), ["", "a", "b", "ä"]);
    assert_eq!(keys(&reader.scan(Table::Jobs, None, 3, true).unwrap()), ["ä", "b", "a"]);
    assert_eq!(keys(&reader.scan(Table::Jobs, Some("a"), 1, false).unwrap()), ["b"]);
    assert_eq!(keys(&reader.scan(Table::Jobs, Some("b"), 9, true).unwrap()), ["a", ""]);
    assert_eq!(keys(&reader.scan(Table::Archive, None, 9, false).unwrap()), Vec::<&str>::new());
    for table in Table::ALL {
        let put = vec![Change::put(table, "own", table.name().as_bytes())];
        store.append(&Batch { changes: put, ..Batch::default() }).unwrap();
    }
    for table in Table::ALL {
        assert_eq!(reader.get(table, "own").unwrap().unwrap(), table.name().as_bytes(), "kinds do not mix");
    }
}

#[test]
fn a_reader_sees_what_was_acknowledged_before_it_asked() {
    let (_dir, mut store) = fresh();
    let mut reader = store.reader().unwrap();
    for round in 0_u8..20 {
        let changes = vec![Change::put(Table::Meta, "round", vec![round])];
        store.append(&Batch { changes, ..Batch::default() }).unwrap();
        let seen = std::thread::scope(|scope| {
            scope.spawn(|| reader.get(Table::Meta, "round").unwrap()).join().unwrap()
        });
        assert_eq!(seen, Some(vec![round]));
    }
}
