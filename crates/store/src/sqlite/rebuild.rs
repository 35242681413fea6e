//! A journal made from what is good in another file: from a backup, or from a damaged journal as far as it is good.
//!
//! What was stored behind that point is gone, and its numbers will be given again. So the journal gets a name of its own. It
//! counts as a backup, on which no server starts, until [`Sqlite::finish`] is called.

use std::fs;
use std::path::{Path, PathBuf};

use landfall_engine::State;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::directory::{self, Directory, with_end};
use super::head::Head;
use super::reader::Reading;
use super::snapshots::Newest;
use super::verify::{self, Checked, Damage, Progress};
use super::{Sqlite, connect, explain, journal, records, schema, snapshots, wal};
use crate::codec::encode_state;
use crate::error::StoreError;

impl Sqlite {
    /// Looks at everything in a data directory that no server uses, or in a backup.
    ///
    /// # Errors
    /// When there is no journal, a server uses it, or it cannot be looked at. What is damaged is no error.
    pub fn check(at: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Checked, StoreError> {
        let (source, _lock) = Source::open(at)?;
        source.check(progress)
    }

    /// Makes a data directory from a backup. It must not be there, or be empty.
    ///
    /// # Errors
    /// When the backup is damaged, or the directory has something in it.
    pub fn restore(
        backup: &Path,
        dir: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Self, Checked), StoreError> {
        let (source, _lock) = Source::open(backup)?;
        let checked = source.check(progress)?;
        checked.sound()?;
        let is_new = !dir.exists();
        let taken = fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
        if taken || dir.is_file() {
            return Err(StoreError::Exists { path: dir.to_path_buf() });
        }
        let made = Directory::lock(dir).and_then(|mut directory| {
            let path = directory.path().join(directory::DATABASE);
            source.rebuild(&checked, &path)?;
            directory.database()?;
            Self::marked(directory, path)
        });
        if made.is_err() {
            // Nothing was there before; what cannot be removed is refused the next time.
            let _ = if is_new { fs::remove_dir_all(dir) } else { clear(dir) };
        }
        made.map(|store| (store, checked))
    }

    /// Goes back to the last point up to which a damaged journal is good. The damaged one is kept beside it under the name that
    /// is given back.
    ///
    /// # Errors
    /// When nothing is damaged, or there is no such point.
    pub fn fall_back(
        dir: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Self, Checked, PathBuf), StoreError> {
        let (source, lock) = Source::open(dir)?;
        let Some(mut lock) = lock else {
            return Err(StoreError::NoDirectory { path: dir.to_path_buf() });
        };
        let checked = source.check(progress)?;
        if checked.damage.is_empty() {
            return Err(StoreError::Whole { path: dir.to_path_buf() });
        }
        let (old, new) = (source.path.clone(), dir.join("journal.db.new"));
        let _ = fs::remove_file(&new);
        source.rebuild(&checked, &new)?;
        drop(source);
        let kept = free_name(dir);
        let moved = |from: &Path, to: &Path| {
            fs::rename(from, to)
                .map_err(|error| StoreError::io(format!("cannot rename {}", from.display()), error))
        };
        for end in ["-wal", "-shm"] {
            let log = with_end(&old, end);
            if log.exists() {
                moved(&log, &with_end(&kept, end))?;
            }
        }
        moved(&old, &kept)?;
        moved(&new, &old)?;
        directory::sync_directory(dir)
            .map_err(|error| StoreError::io(format!("cannot sync {}", dir.display()), error))?;
        lock.database()?;
        Ok((Self::marked(lock, old)?, checked, kept))
    }

    /// A journal that is not finished yet.
    fn marked(directory: Directory, path: PathBuf) -> Result<Self, StoreError> {
        let mut conn = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        schema::prepare(&mut conn, &path, false)?;
        let incarnation = Head::read(&conn, &path)?.incarnation;
        Ok(Self { reading: Reading { conn, path, incarnation }, directory })
    }

    /// Lets servers start on a journal that was restored.
    ///
    /// # Errors
    /// When that cannot be stored.
    pub fn finish(&mut self) -> Result<(), StoreError> {
        let Reading { conn, path, .. } = &self.reading;
        let head = Head { backup: false, ..Head::read(conn, path)? };
        head.write(conn).map_err(explain(path))
    }
}

/// Where a damaged journal is kept.
fn free_name(dir: &Path) -> PathBuf {
    (1_u32..)
        .map(|number| dir.join(format!("journal.db.damaged-{number}")))
        .find(|path| !path.exists())
        .unwrap_or_default()
}

fn clear(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        fs::remove_file(entry?.path())?;
    }
    Ok(())
}

