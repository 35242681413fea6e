//! Limits through control groups (version 2), where the machine and our rights allow it.
//!
//! A job that declared CPU or memory gets a group of its own below `landfall`: `memory.max` bounds its memory,
//! `cpu.max` its CPU, `cgroup.kill` ends it with all that it ever started, `memory.peak` and `memory.events` tell what
//! it used and whether the kernel killed it. The process enters the group itself, through a shell that writes its own
//! id and then becomes the job, so not one instruction of the job runs outside.
//!
//! Where there is no such hierarchy, or it may not be written, nothing is enforced and [`Cgroups::describe`] says so:
//! a limit that looks enforced and is not would be worse than none.

use std::io;
use std::path::{Path, PathBuf};

use super::wire::Limits;

/// Microseconds over which CPU time is shared out.
const PERIOD_US: u64 = 100_000;
/// The least share that the kernel accepts.
const QUOTA_US_MIN: u64 = 1_000;

/// What the shell runs before it becomes the job; `$1` is the group, the rest is the job.
const ENTER: &str = r#"echo $$ > "$1/cgroup.procs" || exit 126; shift; exec "$@""#;

/// Where groups of jobs are made, or why they are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroups {
    base: Result<PathBuf, String>,
}

/// What the kernel counted for a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counted {
    pub(crate) peak_bytes: Option<u64>,
    /// Whether it killed something for memory.
    pub(crate) oom: bool,
}

impl Cgroups {
    /// Looks for a place below the hierarchy mounted at `root`; `own` is the path of our own group in it.
    pub fn set_up(root: &Path, own: &str) -> Self {
        if !root.join("cgroup.controllers").exists() {
            return Self { base: Err(format!("no control groups version 2 at {}", root.display())) };
        }
        let own = root.join(own.trim_start_matches('/'));
        let mut why = String::new();
        let mut parents = vec![own];
        if parents[0] != root {
            parents.push(root.to_owned());
        }
        for parent in parents {
            match prepare(&parent) {
                Ok(base) => return Self { base: Ok(base) },
                Err(error) => why = format!("{} cannot be used: {error}", parent.display()),
            }
        }
        Self { base: Err(why) }
    }

    pub fn of_this_machine() -> Self {
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
        Self::set_up(Path::new("/sys/fs/cgroup"), own)
    }

    pub fn enforced(&self) -> bool {
        self.base.is_ok()
    }

    /// How limits are enforced, in one line.
    pub fn describe(&self) -> String {
        match &self.base {
            Ok(base) => {
                format!("CPU and memory limits are enforced by control groups below {}", base.display())
            }
            Err(why) => format!("CPU and memory limits are not enforced: {why}"),
        }
    }

    /// Makes a group with limits; `None` where limits are not enforced.
    pub(crate) fn make(&self, name: &str, limits: Limits) -> io::Result<Option<PathBuf>> {
        let Ok(base) = &self.base else { return Ok(None) };
        let group = base.join(name);
        match std::fs::create_dir(&group) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        if limits.ram_mib > 0 {
            let bytes = limits.ram_mib.saturating_mul(1 << 20);
            std::fs::write(group.join("memory.max"), bytes.to_string())?;
            // A job that swaps instead of ending makes the whole machine slow. Not every kernel has the file.
            let _ = std::fs::write(group.join("memory.swap.max"), "0");
            // One process too many ends the job, not a part of it.
            let _ = std::fs::write(group.join("memory.oom.group"), "1");
        }
        if limits.cpu_milli > 0 {
            let quota = (limits.cpu_milli.saturating_mul(PERIOD_US) / 1000).max(QUOTA_US_MIN);
            std::fs::write(group.join("cpu.max"), format!("{quota} {PERIOD_US}"))?;
        }
        Ok(Some(group))
    }
}

/// Makes `landfall` below a group and hands it the controllers. A group that holds processes may not hand anything on
/// (unless it is the root), so ours move to a leaf of their own first.
fn prepare(parent: &Path) -> io::Result<PathBuf> {
    let offered = std::fs::read_to_string(parent.join("cgroup.controllers"))?;
    for wanted in ["memory", "cpu"] {
        if !offered.split_ascii_whitespace().any(|name| name == wanted) {
            return Err(io::Error::other(format!("it has no {wanted} controller")));
        }
    }
    let control = parent.join("cgroup.subtree_control");
    if std::fs::write(&control, "+memory +cpu").is_err() {
        let leaf = parent.join("landfall-agent");
        let _ = std::fs::create_dir(&leaf);
        let members = std::fs::read_to_string(parent.join("cgroup.procs"))?;
        for pid in members.lines() {
            std::fs::write(leaf.join("cgroup.procs"), pid)?;
        }
        std::fs::write(&control, "+memory +cpu")?;
    }
    let base = parent.join("landfall");
    match std::fs::create_dir(&base) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    std::fs::write(base.join("cgroup.subtree_control"), "+memory +cpu")?;
    Ok(base)
}

