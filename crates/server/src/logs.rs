//! What jobs wrote, kept as files.
//!
//! ```text
//! DATA/logs-<journal>/<job>/index                       one line of JSON for each piece, in order of arrival
//! DATA/logs-<journal>/<job>/<node>.<attempt>.<stream>   the bytes of one stream of one attempt on one node
//! ```
//!
//! The directory is named after the journal, so that a job of another journal never shows the output of its namesake.
//!
//! The bytes are written before the line that names them. So after a crash a file may be longer than its index says; the
//! rest is written over. Nothing is synced to disk for each piece: a loss of power may cost the last seconds.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use landfall_api::job::LogChunk;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

const INDEX: &str = "index";
/// Jobs whose position is remembered; more are looked up on disk again.
const REMEMBERED: usize = 4096;
const BATCH_BYTES: u64 = 256 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    pub job: &'a str,
    pub node: &'a str,
    pub attempt: u32,
    /// `stdout` or `stderr`.
    pub stream: &'a str,
    /// Where in the stream it begins.
    pub offset: u64,
}

/// Why a piece is not kept.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("{stream} goes on at offset {expected}, and this piece begins at {offset}")]
    Gap { stream: String, expected: u64, offset: u64 },
    #[error("cannot use {}: {source}", .path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

/// A line of the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    node: String,
    attempt: u32,
    stream: String,
    offset: u64,
    len: u64,
    /// Set on the notice that no more is kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    full: bool,
}

type Key = (String, u32, String);

#[derive(Debug, Default)]
struct Lengths {
    /// How far each stream is, and whether no more of it is kept.
    streams: BTreeMap<Key, (u64, bool)>,
}

#[derive(Debug)]
struct JobLog {
    lengths: Mutex<Lengths>,
    news: Notify,
}

#[derive(Debug)]
pub struct Logs {
    dir: PathBuf,
    limit: u64,
    jobs: Mutex<BTreeMap<String, Arc<JobLog>>>,
}

/// Where the logs of a journal are.
pub fn directory(data_dir: &Path, journal: &str) -> PathBuf {
    data_dir.join(format!("logs-{journal}"))
}

/// Copies the logs of a journal, also while jobs write: of each job the index first, which never names bytes that are not
/// there yet.
pub fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    let Ok(jobs) = std::fs::read_dir(from) else { return Ok(()) };
    for job in jobs {
        let (job, into) = (job?, to.to_path_buf());
        let into = into.join(job.file_name());
        std::fs::create_dir_all(&into)?;
        let mut files: Vec<_> = std::fs::read_dir(job.path())?.collect::<Result<_, _>>()?;
        files.sort_by_key(|file| file.file_name() != INDEX);
        for file in files {
            std::fs::copy(file.path(), into.join(file.file_name()))?;
        }
    }
    Ok(())
}

/// A name that is safe as part of a path, and different for different names.
fn safe(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => text.push(char::from(byte)),
            b'.' if !text.is_empty() => text.push('.'),
            other => text.push_str(&format!("%{other:02x}")),
        }
    }
    if text.is_empty() || text.len() > 120 {
        let digest: String = Sha256::digest(name).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let short: String = text.chars().take(60).collect();
        return format!("{short}~{digest}");
    }
    text
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> LogError + '_ {
    move |source| LogError::Io { path: path.to_owned(), source }
}

/// Most that is shown from the end of a log at once; more is had by reading it from its beginning.
const TAIL_BYTES_MAX: u64 = 16 << 20;

impl Logs {
    /// Logs of a journal below its data directory, with so many bytes kept of each stream.
    ///
    /// # Errors
    /// When logs of a version that did not name them after the journal cannot be taken over.
    pub fn open(data_dir: &Path, journal: &str, limit: u64) -> std::io::Result<Self> {
        let (dir, unnamed) = (directory(data_dir, journal), data_dir.join("logs"));
        if !dir.exists() && unnamed.is_dir() {
            std::fs::rename(unnamed, &dir)?;
        }
        Ok(Self { dir, limit, jobs: Mutex::default() })
    }

