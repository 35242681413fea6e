//! The data directory: who may read it, and that only one server has it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use crate::error::StoreError;

pub(super) const DATABASE: &str = "journal.db";
const LOCK: &str = "lock";
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Length of the header of a database.
const HEADER: usize = 100;

/// A data directory that belongs to this process until it is dropped.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    // The system unlocks files when they are closed, however the process ends.
    lock: File,
    /// The database, locked as well: the file `lock` may be removed, an open database cannot be taken away. It must not be
    /// closed before SQLite has closed it, whose own locks on it would be gone.
    database: Option<File>,
}

impl Directory {
    pub(super) fn lock(path: &Path) -> Result<Self, StoreError> {
        make(path).map_err(|error| StoreError::io(format!("cannot make {}", path.display()), error))?;
        let name = path.join(LOCK);
        let failed = |error| StoreError::io(format!("cannot open {}", name.display()), error);
        let mut lock = open_private(&name).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_path_buf(), lock, database: None }),
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let pid = lock.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                Err(StoreError::Locked { dir: path.to_path_buf(), pid })
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Writes into the file `lock` who has it. Only a help for people: who cannot write it still has the lock.
    fn note_owner(&mut self) {
        let lock = &mut self.lock;
        let note = lock
            .set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| writeln!(lock, "{}", std::process::id()));
        if let Err(error) = note {
            tracing::warn!(%error, dir = %self.path.display(), "cannot note the process id in the lock file");
        }
    }

    /// What shows that there was a journal here: its log, which SQLite would delete, and beside a database what a server
    /// writes when it has one.
    fn sign_of_use(&self, is_there: bool) -> Option<String> {
        let log = with_end(Path::new(DATABASE), "-wal");
        if fs::metadata(self.path.join(&log)).is_ok_and(|log| log.len() > 0) {
            return Some(log.display().to_string());
        }
        let entries = fs::read_dir(&self.path).ok()?.filter_map(Result::ok);
        let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.find(|name| is_there && (name == "token" || name == "url" || name.starts_with("logs-")))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the database, which exists afterwards, empty if it is new, and is locked.
    pub(super) fn database(&mut self) -> Result<PathBuf, StoreError> {
        let path = self.path.join(DATABASE);
        let failed = |error| StoreError::io(format!("cannot open {}", path.display()), error);
        let length = fs::metadata(&path).ok().map(|found| found.len());
        if length.unwrap_or(0) == 0
            && let Some(sign) = self.sign_of_use(length.is_some())
        {
            let state = if length.is_some() { "it is empty" } else { "it is not there" };
            return Err(StoreError::damaged(
                format!("the database {}", path.display()),
                format!(
                    "{state}, but `{sign}` beside it is of a server that stored something (to begin with nothing, name an empty directory)"
                ),
            ));
        }
        let new = length.is_none();
        let mut file = open_private(&path).map_err(failed)?;
        if new {
            file.sync_all().and_then(|()| sync_directory(&self.path)).map_err(failed)?;
        }
        match lock_open(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Locked { dir: self.path.clone(), pid: None });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        looks_like_sqlite(&mut file, &path)?;
        self.database = Some(file);
        self.note_owner();
        Ok(path)
    }
}

/// A file that SQLite keeps beside a database.
pub(super) fn with_end(database: &Path, end: &str) -> PathBuf {
    let mut name = database.to_path_buf().into_os_string();
    name.push(end);
    name.into()
}

/// Such a lock and those of SQLite do not see each other.
#[cfg(unix)]
fn lock_open(file: &File) -> Result<(), TryLockError> {
    file.try_lock()
}

/// Here a lock would shut SQLite out as well; the file `lock` has to do.
#[cfg(not(unix))]
fn lock_open(_: &File) -> Result<(), TryLockError> {
    Ok(())
}

/// Refuses other files before SQLite touches them.
pub(super) fn looks_like_sqlite(file: &mut File, path: &Path) -> Result<(), StoreError> {
    let mut begin = Vec::new();
    file.take(HEADER as u64)
        .read_to_end(&mut begin)
        .map_err(|error| StoreError::io(format!("cannot read {}", path.display()), error))?;
    if begin.is_empty() {
        return Ok(());
    }
    if !begin.starts_with(MAGIC) {
        let why = "it is not an SQLite database".into();
        return Err(StoreError::NotOurs { path: path.to_path_buf(), why });
    }
    // SQLite takes other values for those of a later version, and says that it may only read.
    let is_known = begin.len() == HEADER
        && matches!(begin[18..24], [1 | 2, 1 | 2, _, 64, 32, 32])
        && matches!(begin[44..48], [0, 0, 0, 0 | 4])
        && matches!(begin[56..60], [0, 0, 0, 0 | 1]);
    if !is_known {
        return Err(StoreError::damaged(
            format!("the database {}", path.display()),
            "its header makes no sense",
        ));
    }
    Ok(())
}

/// Opens a file that only its owner may read, and makes it if need be.
fn open_private(path: &Path) -> std::io::Result<File> {
    private(OpenOptions::new().read(true).write(true).create(true).truncate(false)).open(path)
}

/// Makes a new file that only its owner may read.
pub(super) fn create_private(path: &Path) -> std::io::Result<File> {
    private(OpenOptions::new().write(true).create_new(true)).open(path)
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.mode(0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(unix)]
fn make(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    if path.is_dir() {
        // It may have been made with wider permissions; tokens and payloads are for the owner alone.
        let mode = fs::metadata(path)?.permissions().mode();
        if mode & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        }
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(not(unix))]
fn make(path: &Path) -> std::io::Result<()> {
    fs::create_dir_all(path)
}

/// Makes the names in a directory durable.
#[cfg(unix)]
pub(super) fn sync_directory(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(not(unix))]
pub(super) fn sync_directory(_: &Path) -> std::io::Result<()> {
    Ok(())
}