/// The command that runs another one inside a group.
pub(crate) fn enter(group: &Path, argv: &[String]) -> Vec<String> {
    let mut inside =
        vec!["/bin/sh".into(), "-c".into(), ENTER.into(), "sh".into(), group.display().to_string()];
    inside.extend(argv.iter().cloned());
    inside
}

/// Ends everything in a group.
pub(crate) fn kill(group: &Path) {
    let _ = std::fs::write(group.join("cgroup.kill"), "1");
}

/// What the kernel counted.
pub(crate) fn counted(group: &Path) -> Counted {
    let peak = std::fs::read_to_string(group.join("memory.peak")).ok();
    let events = std::fs::read_to_string(group.join("memory.events")).unwrap_or_default();
    let killed =
        events.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count.trim() != "0");
    Counted { peak_bytes: peak.and_then(|text| text.trim().parse().ok()), oom: killed }
}

/// Removes a group; one that still holds dying processes is left for the next time.
pub(crate) fn remove(group: &Path) {
    let _ = std::fs::remove_dir(group);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hierarchy(controllers: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("dir");
        std::fs::create_dir_all(dir.path().join("agent.slice")).expect("made");
        for group in ["", "agent.slice"] {
            std::fs::write(dir.path().join(group).join("cgroup.controllers"), controllers).expect("written");
            std::fs::write(dir.path().join(group).join("cgroup.procs"), "").expect("written");
        }
        dir
    }

    fn read(path: PathBuf) -> String {
        std::fs::read_to_string(path).expect("there")
    }

    #[test]
    fn limits_are_written_where_the_kernel_reads_them() {
        let dir = hierarchy("cpuset cpu io memory pids");
        let groups = Cgroups::set_up(dir.path(), "/agent.slice");
        assert!(groups.enforced(), "{groups:?}");
        let base = dir.path().join("agent.slice/landfall");
        assert_eq!(read(base.join("cgroup.subtree_control")), "+memory +cpu");
        let group =
            groups.make("job.1", Limits { cpu_milli: 1500, ram_mib: 64 }).expect("made").expect("enforced");
        assert_eq!(group, base.join("job.1"));
        assert_eq!(read(group.join("memory.max")), "67108864");
        assert_eq!(read(group.join("cpu.max")), "150000 100000");
        assert_eq!(read(group.join("memory.swap.max")), "0");
        // A tiny share is raised to what the kernel accepts; what was not asked is not written.
        let group =
            groups.make("job.2", Limits { cpu_milli: 1, ram_mib: 0 }).expect("made").expect("enforced");
        assert_eq!(read(group.join("cpu.max")), "1000 100000");
        assert!(!group.join("memory.max").exists());
        kill(&group);
        assert_eq!(read(group.join("cgroup.kill")), "1");
    }

    #[test]
    fn what_the_kernel_counted_is_read_back() {
        let dir = tempfile::tempdir().expect("dir");
        assert_eq!(counted(dir.path()), Counted::default());
        std::fs::write(dir.path().join("memory.peak"), "1048576\n").expect("written");
        std::fs::write(dir.path().join("memory.events"), "low 0\noom 1\noom_kill 1\n").expect("written");
        assert_eq!(counted(dir.path()), Counted { peak_bytes: Some(1 << 20), oom: true });
        std::fs::write(dir.path().join("memory.events"), "oom_kill 0\n").expect("written");
        assert!(!counted(dir.path()).oom);
    }

    #[test]
    fn what_cannot_be_enforced_is_said() {
        let none = tempfile::tempdir().expect("dir");
        let groups = Cgroups::set_up(none.path(), "/");
        assert!(groups.describe().contains("not enforced: no control groups"), "{}", groups.describe());
        assert_eq!(groups.make("a", Limits { cpu_milli: 1, ram_mib: 1 }).expect("fine"), None);
        let poor = hierarchy("cpuset pids");
        let groups = Cgroups::set_up(poor.path(), "/agent.slice");
        assert!(groups.describe().contains("no memory controller"), "{}", groups.describe());
    }

    #[test]
    fn the_shell_enters_the_group_and_becomes_the_job() {
        let dir = tempfile::tempdir().expect("dir");
        let argv =
            enter(dir.path(), &["sh".into(), "-c".into(), "echo \"$$ $1\"".into(), "x".into(), "a b".into()]);
        let output = std::process::Command::new(&argv[0]).args(&argv[1..]).output().expect("ran");
        let pid = read(dir.path().join("cgroup.procs"));
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{} a b\n", pid.trim()));
    }
}
