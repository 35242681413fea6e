//! Limits through control groups, where the machine and our rights allow it.
//!
//! A job that declared CPU or memory gets a group of its own below `landfall`, in the unified hierarchy (version 2) or, where that has
//! no such controllers, in the hierarchies of version 1. The kernel then bounds its CPU and memory, ends it with all that it ever started,
//! and tells what it used and whether something was killed for memory.
//!
//! *Not one instruction of a job runs outside its group.* In version 2 a process enters as a whole: a shell writes its own id and then
//! becomes the job. In version 1 a thread can enter alone, and what it starts is born there: that costs a tenth of a shell.
//!
//! To make a group, to enter and to remove it costs a seventh of a short job. So in version 1 groups that bound nothing but CPU are kept for
//! the next job with the same bound, with their files open; what a job used of its bound is not held against the next one.
//!
//! Groups lie below one that is named after the keeper, so that several on one machine do not meet. Where nothing may be written,
//! nothing is enforced and [`Cgroups::limits`] says so: a limit that looks enforced and is not would be worse than none.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use landfall_api::node::Limits as Enforced;
use rustix::process::{Pid, Signal, kill_process};

use super::wire::Limits;

/// Microseconds over which CPU time is shared out.
const PERIOD_US: u64 = 100_000;
/// The least share that the kernel accepts.
const QUOTA_US_MIN: u64 = 1_000;
/// How often what is left in a group of version 1 is looked at and killed: each time whatever was born meanwhile.
const KILL_ROUNDS: u32 = 20;
/// Groups that are kept for the next job.
const IDLE_MAX: usize = 64;

/// What the shell runs before it becomes the job; `$1` is the group, the rest is the job.
const ENTER: &str = r#"echo $$ > "$1/cgroup.procs" || exit 126; shift; exec "$@""#;

/// Where groups of jobs are made, or why they are not.
#[derive(Debug)]
pub struct Cgroups {
    /// The unified hierarchy.
    unified: Result<PathBuf, String>,
    /// Hierarchies of version 1, where that is not to be had.
    memory: Result<Hierarchy, String>,
    cpu: Result<Hierarchy, String>,
    /// Groups for CPU in which nothing runs.
    idle: Mutex<Vec<Part>>,
    count: AtomicU64,
}

/// One hierarchy of version 1.
#[derive(Debug)]
struct Hierarchy {
    base: PathBuf,
    /// Takes a thread back to the group that the keeper itself is in.
    home: Arc<File>,
}

/// The group of a job.
#[derive(Debug)]
pub(crate) enum Group {
    Unified(PathBuf),
    /// Its groups in the hierarchies of version 1.
    Each(Vec<Part>),
}

/// A group in one hierarchy of version 1, with the files that every job needs.
#[derive(Debug)]
pub(crate) struct Part {
    base: PathBuf,
    tasks: File,
    home: Arc<File>,
    /// What it bounds, if that is CPU.
    quota_us: Option<u64>,
}

/// What the kernel counted for a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counted {
    pub(crate) peak_bytes: Option<u64>,
    /// Whether it killed something for memory.
    pub(crate) oom: bool,
}

impl Cgroups {
    pub fn of_this_machine() -> Self {
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let who = std::process::id().to_string();
        Self::set_up(Path::new("/sys/fs/cgroup"), &mounts, &own, &who)
    }

    /// Looks for a place below the unified hierarchy mounted at `root`, or else in those of version 1 that are mounted. `own` names our
    /// own groups as `/proc/self/cgroup` does, `who` our groups for jobs.
    fn set_up(root: &Path, mounts: &str, own: &str, who: &str) -> Self {
        let of_unified = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
        let unified = unified(root, of_unified, who);
        if unified.is_ok() {
            return Self::at(unified, Err(String::new()), Err(String::new()));
        }
        let each = |controller| hierarchy(mounts, own, controller, who);
        Self::at(unified, each("memory"), each("cpu"))
    }

