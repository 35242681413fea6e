//! When each waiting job would start: once by plan, once with the run times that jobs usually have.
//!
//! On a copy of the walk's overlay every job without a reservation gets the earliest slot that is left and
//! takes it, in job order; whoever may have others leave for it before that time does ([`super::outlook`]). The second
//! timetable is made in the same way with every walltime scaled, or with learned run times where the pool learns; then two
//! more tell the range in which it lies if run times are off as they were in eight of ten cases. Nodes kept for a job are taken as free when the job will
//! have ended if it starts as soon as they are expected to be vacated.

use std::collections::{BTreeMap, BTreeSet};

use landfall_model::answer::CountsOn;
use landfall_model::{Backfill, JobId, Learn, TenantId, Time};

use super::attempt::{Found, Scope};
use super::classes::{self, Class};
use super::fleet::Slot;
use super::ground::Ground;
use super::outlook::{LOOKS_MAX, Quotas};
use super::overlay::{Booking, Overlay, Releases, release};
use super::plan::{Precision, Rests, Step};
use super::problem::{Estimates, Problem, Waiting};
use super::reason::Reason;
use super::timeline::FOREVER;
use super::walk::{Outcome, Walk, hold_ends, scaled};

/// Jobs that are planned exactly.
pub(super) const EXACT_MAX: usize = 1000;

/// Planned times of one waiting job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) planned: Option<i64>,
    pub(super) likely: Option<i64>,
    /// The earliest and the latest that is likely.
    pub(super) range: Option<(i64, i64)>,
    pub(super) precision: Precision,
    pub(super) rests: Rests,
}

/// How long jobs are taken to run.
enum Pace<'f> {
    Walltimes,
    /// Shares of their walltimes, by tenant.
    Tenants(&'f BTreeMap<&'f Option<TenantId>, f64>),
    /// As was learned, times this.
    Learned(f64),
}

impl Pace<'_> {
    /// How long a job of a tenant runs that may run for a span, and is expected to run for another.
    fn of(&self, tenant: &Option<TenantId>, span: i64, expected: i64) -> i64 {
        match self {
            Self::Walltimes => span,
            Self::Tenants(shares) => scaled(span, shares.get(tenant).copied().unwrap_or(1.0)),
            Self::Learned(scale) => scaled(expected, *scale).min(span),
        }
    }

    fn of_waiting(&self, waiting: &Waiting<'_>) -> i64 {
        let expected = classes::span(waiting.expected.or(waiting.duration));
        self.of(&waiting.spec.tenant, classes::span(waiting.duration), expected)
    }
}

/// One timetable: an overlay, and the classes as it sees them.
pub(super) struct Table<'t, 'a> {
    pub(super) p: &'t Problem<'a>,
    pub(super) walk: &'t Walk<'t, 'a>,
    pub(super) overlay: Overlay<'a>,
    pub(super) classes: Vec<Class<'a>>,
    /// When those who run are expected to leave.
    pub(super) releases: Releases,
    /// What it keeps of the reservations that the walk made.
    pub(super) reserved: BTreeMap<usize, Booking>,
    pub(super) quotas: Quotas<'a>,
    /// Whether nodes that are kept come free sooner than the walk thinks.
    vacates: bool,
    /// Rises whenever something booked is given back.
    pub(super) generation: u64,
    /// Who is stopped, in the walk or by this table.
    pub(super) stopped: BTreeSet<usize>,
    pub(super) preemptions_left: u32,
    /// How many jobs have others stopped in later cycles.
    pub(super) granted: BTreeMap<i64, u32>,
    /// How often it is still tried to have others leave, and up to when it was tried in vain for a class.
    pub(super) looks: usize,
    pub(super) tried: BTreeMap<usize, i64>,
    /// When each job starts, and what that counts on.
    told: Vec<Told>,
}

/// When a job starts, and what that counts on.
type Told = (Option<i64>, Rests);

impl Table<'_, '_> {
    pub(super) fn horizon(&self) -> i64 {
        self.overlay.now.saturating_add(super::overlay::clamp(self.p.settings.horizon_ms.get()))
    }

    pub(super) fn tell(&mut self, job: usize, at: Option<i64>, rests: Rests) {
        self.told[job] = (at, rests);
    }

