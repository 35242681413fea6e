//! What must survive the keeper: which jobs it began, and how jobs ended that nobody asked about yet.
//!
//! A job is noted before its process is made and again when it is over, before anybody is told. So whatever became of the
//! keeper: what is noted as over is over, what is noted as begun and not as over is lost, and what is not noted never ran.
//!
//! One file, one line per event, appended without waiting for the disk: it has to survive the death of a process, not
//! that of the machine. (After a restart of the machine no process of before exists; the first line tells.) The file
//! begins anew whenever nothing in it matters any more, so it stays small however long the keeper lives.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use landfall_model::JobId;
use landfall_model::life::Fence;
use serde::{Deserialize, Serialize};

use super::wire::Ended;

/// Size at which the file is written anew with what still matters.
const REWRITE_BYTES: u64 = 4 << 20;
/// Below this size it is not worth the work to begin anew.
const RESET_BYTES: u64 = 64 << 10;

/// An attempt, without the epoch of the server.
pub(crate) type Key = (JobId, u32);

pub(crate) fn key(fence: &Fence) -> Key {
    (fence.job.clone(), fence.attempt)
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    pub fence: Fence,
    /// 0 until the process is there.
    pub pid: u32,
    pub ticks: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kill_command: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Boot(String),
    Started(Started),
    Ended(Box<Ended>),
    Forgot(Vec<Fence>),
}

/// What a journal says about a keeper that is gone.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    /// Jobs that were not seen to end.
    pub left: Vec<Started>,
    /// Jobs whose end nobody asked about yet.
    pub ended: Vec<Ended>,
    /// Whether it knows all that began: one of an earlier start of the machine may lack its last lines.
    pub whole: bool,
}

#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    boot: String,
    /// Whether the last line may have been written in part.
    torn: bool,
    live: BTreeMap<Key, Started>,
    ended: BTreeMap<Key, Ended>,
}

impl Journal {
    /// Opens a journal and begins it anew; what the last keeper left is returned, and stays noted until `Journal::ended`.
    pub fn open(path: &Path, boot: &str) -> io::Result<(Self, Found)> {
        let found = match std::fs::read(path) {
            Ok(bytes) => read(&String::from_utf8_lossy(&bytes), boot),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Found::default(),
            Err(error) => return Err(error),
        };
        let live = found.left.iter().map(|left| (key(&left.fence), left.clone())).collect();
        let ended = found.ended.iter().map(|ended| (key(&ended.fence), ended.clone())).collect();
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let mut journal =
            Self { path: path.to_owned(), file, bytes: 0, boot: boot.to_owned(), torn: false, live, ended };
        journal.rewrite()?;
        Ok((journal, found))
    }

    pub(crate) fn started(&mut self, started: Started) -> io::Result<()> {
        let line = Line::Started(started.clone());
        if !self.ended.contains_key(&key(&started.fence)) {
            self.live.insert(key(&started.fence), started);
        }
        self.append(&line)
    }

    pub(crate) fn ended(&mut self, ended: &Ended) -> io::Result<()> {
        self.live.remove(&key(&ended.fence));
        self.ended.insert(key(&ended.fence), ended.clone());
        self.append(&Line::Ended(Box::new(ended.clone())))
    }

    /// Notes that ends were asked about, or that nothing began after all.
    pub(crate) fn forgot(&mut self, fences: &[Fence]) -> io::Result<()> {
        for fence in fences {
            self.live.remove(&key(fence));
            self.ended.remove(&key(fence));
        }
        let nothing_left = self.live.is_empty() && self.ended.is_empty();
        if self.bytes > REWRITE_BYTES || (nothing_left && self.bytes > RESET_BYTES) {
            return self.rewrite();
        }
        self.append(&Line::Forgot(fences.to_vec()))
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        if self.torn {
            // A new line, so that only the torn one cannot be read.
            text.insert(0, b'\n');
        }
        self.bytes += text.len() as u64;
        let written = self.file.write_all(&text);
        self.torn = written.is_err();
        written
    }

    /// Writes what still matters to a new file and puts it in place of the old one.
    fn rewrite(&mut self) -> io::Result<()> {
        let fresh = self.path.with_extension("new");
        let mut text = serde_json::to_vec(&Line::Boot(self.boot.clone()))?;
        text.push(b'\n');
        for started in self.live.values() {
            serde_json::to_writer(&mut text, &Line::Started(started.clone()))?;
            text.push(b'\n');
        }
        for ended in self.ended.values() {
            serde_json::to_writer(&mut text, &Line::Ended(Box::new(ended.clone())))?;
            text.push(b'\n');
        }
        std::fs::write(&fresh, &text)?;
        self.file = OpenOptions::new().append(true).open(&fresh)?;
        self.bytes = text.len() as u64;
        std::fs::rename(&fresh, &self.path)
    }
}

