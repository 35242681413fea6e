//! The parameters of a peer, with the ranges in which they make sense.

use landfall_model::settings;
use landfall_policy::policy_file::load;
use serde::{Deserialize, Serialize};

use crate::message::{TaskOutcome, TaskResult};

/// Which terms an arbiter weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Trust, capacity, queue.
    #[default]
    Standard,
    /// Also distance, data and wishes.
    Locality,
    /// Also membership.
    Scope,
}

impl Preset {
    /// The policy that scores it.
    pub const fn policy(self) -> &'static str {
        match self {
            Self::Standard => "offer-standard",
            Self::Locality => "offer-locality",
            Self::Scope => "offer-scope",
        }
    }
}

/// Shortest lease: below it two runs could overlap though clocks differ by less than a tenth.
pub const LEASE_MS_MIN: u64 = 10_000;
pub const LEASE_MS_MAX: u64 = 24 * 3_600_000;

settings! {
    /// The parameters of a peer. Every field has the meaning, unit and default of the specification's table.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct Settings {
        /// Whether this peer runs work; an arbiter that only submits does not.
        pub runs_work: bool = true,
        /// A node waits this long after receipt before it offers.
        pub deliberation_ms: u64 = 500,
        /// The arbiter decides deliberation plus grace after sending the request.
        pub grace_ms: u64 = 500,
        /// Decide earlier once everybody who could has answered.
        pub early_close: bool = false,
        /// How long an arbiter waits for the ack of an award.
        pub ack_timeout_ms: u64 = 500,
        /// How often a node repeats its ack.
        pub ack_repeat_ms: u64 = 200,
        /// When a node stops repeating its ack.
        pub confirm_timeout_ms: u64 = 2000,
        /// Awards tried per round.
        pub awards_max: u32 = 3,
        /// Requests sent per job before it fails; 0 means until deadline or cancel.
        pub rounds_max: u32 = 3,
        /// Pause before the second round; doubled with every further one.
        pub backoff_ms: u64 = 1000,
        /// Life of a soft hold.
        pub hold_ttl_ms: u64 = 3000,
        /// Lease of a job that names none.
        pub lease_ms: u64 = 15_000,
        /// Lost leases a job survives.
        pub lease_losses_max: u32 = 3,
        /// Least trust in a node that runs work.
        pub trust_execute: f64 = 0.3,
        /// Least trust in a submitter.
        pub trust_submit: f64 = 0.1,
        /// Whether kept and broken promises move trust.
        pub trust_moves: bool = false,
        /// What a kept promise adds to trust then.
        pub trust_gain: f64 = 0.005,
        /// What a broken one takes.
        pub trust_loss: f64 = 0.05,
        /// How far trust moves from what was set.
        pub trust_reach: f64 = 0.2,
        /// A score must be above this.
        pub min_score: f64 = 0.0,
        /// Which terms count, for jobs that do not say.
        pub preset: Preset = Preset::Standard,
        /// The text of a policy file that judges offers instead of any preset.
        pub policy: Option<String> = None,
        pub jitter_weight: f64 = 0.0,
        /// What the jitter starts from.
        pub jitter_seed: u64 = 0,
        /// Price of an idle node in credits per 1000 fuel.
        pub base_price: u64 = 10,
        /// A longer queue raises the price by half.
        pub surge_above: u64 = 5,
        /// Oldest probe on which an offer may rest.
        pub capacity_stale_ms: u64 = 90_000,
        /// Longest pause between two announcements.
        pub announce_ms: u64 = 30_000,
        /// A peer is known this long after its last announcement.
        pub known_ms: u64 = 180_000,
        /// Whether scopes have a budget on this node.
        pub scope_budget: bool = false,
        /// Whether the shares of scopes follow the queue.
        pub scope_adapt: bool = false,
        /// Bound: open negotiations of this arbiter.
        pub open_negotiations_max: usize = 1000,
        /// Bound: offers per round.
        pub offers_per_round_max: usize = 1024,
        /// Bound: jobs running on this node.
        pub running_jobs_max: u64 = 10,
        /// Bound: jobs queued on this node.
        pub queued_jobs_max: u64 = 20,
        /// Bound: holds per submitter on this node.
        pub holds_per_submitter_max: usize = 4,
        /// Bound: requests of one peer in ten seconds.
        pub requests_per_peer_max: usize = 50,
    }
}

/// A parameter that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} must be {allowed}")]
pub struct SettingsError {
    pub field: &'static str,
    pub allowed: &'static str,
}

