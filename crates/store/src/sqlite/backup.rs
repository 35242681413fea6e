//! A consistent copy in one file while the server goes on.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::head::Head;
use super::{connect, directory, explain, schema, verify, wal};
use crate::error::StoreError;

pub(super) fn write(conn: &Connection, path: &Path, to: &Path) -> Result<(), StoreError> {
    // Without a server nobody has looked at what the last one left in the log.
    wal::sound(path)?;
    // Making the file is what refuses to overwrite one: no other program can slip in between. SQLite fills an empty file.
    directory::create_private(to).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => StoreError::Exists { path: to.to_path_buf() },
        _ => StoreError::io(format!("cannot make {}", to.display()), error),
    })?;
    let written = copy(conn, path, to);
    if written.is_err() {
        let removed = fs::remove_file(to);
        if let Err(error) = removed {
            tracing::warn!(%error, file = %to.display(), "cannot remove an incomplete backup");
        }
    }
    written
}

fn copy(conn: &Connection, path: &Path, to: &Path) -> Result<(), StoreError> {
    let Some(name) = to.to_str() else {
        let error = std::io::Error::new(ErrorKind::InvalidInput, "its name is not UTF-8");
        return Err(StoreError::io(format!("cannot write {}", to.display()), error));
    };
    // The room that is missing is where the copy goes.
    conn.execute("VACUUM INTO ?1", [name]).map_err(|error| match explain(path)(error) {
        StoreError::Full { .. } => StoreError::Full { path: to.to_path_buf() },
        other => other,
    })?;
    mark(to)?;
    compare(to)?;
    let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(to)
        .and_then(|file| file.sync_all())
        .and_then(|()| directory::sync_directory(directory))
        .map_err(|error| StoreError::io(format!("cannot sync {}", to.display()), error))
}

/// A backup that cannot be restored is none: what is damaged is said while there may still be an older one.
fn compare(copy: &Path) -> Result<(), StoreError> {
    let conn = connect(copy, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    verify::everything(&conn, copy, schema::FORMAT, &mut |_| {})?.sound()
}

/// Writes into a copy that it is one: no server may go on from it as if nothing had happened since.
fn mark(copy: &Path) -> Result<(), StoreError> {
    let conn = connect(copy, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let head = Head { backup: true, ..Head::read(&conn, copy)? };
    // There is nothing to go back to if this fails: the copy is removed then.
    conn.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(()))
        .and_then(|()| head.write(&conn))
        .map_err(explain(copy))?;
    conn.close().map_err(|(_, error)| explain(copy)(error))
}
