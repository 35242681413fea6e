//! What a timetable looks forward to beside free nodes: quota that comes back, and work that may be stopped later.
//!
//! **Quota.** Every tenant with a limit has a step function of the node units, GPUs and CPU it has left. What its jobs hold comes
//! back when they end; every job that the table places takes its part. A slot is the first instant at which nodes and
//! quota are there for as long as the job may run.
//!
//! **Stops.** A job that others may leave for is tried at the cycles at which that becomes possible: when the least run
//! time of somebody is over, and when somebody ends, so that fewer have to leave. Each is asked as the walk asks at present
//! ([`choose_at`]), by the rules and costs of that instant. The first that gets the job its nodes sooner than its
//! slot is taken: it starts when those who leave are expected to be gone. Reservations that do not bind it are lifted,
//! as in the walk, and planned anew where their place is gone.
//!
//! Not followed: that those who were stopped come back to the queue, that jobs which have not started yet may be stopped
//! later on, how many jobs may be stopped in an hour from now, and jobs behind dependencies having others stopped.

use std::collections::{BTreeMap, BTreeSet};

use landfall_model::answer::CountsOn;
use landfall_model::{JobId, JobSpec, TenantId, Time};

use super::attempt::{Found, Scope};
use super::classes::Class;
use super::estimates::Table;
use super::open;
use super::overlay::{Booking, clamp};
use super::plan::Rests;
use super::problem::TenantRoom;
use super::stops::{Leaver, borrowers_at, choose_at, free_at, give_back, gone_after, rules, victims_at};
use super::timeline::{FOREVER, Timeline};
use super::walk::Outcome;
use crate::preempt::PREEMPTORS_PER_CYCLE;
use crate::units::MICRO;

/// Instants that are looked at for one job.
const LOOKS_PER_JOB: usize = 64;
/// How often sets of victims are compared for all jobs of a table, which takes milliseconds each time.
pub(super) const LOOKS_MAX: usize = 48;

/// What a job counts of its tenant's quota: millionths of node units, GPUs, thousandths of CPU cores.
type Need = [i64; 3];

fn need(spec: &JobSpec, units: f64, nodes: usize) -> Need {
    let gpus = u64::from(spec.gpu_count).saturating_mul(nodes as u64);
    let cpu = spec.cpu_milli.get().saturating_mul(nodes as u64);
    [(units * MICRO as f64).round() as i64, clamp(gpus), clamp(cpu)]
}

/// What one tenant has left over time.
pub(super) struct Quota<'a> {
    left: [Option<Timeline>; 3],
    /// Who gives something back, and when.
    ends: Vec<(i64, &'a JobId)>,
}

impl<'a> Quota<'a> {
    /// The first instant from which on it is enough for a span.
    fn first(&self, from: i64, span: i64, need: Need, horizon: i64) -> Option<i64> {
        let mut at = from;
        loop {
            let mut next = at;
            for (line, least) in self.left.iter().zip(need) {
                if let Some(line) = line.as_ref().filter(|_| least > 0) {
                    next = line.first_window(next, span, least, horizon)?;
                }
            }
            if next == at {
                return Some(at);
            }
            at = next;
        }
    }

    fn add(&mut self, from: i64, to: i64, need: Need, sign: i64) {
        for (line, amount) in self.left.iter_mut().zip(need) {
            if let Some(line) = line {
                line.add(from, to, sign * amount);
            }
        }
    }

    fn comes_back(&mut self, at: i64, job: &'a JobId, need: Need) {
        self.add(at, FOREVER, need, 1);
        self.ends.push((at, job));
    }
}

pub(super) type Quotas<'a> = BTreeMap<Option<TenantId>, Quota<'a>>;

