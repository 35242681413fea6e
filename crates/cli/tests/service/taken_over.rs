//! Two servers and one data directory.

use crate::stand::Stand;

#[test]
fn a_removed_lock_file_lets_no_second_server_in() {
    let stand = Stand::new();
    std::fs::remove_file(stand.data().join("lock")).unwrap();
    let said = stand.run(&["server", "--listen", "127.0.0.1:0"]);
    assert_eq!(said.code, 7, "{}", said.err);
    assert!(said.err.contains("in use"), "{}", said.err);
    for _ in 0..3 {
        stand.submit(&["--", "true"]);
    }
    assert_eq!(stand.json(&["jobs"])["jobs"].as_array().unwrap().len(), 3);
}

/// Where locks do not hold, the epoch does: what a second server would have written is written by the test.
#[test]
fn a_server_whose_journal_was_taken_over_ends() {
    let mut stand = Stand::new();
    let head = |stand: &Stand| {
        let conn = rusqlite::Connection::open(stand.data().join("journal.db")).unwrap();
        conn.query_row("SELECT epoch, last_seq, checksum FROM head", [], |row| {
            Ok((row.get::<_, u32>(0)?, row.get::<_, u64>(1)?, row.get::<_, Vec<u8>>(2)?))
        })
        .unwrap()
    };
    // The head of a later epoch of the same journal, from a copy that goes on without the original.
    stand.kill_server();
    let (data, copy) = (stand.data(), stand.path("copy"));
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&data).unwrap().flatten() {
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    for _ in 0..2 {
        stand.start_server();
        stand.kill_server();
    }
    let later = head(&stand);
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&copy, &data).unwrap();
    stand.start_server();
    assert!(head(&stand).0 < later.0);
    let conn = rusqlite::Connection::open(data.join("journal.db")).unwrap();
    conn.execute(
        "UPDATE head SET epoch = ?1, last_seq = ?2, checksum = ?3",
        rusqlite::params![later.0, later.1, later.2],
    )
    .unwrap();
    let said = stand.run(&["submit", "--", "true"]);
    assert_ne!(said.code, 0, "nothing is acknowledged: {}", said.out);
    let (mut server, mut code) = (stand.server_process(), None);
    stand.until("the server ends", || {
        code = server.ended();
        code.is_some()
    });
    assert_eq!(code, Some(9), "{}", stand.log("server"));
    assert!(stand.log("server").contains("another server"), "{}", stand.log("server"));
    assert_eq!(head(&stand).0, later.0, "it did not go on under the other's epoch");
}