    fn at(
        unified: Result<PathBuf, String>,
        memory: Result<Hierarchy, String>,
        cpu: Result<Hierarchy, String>,
    ) -> Self {
        Self { unified, memory, cpu, idle: Mutex::default(), count: AtomicU64::new(0) }
    }

    /// Which limits bind, and how, in one line.
    pub fn limits(&self) -> Enforced {
        let why_not = match &self.unified {
            Ok(base) => {
                let how =
                    format!("CPU and memory limits are enforced by control groups below {}", above(base));
                return Enforced { cpu: true, memory: true, how };
            }
            Err(why) => why,
        };
        let (cpu, memory) = (self.cpu.is_ok(), self.memory.is_ok());
        let how = match (&self.cpu, &self.memory) {
            (Ok(cpu), Ok(memory)) => format!(
                "CPU and memory limits are enforced by control groups (version 1) below {} and {}",
                above(&cpu.base),
                above(&memory.base)
            ),
            (Err(why), Ok(_)) => format!("memory limits are enforced, CPU limits are not: {why}; {why_not}"),
            (Ok(_), Err(why)) => format!("CPU limits are enforced, memory limits are not: {why}; {why_not}"),
            (Err(_), Err(why)) => format!("CPU and memory limits are not enforced: {why_not}; {why}"),
        };
        Enforced { cpu, memory, how }
    }

    /// Makes a group with limits; `None` where none of them is enforced.
    pub(crate) fn make(&self, name: &str, limits: Limits) -> io::Result<Option<Group>> {
        let quota = (limits.cpu_milli.saturating_mul(PERIOD_US) / 1000).max(QUOTA_US_MIN);
        let bytes = limits.ram_mib.saturating_mul(1 << 20).to_string();
        if let Ok(base) = &self.unified {
            let group = base.join(name);
            make_dir(&group)?;
            if limits.ram_mib > 0 {
                std::fs::write(group.join("memory.max"), bytes)?;
                // A job that swaps instead of ending makes the whole machine slow. Not every kernel has the file.
                let _ = std::fs::write(group.join("memory.swap.max"), "0");
                // One process too many ends the job, not a part of it.
                let _ = std::fs::write(group.join("memory.oom.group"), "1");
            }
            if limits.cpu_milli > 0 {
                std::fs::write(group.join("cpu.max"), format!("{quota} {PERIOD_US}"))?;
            }
            return Ok(Some(Group::Unified(group)));
        }
        let mut parts = Vec::new();
        if let Some(memory) = self.memory.as_ref().ok().filter(|_| limits.ram_mib > 0) {
            let base = memory.below(name)?;
            std::fs::write(base.join("memory.limit_in_bytes"), &bytes)?;
            // Memory and swap together: no more of the two. Not every kernel counts swap.
            let _ = std::fs::write(base.join("memory.memsw.limit_in_bytes"), &bytes);
            parts.push(memory.part(base, None)?);
        }
        if let Some(cpu) = self.cpu.as_ref().ok().filter(|_| limits.cpu_milli > 0) {
            parts.push(match self.take_idle(quota) {
                Some(idle) => idle,
                None => self.make_cpu(cpu, quota)?,
            });
        }
        Ok((!parts.is_empty()).then_some(Group::Each(parts)))
    }

    /// A group that bounds CPU. Its name is its own: one job after the other is in it.
    fn make_cpu(&self, cpu: &Hierarchy, quota_us: u64) -> io::Result<Part> {
        let base = cpu.below(&format!("cpu-{}", self.count.fetch_add(1, Ordering::Relaxed)))?;
        std::fs::write(base.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
        std::fs::write(base.join("cpu.cfs_quota_us"), quota_us.to_string())?;
        cpu.part(base, Some(quota_us))
    }

    fn take_idle(&self, quota_us: u64) -> Option<Part> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let at = idle.iter().rposition(|part| part.quota_us == Some(quota_us))?;
        Some(idle.swap_remove(at))
    }

