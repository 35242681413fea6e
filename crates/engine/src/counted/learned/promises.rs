//! Those who were promised a time.

use super::super::line::Entry;
use super::super::planner::{Releases, Ticket};
use super::super::profile::Profile;
use super::room::Room;

/// A waiting job and the time it was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) ticket: Ticket,
    pub(super) units: u32,
    /// How long it may hold them, in milliseconds.
    pub(super) duration: i64,
    /// When it starts at the latest.
    pub(super) at: i64,
    /// Until then its times leave room for others before it.
    pub(super) lenient_until: i64,
}

impl Holder {
    fn book(&self, plan: &mut Profile) {
        plan.take(self.at, self.at.saturating_add(self.duration), u64::from(self.units));
    }

    fn cancel(&self, plan: &mut Profile) {
        plan.give(self.at, self.at.saturating_add(self.duration), u64::from(self.units));
    }

    fn earliest(&self, plan: &Profile) -> Option<i64> {
        plan.earliest(u64::from(self.units), self.duration)
    }

    /// The first time it could have, and from then on the first with so much room before it while that is still due.
    fn lenient(&self, now: i64, grace: i64, plan: &Profile) -> Option<i64> {
        let first = self.earliest(plan)?;
        if now >= self.lenient_until {
            return Some(first);
        }
        plan.earliest_from(first.saturating_add(grace), u64::from(self.units), self.duration)
    }
}

/// Holders of promises, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Promises {
    pub(super) holders: Vec<Holder>,
    pub(super) moved_later: u64,
}

impl Promises {
    /// Free units from now on when running jobs end by their durations and holders start at their times.
    pub(super) fn plan(&self, now: i64, free: u32, running: &Releases) -> Profile {
        let mut plan = Profile::of_releases(now, free, running.iter());
        for holder in &self.holders {
            holder.book(&mut plan);
        }
        plan
    }

    /// Whether the time of a holder has passed, which happens if a job outlives its duration or a pass comes late.
    pub(super) fn missed(&self, now: i64) -> bool {
        self.holders.iter().any(|holder| holder.at < now)
    }

    /// Gives each holder, oldest first, the first time that is free beside the older ones.
    pub(super) fn move_missed(&mut self, plan: &mut Profile) {
        for holder in &self.holders {
            holder.cancel(plan);
        }
        for holder in &mut self.holders {
            let at = holder.earliest(plan).unwrap_or(holder.at);
            self.moved_later += u64::from(at > holder.at);
            holder.at = at;
            holder.book(plan);
        }
    }

    /// Gives each holder, oldest first, an earlier time if there is one beside the others.
    pub(super) fn move_forward(&mut self, now: i64, grace: i64, plan: &mut Profile) {
        for holder in &mut self.holders {
            holder.cancel(plan);
            if let Some(at) = holder.lenient(now, grace, plan) {
                holder.at = holder.at.min(at);
            }
            holder.book(plan);
        }
    }

    /// Promises a job the first time that its units are free for its duration, with room before it, if there is one.
    pub(super) fn give(
        &mut self,
        job: &Entry,
        lenient_until: i64,
        now: i64,
        grace: i64,
        plan: &mut Profile,
    ) -> bool {
        let Entry { ticket, units, duration, .. } = *job;
        let mut holder = Holder { ticket, units, duration, at: 0, lenient_until };
        let Some(at) = holder.lenient(now, grace, plan) else { return false };
        holder.at = at;
        holder.book(plan);
        self.holders.push(holder);
        true
    }

    /// What is free beside all promises.
    pub(super) fn room(&self, free: u32, plan: &Profile, room: &mut Room) {
        room.now = free;
        room.later.clear();
        room.later.extend(
            self.holders
                .iter()
                .map(|holder| (holder.at, plan.fewest(holder.at, holder.at.saturating_add(1)))),
        );
        room.later.sort_unstable();
    }
}
