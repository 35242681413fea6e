//! Starting processes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use landfall_model::life::Fence;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::process::{Pid, PidfdFlags};

use super::cgroup::Group;
use super::cores::listed;
use super::journal::{Key, Started};
use super::procfs;
use super::reap::{self, Over};
use super::state::{Keeper, Live, Phase, State, Succession};
use super::wire::{Cause, Ended, Event, Program};
use crate::layout::Layout;

/// Exit code of a job whose program is not there.
const NOT_FOUND: i32 = 127;
/// Exit code of a job whose program cannot be executed.
const NOT_EXECUTABLE: i32 = 126;
/// Exit code of a job that was stopped before it began.
const STOPPED: i32 = 143;
/// Exit code of a job that was killed.
const KILLED: i32 = 137;

/// Why a process did not start.
#[derive(Debug)]
pub(crate) enum SpawnError {
    /// The job asks for something that cannot be: it ends with this code and this message.
    Job(i32, String),
    /// Something is wrong with this machine.
    Node(String),
}

/// How long whoever began an element of an array waits for its end.
const STAY: Duration = Duration::from_millis(20);

/// Takes jobs from the queue and starts them, for ever.
///
/// Whoever began an element of an array stays with it for a moment: if it is over by then, the next one begins without another thread
/// being woken first, and what is left to note about the last one is noted while the next one runs. Longer ones go to the reaper.
pub(crate) fn work(keeper: &Keeper) {
    loop {
        let mut turn = Some(wait_for_turn(keeper));
        let mut before: Option<Over> = None;
        while let Some(at) = turn {
            take_on(keeper, &at);
            if let Some(before) = before.take() {
                reap::note(keeper, before);
            }
            before = stay(keeper, &at);
            turn = before.as_ref().and_then(|over| over.next.clone());
        }
        if let Some(last) = before {
            reap::note(keeper, last);
            keeper.outbox.flush_urgent();
        }
    }
}

fn wait_for_turn(keeper: &Keeper) -> Key {
    let mut state = keeper.lock();
    loop {
        let left = keeper.outbox.flush_overdue();
        if let Some(at) = state.queue.pop_front() {
            return at;
        }
        state = match left {
            None => keeper.queued.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(left) => keeper.queued.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
        };
    }
}

fn take_on(keeper: &Keeper, at: &Key) {
    let mut state = keeper.lock();
    while state.making.contains(at) {
        state = keeper.made.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    if let Some(job) = state.jobs.get_mut(at)
        && let Phase::Queued(program) = &mut job.phase
    {
        let program = std::mem::take(program);
        let files = job.files.take();
        job.phase = Phase::Starting;
        let fence = job.fence.clone();
        let kill_command = job.kill_command.clone();
        let stopped = job.stop_grace.is_some();
        drop(state);
        if stopped {
            end_unstarted(keeper, at, &fence, STOPPED, None);
        } else {
            begin(keeper, at, &fence, &program, files, kill_command);
        }
        state = keeper.lock();
    }
    match state.successions.remove(at) {
        Some(Succession::Ended(before)) => keeper.outbox.add_waiting(&Event::Ended(before)),
        Some(_) => drop(state.successions.insert(at.clone(), Succession::Begun)),
        None => {}
    }
    prepare_next(keeper, state, at);
}

/// Waits for the end of a process that the reaper does not watch yet, and hands it over to the reaper if it takes long.
fn stay(keeper: &Keeper, at: &Key) -> Option<Over> {
    let (pid, watch) = {
        let state = keeper.lock();
        let Phase::Live(live) = &state.jobs.get(at)?.phase else { return None };
        if live.watched {
            return None;
        }
        (live.pid, Arc::clone(&live.watch))
    };
    let pid = pid.as_raw_nonzero().get().cast_unsigned();
    let until = Instant::now() + STAY;
    loop {
        let company = keeper.outbox.flush_overdue().unwrap_or(STAY);
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left.min(company)).unwrap_or_default();
        match poll(&mut [PollFd::new(&*watch, PollFlags::IN)], Some(&timeout)) {
            Ok(1..) => return reap::over(keeper, pid),
            // It cannot be watched otherwise: then it is waited for here.
            _ if left.is_zero() && reap::hand_over(keeper, at, pid).is_ok() => return None,
            _ => {}
        }
    }
}

