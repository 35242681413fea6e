//! What the keeper knows, shared by its few threads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use landfall_model::life::Fence;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::process::{Pid, Signal};

use super::cgroup::{Cgroups, Group};
use super::cores::{Cores, Own};
use super::journal::{Found, Journal, Key, key};
use super::orphans::Orphans;
use super::outbox::Outbox;
use super::spares::Spares;
use super::wire::{Cause, Ended, Event, Hello, Note, Program, Running, Spawn};
use super::{DISCONNECTED_MS, signal};
use crate::layout::Layout;

/// How long a job that ran out of time may take to end.
const TIMEOUT_GRACE: Duration = Duration::from_secs(10);
/// How long after its walltime a job goes on before it is ended without the server.
const WALLTIME_SLACK: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) child: Child,
    pub(crate) pid: Pid,
    pub(crate) watch: Arc<OwnedFd>,
    /// By the reaper; whoever began it waits for its end otherwise.
    pub(crate) watched: bool,
    pub(crate) since: Instant,
    pub(crate) group: Option<Group>,
}

/// How far a job is.
#[derive(Debug)]
pub(crate) enum Phase {
    Queued(Box<Program>),
    Starting,
    Live(Box<Live>),
    Ended(Box<Ended>),
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) fence: Fence,
    pub(crate) note: Note,
    pub(crate) phase: Phase,
    pub(crate) cause: Option<Cause>,
    /// A stop that came before the process was there.
    pub(crate) stop_grace: Option<Duration>,
    pub(crate) stop_command: Vec<String>,
    pub(crate) kill_command: Vec<String>,
    pub(crate) elsewhere: bool,
    pub(crate) array: Option<String>,
    /// Standard output and standard error, where they were opened before it begins.
    pub(crate) files: Option<(File, File)>,
}

/// Where one element of an array begins in place of another: the beginning is told before the end.
#[derive(Debug)]
pub(crate) enum Succession {
    /// Neither has the successor begun, nor is everything noted about the one before.
    Open,
    Begun,
    Ended(Box<Ended>),
}

/// What happens at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    Timeout,
    Walltime,
    Silence,
    Kill,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) jobs: BTreeMap<Key, Job>,
    pub(crate) queue: VecDeque<Key>,
    /// Elements of arrays, each to begin when another one of its array ends.
    pub(crate) ahead: BTreeMap<String, VecDeque<Key>>,
    /// Whose files are being made: until then they cannot begin.
    pub(crate) making: BTreeSet<Key>,
    /// By the one that begins.
    pub(crate) successions: BTreeMap<Key, Succession>,
    pub(crate) by_pid: BTreeMap<u32, Key>,
    /// Cores that jobs have to themselves.
    pub(crate) pinned: BTreeMap<Key, Own>,
    pub(crate) helpers: BTreeMap<u32, (Child, OwnedFd)>,
    pub(crate) timers: BTreeSet<(Instant, Key, Due)>,
    /// How many threads stay with a process that they began.
    pub(crate) attending: usize,
    pub(crate) alone_since: Option<Instant>,
    /// When the server was last heard.
    pub(crate) heard: Option<Instant>,
    pub(crate) bye: bool,
}

#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) layout: Layout,
    pub(crate) cgroups: Cgroups,
    pub(crate) orphans: Orphans,
    pub(crate) spares: Spares,
    pub(crate) cores: Cores,
    pub(crate) journal: Mutex<Journal>,
    remembers: bool,
    pub(crate) epoll: OwnedFd,
    /// Wakes the thread that waits for processes and for instants.
    pub(crate) wake: OwnedFd,
    state: Mutex<State>,
    pub(crate) queued: Condvar,
    /// Files of a job were made before it begins.
    pub(crate) made: Condvar,
    pub(crate) outbox: Outbox,
    /// How many threads may stay with a process that they began.
    pub(crate) attendants: usize,
}

