//! Why a job cannot start now, in full.

use std::collections::BTreeSet;

use super::classes;
use super::overlay::Booking;
use super::reason::{Reason, Refusal};
use super::walk::Walk;

impl Walk<'_, '_> {
    /// What stands against a class in full, the decisive reason first.
    pub(super) fn explain(&self, class: usize, refusals: Vec<Refusal>) -> Vec<Refusal> {
        let class = &self.classes[class];
        let least = i64::from(class.spec.nodes.min);
        let (now, to) = (self.overlay.now, self.overlay.now.saturating_add(class.span));
        let mut list = refusals;
        if list.first().is_some_and(|refusal| refusal.reason == Reason::Nodes) {
            let here = || {
                let kinds = class.usable.own.iter().map(|seen| seen.kind);
                kinds.filter(|&kind| classes::in_block(&self.p.fleet.kinds[kind], now, to))
            };
            let free: i64 = here().map(|kind| self.overlay.free_now(kind).count() as i64).sum();
            let all: i64 = here().map(|kind| self.p.fleet.kinds[kind].members.len() as i64).sum();
            let kinds: BTreeSet<usize> = here().collect();
            let suited: i64 = class
                .usable
                .own
                .iter()
                .chain(&class.usable.lent)
                .map(|seen| self.p.fleet.kinds[seen.kind].members.len() as i64)
                .sum();
            let held: i64 = self
                .p
                .holds
                .iter()
                .flat_map(|hold| hold.nodes)
                .filter(|&&slot| self.p.fleet.place(slot).is_some_and(|(kind, _)| kinds.contains(&kind)))
                .count() as i64;
            if all > free + held {
                list.push(Refusal::new(Reason::NodeTaken, least as f64, (all - free - held) as f64));
            }
            if held > 0 {
                let mut refusal = Refusal::new(Reason::Held, least as f64, held as f64);
                refusal.jobs = self.p.holds.iter().map(|hold| hold.job.clone()).collect();
                if free < least && free + held >= least {
                    list.insert(0, refusal);
                } else {
                    list.push(refusal);
                }
            }
            let mut refusal = Refusal::new(Reason::Reserved, least as f64, list[0].found);
            let overlaps = |booking: &Booking| {
                booking.from < to
                    && (booking.kinds.iter().any(|(kind, _)| kinds.contains(kind))
                        || !booking.uses.is_empty())
            };
            let holders = self.reserved.iter().filter(|(_, booking)| overlaps(booking));
            let mut holders: Vec<usize> = holders.map(|(&job, _)| job).collect();
            holders.sort_by_key(|&job| self.turns[job]);
            refusal.jobs = holders.into_iter().map(|job| self.waiting[job].job.clone()).collect();
            if !refusal.jobs.is_empty() && free >= least {
                list.insert(0, refusal);
            }
            list.extend(classes::refused_nodes(self.p, class, now));
            let usable = suited + class.usable.put_off as i64;
            // A configuration can be put right, and prices change; what a node is made of does not.
            let passes = |refusal: &Refusal| matches!(refusal.reason, Reason::Fingerprint | Reason::MaxPrice);
            let mendable =
                list.iter().position(passes).filter(|&at| usable as f64 + list[at].found >= least as f64);
            match mendable {
                Some(at) if usable < least => list[..=at].rotate_right(1),
                _ if usable < least => {
                    list.insert(0, Refusal::new(Reason::NeverFits, least as f64, suited as f64));
                }
                _ => {}
            }
        }
        list
    }
}