impl Settings {
    /// Refuses parameters out of range.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let share = |value: f64| (0.0..=1.0).contains(&value);
        let holds_enough =
            self.ack_timeout_ms.saturating_mul(u64::from(self.awards_max)).saturating_add(self.grace_ms)
                <= self.hold_ttl_ms;
        let rules = [
            ("deliberation_ms", self.deliberation_ms <= 10_000, "0 to 10000 ms"),
            ("grace_ms", (50..=10_000).contains(&self.grace_ms), "50 to 10000 ms"),
            ("ack_timeout_ms", (50..=10_000).contains(&self.ack_timeout_ms), "50 to 10000 ms"),
            ("ack_repeat_ms", (10..=10_000).contains(&self.ack_repeat_ms), "10 to 10000 ms"),
            (
                "confirm_timeout_ms",
                (1..=6_000).contains(&self.confirm_timeout_ms),
                "1 to 6000 ms, less than two thirds of the shortest lease",
            ),
            ("awards_max", (1..=16).contains(&self.awards_max), "1 to 16"),
            ("rounds_max", self.rounds_max <= 1000, "0 to 1000"),
            ("backoff_ms", (1..=BACKOFF_MS_MAX).contains(&self.backoff_ms), "1 to 30000 ms"),
            ("hold_ttl_ms", holds_enough, "at least grace + awards_max * ack_timeout"),
            ("hold_ttl_ms", self.hold_ttl_ms <= 600_000, "at most 600000 ms"),
            ("lease_ms", (LEASE_MS_MIN..=LEASE_MS_MAX).contains(&self.lease_ms), "10 s to 24 h"),
            ("lease_losses_max", self.lease_losses_max <= 100, "0 to 100"),
            ("trust_execute", share(self.trust_execute), "0 to 1"),
            ("trust_submit", share(self.trust_submit), "0 to 1"),
            ("trust_gain", share(self.trust_gain), "0 to 1"),
            ("trust_loss", share(self.trust_loss), "0 to 1"),
            ("trust_reach", share(self.trust_reach), "0 to 1"),
            ("min_score", share(self.min_score), "0 to 1"),
            ("jitter_weight", (0.0..=0.10).contains(&self.jitter_weight), "0 to 0.10"),
            ("jitter_seed", i64::try_from(self.jitter_seed).is_ok(), "below 2^63"),
            ("base_price", self.base_price <= PRICE_MAX, "at most 2^40 credits"),
            ("surge_above", self.surge_above <= PRICE_MAX, "at most 2^40 jobs"),
            ("capacity_stale_ms", (1..=600_000).contains(&self.capacity_stale_ms), "1 to 600000 ms"),
            ("announce_ms", (1000..=self.known_ms).contains(&self.announce_ms), "1000 ms to known_ms"),
            ("known_ms", self.known_ms <= 3_600_000, "at most 3600000 ms"),
            ("offers_per_round_max", self.offers_per_round_max >= 1, "at least 1"),
            (
                "policy",
                self.policy.as_deref().is_none_or(|text| load(text).is_ok()),
                "a policy file that compiles",
            ),
        ];
        match rules.iter().find(|(_, holds, _)| !holds) {
            Some(&(field, _, allowed)) => Err(SettingsError { field, allowed }),
            None => Ok(()),
        }
    }

    /// Price and delay of an offer at a queue length.
    pub const fn price(&self, queued: u64) -> (u64, u64) {
        let cost = if queued > self.surge_above { self.base_price * 3 / 2 } else { self.base_price };
        (cost, queued.saturating_mul(10_000))
    }

    /// The pause after round `round`, counted from 1.
    pub fn backoff_after(&self, round: u32) -> u64 {
        let doublings = round.saturating_sub(1).min(16);
        self.backoff_ms.saturating_mul(1 << doublings).min(BACKOFF_MS_MAX)
    }
}

/// Dearer than anything; products of prices stay exact.
pub(super) const PRICE_MAX: u64 = 1 << 40;
const BACKOFF_MS_MAX: u64 = 30_000;

/// What an accepted result costs: `fuel` at `price` credits per 1000, at least 1, nothing for no fuel.
pub fn charge(fuel: u64, price: u64) -> u64 {
    if fuel == 0 {
        return 0;
    }
    let credits = u128::from(fuel) * u128::from(price) / 1000;
    u64::try_from(credits).unwrap_or(u64::MAX).max(1)
}

/// What an accepted result costs at the price of its award: only what was done is paid for.
pub(crate) fn due(result: &TaskResult, price: u64) -> u64 {
    match result.outcome {
        TaskOutcome::Success | TaskOutcome::OutOfFuel => charge(result.fuel_used, price),
        TaskOutcome::Failed | TaskOutcome::Timeout => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n9_price_and_delay() {
        let settings = Settings::default();
        assert_eq!(settings.price(5), (10, 50_000));
        assert_eq!(settings.price(6), (15, 60_000));
    }

    #[test]
    fn n11_charge() {
        assert_eq!([(10_000, 10), (500, 1), (0, 15)].map(|(fuel, price)| charge(fuel, price)), [100, 1, 0]);
        assert_eq!(charge(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn pauses_double_up_to_half_a_minute() {
        let settings = Settings::default();
        assert_eq!(
            [1, 2, 3, 6, 7, 1000].map(|r| settings.backoff_after(r)),
            [1000, 2000, 4000, 30_000, 30_000, 30_000]
        );
    }

    #[test]
    fn ranges() {
        let wrong = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.validate().err().map(|error| error.field)
        };
        assert_eq!(wrong(|_| {}), None);
        assert_eq!(wrong(|s| s.hold_ttl_ms = 1999), Some("hold_ttl_ms"));
        assert_eq!(wrong(|s| s.hold_ttl_ms = 2000), None);
        assert_eq!(wrong(|s| s.lease_ms = 9999), Some("lease_ms"));
        assert_eq!(wrong(|s| s.trust_execute = f64::NAN), Some("trust_execute"));
        assert_eq!(wrong(|s| s.jitter_weight = 0.11), Some("jitter_weight"));
        assert_eq!(wrong(|s| s.awards_max = 17), Some("awards_max"));
        assert_eq!(wrong(|s| s.grace_ms = 49), Some("grace_ms"));
    }
}
