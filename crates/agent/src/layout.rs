//! Where things lie in the data directory, and how jobs are named there.
//!
//! Files lie flat in a few directories instead of one directory per job: a job that does nothing costs two files and
//! one directory, and what it leaves empty becomes the next one's (`keeper::spares`).

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use landfall_model::life::Fence;
use sha2::{Digest as _, Sha256};

/// Longest job id that is used as a file name as it is.
const PLAIN_NAME_BYTES_MAX: usize = 120;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    root: PathBuf,
}

impl Layout {
    /// A layout below a directory; nothing is made yet.
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Makes the directories. Only the owner may look inside: logs and inputs of jobs are nobody else's business.
    pub(crate) fn create(&self) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.root)?;
        std::fs::set_permissions(&self.root, std::fs::Permissions::from_mode(0o700))?;
        for name in ["logs", "work", "kept", "checkpoints", "inputs", "metrics"] {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(self.root.join(name))?;
        }
        Ok(())
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The journal of the server that everything here is about, if it is known.
    pub(crate) fn journal(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.file("server-journal")).ok()?;
        Some(text.trim().to_owned())
    }

    pub(crate) fn set_journal(&self, journal: &str) -> io::Result<()> {
        replace(&self.file("server-journal"), journal)
    }

    /// Whether the server has heard that this keeper cannot tell what began before it.
    pub(crate) fn is_forgetting_told(&self, boot: &str, pid: u32) -> bool {
        std::fs::read_to_string(self.file("forgetting-told"))
            .is_ok_and(|text| text == format!("{boot} {pid}"))
    }

    pub(crate) fn note_forgetting_told(&self, boot: &str, pid: u32) -> io::Result<()> {
        replace(&self.file("forgetting-told"), &format!("{boot} {pid}"))
    }

    /// Puts the checkpoints of all jobs but these where no job finds them.
    pub(crate) fn put_checkpoints_away(&self, kept: &[&str]) -> io::Result<()> {
        let here = self.file("checkpoints");
        let name = |number: u32| self.file(&format!("checkpoints-old-{number}"));
        let Some(away) = (1..u32::MAX).map(name).find(|path| !path.exists()) else { return Ok(()) };
        if std::fs::read_dir(&here)?.next().is_none() {
            return Ok(());
        }
        std::fs::rename(&here, &away)?;
        self.create()?;
        for job in kept {
            let _ = std::fs::rename(away.join(safe(job)), self.checkpoint(job));
        }
        Ok(())
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.file("keeper.sock")
    }

    pub(crate) fn stdout(&self, fence: &Fence) -> PathBuf {
        self.log(fence, "out")
    }

    pub(crate) fn stderr(&self, fence: &Fence) -> PathBuf {
        self.log(fence, "err")
    }

    pub(crate) fn stdin(&self, fence: &Fence) -> PathBuf {
        self.log(fence, "in")
    }

    /// The script that it runs, if it brought one.
    pub(crate) fn script(&self, fence: &Fence) -> PathBuf {
        self.log(fence, "script")
    }

    /// Where what is typed for a job goes in, if somebody is at it.
    pub(crate) fn typed(&self, fence: &Fence) -> PathBuf {
        self.log(fence, "typed")
    }

    /// Where a runtime of ours says why it ended a job.
    pub(crate) fn outcome(&self, fence: &Fence) -> PathBuf {
        self.log(fence, "outcome")
    }

    /// The fresh working directory of an attempt.
    pub(crate) fn work(&self, fence: &Fence) -> PathBuf {
        self.root.join("work").join(stem(fence))
    }

    /// Puts the fresh directory of an attempt where what people may want stays for a while, if there is anything in it; says where.
    pub(crate) fn keep_work(&self, fence: &Fence) -> Option<PathBuf> {
        let work = self.work(fence);
        let kept = self.keep(&work)?;
        // What the job wrote may lie in there, and is still to be read.
        for log in [self.stdout(fence), self.stderr(fence)] {
            let Ok(file) = std::fs::read_link(&log) else { continue };
            if let Ok(inside) = file.strip_prefix(&work) {
                let _ = std::fs::remove_file(&log)
                    .and_then(|()| std::os::unix::fs::symlink(kept.join(inside), &log));
            }
        }
        Some(kept)
    }

    /// The same, of any working directory.
    pub(crate) fn keep(&self, work: &Path) -> Option<PathBuf> {
        std::fs::read_dir(work).ok()?.next()?.ok()?;
        let name = work.file_name()?.to_str()?;
        let kept = self.root.join("kept");
        // Jobs of another journal may have been called alike.
        let names =
            std::iter::once(name.to_owned()).chain((2..1000).map(|number| format!("{name}-{number}")));
        let to = names.map(|name| kept.join(name)).find(|path| !path.exists())?;
        std::fs::rename(work, &to).ok()?;
        Some(to)
    }

    /// Everything that belongs to an attempt alone.
    pub(crate) fn all_of(&self, fence: &Fence) -> Vec<PathBuf> {
        let logs = ["out", "err", "in", "script", "typed", "outcome"].map(|ending| self.log(fence, ending));
        logs.into_iter().chain([self.work(fence)]).collect()
    }

    /// The directories that hold nothing but what belongs to attempts.
    pub(crate) fn of_jobs(&self) -> [PathBuf; 2] {
        [self.root.join("logs"), self.root.join("work")]
    }

    /// Where a job saves its work. It belongs to the job, not to the attempt: the next attempt finds it.
    pub(crate) fn checkpoint(&self, job: &str) -> PathBuf {
        self.root.join("checkpoints").join(safe(job))
    }

    /// Says that a job saved its work in its checkpoint directory. It lies inside, so it goes with what was saved.
    pub(crate) fn saved_mark(&self, job: &str) -> PathBuf {
        self.checkpoint(job).join(".landfall-saved")
    }

    /// Where services say how they do.
    pub(crate) fn metrics(&self) -> PathBuf {
        self.root.join("metrics")
    }

    /// Where an attempt says how it does.
    pub(crate) fn metric(&self, fence: &Fence) -> PathBuf {
        self.metrics().join(stem(fence))
    }

    /// Where an input lies once it was fetched.
    pub(crate) fn input(&self, digest: &str) -> PathBuf {
        self.root.join("inputs").join(safe(digest))
    }

    fn log(&self, fence: &Fence, ending: &str) -> PathBuf {
        self.root.join("logs").join(format!("{}.{ending}", stem(fence)))
    }
}