    fn dir_of(&self, job: &str) -> PathBuf {
        self.dir.join(safe(job))
    }

    fn file_of(&self, job: &str, key: &Key) -> PathBuf {
        self.dir_of(job).join(format!("{}.{}.{}", safe(&key.0), key.1, safe(&key.2)))
    }

    fn log(&self, job: &str) -> Arc<JobLog> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = jobs.get(job) {
            return log.clone();
        }
        if jobs.len() >= REMEMBERED {
            jobs.retain(|_, log| Arc::strong_count(log) > 1);
        }
        let mut lengths = Lengths::default();
        for entry in self.entries(job, 0, u64::MAX).0 {
            let key = (entry.node, entry.attempt, entry.stream);
            let known = lengths.streams.entry(key).or_default();
            *known = (known.0.max(entry.offset + entry.len), known.1 || entry.full);
        }
        let log = Arc::new(JobLog { lengths: Mutex::new(lengths), news: Notify::new() });
        jobs.insert(job.to_owned(), log.clone());
        log
    }

    /// The lines of an index from a position on until they name so many bytes, and the position behind them.
    fn entries(&self, job: &str, from: u64, most: u64) -> (Vec<Entry>, u64) {
        let Ok(mut file) = File::open(self.dir_of(job).join(INDEX)) else { return (Vec::new(), from) };
        if file.seek(SeekFrom::Start(from)).is_err() {
            return (Vec::new(), from);
        }
        let mut reader = BufReader::new(file);
        let (mut entries, mut position, mut bytes) = (Vec::new(), from, 0);
        let mut line = String::new();
        loop {
            line.clear();
            match reader.read_line(&mut line) {
                // A line without its end is still being written.
                Ok(read) if read > 0 && line.ends_with('\n') => {
                    position += read as u64;
                    if let Ok(entry) = serde_json::from_str::<Entry>(&line) {
                        bytes += entry.len;
                        entries.push(entry);
                    }
                }
                _ => break,
            }
            if bytes >= most {
                break;
            }
        }
        (entries, position)
    }

    /// Keeps a piece and says where the next one has to begin. What is kept already is not kept again.
    ///
    /// # Errors
    /// When something before it is missing, or the disk refuses.
    pub fn keep(&self, piece: &Piece<'_>, data: &[u8]) -> Result<u64, LogError> {
        let log = self.log(piece.job);
        let key: Key = (piece.node.to_owned(), piece.attempt, piece.stream.to_owned());
        let mut lengths = log.lengths.lock().unwrap_or_else(PoisonError::into_inner);
        let (length, full) = lengths.streams.get(&key).copied().unwrap_or_default();
        let end = piece.offset.saturating_add(data.len() as u64);
        if full {
            return Ok(end);
        }
        if piece.offset > length {
            let stream = piece.stream.to_owned();
            return Err(LogError::Gap { stream, expected: length, offset: piece.offset });
        }
        if end <= length {
            return Ok(length);
        }
        let new = &data[usize::try_from(length - piece.offset).unwrap_or(data.len()).min(data.len())..];
        let room = usize::try_from(self.limit.saturating_sub(length)).unwrap_or(usize::MAX);
        let kept = &new[..new.len().min(room)];
        self.write(piece.job, &key, length, kept, false)?;
        let mut reached = length + kept.len() as u64;
        let is_full = kept.len() < new.len();
        if is_full {
            let notice = format!("\n[landfall: more than {} bytes; the rest was not kept]\n", self.limit);
            self.write(piece.job, &key, reached, notice.as_bytes(), true)?;
            reached += notice.len() as u64;
        }
        lengths.streams.insert(key, (reached, is_full));
        drop(lengths);
        log.news.notify_waiters();
        Ok(if is_full { end } else { reached })
    }

    fn write(&self, job: &str, key: &Key, offset: u64, data: &[u8], full: bool) -> Result<(), LogError> {
        if data.is_empty() && !full {
            return Ok(());
        }
        let dir = self.dir_of(job);
        std::fs::create_dir_all(&dir).map_err(at(&dir))?;
        let path = self.file_of(job, key);
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        private(&mut options);
        let mut file = options.open(&path).map_err(at(&path))?;
        file.seek(SeekFrom::Start(offset)).map_err(at(&path))?;
        file.write_all(data).map_err(at(&path))?;
        let (node, attempt, stream) = key.clone();
        let entry = Entry { node, attempt, stream, offset, len: data.len() as u64, full };
        let mut line = serde_json::to_vec(&entry).unwrap_or_default();
        line.push(b'\n');
        let path = dir.join(INDEX);
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        private(&mut options);
        let mut file = options.open(&path).map_err(at(&path))?;
        file.write_all(&line).map_err(at(&path))
    }

    /// Wakes whoever follows the log of a job.
    pub fn wake(&self, job: &str) {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = jobs.get(job) {
            log.news.notify_waiters();
        }
    }

    /// Chunks from a position of the index on, and the position behind them.
    pub fn read(&self, job: &str, from: u64, stream: Option<&str>) -> (Vec<LogChunk>, u64) {
        let (entries, position) = self.entries(job, from, BATCH_BYTES);
        let wanted = entries.into_iter().filter(|entry| stream.is_none_or(|wanted| wanted == entry.stream));
        (wanted.filter_map(|entry| self.chunk(job, entry)).collect(), position)
    }

    fn chunk(&self, job: &str, entry: Entry) -> Option<LogChunk> {
        let data = self.bytes(job, &entry)?;
        let data = base64::engine::general_purpose::STANDARD.encode(data);
        let Entry { node, attempt, stream, offset, .. } = entry;
        Some(LogChunk { stream, node, attempt, offset, data })
    }

    fn bytes(&self, job: &str, entry: &Entry) -> Option<Vec<u8>> {
        let key = (entry.node.clone(), entry.attempt, entry.stream.clone());
        let mut file = File::open(self.file_of(job, &key)).ok()?;
        file.seek(SeekFrom::Start(entry.offset)).ok()?;
        let mut data = Vec::new();
        file.take(entry.len).read_to_end(&mut data).ok()?;
        Some(data)
    }

    /// The last lines of a log, and the position behind them.
    pub fn tail(&self, job: &str, lines: usize, stream: Option<&str>) -> (Vec<LogChunk>, u64) {
        let (entries, position) = self.entries(job, 0, u64::MAX);
        let mut chunks = Vec::new();
        let (mut missing, mut bytes) = (lines, 0);
        let wanted = entries.into_iter().filter(|entry| stream.is_none_or(|wanted| wanted == entry.stream));
        for (place, mut entry) in wanted.collect::<Vec<_>>().into_iter().rev().enumerate() {
            if missing == 0 || bytes > TAIL_BYTES_MAX {
                break;
            }
            bytes += entry.len;
            let Some(data) = self.bytes(job, &entry) else { continue };
            let mut start = 0;
            for (at, _) in data.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
                // The end of the last line begins no line.
                if place == 0 && at + 1 == data.len() {
                    continue;
                }
                missing -= 1;
                if missing == 0 {
                    start = at + 1;
                    break;
                }
            }
            entry.offset += start as u64;
            entry.len -= start as u64;
            if entry.len > 0 {
                chunks.extend(self.chunk(job, entry));
            }
        }
        chunks.reverse();
        (chunks, position)
    }

    /// Waits until something may have come to a log, or the time is over.
    pub async fn wait(&self, job: &str, position: u64, most: Duration) {
        let log = self.log(job);
        let news = log.news.notified();
        tokio::pin!(news);
        news.as_mut().enable();
        // What came before anybody waited is not waited for.
        let length = std::fs::metadata(self.dir_of(job).join(INDEX)).map_or(0, |metadata| metadata.len());
        if length <= position {
            let _ = tokio::time::timeout(most, news).await;
        }
    }

    /// Deletes logs that nobody has written to since an instant, unless `lives` says that the job is still there.
    pub fn clean(&self, older_than: SystemTime, lives: impl Fn(&str) -> bool) -> usize {
        let Ok(dirs) = std::fs::read_dir(&self.dir) else { return 0 };
        let mut gone = 0;
        for dir in dirs.flatten() {
            let touched = std::fs::metadata(dir.path().join(INDEX)).and_then(|metadata| metadata.modified());
            let Ok(touched) = touched else { continue };
            let old = touched < older_than;
            let name = dir.file_name().to_string_lossy().into_owned();
            if old && !lives(&name) && std::fs::remove_dir_all(dir.path()).is_ok() {
                self.jobs.lock().unwrap_or_else(PoisonError::into_inner).retain(|job, _| safe(job) != name);
                gone += 1;
            }
        }
        gone
    }
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.mode(0o600);
}

