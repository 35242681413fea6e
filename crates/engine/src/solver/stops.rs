//! Stopping work for a job: asking lent nodes back, then stopping what is less urgent.
//!
//! Both try sets of victims on the overlay: their nodes are taken as free, the best set of nodes is looked for, and all
//! is undone. What is granted is booked as it will happen: victims leave when they have saved, and the job follows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::attempt::{Found, Scope};
use super::classes::Class;
use super::fleet::Slot;
use super::overlay::{Booking, Overlay, clamp};
use super::plan::{Preempt, Shrink, Step};
use super::problem::{Occupant, Problem};
use super::reason::{Reason, Refusal};
use super::walk::{Outcome, Walk};
use crate::preempt::{self, ChoiceRules, Claim, Incumbent, NoVictims, PREEMPTORS_PER_CYCLE, Victim};

/// Somebody who would leave nodes: all of them, or those it can do without.
#[derive(Clone)]
pub(super) struct Leaver {
    occupant: usize,
    victim: Victim,
    nodes: Vec<Slot>,
    shrinks: bool,
}

impl Walk<'_, '_> {
    /// Has work stopped for a job; otherwise says whether the cost was the reason.
    pub(super) fn stop_others(&mut self, job: usize) -> Result<Outcome, bool> {
        if let Ok(outcome) = self.reclaim(job) {
            return Ok(outcome);
        }
        let settings = self.p.settings;
        let leavers = self.victims_for(self.class_of[job]);
        let rules = ChoiceRules {
            max_victims: settings.max_victims.min(self.preemptions_left),
            cost_max: settings.preempt_cost_max,
            reclaim: false,
        };
        let outcome = self.stop(job, &leavers, &rules)?;
        self.preemptors += 1;
        Ok(outcome)
    }

    /// Whether anybody could be asked to leave for a job of a class.
    pub(super) fn has_leavers(&mut self, class: usize) -> bool {
        self.p.occupants.iter().any(|occupant| occupant.borrower) || !self.victims_for(class).is_empty()
    }

    /// Less urgent work that may be stopped for jobs of a class, as far as it is tried.
    fn victims_for(&mut self, class: usize) -> Arc<Vec<Leaver>> {
        let spec = self.classes[class].spec;
        let settings = self.p.settings;
        let allowed = settings.preemption && spec.may_preempt && self.preemptors < PREEMPTORS_PER_CYCLE;
        if !allowed || self.preemptions_left == 0 {
            return Arc::default();
        }
        if let Some(known) = self.leavers.get(&spec.class) {
            return Arc::clone(known);
        }
        let claim = Claim::Preempt { class: spec.class, rule: settings.preempt_rule };
        let candidates = self.p.occupants.iter().enumerate().filter(|(at, occupant)| {
            !occupant.borrower && occupant.spec.class < spec.class && !self.stopped.contains(at)
        });
        let leavers = candidates.filter_map(|(at, occupant)| {
            let victim = preempt::judge(&incumbent(self.p, occupant), claim, self.p.now).ok()?;
            Some(Leaver { occupant: at, victim, nodes: occupant.nodes.to_vec(), shrinks: false })
        });
        let found = Arc::new(shortlist(leavers.collect()));
        self.leavers.insert(spec.class, Arc::clone(&found));
        found
    }

    /// Asks nodes back that other pools borrowed.
    fn reclaim(&mut self, job: usize) -> Result<Outcome, bool> {
        let mut leavers = Vec::new();
        for (at, occupant) in self.p.occupants.iter().enumerate() {
            if !occupant.borrower || self.stopped.contains(&at) {
                continue;
            }
            let ours =
                |slot: &Slot| self.p.fleet.place(*slot).is_some_and(|(k, _)| self.p.fleet.kinds[k].own);
            let mut nodes: Vec<Slot> = occupant.nodes.iter().copied().filter(ours).collect();
            nodes.sort_unstable();
            let spec = occupant.spec;
            if spec.resizable || spec.lifecycle == landfall_model::Lifecycle::Reactive {
                // It goes on with fewer nodes, so nothing is lost and no exemption applies.
                let spare = occupant.nodes.len().saturating_sub(spec.nodes.min as usize);
                let nodes = nodes.split_off(nodes.len().saturating_sub(spare));
                if occupant.running && !nodes.is_empty() {
                    let victim = Victim {
                        job: occupant.job.clone(),
                        class: spec.class,
                        cost: 0.0,
                        started: occupant.started,
                    };
                    leavers.push(Leaver { occupant: at, victim, nodes, shrinks: true });
                }
            } else if let Ok(victim) =
                preempt::judge(&incumbent(self.p, occupant), Claim::Reclaim, self.p.now)
            {
                leavers.push(Leaver { occupant: at, victim, nodes, shrinks: false });
            }
        }
        let rules = ChoiceRules {
            max_victims: self.p.settings.max_victims,
            cost_max: self.p.settings.preempt_cost_max,
            reclaim: true,
        };
        self.stop(job, &shortlist(leavers), &rules)
    }