    /// Takes the group of a job of which nothing is left and that used so much CPU time: for the next one, if that can begin in it as in a
    /// new one.
    pub(crate) fn give_back(&self, group: Group, cpu: Duration) {
        let Group::Each(parts) = group else { return group.remove() };
        for part in parts {
            // A job that used up its share of the present period would leave the next one waiting for the next period.
            let unused = |quota_us: u64| cpu <= Duration::from_micros(quota_us / 2);
            let fresh = part.quota_us.is_some_and(unused);
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if fresh && idle.len() < IDLE_MAX {
                idle.push(part);
            } else {
                part.remove();
            }
        }
    }

    /// Removes what was made for the keeper, when it ends.
    pub(crate) fn close(&self) {
        let each = [&self.memory, &self.cpu].into_iter().flatten().map(|hierarchy| &hierarchy.base);
        self.unified.iter().chain(each).for_each(|base| clear(base));
    }
}

/// The group that all keepers of the machine have in common.
fn above(base: &Path) -> std::path::Display<'_> {
    base.parent().unwrap_or(base).display()
}

impl Hierarchy {
    fn below(&self, name: &str) -> io::Result<PathBuf> {
        let base = self.base.join(name);
        make_dir(&base)?;
        Ok(base)
    }

    fn part(&self, base: PathBuf, quota_us: Option<u64>) -> io::Result<Part> {
        Ok(Part { tasks: open_tasks(&base)?, base, home: Arc::clone(&self.home), quota_us })
    }
}

impl Part {
    /// What runs in it. The file is opened anew each time: through one that is open the kernel shows for a second what it showed before.
    fn members(&self) -> Vec<Pid> {
        let text = std::fs::read_to_string(self.base.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|pid| Pid::from_raw(pid.trim().parse().ok()?)).collect()
    }

    fn remove(&self) {
        let _ = std::fs::remove_dir(&self.base);
    }
}

/// The file through which threads enter a group.
fn open_tasks(base: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).open(base.join("tasks"))
}

fn make_dir(path: &Path) -> io::Result<()> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Removes a group and those in it, where nothing runs in them.
fn clear(base: &Path) {
    for group in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let _ = std::fs::remove_dir(group.path());
    }
    let _ = std::fs::remove_dir(base);
}

/// Makes our own group below `landfall`, and removes those of keepers that are no more.
fn make_base(landfall: &Path, who: &str) -> io::Result<PathBuf> {
    for old in std::fs::read_dir(landfall).into_iter().flatten().flatten() {
        let is_pid = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
        let name = old.file_name();
        if name.to_str().is_some_and(|name| is_pid(name) && !Path::new("/proc").join(name).exists()) {
            clear(&old.path());
        }
    }
    let base = landfall.join(who);
    make_dir(&base)?;
    Ok(base)
}

/// Tries a group and then the root above it; says of the last one why it cannot be used.
fn first_of(
    root: &Path,
    own: &str,
    try_one: impl Fn(&Path) -> io::Result<PathBuf>,
) -> Result<PathBuf, String> {
    let own = root.join(own.trim_start_matches('/'));
    let mut why = String::new();
    for parent in [own.as_path(), root] {
        match try_one(parent) {
            Ok(base) => return Ok(base),
            Err(error) => why = format!("{} cannot be used: {error}", parent.display()),
        }
    }
    Err(why)
}

fn unified(root: &Path, own: &str, who: &str) -> Result<PathBuf, String> {
    if !root.join("cgroup.controllers").exists() {
        return Err(format!("no control groups version 2 at {}", root.display()));
    }
    first_of(root, own, |parent| prepare(parent, who))
}