/// A file that is read from.
struct Source {
    conn: Connection,
    path: PathBuf,
    format: u32,
    /// What is damaged in the log of a server that was killed.
    log: Option<Damage>,
}

impl Source {
    /// A backup, or a data directory, which is locked then.
    fn open(at: &Path) -> Result<(Self, Option<Directory>), StoreError> {
        let path = if at.is_dir() { at.join(directory::DATABASE) } else { at.to_path_buf() };
        let cannot = |error| StoreError::io(format!("cannot open {}", path.display()), error);
        fs::metadata(&path).map_err(cannot)?;
        let (lock, log) = if at.is_dir() {
            let mut lock = Directory::lock(at)?;
            lock.database()?;
            (Some(lock), wal::damage(&path)?)
        } else {
            directory::looks_like_sqlite(&mut fs::File::open(&path).map_err(cannot)?, &path)?;
            (None, None)
        };
        let conn = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        // The log of a server that was killed is read with the database and stays as it is: of a damaged one SQLite would take
        // in the beginning and delete the rest.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(explain(&path))?;
        let format = schema::check(&conn, &path)?;
        if format == 0 {
            return Err(StoreError::NotOurs { path, why: "nothing was ever stored in it".into() });
        }
        Ok((Self { conn, path, format, log }, lock))
    }

    fn check(&self, progress: &mut dyn FnMut(Progress)) -> Result<Checked, StoreError> {
        let mut checked = verify::everything(&self.conn, &self.path, self.format, progress)?;
        checked.damage.splice(..0, self.log.clone());
        Ok(checked)
    }

    /// Writes what is good into a new file, under a new name and marked as a backup.
    fn rebuild(&self, checked: &Checked, to: &Path) -> Result<(), StoreError> {
        let Some(good) = checked.good_until else {
            return Err(StoreError::damaged(
                "the journal",
                "no snapshot is good and its first events are not there, so there is nothing to go back to",
            ));
        };
        let state = self.state_at(good)?;
        directory::create_private(to)
            .map_err(|error| StoreError::io(format!("cannot make {}", to.display()), error))?;
        let mut into = connect(to, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        schema::prepare(&mut into, to, false)?;
        let made = Head::read(&into, to)?;
        let head = Head { epoch: state.epoch, last_seq: good, backup: true, ..made };
        head.write(&into).map_err(explain(to))?;
        let from = journal::good_from(&self.conn, &self.path, good)?;
        journal::copy(&self.conn, &mut into, from, good).map_err(explain(to))?;
        self.copy_records(&mut into, to)?;
        if good > 0 {
            snapshots::store(&mut into, to, good, &encode_state(&state))?;
        }
        into.close().map_err(|(_, error)| explain(to)(error))
    }

    /// The state after an event up to which everything is good.
    fn state_at(&self, good: u64) -> Result<State, StoreError> {
        let Newest { mut state, seq: base, .. } = snapshots::newest_good(&self.conn, &self.path)?;
        if good > base {
            journal::walk(&self.conn, &self.path, base, |stored| {
                state.apply(stored.at, &stored.event);
                if stored.seq == good {
                    std::ops::ControlFlow::Break(())
                } else {
                    std::ops::ControlFlow::Continue(())
                }
            })?;
        }
        Ok(state)
    }

    fn copy_records(&self, into: &mut Connection, to: &Path) -> Result<(), StoreError> {
        let tx = into.transaction().map_err(explain(to))?;
        for newest_first in [false, true] {
            let copied = records::all(&self.conn, &self.path, self.format, newest_first, |read| match read {
                Ok((kind, key, value)) => records::put(&tx, kind, &key, &value).map_err(explain(to)),
                Err(StoreError::Damaged { .. }) => Ok(()),
                Err(error) => Err(error),
            });
            match copied {
                // From one end all of them were had.
                Ok(()) => break,
                Err(StoreError::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        tx.commit().map_err(explain(to))
    }
}
