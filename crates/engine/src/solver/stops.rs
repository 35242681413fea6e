//! Stopping work for a job: asking lent nodes back, then stopping what is less urgent.
//!
//! Both try sets of victims on the overlay: their nodes are taken as free, the best set of nodes is looked for, and all
//! is undone. What is granted is booked as it will happen: victims leave when they have saved, and the job follows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use landfall_model::Time;

use super::attempt::{Found, Scope};
use super::classes::Class;
use super::fleet::Slot;
use super::overlay::{Booking, Overlay, clamp};
use super::plan::{Preempt, Shrink, Step};
use super::problem::{Occupant, Problem};
use super::reason::{Reason, Refusal};
use super::walk::{Outcome, Walk};
use crate::preempt::{self, Choice, ChoiceRules, Claim, Incumbent, NoVictims, PREEMPTORS_PER_CYCLE, Victim};

/// Sets of victims that are tried for a later instant: of many that are as good, the first few are compared.
const TRIES_LATER: usize = 64;

/// Somebody who would leave nodes: all of them, or those it can do without.
#[derive(Clone)]
pub(super) struct Leaver {
    pub(super) occupant: usize,
    pub(super) victim: Victim,
    pub(super) nodes: Vec<Slot>,
    /// How many of each kind.
    kinds: Vec<(usize, usize)>,
    shrinks: bool,
}

impl Leaver {
    fn new(p: &Problem<'_>, occupant: usize, victim: Victim, nodes: Vec<Slot>, shrinks: bool) -> Self {
        let mut kinds: BTreeMap<usize, usize> = BTreeMap::new();
        for (kind, _) in nodes.iter().filter_map(|&slot| p.fleet.place(slot)) {
            *kinds.entry(kind).or_default() += 1;
        }
        Self { occupant, victim, nodes, kinds: kinds.into_iter().collect(), shrinks }
    }
}

impl Walk<'_, '_> {
    /// Has work stopped for a job; otherwise says whether the cost was the reason.
    pub(super) fn stop_others(&mut self, job: usize) -> Result<Outcome, bool> {
        if let Ok(outcome) = self.reclaim(job) {
            return Ok(outcome);
        }
        let leavers = self.victims_for(self.class_of[job]);
        let outcome = self.stop(job, &leavers, &rules(self.p, self.preemptions_left, false))?;
        self.preemptors += 1;
        Ok(outcome)
    }

    /// Whether anybody could be asked to leave for a job of a class.
    pub(super) fn has_leavers(&mut self, class: usize) -> bool {
        self.lends || !self.victims_for(class).is_empty()
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
        let p = self.p;
        // Others may be stopped in this walk, so some more of the first are kept.
        let most = preempt::CANDIDATES_MAX + PREEMPTORS_PER_CYCLE as usize * preempt::VICTIMS_MAX;
        let all =
            self.victims.get_or_insert_with(|| first_victims(p, Claim::highest(), p.now, most, |_| true));
        let claim = Claim::Preempt { class: spec.class, rule: settings.preempt_rule };
        let stays =
            |leaver: &&Leaver| claim.beats(leaver.victim.class) && !self.stopped.contains(&leaver.occupant);
        let found: Vec<Leaver> = all.iter().filter(stays).take(preempt::CANDIDATES_MAX).cloned().collect();
        let found = Arc::new(found);
        self.leavers.insert(spec.class, Arc::clone(&found));
        found
    }

    /// Asks nodes back that other pools borrowed.
    fn reclaim(&mut self, job: usize) -> Result<Outcome, bool> {
        if !self.lends {
            return Err(false);
        }
        let leavers = borrowers_at(self.p, self.p.now, |at| !self.stopped.contains(&at));
        self.stop(job, &leavers, &rules(self.p, u32::MAX, true))
    }

    /// Has some of those on a shortlist leave for a job.
    fn stop(&mut self, job: usize, leavers: &[Leaver], rules: &ChoiceRules) -> Result<Outcome, bool> {
        if leavers.is_empty() {
            return Err(false);
        }
        let number = self.class_of[job];
        let (class, now) = (&self.classes[number], self.overlay.now);
        let chosen = choose_at(self.p, &mut self.overlay, class, &self.releases, now, leavers, rules);
        let (choice, going) = chosen.map_err(|none| none == NoVictims::PreemptCost)?;
        Ok(self.grant(job, &choice.set, &going, choice.cost, rules.reclaim))
    }

