//! The walk over the waiting jobs.
//!
//! Every job ends in one of these: it starts, has work stopped for it, is *gated* (it could not run whatever the nodes;
//! it is overtaken and gets no reservation) or is *blocked* (nodes, span, power or traffic; the first blocked ones get a
//! reservation). Reservations that stand from the last cycle are booked before the first job is looked at; the walk lifts
//! the one of each job it reaches and books it anew, at the same time or earlier.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use landfall_model::{Backfill, JobId, Name, Reservations, TenantId, Time};
use landfall_policy::filter::About;

use super::attempt::{Against, Found, Scope};
use super::classes::{self, Class, ClassKey};
use super::fleet::Slot;
use super::looked::Counted;
use super::overlay::{Booking, Overlay, Releases, release};
use super::plan::{Loan, Looked, MoveCause, Start, Step};
use super::problem::{Problem, TenantRoom, Turn, Waiting};
use super::reason::{Reason, Refusal};
use super::stops::Leaver;
use super::{line, open};
use crate::loans::may_borrow;
use landfall_model::life::Breakdown;

/// What became of a waiting job.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    Started(Found),
    /// Work is being stopped for it, until about this instant.
    Preempting(i64, Against),
    Waits(Against),
}

impl Outcome {
    /// What stands against the job, unless it starts.
    pub(super) fn against(&self) -> Option<&Against> {
        match self {
            Self::Started(_) => None,
            Self::Preempting(_, against) | Self::Waits(against) => Some(against),
        }
    }
}

/// The walk and all it keeps up.
pub(super) struct Walk<'p, 'a> {
    pub(super) p: &'p Problem<'a>,
    pub(super) overlay: Overlay<'a>,
    /// The waiting jobs that were looked at so far, and those that have something kept for them.
    pub(super) waiting: Vec<Waiting<'a>>,
    /// Where each of them stands in the order of the pool.
    pub(super) turns: Vec<Turn<'a>>,
    pub(super) classes: Vec<Class<'a>>,
    known_classes: BTreeMap<ClassKey, usize>,
    pub(super) class_of: Vec<usize>,
    /// Rises whenever something booked is given back: then what did not fit before may fit.
    pub(super) generation: u64,
    pub(super) rooms: Vec<TenantRoom>,
    pub(super) room_of: BTreeMap<Option<TenantId>, usize>,
    pub(super) locks: BTreeSet<(Option<TenantId>, Name)>,
    /// What each waiting job has reserved.
    pub(super) reserved: BTreeMap<usize, Booking>,
    pub(super) original: BTreeMap<usize, i64>,
    pub(super) causes: BTreeMap<usize, MoveCause>,
    /// Jobs whose reservation counts on a node that is gone.
    pub(super) lost: BTreeSet<usize>,
    pub(super) hold_of: BTreeMap<usize, usize>,
    pub(super) outcomes: Vec<Option<Outcome>>,
    pub(super) steps: Vec<Step>,
    pub(super) blocked: u32,
    pub(super) preempting: u32,
    pub(super) preemptors: u32,
    pub(super) preemptions_left: u32,
    /// Occupants that are being stopped already.
    pub(super) stopped: BTreeSet<usize>,
    /// Who could be stopped for jobs of a class, as long as nobody else is.
    pub(super) leavers: BTreeMap<u8, Arc<Vec<Leaver>>>,
    /// Who could be stopped for the most urgent job.
    pub(super) victims: Option<Vec<Leaver>>,
    /// Whether others have nodes of this pool.
    pub(super) lends: bool,
    pub(super) releases: Releases,
    /// Whether one that was promised a time starts and leaves what was kept for it to others, so that the walk ends here.
    pub(super) again: bool,
    /// How many jobs were looked at.
    pub(super) seen: usize,
    /// Jobs that were to start at once and were not reached.
    pub(super) unseen: Vec<(Turn<'a>, JobId)>,
    /// What was looked at, if somebody keeps that, and how classes that start saw the nodes.
    pub(super) looked: Vec<Looked>,
    pub(super) counted: BTreeMap<usize, Counted>,
}

impl<'p, 'a> Walk<'p, 'a> {
    pub(super) fn new(p: &'p Problem<'a>) -> Self {
        let now = p.now.as_millis();
        let grace = i64::try_from(p.settings.kill_grace_ms.get()).unwrap_or(i64::MAX);
        let releases: Releases = p.occupants.iter().map(|o| release(now, p.end_of(o), grace)).collect();
        let first = line::looked_at_first(p);
        let waiting: Vec<Waiting<'a>> = first.iter().map(|(_, waiting)| waiting.clone()).collect();
        let overlay = Overlay::new(
            p,
            &mut p.ground.borrow_mut(),
            &waiting,
            &releases,
            &hold_ends(p, &waiting, |waiting| classes::span(waiting.duration)),
        );
        let rooms = p.tenants.clone();
        let mut walk = Self {
            p,
            overlay,
            waiting: Vec::with_capacity(waiting.len()),
            turns: Vec::with_capacity(waiting.len()),
            classes: Vec::new(),
            known_classes: BTreeMap::new(),
            class_of: Vec::with_capacity(waiting.len()),
            generation: 0,
            room_of: rooms.iter().enumerate().map(|(at, room)| (room.tenant.clone(), at)).collect(),
            rooms,
            locks: p.locks.iter().cloned().collect(),
            reserved: BTreeMap::new(),
            original: BTreeMap::new(),
            causes: BTreeMap::new(),
            lost: BTreeSet::new(),
            hold_of: BTreeMap::new(),
            outcomes: Vec::with_capacity(waiting.len()),
            steps: Vec::new(),
            blocked: 0,
            preempting: 0,
            preemptors: 0,
            preemptions_left: p.preemptions_left,
            stopped: BTreeSet::new(),
            leavers: BTreeMap::new(),
            victims: None,
            lends: p.occupants.iter().any(|occupant| occupant.borrower),
            releases,
            again: false,
            seen: 0,
            unseen: Vec::new(),
            looked: Vec::new(),
            counted: BTreeMap::new(),
        };
        for (turn, waiting) in first {
            walk.take_in(turn, waiting);
        }
        let index: BTreeMap<_, _> = walk.waiting.iter().enumerate().map(|(at, w)| (w.job, at)).collect();
        let held = p.holds.iter().enumerate();
        walk.hold_of = held.filter_map(|(number, hold)| Some((*index.get(hold.job)?, number))).collect();
        if walk.makes_reservations() && p.settings.reservations == Reservations::Standing {
            for reservation in p.reservations {
                if let Some(&job) = index.get(&reservation.job) {
                    walk.stand(job, reservation);
                }
            }
        }
        walk
    }

