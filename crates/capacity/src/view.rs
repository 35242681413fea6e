//! What the autoscaler looks at: plain data that the engine collects from its ledger and queues.

use landfall_model::{Block, BlockStatus, JobSpec, Tier, Time};

use crate::orders::Balance;
use crate::provider::Description;
use crate::settings::AutoscaleSettings;

/// A block with what runs on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockView<'a> {
    pub block: &'a Block,
    /// GPUs of all its nodes.
    pub gpus: u32,
    /// Placements and live holds on it.
    pub occupants: u32,
    /// Since when it has none: when the last one ended, or when the block became active.
    pub idle_since: Option<Time>,
}

/// Demand and use of one tier, in GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TierLoad {
    /// GPUs with a holder or shared use.
    pub used_gpus: u64,
    /// GPUs that ready jobs wait for ([`queue_gpus`]).
    pub queue_gpus: u64,
    /// GPUs of nodes that belong to no block; they count as capacity and are never released.
    pub own_gpus: u64,
}

/// Everything one run looks at, except prices.
#[derive(Debug, Clone, Copy)]
pub struct FleetView<'a> {
    pub settings: &'a AutoscaleSettings,
    pub providers: &'a [Description],
    /// What is leased, in any state and order.
    pub blocks: &'a [BlockView<'a>],
    /// Demand for interactive work.
    pub fast: TierLoad,
    /// Demand for work that waits.
    pub flex: TierLoad,
}

impl FleetView<'_> {
    /// Demand of a tier.
    pub fn load(&self, tier: Tier) -> TierLoad {
        match tier {
            Tier::Fast => self.fast,
            Tier::Flex => self.flex,
        }
    }

    /// The numbers of a tier; `in_flight` GPUs are ordered but not yet among the blocks. The target is left at 0.
    pub(super) fn balance(&self, tier: Tier, in_flight: u64, now: Time) -> Balance {
        let load = self.load(tier);
        let (mut total, mut ordered) = (load.own_gpus, in_flight);
        for view in self.blocks.iter().filter(|view| view.block.tier == tier) {
            let gpus = u64::from(view.gpus);
            match view.block.status {
                _ if has_ended(view.block, now) => {}
                BlockStatus::Active if view.block.usable_at(now) => total = total.saturating_add(gpus),
                // An active block that has not begun is on its way like a pending one.
                BlockStatus::Active | BlockStatus::Pending => ordered = ordered.saturating_add(gpus),
                BlockStatus::Selling | BlockStatus::Sold => {}
            }
        }
        Balance { queue: load.queue_gpus, used: load.used_gpus, total, ordered, target: 0 }
    }
}

/// Whether nothing runs on the block any more, whatever its status still says.
pub(super) fn has_ended(block: &Block, now: Time) -> bool {
    block.ends_at().is_some_and(|end| end <= now)
}

/// GPUs that jobs of a tier wait for, rounded up once over all of them.
///
/// The flag says whether a job is demand: ready (dependencies met, quota allows), pending or queued, and not
/// `unsatisfiable`. A gang counts once per node that it needs.
pub fn queue_gpus<'a>(tier: Tier, jobs: impl IntoIterator<Item = (&'a JobSpec, bool)>) -> u64 {
    let milli = jobs
        .into_iter()
        .filter(|(spec, is_demand)| *is_demand && spec.tier == tier)
        .map(|(spec, _)| u128::from(spec.gpu_milli_total()).saturating_mul(u128::from(spec.nodes.min)))
        .fold(0, u128::saturating_add);
    u64::try_from(milli.div_ceil(1000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use landfall_model::{MilliGpu, NodeCount};

    use super::*;

    fn job(gpu_count: u32, gpu_milli: u64) -> JobSpec {
        JobSpec { gpu_count, gpu_milli: MilliGpu::new(gpu_milli), ..JobSpec::empty() }
    }

    #[test]
    fn shares_are_added_before_they_are_rounded_up() {
        let jobs = [job(1, 500), job(1, 300), job(1, 300), job(2, 1000), job(0, 1000)];
        assert_eq!(queue_gpus(Tier::Fast, jobs.iter().map(|spec| (spec, true))), 4);
        assert_eq!(queue_gpus(Tier::Fast, jobs.iter().take(1).map(|spec| (spec, true))), 1);
        assert_eq!(queue_gpus(Tier::Flex, jobs.iter().map(|spec| (spec, true))), 0);
        assert_eq!(queue_gpus(Tier::Fast, []), 0);
    }

    #[test]
    fn what_is_not_demand_is_not_counted_and_a_gang_counts_every_node() {
        let gang = JobSpec { nodes: NodeCount { min: 2, max: 4 }, ..job(8, 1000) };
        assert_eq!(queue_gpus(Tier::Fast, [(&gang, true), (&job(10, 1000), false)]), 16);
    }
}