/// Makes `landfall` below a group and hands it the controllers. A group that holds processes may not hand anything on
/// (unless it is the root), so ours move to a leaf of their own first.
fn prepare(parent: &Path, who: &str) -> io::Result<PathBuf> {
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
    let landfall = parent.join("landfall");
    make_dir(&landfall)?;
    std::fs::write(landfall.join("cgroup.subtree_control"), "+memory +cpu")?;
    let base = make_base(&landfall, who)?;
    std::fs::write(base.join("cgroup.subtree_control"), "+memory +cpu")?;
    Ok(base)
}

/// The hierarchy of version 1 that has a controller.
fn hierarchy(mounts: &str, own: &str, controller: &str, who: &str) -> Result<Hierarchy, String> {
    let has = |list: &str| list.split(',').any(|name| name == controller);
    let mount = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (at, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup" && has(options)).then(|| PathBuf::from(at))
    });
    let root = mount.ok_or_else(|| format!("no control groups version 1 for {controller} are mounted"))?;
    let own = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        has(controllers).then_some(path)
    });
    let own = own.unwrap_or("/");
    let base = first_of(&root, own, |parent| {
        let landfall = parent.join("landfall");
        make_dir(&landfall)?;
        make_base(&landfall, who)
    })?;
    // A name that the mount does not show is that of a container's outside.
    let home = open_tasks(&root.join(own.trim_start_matches('/'))).or_else(|_| open_tasks(&root));
    let home = home.map_err(|error| format!("{} cannot be used: {error}", root.display()))?;
    Ok(Hierarchy { base, home: Arc::new(home) })
}

impl Group {
    /// The command that runs another one inside, where a process has to enter by itself.
    pub(crate) fn enter(&self, argv: &[String]) -> Option<Vec<String>> {
        let Self::Unified(group) = self else { return None };
        let mut inside =
            vec!["/bin/sh".into(), "-c".into(), ENTER.into(), "sh".into(), group.display().to_string()];
        inside.extend(argv.iter().cloned());
        Some(inside)
    }

