//! The clock of a machine: arrivals, ends, passes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use landfall_engine::counted::{Mode, Rules, Start, Ticket};
use landfall_model::{Millis, Time};

use super::planning::Planner;
use super::{Events, Planning, Settings};
use crate::trace::batch::BatchJob;

/// Called now and then with how many jobs have started; `false` stops the replay.
pub type Progress<'a> = &'a mut dyn FnMut(usize) -> bool;

/// Starts between two calls of [`Progress`].
const PROGRESS_EVERY: usize = 4096;

/// When each job started, in the order of the jobs given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schedule {
    /// Start of each job; `None` if it never started.
    pub started: Vec<Option<Time>>,
    /// Whether it overtook one that was blocked.
    pub backfilled: Vec<bool>,
    /// What each was first promised, if anything.
    pub promised: Vec<Option<Time>>,
    /// Jobs in the order of their starts.
    pub order: Vec<Ticket>,
    pub passes: u64,
    /// Promises that moved later.
    pub moved_later: u64,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

struct Clock<'a> {
    jobs: &'a [BatchJob],
    settings: Settings,
    /// Whether a newcomer that does not fit is followed by no pass. The published programs look at nothing else then;
    /// with an order of their own among those who overtake they do.
    skips: bool,
    planner: Planner,
    /// Ends to come: when, in which order they started, who.
    ends: BinaryHeap<Reverse<(Time, u32, Ticket)>>,
    arrived: usize,
    starts: Vec<Start>,
    schedule: Schedule,
}

/// Replays jobs, sorted by submission and number, none larger than the machine.
pub fn simulate(jobs: &[BatchJob], settings: Settings, progress: Progress<'_>) -> Schedule {
    let schedule = Schedule {
        started: vec![None; jobs.len()],
        backfilled: vec![false; jobs.len()],
        promised: vec![None; jobs.len()],
        order: Vec::with_capacity(jobs.len()),
        ..Schedule::default()
    };
    let mut clock = Clock {
        jobs,
        settings,
        skips: settings.planning == Planning::Rules(Rules::asked(Mode::Easy, false)),
        planner: Planner::new(settings.procs, settings.planning),
        ends: BinaryHeap::new(),
        arrived: 0,
        starts: Vec::new(),
        schedule,
    };
    let mut told = 0;
    let more = match settings.events {
        Events::Single => Clock::one_event,
        Events::Batch => Clock::one_instant,
    };
    while more(&mut clock) {
        let started = clock.schedule.order.len();
        if started >= told + PROGRESS_EVERY {
            told = started;
            if !progress(started) {
                clock.schedule.stopped = true;
                break;
            }
        }
    }
    clock.schedule.moved_later = clock.planner.moved_later();
    clock.schedule
}

fn run_of(job: &BatchJob) -> Millis {
    Millis::secs(job.run.max(0) as u64)
}

impl Clock<'_> {
    fn next_arrival(&self) -> Option<Time> {
        self.jobs.get(self.arrived).map(|job| Time::from_secs(job.submit))
    }

    fn next_end(&self) -> Option<Time> {
        self.ends.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next arrival in; the ticket is the job's place.
    fn arrive(&mut self) -> u32 {
        let job = &self.jobs[self.arrived];
        let duration = self.settings.estimate.of(job);
        let units = u32::try_from(job.procs).unwrap_or(u32::MAX);
        let ticket = self.planner.submit(job, units, duration);
        debug_assert_eq!(ticket, Some(self.arrived as u32), "jobs fit into the machine");
        self.arrived += 1;
        units
    }

    fn end(&mut self) {
        if let Some(Reverse((at, _, ticket))) = self.ends.pop() {
            self.planner.end(at, ticket);
        }
    }

    /// One event, then a pass.
    fn one_event(&mut self) -> bool {
        let (arrival, end) = (self.next_arrival(), self.next_end());
        let Some(now) = arrival.into_iter().chain(end).min() else { return false };
        // A job whose estimate is over now ends now, and its processors count as free before its turn comes.
        let (jobs, started) = (self.jobs, &self.schedule.started);
        self.planner.release_due(now, |ticket| {
            let at = ticket as usize;
            started[at].is_some_and(|start| start + run_of(&jobs[at]) == now)
        });
        if arrival == Some(now) {
            let units = self.arrive();
            if self.skips && units > self.planner.free() {
                return true;
            }
        } else {
            self.end();
        }
        self.pass(now);
        true
    }

    /// All events of an instant, then a pass; with a beat, all events up to the next one.
    fn one_instant(&mut self) -> bool {
        let Some(next) = self.next_arrival().into_iter().chain(self.next_end()).min() else { return false };
        let now = self.beat(next);
        loop {
            let end = self.next_end().filter(|at| *at <= now);
            let arrival = self.next_arrival().filter(|at| *at <= now);
            match (end, arrival) {
                (None, None) => break,
                (Some(end), arrival) if arrival.is_none_or(|arrival| end <= arrival) => self.end(),
                _ => drop(self.arrive()),
            }
        }
        self.pass(now);
        true
    }

    /// The first beat at or after an instant.
    fn beat(&self, at: Time) -> Time {
        let (Some(cycle), Some(first)) = (self.settings.cycle, self.jobs.first()) else { return at };
        let first = Time::from_secs(first.submit);
        first + cycle * at.since(first).get().div_ceil(cycle.get().max(1))
    }

    fn pass(&mut self, now: Time) {
        self.schedule.passes += 1;
        self.planner.pass(now, &mut self.starts);
        for start in self.starts.drain(..) {
            let at = start.ticket as usize;
            self.ends.push(Reverse((
                now + run_of(&self.jobs[at]),
                self.schedule.order.len() as u32,
                start.ticket,
            )));
            self.schedule.order.push(start.ticket);
            self.schedule.started[at] = Some(now);
            self.schedule.backfilled[at] = start.backfill;
        }
        let promised = &mut self.schedule.promised;
        self.planner.each_promise(|job, at| {
            promised[job as usize].get_or_insert(at);
        });
    }
}