    /// Has some of those on a shortlist leave for a job.
    fn stop(&mut self, job: usize, leavers: &[Leaver], rules: &ChoiceRules) -> Result<Outcome, bool> {
        if leavers.is_empty() {
            return Err(false);
        }
        let number = self.class_of[job];
        let victims = leavers.iter().map(|leaver| leaver.victim.clone()).collect();
        let (p, class, overlay, releases) =
            (self.p, &self.classes[number], &mut self.overlay, &self.releases);
        // Nodes are kept for the job until it starts on them, at the latest when they no longer are.
        let kept = Scope::Kept(overlay.now.saturating_add(clamp(p.kept_for().get())));
        let chosen = preempt::choose(victims, rules, |indices| {
            let going: Vec<&Leaver> = indices.iter().filter_map(|&at| leavers.get(at)).collect();
            try_without(p, overlay, class, releases, kept, &going)
        });
        let choice = chosen.map_err(|none| none == NoVictims::PreemptCost)?;
        let of = |victim: &Victim| leavers.iter().find(|leaver| leaver.victim.job == victim.job);
        let going: Vec<Leaver> = choice.victims.iter().filter_map(of).cloned().collect();
        Ok(self.grant(job, &choice.set, &going, choice.cost, rules.reclaim))
    }

    /// Books what will happen and proposes it.
    fn grant(&mut self, job: usize, found: &Found, going: &[Leaver], cost: f64, reclaim: bool) -> Outcome {
        let number = self.class_of[job];
        let now = self.overlay.now;
        let ready = self.ready_at(going, reclaim);
        let kept_until = now.saturating_add(clamp(self.p.kept_for().get()));
        let over = kept_until.saturating_add(self.classes[number].span);
        let used: BTreeSet<Slot> = found.slots.iter().copied().collect();
        let mut leaving: BTreeMap<Slot, i64> = BTreeMap::new();
        let mut shrinks = Vec::new();
        for leaver in going {
            let end = self.releases[leaver.occupant];
            let gone = self.gone_by(leaver, reclaim).min(end);
            let nodes: Vec<Slot> = match leaver.shrinks {
                true => leaver.nodes.iter().copied().filter(|slot| used.contains(slot)).collect(),
                false => leaver.nodes.clone(),
            };
            for (kind, slot) in nodes.iter().filter_map(|&slot| Some((self.p.fleet.place(slot)?.0, slot))) {
                if self.p.fleet.kinds[kind].own && !self.overlay.open.contains_key(&slot) {
                    self.overlay.add_nodes(kind, gone, end, 1);
                    leaving.insert(slot, gone);
                }
            }
            if leaver.shrinks {
                let nodes = self.p.fleet.ids(&nodes);
                shrinks.push(Shrink { job: leaver.victim.job.clone(), nodes });
            }
            give_back(self.p, &mut self.overlay, leaver, end);
            self.stopped.insert(leaver.occupant);
        }
        self.leavers.clear();
        for &slot in &found.slots {
            let Some((kind, _)) = self.p.fleet.place(slot) else { continue };
            let from = leaving.get(&slot).copied().unwrap_or(now);
            self.overlay.add_nodes(kind, from, over, -1);
            self.overlay.set_free(slot, false);
        }
        let class = &self.classes[number];
        let demand = Booking {
            from: now,
            to: over,
            power: clamp(found.value.extra_power_w),
            io: class.wish.io,
            ..Booking::default()
        };
        self.overlay.book(&demand);
        self.generation += 1;
        let victims: Vec<_> = going.iter().filter(|l| !l.shrinks).map(|l| l.victim.job.clone()).collect();
        if !reclaim {
            self.preemptions_left = self.preemptions_left.saturating_sub(victims.len() as u32);
        }
        let units = self.units(number, found);
        self.spend(job, found.slots.len() as u32, units);
        self.steps.push(Step::Preempt(Preempt {
            job: self.waiting[job].job.clone(),
            reclaim,
            victims,
            shrinks,
            nodes: self.p.fleet.ids(&found.slots),
            slots: found.slots.clone(),
            cost,
            ready_at: landfall_model::Time::from_millis(ready),
            value: found.value,
            node_units: units,
        }));
        Outcome::Preempting(ready, Arc::new(vec![Refusal::plain(Reason::Preempting)]))
    }

    /// By when a victim is gone for certain: one that is told to stop is killed after the grace, one that saves may take
    /// all of its time.
    fn gone_by(&self, leaver: &Leaver, reclaim: bool) -> i64 {
        let saves = self.p.occupants[leaver.occupant].checkpoint_minutes.is_some();
        match leaver.shrinks || !(saves || reclaim) {
            true => self.overlay.now.saturating_add(clamp(self.p.settings.kill_grace_ms.get()).max(1)),
            false => i64::MAX,
        }
    }

