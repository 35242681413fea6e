//! What jobs leave behind: processes that left their group and outlived their parents.
//!
//! The kernel hands such a process to the nearest ancestor that asked for it, and the keeper does. So it can end what
//! belongs to a job that is over, also where there are no control groups, and it knows when nothing is left that could
//! still write to the files of a job. Orphans come to the first thread; jobs are started by others, so whatever is a child
//! of the first thread is an orphan, or a helper that the keeper started there itself.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use landfall_model::JobId;
use landfall_model::life::Fence;
use rustix::process::{Pid, Signal, WaitOptions};

use crate::layout::Layout;

/// Where orphans are looked for.
#[derive(Debug)]
pub(crate) struct Orphans {
    /// A list that the kernel keeps; `None` if orphans do not come here.
    children: Option<PathBuf>,
    seen: AtomicBool,
}

impl Orphans {
    /// Takes over the orphans of all descendants. To be called from the first thread of the process.
    pub(crate) fn adopt() -> Self {
        let me = rustix::process::getpid();
        let children = PathBuf::from(format!("/proc/self/task/{}/children", me.as_raw_nonzero()));
        let adopted = rustix::process::set_child_subreaper(Some(me)).is_ok() && children.exists();
        Self { children: adopted.then_some(children), seen: AtomicBool::new(false) }
    }

    /// The orphans there are, helpers included; `None` if that cannot be known.
    fn list(&self) -> Option<Vec<Pid>> {
        let text = std::fs::read_to_string(self.children.as_deref()?).ok()?;
        Some(text.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect())
    }

    /// Whether it is known that there are none. If there are, the next one to look will do something about them.
    pub(crate) fn are_none(&self) -> bool {
        let orphans = self.list();
        if orphans.as_ref().is_some_and(|orphans| !orphans.is_empty()) {
            self.seen.store(true, Ordering::Relaxed);
        }
        orphans.is_some_and(|orphans| orphans.is_empty())
    }

    /// Whether somebody saw orphans since the last time.
    pub(crate) fn were_seen(&self) -> bool {
        self.seen.swap(false, Ordering::Relaxed)
    }

    /// Buries orphans that are dead and ends those whose job is over.
    pub(crate) fn sweep(&self, is_helper: impl Fn(Pid) -> bool, is_over: impl Fn(&Fence) -> bool) {
        for pid in self.list().unwrap_or_default().into_iter().filter(|pid| !is_helper(*pid)) {
            let buried = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
            if matches!(buried, Ok(Some(_))) {
                continue;
            }
            // One that hides where it comes from is left alone: it could belong to a job that runs.
            let proc = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
            if job_of(&proc).is_some_and(|fence| is_over(&fence)) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Ends every process that a keeper of this directory before this one left, as far as environments tell. The journal does not
/// know them all: not what a job started itself, and not what was started in the very moment the keeper was killed.
pub(crate) fn end_strays(layout: &Layout) {
    let Ok(processes) = std::fs::read_dir("/proc") else { return };
    for entry in processes.flatten() {
        let id = entry.file_name().to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
        let Some(pid) = id.filter(|_| belongs_to(&entry.path(), layout.root())) else { continue };
        let _ = rustix::process::kill_process(pid, Signal::KILL);
        eprintln!("keeper: ended process {}, which was left over", pid.as_raw_nonzero());
    }
}

/// Whether a process is part of a job of an agent with this directory.
fn belongs_to(proc: &Path, root: &Path) -> bool {
    let checkpoints = value(&environment(proc), "LANDFALL_CHECKPOINT_DIR").map(PathBuf::from);
    checkpoints.is_some_and(|path| path.starts_with(root))
}

/// The attempt to which a process belongs, as its environment says.
fn job_of(proc: &Path) -> Option<Fence> {
    let environment = environment(proc);
    let job = JobId::new(&value(&environment, "LANDFALL_JOB_ID")?).ok()?;
    Some(Fence { job, attempt: value(&environment, "LANDFALL_ATTEMPT")?.parse().ok()?, epoch: 0 })
}

/// The environment with which a process began; empty if it cannot be read.
fn environment(proc: &Path) -> Vec<u8> {
    std::fs::read(proc.join("environ")).unwrap_or_default()
}

fn value(environment: &[u8], name: &str) -> Option<String> {
    let mut entries =
        environment.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
    entries.find_map(|entry| entry.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_the_job() {
        let dir = tempfile::tempdir().expect("dir");
        std::fs::write(dir.path().join("environ"), b"A=b\0LANDFALL_JOB_ID=12.0007\0LANDFALL_ATTEMPT=3\0")
            .expect("written");
        let fence = job_of(dir.path()).expect("named");
        assert_eq!((fence.job.as_str(), fence.attempt), ("12.0007", 3));
        std::fs::write(dir.path().join("environ"), b"LANDFALL_JOB_IDS=1\0LANDFALL_ATTEMPT=3\0")
            .expect("written");
        assert_eq!(job_of(dir.path()), None);
    }
}