    /// Gives a job its number.
    pub(super) fn take_in(&mut self, turn: Turn<'a>, waiting: Waiting<'a>) -> usize {
        let (p, classes) = (self.p, &mut self.classes);
        let class = *self.known_classes.entry(classes::key(&waiting)).or_insert_with(|| {
            classes.push(Class::new(p, &waiting));
            classes.len() - 1
        });
        if !self.room_of.contains_key(&waiting.spec.tenant) {
            self.room_of.insert(waiting.spec.tenant.clone(), self.rooms.len());
            self.rooms.push(TenantRoom::unlimited(waiting.spec.tenant.clone()));
        }
        self.class_of.push(class);
        self.turns.push(turn);
        self.outcomes.push(None);
        self.waiting.push(waiting);
        self.waiting.len() - 1
    }

    pub(super) fn makes_reservations(&self) -> bool {
        matches!(self.p.settings.backfill, Backfill::Easy | Backfill::Conservative | Backfill::Promises)
    }

    /// Whether a job that is blocked now may have a reservation, as far as those before it leave one.
    pub(super) fn reserves_next(&self) -> bool {
        let settings = self.p.settings;
        let first = match settings.backfill {
            Backfill::Easy => self.blocked < settings.depth,
            Backfill::Conservative => true,
            // Reservations are given when all have been looked at, to the oldest.
            Backfill::Promises | Backfill::Strict | Backfill::Greedy => false,
        };
        first && self.reserved.len() < settings.reservations_max as usize
    }

