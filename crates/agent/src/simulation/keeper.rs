//! The keeper of a simulated node: the real journal, and processes that are only told of.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Happens, Node, Process, Saw};
use crate::keeper::journal::{Journal, Key, Started, key};
use crate::keeper::lost;
use crate::keeper::wire::{Cause, Ended, Event, Hello, Note, Program, Request, Running};

/// How long a job that must not go on without the server may take to end.
const SILENCE_GRACE: Duration = Duration::from_secs(10);
/// Exit code of a process that was killed, and of one that was asked to end.
const KILLED: i32 = 137;
const TERMINATED: i32 = 143;
/// What a machine that loses power may lose of a file that nobody synced.
const UNSYNCED_BYTES_MAX: u64 = 600;

#[derive(Debug)]
enum Phase {
    /// To begin when another element of its array ends.
    Ahead,
    Queued,
    Starting,
    Live(u64),
    Ended(Box<Ended>),
}

#[derive(Debug)]
struct Kept {
    fence: landfall_model::life::Fence,
    note: Note,
    program: Program,
    phase: Phase,
    cause: Option<Cause>,
    stop_grace: Option<Duration>,
    since: Duration,
    /// How its process ended, if it did before it was noted.
    over: Option<i32>,
    array: Option<String>,
    /// The end of another one in whose place it begins, to be told once it did.
    after: Option<Box<Ended>>,
}

/// The state that `keeper::state` has, without processes and threads.
#[derive(Debug)]
pub(super) struct Keeper {
    journal: Journal,
    remembers: bool,
    jobs: BTreeMap<Key, Kept>,
    heard: Duration,
    /// Whether an agent is connected.
    pub(super) linked: bool,
}

impl Node {
    fn journal_path(&self) -> std::path::PathBuf {
        self.layout.file("keeper.journal")
    }

    /// A machine without power may lose the end of what was not synced.
    pub(super) fn lose_last_lines(&mut self) {
        let path = self.journal_path();
        let Ok(bytes) = std::fs::read(&path) else { return };
        let most = UNSYNCED_BYTES_MAX.min(bytes.len() as u64);
        // The first line was written when the keeper began, which is long enough ago.
        let first = bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lost = (self.draw)(most + 1) as usize;
        let kept = (bytes.len() - lost).max(first);
        let _ = std::fs::write(&path, &bytes[..kept]);
    }

    pub(super) fn keeper_starts(&mut self) {
        let Ok((mut journal, mut found)) = Journal::open(&self.journal_path(), &self.boot_id()) else {
            return;
        };
        for process in std::mem::take(&mut self.processes) {
            self.saw(process.number, Saw::Killed);
        }
        for started in &found.left {
            let lost = lost(&self.layout, started);
            let _ = journal.ended(&lost);
            found.ended.push(lost);
        }
        let jobs = found.ended.into_iter().map(|ended| {
            let kept = Kept {
                fence: ended.fence.clone(),
                note: ended.note.clone(),
                program: Program::default(),
                cause: None,
                stop_grace: None,
                since: self.now,
                over: None,
                array: None,
                after: None,
                phase: Phase::Ended(Box::new(ended)),
            };
            (key(&kept.fence), kept)
        });
        let jobs = jobs.collect();
        self.keepers += 1;
        self.keeper = Some(Keeper { journal, remembers: found.whole, jobs, heard: self.now, linked: false });
    }