/// Makes the files of the element that begins next, so that they are there when its turn comes: a file system that is writing may let
/// one wait for longer than a short job runs.
fn prepare_next(keeper: &Keeper, mut state: MutexGuard<'_, State>, begun: &Key) {
    let Some(array) = state.jobs.get(begun).and_then(|job| job.array.clone()) else { return };
    let bare =
        |at: &&Key| state.jobs.get(*at).is_some_and(|job| job.files.is_none()) && !state.making.contains(*at);
    let Some(at) = state.ahead.get(&array).and_then(|ahead| ahead.iter().find(bare)).cloned() else { return };
    let Some(job) = state.jobs.get(&at) else { return };
    let Phase::Queued(program) = &job.phase else { return };
    if program.stdout.is_some() || program.stderr.is_some() {
        return;
    }
    let (fence, own_work) = (job.fence.clone(), program.cwd.is_none());
    state.making.insert(at.clone());
    drop(state);
    // What fails now fails again when it begins, and is told then.
    let mut files = open_files(keeper, &fence, own_work).ok();
    let mut state = keeper.lock();
    match state.jobs.get_mut(&at) {
        Some(job) => job.files = files.take(),
        None => recycle_files(keeper, &fence),
    }
    state.making.remove(&at);
    // Its turn may have come meanwhile.
    keeper.made.notify_all();
}

/// Opens what a job writes to, and makes its own working directory if it gets one.
fn open_files(keeper: &Keeper, fence: &Fence, own_work: bool) -> Result<(File, File), SpawnError> {
    let cannot =
        |path: &Path, error: io::Error| SpawnError::Node(format!("cannot write {}: {error}", path.display()));
    let open = |path: PathBuf| keeper.spares.file(&path).map_err(|error| cannot(&path, error));
    let files = (open(keeper.layout.stdout(fence))?, open(keeper.layout.stderr(fence))?);
    if own_work {
        let work = keeper.layout.work(fence);
        keeper.spares.dir(&work).map_err(|error| cannot(&work, error))?;
    }
    Ok(files)
}

fn begin(
    keeper: &Keeper,
    at: &Key,
    fence: &Fence,
    program: &Program,
    files: Option<(File, File)>,
    kill_command: Vec<String>,
) {
    // Noted before it begins: should the keeper be killed in between, the next one knows that it may have run.
    let noted = Started { fence: fence.clone(), pid: 0, ticks: 0, kill_command };
    let noted_first = keeper.journal().started(noted.clone());
    let started = match noted_first {
        Ok(()) => pin(keeper, at, program.pin).and_then(|cores| start(keeper, fence, program, files, &cores)),
        Err(error) => Err(SpawnError::Node(format!("cannot write keeper.journal: {error}"))),
    };
    match started {
        Ok((child, group)) => began(keeper, at, noted, child, group, program),
        Err(SpawnError::Job(code, message)) => end_unstarted(keeper, at, fence, code, Some(message)),
        Err(SpawnError::Node(why)) => {
            let _ = keeper.journal().forgot(std::slice::from_ref(fence));
            remove_files(&keeper.layout, fence);
            let mut state = keeper.lock();
            state.jobs.remove(at);
            state.pinned.remove(at);
            keeper.outbox.add(&Event::Unstartable { fence: fence.clone(), why });
            drop(state);
            keeper.outbox.flush();
        }
    }
}

/// Gives a job cores of its own, if it wants any.
fn pin(keeper: &Keeper, at: &Key, count: u32) -> Result<Vec<usize>, SpawnError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let mut state = keeper.lock();
    let chosen = keeper.cores.choose(count, state.pinned.values());
    let own = chosen.map_err(|why| SpawnError::Job(NOT_EXECUTABLE, why))?;
    let chosen = own.cores.clone();
    state.pinned.insert(at.clone(), own);
    if let Some(job) = state.jobs.get_mut(at) {
        let cpus = listed(&chosen);
        job.note.cpus = Some(cpus.clone());
        keeper.outbox.add_waiting(&Event::Pinned { fence: job.fence.clone(), cpus });
    }
    Ok(chosen)
}

/// Watches a process, so that its end wakes the reaper.
pub(crate) fn watch(keeper: &Keeper, pid: u32) -> io::Result<OwnedFd> {
    let watch = handle(pid)?;
    epoll::add(&keeper.epoll, &watch, epoll::EventData::new_u64(u64::from(pid)), epoll::EventFlags::IN)?;
    Ok(watch)
}

fn handle(pid: u32) -> io::Result<OwnedFd> {
    let id = Pid::from_raw(pid.cast_signed()).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(id, PidfdFlags::empty())?)
}

