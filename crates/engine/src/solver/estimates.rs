//! When each waiting job would start: once by plan, once with the run times that jobs usually have.
//!
//! After the walk its overlay is scratch paper: every job without a reservation gets the earliest slot that is left and
//! takes it, in job order. The second timetable is made in the same way with every walltime scaled.

use std::collections::BTreeMap;

use landfall_model::{Backfill, JobId, TenantId, Time};

use super::attempt::Scope;
use super::classes::Class;
use super::overlay::{Booking, Overlay, release};
use super::plan::Precision;
use super::problem::{Estimates, Problem, Waiting};
use super::reason::Reason;
use super::timeline::FOREVER;
use super::walk::{Outcome, Walk, hold_ends, scaled};

/// Jobs that are planned exactly.
pub(super) const EXACT_MAX: usize = 1000;

/// Planned times of one waiting job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) planned: Option<i64>,
    pub(super) likely: Option<i64>,
    pub(super) precision: Precision,
}

/// One timetable: an overlay, and the classes as it sees them.
struct Table<'t, 'p, 'a> {
    p: &'p Problem<'a>,
    overlay: &'t mut Overlay<'a>,
    classes: &'t mut [Class<'a>],
    class_of: &'t [usize],
    waiting: &'t [Waiting<'a>],
    /// The numbers of the jobs in job order.
    order: &'t [usize],
    outcomes: &'t [Option<Outcome>],
    reserved: &'t BTreeMap<usize, Booking>,
    generation: u64,
}

impl Table<'_, '_, '_> {
    /// Takes the earliest slot for a job, not before an instant.
    fn take(&mut self, job: usize, not_before: i64) -> Option<i64> {
        let number = self.class_of[job];
        let floor = self.classes[number].floor.filter(|&(generation, _)| generation == self.generation);
        let from = floor.map_or(not_before, |(_, at)| at.max(not_before));
        let (at, found) = self.overlay.earliest(self.p, &self.classes[number], from)?;
        if not_before <= self.overlay.now {
            self.classes[number].floor = Some((self.generation, at));
        }
        let booking = self.overlay.booking(&found, &self.classes[number], Scope::From(at));
        self.overlay.book(&booking);
        Some(at)
    }

    /// Plans all jobs; `by_reservation` says whether a reservation is the time itself or only a turn.
    fn fill(&mut self, room_at: &dyn Fn(usize) -> Option<i64>, by_reservation: bool) -> Vec<Option<i64>> {
        let now = self.overlay.now;
        let mut times = vec![None; self.waiting.len()];
        // In job order first: of those who begin together the first in line has the first turn.
        let reserved = self.order.iter().filter_map(|&job| Some((self.reserved.get(&job)?.from, job)));
        let mut turns: Vec<(i64, usize)> = reserved.collect();
        turns.sort_by_key(|(from, _)| *from);
        for &(from, job) in &turns {
            times[job] = if by_reservation { Some(from) } else { self.take(job, now) };
        }
        let (mut last, mut planned) = (now, 0);
        for &job in self.order {
            let strict = self.p.settings.backfill == Backfill::Strict;
            match &self.outcomes[job] {
                Some(Outcome::Waits(_)) if times[job].is_none() && planned < EXACT_MAX => {
                    let waiting = &self.waiting[job];
                    let open = match &waiting.gate {
                        Some(Reason::UserHold | Reason::Dependency) => {
                            waiting.gate_until.map(Time::as_millis)
                        }
                        _ => waiting.gate_until.map(Time::as_millis).or(Some(now)),
                    };
                    let open = open.and_then(|open| Some(open.max(room_at(job)?)));
                    let from = open.map(|open| if strict { open.max(last) } else { open });
                    planned += 1;
                    times[job] = from.and_then(|from| self.take(job, from));
                }
                Some(Outcome::Preempting(ready, _)) => times[job] = Some(*ready),
                _ => {}
            }
            last = times[job].unwrap_or(last).max(last);
        }
        self.behind(&mut times);
        times
    }

    /// Jobs behind others are planned from the ends of those.
    fn behind(&mut self, times: &mut [Option<i64>]) {
        let mut ends: BTreeMap<&JobId, Option<i64>> = BTreeMap::new();
        for (job, waiting) in self.waiting.iter().enumerate() {
            let span = self.classes[self.class_of[job]].span;
            let start = match self.outcomes[job] {
                Some(Outcome::Started(_)) => Some(self.overlay.now),
                _ => times[job],
            };
            let end = start.map(|start| start.saturating_add(span)).filter(|&end| end != FOREVER);
            ends.insert(waiting.job, end);
        }
        let grace = super::overlay::clamp(self.p.settings.kill_grace_ms.get());
        for occupant in &self.p.occupants {
            let end = release(self.overlay.now, occupant.ends_at.map(Time::as_millis), grace);
            ends.insert(occupant.job, (end != FOREVER).then_some(end));
        }
        let mut open: Vec<usize> = (0..self.waiting.len())
            .filter(|&job| times[job].is_none() && self.waiting[job].behind.is_some())
            .take(EXACT_MAX)
            .collect();
        loop {
            let before = open.len();
            let mut rest = Vec::new();
            for job in open {
                let Some(behind) = &self.waiting[job].behind else { continue };
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
                times[job] = self.take(job, from.max(self.overlay.now));
                let span = self.classes[self.class_of[job]].span;
                let end = times[job].map(|at| at.saturating_add(span)).filter(|&end| end != FOREVER);
                ends.insert(self.waiting[job].job, end);
            }
            if rest.is_empty() || rest.len() == before {
                return;
            }
            open = rest;
        }
    }
}