/// Reads a journal. A line that was cut off by a sudden end is the last one and is left out.
fn read(text: &str, boot: &str) -> Found {
    let mut live: BTreeMap<Key, Started> = BTreeMap::new();
    let mut ended: BTreeMap<Key, Ended> = BTreeMap::new();
    let mut same_boot = false;
    for line in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
        match line {
            Line::Boot(id) => same_boot = id == boot,
            // What is over is over, whatever is noted behind it: lost is said of what nobody saw the end of.
            Line::Started(started) if ended.contains_key(&key(&started.fence)) => {}
            Line::Started(started) => {
                live.insert(key(&started.fence), started);
            }
            Line::Ended(end) => {
                live.remove(&key(&end.fence));
                ended.insert(key(&end.fence), *end);
            }
            Line::Forgot(fences) => {
                for fence in fences {
                    live.remove(&key(&fence));
                    ended.remove(&key(&fence));
                }
            }
        }
    }
    let mut left: Vec<Started> = live.into_values().collect();
    if !same_boot {
        // Its processes went with the machine, and their numbers are others' now.
        left.iter_mut().for_each(|started| started.pid = 0);
    }
    Found { left, ended: ended.into_values().collect(), whole: same_boot }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeper::wire::Note;

    fn fence(job: &str) -> Fence {
        Fence { job: JobId::new(job).expect("id"), attempt: 1, epoch: 1 }
    }

    fn started(job: &str) -> Started {
        Started { fence: fence(job), pid: 7, ticks: 70, kill_command: Vec::new() }
    }

    fn ended(job: &str) -> Ended {
        Ended {
            fence: fence(job),
            code: 3,
            cause: None,
            wall_ms: 1,
            cpu_ms: Some(1),
            peak_ram_bytes: None,
            disk_bytes: 0,
            oom: false,
            written: (0, 0),
            kept: None,
            note: Note::default(),
        }
    }

    #[test]
    fn the_next_keeper_finds_what_was_left() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("j");
        let (mut journal, _) = Journal::open(&path, "boot").expect("open");
        for job in ["a", "b", "c"] {
            journal.started(started(job)).expect("written");
        }
        journal.ended(&ended("a")).expect("written");
        journal.ended(&ended("b")).expect("written");
        journal.forgot(&[fence("a")]).expect("written");
        drop(journal);
        // A line that was being written when the keeper died.
        let mut file = OpenOptions::new().append(true).open(&path).expect("open");
        file.write_all(b"{\"ended\":{\"fen").expect("written");
        let (_, found) = Journal::open(&path, "boot").expect("open");
        assert_eq!((found.left, found.whole), (vec![started("c")], true));
        assert_eq!(found.ended, vec![ended("b")]);
        // Ends stay until they are forgotten, whoever keeps them.
        let (_, found) = Journal::open(&path, "another boot").expect("open");
        assert_eq!(found.ended, vec![ended("b")]);
        assert!(!found.whole);
    }

    #[test]
    fn processes_of_another_boot_are_not_ours() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("j");
        let (mut journal, _) = Journal::open(&path, "one").expect("open");
        journal.started(started("a")).expect("written");
        drop(journal);
        let (_, found) = Journal::open(&path, "two").expect("open");
        assert_eq!(found.left, vec![Started { pid: 0, ..started("a") }], "but the job is lost");
    }

    #[test]
    fn what_did_not_begin_after_all_is_not_lost() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("j");
        let (mut journal, _) = Journal::open(&path, "boot").expect("open");
        journal.started(started("a")).expect("written");
        journal.forgot(&[fence("a")]).expect("written");
        assert!(Journal::open(&path, "boot").expect("open").1.left.is_empty());
    }

    #[test]
    fn an_end_outlives_a_second_start_and_every_rewriting() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("j");
        let (mut journal, _) = Journal::open(&path, "boot").expect("open");
        journal.ended(&ended("a")).expect("written");
        journal.started(started("a")).expect("written");
        drop(journal);
        for _ in 0..2 {
            let (_, found) = Journal::open(&path, "boot").expect("open");
            assert_eq!((found.left, found.ended), (vec![], vec![ended("a")]));
        }
    }

    #[test]
    fn the_file_stays_small() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("j");
        let (mut journal, _) = Journal::open(&path, "boot").expect("open");
        for round in 0..5_000 {
            let job = format!("job-{round}");
            journal.started(started(&job)).expect("written");
            journal.ended(&ended(&job)).expect("written");
            journal.forgot(&[fence(&job)]).expect("written");
        }
        assert!(std::fs::metadata(&path).expect("there").len() < 2 * RESET_BYTES);
    }
}