    /// The agent connects to the keeper, and starts one if there is none.
    pub(super) fn connect_keeper(&mut self) {
        if self.keeper.is_none() {
            self.keeper_starts();
        }
        // One agent at a time: what the last one wrote before it died is read before the next one is greeted.
        let written = |happens: &Happens| matches!(happens, Happens::ToKeeper(..));
        let unread: Vec<_> =
            self.queue.iter().filter(|(_, happens)| written(happens)).map(|(at, _)| *at).collect();
        let unread: Vec<Happens> = unread.iter().filter_map(|at| self.queue.remove(at)).collect();
        unread.into_iter().for_each(|happens| self.keeper_happens(happens));
        let now = self.now;
        let Some(keeper) = &mut self.keeper else { return };
        keeper.linked = true;
        let mut hello = Hello {
            pid: self.keepers as u32,
            limits: String::new(),
            enforced: None,
            running: Vec::new(),
            ended: Vec::new(),
            remembers: keeper.remembers,
        };
        for job in keeper.jobs.values() {
            let running = |since: Duration| Running {
                fence: job.fence.clone(),
                for_ms: now.saturating_sub(since).as_millis() as u64,
                note: job.note.clone(),
                ahead: matches!(job.phase, Phase::Ahead),
            };
            match &job.phase {
                Phase::Ended(ended) => hello.ended.push((**ended).clone()),
                Phase::Live(_) => hello.running.push(running(job.since)),
                Phase::Ahead | Phase::Queued | Phase::Starting => hello.running.push(running(now)),
            }
        }
        self.agent_meets_keeper(hello);
    }

    pub(super) fn keeper_gone(&mut self) {
        let Some(keeper) = self.keeper.take() else { return };
        if keeper.linked {
            self.agent_lost_keeper();
        }
    }

    fn tell(&mut self, event: Event) {
        if self.keeper.as_ref().is_some_and(|keeper| keeper.linked) {
            self.later(Happens::ToAgent(self.agents, event));
        }
    }

    pub(super) fn keeper_happens(&mut self, happens: Happens) {
        let life = match &happens {
            Happens::ToKeeper(life, _)
            | Happens::Noted(life, _)
            | Happens::Begins(life, _)
            | Happens::Began(life, _)
            | Happens::Reaps(life, ..)
            | Happens::Kill(life, _)
            | Happens::Silence(life, _) => *life,
            _ => return,
        };
        if self.keeper.is_none() || life != self.keepers {
            return;
        }
        match happens {
            Happens::ToKeeper(_, request) => self.keeper_asked(request),
            Happens::Noted(_, at) => self.note_beginning(at),
            Happens::Begins(_, at) => self.begin_process(at),
            Happens::Began(_, at) => self.note_process(&at),
            Happens::Reaps(_, at, code) => self.reap(&at, code),
            Happens::Kill(_, at) => self.stop(&at, Duration::ZERO, Cause::Stopped),
            Happens::Silence(_, at) => self.mind_silence(at),
            _ => {}
        }
    }

    fn kept(&mut self, at: &Key) -> Option<&mut Kept> {
        self.keeper.as_mut()?.jobs.get_mut(at)
    }

    fn keeper_asked(&mut self, request: Request) {
        let now = self.now;
        let Some(keeper) = &mut self.keeper else { return };
        match request {
            Request::Spawn(spawn) => {
                let at = key(&spawn.fence);
                if let Some(known) = keeper.jobs.get_mut(&at) {
                    known.fence.epoch = known.fence.epoch.max(spawn.fence.epoch);
                    return;
                }
                keeper.heard = now;
                let kept = Kept {
                    fence: spawn.fence,
                    note: spawn.note,
                    program: spawn.program,
                    phase: if spawn.ahead { Phase::Ahead } else { Phase::Queued },
                    cause: None,
                    stop_grace: None,
                    since: now,
                    over: None,
                    array: spawn.array,
                    after: None,
                };
                keeper.jobs.insert(at.clone(), kept);
                if !spawn.ahead {
                    self.later(Happens::Noted(self.keepers, at));
                }
            }
            Request::Begin { fence } => self.begin_ahead(&key(&fence)),
            Request::GiveBack { fence } => {
                if keeper.jobs.get(&key(&fence)).is_some_and(|kept| matches!(kept.phase, Phase::Ahead)) {
                    keeper.jobs.remove(&key(&fence));
                    self.tell(Event::Returned(fence));
                }
            }
            Request::Signal { fence, .. } => {
                let Some(Phase::Live(number)) = keeper.jobs.get(&key(&fence)).map(|kept| &kept.phase) else {
                    return;
                };
                let (number, pause) = (*number, (self.draw)(4000));
                // One in eight never saves anything.
                if (self.draw)(8) > 0 {
                    self.at(now + Duration::from_millis(pause), Happens::Saves(number, fence.job));
                }
            }
            Request::Stop { fence, grace_ms, cause } => {
                self.stop(&key(&fence), Duration::from_millis(grace_ms), cause);
            }
            Request::Forget { fences } => {
                let over = |keeper: &Keeper, at: &Key| {
                    keeper.jobs.get(at).is_some_and(|kept| matches!(kept.phase, Phase::Ended(_)))
                };
                let gone: Vec<_> = fences.into_iter().filter(|fence| over(keeper, &key(fence))).collect();
                for fence in &gone {
                    keeper.jobs.remove(&key(fence));
                }
                if !gone.is_empty() {
                    let _ = keeper.journal.forgot(&gone);
                }
            }
            Request::Walltime { fence, walltime_ms } => {
                if let Some(kept) = keeper.jobs.get_mut(&key(&fence)) {
                    kept.note.walltime_ms = walltime_ms;
                }
            }
            Request::Heard => keeper.heard = now,
            Request::Shipped { .. } | Request::Bye => {}
        }
    }