impl<'a> Walk<'_, 'a> {
    /// Plans every waiting job. The overlay is used up.
    pub(super) fn estimate(&mut self) -> Vec<Times> {
        let none = Times { planned: None, likely: None, precision: Precision::None };
        let mut all = vec![none; self.waiting.len()];
        if self.p.estimates == Estimates::Skip || !self.tells() {
            return all;
        }
        let order = self.in_turn();
        let rooms = self.rooms_over_time();
        let room_at = |job: usize| rooms.get(&job).copied().unwrap_or(Some(self.p.now.as_millis()));
        let mut table = Table {
            p: self.p,
            overlay: &mut self.overlay,
            classes: &mut self.classes,
            class_of: &self.class_of,
            waiting: &self.waiting,
            order: &order,
            outcomes: &self.outcomes,
            reserved: &self.reserved,
            generation: self.generation,
        };
        let planned = table.fill(&room_at, true);
        let factors: BTreeMap<Option<TenantId>, f64> =
            self.rooms.iter().map(|room| (room.tenant.clone(), room.likely_factor)).collect();
        let likely = if factors.values().all(|&factor| factor == 1.0) {
            planned.clone()
        } else {
            self.likely(&factors, &room_at, &order)
        };
        let mut last: Option<(Option<i64>, Option<i64>)> = None;
        let mut seen = 0;
        for &job in &order {
            let times = &mut all[job];
            if !matches!(self.outcomes[job], Some(Outcome::Waits(_) | Outcome::Preempting(..))) {
                continue;
            }
            seen += 1;
            let (planned, likely) = (planned[job], likely[job]);
            if planned.is_some() {
                *times = Times { planned, likely, precision: Precision::Exact };
                last = Some((planned, likely));
            } else if seen > EXACT_MAX
                && self.waiting[job].gate.is_none()
                && let Some((planned, likely)) = last
            {
                *times = Times { planned, likely, precision: Precision::Coarse };
            }
        }
        all
    }

    /// The timetable with run times as they usually are.
    fn likely(
        &self,
        factors: &BTreeMap<Option<TenantId>, f64>,
        room_at: &dyn Fn(usize) -> Option<i64>,
        order: &[usize],
    ) -> Vec<Option<i64>> {
        let factor = |tenant: &Option<TenantId>| factors.get(tenant).copied().unwrap_or(1.0);
        let (p, now) = (self.p, self.overlay.now);
        let grace = super::overlay::clamp(p.settings.kill_grace_ms.get());
        let releases = p.occupants.iter().map(|occupant| {
            let start = occupant.started.as_millis();
            let end = occupant.ends_at.map(|end| {
                let whole = end.as_millis().saturating_sub(start);
                start.saturating_add(scaled(whole, factor(&occupant.spec.tenant)))
            });
            release(now, end, grace)
        });
        let mut overlay =
            Overlay::new(p, &self.waiting, &releases.collect(), &hold_ends(p, &self.waiting, factor));
        let mut classes: Vec<Class<'a>> = self
            .classes
            .iter()
            .map(|class| class.lasting(scaled(class.span, factor(&class.spec.tenant))))
            .collect();
        for (job, outcome) in self.outcomes.iter().enumerate() {
            if let Some(Outcome::Started(found)) = outcome {
                let booking = overlay.booking(found, &classes[self.class_of[job]], Scope::Now);
                overlay.book(&booking);
                for &slot in &found.slots {
                    overlay.set_free(slot, false);
                }
            }
        }
        let mut table = Table {
            p,
            overlay: &mut overlay,
            classes: &mut classes,
            class_of: &self.class_of,
            waiting: &self.waiting,
            order,
            outcomes: &self.outcomes,
            reserved: &self.reserved,
            generation: 0,
        };
        table.fill(room_at, false)
    }

    /// For jobs over a quota: when enough of what their tenant holds will have come back; `None` if it never will.
    fn rooms_over_time(&self) -> BTreeMap<usize, Option<i64>> {
        let mut times = BTreeMap::new();
        for (job, outcome) in self.outcomes.iter().enumerate() {
            let Some(Outcome::Waits(against)) = outcome else { continue };
            let Some(first) = against.first() else { continue };
            let needs = match first.reason {
                Reason::QuotaNodes | Reason::QuotaGpus => first.needed - first.found,
                Reason::GpuHours => {
                    times.insert(job, None);
                    continue;
                }
                _ => continue,
            };
            let tenant = &self.waiting[job].spec.tenant;
            let per_node = |spec: &landfall_model::JobSpec| match first.reason == Reason::QuotaGpus {
                true => f64::from(spec.gpu_count),
                false => 1.0,
            };
            let mut ends: Vec<(i64, f64)> = Vec::new();
            for (at, occupant) in self.p.occupants.iter().enumerate() {
                if occupant.spec.tenant == *tenant && !occupant.borrower {
                    ends.push((self.releases[at], occupant.nodes.len() as f64 * per_node(occupant.spec)));
                }
            }
            for (at, outcome) in self.outcomes.iter().enumerate() {
                if let Some(Outcome::Started(found)) = outcome
                    && self.waiting[at].spec.tenant == *tenant
                {
                    let end = self.overlay.now.saturating_add(self.classes[self.class_of[at]].span);
                    ends.push((end, found.slots.len() as f64 * per_node(self.waiting[at].spec)));
                }
            }
            ends.sort_by_key(|(end, _)| *end);
            let mut back = 0.0;
            let enough = ends.iter().filter(|(end, _)| *end != FOREVER).find(|(_, amount)| {
                back += amount;
                back + 1e-9 >= needs
            });
            times.insert(job, enough.map(|(end, _)| *end));
        }
        times
    }
}
