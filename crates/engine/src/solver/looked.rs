//! What a cycle looked at, for whoever keeps decisions: per class of jobs, how many nodes were refused for what.
//!
//! The candidates of a batch pool are sets of nodes, and there are more of them than anybody could list; its nodes are of few kinds. So
//! every node is counted once, under what stands first against it, and the rest is what sets were made of.

use std::collections::{BTreeMap, BTreeSet};

use landfall_model::reason::Concern;
use landfall_model::verdict::Facts;

use super::classes::first_against;
use super::plan::Looked;
use super::reason::Reason;
use super::walk::{Outcome, Walk};

/// Classes that are told per cycle why nobody of them starts, the first in line first.
const CLASSES_MAX: usize = 32;

/// The nodes of a pool as jobs of a class see them.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    nodes: u32,
    free: u32,
    against: BTreeMap<Reason, u32>,
}

impl Walk<'_, '_> {
    /// Counts the nodes for a class as they are at this point of the walk.
    fn count(&self, number: usize) -> Counted {
        let class = &self.classes[number];
        let (now, to) = (self.overlay.now, self.overlay.now.saturating_add(class.span));
        let mut open: BTreeMap<usize, u32> = BTreeMap::new();
        for (&slot, uses) in self.overlay.open.iter().filter(|_| !class.spec.exclusive) {
            let Some((kind, _)) = self.p.fleet.place(slot) else { continue };
            let shares = self.overlay.sharing.contains(&slot) && !self.overlay.is_free(slot);
            let room = || uses.has_room(class.spec, &self.p.fleet.kinds[kind].node, now, to);
            *open.entry(kind).or_default() += u32::from(shares && room());
        }
        let mut counted = Counted::default();
        for (kind, first) in first_against(self.p, class, now) {
            let nodes = self.p.fleet.kinds[kind].members.len() as u32;
            let room = self.overlay.free_now(kind).count() as u32 + open.get(&kind).copied().unwrap_or(0);
            let (reason, refused) = match first {
                Some(reason) => (reason, nodes),
                None => (Reason::NodeTaken, nodes.saturating_sub(room)),
            };
            counted.nodes += nodes;
            counted.free += nodes - refused;
            *counted.against.entry(reason).or_default() += refused;
        }
        counted
    }

    /// Notes what was looked at for a job that starts, before it has its nodes. Jobs of a class are told the same within a walk.
    pub(super) fn note_start(&mut self, job: usize) {
        let Some(rest) = self.p.rest else { return };
        let class = self.class_of[job];
        if !self.counted.contains_key(&class) {
            let counted = self.count(class);
            self.counted.insert(class, counted);
        }
        let Counted { nodes, against, .. } = self.counted[&class].clone();
        let job = self.waiting[job].job;
        self.looked.push(Looked { job: job.clone(), nodes, against, facts: rest(job) });
    }

    /// Notes why nobody of a class starts, at the end of the walk.
    pub(super) fn note_waits(&mut self) {
        if self.p.rest.is_none() {
            return;
        }
        let mut told: BTreeSet<usize> = BTreeSet::new();
        for job in self.in_turn() {
            let Some(against) = self.outcomes[job].as_ref().and_then(Outcome::against) else { continue };
            let first = against.first().map_or(Reason::Nodes, |refusal| refusal.reason);
            let class = self.class_of[job];
            if told.len() == CLASSES_MAX || !told.insert(class) {
                continue;
            }
            let mut counted = self.count(class);
            let whatever_the_nodes = matches!(first.concerns(), Concern::Job | Concern::Tenant)
                || matches!(first, Reason::StrictOrder | Reason::ScanMax | Reason::Preempting);
            if whatever_the_nodes {
                counted.against = BTreeMap::from([(first, counted.nodes)]);
            } else if counted.free > 0 {
                // Those are free, and still it could not have them.
                let others = self.reserved.keys().any(|other| self.turns[*other] < self.turns[job]);
                let reason = if first == Reason::Nodes && others { Reason::Reserved } else { first };
                *counted.against.entry(reason).or_default() += counted.free;
            }
            let (job, facts) = (self.waiting[job].job.clone(), Facts::default());
            self.looked.push(Looked { job, nodes: counted.nodes, against: counted.against, facts });
        }
    }
}