    pub(super) fn visit(&mut self, job: usize) -> Outcome {
        if let Some(gate) = self.waiting[job].gate {
            self.give_up(job, MoveCause::Gate);
            return self.waits(job, vec![Refusal::plain(gate)]);
        }
        if self.p.settings.backfill == Backfill::Strict && self.blocked + self.preempting > 0 {
            return self.waits(job, vec![Refusal::plain(Reason::StrictOrder)]);
        }
        if let Some(&hold) = self.hold_of.get(&job)
            && let Some(outcome) = self.visit_held(job, hold)
        {
            return outcome;
        }
        let class = self.class_of[job];
        let own = self.reserved.remove(&job);
        if let Some(booking) = &own {
            self.overlay.unbook(booking);
        }
        let gates = self.gates(job);
        if !gates.is_empty() {
            if own.is_some() {
                self.generation += 1;
                self.causes.insert(job, MoveCause::Quota);
            }
            return self.waits(job, gates);
        }
        if own.is_none() && self.lacks_nodes(class) && !self.has_leavers(class) {
            return self.block(job, None, Against::default());
        }
        let known = self.classes[class].blocked.clone().filter(|(generation, _)| {
            own.is_none() && *generation == self.generation && !self.lifts_any(job)
        });
        let against = match known {
            Some((_, against)) => against,
            None => {
                let mark = self.overlay.mark();
                let mut lifted = self.lift(job);
                let mut displacing = None;
                let due = own.as_ref().filter(|own| own.from <= self.overlay.now);
                match self.place_now(job, due, &mut lifted, &mut displacing) {
                    Ok(outcome) => {
                        if own.is_some() {
                            self.generation += 1;
                            // One that the ledger refused before must not keep the others from being looked at.
                            self.again = self.p.settings.backfill == Backfill::Promises
                                && self.waiting[job].rejected.is_none();
                        }
                        match displacing {
                            Some(cause) => self.put_back_in_order(lifted, cause),
                            None => self.put_back(lifted, MoveCause::HigherClass),
                        }
                        return outcome;
                    }
                    Err(refusals) => {
                        if lifted.is_empty() {
                            let against = Arc::new(refusals);
                            if own.is_none() {
                                self.classes[class].blocked = Some((self.generation, Arc::clone(&against)));
                            }
                            against
                        } else {
                            self.overlay.undo(mark);
                            Arc::new(refusals)
                        }
                    }
                }
            }
        };
        if against.iter().any(|refusal| refusal.reason.is_quota()) {
            if own.is_some() {
                self.generation += 1;
                self.causes.insert(job, MoveCause::Quota);
            }
            return Outcome::Waits(against);
        }
        self.block(job, own, against)
    }

    /// A job with nodes held for it starts on them when the last of its victims has gone.
    fn visit_held(&mut self, job: usize, hold: usize) -> Option<Outcome> {
        let hold = &self.p.holds[hold];
        let places = hold.nodes.iter().map(|&slot| self.p.fleet.place(slot));
        let lost =
            places.clone().any(|place| !place.is_some_and(|(kind, _)| self.p.fleet.kinds[kind].in_service()));
        if lost || hold.nodes.is_empty() || !self.admits_held(job, hold) {
            return None;
        }
        let mut slots = hold.nodes.to_vec();
        slots.sort_unstable();
        let devices = |&slot: &Slot| Some((slot, self.devices_on_held(job, slot)?));
        let Some(shared) = slots.iter().map(devices).collect::<Option<Vec<_>>>() else {
            self.preempting += 1;
            let ready = hold.ready_at.unwrap_or(self.p.now).max(self.p.now).as_millis();
            let against = vec![Refusal::plain(Reason::Preempting)];
            return Some(Outcome::Preempting(ready, Arc::new(against)));
        };
        let kinds = places.flatten().fold(BTreeMap::new(), |mut kinds: BTreeMap<usize, i64>, (kind, _)| {
            *kinds.entry(kind).or_default() += 1;
            kinds
        });
        let found = Found {
            slots,
            kinds: kinds.into_iter().collect(),
            shared: if self.waiting[job].spec.exclusive { Vec::new() } else { shared },
            value: super::plan::SetValue::default(),
            runner_up: None,
            power_unknown: false,
        };
        // The hold is on the timeline already, as long as the job may run; so are its node units.
        self.take_locks(job);
        self.propose(job, &found, Vec::new(), 0.0);
        Some(Outcome::Started(found))
    }