#[cfg(not(unix))]
fn private(_options: &mut OpenOptions) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: u64) -> Piece<'static> {
        Piece { job: "7", node: "n/../1", attempt: 1, stream: "stdout", offset }
    }

    fn text(chunks: &[LogChunk]) -> String {
        let bytes = chunks.iter().flat_map(|chunk| {
            base64::engine::general_purpose::STANDARD.decode(&chunk.data).unwrap_or_default()
        });
        String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
    }

    #[test]
    fn a_piece_sent_twice_is_kept_once_and_gaps_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let logs = Logs::open(dir.path(), "j", 1000).unwrap();
        assert_eq!(logs.keep(&piece(0), b"one\n").unwrap(), 4);
        assert_eq!(logs.keep(&piece(0), b"one\n").unwrap(), 4);
        assert_eq!(logs.keep(&piece(2), b"e\ntwo\n").unwrap(), 8);
        assert!(matches!(logs.keep(&piece(9), b"x"), Err(LogError::Gap { expected: 8, .. })));
        // Another start of the server goes on where the first one stopped.
        let logs = Logs::open(dir.path(), "j", 1000).unwrap();
        assert_eq!(logs.keep(&piece(8), b"three\n").unwrap(), 14);
        assert_eq!(text(&logs.read("7", 0, None).0), "one\ntwo\nthree\n");
        assert_eq!(text(&logs.read("7", 0, Some("stderr")).0), "");
        for (lines, expected) in [(1, "three\n"), (2, "two\nthree\n"), (9, "one\ntwo\nthree\n")] {
            assert_eq!(text(&logs.tail("7", lines, None).0), expected, "{lines}");
        }
    }

    #[test]
    fn beyond_the_limit_there_is_a_notice_and_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let logs = Logs::open(dir.path(), "j", 5).unwrap();
        assert_eq!(logs.keep(&piece(0), b"abcdefgh").unwrap(), 8);
        assert_eq!(logs.keep(&piece(8), b"ij").unwrap(), 10);
        let logs = Logs::open(dir.path(), "j", 5).unwrap();
        assert_eq!(logs.keep(&piece(10), b"kl").unwrap(), 12);
        let all = text(&logs.read("7", 0, None).0);
        assert!(all.starts_with("abcde\n[landfall: more than 5 bytes"), "{all}");
        assert_eq!(all.matches("landfall").count(), 1);
    }

    #[test]
    fn names_stay_in_their_directory() {
        for name in ["..", ".", "a/b", "../../etc/passwd", "", "ä", &"x".repeat(300), "%2e"] {
            let safe = safe(name);
            assert!(!safe.contains('/') && !safe.starts_with('.') && !safe.is_empty(), "{name} {safe}");
            assert!(safe.len() <= 200, "{safe}");
        }
        assert_ne!(safe("a/b"), safe("a%2fb"));
        assert_eq!(safe("12.0007"), "12.0007");
    }
}