fn began(keeper: &Keeper, at: &Key, noted: Started, child: Child, group: Option<Group>, program: &Program) {
    let pid = child.id();
    let ticks = procfs::start_ticks(Path::new("/proc"), pid).unwrap_or_default();
    let fence = noted.fence.clone();
    if let Err(error) = keeper.journal().started(Started { pid, ticks, ..noted }) {
        eprintln!("keeper: cannot write the journal: {error}");
    }
    let mut state = keeper.lock();
    let Some(id) = Pid::from_raw(pid.cast_signed()) else { return };
    // The process is known before it is watched: the reaper takes the lock before it looks for it.
    state.by_pid.insert(pid, at.clone());
    let stays = state.someone_may_stay(at, keeper.attendants);
    let watch = match if stays { handle(pid) } else { watch(keeper, pid) } {
        Ok(watch) => Arc::new(watch),
        Err(error) => {
            // Without a watch nobody would notice the end, so this one is not kept. (Too many open files.)
            let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
            state.by_pid.remove(&pid);
            if let Some(job) = state.jobs.get_mut(at) {
                job.cause = Some(Cause::Lost);
            }
            drop(state);
            let mut child = child;
            let _ = child.wait();
            let message = format!("it was ended because it cannot be watched: {error}");
            end_unstarted(keeper, at, &fence, KILLED, Some(message));
            return;
        }
    };
    state.attending += usize::from(stays);
    let Some(job) = state.jobs.get_mut(at) else { return };
    let watched = !stays;
    job.phase = Phase::Live(Box::new(Live { child, pid: id, watch, watched, since: Instant::now(), group }));
    let stop = job.stop_grace.take().zip(job.cause);
    keeper.outbox.add_waiting(&Event::Spawned(fence));
    keeper.arm(&mut state, at, program.timeout_ms);
    if let Some((grace, cause)) = stop {
        keeper.stop(&mut state, at, grace, cause);
    }
}

/// Ends a job that never had a process, with a line on its standard error.
fn end_unstarted(keeper: &Keeper, at: &Key, fence: &Fence, code: i32, message: Option<String>) {
    if let Some(message) = message {
        say(&keeper.layout, fence, &message);
    }
    let mut state = keeper.lock();
    state.pinned.remove(at);
    let Some(job) = state.jobs.get_mut(at) else { return };
    let ended = Ended {
        fence: fence.clone(),
        code,
        cause: job.cause,
        wall_ms: 0,
        cpu_ms: None,
        peak_ram_bytes: None,
        disk_bytes: 0,
        oom: false,
        written: super::reap::written(&keeper.layout, fence),
        kept: None,
        note: job.note.clone(),
    };
    job.phase = Phase::Ended(Box::new(ended.clone()));
    drop(state);
    if let Err(error) = keeper.journal().ended(&ended) {
        eprintln!("keeper: cannot write the journal: {error}");
    }
    let state = keeper.lock();
    if ended.cause != Some(Cause::Stopped) {
        // What could not be executed was still taken on: its end would be out of order without a beginning.
        keeper.outbox.add(&Event::Spawned(fence.clone()));
    }
    keeper.outbox.add(&Event::Ended(Box::new(ended)));
    drop(state);
    keeper.outbox.flush();
}

