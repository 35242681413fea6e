//! What can go wrong, with a code for programs and a hint for people.

use std::path::PathBuf;

/// Why something could not be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("no room left in {}", .path.display())]
    Full { path: PathBuf },
    /// The disk or the file system failed.
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
    #[error("the disk under {} failed: {source}", .path.display())]
    Disk { path: PathBuf, source: rusqlite::Error },
    #[error("the journal is busy: somebody else writes it (waited {waited_s} s)")]
    Busy {
        /// How long was waited, in seconds.
        waited_s: u64,
    },
    #[error("epoch {epoch} is over: a server with epoch {highest} writes this journal")]
    Fenced { epoch: u32, highest: u32 },
    #[error("events before {oldest} are no longer in the journal")]
    Compacted { oldest: u64 },
    #[error("{} is in use by {}", .dir.display(), .pid.map_or("another process".to_owned(), |pid| format!("process {pid}")))]
    Locked {
        dir: PathBuf,
        /// Who has it, if known.
        pid: Option<u32>,
    },
    #[error("{} is not a Landfall journal: {why}", .path.display())]
    NotOurs { path: PathBuf, why: String },
    #[error("{} has format {found}; this program knows formats up to {known}", .path.display())]
    NewerVersion { path: PathBuf, found: u32, known: u32 },
    #[error("{what} is damaged: {why}")]
    Damaged {
        what: String,
        /// The event it begins with, where it is a part of the journal.
        seq: Option<u64>,
        why: String,
    },
    #[error("{what} cannot be read by this version: {why}")]
    Unreadable { what: String, why: String },
    #[error("nothing in {} is damaged", .path.display())]
    Whole { path: PathBuf },
    #[error("{} is no data directory", .path.display())]
    NoDirectory { path: PathBuf },
    #[error("{} is a backup, not the journal of a server", .path.display())]
    Backup { path: PathBuf },
    #[error("{} exists already", .path.display())]
    Exists { path: PathBuf },
    #[error("a snapshot of event {seq} cannot be stored: the journal ends at {last}")]
    Ahead { seq: u64, last: u64 },
    #[error("the database refused: {source}")]
    Database { source: rusqlite::Error },
}

impl StoreError {
    /// A short name that programs can rely on.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Full { .. } => "store_full",
            Self::Io { .. } | Self::Disk { .. } => "store_io",
            Self::Busy { .. } => "store_busy",
            Self::Fenced { .. } => "store_fenced",
            Self::Compacted { .. } => "store_compacted",
            Self::Locked { .. } => "store_locked",
            Self::NotOurs { .. } => "store_not_ours",
            Self::NewerVersion { .. } => "store_newer_version",
            Self::Damaged { .. } => "store_damaged",
            Self::Unreadable { .. } => "store_unreadable",
            Self::Whole { .. } => "store_whole",
            Self::NoDirectory { .. } => "store_no_directory",
            Self::Backup { .. } => "store_backup",
            Self::Exists { .. } => "store_exists",
            Self::Ahead { .. } => "store_ahead",
            Self::Database { .. } => "store_database",
        }
    }

    /// Whether it is certain that nothing was stored and the same batch may be appended again.
    ///
    /// After a failed sync the journal on disk may or may not have the batch; only loading again tells.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Busy { .. })
    }

    pub fn hint(&self) -> String {
        match self {
            Self::Full { .. } => {
                "free some space or enlarge the limit; what was not stored is tried again, nothing is lost".into()
            }
            Self::Io { .. } => "check the path, its permissions and the disk".into(),
            Self::Disk { .. } => {
                "check the disk and the system's log, then start the server again; it loads what is on disk".into()
            }
            Self::Busy { .. } => "end other programs that have the journal open for writing".into(),
            Self::Fenced { .. } => {
                "another server has this data directory: find it, stop one of the two, and start no second one".into()
            },
            Self::Compacted { oldest } => format!("begin at event {oldest}, or load the state first"),
            Self::Locked { pid: Some(pid), .. } => {
                format!("stop process {pid}, or give this server a data directory of its own")
            }
            Self::Locked { pid: None, .. } => {
                "stop the other server, or give this one a data directory of its own".into()
            }
            Self::NotOurs { .. } => "name an empty or a Landfall data directory".into(),
            Self::NewerVersion { found, known, .. } => format!(
                "use the version that wrote it (format {found}), or restore a backup of format {known} or older"
            ),
            Self::Damaged { .. } => "keep a copy of the data directory, check the disk; `landfall check DATA_DIR` tells what is \
                 damaged, `landfall restore BACKUP --data-dir NEW_DIR` goes on from a backup"
                .into(),
            Self::Unreadable { .. } => "use the version that wrote it".into(),
            Self::Whole { .. } => "there is nothing to go back from".into(),
            Self::NoDirectory { path } => format!(
                "mkdir NEW_DIR && cp {} NEW_DIR/journal.db && landfall check NEW_DIR --fall-back",
                path.display()
            ),
            Self::Backup { .. } => {
                "move it out of the data directory, then: landfall restore FILE --data-dir EMPTY_DIR".into()
            }
            Self::Exists { .. } => "choose another name or delete the file first".into(),
            Self::Ahead { .. } => "append the events first".into(),
            Self::Database { .. } => "report this with the message above".into(),
        }
    }

    pub(crate) fn io(what: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io { what: what.into(), source }
    }

    pub(crate) fn damaged(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Damaged { what: what.into(), seq: None, why: why.into() }
    }
}