    /// The earliest slot for a job, not before an instant.
    fn slot(&mut self, job: usize, not_before: i64) -> Option<(i64, Found)> {
        let number = self.walk.class_of[job];
        let floor = self.classes[number].floor.filter(|&(generation, _)| generation == self.generation);
        let mut from = floor.map_or(not_before, |(_, at)| at.max(not_before));
        loop {
            let paid = self.quota_from(job, from)?;
            let (at, found) = self.overlay.earliest(self.p, &self.classes[number], paid)?;
            from = self.quota_from(job, at)?;
            if from == at {
                if not_before <= self.overlay.now {
                    self.classes[number].floor = Some((self.generation, at));
                }
                return Some((at, found));
            }
        }
    }

    /// A job takes a slot that was found for it.
    fn take_slot(&mut self, job: usize, not_before: i64, slot: Option<(i64, Found)>) {
        let Some((at, found)) = slot else { return self.tell(job, None, Rests::default()) };
        let mut rests = Rests { on: vec![CountsOn::Walltimes], jobs: Vec::new() };
        if let Some(paid) = self.quota_from(job, not_before).filter(|&paid| paid > not_before) {
            rests.on.push(CountsOn::Quota);
            rests.jobs.extend(self.quota_of(job, paid));
        }
        let booking = self.overlay.booking(&found, &self.classes[self.walk.class_of[job]], Scope::From(at));
        self.overlay.book(&booking);
        self.spend(job, booking.from, booking.to, 1);
        if self.walk.reserved.contains_key(&job) {
            self.reserved.insert(job, booking);
        }
        self.tell(job, Some(at), rests);
    }

    /// Takes the earliest slot for a job, not before an instant.
    pub(super) fn take(&mut self, job: usize, not_before: i64) {
        let slot = self.slot(job, not_before);
        self.take_slot(job, not_before, slot);
    }

    /// A reservation holds if the quota will be there, and comes sooner where kept nodes do; else the job is planned anew.
    fn keep_promise(&mut self, job: usize, booking: &Booking) {
        let from = if self.vacates { self.overlay.now } else { booking.from };
        if !self.vacates && self.quota_from(job, from) == Some(from) {
            self.spend(job, booking.from, booking.to, 1);
            let on = vec![CountsOn::Reservation, CountsOn::Walltimes];
            return self.tell(job, Some(booking.from), Rests { on, jobs: Vec::new() });
        }
        self.reserved.remove(&job);
        self.overlay.unbook(booking);
        self.generation += 1;
        self.take(job, from);
    }

    /// What a job counts on that others are being stopped for.
    fn stopping(&self, job: usize) -> Rests {
        let granted = self.walk.steps.iter().find_map(|step| match step {
            Step::Preempt(preempt) if preempt.job == *self.walk.waiting[job].job => Some(preempt),
            _ => None,
        });
        let Some(preempt) = granted else { return Rests { on: vec![CountsOn::Hold], jobs: Vec::new() } };
        let on = if preempt.reclaim { CountsOn::Reclaim } else { CountsOn::Preemption };
        let shrinks = preempt.shrinks.iter().map(|shrink| &shrink.job);
        Rests { on: vec![on], jobs: preempt.victims.iter().chain(shrinks).cloned().collect() }
    }

    /// Plans all jobs; `by_reservation` says whether a reservation is the time itself or only a turn.
    fn fill(mut self, order: &[usize], by_reservation: bool) -> Vec<Told> {
        let (now, walk) = (self.overlay.now, self.walk);
        // In job order first: of those who begin together the first in line has the first turn.
        let promised = order.iter().filter_map(|&job| Some((job, walk.reserved.get(&job)?)));
        let mut turns: Vec<(usize, &Booking)> = promised.collect();
        turns.sort_by_key(|(_, booking)| booking.from);
        for (job, booking) in turns {
            match by_reservation {
                true => self.keep_promise(job, booking),
                false => self.take(job, now),
            }
        }
        let (mut last, mut planned) = (now, 0);
        for &job in order {
            let strict = self.p.settings.backfill == Backfill::Strict;
            match &walk.outcomes[job] {
                Some(Outcome::Waits(_)) if self.walk.reserved.contains_key(&job) => {
                    self.sooner(job, now, self.told[job].0);
                }
                Some(Outcome::Waits(against)) if planned < EXACT_MAX => {
                    planned += 1;
                    let waiting = &walk.waiting[job];
                    let opens = waiting.gate_until.map(Time::as_millis);
                    // Hours that were used up come back with time, but nobody can say when.
                    let used_up = against
                        .first()
                        .is_some_and(|first| matches!(first.reason, Reason::GpuHours | Reason::Budget));
                    let open = match &waiting.gate {
                        Some(Reason::UserHold | Reason::Dependency) => opens,
                        _ => opens.or(Some(now)).filter(|_| !used_up),
                    };
                    if let Some(open) = open {
                        let from = if strict { open.max(last) } else { open };
                        let slot = self.slot(job, from);
                        if !self.sooner(job, from, slot.as_ref().map(|slot| slot.0)) {
                            self.take_slot(job, from, slot);
                        }
                    }
                }
                Some(Outcome::Preempting(ready, _)) => self.tell(job, Some(*ready), self.stopping(job)),
                _ => {}
            }
            last = self.told[job].0.unwrap_or(last).max(last);
        }
        self.behind();
        self.told
    }