fn start(
    keeper: &Keeper,
    fence: &Fence,
    program: &Program,
    files: Option<(File, File)>,
    cores: &[usize],
) -> Result<(Child, Option<Group>), SpawnError> {
    let node = |what: &str, error: io::Error| SpawnError::Node(format!("{what}: {error}"));
    let layout = &keeper.layout;
    let (mut stdout, mut stderr) = match files {
        Some(made) => made,
        None => open_files(keeper, fence, program.cwd.is_none())?,
    };
    if let Some(text) = &program.script {
        std::fs::write(layout.script(fence), text).map_err(|error| node("cannot write the script", error))?;
    }
    let stdin = match &program.stdin {
        None => Stdio::null(),
        Some(text) => {
            let path = layout.stdin(fence);
            std::fs::write(&path, text).map_err(|error| node("cannot write standard input", error))?;
            File::open(&path).map_err(|error| node("cannot read standard input", error))?.into()
        }
    };
    let cwd = match &program.cwd {
        Some(cwd) => {
            let cwd = PathBuf::from(cwd);
            if !cwd.is_dir() {
                let message = format!("the working directory {} does not exist on this node", cwd.display());
                return Err(SpawnError::Job(NOT_EXECUTABLE, message));
            }
            cwd
        }
        None => layout.work(fence),
    };
    if let Some(file) = &program.stdout {
        stdout = own_file(&cwd.join(file), &layout.stdout(fence))?;
        if program.stderr.is_none() {
            stderr = stdout.try_clone().map_err(|error| node("cannot write standard error", error))?;
        }
    }
    if let Some(file) = &program.stderr {
        stderr = own_file(&cwd.join(file), &layout.stderr(fence))?;
    }
    let mut group = None;
    if let Some(limits) = program.limits {
        let stem = layout.work(fence);
        let name = stem.file_name().and_then(OsStr::to_str).unwrap_or("job");
        group =
            keeper.cgroups.make(name, limits).map_err(|error| node("cannot make a control group", error))?;
    }
    let search = program.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_str());
    let word = program.argv.first().map(String::as_str).unwrap_or_default();
    let path = find(word, search.unwrap_or_default(), &cwd)?;
    let inside = group.as_ref().and_then(|group| {
        let mut argv = program.argv.clone();
        argv[0] = path.display().to_string();
        group.enter(&argv)
    });
    let mut command = match &inside {
        None => {
            let mut command = Command::new(&path);
            command.arg0(word).args(&program.argv[1..]);
            command
        }
        Some(inside) => {
            let mut command = Command::new(&inside[0]);
            command.args(&inside[1..]);
            command
        }
    };
    command
        .env_clear()
        .envs(program.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&cwd)
        .process_group(0)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr);
    if !cores.is_empty() {
        command.env("LANDFALL_CPU_LIST", listed(cores));
    }
    let spawned = keeper.cores.within(cores, || match &group {
        Some(group) => group.within(|| command.spawn()),
        None => command.spawn(),
    });
    match spawned {
        Ok(child) => Ok((child, group)),
        Err(error) => {
            group.iter().for_each(Group::remove);
            Err(match error.kind() {
                io::ErrorKind::NotFound => SpawnError::Job(
                    NOT_FOUND,
                    format!("{}: not found, or its interpreter is not", path.display()),
                ),
                io::ErrorKind::PermissionDenied => {
                    SpawnError::Job(NOT_EXECUTABLE, format!("{}: permission denied", path.display()))
                }
                io::ErrorKind::ArgumentListTooLong | io::ErrorKind::InvalidInput => {
                    SpawnError::Job(NOT_EXECUTABLE, format!("{}: {error}", path.display()))
                }
                _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
                    SpawnError::Job(
                        NOT_EXECUTABLE,
                        format!(
                            "{}: not a program; does it lack a first line such as #!/bin/sh?",
                            path.display()
                        ),
                    )
                }
                _ => node("cannot start a process", error),
            })
        }
    }
}

/// Opens a file of a job's own for what it writes, from the beginning. Whoever reads the log reads it there: what stands in its place in
/// the data directory only points to it, so nothing is written twice and the file has everything at once.
fn own_file(path: &Path, log: &Path) -> Result<File, SpawnError> {
    let cannot = |error: io::Error| {
        SpawnError::Job(NOT_EXECUTABLE, format!("cannot write to {}: {error}", path.display()))
    };
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(cannot)?;
    }
    drop(File::create(path).map_err(cannot)?);
    // Several processes of a job may write to it.
    let file = OpenOptions::new().append(true).open(path).map_err(cannot)?;
    let _ = std::fs::remove_file(log);
    std::os::unix::fs::symlink(path, log).map_err(cannot)?;
    Ok(file)
}

