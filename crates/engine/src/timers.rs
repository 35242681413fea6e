//! Which deadline comes next. Timers are found out from the state; nothing here is part of it.

use std::collections::{BTreeMap, BTreeSet};

use landfall_model::{JobId, NodeId, PoolId, Time};

/// Whose deadline it is. Deadlines of one instant are handled in this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A job: walltime, checkpoint, kill, start command, back-off.
    Job(JobId),
    /// An array whose time comes.
    Array(JobId),
    /// A hold that runs out.
    Hold(u64),
    /// Whole nodes kept for a job.
    Kept(PoolId, JobId),
    /// A node that falls silent, or is to be probed.
    Node(NodeId),
    /// The peer of a negotiated pool.
    Peer(PoolId),
    /// Running jobs of a pool that save their work by themselves.
    Saves(PoolId),
}

/// All deadlines in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timers {
    by_time: BTreeSet<(Time, Timer)>,
    by_owner: BTreeMap<Timer, Time>,
}

impl Timers {
    /// Sets, moves or clears the deadline of an owner.
    pub(crate) fn set(&mut self, owner: Timer, at: Option<Time>) {
        let known = self.by_owner.get(&owner).copied();
        if known == at {
            return;
        }
        if let Some(known) = known {
            self.by_time.remove(&(known, owner.clone()));
        }
        match at {
            Some(at) => {
                self.by_time.insert((at, owner.clone()));
                self.by_owner.insert(owner, at);
            }
            None => {
                self.by_owner.remove(&owner);
            }
        }
    }

    /// The owner whose deadline is due, if any; its deadline is cleared.
    pub(crate) fn due(&mut self, now: Time) -> Option<(Time, Timer)> {
        let first = self.by_time.first().filter(|(at, _)| *at <= now)?.clone();
        self.by_time.remove(&first);
        self.by_owner.remove(&first.1);
        Some(first)
    }

    pub(crate) fn of(&self, owner: &Timer) -> Option<Time> {
        self.by_owner.get(owner).copied()
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.by_time.first().map(|(at, _)| *at)
    }
}
