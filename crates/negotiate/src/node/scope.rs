//! Shares of a node for peers by how near they are, and how the shares follow the queue.

use landfall_model::{NodeId, Scope, Time};

use crate::profile::Profile;
use crate::timers::TimerId;
use crate::{Out, Peer, after};

/// Shares of Local, Cell, Org, Federation, Commons.
pub(super) const SHARES: [f64; 5] = [0.30, 0.25, 0.20, 0.15, 0.10];
/// Shares follow the queue this often.
pub(super) const ADAPT_EVERY_MS: u64 = 60_000;
/// Fewer queued jobs say nothing about demand.
const ADAPT_QUEUED_MIN: u64 = 5;
const ADAPT_STEP: f64 = 0.05;
const ALL: [Scope; 5] = [Scope::Local, Scope::Cell, Scope::Org, Scope::Federation, Scope::Commons];

/// How many jobs of a size a share of the CPU has room for.
fn slots(cpu_total: u64, share: f64, need: &Profile) -> u64 {
    let need = need.cpu_milli.unwrap_or(100).max(1);
    // A billionth of slack: 8000 · 0.30 / 100 are 24 slots though the product falls short of 2400.
    ((cpu_total as f64 * share / need as f64 + 1e-9).floor() as u64).max(1)
}

/// The shares after one look at the queue.
fn adapted(shares: [f64; 5], queued: [u64; 5]) -> [f64; 5] {
    let total: u64 = queued.iter().fold(0, |sum, jobs| sum.saturating_add(*jobs));
    let busy = queued.iter().filter(|jobs| **jobs > 0).count();
    if total < ADAPT_QUEUED_MIN || busy == 0 {
        return shares;
    }
    let mean = 1.0 / busy as f64;
    let mut next = shares;
    for (share, jobs) in next.iter_mut().zip(queued).filter(|(_, jobs)| *jobs > 0) {
        *share += ADAPT_STEP * (jobs as f64 / total as f64 - mean);
        *share = share.clamp(0.01, 0.80);
    }
    let (old_sum, new_sum): (f64, f64) = (shares.iter().sum(), next.iter().sum());
    next.map(|share| share * old_sum / new_sum)
}

impl Peer {
    /// Whether a peer's scope has as many jobs queued here as its share has room for.
    pub(super) fn is_scope_full(&self, arbiter: &NodeId, need: &Profile) -> bool {
        let Some(probe) = self.host.ledger.probe().filter(|_| self.settings.scope_budget) else {
            return false;
        };
        let scope = self.scope_of(arbiter);
        probe.queued_for(scope) >= slots(probe.cpu_total, self.host.share(scope), need)
    }

    pub(crate) fn adapt_scopes(&mut self, now: Time, out: &mut Out) {
        if let Some(probe) = self.host.ledger.probe() {
            let queued = ALL.map(|scope| probe.queued_for(scope));
            self.host.shares = Some(adapted(self.host.shares.unwrap_or(SHARES), queued));
        }
        self.set_timer(TimerId::ScopeAdapt, after(now, ADAPT_EVERY_MS), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n23_slots() {
        let need = |cpu| Profile { cpu_milli: cpu, ..Profile::default() };
        assert_eq!(slots(8000, 0.25, &need(Some(100))), 20);
        assert_eq!(slots(8000, 0.25, &need(None)), 20);
        assert_eq!(slots(8000, 0.30, &need(Some(100))), 24);
        assert_eq!(slots(1000, 0.10, &need(Some(8000))), 1, "at least one");
    }

    #[test]
    fn n24_shares_follow_the_queue() {
        let next = adapted(SHARES, [8, 2, 0, 0, 0]);
        for (share, want) in next.iter().zip([0.315, 0.235, 0.20, 0.15, 0.10]) {
            assert!((share - want).abs() < 1e-9, "{next:?}");
        }
        assert_eq!(adapted(SHARES, [4, 0, 0, 0, 0]), SHARES, "too few say nothing");
    }

    #[test]
    fn shares_stay_in_range_and_keep_their_sum() {
        let mut shares = SHARES;
        for _ in 0..1000 {
            shares = adapted(shares, [50, 1, 1, 0, 0]);
        }
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(shares.iter().all(|share| *share > 0.0 && *share <= 0.85), "{shares:?}");
    }
}