    /// Books what will happen and proposes it.
    fn grant(&mut self, job: usize, found: &Found, going: &[Leaver], cost: f64, reclaim: bool) -> Outcome {
        let number = self.class_of[job];
        let now = self.overlay.now;
        let ready = now.saturating_add(gone_after(self.p, going, reclaim));
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
            for &slot in nodes.iter().filter(|&&slot| self.p.is_own(slot)) {
                if self.overlay.leave(leaver.occupant, slot, gone, end) {
                    leaving.insert(slot, gone);
                }
            }
            if leaver.shrinks {
                let nodes = self.p.fleet.ids(&nodes);
                shrinks.push(Shrink { job: leaver.victim.job.clone(), nodes });
            }
            give_back(self.p, &mut self.overlay, leaver, now, end);
            self.stopped.insert(leaver.occupant);
        }
        self.leavers.clear();
        for &slot in &found.slots {
            self.overlay.keep(slot, leaving.get(&slot).copied().unwrap_or(now), over);
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
            ready_at: Time::from_millis(ready),
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
}

/// How long it takes until all of them are expected to be gone: the longest checkpoint, or the kill grace of one that
/// cannot save; after the notice, where nodes are asked back.
pub(super) fn gone_after(p: &Problem<'_>, going: &[Leaver], reclaim: bool) -> i64 {
    let grace = clamp(p.settings.kill_grace_ms.get());
    let last = going.iter().map(|leaver| {
        let minutes = p.occupants[leaver.occupant].checkpoint_minutes;
        match minutes.filter(|_| !leaver.shrinks) {
            Some(minutes) => (minutes * 60_000.0).round() as i64,
            None => grace,
        }
    });
    let notice = if reclaim { clamp(p.loans.return_grace_ms.get()) } else { 0 };
    notice.saturating_add(last.max().unwrap_or(0).max(1))
}

pub(super) fn rules(p: &Problem<'_>, most: u32, reclaim: bool) -> ChoiceRules {
    let (max_victims, cost_max) = (p.settings.max_victims.min(most), p.settings.preempt_cost_max);
    ChoiceRules { max_victims, cost_max, reclaim }
}

/// Less urgent work that may be stopped at an instant for jobs of a class, of what is still there then, as far as it is
/// tried.
pub(super) fn victims_at(p: &Problem<'_>, class: u8, at: Time, stays: impl Fn(usize) -> bool) -> Vec<Leaver> {
    let claim = Claim::Preempt { class, rule: p.settings.preempt_rule };
    first_victims(p, claim, at, preempt::CANDIDATES_MAX, stays)
}

/// The first of those that may be stopped at an instant. The least urgent come first, so the candidates of a claim come
/// before all that only higher claims may have.
fn first_victims(
    p: &Problem<'_>,
    claim: Claim,
    at: Time,
    most: usize,
    stays: impl Fn(usize) -> bool,
) -> Vec<Leaver> {
    let candidates = p.occupants.iter().enumerate();
    let candidates = candidates.filter(|(number, occupant)| {
        !occupant.borrower && claim.beats(occupant.spec.class) && stays(*number)
    });
    let victims: Vec<(Victim, usize)> = candidates
        .filter_map(|(number, occupant)| {
            Some((preempt::judge(&incumbent(p, occupant), claim, at).ok()?, number))
        })
        .collect();
    let leaver = |(victim, occupant): (Victim, usize)| {
        Leaver::new(p, occupant, victim, p.occupants[occupant].nodes.to_vec(), false)
    };
    preempt::first(victims, most, |victim| &victim.0).into_iter().map(leaver).collect()
}

/// Work of other pools that may be asked at an instant to give nodes of this one back.
pub(super) fn borrowers_at(p: &Problem<'_>, at: Time, stays: impl Fn(usize) -> bool) -> Vec<Leaver> {
    let mut leavers = Vec::new();
    for (number, occupant) in p.occupants.iter().enumerate() {
        if !occupant.borrower || !stays(number) {
            continue;
        }
        let ours = |slot: &Slot| p.fleet.place(*slot).is_some_and(|(k, _)| p.fleet.kinds[k].own);
        let mut nodes: Vec<Slot> = occupant.nodes.iter().copied().filter(ours).collect();
        nodes.sort_unstable();
        let spec = occupant.spec;
        if spec.resizable || spec.lifecycle == landfall_model::Lifecycle::Reactive {
            // It goes on with fewer nodes, so nothing is lost and no exemption applies.
            let spare = occupant.nodes.len().saturating_sub(spec.nodes.min as usize);
            let nodes = nodes.split_off(nodes.len().saturating_sub(spare));
            if occupant.running && !nodes.is_empty() {
                let (job, started) = (occupant.job.clone(), occupant.started);
                let victim = Victim { job, class: spec.class, cost: 0.0, started };
                leavers.push(Leaver::new(p, number, victim, nodes, true));
            }
        } else if let Ok(victim) = preempt::judge(&incumbent(p, occupant), Claim::Reclaim, at) {
            leavers.push(Leaver::new(p, number, victim, nodes, false));
        }
    }
    preempt::first(leavers, preempt::CANDIDATES_MAX, |leaver| &leaver.victim)
}

/// Who of a shortlist leaves at an instant for a job of a class, and the nodes it gets.
pub(super) fn choose_at(
    p: &Problem<'_>,
    overlay: &mut Overlay<'_>,
    class: &Class<'_>,
    releases: &[i64],
    at: i64,
    leavers: &[Leaver],
    rules: &ChoiceRules,
) -> Result<(Choice<Found>, Vec<Leaver>), NoVictims> {
    let victims = leavers.iter().map(|leaver| leaver.victim.clone()).collect();
    // Nodes are kept for the job until it starts on them, at the latest when they no longer are.
    let kept = (at, at.saturating_add(clamp(p.kept_for().get())));
    // A set has no more to choose from than what is free all the time and what some would leave.
    let of_use = |kind: usize| class.usable.own.iter().any(|seen| seen.kind == kind);
    let frees = |leaver: &Leaver| {
        leaver.kinds.iter().filter(|&&(kind, _)| of_use(kind)).map(|&(_, count)| count).sum()
    };
    let frees: Vec<usize> = leavers.iter().map(frees).collect();
    let mut most = frees.clone();
    most.sort_unstable_by(|a, b| b.cmp(a));
    let most: usize = most.iter().take(rules.max_victims as usize).sum();
    let needs = if class.spec.exclusive { class.spec.nodes.min as usize } else { 0 };
    let few = |free: usize| free + most < needs;
    if at <= overlay.now && few(free_now(overlay, class)) || few(free_at(p, overlay, class, at)) {
        return Err(NoVictims::NoSet);
    }
    let lacks = needs.saturating_sub(free_at(p, overlay, class, at));
    let could_fit = |indices: &[usize]| indices.iter().map(|&at| frees[at]).sum::<usize>() >= lacks;
    let mut tries = if at > overlay.now { TRIES_LATER } else { usize::MAX };
    let choice = preempt::choose(victims, rules, could_fit, |indices| {
        tries = tries.checked_sub(1)?;
        let going: Vec<&Leaver> = indices.iter().filter_map(|&at| leavers.get(at)).collect();
        try_without(p, overlay, class, releases, kept, &going)
    })?;
    let of = |victim: &Victim| leavers.iter().find(|leaver| leaver.victim.job == victim.job);
    let going = choice.victims.iter().filter_map(of).cloned().collect();
    Ok((choice, going))
}

/// The best set with some victims gone, and how many freed nodes it leaves unused.
fn try_without(
    p: &Problem<'_>,
    overlay: &mut Overlay<'_>,
    class: &Class<'_>,
    releases: &[i64],
    (from, until): (i64, i64),
    going: &[&Leaver],
) -> Option<(Found, u32)> {
    let mark = overlay.mark();
    let mut freed: BTreeSet<Slot> = BTreeSet::new();
    for leaver in going {
        let end = releases[leaver.occupant];
        for &slot in &leaver.nodes {
            if p.is_own(slot) && !overlay.is_free(slot) {
                let empty = overlay.leave(leaver.occupant, slot, from, end);
                // Who wants a whole node has nothing of a part of it.
                if empty || !class.spec.exclusive {
                    freed.insert(slot);
                }
            }
        }
        give_back(p, overlay, leaver, from, end);
    }
    let helps = !freed.is_empty() || overlay.power.is_some() || overlay.io.is_some();
    let kept = Scope::Kept { from, until };
    let found = helps.then(|| overlay.find(p, class, kept, None)).and_then(Result::ok);
    overlay.undo(mark);
    let found = found?;
    let used = found.slots.iter().filter(|slot| freed.contains(slot)).count();
    Some((found, (freed.len() - used) as u32))
}

/// Nodes that are free now and that a class can use.
pub(super) fn free_now(overlay: &Overlay<'_>, class: &Class<'_>) -> usize {
    class.usable.own.iter().map(|seen| overlay.free_now(seen.kind).count()).sum()
}

/// No more nodes than these are free for a class at an instant, and kept for one of its jobs.
pub(super) fn free_at(p: &Problem<'_>, overlay: &Overlay<'_>, class: &Class<'_>, at: i64) -> usize {
    let to = at.saturating_add(clamp(p.kept_for().get())).saturating_add(class.span);
    let free = |kind: usize| usize::try_from(overlay.nodes_free(kind, at, to)).unwrap_or(0);
    class.usable.own.iter().map(|seen| free(seen.kind)).sum()
}

/// A victim that leaves altogether gives back its power and traffic as well.
pub(super) fn give_back(p: &Problem<'_>, overlay: &mut Overlay<'_>, leaver: &Leaver, from: i64, end: i64) {
    if leaver.shrinks {
        return;
    }
    let occupant = &p.occupants[leaver.occupant];
    let kinds = occupant.nodes.iter().filter_map(|&slot| p.fleet.place(slot));
    let power = kinds.fold(0u64, |sum, (kind, _)| {
        sum.saturating_add(p.fleet.kinds[kind].extra_power(occupant.spec.power_w).unwrap_or(0))
    });
    overlay.unbook(&Booking {
        from,
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