impl Table<'_, '_> {
    /// What the tenants have left from now on.
    pub(super) fn find_quotas(&mut self) {
        let (p, walk, now) = (self.p, self.walk, self.overlay.now);
        let line = |left: i64| Timeline::from_changes(now, left, std::iter::empty());
        let limited = |room: &&TenantRoom| {
            room.node_units.is_finite() || room.gpus.is_some() || room.cpu_milli.is_some()
        };
        for room in walk.rooms.iter().filter(limited) {
            let units = Some(room.node_units).filter(|units| units.is_finite());
            let units = units.map(|units| line((units * MICRO as f64).round() as i64));
            let left =
                [units, room.gpus.map(|gpus| line(clamp(gpus))), room.cpu_milli.map(|cpu| line(clamp(cpu)))];
            self.quotas.insert(room.tenant.clone(), Quota { left, ends: Vec::new() });
        }
        if self.quotas.is_empty() {
            return;
        }
        for (occupant, &end) in p.occupants.iter().zip(&self.releases) {
            let Some(quota) = self.quotas.get_mut(&occupant.spec.tenant) else { continue };
            let kinds = occupant.nodes.iter().filter_map(|&slot| p.fleet.place(slot));
            let part = |kind: usize| match occupant.spec.exclusive {
                true => 1.0,
                false => open::units(occupant.spec, &p.fleet.kinds[kind].node),
            };
            let units = kinds.fold(0.0, |sum, (kind, _)| sum + part(kind));
            quota.comes_back(end, occupant.job, need(occupant.spec, units, occupant.nodes.len()));
        }
        for (job, outcome) in walk.outcomes.iter().enumerate() {
            let (spec, class) = (walk.waiting[job].spec, walk.class_of[job]);
            let Some(quota) = self.quotas.get_mut(&spec.tenant) else { continue };
            let (start, need) = match outcome {
                Some(Outcome::Started(found)) => {
                    (now, need(spec, walk.units(class, found), found.slots.len()))
                }
                Some(Outcome::Preempting(ready, _)) => (*ready, least(&self.classes[class])),
                _ => continue,
            };
            let end = start.saturating_add(self.classes[class].span);
            quota.comes_back(end, walk.waiting[job].job, need);
        }
    }
}

/// What the fewest nodes of a class count.
fn least(class: &Class<'_>) -> Need {
    let nodes = class.spec.nodes.min;
    need(class.spec, class.usable.unit * f64::from(nodes), nodes as usize)
}

/// Somebody leaves for a job.
struct Grant {
    at: i64,
    found: Found,
    going: Vec<Leaver>,
    reclaim: bool,
}

