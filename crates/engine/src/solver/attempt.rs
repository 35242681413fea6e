//! Trying to place one job: which nodes are usable from some instant on, the best set among them, and its booking.

use std::sync::Arc;

use super::classes::{Class, Seen, in_block};
use super::fleet::Slot;
use super::open;
use super::overlay::{Booking, Overlay, clamp};
use super::pack::Offer;
use super::plan::SetValue;
use super::problem::Problem;
use super::reason::Refusal;
use super::sets::{Choice, Chosen, Terms, rank};
use super::timeline::FOREVER;

/// Which nodes are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Own nodes that are free now.
    Now,
    /// These, and what the first so many lenders lend.
    Lent(usize),
    /// Own nodes from a later instant on.
    From(i64),
    /// Own nodes that are free at an instant, kept until another at which the job starts on them at the latest.
    Kept { from: i64, until: i64 },
}

/// Nodes found for a job.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) slots: Vec<Slot>,
    /// Whole nodes of each kind.
    pub(super) kinds: Vec<(usize, i64)>,
    /// Shared nodes among them, with devices.
    pub(super) shared: Vec<(Slot, Vec<u16>)>,
    pub(super) value: SetValue,
    pub(super) runner_up: Option<SetValue>,
    pub(super) power_unknown: bool,
}

/// How many nodes beyond the fewest a range job may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Growth {
    pub(super) most: u32,
}

