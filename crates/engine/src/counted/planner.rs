//! The planner: who waits, who runs, and one pass.

use std::collections::BTreeSet;

use landfall_model::{Millis, Time};

use super::forecast::{Corrector, LastTwo};
use super::line::{Entry, Gap, Line};
use super::reservations::Promises;

/// A job's place in the order of arrival.
pub type Ticket = u32;

/// What may overtake a job that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Strict,
    /// Whatever fits.
    Greedy,
    /// What does not delay the first job that is blocked.
    Easy,
    /// What does not delay so many jobs that are blocked before it; `None` means all.
    Reserving {
        /// How many blocked jobs are promised a time.
        depth: Option<u32>,
        /// Whether promises stand until they are kept, or are made anew in every pass.
        standing: bool,
    },
}

/// How the planner works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    pub mode: Mode,
    /// Whether those who overtake are looked at shortest first; the order of arrival decides between equals.
    pub ranked: bool,
    /// Whether durations are predicted from what users' jobs took before, and what becomes of a prediction that a job
    /// outlives. `None`: as asked for.
    pub learned: Option<Corrector>,
}

impl Rules {
    /// With the durations that jobs ask for.
    pub const fn asked(mode: Mode, ranked: bool) -> Self {
        Self { mode, ranked, learned: None }
    }
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    pub ticket: Ticket,
    /// Whether it overtook one that is blocked.
    pub backfill: bool,
}

/// Running jobs by expected release.
#[derive(Debug, Clone, Default)]
pub(super) struct Releases {
    /// When and how many, by time.
    due: Vec<(i64, u32)>,
}

impl Releases {
    pub(super) fn insert(&mut self, at: i64, units: u32) {
        let place = self.due.partition_point(|due| *due < (at, units));
        self.due.insert(place, (at, units));
    }

    pub(super) fn remove(&mut self, at: i64, units: u32) {
        if let Ok(place) = self.due.binary_search(&(at, units)) {
            self.due.remove(place);
        }
    }

    /// Units due until an instant, which are taken out.
    pub(super) fn take_until(&mut self, now: i64) -> u32 {
        let due = self.due.partition_point(|due| due.0 <= now);
        self.due.drain(..due).map(|(_, units)| units).sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, u32)> {
        self.due.iter().copied()
    }

    /// When so many units will be free, and how many more than that.
    fn shadow(&self, free: u32, units: u32) -> Option<(i64, u32)> {
        let mut available = free;
        let mut shadow = None;
        for (at, back) in self.iter() {
            if shadow.is_some_and(|shadow| at > shadow) {
                break;
            }
            available += back;
            if available >= units {
                shadow = Some(at);
            }
        }
        shadow.map(|at| (at, available - units))
    }
}

/// What is known of a job from its arrival to its end.
#[derive(Debug, Clone, Copy)]
struct Known {
    ask: Ask,
    /// How long it is expected to hold its units, in milliseconds, as of its arrival.
    expected: i64,
    started: i64,
    /// When its units are expected back, once it runs.
    release: i64,
}

impl Known {
    /// When its time is over by what it asked for, once it runs.
    fn limit(&self) -> i64 {
        self.started.saturating_add_unsigned(self.ask.duration.get())
    }
}

/// Alike units and the jobs that want them.
#[derive(Debug, Clone)]
pub struct Planner {
    rules: Rules,
    free: u32,
    total: u32,
    jobs: Vec<Known>,
    running: Releases,
    /// Run times of jobs that ended, where durations are predicted.
    history: LastTwo,
    /// Running jobs by the end of a prediction that is shorter than what they asked for.
    predicted: BTreeSet<(i64, Ticket)>,
    /// Waiting jobs by arrival.
    line: Line,
    /// The same jobs, shortest first, where those who overtake are looked at so.
    ranked: Line,
    promises: Promises,
    /// Promise to the head of the line as of the last pass.
    shadow: Option<(Ticket, Time)>,
    /// Jobs due until then count as ended.
    released: i64,
}

impl Planner {
    /// So many units, all free.
    pub fn new(units: u32, rules: Rules) -> Self {
        Self {
            rules,
            free: units,
            total: units,
            jobs: Vec::new(),
            running: Releases::default(),
            history: LastTwo::default(),
            predicted: BTreeSet::new(),
            line: Line::default(),
            ranked: Line::default(),
            promises: Promises::default(),
            shadow: None,
            released: i64::MIN,
        }
    }

    pub fn free(&self) -> u32 {
        self.free
    }

    /// A job joins the line. One that could never fit is not taken in.
    pub fn submit(&mut self, ask: Ask) -> Option<Ticket> {
        if ask.units == 0 || ask.units > self.total {
            return None;
        }
        let ticket = Ticket::try_from(self.jobs.len()).ok()?;
        let asked = i64::try_from(ask.duration.get()).unwrap_or(i64::MAX);
        let expected = self.rules.learned.map_or(asked, |_| self.history.expect(ask.user, asked));
        self.jobs.push(Known { ask, expected, started: 0, release: 0 });
        let entry = self.entry(ticket);
        self.line.insert(entry);
        if self.rules.ranked {
            self.ranked.insert(Entry { key: expected, ..entry });
        }
        Some(ticket)
    }

    /// A running job ends.
    pub fn end(&mut self, now: Time, ticket: Ticket) {
        let job = self.jobs[ticket as usize];
        if self.rules.learned.is_some() {
            self.history.learn(job.ask.user, now.since(Time::from_millis(job.started)));
            self.predicted.remove(&(job.release, ticket));
        }
        if job.release <= self.released {
            return;
        }
        self.running.remove(job.release, job.ask.units);
        self.free += job.ask.units;
    }

