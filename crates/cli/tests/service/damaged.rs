//! A data directory that is not what was written: said before anything is done with it.

use std::path::Path;

use crate::stand::Stand;

/// Flips one bit of the only place where a text stands.
fn flip(file: &Path, text: &str) {
    let mut bytes = std::fs::read(file).unwrap();
    let places: Vec<usize> = bytes
        .windows(text.len())
        .enumerate()
        .filter(|(_, part)| *part == text.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty(), "{text} is not in {}", file.display());
    // The newest copy counts; others are in pages that are free.
    for place in places {
        bytes[place + text.len() / 2] ^= 1;
    }
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_flipped_bit_is_named_and_falling_back_is_an_order() {
    let mut stand = Stand::new();
    for word in ["first-of-them", "second-of-them"] {
        stand.submit(&["--", "echo", word]);
    }
    let (data, journal) = (stand.data(), stand.data().join("journal.db"));
    let data = data.to_str().unwrap();
    let said = stand.run(&["check", data]);
    assert_eq!(said.code, 2, "a server runs on it: {} {}", said.out, said.err);
    stand.end_server();
    let whole = stand.json(&["check", data]);
    assert_eq!(whole["damage"], serde_json::json!([]), "{whole}");
    let old = whole["journal"].clone();
    let said = stand.run(&["check", data, "--fall-back"]);
    assert_eq!(said.code, 2, "there is nothing to fall back from: {}", said.err);

    flip(&journal, "second-of-them");
    let said = stand.run(&["server", "--listen", "127.0.0.1:0"]);
    assert_eq!(said.code, 7, "{}", said.err);
    assert!(said.err.contains("the record jobs/2") && said.err.contains("landfall check"), "{}", said.err);
    let said = stand.run(&["check", data]);
    assert_eq!(said.code, 3, "{}", said.out);
    assert!(said.out.contains("the record jobs/2") && said.out.contains("--fall-back"), "{}", said.out);
    let went = stand.json(&["check", data, "--fall-back"]);
    assert_eq!(went["lost"]["records"], 1, "{went}");
    assert_eq!(went["fell_back"]["cancelled"], serde_json::json!(["2"]), "{went}");
    assert_ne!(went["fell_back"]["journal"], old);
    assert!(Path::new(went["fell_back"]["kept"].as_str().unwrap()).exists());
    stand.start_server();
    assert_eq!(stand.job("1")["run"]["command"], serde_json::json!(["echo", "first-of-them"]));
    assert_eq!(stand.submit(&["--", "true"]), "1000000");
}

#[test]
fn a_database_that_was_cut_is_refused() {
    let mut stand = Stand::new();
    for _ in 0..3 {
        stand.submit(&["--", "echo", &"x".repeat(5000)]);
    }
    stand.end_server();
    let data = stand.data();
    let file = std::fs::File::options().write(true).open(data.join("journal.db")).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length * 99 / 100).unwrap();
    let said = stand.run(&["server", "--listen", "127.0.0.1:0"]);
    assert_eq!(said.code, 7, "{}", said.err);
    assert!(said.err.contains("damaged"), "{}", said.err);
    assert_eq!(stand.run(&["check", data.to_str().unwrap()]).code, 3);
}

#[test]
fn an_empty_database_beside_what_a_server_wrote_is_refused() {
    let mut stand = Stand::new();
    stand.submit(&["--", "true"]);
    stand.end_server();
    let (data, journal) = (stand.data(), stand.data().join("journal.db"));
    std::fs::File::options().write(true).open(&journal).unwrap().set_len(0).unwrap();
    let said = stand.run(&["server", "--listen", "127.0.0.1:0"]);
    assert_eq!(said.code, 7, "{}", said.err);
    for word in ["journal.db", "empty", "restore"] {
        assert!(said.err.contains(word), "no `{word}`: {}", said.err);
    }
    assert_eq!(stand.run(&["check", data.to_str().unwrap()]).code, 3);
    assert_eq!(std::fs::metadata(&journal).unwrap().len(), 0, "nothing was made of it");
}

