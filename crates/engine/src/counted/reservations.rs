//! Passes in which more than the head of the line is promised a time.

use std::collections::BTreeMap;

use super::line::Entry;
use super::planner::{Releases, Start, Ticket};
use super::profile::Profile;

/// Times promised to waiting jobs.
#[derive(Debug, Clone, Default)]
pub(super) struct Promises {
    by_job: BTreeMap<Ticket, i64>,
    pub(super) moved_later: u64,
}

impl Promises {
    pub(super) fn iter(&self) -> impl Iterator<Item = (Ticket, i64)> {
        self.by_job.iter().map(|(ticket, at)| (*ticket, *at))
    }

    /// Walks the line: a job starts if it can without delaying a promise; otherwise the first `depth` that cannot are
    /// promised the earliest time there is, and those that had a promise keep it or get an earlier one.
    #[expect(clippy::too_many_arguments, reason = "one walk, called in one place")]
    pub(super) fn walk(
        &mut self,
        now: i64,
        free: u32,
        running: &Releases,
        waiting: &[Entry],
        by_rank: Option<&[Entry]>,
        depth: Option<u32>,
        standing: bool,
        starts: &mut Vec<Start>,
    ) {
        let mut profile = Profile::of_releases(now, free, running.iter());
        let before = std::mem::take(&mut self.by_job);
        let asks: BTreeMap<Ticket, Entry> = waiting.iter().map(|job| (job.ticket, *job)).collect();
        if standing {
            for (ticket, at) in &before {
                let job = asks[ticket];
                profile.take(*at, at.saturating_add(job.duration), u64::from(job.units));
            }
        }
        let mut blocked = 0;
        let mut left = free;
        let mut line = waiting.iter();
        let mut rest = by_rank.unwrap_or_default().iter();
        let mut done: Option<Ticket> = None;
        loop {
            // After the first blocked job the walk goes on in the order of those who overtake.
            let ranked = blocked > 0 && by_rank.is_some();
            let next = if ranked {
                rest.find(|job| done.is_some_and(|done| job.ticket > done))
            } else {
                line.next()
            };
            let Some(job) = next else { break };
            if !ranked {
                done = Some(job.ticket);
            }
            let had = before.get(&job.ticket).copied();
            let (units, duration) = (u64::from(job.units), job.duration);
            if let Some(at) = had.filter(|_| standing) {
                profile.give(at, at.saturating_add(duration), units);
            }
            let slot = profile.earliest(units, duration);
            // What is due at this very instant is free by plan, yet may not be back.
            if slot == Some(now) && job.units <= left {
                left -= job.units;
                profile.take(now, now.saturating_add(duration), units);
                starts.push(Start { ticket: job.ticket, backfill: blocked > 0 });
                continue;
            }
            let reserves = (standing && had.is_some()) || depth.is_none_or(|depth| blocked < depth);
            blocked += 1;
            if let Some(at) = slot.filter(|_| reserves) {
                profile.take(at, at.saturating_add(duration), units);
                self.moved_later += u64::from(had.is_some_and(|had| at > had));
                self.by_job.insert(job.ticket, at);
            }
        }
    }
}
