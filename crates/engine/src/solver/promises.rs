//! Promises: under `backfill = "promises"` whoever fits starts, and who would wait for too long is promised a time.
//!
//! At the end of a walk the oldest waiting job that has waited for `promise_after` is promised a time, while fewer than
//! `depth` jobs have one. Its *first slot* is where its nodes are free for its duration beside all that is booked; the
//! promise is the first slot from `promise_grace` after that one on, so that short jobs need not wait until it has run. Once
//! a job has waited for `promise_limit`, it is the first slot itself. When nodes came back before they were expected, each
//! holder, oldest first, moves to the time that it would be promised now, if that is earlier; none ever moves later by what
//! others do. The start of a holder leaves room behind it, so it ends the walk, and the cycle walks again.
//!
//! With `order = "learned"` and two promises this is the policy that logs know as `landfall-batch`
//! ([`crate::counted::learned`] says why the promises hold), here on nodes of many kinds, with quotas, caps and
//! preemption; a test holds the two against each other where both can be used.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use landfall_model::{Backfill, JobId, Time};

use super::attempt::Found;
use super::overlay::clamp;
use super::problem::Classes;
use super::reason::Refusal;
use super::walk::{Outcome, Walk};

/// Where the job comes from that is looked at next: a number in the walk, or a class and a place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Known(usize),
    Of(usize, usize),
}

impl<'a> Walk<'_, 'a> {
    /// The earliest slot for a job, and where promises leave room before them, the first that does.
    pub(super) fn first_slot(&mut self, job: usize, from: i64) -> Option<(i64, Found)> {
        let (settings, class) = (self.p.settings, self.class_of[job]);
        let first = self.overlay.earliest(self.p, &self.classes[class], from)?;
        let limit = self.waiting[job].queued_at + settings.promise_limit_ms;
        let grace = clamp(settings.promise_grace_ms.get());
        if settings.backfill != Backfill::Promises || self.p.now >= limit || grace == 0 {
            return Some(first);
        }
        self.overlay.earliest(self.p, &self.classes[class], first.0.saturating_add(grace))
    }

    /// Gives each holder, oldest first, an earlier time if there is one beside the others.
    pub(super) fn bring_forward(&mut self) {
        let mut holders: Vec<usize> = self.reserved.keys().copied().collect();
        holders.sort_by_key(|&job| (self.waiting[job].queued_at, self.waiting[job].job));
        for job in holders {
            let Some(old) = self.reserved.remove(&job) else { continue };
            self.overlay.unbook(&old);
            match self.first_slot(job, self.overlay.now) {
                Some((at, found)) if at < old.from => self.reserve(job, at, &found),
                _ => {
                    self.overlay.book(&old);
                    self.reserved.insert(job, old);
                }
            }
        }
    }

    /// Promises the oldest jobs that have waited for long enough a time, as long as fewer than allowed have one.
    pub(super) fn promise_oldest(&mut self) {
        let settings = self.p.settings;
        let most = settings.depth.min(settings.reservations_max) as usize;
        if self.reserved.len() >= most {
            return;
        }
        let known: BTreeMap<&'a JobId, usize> =
            self.waiting.iter().enumerate().map(|(number, waiting)| (waiting.job, number)).collect();
        let mut heads: BinaryHeap<Reverse<(Time, &'a JobId, Next)>> = BinaryHeap::new();
        match self.p.classes {
            None => heads.extend(
                (0..).zip(&self.waiting).map(|(at, job)| Reverse((job.queued_at, job.job, Next::Known(at)))),
            ),
            Some(classes) => (0..classes.count())
                .filter(|&class| classes.gate(class).is_none())
                .for_each(|class| heads.extend(head(classes, class, 0))),
        }
        // What cannot be promised to one job of a class cannot be promised to another.
        let mut in_vain: BTreeSet<usize> = BTreeSet::new();
        while let Some(Reverse((queued_at, id, next))) = heads.pop() {
            if self.reserved.len() >= most || queued_at + settings.promise_after_ms > self.p.now {
                break;
            }
            let number = match (next, self.p.classes, known.get(id)) {
                (Next::Of(class, place), Some(classes), None) => {
                    let number = self.take_in(classes.turn(class, place), classes.job(class, place));
                    // What stood against the first of its class stands against it.
                    let against = self.classes[self.class_of[number]].blocked.as_ref();
                    let against = against.map_or_else(Default::default, |(_, against)| Arc::clone(against));
                    self.outcomes[number] = Some(Outcome::Waits(against));
                    number
                }
                (Next::Known(number), ..) | (_, _, Some(&number)) => number,
                (Next::Of(..), None, None) => continue,
            };
            let promised = self.promise(number, &mut in_vain);
            if let (Next::Of(class, place), Some(classes)) = (next, self.p.classes)
                && (promised || !in_vain.contains(&self.class_of[number]))
            {
                heads.extend(head(classes, class, place + 1));
            }
        }
    }

    fn promise(&mut self, job: usize, in_vain: &mut BTreeSet<usize>) -> bool {
        let (waiting, class) = (&self.waiting[job], self.class_of[job]);
        let Some(Outcome::Waits(against)) = &self.outcomes[job] else { return false };
        let kept = waiting.gate.is_some() || waiting.spec.immediate || self.reserved.contains_key(&job);
        let quota = |refusal: &Refusal| refusal.reason.is_quota();
        if kept || in_vain.contains(&class) || against.iter().any(quota) {
            return false;
        }
        let room = self.rooms[self.room_of[&waiting.spec.tenant]].node_units;
        let slot = if self.gates(job).is_empty() { self.first_slot(job, self.overlay.now) } else { None };
        match slot.filter(|(_, found)| self.units(class, found) <= room + 1e-9) {
            Some((at, found)) => {
                self.reserve(job, at, &found);
                true
            }
            None => {
                in_vain.insert(class);
                false
            }
        }
    }
}

/// The job at a place of a class, by its queue time.
fn head<'a>(
    classes: &dyn Classes<'a>,
    class: usize,
    place: usize,
) -> Option<Reverse<(Time, &'a JobId, Next)>> {
    let turn = (place < classes.len(class)).then(|| classes.turn(class, place))?;
    Some(Reverse((turn.queued_at, turn.job, Next::Of(class, place))))
}