    /// Counts units of jobs whose time is over as free, before their ends are told one by one.
    ///
    /// For replays of events one at a time, where it is known that they end at this very instant. Of a job whose
    /// prediction is over now that is known only through `ends`; if it does not end, its prediction is corrected.
    pub fn release_due(&mut self, now: Time, ends: impl Fn(Ticket) -> bool) {
        self.correct(now.as_millis(), ends);
        self.released = self.released.max(now.as_millis());
        self.free += self.running.take_until(self.released);
    }

    /// Starts what may start now.
    pub fn pass(&mut self, now: Time, starts: &mut Vec<Start>) {
        let now = now.as_millis();
        self.correct(now, |_| false);
        if let Mode::Reserving { depth, standing } = self.rules.mode {
            self.reserving_pass(now, depth, standing, starts);
            return;
        }
        while let Some(head) = self.line.first().copied() {
            if head.units > self.free {
                break;
            }
            self.leave_line(&head);
            self.start(now, head.ticket);
            starts.push(Start { ticket: head.ticket, backfill: false });
        }
        let Some(head) = self.line.first().copied() else { return };
        let told = self.shadow.is_some_and(|(ticket, _)| ticket == head.ticket);
        if self.free == 0 {
            // Nobody can overtake; whoever has just become the head is still told when it starts.
            if self.rules.mode == Mode::Easy && !told {
                let shadow = self.running.shadow(self.free, head.units);
                self.shadow = shadow.map(|(at, _)| (head.ticket, Time::from_millis(at)));
            }
            return;
        }
        let gap = match self.rules.mode {
            Mode::Strict => return,
            Mode::Greedy => Gap { free: self.free, extra: self.free, room: i64::MAX },
            _ => {
                let Some((shadow, extra)) = self.running.shadow(self.free, head.units) else { return };
                self.shadow = Some((head.ticket, Time::from_millis(shadow)));
                Gap { free: self.free, extra, room: shadow - now }
            }
        };
        self.overtake(now, head.ticket, gap, starts);
    }

    /// The job at the head and the time it was promised, as of the last pass that had units to give.
    pub fn promise(&self) -> Option<(Ticket, Time)> {
        self.shadow
    }

    /// All promises as of the last pass, where several are made.
    pub fn promises(&self) -> impl Iterator<Item = (Ticket, Time)> {
        self.promises.iter().map(|(ticket, at)| (ticket, Time::from_millis(at)))
    }

    /// Promises that were moved later; none should be while they stand.
    pub fn moved_later(&self) -> u64 {
        self.promises.moved_later
    }

    /// Moves the expected ends of jobs that have outlived their predictions.
    fn correct(&mut self, now: i64, ends: impl Fn(Ticket) -> bool) {
        let Some(corrector) = self.rules.learned else { return };
        while let Some((release, ticket)) = self.predicted.first().copied().filter(|(at, _)| *at <= now) {
            self.predicted.pop_first();
            if release == now && ends(ticket) {
                continue;
            }
            let job = &mut self.jobs[ticket as usize];
            job.release = corrector.after(job.started, job.expected, release).min(job.limit());
            self.running.remove(release, job.ask.units);
            self.running.insert(job.release, job.ask.units);
            if job.release < job.limit() {
                self.predicted.insert((job.release, ticket));
            }
        }
    }

    fn overtake(&mut self, now: i64, head: Ticket, gap: Gap, starts: &mut Vec<Start>) {
        let first = starts.len();
        let found = |job: Entry| starts.push(Start { ticket: job.ticket, backfill: true });
        if self.rules.ranked {
            self.ranked.overtakers(head, gap, found);
        } else {
            self.line.overtakers(head, gap, found);
        }
        for start in &starts[first..] {
            if self.rules.ranked {
                self.line.remove(i64::from(start.ticket), start.ticket);
            }
            self.start(now, start.ticket);
        }
    }

    fn reserving_pass(&mut self, now: i64, depth: Option<u32>, standing: bool, starts: &mut Vec<Start>) {
        let waiting: Vec<Entry> = self.line.iter().copied().collect();
        let by_rank: Vec<Entry> = self.ranked.iter().copied().collect();
        let first = starts.len();
        let order = self.rules.ranked.then_some(&*by_rank);
        self.promises.walk(now, self.free, &self.running, &waiting, order, depth, standing, starts);
        for start in &starts[first..] {
            let entry = self.entry(start.ticket);
            self.leave_line(&entry);
            self.start(now, start.ticket);
        }
    }

    fn entry(&self, ticket: Ticket) -> Entry {
        let job = &self.jobs[ticket as usize];
        Entry { key: i64::from(ticket), ticket, units: job.ask.units, duration: job.expected }
    }

    fn leave_line(&mut self, entry: &Entry) {
        self.line.remove(i64::from(entry.ticket), entry.ticket);
        if self.rules.ranked {
            self.ranked.remove(self.jobs[entry.ticket as usize].expected, entry.ticket);
        }
    }

    fn start(&mut self, now: i64, ticket: Ticket) {
        let job = &mut self.jobs[ticket as usize];
        job.started = now;
        job.release = now.saturating_add(job.expected);
        if self.rules.learned.is_some() && job.release < job.limit() {
            self.predicted.insert((job.release, ticket));
        }
        self.running.insert(job.release, job.ask.units);
        self.free -= job.ask.units;
    }
}