impl Overlay<'_> {
    fn offer(&self, seen: &Seen, count: i64, shared: Option<Slot>, near: f64) -> Option<Offer> {
        let kind = &self.fleet.kinds[seen.kind];
        let count = u32::try_from(count).ok().filter(|&count| count > 0)?;
        Some(Offer {
            kind: seen.kind,
            count,
            shared,
            group: kind.group,
            own: kind.own,
            fingerprint: kind.fingerprint,
            rank: 0,
            power_rank: 0,
            locality: near,
            power: seen.power,
        })
    }

    /// Whether filters admit a kind by the time at which the job would start.
    fn is_admitted(&self, seen: &Seen, scope: Scope) -> bool {
        match scope {
            Scope::From(at) | Scope::Kept { until: at, .. } => seen.from <= at,
            Scope::Now | Scope::Lent(_) => seen.from <= self.now,
        }
    }

    /// Whether nodes are counted at a later instant, rather than those taken that are free now.
    fn is_later(&self, scope: Scope) -> bool {
        match scope {
            Scope::From(_) => true,
            Scope::Kept { from, .. } => from > self.now,
            Scope::Now | Scope::Lent(_) => false,
        }
    }

    /// Usable nodes of a class.
    fn offers(&self, p: &Problem<'_>, class: &Class<'_>, scope: Scope, covered_only: bool) -> Vec<Offer> {
        let (from, to) = self.interval(class, scope);
        let mut offers = Vec::new();
        for seen in &class.usable.own {
            let kind = &self.fleet.kinds[seen.kind];
            if !in_block(kind, from, to) || !self.is_admitted(seen, scope) {
                continue;
            }
            let mut count = self.nodes_free(seen.kind, from, to);
            if !self.is_later(scope) {
                count = count.min(self.free_now(seen.kind).count() as i64);
            }
            offers.extend(self.offer(seen, count, None, seen.locality));
        }
        if !class.spec.exclusive {
            self.open_offers(class, scope, covered_only, &mut offers);
        }
        if let Scope::Lent(lenders) = scope {
            for (number, lender) in p.lenders.iter().enumerate().take(lenders) {
                self.lent_offers(class, lender.pool, self.lends[number], to, &mut offers);
            }
        }
        rank(&mut offers, self.fleet.fingerprints, |offer| self.fleet.kinds[offer.kind].node.drifted);
        offers
    }

    /// Nodes open to sharing with enough left. Those that nothing covers count as whole ones already.
    fn open_offers(&self, class: &Class<'_>, scope: Scope, covered_only: bool, offers: &mut Vec<Offer>) {
        let (from, to) = self.interval(class, scope);
        let at_once = !self.is_later(scope);
        for (&slot, uses) in &self.open {
            // Jobs may be meant to meet on a node that somebody else has to himself until then.
            if at_once && !self.sharing.contains(&slot) && !self.is_free(slot) {
                continue;
            }
            let Some((kind, _)) = self.fleet.place(slot) else { continue };
            let Some(seen) = class.usable.own.iter().find(|seen| seen.kind == kind) else { continue };
            let node = &self.fleet.kinds[kind].node;
            if !uses.has_room(class.spec, node, from, to) {
                continue;
            }
            let parts = uses.uncovered(from, to);
            let free = parts == [(from, to)];
            let reserved = parts.iter().any(|&(a, b)| self.nodes_free(kind, a, b) < 1);
            // Who is kept a node has it alone until those who are in the way are gone.
            let planned = |used: &open::Use| matches!(scope, Scope::Kept { .. }) && used.from > from;
            if free
                || reserved
                || uses.iter().any(planned)
                || (covered_only && !parts.is_empty())
                || !in_block(&self.fleet.kinds[kind], from, to)
                || !self.is_admitted(seen, scope)
            {
                continue;
            }
            let near = open::locality_left(class.spec, node, uses, from, to);
            offers.extend(self.offer(seen, 1, Some(slot), near));
        }
    }

    /// What one pool lends: its idle nodes with the lowest ids.
    fn lent_offers(
        &self,
        class: &Class<'_>,
        lender: &landfall_model::PoolId,
        lends: u32,
        to: i64,
        offers: &mut Vec<Offer>,
    ) {
        let of_lender = |seen: &&Seen| {
            let kind = &self.fleet.kinds[seen.kind];
            kind.node.pool.as_ref() == Some(lender) && in_block(kind, self.now, to) && seen.from <= self.now
        };
        let seen: Vec<&Seen> = class.usable.lent.iter().filter(of_lender).collect();
        let mut idle: Vec<(Slot, usize)> = Vec::new();
        for (number, seen) in seen.iter().enumerate() {
            let members = &self.fleet.kinds[seen.kind].members;
            let free = self.free_now(seen.kind).iter().take(lends as usize);
            idle.extend(free.map(|place| (members[place], number)));
        }
        idle.sort_unstable();
        idle.truncate(lends as usize);
        for (number, seen) in seen.iter().enumerate() {
            let count = idle.iter().filter(|(_, of)| *of == number).count() as i64;
            offers.extend(self.offer(seen, count, None, seen.locality));
        }
    }

    /// The best set for a class: for its fewest nodes, then as many more as a range job may have.
    pub(super) fn find(
        &mut self,
        p: &Problem<'_>,
        class: &Class<'_>,
        scope: Scope,
        growth: Option<Growth>,
    ) -> Result<Found, Vec<Refusal>> {
        let found = self.find_among(p, class, scope, growth, false)?;
        if found.shared.is_empty() {
            return Ok(found);
        }
        let booking = self.booking(&found, class, scope);
        if self.is_kept(&booking) {
            return Ok(found);
        }
        self.find_among(p, class, scope, growth, true)
    }

    /// The very nodes that a reservation counts on, if they are still to be had. A look at all nodes may miss them: it
    /// compares a few sets, and of these a cap may rule out each.
    pub(super) fn find_own(
        &mut self,
        p: &Problem<'_>,
        class: &Class<'_>,
        scope: Scope,
        own: &Booking,
    ) -> Option<Found> {
        let mut offers = self.offers(p, class, scope, false);
        for offer in offers.iter_mut().filter(|offer| offer.shared.is_none()) {
            let whole = own.kinds.iter().find(|(kind, _)| *kind == offer.kind).map_or(0, |kept| kept.1);
            // A node that it was to share may be all its own by now.
            let of_kind = |(slot, _): &&(Slot, open::Use)| {
                self.fleet.place(*slot).is_some_and(|(kind, _)| kind == offer.kind)
            };
            let kept = u32::try_from(whole).unwrap_or(0) + own.uses.iter().filter(of_kind).count() as u32;
            offer.count = offer.count.min(kept);
        }
        offers.retain(|offer| match offer.shared {
            Some(slot) => own.uses.iter().any(|(kept, _)| *kept == slot),
            None => offer.count > 0,
        });
        let found = self.choose(p, class, scope, None, &offers).ok()?;
        let booking = self.booking(&found, class, scope);
        self.is_kept(&booking).then_some(found)
    }

    fn find_among(
        &self,
        p: &Problem<'_>,
        class: &Class<'_>,
        scope: Scope,
        growth: Option<Growth>,
        covered_only: bool,
    ) -> Result<Found, Vec<Refusal>> {
        let offers = self.offers(p, class, scope, covered_only);
        self.choose(p, class, scope, growth, &offers)
    }

    /// The best set among some offers.
    fn choose(
        &self,
        p: &Problem<'_>,
        class: &Class<'_>,
        scope: Scope,
        growth: Option<Growth>,
        offers: &[Offer],
    ) -> Result<Found, Vec<Refusal>> {
        let (from, to) = self.interval(class, scope);
        let later = self.is_later(scope) && scope != Scope::From(self.now);
        let ids = |offer: &Offer, count: u32| -> Vec<Slot> {
            let members = &self.fleet.kinds[offer.kind].members;
            match offer.shared {
                Some(slot) => vec![slot],
                None if later => members.iter().copied().take(count as usize).collect(),
                None => self.first_free(offer.kind, count as usize),
            }
        };
        let terms = Terms {
            weights: p.weights,
            borrow_penalty: p.loans.borrow_penalty,
            home_groups: self.fleet.home_groups,
            power_room: self.power.as_ref().map(|line| line.min(from, to)),
            io_room: self.io.as_ref().map(|line| line.min(from, to)),
        };
        let choice = Choice { offers, wish: class.wish, terms, ids: &ids };
        let mut chosen = choice.best(class.spec.nodes.min)?;
        let more = growth.filter(|growth| growth.most > class.spec.nodes.min && chosen.value.borrowed == 0);
        if let Some(growth) = more {
            let own: Vec<Offer> = offers.iter().filter(|offer| offer.own).cloned().collect();
            let wider = Choice { offers: &own, ..choice };
            if let Some(larger) = grow(&wider, &chosen, growth.most) {
                let slots = wider.slots(&larger.counts);
                return Ok(self.found(p, class, &own, larger, slots, from, to));
            }
        }
        chosen.runner_up = chosen.runner_up.filter(|_| class.wish.hint != landfall_model::SetHint::Any);
        let slots = choice.slots(&chosen.counts);
        Ok(self.found(p, class, offers, chosen, slots, from, to))
    }

    #[expect(clippy::too_many_arguments, reason = "all parts of one answer, put together in one place")]
    fn found(
        &self,
        p: &Problem<'_>,
        class: &Class<'_>,
        offers: &[Offer],
        chosen: Chosen,
        slots: Vec<Slot>,
        from: i64,
        to: i64,
    ) -> Found {
        let mut kinds: Vec<(usize, i64)> = Vec::new();
        let mut shared = Vec::new();
        for &(at, count) in &chosen.counts {
            let offer = &offers[at];
            match offer.shared {
                None => kinds.push((offer.kind, i64::from(count))),
                Some(slot) => {
                    let node = &self.fleet.kinds[offer.kind].node;
                    let uses = self.uses(slot);
                    shared.push((slot, open::fit(class.spec, node, uses, from, to).unwrap_or_default()));
                }
            }
        }
        let of =
            |kind: usize| class.usable.own.iter().chain(&class.usable.lent).find(|seen| seen.kind == kind);
        let power_unknown = p.caps.power_w.is_some()
            && chosen.counts.iter().any(|&(at, _)| of(offers[at].kind).is_some_and(|s| s.power_unknown));
        Found { slots, kinds, shared, value: chosen.value, runner_up: chosen.runner_up, power_unknown }
    }

    fn interval(&self, class: &Class<'_>, scope: Scope) -> (i64, i64) {
        match scope {
            Scope::From(at) => (at, self.until(at, class.span)),
            Scope::Kept { from, until } => (from, until.saturating_add(class.span)),
            Scope::Now | Scope::Lent(_) => (self.now, self.now.saturating_add(class.span)),
        }
    }

    /// What a set books.
    pub(super) fn booking(&mut self, found: &Found, class: &Class<'_>, scope: Scope) -> Booking {
        let (from, to) = self.interval(class, scope);
        let uses = found.shared.iter().map(|(slot, devices)| {
            let key = self.use_key();
            (*slot, open::usage(class.spec, devices, from, to, key))
        });
        Booking {
            from,
            to,
            uses: uses.collect(),
            // A loan is planned by its home pool.
            kinds: found.kinds.iter().copied().filter(|&(kind, _)| self.fleet.kinds[kind].own).collect(),
            power: clamp(found.value.extra_power_w),
            io: class.wish.io,
        }
    }

    /// The earliest slot for the fewest nodes of a class, not before `not_before`.
    pub(super) fn earliest(
        &mut self,
        p: &Problem<'_>,
        class: &Class<'_>,
        not_before: i64,
    ) -> Option<(i64, Found)> {
        let horizon = self.now.saturating_add(i64::try_from(p.settings.horizon_ms.get()).unwrap_or(FOREVER));
        let kinds: Vec<usize> = class.usable.own.iter().map(|seen| seen.kind).collect();
        if kinds.is_empty() {
            return None;
        }
        let view = self.view(&kinds);
        let least = i64::from(class.spec.nodes.min);
        let mut at = not_before.max(self.now);
        loop {
            if class.spec.exclusive {
                at = self.view_line(view).first_window(at, class.span, least, horizon)?;
            } else if at > horizon {
                return None;
            }
            let scope = if at == self.now { Scope::Now } else { Scope::From(at) };
            if let Ok(found) = self.find(p, class, scope, None) {
                return Some((at, found));
            }
            at = self.next_change(class, view, at)?;
        }
    }

    /// The next instant at which something that the class needs comes free.
    fn next_change(&self, class: &Class<'_>, view: usize, after: i64) -> Option<i64> {
        let rises = [Some(self.view_line(view)), self.power.as_ref(), self.io.as_ref()];
        let rises = rises.into_iter().flatten().filter_map(|line| line.next_rise(after));
        let starts = class.usable.own.iter().filter_map(|seen| self.fleet.kinds[seen.kind].from);
        let admitted = class.usable.own.iter().map(|seen| seen.from);
        let starts = starts.map(|start| start.as_millis()).chain(admitted).filter(|&start| start > after);
        // A sum may stay level while one kind rises and another falls.
        let each = class.usable.own.iter().filter_map(|seen| self.kind_rise(seen.kind, after));
        let uses = self.open.values().flat_map(|uses| &**uses).map(|used| used.to);
        let uses = uses.filter(|&end| !class.spec.exclusive && end > after && end != FOREVER);
        rises.chain(starts).chain(each).chain(uses).min()
    }
}

/// The largest set that needs no more groups and configurations than the smallest one does.
fn grow(choice: &Choice<'_>, least: &Chosen, most: u32) -> Option<Chosen> {
    let mut groups: std::collections::BTreeMap<u32, u64> = std::collections::BTreeMap::new();
    for offer in choice.offers {
        *groups.entry(offer.group).or_default() += u64::from(offer.count);
    }
    let mut sizes: Vec<u64> = groups.into_values().collect();
    sizes.sort_unstable_by_key(|&size| std::cmp::Reverse(size));
    let reachable: u64 = sizes.iter().take(least.value.span as usize).sum();
    let most = u64::from(most).min(reachable);
    let least_nodes: u32 = least.counts.iter().map(|&(_, count)| count).sum();
    let within = Some((least.value.span, least.value.fingerprints));
    let most = u32::try_from(most).unwrap_or(u32::MAX);
    (least_nodes + 1..=most).rev().find_map(|wanted| choice.best_within(wanted, within).ok())
}

/// What stands against a class, shared by its jobs.
pub(super) type Against = Arc<Vec<Refusal>>;