/// Writes a small file so that it is there as a whole, also after a power cut.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = std::fs::File::create(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(fresh, path)
}

/// The name of an attempt in the file system.
fn stem(fence: &Fence) -> String {
    format!("{}.{}", safe(fence.job.as_str()), fence.attempt)
}

/// An id as a file name: itself if it is harmless, its hash otherwise. An id may hold slashes and dots.
fn safe(id: &str) -> String {
    let harmless = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if id.len() <= PLAIN_NAME_BYTES_MAX && !id.starts_with(['.', '~']) && id.bytes().all(harmless) {
        return id.to_owned();
    }
    let digest = Sha256::digest(id.as_bytes());
    // The mark keeps a hash apart from a job that happens to be called like one.
    std::iter::once("~".to_owned()).chain(digest.iter().take(16).map(|byte| format!("{byte:02x}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_model::JobId;

    fn fence(job: &str) -> Fence {
        Fence { job: JobId::new(job).expect("id"), attempt: 2, epoch: 1 }
    }

    #[test]
    fn plain_ids_are_their_own_names() {
        let layout = Layout::new("/d");
        assert_eq!(layout.stdout(&fence("job-7_a.b")), Path::new("/d/logs/job-7_a.b.2.out"));
    }

    #[test]
    fn ids_never_leave_the_directory() {
        let layout = Layout::new("/d");
        for id in ["../../etc/passwd", ".", "..", "a/b", "é", &"x".repeat(200)] {
            let path = layout.work(&fence(id));
            assert_eq!(path.parent(), Some(Path::new("/d/work")), "{id}");
            let name = path.file_name().and_then(|name| name.to_str()).expect("name").to_owned();
            assert!(name.starts_with('~') && name.len() < 60, "{name}");
        }
        assert_ne!(layout.work(&fence("a/b")), layout.work(&fence("a/c")));
    }

    #[test]
    fn the_directory_is_private() {
        let dir = tempfile::tempdir().expect("dir");
        let layout = Layout::new(dir.path().join("agent"));
        layout.create().expect("made");
        layout.create().expect("made again");
        let mode = std::fs::metadata(layout.root()).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
