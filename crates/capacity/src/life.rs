//! The life of a block: `pending` → `active` → `selling` → `sold`, and what its capacity is resold for.
//!
//! A block becomes active when both are true: its provider says that it is ready, and a node of it has sent a heartbeat.
//! It never goes back. What comes too late is ignored, so events may arrive twice and in any order.

use landfall_model::{BlockStatus, Millis, Money, Tier, Time};
use serde::{Deserialize, Serialize};

/// What happens to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockEvent {
    /// Its provider says that it is ready.
    Ready,
    /// One of its nodes sent a heartbeat.
    Heartbeat,
    /// It is to be given back.
    Release,
    /// It is gone: given back, over, taken back, or never started.
    Gone,
}

/// Where a block stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockLife {
    pub status: BlockStatus,
    /// When it became active; it is idle from then on until its first placement.
    pub active_since: Option<Time>,
    ready: bool,
    heard: bool,
}

impl Default for BlockLife {
    fn default() -> Self {
        Self { status: BlockStatus::Pending, active_since: None, ready: false, heard: false }
    }
}

impl BlockLife {
    /// Takes note of an event; says whether the status changed.
    pub fn apply(&mut self, event: BlockEvent, now: Time) -> bool {
        let before = self.status;
        match (event, self.status) {
            (BlockEvent::Ready, BlockStatus::Pending) => self.ready = true,
            (BlockEvent::Heartbeat, BlockStatus::Pending) => self.heard = true,
            (BlockEvent::Release, BlockStatus::Pending | BlockStatus::Active) => {
                self.status = BlockStatus::Selling;
            }
            (BlockEvent::Gone, _) => self.status = BlockStatus::Sold,
            (BlockEvent::Ready | BlockEvent::Heartbeat | BlockEvent::Release, _) => {}
        }
        if self.status == BlockStatus::Pending && self.ready && self.heard {
            self.status = BlockStatus::Active;
            self.active_since = Some(now);
        }
        self.status != before
    }
}

/// What a job's part of a block is resold for: its share of the block's cost, for its time, times 2.0 (FAST) or 1.1
/// (FLEX). The share is what the job holds, in milli-GPU, of the GPUs of the block. Rounded half up to a micro-unit.
pub fn resale_price(
    block_cost_per_hour: Money,
    gpu_milli_held: u64,
    block_gpus: u32,
    time: Millis,
    tier: Tier,
) -> Money {
    const MS_PER_HOUR: u128 = 3_600_000;
    let tenths: u128 = match tier {
        Tier::Fast => 20,
        Tier::Flex => 11,
    };
    let whole = u128::from(block_gpus) * 1000 * MS_PER_HOUR * 10;
    if whole == 0 {
        return Money::ZERO;
    }
    let part = [u128::from(gpu_milli_held), u128::from(time.get()), tenths]
        .into_iter()
        .fold(u128::from(block_cost_per_hour.get()), u128::saturating_mul);
    Money::new(u64::try_from(part.saturating_add(whole / 2) / whole).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(events: &[BlockEvent]) -> BlockStatus {
        let mut life = BlockLife::default();
        for event in events {
            life.apply(*event, Time::ZERO);
        }
        life.status
    }

    #[test]
    fn active_needs_the_provider_and_a_heartbeat_in_either_order() {
        use BlockEvent::*;
        assert_eq!(after(&[Ready, Ready]), BlockStatus::Pending);
        assert_eq!(after(&[Heartbeat]), BlockStatus::Pending);
        assert_eq!(after(&[Ready, Heartbeat]), BlockStatus::Active);
        assert_eq!(after(&[Heartbeat, Ready]), BlockStatus::Active);
        let mut life = BlockLife::default();
        assert!(!life.apply(Ready, Time::from_secs(1)));
        assert!(life.apply(Heartbeat, Time::from_secs(2)));
        assert!(!life.apply(Heartbeat, Time::from_secs(3)));
        assert_eq!(life.active_since, Some(Time::from_secs(2)));
    }

    #[test]
    fn a_block_never_goes_back() {
        use BlockEvent::*;
        assert_eq!(after(&[Ready, Heartbeat, Release]), BlockStatus::Selling);
        assert_eq!(after(&[Ready, Heartbeat, Release, Ready, Heartbeat]), BlockStatus::Selling);
        assert_eq!(after(&[Ready, Heartbeat, Release, Gone]), BlockStatus::Sold);
        assert_eq!(after(&[Ready, Gone, Heartbeat, Release]), BlockStatus::Sold);
        assert_eq!(after(&[Release, Ready, Heartbeat]), BlockStatus::Selling);
    }

    #[test]
    fn a_resale_is_the_share_of_the_block_for_the_time_with_the_tiers_factor() {
        let price = |milli, time, tier| resale_price(Money::new(16_000_000), milli, 8, time, tier).get();
        let hour = Millis::secs(3600);
        assert_eq!(price(2000, hour, Tier::Fast), 8_000_000);
        assert_eq!(price(2000, hour, Tier::Flex), 4_400_000);
        assert_eq!(price(500, Millis::secs(1800), Tier::Fast), 1_000_000);
        assert_eq!(price(8000, Millis::secs(7200), Tier::Flex), 35_200_000);
        assert_eq!(resale_price(Money::new(1), 1000, 0, hour, Tier::Fast), Money::ZERO);
        // Half a micro-unit is rounded up.
        assert_eq!(resale_price(Money::new(1), 1000, 4, hour, Tier::Fast).get(), 1);
    }
}