    /// The devices of a node held for a job, if it has room for the job by now; others may stay on one that is shared.
    fn devices_on_held(&self, job: usize, slot: Slot) -> Option<Vec<u16>> {
        let (spec, now, (kind, _)) = (self.waiting[job].spec, self.overlay.now, self.p.fleet.place(slot)?);
        let others = self.overlay.uses(slot).iter().filter(|used| used.key < self.p.occupants.len() as u64);
        let others: Vec<open::Use> = others.cloned().collect();
        let busy = || self.p.occupants.iter().any(|occupant| occupant.nodes.contains(&slot));
        match ((spec.exclusive || others.is_empty()) && busy(), spec.exclusive) {
            (true, _) => None,
            (false, true) => Some(Vec::new()),
            (false, false) => open::fit(spec, &self.p.fleet.kinds[kind].node, &others, now, now + 1),
        }
    }

    /// Whether filters about the moment admit the nodes that are held for a job; the others did when they were chosen.
    fn admits_held(&self, job: usize, hold: &super::problem::Hold<'_>) -> bool {
        let own = &self.classes[self.class_of[job]].usable.own;
        let admits = |kind: usize| own.iter().any(|seen| seen.kind == kind && seen.from <= self.overlay.now);
        self.p.policy.looks_at() < About::Moment
            || hold.nodes.iter().filter_map(|&slot| self.p.fleet.place(slot)).all(|(kind, _)| admits(kind))
    }

    /// Nodes for a job that starts now. One whose time has come takes what is free; else what was meant for it; else it
    /// goes before those behind it, whatever is kept for them.
    fn find_now(
        &mut self,
        job: usize,
        due: Option<&Booking>,
        lifted: &mut Vec<(usize, Booking)>,
        displacing: &mut Option<MoveCause>,
    ) -> Result<Found, Vec<Refusal>> {
        let class = self.class_of[job];
        let growth = self.growth(&self.classes[class]);
        let found = self.overlay.find(self.p, &self.classes[class], Scope::Now, growth);
        let Some(due) = due.filter(|_| found.is_err()) else { return found };
        if let Some(found) = self.overlay.find_own(self.p, &self.classes[class], Scope::Now, due) {
            return Ok(found);
        }
        *displacing = Some(self.cause(job, due.from));
        lifted.extend(self.lift_behind(job, lifted));
        self.overlay.find(self.p, &self.classes[class], Scope::Now, None)
    }

    /// Starts a job on own or borrowed nodes, or has work stopped for it.
    fn place_now(
        &mut self,
        job: usize,
        due: Option<&Booking>,
        lifted: &mut Vec<(usize, Booking)>,
        displacing: &mut Option<MoveCause>,
    ) -> Result<Outcome, Vec<Refusal>> {
        let class = self.class_of[job];
        let lacks = due.is_none() && self.lacks_nodes(class);
        let found = if lacks { Err(Vec::new()) } else { self.find_now(job, due, lifted, displacing) };
        let mut against = match found {
            Ok(found) => {
                let units = self.units(class, &found);
                let left = self.rooms[self.room_of[&self.classes[class].spec.tenant]].node_units;
                if units > left + 1e-9 {
                    return Err(vec![Refusal::new(Reason::QuotaNodes, units, left.max(0.0))]);
                }
                return Ok(self.start(job, found, Vec::new()));
            }
            Err(refusals) if !self.tells() => refusals,
            Err(refusals) => self.explain(class, refusals),
        };
        if self.may_borrow(class) {
            for lenders in 1..=self.p.lenders.len() {
                let scope = Scope::Lent(lenders);
                if let Ok(found) = self.overlay.find(self.p, &self.classes[class], scope, None) {
                    let loans = self.loans(&found);
                    return Ok(self.start(job, found, loans));
                }
            }
            against.push(Refusal::plain(Reason::Loan));
        }
        match self.stop_others(job) {
            Ok(outcome) => {
                self.preempting += 1;
                Ok(outcome)
            }
            Err(too_dear) => {
                if too_dear {
                    against.push(Refusal::plain(Reason::PreemptCost));
                }
                Err(against)
            }
        }
    }