impl<'a> Table<'_, 'a> {
    fn quota(&mut self, job: usize) -> Option<&mut Quota<'a>> {
        self.quotas.get_mut(&self.walk.waiting[job].spec.tenant)
    }

    /// The first instant at which the quota of a job's tenant is enough for it.
    pub(super) fn quota_from(&mut self, job: usize, from: i64) -> Option<i64> {
        let (class, horizon) = (&self.classes[self.walk.class_of[job]], self.horizon());
        let (span, need) = (class.span, least(class));
        self.quota(job).map_or(Some(from), |quota| quota.first(from, span, need, horizon))
    }

    /// Who gives quota back last before an instant.
    pub(super) fn quota_of(&mut self, job: usize, at: i64) -> Option<JobId> {
        let ends = self.quota(job)?.ends.iter().filter(|(end, _)| *end <= at);
        ends.max_by_key(|(end, _)| *end).map(|(_, job)| (*job).clone())
    }

    /// A job takes its part of the quota for some time, or gives it back.
    pub(super) fn spend(&mut self, job: usize, from: i64, to: i64, sign: i64) {
        let (need, id) = (least(&self.classes[self.walk.class_of[job]]), self.walk.waiting[job].job);
        if let Some(quota) = self.quota(job) {
            quota.add(from, to, need, -sign);
            match sign > 0 {
                true => quota.ends.push((to, id)),
                false => quota.ends.retain(|&end| end != (to, id)),
            }
        }
    }

    fn stays(&self, occupant: usize, at: i64) -> bool {
        !self.stopped.contains(&occupant) && self.releases[occupant] > at
    }

    /// Whether a job may have less urgent work stopped for it, as far as that is up to the job and its pool.
    fn may_preempt(&self, job: usize) -> bool {
        self.p.settings.preemption && self.walk.waiting[job].spec.may_preempt && self.preemptions_left > 0
    }

    /// The cycles at which it is worth trying to have others leave for a job.
    fn instants(&self, job: usize, from: i64, before: i64) -> BTreeSet<i64> {
        let (spec, now) = (self.walk.waiting[job].spec, self.overlay.now);
        let preempts = self.may_preempt(job);
        let concerns = |number: &usize| {
            let occupant = &self.p.occupants[*number];
            let below = preempts && occupant.spec.class < spec.class;
            occupant.running && (occupant.borrower || below) && self.stays(*number, now)
        };
        let may_leave: Vec<usize> = (0..self.p.occupants.len()).filter(concerns).collect();
        if may_leave.is_empty() {
            return BTreeSet::new();
        }
        let min_run = self.p.settings.min_run_ms;
        let exempt = may_leave.iter().map(|&at| (self.p.occupants[at].started + min_run).as_millis());
        // Whoever came too late for this cycle comes with the next.
        let next = (self.walk.preemptors >= PREEMPTORS_PER_CYCLE).then_some(now.saturating_add(1));
        // What was in vain for one job of a class is so for the next.
        let after = self.tried.get(&self.walk.class_of[job]).copied().unwrap_or(now);
        let first = |worth: &mut dyn Iterator<Item = i64>| {
            let worth = worth.filter(|&at| at > now && at < before).map(|at| self.overlay.cycle_from(at));
            let worth: BTreeSet<i64> = worth.filter(|&at| at >= from && at > after && at < before).collect();
            worth.into_iter().take(LOOKS_PER_JOB / 2)
        };
        let ends = first(&mut self.releases.iter().copied());
        first(&mut exempt.chain(next).chain([from])).chain(ends).collect()
    }

    /// Has others leave for a job at the first instant at which that may be and gives it nodes before its slot.
    pub(super) fn sooner(&mut self, job: usize, from: i64, slot: Option<i64>) -> bool {
        let before = slot.unwrap_or_else(|| self.horizon());
        let mut instants = self.instants(job, from, before);
        if instants.is_empty() || self.looks == 0 {
            return false;
        }
        let own = self.reserved.remove(&job);
        if let Some(own) = &own {
            self.overlay.unbook(own);
            self.spend(job, own.from, own.to, -1);
        }
        let lifted = self.lift(job);
        let mut grant = None;
        while let Some(at) = instants.pop_first() {
            let full = self.granted.get(&at).is_some_and(|&count| count >= PREEMPTORS_PER_CYCLE);
            grant = self.leave_at(job, at, !full);
            if grant.is_some() || self.looks == 0 || at >= before {
                break;
            }
            if full {
                instants.insert(self.overlay.cycle_from(at.saturating_add(1)));
            } else {
                self.tried.insert(self.walk.class_of[job], at);
            }
        }
        let grant = grant.filter(|grant| self.ready(grant) < before);
        let Some(grant) = grant else {
            lifted.into_iter().chain(own.map(|own| (job, own))).for_each(|(job, own)| self.keep(job, own));
            return false;
        };
        // Those who leave may have had more than the job takes.
        self.generation += 1;
        self.book_grant(job, grant);
        self.put_back(lifted);
        true
    }

    fn keep(&mut self, job: usize, booking: Booking) {
        self.overlay.book(&booking);
        self.spend(job, booking.from, booking.to, 1);
        self.reserved.insert(job, booking);
    }

    fn ready(&self, grant: &Grant) -> i64 {
        grant.at.saturating_add(gone_after(self.p, &grant.going, grant.reclaim))
    }

    /// Who leaves for a job at an instant, if that gets it its nodes.
    fn leave_at(&mut self, job: usize, at: i64, preempts: bool) -> Option<Grant> {
        if self.quota_from(job, at) != Some(at) {
            return None;
        }
        let (p, time, spec) = (self.p, Time::from_millis(at), self.walk.waiting[job].spec);
        for reclaim in [true, false] {
            let stays = |number| self.stays(number, at);
            let leavers = match reclaim {
                true => borrowers_at(p, time, stays),
                false if preempts && self.may_preempt(job) => victims_at(p, spec.class, time, stays),
                false => Vec::new(),
            };
            let rules = rules(p, if reclaim { u32::MAX } else { self.preemptions_left }, reclaim);
            let class = &self.classes[self.walk.class_of[job]];
            // The largest of them must be enough, whatever else is asked.
            let mut sizes: Vec<usize> = leavers.iter().map(|leaver| leaver.nodes.len()).collect();
            sizes.sort_unstable_by_key(|&size| std::cmp::Reverse(size));
            let most: usize = sizes.iter().take(rules.max_victims as usize).sum();
            let few = spec.exclusive && free_at(p, &self.overlay, class, at) + most < spec.nodes.min as usize;
            if leavers.is_empty() || few || self.looks == 0 {
                continue;
            }
            self.looks -= 1;
            let chosen = choose_at(p, &mut self.overlay, class, &self.releases, at, &leavers, &rules);
            if let Ok((choice, going)) = chosen {
                return Some(Grant { at, found: choice.set, going, reclaim });
            }
        }
        None
    }

    /// Books what will happen: they leave, and the job follows.
    fn book_grant(&mut self, job: usize, grant: Grant) {
        let (p, ready) = (self.p, self.ready(&grant));
        for leaver in &grant.going {
            let end = self.releases[leaver.occupant];
            for &slot in leaver.nodes.iter().filter(|&&slot| p.is_own(slot)) {
                self.overlay.leave(leaver.occupant, slot, ready, end);
            }
            give_back(p, &mut self.overlay, leaver, ready, end);
            self.stopped.insert(leaver.occupant);
        }
        let class = &self.classes[self.walk.class_of[job]];
        let scope = Scope::Kept { from: ready, until: ready };
        let booking = self.overlay.booking(&grant.found, class, scope);
        self.overlay.book(&booking);
        self.spend(job, grant.at, booking.to, 1);
        if !grant.reclaim {
            self.preemptions_left = self.preemptions_left.saturating_sub(grant.going.len() as u32);
            *self.granted.entry(grant.at).or_default() += 1;
        }
        let on = if grant.reclaim { CountsOn::Reclaim } else { CountsOn::Preemption };
        let jobs = grant.going.into_iter().map(|leaver| leaver.victim.job).collect();
        self.tell(job, Some(ready), Rests { on: vec![on], jobs });
    }

    /// Lifts the reservations that do not bind a job.
    fn lift(&mut self, job: usize) -> Vec<(usize, Booking)> {
        let free = |holder: &usize| self.walk.does_not_bind(*holder, job);
        let holders: Vec<usize> = self.reserved.keys().copied().filter(free).collect();
        let mut lifted = Vec::with_capacity(holders.len());
        for holder in holders {
            let Some(booking) = self.reserved.remove(&holder) else { continue };
            self.overlay.unbook(&booking);
            self.spend(holder, booking.from, booking.to, -1);
            lifted.push((holder, booking));
        }
        lifted.sort_by_key(|(holder, booking)| (booking.from, self.walk.turns[*holder]));
        lifted
    }

    /// Books lifted reservations again; those whose place is gone are planned anew.
    fn put_back(&mut self, lifted: Vec<(usize, Booking)>) {
        let mut displaced = Vec::new();
        for (holder, booking) in lifted {
            match self.overlay.has_room(&booking) {
                true => self.keep(holder, booking),
                false => displaced.push(holder),
            }
        }
        for holder in displaced {
            self.generation += 1;
            self.take(holder, self.overlay.now);
        }
    }
}