    fn begin_ahead(&mut self, at: &Key) {
        let Some(kept) = self.kept(at).filter(|kept| matches!(kept.phase, Phase::Ahead)) else { return };
        kept.phase = Phase::Queued;
        self.later(Happens::Noted(self.keepers, at.clone()));
    }

    /// Tells the end of the one in whose place a job begins, now that it did, or did not.
    fn tell_after(&mut self, at: &Key) {
        if let Some(after) = self.kept(at).and_then(|kept| kept.after.take()) {
            self.tell(Event::Ended(after));
        }
    }

    fn note_beginning(&mut self, at: Key) {
        let Some(kept) = self.kept(&at) else { return };
        if kept.stop_grace.is_some() {
            let ended = ended(kept, TERMINATED, 0);
            kept.phase = Phase::Ended(Box::new(ended.clone()));
            self.note_end(&at, ended);
            return self.tell_after(&at);
        }
        kept.phase = Phase::Starting;
        let noted = Started { fence: kept.fence.clone(), pid: 0, ticks: 0, kill_command: Vec::new() };
        let written = self.keeper.as_mut().map(|keeper| keeper.journal.started(noted));
        if written.is_some_and(|written| written.is_ok()) {
            self.later(Happens::Begins(self.keepers, at));
        }
    }

    fn begin_process(&mut self, at: Key) {
        let journal = self.layout.journal();
        let Some(kept) = self.kept(&at) else { return };
        let (fence, program) = (kept.fence.clone(), kept.program.clone());
        self.process_count += 1;
        let number = self.process_count;
        // `work TOKEN MILLISECONDS CODE`; a self test is `true`.
        let word = |place: usize| program.argv.get(place).and_then(|word| word.parse::<u64>().ok());
        let (ms, code) = (word(2).unwrap_or(0), word(3).unwrap_or(0) as i32);
        self.processes.push(Process { number, key: at.clone(), code });
        let env = program.env.into_iter().collect();
        self.saw(number, Saw::Began { fence, argv: program.argv, journal, env });
        self.at(self.now + Duration::from_millis(ms), Happens::ProcessEnds(number, None));
        self.later(Happens::Began(self.keepers, at));
    }

    fn note_process(&mut self, at: &Key) {
        let now = self.now;
        let Some(kept) = self.kept(at) else { return };
        if let Some(code) = kept.over {
            // It is over already; its end waits for its beginning.
            kept.phase = Phase::Live(0);
            let fence = kept.fence.clone();
            self.tell(Event::Spawned(fence));
            self.tell_after(at);
            return self.later(Happens::Reaps(self.keepers, at.clone(), code));
        }
        let number = self.processes.iter().find(|process| process.key == *at).map_or(0, |it| it.number);
        let Some(kept) = self.kept(at) else { return };
        kept.phase = Phase::Live(number);
        kept.since = now;
        let stop = kept.stop_grace.take().zip(kept.cause);
        let (fence, silence) = (kept.fence.clone(), kept.note.stop_after_silence_ms);
        let noted = Started { fence: fence.clone(), pid: number as u32, ticks: 1, kill_command: Vec::new() };
        if let Some(keeper) = &mut self.keeper {
            let _ = keeper.journal.started(noted);
        }
        self.tell(Event::Spawned(fence));
        self.tell_after(at);
        if let Some(silence) = silence {
            self.at(now + Duration::from_millis(silence), Happens::Silence(self.keepers, at.clone()));
        }
        if let Some((grace, cause)) = stop {
            self.stop(at, grace, cause);
        }
    }

