//! Reservations during the walk: those that stand, those that give way to a higher class, and why one moved.

use std::collections::BTreeMap;

use landfall_model::{Learn, Time};
use landfall_policy::rules::price::Tariff;

use super::attempt::{Found, Scope};
use super::fleet::Slot;
use super::open::{self, Use};
use super::overlay::{Booking, beside};
use super::plan::{MoveCause, Moved, Reservation};
use super::problem::Occupant;
use super::reason::Reason;
use super::walk::{Outcome, Walk};

impl Walk<'_, '_> {
    /// Books a reservation of the last cycle. One whose time has come is kept for its job from now on.
    pub(super) fn stand(&mut self, job: usize, reservation: &Reservation) {
        let class = &self.classes[self.class_of[job]];
        let from = reservation.start.as_millis().max(self.overlay.now);
        let to = self.overlay.until(from, class.span);
        let mut lost = false;
        let mut kinds: BTreeMap<usize, i64> = BTreeMap::new();
        for (place, &(key, count)) in reservation.kinds.iter().enumerate() {
            let kind = self.p.fleet.kind(key).filter(|&kind| self.p.fleet.kinds[kind].in_service());
            let before = reservation.of.get(place).map_or(0, |&of| of as usize);
            lost |= kind.is_none_or(|kind| self.p.fleet.kinds[kind].members.len() < before);
            if let Some(kind) = kind {
                *kinds.entry(kind).or_default() += i64::from(count);
            }
        }
        let mut uses = Vec::new();
        for (place, node) in reservation.shared.iter().enumerate() {
            let at = self.p.fleet.slot(node).and_then(|slot| Some((slot, self.p.fleet.place(slot)?.0)));
            let Some((slot, kind)) = at.filter(|&(_, kind)| self.p.fleet.kinds[kind].in_service()) else {
                lost = true;
                continue;
            };
            let node = &self.p.fleet.kinds[kind].node;
            // Jobs that are to meet on a node stay together, on the devices meant for each, even if nobody is there now.
            let meant = reservation.devices.get(place).map(Vec::as_slice);
            let key = self.overlay.use_key();
            let others = self.overlay.uses(slot);
            let again = meant.map(|devices| open::usage(class.spec, devices, from, to, key));
            let used = again.filter(|used| beside(node, others, used)).or_else(|| {
                let devices = open::fit(class.spec, node, others, from, to)?;
                Some(open::usage(class.spec, &devices, from, to, key))
            });
            match used {
                Some(used) => uses.push((slot, used)),
                None => *kinds.entry(kind).or_default() += 1,
            }
        }
        if lost {
            self.lost.insert(job);
        }
        let of = |kind: usize| self.p.fleet.kinds[kind].extra_power(class.spec.power_w).unwrap_or(0);
        let whole = kinds.iter().map(|(&kind, &count)| of(kind).saturating_mul(count.unsigned_abs()));
        let parts = uses.iter().filter_map(|(slot, _)| Some(of(self.p.fleet.place(*slot)?.0)));
        let power = whole.chain(parts).fold(0u64, u64::saturating_add);
        let booking = Booking {
            from,
            to,
            kinds: kinds.into_iter().collect(),
            uses,
            power: super::overlay::clamp(power),
            io: class.wish.io,
        };
        self.overlay.book(&booking);
        self.original.insert(job, reservation.start.as_millis());
        self.reserved.insert(job, booking);
    }

    pub(super) fn does_not_bind(&self, holder: usize, job: usize) -> bool {
        !self.p.reservations_bind()
            || (self.turns[holder] > self.turns[job]
                && self.waiting[holder].spec.class < self.waiting[job].spec.class)
    }

    pub(super) fn lifts_any(&self, job: usize) -> bool {
        self.reserved.keys().any(|&holder| self.does_not_bind(holder, job))
    }

    /// Lifts the reservations that do not bind a job.
    pub(super) fn lift(&mut self, job: usize) -> Vec<(usize, Booking)> {
        let holders: Vec<usize> =
            self.reserved.keys().copied().filter(|&holder| self.does_not_bind(holder, job)).collect();
        let mut lifted = Vec::with_capacity(holders.len());
        for holder in holders {
            if let Some(booking) = self.reserved.get(&holder).cloned() {
                self.overlay.unbook(&booking);
                lifted.push((holder, booking));
            }
        }
        lifted
    }

    /// Lifts the reservations of jobs that come after a job, beside those that are lifted already.
    pub(super) fn lift_behind(&mut self, job: usize, lifted: &[(usize, Booking)]) -> Vec<(usize, Booking)> {
        let behind = |holder: &usize| {
            self.turns[*holder] > self.turns[job] && !lifted.iter().any(|(other, _)| other == holder)
        };
        let holders = self.reserved.iter().filter(|(holder, _)| behind(holder));
        let more: Vec<(usize, Booking)> =
            holders.map(|(holder, booking)| (*holder, booking.clone())).collect();
        for (_, booking) in &more {
            self.overlay.unbook(booking);
        }
        more
    }

    /// Books lifted reservations again; those whose place is gone are planned anew at once, so that later jobs are bound.
    pub(super) fn put_back(&mut self, mut lifted: Vec<(usize, Booking)>, cause: MoveCause) {
        lifted.sort_by_key(|(holder, booking)| (booking.from, self.turns[*holder]));
        let mut displaced = Vec::new();
        for (holder, booking) in lifted {
            if self.overlay.has_room(&booking) || !self.p.reservations_bind() {
                self.overlay.book(&booking);
            } else {
                self.reserved.remove(&holder);
                displaced.push(holder);
            }
        }
        for holder in displaced {
            self.generation += 1;
            self.causes.entry(holder).or_insert(cause);
            let class = self.class_of[holder];
            if let Some((at, found)) = self.overlay.earliest(self.p, &self.classes[class], self.overlay.now) {
                self.reserve(holder, at, &found);
            }
        }
    }

