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
    pub(super) fn move_forward(&mut self, plan: &mut Profile) {
        for holder in &mut self.holders {
            holder.cancel(plan);
            if let Some(at) = holder.earliest(plan) {
                holder.at = holder.at.min(at);
            }
            holder.book(plan);
        }
    }

    /// Takes out the oldest holder that may start now without harm to the others; its units are taken from now on.
    pub(super) fn take_startable(&mut self, now: i64, free: u32, plan: &mut Profile) -> Option<Holder> {
        for place in 0..self.holders.len() {
            let holder = self.holders[place];
            if holder.units > free {
                continue;
            }
            holder.cancel(plan);
            let started = Holder { at: now, ..holder };
            if plan.fewest(now, now.saturating_add(holder.duration)) >= i64::from(holder.units) {
                started.book(plan);
                return Some(self.holders.remove(place));
            }
            holder.book(plan);
        }
        None
    }

    /// Promises a job the first time that its units are free for its duration, if there is one.
    pub(super) fn give(&mut self, job: &Entry, plan: &mut Profile) -> bool {
        let mut holder = Holder { ticket: job.ticket, units: job.units, duration: job.duration, at: 0 };
        let Some(at) = holder.earliest(plan) else { return false };
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