    pub(super) fn process_ends(&mut self, number: u64, killed: Option<i32>) {
        let Some(place) = self.processes.iter().position(|process| process.number == number) else { return };
        let process = self.processes.remove(place);
        self.saw(number, if killed.is_some() { Saw::Killed } else { Saw::Exited(process.code) });
        let code = killed.unwrap_or(process.code);
        let Some(kept) = self.kept(&process.key) else { return };
        match kept.phase {
            Phase::Live(live) if live == number => {
                self.later(Happens::Reaps(self.keepers, process.key, code));
            }
            Phase::Starting => kept.over = Some(code),
            _ => {}
        }
    }

    fn reap(&mut self, at: &Key, code: i32) {
        let now = self.now;
        let Some(kept) = self.kept(at).filter(|kept| matches!(kept.phase, Phase::Live(_))) else { return };
        let wall = now.saturating_sub(kept.since).as_millis() as u64;
        let ended = ended(kept, code, wall);
        kept.phase = Phase::Ended(Box::new(ended.clone()));
        self.note_end(at, ended);
    }

    fn note_end(&mut self, at: &Key, ended: Ended) {
        let Some(keeper) = &mut self.keeper else { return };
        let _ = keeper.journal.ended(&ended);
        let by_itself = ended.cause.is_none();
        let array = keeper.jobs.get(at).and_then(|kept| kept.array.clone()).filter(|_| by_itself);
        let of_array = |kept: &Kept| matches!(kept.phase, Phase::Ahead) && kept.array == array;
        let next = keeper.jobs.iter_mut().find(|(_, kept)| array.is_some() && of_array(kept));
        match next {
            Some((next, kept)) => {
                kept.after = Some(Box::new(ended));
                let next = next.clone();
                self.begin_ahead(&next);
            }
            None => self.tell(Event::Ended(Box::new(ended))),
        }
    }

    fn stop(&mut self, at: &Key, grace: Duration, cause: Cause) {
        let Some(kept) = self.kept(at).filter(|kept| !matches!(kept.phase, Phase::Ended(_))) else { return };
        kept.cause.get_or_insert(cause);
        let Phase::Live(number) = kept.phase else {
            kept.stop_grace = Some(kept.stop_grace.map_or(grace, |earlier| earlier.min(grace)));
            return self.begin_ahead(at);
        };
        if grace.is_zero() {
            return self.process_ends(number, Some(KILLED));
        }
        // Most end when they are asked to; some have to be killed.
        if (self.draw)(4) > 0 {
            self.later(Happens::ProcessEnds(number, Some(TERMINATED)));
        }
        self.at(self.now + grace, Happens::Kill(self.keepers, at.clone()));
    }

    fn mind_silence(&mut self, at: Key) {
        let now = self.now;
        let Some(keeper) = &self.keeper else { return };
        let Some(kept) = keeper.jobs.get(&at).filter(|kept| !matches!(kept.phase, Phase::Ended(_))) else {
            return;
        };
        let Some(limit) = kept.note.stop_after_silence_ms.map(Duration::from_millis) else { return };
        let due = keeper.heard + limit;
        if due > now {
            return self.at(due, Happens::Silence(self.keepers, at));
        }
        self.stop(&at, SILENCE_GRACE, Cause::Disconnected);
    }
}

fn ended(kept: &Kept, code: i32, wall_ms: u64) -> Ended {
    Ended {
        fence: kept.fence.clone(),
        code,
        cause: kept.cause,
        wall_ms,
        cpu_ms: None,
        peak_ram_bytes: None,
        disk_bytes: 0,
        oom: false,
        written: (0, 0),
        kept: None,
        note: kept.note.clone(),
    }
}
