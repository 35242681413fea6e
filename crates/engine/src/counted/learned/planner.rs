//! The planner: who waits, who runs, and one pass.

use landfall_model::{Millis, Time};

use super::super::line::Line;
use super::super::planner::{Releases, Start, Ticket};
use super::history::History;
use super::job::{Candidate, Known};
use super::promises::{Holder, Promises};
use super::room::Room;
use crate::habits::seconds;

/// How the planner works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How long a job waits before it is promised a time.
    pub patience: Millis,
    /// How many jobs have a promise at once, at most.
    pub promises: u32,
    /// How much later than the first time there is a promise is made, so that short jobs may go before.
    pub grace: Millis,
    /// How long a job waits before no grace is taken from it any more.
    pub limit: Millis,
    /// About how many of its ended jobs a class remembers; at least 1.
    pub memory: u16,
    /// Run times below this are not told apart: the bound of the bounded slowdown, in whole seconds, at least 1.
    pub bound: Millis,
}

impl Settings {
    /// What is used where nobody says otherwise.
    pub const USUAL: Self = Self {
        patience: Millis::secs(20 * 3600),
        promises: 2,
        grace: Millis::secs(90 * 60),
        limit: Millis::secs(60 * 3600),
        memory: 8,
        bound: Millis::secs(10),
    };
}

impl Default for Settings {
    fn default() -> Self {
        Self::USUAL
    }
}

fn millis(span: Millis) -> i64 {
    i64::try_from(span.get()).unwrap_or(i64::MAX)
}

/// What a job asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Units, at least 1.
    pub units: u32,
    /// How long it may hold them.
    pub duration: Millis,
    /// Whose job it is: any number, the same one for all jobs of a user.
    pub user: i64,
}

/// Alike units and the jobs that want them.
#[derive(Debug, Clone)]
pub struct Planner {
    settings: Settings,
    free: u32,
    total: u32,
    jobs: Vec<Known>,
    running: Releases,
    /// Waiting jobs without a promise, by arrival.
    line: Line,
    promises: Promises,
    /// What those in the line may take as of the last pass.
    room: Room,
    history: History,
    /// Jobs that a pass has seen; those after them are newcomers.
    seen: usize,
    /// Whether units came back since the last pass.
    freed: bool,
    /// Whether they came back before they were expected.
    early: bool,
    /// Jobs due until then count as ended.
    released: i64,
    /// Kept for its memory.
    candidates: Vec<Candidate>,
}

impl Planner {
    /// So many units, all free.
    pub fn new(units: u32, settings: Settings) -> Self {
        Self {
            settings,
            free: units,
            total: units,
            jobs: Vec::new(),
            running: Releases::default(),
            line: Line::default(),
            promises: Promises::default(),
            room: Room { now: units, later: Vec::new() },
            history: History::new(settings.memory, seconds(settings.bound.get())),
            seen: 0,
            freed: false,
            early: false,
            released: i64::MIN,
            candidates: Vec::new(),
        }
    }

    pub fn free(&self) -> u32 {
        self.free
    }

    pub fn is_idle(&self) -> bool {
        self.line.first().is_none() && self.promises.holders.is_empty()
    }

    /// A job joins the line. One that could never fit is not taken in.
    pub fn submit(&mut self, now: Time, ask: Ask) -> Option<Ticket> {
        if ask.units == 0 || ask.units > self.total {
            return None;
        }
        let ticket = Ticket::try_from(self.jobs.len()).ok()?;
        let classes = self.history.classes(ask.user, seconds(ask.duration.get()), ask.units);
        self.history.joined(classes);
        let submitted = now.as_millis();
        let job = Known { ask, classes, submitted, started: 0, release: 0, expected: None };
        self.line.insert(job.entry(ticket));
        self.jobs.push(job);
        Some(ticket)
    }

    /// A running job ends, and its classes learn how long it took.
    pub fn end(&mut self, now: Time, ticket: Ticket) {
        let job = self.jobs[ticket as usize];
        let run = now.since(Time::from_millis(job.started));
        self.history.learn(job.classes, seconds(run.get()));
        if job.release <= self.released {
            return;
        }
        self.running.remove(job.release, job.ask.units);
        self.free += job.ask.units;
        self.freed = true;
        self.early |= job.release > now.as_millis();
    }

    /// Counts units of jobs whose time is over as free, before their ends are told one by one.
    ///
    /// For replays of events one at a time, where it is known that they end at this very instant.
    pub fn release_due(&mut self, now: Time) {
        self.released = self.released.max(now.as_millis());
        let units = self.running.take_until(self.released);
        self.free += units;
        self.freed |= units > 0;
    }