    pub(super) fn may_borrow(&self, class: usize) -> bool {
        self.p.loans.borrow && !self.p.lenders.is_empty() && may_borrow(self.classes[class].spec).is_ok()
    }

    fn loans(&mut self, found: &Found) -> Vec<Loan> {
        let mut loans = Vec::new();
        for (number, lender) in self.p.lenders.iter().enumerate() {
            let of = |slot: &&Slot| {
                self.p.fleet.home(**slot) == Some(lender.pool)
                    && self.p.fleet.place(**slot).is_some_and(|(kind, _)| !self.p.fleet.kinds[kind].own)
            };
            let slots: Vec<Slot> = found.slots.iter().filter(of).copied().collect();
            if !slots.is_empty() {
                self.overlay.lend(number, slots.len() as u32);
                loans.push(Loan { lender: lender.pool.clone(), nodes: self.p.fleet.ids(&slots) });
            }
        }
        loans
    }

    /// Books a set from now on and proposes it.
    fn start(&mut self, job: usize, mut found: Found, loans: Vec<Loan>) -> Outcome {
        self.note_start(job);
        let number = self.class_of[job];
        let class = &self.classes[number];
        let mut booking = self.overlay.booking(&found, class, Scope::Now);
        if !class.spec.exclusive {
            // A whole node that a shared job takes is open to others from now on.
            booking.kinds.clear();
            let known: BTreeSet<Slot> = found.shared.iter().map(|(slot, _)| *slot).collect();
            for &slot in found.slots.iter().filter(|slot| !known.contains(slot)) {
                let Some((kind, _)) = self.p.fleet.place(slot) else { continue };
                let node = &self.p.fleet.kinds[kind].node;
                let devices = open::fit(class.spec, node, &[], booking.from, booking.to).unwrap_or_default();
                if self.p.fleet.kinds[kind].own {
                    let key = self.overlay.use_key();
                    let used = open::usage(class.spec, &devices, booking.from, booking.to, key);
                    booking.uses.push((slot, used));
                }
                found.shared.push((slot, devices));
            }
            found.shared.sort_unstable();
        }
        self.overlay.book(&booking);
        let exclusive = self.classes[number].spec.exclusive;
        for &slot in &found.slots {
            self.overlay.set_free(slot, false);
            if !exclusive {
                self.overlay.sharing.insert(slot);
            }
        }
        let units = self.units(number, &found);
        self.spend(job, found.slots.len() as u32, units);
        self.propose(job, &found, loans, units);
        Outcome::Started(found)
    }

    fn propose(&mut self, job: usize, found: &Found, loans: Vec<Loan>, node_units: f64) {
        let devices = found.shared.iter().map(|(_, devices)| devices.clone()).collect();
        let mut why = self.p.why.map_or_else(Breakdown::default, |why| why(self.waiting[job].job));
        found.value.tell(&mut why, self.waiting[job].flag);
        self.steps.push(Step::Start(Start {
            job: self.waiting[job].job.clone(),
            backfill: self.blocked + self.preempting > 0,
            nodes: self.p.fleet.ids(&found.slots),
            slots: found.slots.clone(),
            devices,
            loans,
            value: found.value,
            runner_up: found.runner_up,
            node_units,
            power_unknown: found.power_unknown,
            why,
        }));
    }

