//! Pending timers. The driver is told of each and calls back; a call for a timer that is not pending, or not yet due,
//! does nothing, so a driver need not take cleared timers back in time.

use std::collections::BTreeMap;

use landfall_model::{Digest, Time};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Timers of an arbiter's job; earlier ones go first at the same instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum JobTimer {
    /// The job's deadline.
    Deadline,
    /// The round is decided.
    Decide,
    /// The awarded node was silent.
    Ack,
    /// The pause is over.
    Backoff,
    /// The lease is lost.
    Lease,
}

/// Timers of a job on a node; earlier ones go first at the same instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HostTimer {
    /// The lease may be lost: stop.
    SelfStop,
    /// The job's deadline.
    Deadline,
    /// The arbiter did not confirm.
    Confirm,
    /// The body did not come.
    BodyLimit,
    /// The hold ends.
    Hold,
    /// Deliberation is over.
    Consider,
    /// Send the ack again.
    Repeat,
    /// Renew the lease.
    Renew,
    /// Ask for the body again.
    Body,
    /// Send the result again.
    Report,
    /// Forget an expired offer.
    Forget,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TimerId {
    /// For a job of this arbiter.
    Job { job: Digest, kind: JobTimer },
    /// For a job on this node.
    Host { job: Digest, kind: HostTimer },
    /// Announce the capacity again.
    Announce,
    /// Let the shares of scopes follow the queue.
    ScopeAdapt,
}

impl TimerId {
    pub const fn job(&self) -> Option<Digest> {
        match self {
            Self::Job { job, .. } | Self::Host { job, .. } => Some(*job),
            Self::Announce | Self::ScopeAdapt => None,
        }
    }
}

/// All pending timers of a peer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Timers(BTreeMap<TimerId, Time>);

// A list of pairs, because many formats have text keys only.
impl Serialize for Timers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.0)
    }
}

impl<'de> Deserialize<'de> for Timers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Vec::<(TimerId, Time)>::deserialize(deserializer)?.into_iter().collect()))
    }
}

impl Timers {
    pub fn due_at(&self, id: &TimerId) -> Option<Time> {
        self.0.get(id).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&TimerId, Time)> {
        self.0.iter().map(|(id, at)| (id, *at))
    }

    /// Whether a job of this arbiter has a pending timer that moves it on.
    pub fn drives_job(&self, job: &Digest) -> bool {
        [JobTimer::Decide, JobTimer::Ack, JobTimer::Backoff, JobTimer::Lease]
            .iter()
            .any(|&kind| self.0.contains_key(&TimerId::Job { job: *job, kind }))
    }

    pub(super) fn set(&mut self, id: TimerId, at: Time) {
        self.0.insert(id, at);
    }

    pub(super) fn clear(&mut self, id: &TimerId) -> bool {
        self.0.remove(id).is_some()
    }

    pub(super) fn is_due(&self, id: &TimerId, now: Time) -> bool {
        self.due_at(id).is_some_and(|at| at <= now)
    }
}
