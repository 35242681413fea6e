//! The planner that learns written down once more, from its description and as plainly as it can be said: every second
//! is looked at, nothing is kept between passes but starts, ends and promises.

use landfall_engine::counted::learned::Settings;
use landfall_replay::machine::Events;
use landfall_replay::trace::batch::BatchJob;

/// Starts and first promises.
pub(crate) struct Outcome {
    pub(crate) started: Vec<i64>,
    pub(crate) promised: Vec<Option<i64>>,
}

struct World<'a> {
    jobs: &'a [BatchJob],
    procs: i64,
    patience: i64,
    promises: usize,
    grace: i64,
    limit: i64,
    memory: i128,
    bound: i64,
    now: i64,
    started: Vec<Option<i64>>,
    /// In the order of their starts.
    order: Vec<usize>,
    /// In the order in which their ends were told.
    ended: Vec<usize>,
    arrived: usize,
    /// Holders and their times, oldest first.
    holders: Vec<(usize, i64)>,
    promised: Vec<Option<i64>>,
    early: bool,
}

/// What happens to jobs on a machine.
pub(crate) fn learned(jobs: &[BatchJob], procs: u64, settings: Settings, events: Events) -> Outcome {
    let secs = |millis: landfall_model::Millis| millis.get() as i64 / 1000;
    let mut world = World {
        jobs,
        procs: procs as i64,
        patience: secs(settings.patience),
        promises: settings.promises as usize,
        grace: secs(settings.grace),
        limit: secs(settings.limit),
        memory: i128::from(settings.memory),
        bound: secs(settings.bound),
        now: 0,
        started: vec![None; jobs.len()],
        order: Vec::new(),
        ended: Vec::new(),
        arrived: 0,
        holders: Vec::new(),
        promised: vec![None; jobs.len()],
        early: false,
    };
    while world.next_events(events == Events::Single) {
        world.pass();
    }
    let started = world.started.into_iter().map(|start| start.expect("every job starts")).collect();
    Outcome { started, promised: world.promised }
}