    /// A job that cannot start now; it may get a reservation.
    fn block(&mut self, job: usize, own: Option<Booking>, against: Against) -> Outcome {
        let entitled = own.is_some() || self.reserves_next();
        self.blocked += 1;
        // Who starts at once or not at all waits for nothing.
        let immediate = self.waiting[job].spec.immediate;
        if !entitled || immediate {
            return self.waits_for(job, against);
        }
        let class = self.class_of[job];
        let mut lifted = self.lift(job);
        let now = self.overlay.now;
        let floor = self.classes[class]
            .floor
            .filter(|&(generation, _)| generation == self.generation && own.is_none() && lifted.is_empty());
        let from = floor.map_or(now, |(_, at)| at);
        // Those who were promised a time were given an earlier one before the walk, if there was one.
        let stays =
            own.as_ref().filter(|old| self.p.settings.backfill == Backfill::Promises && old.from > now);
        let mut slot = stays.and_then(|old| {
            let found = self.overlay.find_own(self.p, &self.classes[class], Scope::From(old.from), old)?;
            Some((old.from, found))
        });
        if slot.is_none() {
            slot = self.first_slot(job, from);
        }
        let moves = |slot: &Option<(i64, Found)>, old: &Booking| match slot {
            Some((at, _)) => *at > old.from,
            None => true,
        };
        if let Some(old) = own.as_ref().filter(|old| old.from > now && moves(&slot, old))
            && let Some(found) =
                self.overlay.find_own(self.p, &self.classes[class], Scope::From(old.from), old)
        {
            slot = Some((old.from, found));
        }
        // A reservation that has to move keeps its place in the order: those behind it give way to it.
        let mut displacing = None;
        if let Some(old) = own.as_ref().filter(|old| moves(&slot, old)) {
            displacing = Some(self.cause(job, old.from));
            lifted.extend(self.lift_behind(job, &lifted));
            // Not before its old time: a place that begins now but is not taken now would be late from the beginning.
            slot = self.overlay.earliest(self.p, &self.classes[class], old.from.max(now));
        }
        let mut against = against;
        match &slot {
            Some((at, found)) => {
                if own.is_none() && lifted.is_empty() {
                    self.classes[class].floor = Some((self.generation, *at));
                }
                self.reserve(job, *at, found);
            }
            None => {
                let mut more = against.as_ref().clone();
                more.push(Refusal::plain(Reason::BeyondHorizon));
                against = Arc::new(more);
            }
        }
        if let Some(old) = &own {
            let new = self.reserved.get(&job);
            let same = |new: &Booking| new.from == old.from && new.kinds == old.kinds && new.uses.is_empty();
            if !new.is_some_and(same) {
                self.generation += 1;
            }
            if new.is_none_or(|new| new.from > old.from) && !self.causes.contains_key(&job) {
                self.causes.insert(job, displacing.unwrap_or(MoveCause::Late));
            }
        }
        match displacing {
            Some(cause) => self.put_back_in_order(lifted, cause),
            None => self.put_back(lifted, MoveCause::HigherClass),
        }
        self.waits_for(job, against)
    }

    pub(super) fn waits(&self, job: usize, refusals: Vec<Refusal>) -> Outcome {
        self.waits_for(job, Arc::new(refusals))
    }

    fn waits_for(&self, job: usize, against: Against) -> Outcome {
        match self.waiting[job].rejected {
            None => Outcome::Waits(against),
            Some(reason) => {
                let mut all = against.as_ref().clone();
                all.push(Refusal::plain(reason.by_ledger()));
                Outcome::Waits(Arc::new(all))
            }
        }
    }
}

/// Until when held nodes are kept from others: until the job they are kept for would end on them.
pub(super) fn hold_ends(
    p: &Problem<'_>,
    waiting: &[Waiting<'_>],
    span: impl Fn(&Waiting<'_>) -> i64,
) -> Vec<i64> {
    if p.holds.is_empty() {
        return Vec::new();
    }
    let index: BTreeMap<_, _> = waiting.iter().map(|w| (w.job, w)).collect();
    let end = |hold: &super::problem::Hold<'_>| {
        let until = hold.until.map(Time::as_millis);
        match index.get(hold.job) {
            Some(waiting) => {
                until.unwrap_or(p.now.as_millis()).max(p.now.as_millis()).saturating_add(span(waiting))
            }
            None => until.unwrap_or(super::timeline::FOREVER),
        }
    };
    p.holds.iter().map(end).collect()
}

/// A span times a factor, at least a moment.
pub(super) fn scaled(span: i64, factor: f64) -> i64 {
    if span == super::timeline::FOREVER || factor == 1.0 {
        return span;
    }
    (((span as f64) * factor).round() as i64).max(1)
}
