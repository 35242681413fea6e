//! Files and directories that jobs leave empty, for the next jobs.
//!
//! To make and remove two files and a directory is most of what a short job costs: a file system that is asked for new
//! inodes thousands of times a second looks for long for one that was not in use a moment ago. To give a name to what is
//! there already costs a fraction of it. Only what looks like new is used again (empty, one link, the permissions it began
//! with), and only while nothing of a job is left that could still write to it; the caller knows that.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Spares of one kind: as many as jobs may be told ahead and end between two reports.
const SPARES_MAX: usize = 512;
/// Links to a directory without directories inside.
const DIR_LINKS: u64 = 2;

/// What may be used again.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    kinds: Mutex<Kinds>,
}

#[derive(Debug, Default)]
struct Kinds {
    files: Kind,
    dirs: Kind,
}

/// Spares of one kind, and the permissions that new ones get on this machine.
#[derive(Debug, Default)]
struct Kind {
    paths: Vec<PathBuf>,
    mode: Option<u32>,
}

impl Kind {
    /// Gives a spare a name; says whether there was one.
    fn rename(&mut self, to: &Path) -> bool {
        // Jobs of another journal may be called alike: what has this name is this job's now, and nobody else's.
        self.paths.retain(|spare| spare.as_os_str() != to.as_os_str());
        // One that somebody removed is no loss.
        while let Some(spare) = self.paths.pop() {
            if std::fs::rename(&spare, to).is_ok() {
                return true;
            }
            let _ = std::fs::remove_file(&spare).or_else(|_| std::fs::remove_dir_all(&spare));
        }
        false
    }

    fn keep(&mut self, path: PathBuf, found: &Metadata) -> bool {
        let fits = self.mode == Some(found.mode()) && self.paths.len() < SPARES_MAX;
        if fits {
            self.paths.push(path);
        }
        fits
    }
}

impl Spares {
    fn kinds(&self) -> MutexGuard<'_, Kinds> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens an empty file for appending: what was sent to the server can be cut off without leaving a hole.
    pub(crate) fn file(&self, path: &Path) -> io::Result<File> {
        let known = self.kinds().files.rename(path);
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        if !known {
            self.kinds().files.mode = Some(file.metadata()?.mode());
        }
        Ok(file)
    }

    /// Makes an empty directory. One that is there already is left as it is.
    pub(crate) fn dir(&self, path: &Path) -> io::Result<()> {
        // A rename would replace an empty directory; a start that is repeated finds its own.
        if self.kinds().dirs.rename(path) {
            return Ok(());
        }
        match std::fs::create_dir(path) {
            Ok(()) => {
                self.kinds().dirs.mode = Some(std::fs::metadata(path)?.mode());
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes all spares, at the end of the keeper.
    pub(crate) fn clear(&self) {
        let Kinds { files, dirs } = std::mem::take(&mut *self.kinds());
        files.paths.iter().for_each(|path| drop(std::fs::remove_file(path)));
        dirs.paths.iter().for_each(|path| drop(std::fs::remove_dir(path)));
    }

    /// Takes a file that nobody needs any more, or removes it.
    pub(crate) fn give_file(&self, path: PathBuf) {
        let Ok(found) = std::fs::symlink_metadata(&path) else { return };
        let fresh =
            found.is_file() && found.nlink() == 1 && (found.len() == 0 || File::create(&path).is_ok());
        if !(fresh && self.kinds().files.keep(path.clone(), &found)) {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Takes a directory that nobody needs any more, if it is empty. Says whether it did.
    pub(crate) fn give_dir(&self, path: &Path) -> bool {
        let Ok(found) = std::fs::symlink_metadata(path) else { return false };
        let empty = found.is_dir()
            && found.nlink() <= DIR_LINKS
            && std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        empty && self.kinds().dirs.keep(path.to_owned(), &found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    fn inode(path: &Path) -> u64 {
        std::fs::metadata(path).expect("there").ino()
    }

    #[test]
    fn what_was_left_empty_is_used_again() {
        let dir = tempfile::tempdir().expect("dir");
        let at = |name: &str| dir.path().join(name);
        let spares = Spares::default();
        spares.file(&at("a.out")).expect("made");
        spares.dir(&at("a")).expect("made");
        let (file, work) = (inode(&at("a.out")), inode(&at("a")));
        spares.give_file(at("a.out"));
        assert!(spares.give_dir(&at("a")));
        spares.file(&at("b.out")).expect("made");
        spares.dir(&at("b")).expect("made");
        assert_eq!((inode(&at("b.out")), inode(&at("b"))), (file, work));
        assert!(!at("a.out").exists() && !at("a").exists());
    }

    #[test]
    fn the_next_job_finds_nothing_of_the_last() {
        let dir = tempfile::tempdir().expect("dir");
        let at = |name: &str| dir.path().join(name);
        let spares = Spares::default();
        let mut file = spares.file(&at("a.out")).expect("made");
        file.write_all(b"secret").expect("written");
        spares.give_file(at("a.out"));
        spares.file(&at("b.out")).expect("made");
        assert_eq!(std::fs::read(at("b.out")).expect("read"), b"");
        spares.dir(&at("a")).expect("made");
        std::fs::write(at("a").join("left"), "x").expect("written");
        assert!(!spares.give_dir(&at("a")), "not empty");
    }

    #[test]
    fn what_was_changed_is_not_used_again() {
        let dir = tempfile::tempdir().expect("dir");
        let at = |name: &str| dir.path().join(name);
        let spares = Spares::default();
        spares.file(&at("a.out")).expect("made");
        std::fs::set_permissions(at("a.out"), std::fs::Permissions::from_mode(0o400)).expect("set");
        spares.give_file(at("a.out"));
        assert!(!at("a.out").exists(), "removed");
        spares.file(&at("b.out")).expect("made");
        std::fs::hard_link(at("b.out"), at("link")).expect("linked");
        spares.give_file(at("b.out"));
        spares.dir(&at("d")).expect("made");
        std::fs::set_permissions(at("d"), std::fs::Permissions::from_mode(0o500)).expect("set");
        assert!(!spares.give_dir(&at("d")));
        let kinds = spares.kinds();
        assert!(kinds.files.paths.is_empty() && kinds.dirs.paths.is_empty());
    }

    #[test]
    fn a_job_that_is_called_like_one_before_keeps_its_files() {
        let dir = tempfile::tempdir().expect("dir");
        let at = |name: &str| dir.path().join(name);
        let spares = Spares::default();
        for name in ["a.out", "a.err"] {
            spares.file(&at(name)).expect("made");
        }
        spares.give_file(at("a.out"));
        spares.give_file(at("a.err"));
        let mut file = spares.file(&at("a.out")).expect("made");
        spares.file(&at("b.out")).expect("made");
        spares.file(&at("c.out")).expect("made");
        file.write_all(b"of a").expect("written");
        assert_eq!(std::fs::read(at("a.out")).expect("still there"), b"of a");
    }
}