    /// Jobs behind others are planned from the ends of those.
    fn behind(&mut self) {
        let mut ends: BTreeMap<&JobId, Option<i64>> = BTreeMap::new();
        let walk = self.walk;
        for (job, waiting) in walk.waiting.iter().enumerate() {
            let span = self.classes[self.walk.class_of[job]].span;
            let start = match self.walk.outcomes[job] {
                Some(Outcome::Started(_)) => Some(self.overlay.now),
                _ => self.told[job].0,
            };
            let end = start.map(|start| start.saturating_add(span)).filter(|&end| end != FOREVER);
            ends.insert(waiting.job, end);
        }
        for (occupant, &end) in self.p.occupants.iter().zip(&self.releases) {
            ends.insert(occupant.job, (end != FOREVER).then_some(end));
        }
        let mut open: Vec<usize> = (0..self.walk.waiting.len())
            .filter(|&job| self.told[job].0.is_none() && self.walk.waiting[job].behind.is_some())
            .take(EXACT_MAX)
            .collect();
        loop {
            let before = open.len();
            let mut rest = Vec::new();
            for job in open {
                let Some(behind) = &self.walk.waiting[job].behind else { continue };
                // A job that is not known any more has ended.
                let of = |id: &&JobId| ends.get(*id).copied().unwrap_or(Some(self.overlay.now));
                let known: Vec<Option<i64>> = behind.jobs.iter().map(of).collect();
                let from = if behind.any {
                    known.iter().flatten().min().copied()
                } else {
                    known
                        .iter()
                        .copied()
                        .collect::<Option<Vec<i64>>>()
                        .and_then(|ends| ends.into_iter().max())
                };
                let Some(from) = from else {
                    rest.push(job);
                    continue;
                };
                self.take(job, from.max(self.overlay.now));
                self.told[job].1.on.push(CountsOn::Dependencies);
                let span = self.classes[self.walk.class_of[job]].span;
                let end = self.told[job].0.map(|at| at.saturating_add(span)).filter(|&end| end != FOREVER);
                ends.insert(self.walk.waiting[job].job, end);
            }
            if rest.is_empty() || rest.len() == before {
                return;
            }
            open = rest;
        }
    }

    /// Nodes that are kept for a job are free again when it will have ended, and not only when all that was granted to it
    /// is over.
    fn free_kept(&mut self, hold_ends: &[i64]) {
        let (p, walk) = (self.p, self.walk);
        for (&job, &hold) in &walk.hold_of {
            let Some(Outcome::Preempting(ready, _)) = walk.outcomes[job] else { continue };
            let over = ready.saturating_add(self.classes[walk.class_of[job]].span);
            // Others may stay on a node that is shared.
            let alone = |slot: &&Slot| !walk.overlay.open.contains_key(*slot);
            for slot in p.holds[hold].nodes.iter().filter(alone) {
                let on = (0..p.occupants.len()).filter(|&at| p.occupants[at].nodes.contains(slot));
                let until = on.map(|at| self.releases[at]).fold(hold_ends[hold], i64::max);
                if let Some((kind, _)) = p.fleet.place(*slot) {
                    self.vacates |= over < until;
                    self.overlay.add_nodes(kind, over, until, 1);
                }
            }
        }
    }
}