/// Finds a program as a shell would, with the search path of the job. An absolute name also lets the standard library
/// start it without copying this process first, which is a third of the cost of a short job.
fn find(word: &str, search: &str, cwd: &Path) -> Result<PathBuf, SpawnError> {
    if word.is_empty() {
        return Err(SpawnError::Job(NOT_FOUND, "the command is empty".to_owned()));
    }
    if word.contains('/') {
        return Ok(cwd.join(word));
    }
    for dir in search.split(':').filter(|dir| !dir.is_empty()) {
        let path = cwd.join(dir).join(word);
        if rustix::fs::access(&path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file() {
            return Ok(path);
        }
    }
    Err(SpawnError::Job(NOT_FOUND, format!("{word}: command not found in {search}")))
}

/// Removes what an attempt left in the data directory, but for what the next ones can use.
pub(crate) fn recycle_files(keeper: &Keeper, fence: &Fence) {
    let layout = &keeper.layout;
    keeper.spares.give_file(layout.stdout(fence));
    keeper.spares.give_file(layout.stderr(fence));
    let _ = std::fs::remove_file(layout.stdin(fence));
    let _ = std::fs::remove_file(layout.script(fence));
    let work = layout.work(fence);
    if !keeper.spares.give_dir(&work) {
        remove_work(layout, &work);
    }
}

/// Removes what an attempt left in the data directory.
pub(crate) fn remove_files(layout: &Layout, fence: &Fence) {
    let _ = std::fs::remove_file(layout.stdout(fence));
    let _ = std::fs::remove_file(layout.stderr(fence));
    let _ = std::fs::remove_file(layout.stdin(fence));
    let _ = std::fs::remove_file(layout.script(fence));
    remove_work(layout, &layout.work(fence));
}

/// What something wrote after the job had ended is kept like the rest.
fn remove_work(layout: &Layout, work: &Path) {
    if let Err(error) = std::fs::remove_dir(work)
        && error.kind() == io::ErrorKind::DirectoryNotEmpty
    {
        layout.keep(work);
    }
}

/// Takes its name from what will be removed without anybody waiting for it: the next job, of another journal, may be called
/// like this one.
fn nameless(path: PathBuf) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!(".gone-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let new = path.with_file_name(name);
    if std::fs::rename(&path, &new).is_ok() { new } else { path }
}

/// Adds a line to the standard error of a job.
pub(crate) fn say(layout: &Layout, fence: &Fence, message: &str) {
    let written = OpenOptions::new().create(true).append(true).open(layout.stderr(fence));
    let _ = written.and_then(|mut file| writeln!(file, "landfall: {message}"));
}

/// The end of a job whose keeper was killed. What it wrote until then stays.
pub(crate) fn lost(layout: &Layout, started: &Started) -> Ended {
    let fence = &started.fence;
    say(
        layout,
        fence,
        "this attempt is lost: the keeper of this node, or the machine, was killed while it ran",
    );
    Ended {
        fence: fence.clone(),
        code: KILLED,
        cause: Some(Cause::Lost),
        wall_ms: 0,
        cpu_ms: None,
        peak_ram_bytes: None,
        disk_bytes: 0,
        oom: false,
        written: super::reap::written(layout, fence),
        kept: layout.keep_work(fence).map(|path| path.display().to_string()),
        note: super::wire::Note::default(),
    }
}

/// Ends processes that a keeper before this one left: nobody can tell how they end any more.
pub(crate) fn kill_leftovers(left: &[Started]) {
    for started in left {
        let same = procfs::start_ticks(Path::new("/proc"), started.pid) == Some(started.ticks);
        let group = Pid::from_raw(started.pid.cast_signed());
        // The group may outlive its leader, and its number is not given to others while it does. But then nothing
        // tells whose it is, so it is left alone.
        if let (true, Some(group)) = (same, group) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            eprintln!("keeper: ended {} (process {}), which was left over", started.fence, started.pid);
        }
        if let Some((program, args)) = started.kill_command.split_first() {
            let _ = Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::null()).status();
        }
    }
}

/// Removes what no job owns any more: spares of a keeper that was killed, and what its jobs left.
pub(crate) fn remove_strays(layout: &Layout, ended: &[Ended]) {
    let owned: BTreeSet<PathBuf> = ended.iter().flat_map(|ended| layout.all_of(&ended.fence)).collect();
    let entries = layout.of_jobs().into_iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten();
    let strays = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| !owned.contains(path));
    let strays = strays.filter(|path| layout.keep(path).is_none());
    let strays: Vec<PathBuf> = strays.map(nameless).collect();
    // Working directories may be large.
    std::thread::spawn(move || {
        for path in strays {
            let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_would() {
        let cwd = Path::new("/");
        assert!(find("sh", "/nowhere:/bin", cwd).is_ok_and(|path| path == Path::new("/bin/sh")));
        assert!(
            find("/no/such", "", cwd).is_ok_and(|path| path == Path::new("/no/such")),
            "exec says it better"
        );
        assert!(find("bin/sh", "", cwd).is_ok_and(|path| path == Path::new("/bin/sh")));
        match find("no-such-program", "/bin", cwd) {
            Err(SpawnError::Job(127, message)) => assert!(message.contains("no-such-program")),
            other => panic!("{other:?}"),
        }
        assert!(matches!(find("", "/bin", cwd), Err(SpawnError::Job(127, _))));
    }
}
