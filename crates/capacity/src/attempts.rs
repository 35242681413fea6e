//! What to do after purchases failed: ask the next provider, and when all have failed, wait longer each time.

use std::collections::BTreeSet;

use landfall_model::{Millis, Name, Time};
use serde::{Deserialize, Serialize};

use crate::settings::{BACK_OFF_FIRST, BACK_OFF_MAX};

/// Failed purchases of one tier since the last success.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Attempts {
    /// Who failed in this round.
    failed: BTreeSet<Name>,
    last_failure: Option<Time>,
    /// Rounds in which everybody failed.
    rounds: u32,
    wait_until: Option<Time>,
}

impl Attempts {
    pub(super) fn failed(&mut self, provider: &Name, now: Time) {
        self.failed.insert(provider.clone());
        self.last_failure = Some(now);
    }

    pub(super) fn has_failed(&self, provider: &Name) -> bool {
        self.failed.contains(provider)
    }

    /// Until when nobody is asked, if that is still to come.
    pub(super) fn waits_until(&self, now: Time) -> Option<Time> {
        self.wait_until.filter(|&until| now < until)
    }

    /// Everybody failed: after a wait that counts from the last failure, all may be asked again.
    pub(super) fn back_off(&mut self) {
        let doubled = BACK_OFF_FIRST.get().saturating_mul(1 << self.rounds.min(32));
        let wait = Millis::new(doubled.min(BACK_OFF_MAX.get()));
        self.wait_until = self.last_failure.map(|at| at + wait);
        self.rounds = self.rounds.saturating_add(1);
        self.failed.clear();
    }

    /// Nothing is missing: failures are forgotten, once the wait they led to is over.
    pub(super) fn demand_is_met(&mut self, now: Time) {
        if self.waits_until(now).is_none() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_fifteen_minutes() {
        let mut attempts = Attempts::default();
        let provider = Name::new("p").unwrap();
        let waits: Vec<u64> = (0..7)
            .map(|round| {
                let at = Time::from_secs(round * 10_000);
                attempts.failed(&provider, at);
                attempts.back_off();
                assert!(!attempts.has_failed(&provider));
                attempts.waits_until(at).unwrap().since(at).get() / 1000
            })
            .collect();
        assert_eq!(waits, [60, 120, 240, 480, 900, 900, 900]);
    }

    #[test]
    fn a_wait_outlives_the_demand_but_not_its_end() {
        let mut attempts = Attempts::default();
        attempts.failed(&Name::new("p").unwrap(), Time::ZERO);
        attempts.back_off();
        attempts.demand_is_met(Time::from_secs(59));
        assert_eq!(attempts.waits_until(Time::from_secs(59)), Some(Time::from_secs(60)));
        assert_eq!(attempts.waits_until(Time::from_secs(60)), None);
        attempts.demand_is_met(Time::from_secs(60));
        assert_eq!(attempts, Attempts::default());
    }
}
