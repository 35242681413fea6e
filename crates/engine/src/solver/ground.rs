//! What those who have nodes to themselves leave free, kept from cycle to cycle.
//!
//! A pool of thousands of nodes changes by a few jobs between two cycles. Which nodes are free, and when those that are not come
//! back, is counted here once per job: when it is first seen, when its end is expected at another instant, when it is gone. A
//! cycle takes a copy and adds what is different in every cycle: held and shared nodes, and what other pools lend.
//!
//! It is made anew with the fleet, whose slots and kinds it speaks of, and gives the same as one that was made just now: a
//! test build plans every cycle with both.

use std::collections::BTreeMap;

use landfall_model::JobId;

use super::bits::Bits;
use super::fleet::{Fleet, Slot};
use super::problem::Occupant;
use super::timeline::Timeline;

/// Free nodes of each kind, now and as jobs end.
#[derive(Debug, Clone, Default)]
pub struct Ground {
    pub(super) free: Vec<Bits>,
    /// How many nodes of each kind there are to plan with.
    all: Vec<i64>,
    /// For each kind, how many nodes come back at which instant, in order.
    rises: Vec<Vec<(i64, i64)>>,
    /// When each node comes back; `None` if it is free or not planned with.
    until: Vec<Option<i64>>,
    /// When each job gives back which nodes.
    counted: BTreeMap<JobId, (i64, Box<[Slot]>)>,
    /// Whether a node is claimed twice, so that it matters who was counted first.
    doubled: bool,
}

impl Ground {
    fn new(fleet: &Fleet) -> Self {
        let kinds = || fleet.kinds.iter().map(|kind| (kind.is_planned(), kind.members.len()));
        let bits = |(planned, len)| if planned { Bits::full(len) } else { Bits::empty(len) };
        Self {
            free: kinds().map(bits).collect(),
            all: kinds().map(|(planned, len)| if planned { len as i64 } else { 0 }).collect(),
            rises: vec![Vec::new(); fleet.kinds.len()],
            until: vec![None; fleet.len()],
            ..Self::default()
        }
    }

    /// Brought up to who occupies what now. Of two who claim one node, the first has it.
    pub(super) fn of(&mut self, fleet: &Fleet, occupants: &[Occupant<'_>], releases: &[i64]) -> &Self {
        if self.doubled || self.until.len() != fleet.len() {
            *self = Self::new(fleet);
        }
        self.follow(fleet, occupants, releases);
        if self.doubled {
            *self = Self::new(fleet);
            self.follow(fleet, occupants, releases);
        }
        self
    }

    /// When a node comes back that somebody has to itself.
    pub(super) fn until(&self, slot: Slot) -> Option<i64> {
        self.until[slot as usize]
    }

    /// Free nodes of a kind over time, with some more changes.
    pub(super) fn line(&self, now: i64, kind: usize, extra: &[(i64, i64)]) -> Timeline {
        let rises = &self.rises[kind];
        let busy: i64 = rises.iter().map(|rise| rise.1).sum();
        let first = self.all[kind] - busy;
        if extra.is_empty() {
            return Timeline::from_changes(now, first, rises.iter().copied());
        }
        let mut changes: Vec<(i64, i64)> = rises.iter().chain(extra).copied().collect();
        changes.sort_unstable();
        Timeline::from_changes(now, first, changes.into_iter())
    }

    /// Counts what is new or different, and forgets what is gone.
    fn follow(&mut self, fleet: &Fleet, occupants: &[Occupant<'_>], releases: &[i64]) {
        let whole = occupants.iter().zip(releases).filter(|(occupant, _)| occupant.shares.is_empty());
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        let mut known = self.counted.iter().peekable();
        for (occupant, &end) in whole {
            while let Some((job, _)) = known.next_if(|(job, _)| *job < occupant.job) {
                gone.push(job.clone());
            }
            let counted = known.next_if(|(job, _)| *job == occupant.job);
            if !counted.is_some_and(|(_, (until, slots))| *until == end && **slots == *occupant.nodes) {
                gone.extend(counted.map(|(job, _)| job.clone()));
                new.push((occupant, end));
            }
        }
        gone.extend(known.map(|(job, _)| job.clone()));
        gone.iter().for_each(|job| self.forget(fleet, job));
        new.into_iter().for_each(|(occupant, end)| self.count(fleet, occupant, end));
    }

    fn count(&mut self, fleet: &Fleet, occupant: &Occupant<'_>, end: i64) {
        for &slot in occupant.nodes {
            let Some((kind, place)) = fleet.place(slot).filter(|&(kind, _)| fleet.kinds[kind].is_planned())
            else {
                continue;
            };
            if !self.free[kind].set(place, false) {
                self.doubled = true;
                continue;
            }
            self.until[slot as usize] = Some(end);
            let rises = &mut self.rises[kind];
            match rises.binary_search_by_key(&end, |rise| rise.0) {
                Ok(at) => rises[at].1 += 1,
                Err(at) => rises.insert(at, (end, 1)),
            }
        }
        self.counted.insert(occupant.job.clone(), (end, occupant.nodes.into()));
    }

    fn forget(&mut self, fleet: &Fleet, job: &JobId) {
        let Some((_, slots)) = self.counted.remove(job) else { return };
        for slot in slots {
            let (Some((kind, place)), Some(end)) = (fleet.place(slot), self.until[slot as usize].take())
            else {
                continue;
            };
            self.free[kind].set(place, true);
            let rises = &mut self.rises[kind];
            if let Ok(at) = rises.binary_search_by_key(&end, |rise| rise.0) {
                rises[at].1 -= 1;
                if rises[at].1 == 0 {
                    rises.remove(at);
                }
            }
        }
    }
}