    /// Starts what may start now.
    pub fn pass(&mut self, now: Time, starts: &mut Vec<Start>) {
        let now = now.as_millis();
        let first = starts.len();
        let missed = self.promises.missed(now);
        let early = std::mem::take(&mut self.early);
        let mut everyone = std::mem::take(&mut self.freed) || missed;
        if everyone {
            self.move_holders(now, missed, early);
        }
        loop {
            self.start_best(now, everyone, starts);
            // A holder that starts before its time leaves what was kept for it to those who were refused before.
            if !std::mem::take(&mut self.freed) {
                break;
            }
            everyone = true;
        }
        self.seen = self.jobs.len();
        let oldest_left = self.oldest_waiting();
        for start in &mut starts[first..] {
            start.backfill = oldest_left.is_some_and(|oldest| oldest < start.ticket);
        }
        self.promise_oldest(now);
    }

    /// All promises as of the last pass, oldest job first.
    pub fn promises(&self) -> impl Iterator<Item = (Ticket, Time)> {
        self.promises.holders.iter().map(|holder| (holder.ticket, Time::from_millis(holder.at)))
    }

    /// Promises that were moved later; none is while jobs keep to their durations and every end is followed by a pass.
    pub fn moved_later(&self) -> u64 {
        self.promises.moved_later
    }

    /// Step 1 of a pass, and what is left beside the holders.
    fn move_holders(&mut self, now: i64, missed: bool, early: bool) {
        self.room.now = self.free;
        if self.promises.holders.is_empty() {
            return;
        }
        let mut plan = self.promises.plan(now, self.free, &self.running);
        if missed {
            self.promises.move_missed(&mut plan);
        } else if early {
            self.promises.move_forward(now, millis(self.settings.grace), &mut plan);
        }
        self.promises.room(self.free, &plan, &mut self.room);
    }

    /// Step 2 of a pass: among everyone who waits, or among newcomers.
    fn start_best(&mut self, now: i64, everyone: bool, starts: &mut Vec<Start>) {
        if self.room.now == 0 {
            return;
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        let room = &self.room;
        let admits = |units, duration| room.admits(units, now.saturating_add(duration));
        if everyone {
            for entry in self.line.admitted(admits) {
                let job = &mut self.jobs[entry.ticket as usize];
                candidates.push(job.candidate(now, entry.ticket, &self.history));
            }
            for holder in &self.promises.holders {
                let job = &mut self.jobs[holder.ticket as usize];
                candidates.push(job.candidate(now, holder.ticket, &self.history));
            }
        } else {
            for (job, ticket) in self.jobs[self.seen..].iter_mut().zip(self.seen as Ticket..) {
                if admits(job.ask.units, job.duration()) {
                    candidates.push(job.candidate(now, ticket, &self.history));
                }
            }
        }
        candidates.sort_unstable_by(Candidate::order);
        for candidate in &candidates {
            let job = &self.jobs[candidate.ticket as usize];
            let (units, until) = (job.ask.units, now.saturating_add(job.duration()));
            let holder = self.promises.holders.iter().position(|holder| holder.ticket == candidate.ticket);
            if let Some(place) = holder {
                // It may take the units that are kept for itself; if that does not do, all stays as it was.
                let before = self.room.clone();
                let Holder { at, duration, .. } = self.promises.holders[place];
                self.room.forgo(units, at, at.saturating_add(duration));
                if !self.room.admits(units, until) {
                    self.room = before;
                    continue;
                }
                self.promises.holders.remove(place);
                self.room.take(units, until);
                self.start(now, candidate.ticket, starts);
                self.freed = true;
                break;
            } else if self.room.admits(units, until) {
                self.line.remove(i64::from(candidate.ticket), candidate.ticket);
            } else {
                continue;
            }
            self.room.take(units, until);
            self.start(now, candidate.ticket, starts);
        }
        self.candidates = candidates;
    }

    /// Step 3 of a pass.
    fn promise_oldest(&mut self, now: i64) {
        let Settings { patience, promises, grace, limit, .. } = self.settings;
        while let Some(oldest) = self.line.first().copied() {
            let submitted = self.jobs[oldest.ticket as usize].submitted;
            if now < submitted.saturating_add(millis(patience))
                || self.promises.holders.len() >= promises as usize
            {
                break;
            }
            let mut plan = self.promises.plan(now, self.free, &self.running);
            let lenient_until = submitted.saturating_add(millis(limit));
            if !self.promises.give(&oldest, lenient_until, now, millis(grace), &mut plan) {
                break;
            }
            self.line.remove(oldest.key, oldest.ticket);
            self.promises.room(self.free, &plan, &mut self.room);
        }
    }

    fn oldest_waiting(&self) -> Option<Ticket> {
        let holders = self.promises.holders.iter().map(|holder| holder.ticket);
        holders.chain(self.line.first().map(|entry| entry.ticket)).min()
    }

    fn start(&mut self, now: i64, ticket: Ticket, starts: &mut Vec<Start>) {
        let job = &mut self.jobs[ticket as usize];
        self.history.started(job.classes);
        job.started = now;
        job.release = now.saturating_add(job.duration());
        self.running.insert(job.release, job.ask.units);
        self.free -= job.ask.units;
        starts.push(Start { ticket, backfill: false });
    }
}
