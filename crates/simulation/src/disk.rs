//! The disk of the server: the real database on files in memory, with faults from outside.
//!
//! A killed process leaves what it wrote: the files are copied while the database is open, for closing it would tidy up. A power
//! cut in the middle of a write leaves the files of before with some of the 512-byte sectors that the write changed. Where the
//! write changed the database itself, it had synced its log before that, so the log is then as it was after the write.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use landfall_engine::State;
use landfall_model::Time;
use landfall_store::sqlite::Sqlite;
use landfall_store::{
    Batch, Compacted, Loaded, Reader, Snapshotter, Store, StoreError, Stored, Table, encode_state,
};
use landfall_testkit::Rng;

const DATABASE: &str = "journal.db";
const LOG: &str = "journal.db-wal";
const SECTOR: usize = 512;

/// What is wrong with the disk.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    /// The power fails in the write after so many.
    pub(crate) cut_after: Option<u64>,
    /// Where the files are that a power cut left.
    pub(crate) cut: Option<PathBuf>,
    /// Writes fail, having stored or not.
    pub(crate) fails: Option<bool>,
    pub(crate) full: bool,
}

/// Shared with whoever makes trouble.
pub(crate) type Shared = Arc<Mutex<Trouble>>;

pub(crate) fn lock(shared: &Shared) -> MutexGuard<'_, Trouble> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A store on a disk that may fail.
pub(crate) struct Disk {
    store: Sqlite,
    trouble: Shared,
    random: Rng,
}

impl Disk {
    pub(crate) fn new(store: Sqlite, trouble: Shared, random: Rng) -> Self {
        Self { store, trouble, random }
    }

    /// An append during which the power fails.
    fn cut(&mut self, batch: &Batch) -> StoreError {
        let dir = self.store.directory().to_path_buf();
        let before = Files::of(&dir);
        let _ = self.store.append(batch);
        let after = Files::of(&dir);
        let left = before.torn(&after, &mut self.random);
        let to = dir.with_extension("cut");
        if left.write(&to).is_ok() {
            lock(&self.trouble).cut = Some(to);
        }
        broken("the power fails")
    }
}

fn broken(what: &str) -> StoreError {
    StoreError::Io { what: what.into(), source: std::io::Error::other("simulated") }
}

/// The files of a database.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    database: Vec<u8>,
    log: Option<Vec<u8>>,
}

impl Files {
    pub(crate) fn of(dir: &Path) -> Self {
        let database = std::fs::read(dir.join(DATABASE)).unwrap_or_default();
        Self { database, log: std::fs::read(dir.join(LOG)).ok() }
    }

    pub(crate) fn write(&self, to: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(to)?;
        std::fs::write(to.join(DATABASE), &self.database)?;
        match &self.log {
            Some(log) => std::fs::write(to.join(LOG), log),
            None => Ok(()),
        }
    }

    /// What a power cut between these and those leaves.
    fn torn(&self, after: &Self, random: &mut Rng) -> Self {
        if self.database == after.database {
            let (old, new) = (self.log.clone().unwrap_or_default(), after.log.clone().unwrap_or_default());
            return Self { database: self.database.clone(), log: Some(some_sectors(old, &new, random)) };
        }
        let database = some_sectors(self.database.clone(), &after.database, random);
        Self { database, log: after.log.clone() }
    }

    /// The same with one bit changed in the database.
    pub(crate) fn flipped(mut self, random: &mut Rng) -> (Self, usize) {
        let at = random.index(self.database.len().max(1));
        if let Some(byte) = self.database.get_mut(at) {
            *byte ^= 1 << random.below(8);
        }
        (self, at)
    }
}

/// The old bytes with some sectors of the new ones: all, none, the first few, or any.
fn some_sectors(mut old: Vec<u8>, new: &[u8], random: &mut Rng) -> Vec<u8> {
    let sectors = new.len().div_ceil(SECTOR);
    let kind = random.below(4);
    let first = random.index(sectors.max(1));
    for sector in 0..sectors {
        let range = sector * SECTOR..((sector + 1) * SECTOR).min(new.len());
        let written = match kind {
            0 => false,
            1 => true,
            2 => sector < first,
            _ => random.chance(50),
        };
        if written {
            if old.len() < range.end {
                old.resize(range.end, 0);
            }
            old[range.clone()].copy_from_slice(&new[range]);
        }
    }
    old
}

/// Everything that a server would go on from, for comparing.
pub(crate) fn contents(dir: &Path) -> Result<Vec<u8>, StoreError> {
    let mut store = Sqlite::open(dir)?;
    let mut all = encode_state(&store.load()?.state);
    for table in Table::ALL {
        for (key, value) in store.scan(table, None, usize::MAX, false)? {
            all.extend_from_slice(table.name().as_bytes());
            all.extend_from_slice(key.as_bytes());
            all.extend_from_slice(&value);
        }
    }
    Ok(all)
}

impl Reader for Disk {
    fn incarnation(&self) -> &str {
        self.store.incarnation()
    }

    fn get(&mut self, table: Table, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(table, key)
    }

    fn scan(
        &mut self,
        table: Table,
        after: Option<&str>,
        limit: usize,
        newest_first: bool,
    ) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.store.scan(table, after, limit, newest_first)
    }

    fn events(&mut self, after: u64, limit: usize) -> Result<Vec<Stored>, StoreError> {
        self.store.events(after, limit)
    }

    fn oldest_seq(&mut self) -> Result<u64, StoreError> {
        self.store.oldest_seq()
    }

    fn last_seq(&mut self) -> Result<u64, StoreError> {
        self.store.last_seq()
    }

    fn seq_at(&mut self, at: Time) -> Result<u64, StoreError> {
        self.store.seq_at(at)
    }

    fn state_at(&mut self, at: Time) -> Result<Option<State>, StoreError> {
        self.store.state_at(at)
    }

    fn size_bytes(&mut self) -> Result<u64, StoreError> {
        self.store.size_bytes()
    }

    fn backup(&mut self, to: &Path) -> Result<(), StoreError> {
        self.store.backup(to)
    }
}

impl Store for Disk {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        if lock(&self.trouble).cut.is_some() {
            return Err(broken("there is no power"));
        }
        self.store.load()
    }

    fn append(&mut self, batch: &Batch) -> Result<u64, StoreError> {
        let (cut, full, fails) = {
            let mut trouble = lock(&self.trouble);
            if trouble.cut.is_some() {
                return Err(broken("there is no power"));
            }
            let cut = trouble.cut_after == Some(0);
            trouble.cut_after = trouble.cut_after.map(|writes| writes.saturating_sub(1));
            (cut, trouble.full, trouble.fails)
        };
        if cut {
            return Err(self.cut(batch));
        }
        if full {
            return Err(StoreError::Full { path: self.store.directory().to_path_buf() });
        }
        match fails {
            None => self.store.append(batch),
            Some(stored) => {
                if stored {
                    self.store.append(batch)?;
                }
                Err(broken("a sync failed"))
            }
        }
    }

    fn probe(&mut self, epoch: u32) -> Result<(), StoreError> {
        self.store.probe(epoch)
    }

    fn snapshot(&mut self, seq: u64, state: &[u8]) -> Result<(), StoreError> {
        self.store.snapshot(seq, state)
    }

    fn compact(&mut self, keep_events_since: Time) -> Result<Compacted, StoreError> {
        self.store.compact(keep_events_since)
    }

    fn reader(&self) -> Result<Box<dyn Reader>, StoreError> {
        self.store.reader()
    }

    fn snapshotter(&self) -> Result<Box<dyn Snapshotter>, StoreError> {
        self.store.snapshotter()
    }
}