    /// When all of them are expected to be gone: after the longest checkpoint, or the kill grace of one that cannot save.
    fn ready_at(&self, going: &[Leaver], reclaim: bool) -> i64 {
        let settings = self.p.settings;
        let grace = clamp(settings.kill_grace_ms.get());
        let last = going.iter().map(|leaver| {
            let minutes = self.p.occupants[leaver.occupant].checkpoint_minutes;
            match minutes.filter(|_| !leaver.shrinks) {
                Some(minutes) => (minutes * 60_000.0).round() as i64,
                None => grace,
            }
        });
        let notice = if reclaim { clamp(self.p.loans.return_grace_ms.get()) } else { 0 };
        let last = last.max().unwrap_or(0).max(1);
        self.overlay.now.saturating_add(notice).saturating_add(last)
    }
}

/// Those that are tried, in order.
fn shortlist(leavers: Vec<Leaver>) -> Vec<Leaver> {
    let mut of: BTreeMap<_, Leaver> =
        leavers.into_iter().map(|leaver| (leaver.victim.job.clone(), leaver)).collect();
    let victims = preempt::shortlist(of.values().map(|leaver| leaver.victim.clone()).collect());
    victims.iter().filter_map(|victim| of.remove(&victim.job)).collect()
}

/// The best set with some victims gone, and how many freed nodes it leaves unused.
fn try_without(
    p: &Problem<'_>,
    overlay: &mut Overlay<'_>,
    class: &Class<'_>,
    releases: &[i64],
    kept: Scope,
    going: &[&Leaver],
) -> Option<(Found, u32)> {
    // Free nodes and freed ones together must be enough, whatever else is asked of them.
    let kinds = class.usable.own.iter();
    let free: usize = kinds.map(|seen| overlay.free_now(seen.kind).count()).sum();
    let leaving: usize = going.iter().map(|leaver| leaver.nodes.len()).sum();
    if class.spec.exclusive && free + leaving < class.spec.nodes.min as usize {
        return None;
    }
    let mark = overlay.mark();
    let mut freed: BTreeSet<Slot> = BTreeSet::new();
    for leaver in going {
        let end = releases[leaver.occupant];
        for &slot in &leaver.nodes {
            let Some((kind, _)) = overlay.fleet.place(slot) else { continue };
            // A shared node is free for others only when all on it have gone, and then it is planned by amounts.
            if !overlay.fleet.kinds[kind].own || overlay.open.contains_key(&slot) || overlay.is_free(slot) {
                continue;
            }
            overlay.add_nodes(kind, overlay.now, end, 1);
            overlay.set_free(slot, true);
            freed.insert(slot);
        }
        give_back(p, overlay, leaver, end);
    }
    let found = overlay.find(p, class, kept, None).ok();
    overlay.undo(mark);
    let found = found?;
    let used = found.slots.iter().filter(|slot| freed.contains(slot)).count();
    Some((found, (freed.len() - used) as u32))
}

/// A victim that leaves altogether gives back its power and traffic as well.
fn give_back(p: &Problem<'_>, overlay: &mut Overlay<'_>, leaver: &Leaver, end: i64) {
    if leaver.shrinks {
        return;
    }
    let occupant = &p.occupants[leaver.occupant];
    let kinds = occupant.nodes.iter().filter_map(|&slot| p.fleet.place(slot));
    let power = kinds.fold(0u64, |sum, (kind, _)| {
        sum.saturating_add(p.fleet.kinds[kind].extra_power(occupant.spec.power_w).unwrap_or(0))
    });
    overlay.unbook(&Booking {
        from: overlay.now,
        to: end,
        power: clamp(power),
        io: clamp(occupant.spec.io_bytes_s.get()),
        ..Booking::default()
    });
}

/// An occupant as the rules of preemption see it.
fn incumbent<'o>(p: &Problem<'_>, occupant: &'o Occupant<'_>) -> Incumbent<'o> {
    let spec = occupant.spec;
    let at_home = |&slot: &Slot| p.fleet.place(slot).is_some_and(|(kind, _)| p.fleet.kinds[kind].own);
    Incumbent {
        job: occupant.job,
        running: occupant.running,
        class: spec.class,
        sensitive: spec.sensitive,
        preemptible: spec.preemptible,
        lifecycle: spec.lifecycle,
        walltime: spec.walltime_ms,
        ends_at: occupant.ends_at,
        started: occupant.started,
        nodes: occupant.nodes.len() as u32,
        on_home_nodes: !occupant.borrower && occupant.nodes.iter().all(at_home),
        checkpoint: spec.checkpoint,
        checkpoint_minutes: occupant.checkpoint_minutes,
        over_share: occupant.over_share,
        preempted: occupant.preempted,
        min_run: p.settings.min_run_ms,
    }
}