#[test]
fn a_flipped_bit_in_the_log_of_a_killed_server_is_named() {
    let mut stand = Stand::new();
    for word in ["first-of-them", "second-of-them", "third-of-them"] {
        stand.submit(&["--", "echo", word]);
    }
    stand.kill_server();
    let (data, log) = (stand.data(), stand.data().join("journal.db-wal"));
    let data = data.to_str().unwrap();
    let whole = std::fs::read(&log).unwrap();
    assert_eq!(stand.json(&["check", data])["damage"], serde_json::json!([]));
    assert_eq!(std::fs::read(&log).unwrap(), whole, "a look changes nothing");
    let mut flipped = whole.clone();
    let text = "first-of-them";
    let place = whole.windows(text.len()).position(|part| part == text.as_bytes()).unwrap();
    flipped[place] ^= 1;
    std::fs::write(&log, &flipped).unwrap();

    let byte = 32 + (place - 32) / 4120 * 4120;
    let named = |said: &str| {
        for word in ["journal.db-wal", &format!("byte {byte}"), "commits"] {
            assert!(said.contains(word), "no `{word}`: {said}");
        }
    };
    let said = stand.run(&["server", "--listen", "127.0.0.1:0"]);
    assert_eq!(said.code, 7, "{}", said.err);
    named(&said.err);
    let said = stand.run(&["check", data]);
    assert_eq!(said.code, 3, "{}", said.err);
    named(&said.out);
    let copy = stand.path("copy.db");
    let said = stand.run(&["backup", "--data-dir", data, "--to", copy.to_str().unwrap()]);
    assert_eq!(said.code, 3, "{}", said.out);
    named(&said.err);
    assert_eq!(std::fs::read(&log).unwrap(), flipped, "a look changes nothing");
    let went = stand.json(&["check", data, "--fall-back"]);
    let kept = format!("{}-wal", went["fell_back"]["kept"].as_str().unwrap());
    assert_eq!(std::fs::read(kept).unwrap(), flipped, "all of it is kept");
    stand.start_server();
    assert_eq!(stand.submit(&["--", "true"]), "1000000");
}

#[test]
fn a_damaged_journal_has_no_backup_and_a_damaged_backup_a_way_back() {
    let mut stand = Stand::new();
    for word in ["first-of-them", "second-of-them"] {
        stand.submit(&["--", "echo", word]);
    }
    stand.end_server();
    let (data, good, bad) = (stand.data(), stand.path("good.db"), stand.path("bad.db"));
    let (data, good, bad) = (data.to_str().unwrap(), good.to_str().unwrap(), bad.to_str().unwrap());
    stand.run(&["backup", "--data-dir", data, "--to", good]).ok();
    flip(&stand.data().join("journal.db"), "second-of-them");
    let said = stand.run(&["backup", "--data-dir", data, "--to", bad]);
    assert_eq!(said.code, 3, "{}", said.out);
    assert!(said.err.contains("the record jobs/2"), "{}", said.err);
    assert!(!Path::new(bad).exists());

    flip(Path::new(good), "second-of-them");
    assert_eq!(stand.run(&["check", good, "--fall-back"]).code, 2, "it is no data directory");
    let said = stand.run(&["check", good]);
    let advice = said.out.lines().find(|line| line.contains("--fall-back")).unwrap();
    // As it is told, but that the program has a path here.
    let advice = advice.replace("landfall check", &format!("{} check", env!("CARGO_BIN_EXE_landfall")));
    let went = std::process::Command::new("sh").args(["-ec", &advice]).current_dir(stand.dir.path()).output();
    let went = crate::stand::Said::of(went.unwrap()).ok();
    assert!(went.contains("went back to the last good point"), "{went}");
}

#[test]
fn a_journal_whose_end_is_missing_is_not_verified() {
    let mut stand = Stand::new();
    stand.submit(&["--", "true"]);
    stand.end_server();
    let data = stand.data();
    let data = data.to_str().unwrap();
    stand.run(&["replay", "--journal", data, "--verify"]).ok();
    let conn = rusqlite::Connection::open(stand.data().join("journal.db")).unwrap();
    conn.execute("DELETE FROM journal WHERE first_seq = (SELECT max(first_seq) FROM journal)", []).unwrap();
    drop(conn);
    let said = stand.run(&["replay", "--journal", data, "--verify"]);
    assert_eq!(said.code, 3, "{}", said.out);
    assert!(said.err.contains("it ends at event"), "{}", said.err);
}

#[test]
fn a_job_that_is_lost_is_named_and_its_key_submits_it_again() {
    let mut stand = Stand::new();
    let keyed = |key| ["--idempotency-key", key, "--", "true"];
    assert_eq!(stand.submit(&keyed("before")), "1");
    let seq = stand.json(&["status"])["seq"].as_u64().unwrap();
    assert_eq!(stand.submit(&keyed("behind")), "2");
    assert_eq!(stand.submit(&["--", "true"]), "3");
    stand.kill_server();
    let data = stand.data();
    let conn = rusqlite::Connection::open(data.join("journal.db")).unwrap();
    conn.execute("UPDATE journal SET events = zeroblob(40) WHERE first_seq > ?1", [seq]).unwrap();
    drop(conn);
    let went = stand.json(&["check", data.to_str().unwrap(), "--fall-back"]);
    assert_eq!(went["fell_back"]["lost"], serde_json::json!(["2", "3"]), "{went}");
    stand.start_server();
    assert_eq!(stand.submit(&keyed("before")), "1", "it is still there");
    assert_eq!(stand.submit(&keyed("behind")), "1000000", "it was submitted anew");
    assert_eq!(stand.run(&["job", "3"]).code, 10);
}