    /// Books lifted reservations again in job order; one that has to move is planned before those behind it.
    pub(super) fn put_back_in_order(&mut self, mut lifted: Vec<(usize, Booking)>, cause: MoveCause) {
        lifted.sort_by_key(|(holder, _)| self.turns[*holder]);
        for (holder, booking) in lifted {
            if self.overlay.has_room(&booking) || !self.p.reservations_bind() {
                self.overlay.book(&booking);
                continue;
            }
            self.reserved.remove(&holder);
            self.generation += 1;
            self.causes.entry(holder).or_insert(cause);
            let class = self.class_of[holder];
            if let Some((at, found)) = self.overlay.earliest(self.p, &self.classes[class], self.overlay.now) {
                self.reserve(holder, at, &found);
            }
        }
    }

    pub(super) fn reserve(&mut self, job: usize, at: i64, found: &Found) {
        let class = &self.classes[self.class_of[job]];
        let booking = self.overlay.booking(found, class, Scope::From(at));
        self.overlay.book(&booking);
        self.reserved.insert(job, booking);
    }

    pub(super) fn give_up(&mut self, job: usize, cause: MoveCause) {
        if let Some(booking) = self.reserved.remove(&job) {
            self.overlay.unbook(&booking);
            self.generation += 1;
            self.causes.insert(job, cause);
        }
    }

    /// Why a reservation could not stay.
    pub(super) fn cause(&mut self, job: usize, at: i64) -> MoveCause {
        let now = self.overlay.now;
        let past = |end: Time| end.as_millis() <= now;
        let overruns = self.p.overruns || self.p.occupants.iter().any(|o| o.ends_at.is_some_and(past));
        // What moved it first in this walk also moves those that give way to it.
        if let Some(&known) = self.causes.get(&job) {
            return known;
        }
        if self.lost.contains(&job) {
            return MoveCause::NodeLost;
        }
        let spec = self.classes[self.class_of[job]].spec;
        let tariff = Tariff::for_job(self.p.world, spec);
        let raised =
            |tariff: Tariff| self.p.fleet.kinds.iter().any(|kind| tariff.is_only_raised(spec, &kind.node));
        if tariff.is_some_and(raised) {
            return MoveCause::Surge;
        }
        if overruns {
            return MoveCause::Overrun;
        }
        let outlives = |o: &Occupant<'_>| o.expected_end.is_some_and(past) && !o.ends_at.is_some_and(past);
        if self.p.settings.learn == Learn::Times && self.p.occupants.iter().any(outlives) {
            return MoveCause::Outlived;
        }
        let scope = if at == now { Scope::Now } else { Scope::From(at) };
        let class = &self.classes[self.class_of[job]];
        let refusals = self.overlay.find(self.p, class, scope, None).err().unwrap_or_default();
        match refusals.iter().any(|r| matches!(r.reason, Reason::Power | Reason::Io)) {
            true => MoveCause::CapLowered,
            false => MoveCause::Late,
        }
    }

    /// The reservations that stand now, and those that moved.
    pub(super) fn reservations(&self) -> (Vec<Reservation>, Vec<Moved>) {
        let time = |ms: i64| Time::from_millis(ms);
        let mut standing: Vec<Reservation> = self
            .reserved
            .iter()
            .map(|(&job, booking)| {
                let kinds = booking.kinds.iter().map(|&(kind, count)| {
                    (self.p.fleet.kinds[kind].key, u32::try_from(count).unwrap_or(u32::MAX))
                });
                let of = booking.kinds.iter().map(|&(kind, _)| self.p.fleet.kinds[kind].members.len() as u32);
                let shared: Vec<Slot> = booking.uses.iter().map(|(slot, _)| *slot).collect();
                let devices = |used: &Use| used.devices.iter().map(|share| share.index).collect();
                // One whose time has come, and that the walk did not reach, has been due since then.
                let due = self.original.get(&job).filter(|_| booking.from <= self.overlay.now);
                Reservation {
                    job: self.waiting[job].job.clone(),
                    start: time(due.map_or(booking.from, |&at| at.min(booking.from))),
                    end: (booking.to != super::timeline::FOREVER).then(|| time(booking.to)),
                    kinds: kinds.collect(),
                    shared: self.p.fleet.ids(&shared),
                    of: of.collect(),
                    devices: booking.uses.iter().map(|(_, used)| devices(used)).collect(),
                }
            })
            .collect();
        standing.sort_by(|a, b| (a.start, &a.job).cmp(&(b.start, &b.job)));
        let mut original: Vec<(usize, i64)> = self.original.iter().map(|(&job, &from)| (job, from)).collect();
        original.sort_by_key(|(job, _)| self.turns[*job]);
        let moved = original.into_iter().filter_map(|(job, from)| {
            if !matches!(self.outcomes[job], Some(Outcome::Waits(_))) {
                return None;
            }
            let to = self.reserved.get(&job).map(|booking| booking.from);
            if to.is_some_and(|to| to <= from.max(self.overlay.now)) {
                return None;
            }
            let cause = self.causes.get(&job).copied().unwrap_or(MoveCause::Late);
            let job = self.waiting[job].job.clone();
            Some(Moved { job, from: time(from), to: to.map(time), cause })
        });
        (standing, moved.collect())
    }
}
