//! Which directories are opened, and which are refused.

use std::fs;

use landfall_store::sqlite::{APPLICATION_ID, FORMAT, Sqlite};
use landfall_store::{Store, StoreError};
use tempfile::tempdir;

use super::support::Script;
use super::{fresh, meddle, open};

fn refused(dir: &std::path::Path) -> StoreError {
    let error = Sqlite::open(dir).expect_err("it is refused");
    assert!(!error.hint().is_empty());
    error
}

#[test]
fn two_servers_cannot_have_one_directory() {
    let (dir, first) = fresh();
    let error = refused(dir.path());
    assert!(
        matches!(error, StoreError::Locked { pid: Some(pid), .. } if pid == std::process::id()),
        "{error}"
    );
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    assert!(Sqlite::open_reader(dir.path()).is_ok(), "reading is allowed");
    drop(first);
    open(dir.path());
}

#[test]
fn a_newer_format_is_refused_with_both_numbers_and_left_alone() {
    let dir = tempdir().unwrap();
    drop(open(dir.path()));
    meddle(dir.path()).pragma_update(None, "user_version", FORMAT + 3).unwrap();
    let before = fs::read(dir.path().join("journal.db")).unwrap();
    let error = refused(dir.path());
    assert!(
        matches!(error, StoreError::NewerVersion { found, known, .. } if found == FORMAT + 3 && known == FORMAT)
    );
    let text = format!("{error} {}", error.hint());
    assert!(text.contains(&format!("format {}", FORMAT + 3)) && text.contains("backup"), "{text}");
    assert_eq!(fs::read(dir.path().join("journal.db")).unwrap(), before);
    assert!(matches!(Sqlite::open_reader(dir.path()), Err(StoreError::NewerVersion { .. })));
}

#[test]
fn files_of_others_are_refused_and_left_alone() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("journal.db");
    fs::write(&path, "my diary").unwrap();
    assert!(matches!(refused(dir.path()), StoreError::NotOurs { .. }));
    assert_eq!(fs::read_to_string(&path).unwrap(), "my diary");
    fs::remove_file(&path).unwrap();
    meddle(dir.path()).execute_batch("CREATE TABLE stamps (country)").unwrap();
    let error = refused(dir.path());
    assert!(matches!(error, StoreError::NotOurs { .. }), "{error}");
    let mode: String = meddle(dir.path()).pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete", "not even its journal mode was changed");
}

#[test]
fn a_database_that_was_only_begun_is_made_anew() {
    let dir = tempdir().unwrap();
    meddle(dir.path()).pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
    let mut store = open(dir.path());
    store.append(&Script::new(1, 1).turn()).unwrap();
    drop(store);
    let conn = meddle(dir.path());
    let number = |name| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(
        (number("application_id"), number("user_version")),
        (i64::from(APPLICATION_ID), i64::from(FORMAT))
    );
}

#[test]
fn a_reader_needs_a_journal() {
    let dir = tempdir().unwrap();
    let error = Sqlite::open_reader(dir.path()).err().expect("there is none");
    assert_eq!(error.code(), "store_io");
    assert!(!dir.path().join("journal.db").exists(), "reading makes nothing");
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let outside = tempdir().unwrap();
    let dir = outside.path().join("deep").join("data");
    let mut store = open(&dir);
    store.append(&Script::new(1, 1).turn()).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    let mut files = 0;
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        files += 1;
    }
    assert!(files >= 3, "lock, database and its log");
}

#[test]
fn an_empty_database_is_new_only_where_nothing_shows_that_it_was_used() {
    for sign in ["journal.db-wal", "token", "url", "logs-0123456789abcdef"] {
        let dir = tempdir().unwrap();
        let journal = dir.path().join("journal.db");
        fs::write(&journal, "").unwrap();
        fs::write(dir.path().join(sign), "something").unwrap();
        let error = refused(dir.path());
        assert_eq!(error.code(), "store_damaged", "{error}");
        assert!(error.to_string().contains(sign) && error.to_string().contains("journal.db"), "{error}");
        assert_eq!(fs::metadata(&journal).unwrap().len(), 0);
        assert!(dir.path().join(sign).exists());
    }
    // A start that ended before anything was written, and an administrator who brings a token along.
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("journal.db"), "").unwrap();
    drop(open(dir.path()));
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("token"), "something").unwrap();
    drop(open(dir.path()));
}