impl<'a> Walk<'_, 'a> {
    /// Plans every waiting job.
    pub(super) fn estimate(&self) -> Vec<Times> {
        let rests = Rests::default();
        let none = Times { planned: None, likely: None, range: None, precision: Precision::None, rests };
        let mut all = vec![none; self.waiting.len()];
        if self.p.estimates == Estimates::Skip || !self.tells() {
            return all;
        }
        let order = self.in_turn();
        let reserved = self.reserved.clone();
        let planned = self.table(self.overlay.clone(), self.releases.clone(), reserved, &Pace::Walltimes);
        let mut planned = planned.fill(&order, true);
        let factors: BTreeMap<&Option<TenantId>, f64> =
            self.rooms.iter().map(|room| (&room.tenant, room.likely_factor)).collect();
        let learns = self.p.settings.learn;
        let likely = match factors.values().all(|&factor| factor == 1.0) {
            _ if learns != Learn::Off => self.likely(&Pace::Learned(1.0)).fill(&order, false),
            true => planned.clone(),
            false => self.likely(&Pace::Tenants(&factors)).fill(&order, false),
        };
        let spread = self.p.spread.filter(|_| learns != Learn::Off);
        let range = spread.map(|(low, high)| {
            [low, high].map(|scale| self.likely(&Pace::Learned(scale)).fill(&order, false))
        });
        if learns == Learn::Times {
            let on = planned.iter_mut().flat_map(|(_, rests)| &mut rests.on);
            on.filter(|on| **on == CountsOn::Walltimes).for_each(|on| *on = CountsOn::RunTimes);
        }
        let mut last: Option<(Option<i64>, Option<i64>)> = None;
        let mut seen = 0;
        for &job in &order {
            let times = &mut all[job];
            if !matches!(self.outcomes[job], Some(Outcome::Waits(_) | Outcome::Preempting(..))) {
                continue;
            }
            seen += 1;
            let ((planned, rests), likely) = (planned[job].clone(), likely[job].0);
            if planned.is_some() {
                let range = range.as_ref().and_then(|[early, late]| {
                    let (early, late) = (early[job].0?, late[job].0?);
                    Some((early.min(late), early.max(late)))
                });
                *times = Times { planned, likely, range, precision: Precision::Exact, rests };
                last = Some((planned, likely));
            } else if seen > EXACT_MAX
                && self.waiting[job].gate.is_none()
                && let Some((planned, likely)) = last
            {
                *times = Times { planned, likely, range: None, precision: Precision::Coarse, rests };
            }
        }
        all
    }

    /// A timetable of what is booked, with jobs that run at some pace.
    fn table<'t>(
        &'t self,
        overlay: Overlay<'a>,
        releases: Releases,
        reserved: BTreeMap<usize, Booking>,
        pace: &Pace<'_>,
    ) -> Table<'t, 'a> {
        let lasting =
            |class: &Class<'a>| class.lasting(pace.of(&class.spec.tenant, class.span, class.likely));
        let mut table = Table {
            p: self.p,
            walk: self,
            overlay,
            classes: self.classes.iter().map(lasting).collect(),
            reserved,
            quotas: Quotas::new(),
            vacates: false,
            generation: 0,
            stopped: self.stopped.clone(),
            preemptions_left: self.preemptions_left,
            granted: BTreeMap::new(),
            looks: LOOKS_MAX,
            tried: BTreeMap::new(),
            told: vec![Told::default(); self.waiting.len()],
            releases,
        };
        table.free_kept(&hold_ends(self.p, &self.waiting, |waiting| pace.of_waiting(waiting)));
        table.find_quotas();
        table
    }

    /// The timetable with run times as they usually are.
    fn likely(&self, pace: &Pace<'_>) -> Table<'_, 'a> {
        let (p, now) = (self.p, self.overlay.now);
        let grace = super::overlay::clamp(p.settings.kill_grace_ms.get());
        let releases = p.occupants.iter().map(|occupant| {
            let start = occupant.started.as_millis();
            let end = occupant.ends_at.map(Time::as_millis);
            let likely = occupant.expected_end.map(Time::as_millis).or(end);
            let span = |end: i64| end.saturating_sub(start);
            let usual = end.zip(likely).map(|(end, likely)| {
                start.saturating_add(pace.of(&occupant.spec.tenant, span(end), span(likely)))
            });
            // Who outlives what was learned may take all of its time.
            let outlived = matches!(pace, Pace::Learned(_)) && usual.is_some_and(|end| end <= now);
            release(now, if outlived { end } else { usual }, grace)
        });
        let releases: Releases = releases.collect();
        let ends = hold_ends(p, &self.waiting, |waiting| pace.of_waiting(waiting));
        let overlay = Overlay::new(p, &mut Ground::default(), &self.waiting, &releases, &ends);
        let mut table = self.table(overlay, releases, BTreeMap::new(), pace);
        for (job, outcome) in self.outcomes.iter().enumerate() {
            if let Some(Outcome::Started(found)) = outcome {
                let class = &table.classes[self.class_of[job]];
                let booking = table.overlay.booking(found, class, Scope::Now);
                table.overlay.book(&booking);
                for &slot in &found.slots {
                    table.overlay.set_free(slot, false);
                }
            }
        }
        table
    }
}