impl World<'_> {
    /// One event, arrivals before ends and ends in the order of starts; or all events of the next instant.
    fn next_events(&mut self, one: bool) -> bool {
        let arrival = self.jobs.get(self.arrived).map(|job| job.submit);
        let Some(now) = arrival.into_iter().chain(self.next_end().map(|(at, _)| at)).min() else {
            return false;
        };
        self.now = now;
        while self.arrived < self.jobs.len() && self.jobs[self.arrived].submit == now {
            self.arrived += 1;
            if one {
                return true;
            }
        }
        while let Some((_, job)) = self.next_end().filter(|(at, _)| *at == now) {
            self.ended.push(job);
            self.early |= self.jobs[job].run < self.jobs[job].estimate;
            if one {
                return true;
            }
        }
        true
    }

    fn next_end(&self) -> Option<(i64, usize)> {
        let runs = self.order.iter().filter(|job| !self.ended.contains(job));
        let ends = runs.filter_map(|job| self.started[*job].map(|start| (start + self.jobs[*job].run, *job)));
        ends.min_by_key(|(at, _)| *at)
    }

    fn pass(&mut self) {
        if std::mem::take(&mut self.early) {
            for place in 0..self.holders.len() {
                let (job, at) = self.holders[place];
                let earlier = self.lenient(job, Some(place));
                self.holders[place].1 = at.min(earlier);
            }
        }
        while self.sweep() {}
        while self.holders.len() < self.promises {
            let Some(oldest) = (0..self.arrived).find(|job| self.waits(*job)) else { break };
            if self.now - self.jobs[oldest].submit < self.patience {
                break;
            }
            let at = self.lenient(oldest, None);
            self.holders.push((oldest, at));
            self.promised[oldest] = Some(at);
        }
    }

    /// Starts who may start, best first, up to the first holder; whether there was one.
    fn sweep(&mut self) -> bool {
        let mut waiting: Vec<usize> = (0..self.arrived).filter(|job| self.started[*job].is_none()).collect();
        waiting.sort_by(|one, two| {
            let ((slowdown, cost), (other_slowdown, other_cost)) = (self.merit(*one), self.merit(*two));
            (other_slowdown * cost).cmp(&(slowdown * other_cost)).then(one.cmp(two))
        });
        for job in waiting {
            let place = self.holders.iter().position(|(holder, _)| *holder == job);
            if self.fits(job, self.now, place) {
                self.holders.retain(|(holder, _)| *holder != job);
                self.start(job);
                if place.is_some() {
                    return true;
                }
            }
        }
        false
    }

    fn start(&mut self, job: usize) {
        self.started[job] = Some(self.now);
        self.order.push(job);
    }

    /// Whether a job waits without a promise.
    fn waits(&self, job: usize) -> bool {
        self.started[job].is_none() && !self.holders.iter().any(|(holder, _)| *holder == job)
    }

    /// Processors free in one second, by estimates, beside all holders but one.
    fn free(&self, second: i64, without: Option<usize>) -> i64 {
        let mut free = self.procs;
        for (job, start) in self.order.iter().filter_map(|job| self.started[*job].map(|start| (job, start))) {
            if !self.ended.contains(job) && start + self.jobs[*job].estimate > second {
                free -= self.jobs[*job].procs as i64;
            }
        }
        for (place, (job, at)) in self.holders.iter().enumerate() {
            let during = (*at..at + self.jobs[*job].estimate).contains(&second);
            if during && without != Some(place) {
                free -= self.jobs[*job].procs as i64;
            }
        }
        free
    }

    fn fits(&self, job: usize, at: i64, without: Option<usize>) -> bool {
        let asked = &self.jobs[job];
        (at..at + asked.estimate).all(|second| self.free(second, without) >= asked.procs as i64)
    }

    fn earliest(&self, job: usize, from: i64, without: Option<usize>) -> i64 {
        (from..).find(|at| self.fits(job, *at, without)).expect("the machine is empty one day")
    }

    fn lenient(&self, job: usize, without: Option<usize>) -> i64 {
        let first = self.earliest(job, self.now, without);
        let lenient = self.now < self.jobs[job].submit + self.limit;
        if lenient { self.earliest(job, first + self.grace, without) } else { first }
    }

    /// n·(1 + w·h) and u·r.
    fn merit(&self, at: usize) -> (i128, i128) {
        let job = &self.jobs[at];
        let longest = i128::from(job.estimate.max(self.bound));
        let (mut run, mut inverse) = (longest << 16, (1 << 40) / longest);
        for narrow in 0..3 {
            let (mut count, mut runs, mut inverses) = (0, 0, 0);
            for other in self.ended.iter().map(|at| &self.jobs[*at]) {
                let alike = other.user == job.user
                    && (narrow < 1 || other.estimate == job.estimate)
                    && (narrow < 2 || other.procs == job.procs);
                if alike {
                    let took = i128::from(other.run.max(self.bound));
                    count += (1 << 16) - count / self.memory;
                    runs += (took << 16) - runs / self.memory;
                    inverses += (1 << 40) / took - inverses / self.memory;
                }
            }
            run = ((runs + run) << 16) / (count + (1 << 16));
            inverse = ((inverses + inverse) << 16) / (count + (1 << 16));
        }
        let alike = |other: &usize| {
            let other = &self.jobs[*other];
            (other.user, other.estimate, other.procs) == (job.user, job.estimate, job.procs)
        };
        let runs = self.order.iter().any(|other| alike(other) && !self.ended.contains(other));
        let waiting = (0..self.arrived).filter(|other| alike(other) && self.started[*other].is_none());
        let pupils = if runs { 1 } else { waiting.count() as i128 };
        let run = (run >> 16).clamp(i128::from(self.bound), longest);
        let inverse = inverse.max((1 << 40) / longest);
        (pupils * ((1 << 40) + i128::from(self.now - job.submit) * inverse), run * i128::from(job.procs))
    }
}
