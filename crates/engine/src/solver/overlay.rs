//! The pool's time as the walk sees and changes it.
//!
//! Every kind has a timeline of its free nodes, and a set of bits for the nodes that are free now; power and storage
//! traffic have one timeline each. What is tried is booked like what is decided: every change goes into a log, and
//! going back to a mark in the log undoes it. A [`View`] is the sum of the timelines of the kinds that a class of jobs
//! can use; it answers "when at the earliest" without looking at every kind.

use std::collections::{BTreeMap, BTreeSet};

use super::bits::Bits;
use super::fleet::{Fleet, Slot};
use super::ground::Ground;
use super::open::{Use, Uses};
use super::problem::{Cycles, Problem, Waiting};
use super::timeline::{FOREVER, Timeline};

/// Something booked: nodes by kind, uses of shared nodes, power and traffic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Booking {
    pub(super) from: i64,
    pub(super) to: i64,
    /// Whole nodes of each kind.
    pub(super) kinds: Vec<(usize, i64)>,
    /// Parts of nodes open to sharing.
    pub(super) uses: Vec<(Slot, Use)>,
    pub(super) power: i64,
    pub(super) io: i64,
}

#[derive(Debug, Clone)]
enum Op {
    Line(usize, i64, i64, i64),
    Power(i64, i64, i64),
    Io(i64, i64, i64),
    Bit(usize, usize, bool),
    UseAdded(Slot),
    UseRemoved(Slot, usize, Use),
    Lent(usize, u32),
}

/// The sum over some kinds.
#[derive(Debug, Clone)]
struct View {
    kinds: Vec<usize>,
    line: Timeline,
}

#[derive(Clone)]
pub(super) struct Overlay<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) now: i64,
    lines: Vec<Timeline>,
    free: Vec<Bits>,
    views: Vec<View>,
    views_of_kind: Vec<Vec<usize>>,
    pub(super) power: Option<Timeline>,
    pub(super) io: Option<Timeline>,
    /// Nodes open to sharing, now or in the plans of those who wait.
    pub(super) open: BTreeMap<Slot, Uses>,
    /// Nodes that are shared now.
    pub(super) sharing: BTreeSet<Slot>,
    /// What each lender still lends.
    pub(super) lends: Vec<u32>,
    cycles: Option<Cycles>,
    log: Vec<Op>,
    next_key: u64,
}

/// When an occupant is expected to give its nodes back: at its end; past that, when it will have been killed.
pub(super) fn release(now: i64, ends_at: Option<i64>, grace: i64) -> i64 {
    match ends_at {
        None => FOREVER,
        // What has not left by now cannot be used now, so it leaves a moment later at the earliest.
        Some(end) if end > now => end,
        Some(end) => end.saturating_add(grace).max(now.saturating_add(1)),
    }
}

/// When each occupant is expected to leave, by its place in the problem.
pub(super) type Releases = Vec<i64>;