impl Keeper {
    pub(crate) fn new(
        layout: Layout,
        cgroups: Cgroups,
        orphans: Orphans,
        journal: Journal,
        found: Found,
    ) -> std::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        let mut state = State { alone_since: Some(Instant::now()), ..State::default() };
        for ended in found.ended {
            state.jobs.insert(key(&ended.fence), Job::over(ended));
        }
        Ok(Self {
            layout,
            cgroups,
            orphans,
            spares: Spares::default(),
            cores: Cores::of_this_process(),
            journal: Mutex::new(journal),
            remembers: found.whole,
            epoll,
            wake,
            state: Mutex::new(state),
            queued: Condvar::new(),
            made: Condvar::new(),
            outbox: Outbox::default(),
            attendants: std::thread::available_parallelism().map_or(1, usize::from),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wake(&self) {
        // The counter cannot overflow: the reader empties it, and a full one wakes as well.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Takes a job into the queue of those to be started.
    pub(crate) fn enqueue(&self, spawn: Spawn) {
        let at = key(&spawn.fence);
        let mut state = self.lock();
        if let Some(known) = state.jobs.get_mut(&at) {
            known.fence.epoch = known.fence.epoch.max(spawn.fence.epoch);
            return;
        }
        let mut program = spawn.program;
        let job = Job {
            fence: spawn.fence,
            note: spawn.note,
            cause: None,
            stop_grace: None,
            stop_command: std::mem::take(&mut program.stop_command),
            kill_command: std::mem::take(&mut program.kill_command),
            elsewhere: program.elsewhere,
            array: spawn.array,
            files: None,
            phase: Phase::Queued(Box::new(program)),
        };
        // Whoever asks for it has just heard the server.
        state.heard = Some(Instant::now());
        let ahead = job.array.clone().filter(|_| spawn.ahead);
        state.jobs.insert(at.clone(), job);
        if let Some(array) = ahead {
            state.ahead.entry(array).or_default().push_back(at);
            return;
        }
        state.queue.push_back(at);
        drop(state);
        self.queued.notify_one();
    }

    /// Begins what was to begin when another one ends.
    pub(crate) fn begin(&self, at: &Key) {
        let mut state = self.lock();
        if state.take_ahead(at) {
            state.queue.push_back(at.clone());
            drop(state);
            self.queued.notify_one();
        }
    }

    /// Gives back what was to begin when another one ends, unless it has begun.
    pub(crate) fn give_back(&self, fence: &Fence) {
        let mut state = self.lock();
        if state.take_ahead(&key(fence)) {
            let job = state.jobs.remove(&key(fence));
            drop(state);
            if job.is_some_and(|job| job.files.is_some()) {
                super::spawn::recycle_files(self, fence);
            }
            self.outbox.add(&Event::Returned(fence.clone()));
            self.outbox.flush();
        }
    }

    pub(crate) fn signal(&self, fence: &Fence, name: &str) {
        let state = self.lock();
        let Some(Job { phase: Phase::Live(live), .. }) = state.jobs.get(&key(fence)) else { return };
        if let Some(signal) = signal::by_name(name) {
            let _ = rustix::process::kill_process_group(live.pid, signal);
        }
    }

    pub(crate) fn stop(&self, state: &mut State, at: &Key, grace: Duration, cause: Cause) {
        let Some(job) = state.jobs.get_mut(at) else { return };
        if matches!(job.phase, Phase::Ended(_)) {
            return;
        }
        // The first reason is the one that is told.
        job.cause.get_or_insert(cause);
        let Phase::Live(live) = &job.phase else {
            job.stop_grace = Some(job.stop_grace.map_or(grace, |earlier| earlier.min(grace)));
            // Whoever takes it from the queue sees that it is not wanted.
            if state.take_ahead(at) {
                state.queue.push_back(at.clone());
                self.queued.notify_one();
            }
            return;
        };
        if grace.is_zero() {
            kill_live(live);
            let command = job.kill_command.clone();
            self.run_helper(state, &command);
            return;
        }
        let grace_s = grace.as_millis().div_ceil(1000).to_string();
        let command: Vec<String> =
            job.stop_command.iter().map(|word| word.replace("{grace_s}", &grace_s)).collect();
        if command.is_empty() {
            let _ = rustix::process::kill_process_group(live.pid, Signal::TERM);
            // One that is stopped (SIGSTOP) would not notice otherwise.
            let _ = rustix::process::kill_process_group(live.pid, Signal::CONT);
        }
        self.run_helper(state, &command);
        state.timers.insert((Instant::now() + grace, at.clone(), Due::Kill));
        self.wake();
    }

    /// Does what is due, and says when the next thing is.
    pub(crate) fn fire(&self, now: Instant) -> Option<Duration> {
        let mut state = self.lock();
        loop {
            let (at, job, due) = state.timers.first()?.clone();
            if at > now {
                return Some(at - now);
            }
            state.timers.pop_first();
            match due {
                Due::Timeout => self.stop(&mut state, &job, TIMEOUT_GRACE, Cause::Timeout),
                Due::Kill => self.stop(&mut state, &job, Duration::ZERO, Cause::Stopped),
                Due::Silence => self.mind_silence(&mut state, &job, now),
                Due::Walltime if walltime_due(&state, &job).is_none_or(|due| due > now) => {}
                Due::Walltime => {
                    let alone = state.alone_since.map(|since| now.duration_since(since));
                    if alone.is_some_and(|alone| alone >= Duration::from_millis(DISCONNECTED_MS)) {
                        self.stop(&mut state, &job, TIMEOUT_GRACE, Cause::Walltime);
                    } else {
                        // An agent is there and minds it; look again in case it goes.
                        state.timers.insert((now + WALLTIME_SLACK, job, due));
                    }
                }
            }
        }
    }

    /// Stops a job that must not go on without the server, if that has been silent for too long.
    fn mind_silence(&self, state: &mut State, at: &Key, now: Instant) {
        let Some(job) = state.jobs.get(at).filter(|job| !matches!(job.phase, Phase::Ended(_))) else {
            return;
        };
        let Some(limit) = job.note.stop_after_silence_ms.map(Duration::from_millis) else { return };
        let due = state.heard.unwrap_or(now) + limit;
        if due > now {
            state.timers.insert((due, at.clone(), Due::Silence));
            return;
        }
        let message = format!("stopped by its node: the server was silent for {} s", limit.as_secs());
        super::spawn::say(&self.layout, &job.fence, &message);
        self.stop(state, at, TIMEOUT_GRACE, Cause::Disconnected);
    }

    /// Notes that a job may run for longer or less than was said. What is noted already is looked at again when it comes.
    pub(crate) fn set_walltime(&self, at: &Key, walltime_ms: Option<u64>) {
        self.lock().set_walltime(at, walltime_ms);
        self.wake();
    }

    /// Notes the instants that matter to a job that just began.
    pub(crate) fn arm(&self, state: &mut State, at: &Key, timeout_ms: Option<u64>) {
        let Some(job) = state.jobs.get(at) else { return };
        let now = Instant::now();
        let walltime = walltime_due(state, at);
        let timeout = timeout_ms.and_then(|ms| now.checked_add(Duration::from_millis(ms)));
        let silence = job.note.stop_after_silence_ms;
        let silence = silence.and_then(|ms| now.checked_add(Duration::from_millis(ms)));
        let awaited = state.timers.first().map(|(due, ..)| *due);
        state.timers.extend(silence.map(|due| (due, at.clone(), Due::Silence)));
        state.timers.extend(timeout.map(|due| (due, at.clone(), Due::Timeout)));
        state.timers.extend(walltime.map(|due| (due, at.clone(), Due::Walltime)));
        // Who waits for a later instant has to hear of an earlier one; of the others it hears when it looks.
        if state.timers.first().map(|(due, ..)| *due) != awaited {
            self.wake();
        }
    }

    /// Starts a command beside the jobs, such as the one that stops a container.
    pub(crate) fn run_helper(&self, state: &mut State, argv: &[String]) {
        let Some((program, args)) = argv.split_first() else { return };
        let null = std::process::Stdio::null;
        let spawned = std::process::Command::new(program)
            .args(args)
            .stdin(null())
            .stdout(null())
            .stderr(null())
            .spawn();
        match spawned.and_then(|child| Ok((super::spawn::watch(self, child.id())?, child))) {
            Ok((watch, child)) => {
                state.helpers.insert(child.id(), (child, watch));
            }
            Err(error) => eprintln!("keeper: cannot run {program}: {error}"),
        }
    }

    /// Removes jobs whose ends the server knows, and their files.
    pub(crate) fn forget(&self, fences: &[Fence]) {
        let mut state = self.lock();
        let gone: Vec<Fence> = fences
            .iter()
            .filter(|fence| {
                let over = |job: &Job| matches!(job.phase, Phase::Ended(_));
                state.jobs.get(&key(fence)).is_some_and(over) && state.jobs.remove(&key(fence)).is_some()
            })
            .cloned()
            .collect();
        drop(state);
        if gone.is_empty() {
            return;
        }
        if let Err(error) = self.journal().forgot(&gone) {
            eprintln!("keeper: cannot write the journal: {error}");
        }
        // Whatever is left of any job could still write to its files.
        let nothing_left = self.orphans.are_none();
        if !nothing_left {
            self.wake();
        }
        for fence in &gone {
            if nothing_left {
                super::spawn::recycle_files(self, fence);
            } else {
                super::spawn::remove_files(&self.layout, fence);
            }
        }
    }

    /// Ends what jobs that are over left running.
    pub(crate) fn sweep(&self) {
        let over = |fence: &Fence| {
            let state = self.lock();
            state.jobs.get(&key(fence)).is_none_or(|job| matches!(job.phase, Phase::Ended(_)))
        };
        self.orphans
            .sweep(|pid| self.lock().helpers.contains_key(&pid.as_raw_nonzero().get().cast_unsigned()), over);
    }

    /// Ends jobs of which the kernel killed a part for memory, where it does not end all of them by itself.
    pub(crate) fn end_what_ran_out_of_memory(&self) {
        let state = self.lock();
        for job in state.jobs.values() {
            let Phase::Live(live) = &job.phase else { continue };
            if live.group.as_ref().is_some_and(Group::lost_a_part) {
                let message = "it ran out of memory: a process of it was killed, and so is the rest";
                super::spawn::say(&self.layout, &job.fence, message);
                kill_live(live);
            }
        }
    }

    /// What is told first on a connection.
    pub(crate) fn hello(&self, state: &State) -> Hello {
        let enforced = self.cgroups.limits();
        let mut hello = Hello {
            pid: std::process::id(),
            limits: enforced.how.clone(),
            enforced: Some(enforced),
            running: Vec::new(),
            ended: Vec::new(),
            remembers: self.remembers,
        };
        for job in state.jobs.values() {
            let running = |since: Option<Instant>| Running {
                fence: job.fence.clone(),
                for_ms: since.map_or(0, |since| since.elapsed().as_millis() as u64),
                note: job.note.clone(),
                ahead: state.is_ahead(job),
            };
            match &job.phase {
                Phase::Ended(ended) => hello.ended.push((**ended).clone()),
                Phase::Live(live) => hello.running.push(running(Some(live.since))),
                Phase::Queued(_) | Phase::Starting => hello.running.push(running(None)),
            }
        }
        hello
    }
}

impl Job {
    fn over(ended: Ended) -> Self {
        Self {
            fence: ended.fence.clone(),
            note: ended.note.clone(),
            phase: Phase::Ended(Box::new(ended)),
            cause: None,
            stop_grace: None,
            stop_command: Vec::new(),
            kill_command: Vec::new(),
            elsewhere: false,
            array: None,
            files: None,
        }
    }
}

impl State {
    fn set_walltime(&mut self, at: &Key, walltime_ms: Option<u64>) {
        let Some(job) = self.jobs.get_mut(at) else { return };
        job.note.walltime_ms = walltime_ms;
        let due = walltime_due(self, at);
        self.timers.extend(due.map(|due| (due, at.clone(), Due::Walltime)));
    }

    /// Takes a job from those that begin when another one ends; whether it was one.
    fn take_ahead(&mut self, at: &Key) -> bool {
        let Some(array) = self.jobs.get(at).and_then(|job| job.array.as_ref()) else { return false };
        let Some(ahead) = self.ahead.get_mut(array) else { return false };
        let before = ahead.len();
        ahead.retain(|other| other != at);
        let taken = ahead.len() < before;
        if ahead.is_empty() {
            self.ahead.remove(&array.clone());
        }
        taken
    }

    pub(crate) fn is_ahead(&self, job: &Job) -> bool {
        let ahead = job.array.as_ref().and_then(|array| self.ahead.get(array));
        ahead.is_some_and(|ahead| ahead.contains(&key(&job.fence)))
    }

    /// Whether whoever begins a job may wait for its end: something is to begin in its place, and nobody else waits for a thread.
    pub(crate) fn someone_may_stay(&self, at: &Key, attendants: usize) -> bool {
        let array = self.jobs.get(at).and_then(|job| job.array.as_ref());
        array.is_some_and(|array| self.ahead.contains_key(array))
            && self.queue.is_empty()
            && self.attending < attendants
    }

    /// What begins in place of an element of an array that ended.
    pub(crate) fn next_of(&mut self, array: Option<&str>) -> Option<Key> {
        let ahead = self.ahead.get_mut(array?)?;
        let next = ahead.pop_front();
        if ahead.is_empty() {
            self.ahead.remove(array?);
        }
        next
    }
}

/// When a job that runs is ended without the server because its walltime is long over.
fn walltime_due(state: &State, at: &Key) -> Option<Instant> {
    let job = state.jobs.get(at)?;
    let Phase::Live(live) = &job.phase else { return None };
    let walltime = Duration::from_millis(job.note.walltime_ms?);
    live.since.checked_add(walltime)?.checked_add(WALLTIME_SLACK)
}

/// Ends all processes of a job at once. Says whether it is known that there was none but the first.
pub(crate) fn kill_live(live: &Live) -> bool {
    let alone = live.group.as_ref().is_some_and(|group| group.kill(live.pid));
    let _ = rustix::process::kill_process_group(live.pid, Signal::KILL);
    alone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walltime_that_is_changed_counts_from_the_beginning() {
        let child = std::process::Command::new("true").spawn().expect("begun");
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a number")).expect("a process");
        let watch = Arc::new(OwnedFd::from(File::open("/dev/null").expect("opened")));
        let since = Instant::now();
        let live = Live { child, pid, watch, watched: true, since, group: None };
        let fence = Fence { job: landfall_model::JobId::new("j").expect("id"), attempt: 1, epoch: 1 };
        let at = key(&fence);
        let mut state = State::default();
        let job = Job {
            fence,
            note: Note { walltime_ms: Some(1000), ..Note::default() },
            phase: Phase::Live(Box::new(live)),
            cause: None,
            stop_grace: None,
            stop_command: Vec::new(),
            kill_command: Vec::new(),
            elsewhere: false,
            array: None,
            files: None,
        };
        state.jobs.insert(at.clone(), job);
        let due = |state: &State| walltime_due(state, &at).map(|due| (due - since).as_secs());
        assert_eq!(due(&state), Some(61));
        for (ms, expected) in [(Some(3_600_000), Some(3660)), (Some(2000), Some(62)), (None, None)] {
            state.set_walltime(&at, ms);
            assert_eq!(due(&state), expected);
            let awaited = state.timers.iter().map(|(due, ..)| (*due - since).as_secs());
            assert!(expected.is_none_or(|expected| awaited.into_iter().any(|it| it == expected)));
        }
        if let Some(Job { phase: Phase::Live(live), .. }) = state.jobs.get_mut(&at) {
            live.child.wait().expect("ended");
        }
    }
}