    /// Does something while this thread is inside, if a thread can be: what it starts then begins there.
    pub(crate) fn within<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let Self::Each(parts) = self else { return work() };
        // "0" is the thread that writes it.
        let entered = parts.iter().try_for_each(|part| part.tasks.write_all_at(b"0", 0));
        let done = entered.and_then(|()| work());
        for part in parts {
            if let Err(error) = part.home.write_all_at(b"0", 0) {
                eprintln!("keeper: cannot leave {}: {error}", part.base.display());
            }
        }
        done
    }

    /// Ends everything inside. Says whether it is known that nothing was but the first process of the job.
    pub(crate) fn kill(&self, first: Pid) -> bool {
        match self {
            Self::Unified(group) => {
                let _ = std::fs::write(group.join("cgroup.kill"), "1");
                false
            }
            Self::Each(parts) => {
                let Some(part) = parts.first() else { return false };
                let mut alone = true;
                for _ in 0..KILL_ROUNDS {
                    let members = part.members();
                    alone &= members.iter().all(|pid| *pid == first);
                    // Whoever is killed already need not be told again: only the last to go keeps its entry for a moment.
                    if members.iter().filter(|pid| kill_process(**pid, Signal::KILL).is_ok()).count() == 0 {
                        break;
                    }
                }
                alone
            }
        }
    }

    /// Whether the kernel killed something for memory and left the rest alone, as version 1 does.
    pub(crate) fn lost_a_part(&self) -> bool {
        matches!(self, Self::Each(_)) && self.counted().oom
    }

    /// What the kernel counted.
    pub(crate) fn counted(&self) -> Counted {
        let (group, peak, events) = match self {
            Self::Unified(group) => (group, "memory.peak", "memory.events"),
            // Memory is counted where it is bounded, and that is the first of the groups.
            Self::Each(parts) => match parts.first().filter(|part| part.quota_us.is_none()) {
                Some(part) => (&part.base, "memory.max_usage_in_bytes", "memory.oom_control"),
                None => return Counted::default(),
            },
        };
        let peak = std::fs::read_to_string(group.join(peak)).ok();
        let events = std::fs::read_to_string(group.join(events)).unwrap_or_default();
        let killed =
            events.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count.trim() != "0");
        Counted { peak_bytes: peak.and_then(|text| text.trim().parse().ok()), oom: killed }
    }

    /// Removes it; one that still holds dying processes goes with the keeper.
    pub(crate) fn remove(&self) {
        match self {
            Self::Unified(group) => drop(std::fs::remove_dir(group)),
            Self::Each(parts) => parts.iter().for_each(Part::remove),
        }
    }
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

    fn made(groups: &Cgroups, name: &str, cpu_milli: u64, ram_mib: u64) -> Group {
        groups.make(name, Limits { cpu_milli, ram_mib }).expect("made").expect("enforced")
    }

    #[test]
    fn limits_are_written_where_the_kernel_reads_them() {
        let dir = hierarchy("cpuset cpu io memory pids");
        let groups = Cgroups::set_up(dir.path(), "", "0::/agent.slice", "77");
        assert!(groups.limits().cpu && groups.limits().memory, "{groups:?}");
        let base = dir.path().join("agent.slice/landfall/77");
        assert_eq!(read(base.join("cgroup.subtree_control")), "+memory +cpu");
        let group = made(&groups, "job.1", 1500, 64);
        assert!(matches!(&group, Group::Unified(at) if *at == base.join("job.1")), "{group:?}");
        assert_eq!(read(base.join("job.1/memory.max")), "67108864");
        assert_eq!(read(base.join("job.1/cpu.max")), "150000 100000");
        assert_eq!(read(base.join("job.1/memory.swap.max")), "0");
        // A tiny share is raised to what the kernel accepts; what was not asked is not written.
        let group = made(&groups, "job.2", 1, 0);
        assert_eq!(read(base.join("job.2/cpu.max")), "1000 100000");
        assert!(!base.join("job.2/memory.max").exists());
        group.kill(Pid::INIT);
        assert_eq!(read(base.join("job.2/cgroup.kill")), "1");
    }

    /// Directories in place of the hierarchies of version 1, and what names them.
    fn each(controllers: &[&str]) -> (tempfile::TempDir, String, String) {
        let dir = tempfile::tempdir().expect("dir");
        let (mut mounts, mut own) = ("tmpfs / tmpfs rw 0 0\n".to_owned(), "0::/\n".to_owned());
        for name in controllers {
            std::fs::create_dir_all(dir.path().join(name).join("slice")).expect("made");
            std::fs::write(dir.path().join(name).join("slice/tasks"), "").expect("written");
            mounts += &format!("cgroup {}/{name} cgroup rw,relatime,{name} 0 0\n", dir.path().display());
            own += &format!("3:{name}:/slice\n");
        }
        (dir, mounts, own)
    }

    #[test]
    fn version_1_has_a_hierarchy_for_each() {
        let (dir, mounts, own) = each(&["cpu", "memory"]);
        let groups = Cgroups::set_up(Path::new("/nowhere"), &mounts, &own, "77");
        assert!(groups.limits().how.contains("version 1"), "{groups:?}");
        let group = made(&groups, "job.1", 1500, 64);
        let (cpu, memory) =
            (dir.path().join("cpu/slice/landfall/77"), dir.path().join("memory/slice/landfall/77"));
        assert_eq!(read(memory.join("job.1/memory.limit_in_bytes")), "67108864");
        assert_eq!(read(cpu.join("cpu-0/cpu.cfs_quota_us")), "150000");
        assert_eq!(read(cpu.join("cpu-0/cpu.cfs_period_us")), "100000");
        assert_eq!(group.enter(&["true".into()]), None, "a thread enters");
        // What was not asked costs no group.
        let Group::Each(only) = made(&groups, "job.2", 1000, 0) else { panic!("version 1") };
        assert_eq!(only.iter().map(|part| &part.base).collect::<Vec<_>>(), [&cpu.join("cpu-1")]);
        std::fs::write(
            memory.join("job.1/memory.oom_control"),
            "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
        )
        .unwrap();
        std::fs::write(memory.join("job.1/memory.max_usage_in_bytes"), "1048576\n").unwrap();
        assert_eq!(group.counted(), Counted { peak_bytes: Some(1 << 20), oom: true });
        assert!(group.lost_a_part());
        // One of the two is better than none, and said.
        let (_dir, mounts, own) = each(&["memory"]);
        let limits = Cgroups::set_up(Path::new("/nowhere"), &mounts, &own, "77").limits();
        assert!(limits.memory && !limits.cpu && limits.how.contains("CPU limits are not"), "{limits:?}");
    }

    #[test]
    fn a_group_is_used_again_by_a_job_with_the_same_bound_that_finds_all_of_it() {
        let (_dir, mounts, own) = each(&["cpu", "memory"]);
        let groups = Cgroups::set_up(Path::new("/nowhere"), &mounts, &own, "77");
        let base = |group: &Group| match group {
            Group::Each(parts) => parts.last().expect("one").base.clone(),
            Group::Unified(base) => base.clone(),
        };
        let ms = Duration::from_millis;
        let first = made(&groups, "job.1", 1000, 0);
        let at = base(&first);
        groups.give_back(first, ms(50));
        assert_ne!(base(&made(&groups, "job.2", 2000, 0)), at, "another bound");
        let again = made(&groups, "job.3", 1000, 0);
        assert_eq!(base(&again), at);
        assert_ne!(base(&made(&groups, "job.4", 1000, 0)), at, "never two at once");
        groups.give_back(again, ms(51));
        assert_ne!(base(&made(&groups, "job.5", 1000, 0)), at, "more than half of its share was used up");
        // What counts memory counts for one job alone.
        let with_memory = made(&groups, "job.6", 0, 64);
        groups.give_back(with_memory, ms(0));
        assert!(groups.idle.lock().unwrap().is_empty());
    }

    #[test]
    fn what_the_kernel_counted_is_read_back() {
        let dir = tempfile::tempdir().expect("dir");
        let group = Group::Unified(dir.path().to_owned());
        assert_eq!(group.counted(), Counted::default());
        std::fs::write(dir.path().join("memory.peak"), "1048576\n").expect("written");
        std::fs::write(dir.path().join("memory.events"), "low 0\noom 1\noom_kill 1\n").expect("written");
        assert_eq!(group.counted(), Counted { peak_bytes: Some(1 << 20), oom: true });
        std::fs::write(dir.path().join("memory.events"), "oom_kill 0\n").expect("written");
        assert!(!group.counted().oom);
    }

    #[test]
    fn what_cannot_be_enforced_is_said() {
        let none = tempfile::tempdir().expect("dir");
        let groups = Cgroups::set_up(none.path(), "", "", "77");
        let limits = groups.limits();
        assert!(limits.how.contains("not enforced: no control groups"), "{limits:?}");
        assert!(!limits.cpu && !limits.memory);
        assert!(groups.make("a", Limits { cpu_milli: 1, ram_mib: 1 }).expect("fine").is_none());
        let poor = hierarchy("cpuset pids");
        let limits = Cgroups::set_up(poor.path(), "", "0::/agent.slice", "77").limits();
        assert!(limits.how.contains("no memory controller"), "{limits:?}");
    }

    #[test]
    fn the_shell_enters_the_group_and_becomes_the_job() {
        let dir = tempfile::tempdir().expect("dir");
        let group = Group::Unified(dir.path().to_owned());
        let job = ["sh".into(), "-c".into(), "echo \"$$ $1\"".into(), "x".into(), "a b".into()];
        let argv = group.enter(&job).expect("a shell");
        let output = std::process::Command::new(&argv[0]).args(&argv[1..]).output().expect("ran");
        let pid = read(dir.path().join("cgroup.procs"));
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{} a b\n", pid.trim()));
    }
}