impl<'a> Overlay<'a> {
    /// What runs and what is held, without reservations.
    pub(super) fn new(
        p: &Problem<'a>,
        ground: &mut Ground,
        waiting: &[Waiting<'a>],
        releases: &Releases,
        hold_ends: &[i64],
    ) -> Self {
        let (fleet, now) = (p.fleet, p.now.as_millis());
        let ground = ground.of(fleet, &p.occupants, releases);
        let mut free = ground.free.clone();
        for lender in &p.lenders {
            for (kind, place) in lender.idle.iter().filter_map(|&slot| fleet.place(slot)) {
                free[kind].set(place, fleet.kinds[kind].in_service() && !fleet.kinds[kind].own);
            }
        }
        // Nodes that are held or shared may have several reasons to be busy; all others have one.
        let mut special: BTreeMap<Slot, i64> = BTreeMap::new();
        let mut open: BTreeMap<Slot, Uses> = BTreeMap::new();
        for (hold, &end) in p.holds.iter().zip(hold_ends) {
            for &slot in hold.nodes {
                let until = special.entry(slot).or_insert(now);
                *until = end.max(*until);
            }
        }
        for (key, (occupant, &end)) in (0..).zip(p.occupants.iter().zip(releases)) {
            for (&slot, share) in occupant.nodes.iter().zip(occupant.shares) {
                let until = special.entry(slot).or_insert(now);
                *until = end.max(*until);
                open.entry(slot).or_default().push(Use {
                    from: now,
                    to: end,
                    cpu: share.cpu.get(),
                    ram: share.ram.get(),
                    devices: share.devices.clone(),
                    key,
                });
            }
        }
        let mut next_key = p.occupants.len() as u64;
        for (hold, &end) in p.holds.iter().zip(hold_ends) {
            for slot in hold.nodes {
                next_key += 1;
                if let Some(uses) = open.get_mut(slot) {
                    uses.push(Use::of_all(now, end, next_key));
                }
            }
        }
        let mut extra: BTreeMap<usize, Vec<(i64, i64)>> = BTreeMap::new();
        for (&slot, &until) in &special {
            let Some((kind, place)) = fleet.place(slot) else { continue };
            let was_free = free[kind].set(place, false);
            if !fleet.kinds[kind].is_planned() {
                continue;
            }
            let extra = extra.entry(kind).or_default();
            match ground.until(slot) {
                Some(end) if end < until => extra.extend([(end, -1), (until, 1)]),
                Some(_) => {}
                None if was_free => extra.extend([(now, -1), (until, 1)]),
                None => {}
            }
        }
        let lines = (0..fleet.kinds.len())
            .map(|kind| ground.line(now, kind, extra.get(&kind).map_or(&[], Vec::as_slice)))
            .collect();
        // Jobs that run give power and traffic back when they end. Whoever is kept nodes takes over from those on them.
        let held = p.held();
        let leaves = |at: usize| {
            let occupant = &p.occupants[at];
            // Of those who share a node that is kept, some stay.
            (occupant.shares.is_empty() || !occupant.running)
                && occupant.nodes.iter().any(|&slot| held.contains(slot as usize))
        };
        let end_of = |(at, &end): (usize, &i64)| if leaves(at) { now } else { end };
        let capped = |room: Option<u64>, of: &dyn Fn(usize) -> i64| {
            let room = clamp(room?);
            let ends = releases.iter().enumerate().map(|release| (end_of(release), of(release.0)));
            let mut ends: Vec<(i64, i64)> = ends.filter(|end| end.1 != 0).collect();
            ends.sort_unstable();
            Some(Timeline::from_changes(now, room, ends.into_iter()))
        };
        let power_of = |at: usize| {
            let occupant = &p.occupants[at];
            let kinds = occupant.nodes.iter().filter_map(|&slot| fleet.place(slot));
            kinds.fold(0i64, |sum, (kind, _)| {
                let extra = fleet.kinds[kind].extra_power(occupant.spec.power_w).unwrap_or(0);
                sum.saturating_add(clamp(extra))
            })
        };
        let mut power = capped(p.caps.power_w, &power_of);
        let mut io = capped(p.caps.io_bytes_s, &|at| clamp(p.occupants[at].spec.io_bytes_s.get()));
        for (hold, &end) in p.holds.iter().zip(hold_ends) {
            let Some(waiting) = waiting.iter().find(|waiting| waiting.job == hold.job) else { continue };
            let kinds = hold.nodes.iter().filter_map(|&slot| fleet.place(slot));
            let watts = kinds.fold(0u64, |sum, (kind, _)| {
                sum.saturating_add(fleet.kinds[kind].extra_power(waiting.spec.power_w).unwrap_or(0))
            });
            power.iter_mut().for_each(|line| line.add(now, end, -clamp(watts)));
            let bytes = clamp(waiting.spec.io_bytes_s.get());
            io.iter_mut().for_each(|line| line.add(now, end, -bytes));
        }
        Self {
            fleet,
            now,
            views_of_kind: vec![Vec::new(); fleet.kinds.len()],
            views: Vec::new(),
            lines,
            free,
            power,
            io,
            sharing: open.keys().copied().collect(),
            open,
            lends: p.lenders.iter().map(|lender| lender.lends).collect(),
            cycles: p.cycles,
            log: Vec::new(),
            next_key,
        }
    }

    /// When a job that is planned from an instant on will have ended: it starts with the first cycle from then on.
    pub(super) fn until(&self, from: i64, span: i64) -> i64 {
        self.cycle_from(from).saturating_add(span)
    }

    /// The first cycle from an instant on.
    pub(super) fn cycle_from(&self, from: i64) -> i64 {
        match self.cycles {
            Some(Cycles { next, every }) if from > self.now && !every.is_zero() => {
                let (next, every) = (next.as_millis(), clamp(every.get()));
                let missed = from.saturating_sub(next).max(0);
                let beats = missed / every + i64::from(missed % every != 0);
                next.max(self.now).saturating_add(beats.saturating_mul(every)).max(from)
            }
            _ => from,
        }
    }

    /// A place in the log to go back to.
    pub(super) fn mark(&self) -> usize {
        self.log.len()
    }

    /// Undoes everything since a mark.
    pub(super) fn undo(&mut self, mark: usize) {
        while self.log.len() > mark {
            let Some(op) = self.log.pop() else { return };
            match op {
                Op::Line(kind, from, to, amount) => self.change_line(kind, from, to, -amount),
                Op::Power(from, to, amount) => self.power.iter_mut().for_each(|p| p.add(from, to, -amount)),
                Op::Io(from, to, amount) => self.io.iter_mut().for_each(|io| io.add(from, to, -amount)),
                Op::Bit(kind, place, was) => {
                    self.free[kind].set(place, was);
                }
                Op::UseAdded(slot) => {
                    if let Some(uses) = self.open.get_mut(&slot) {
                        uses.pop();
                        if uses.is_empty() {
                            self.open.remove(&slot);
                        }
                    }
                }
                Op::UseRemoved(slot, place, used) => self.open.entry(slot).or_default().insert(place, used),
                Op::Lent(lender, count) => self.lends[lender] += count,
            }
        }
    }

    fn change_line(&mut self, kind: usize, from: i64, to: i64, amount: i64) {
        self.lines[kind].add(from, to, amount);
        for &view in &self.views_of_kind[kind] {
            self.views[view].line.add(from, to, amount);
        }
    }

    /// Changes the number of free nodes of a kind.
    pub(super) fn add_nodes(&mut self, kind: usize, from: i64, to: i64, amount: i64) {
        if from < to && amount != 0 {
            self.change_line(kind, from, to, amount);
            self.log.push(Op::Line(kind, from, to, amount));
        }
    }

    /// Says whether a node is free now.
    pub(super) fn set_free(&mut self, slot: Slot, free: bool) {
        if let Some((kind, place)) = self.fleet.place(slot)
            && self.free[kind].set(place, free)
        {
            self.log.push(Op::Bit(kind, place, !free));
        }
    }

    pub(super) fn is_free(&self, slot: Slot) -> bool {
        self.fleet.place(slot).is_some_and(|(kind, place)| self.free[kind].contains(place))
    }

    /// Lends so many nodes.
    pub(super) fn lend(&mut self, lender: usize, count: u32) {
        self.lends[lender] = self.lends[lender].saturating_sub(count);
        self.log.push(Op::Lent(lender, count));
    }

    fn add_power(&mut self, from: i64, to: i64, amount: i64) {
        if let Some(line) = self.power.as_mut().filter(|_| amount != 0) {
            line.add(from, to, amount);
            self.log.push(Op::Power(from, to, amount));
        }
    }

    fn add_io(&mut self, from: i64, to: i64, amount: i64) {
        if let Some(line) = self.io.as_mut().filter(|_| amount != 0) {
            line.add(from, to, amount);
            self.log.push(Op::Io(from, to, amount));
        }
    }

    /// The uses of a node.
    pub(super) fn uses(&self, slot: Slot) -> &[Use] {
        self.open.get(&slot).map_or(&[], |uses| uses)
    }

    /// A new key for a use.
    pub(super) fn use_key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    /// Adds a use to a node open to sharing, or opens it.
    pub(super) fn add_use(&mut self, slot: Slot, used: Use) {
        let Some((kind, _)) = self.fleet.place(slot) else { return };
        let uses = self.open.entry(slot).or_default();
        let parts = uses.uncovered(used.from, used.to);
        uses.push(used);
        for (from, to) in parts {
            self.add_nodes(kind, from, to, -1);
        }
        self.log.push(Op::UseAdded(slot));
    }

    /// Takes a use off a node.
    pub(super) fn remove_use(&mut self, slot: Slot, key: u64) {
        let Some((kind, _)) = self.fleet.place(slot) else { return };
        let Some(uses) = self.open.get_mut(&slot) else { return };
        let Some(place) = uses.iter().position(|used| used.key == key) else { return };
        let used = uses.remove(place);
        let parts = uses.uncovered(used.from, used.to);
        if uses.is_empty() {
            self.open.remove(&slot);
        }
        for (from, to) in parts {
            self.add_nodes(kind, from, to, 1);
        }
        self.log.push(Op::UseRemoved(slot, place, used));
    }

    /// Keeps a whole node from an instant on, whoever shares it.
    pub(super) fn keep(&mut self, slot: Slot, from: i64, to: i64) {
        let Some((kind, _)) = self.fleet.place(slot) else { return };
        if self.open.contains_key(&slot) {
            let key = self.use_key();
            self.add_use(slot, Use::of_all(self.now, to, key));
        } else {
            self.add_nodes(kind, from, to, -1);
        }
        self.set_free(slot, false);
    }

    /// An occupant leaves a node at an instant, and not when it was expected to; whether nobody is on the node then.
    pub(super) fn leave(&mut self, occupant: usize, slot: Slot, from: i64, end: i64) -> bool {
        let Some((kind, _)) = self.fleet.place(slot) else { return false };
        let key = occupant as u64;
        let used = self.uses(slot).iter().find(|used| used.key == key).cloned();
        let empty = match used {
            Some(used) if from < used.to => {
                self.remove_use(slot, key);
                if from > used.from {
                    self.add_use(slot, Use { to: from, ..used });
                }
                self.uses(slot).iter().all(|other| other.from > from || other.to <= from)
            }
            Some(_) => false,
            None if self.open.contains_key(&slot) => false,
            None => {
                self.add_nodes(kind, from, end, 1);
                true
            }
        };
        if empty && from <= self.now {
            self.set_free(slot, true);
        }
        empty
    }

    pub(super) fn book(&mut self, booking: &Booking) {
        for &(kind, count) in &booking.kinds {
            self.add_nodes(kind, booking.from, booking.to, -count);
        }
        for (slot, used) in &booking.uses {
            self.add_use(*slot, used.clone());
        }
        self.add_power(booking.from, booking.to, -booking.power);
        self.add_io(booking.from, booking.to, -booking.io);
    }

    /// Gives back what was booked.
    pub(super) fn unbook(&mut self, booking: &Booking) {
        self.add_io(booking.from, booking.to, booking.io);
        self.add_power(booking.from, booking.to, booking.power);
        for (slot, used) in booking.uses.iter().rev() {
            self.remove_use(*slot, used.key);
        }
        for &(kind, count) in &booking.kinds {
            self.add_nodes(kind, booking.from, booking.to, count);
        }
    }

    /// Whether a booking that was lifted still has its place.
    pub(super) fn has_room(&mut self, booking: &Booking) -> bool {
        let (from, to) = (booking.from, booking.to);
        let nodes = booking.kinds.iter().all(|&(kind, count)| self.lines[kind].min(from, to) >= count);
        let power = self.power.as_ref().is_none_or(|line| line.min(from, to) >= booking.power);
        let io = self.io.as_ref().is_none_or(|line| line.min(from, to) >= booking.io);
        let uses = booking.uses.iter().all(|(slot, used)| {
            let others = self.uses(*slot);
            let node = self.fleet.place(*slot).map(|(kind, _)| &self.fleet.kinds[kind].node);
            node.is_some_and(|node| beside(node, others, used))
        });
        nodes && power && io && uses && self.is_kept(booking)
    }

    /// Whether nothing is booked twice if whole and shared nodes of one kind are taken together.
    pub(super) fn is_kept(&mut self, booking: &Booking) -> bool {
        if booking.uses.is_empty() {
            return true;
        }
        let mark = self.mark();
        self.book(booking);
        let mut kinds = booking.uses.iter().filter_map(|(slot, _)| self.fleet.place(*slot));
        let kept = kinds.all(|(kind, _)| self.nodes_free(kind, booking.from, booking.to) >= 0);
        self.undo(mark);
        kept
    }

    /// Nodes of a kind that are free throughout `[from, to)`.
    pub(super) fn nodes_free(&self, kind: usize, from: i64, to: i64) -> i64 {
        self.lines[kind].min(from, to)
    }

    /// The next instant at which a node of a kind comes free.
    pub(super) fn kind_rise(&self, kind: usize, after: i64) -> Option<i64> {
        self.lines[kind].next_rise(after)
    }

    /// Nodes of a kind that are free now, in the order of ids.
    pub(super) fn free_now(&self, kind: usize) -> &Bits {
        &self.free[kind]
    }

    /// The first free nodes of a kind; those on which jobs are to meet later come last.
    pub(super) fn first_free(&self, kind: usize, count: usize) -> Vec<Slot> {
        let members = &self.fleet.kinds[kind].members;
        let free = || self.free[kind].iter().map(|place| members[place]);
        let planned = |slot: &Slot| self.open.contains_key(slot);
        free().filter(|slot| !planned(slot)).chain(free().filter(planned)).take(count).collect()
    }

    /// The view of some kinds, made when it is first asked for.
    pub(super) fn view(&mut self, kinds: &[usize]) -> usize {
        if let Some(known) = self.views.iter().position(|view| view.kinds == kinds) {
            return known;
        }
        let number = self.views.len();
        let mut changes: Vec<(i64, i64)> = Vec::new();
        let mut first = 0i64;
        for &kind in kinds {
            let steps = self.lines[kind].steps();
            first = first.saturating_add(steps[0].1);
            changes.extend(steps.windows(2).map(|pair| (pair[1].0, pair[1].1 - pair[0].1)));
            self.views_of_kind[kind].push(number);
        }
        changes.sort_unstable();
        let line = Timeline::from_changes(self.now, first, changes.into_iter());
        self.views.push(View { kinds: kinds.to_vec(), line });
        number
    }

    pub(super) fn view_line(&self, view: usize) -> &Timeline {
        &self.views[view].line
    }
}

/// Whether a use fits beside others, devices and all.
pub(super) fn beside(node: &landfall_model::Node, others: &[Use], used: &Use) -> bool {
    let overlapping: Vec<&Use> = others.iter().filter(|o| o.from < used.to && used.from < o.to).collect();
    let instants = overlapping.iter().map(|o| o.from.max(used.from)).chain([used.from]);
    instants.into_iter().all(|at| {
        let here = || overlapping.iter().filter(|o| o.from <= at && at < o.to);
        let cpu: u64 = here().map(|o| o.cpu).sum();
        let ram: u64 = here().map(|o| o.ram).sum();
        let devices = used.devices.iter().all(|share| {
            let same = here().flat_map(|o| &o.devices).filter(|other| other.index == share.index);
            let (milli, vram) =
                same.fold((0, 0), |(milli, vram), o| (milli + o.milli.get(), vram + o.vram.get()));
            let total = node.gpu(share.index).map_or(0, |gpu| gpu.vram_total().get());
            milli + share.milli.get() <= 1000 && vram + share.vram.get() <= total
        });
        cpu + used.cpu <= node.cpu_total.get() && ram + used.ram <= node.ram_total.get() && devices
    })
}

/// An amount as the timelines count it.
pub(super) fn clamp(amount: u64) -> i64 {
    // Half the range leaves room for sums without reaching the end of it.
    i64::try_from(amount).unwrap_or(i64::MAX).min(i64::MAX / 4)
}
