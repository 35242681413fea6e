//! Blocks of leased capacity, and the providers that lease them.

use serde::{Deserialize, Serialize};

use crate::{BlockId, Mib, MilliCpu, Millis, Money, Name, Time};

/// How urgently capacity is meant to serve: bought ahead, or bought when cheap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Tier {
    /// Interactive, bought ahead.
    #[default]
    Fast,
    /// Waits, bought when cheap.
    Flex,
}

/// Where a block stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockStatus {
    /// Ordered, not yet usable.
    Pending,
    #[default]
    Active,
    /// Offered for sale, no longer usable.
    Selling,
    /// Gone.
    Sold,
}

/// Leased capacity that nodes belong to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    pub id: BlockId,
    /// Who leases it out.
    pub provider: Name,
    /// What it is sold as, such as `8xH100`.
    pub instance_type: Option<Name>,
    /// Which jobs it serves.
    pub tier: Tier,
    /// Whether it is usable.
    pub status: BlockStatus,
    pub start_at: Option<Time>,
    /// When it ends; `None` means never.
    pub end_at: Option<Time>,
    /// A nearer end that the provider announced.
    pub drain_deadline: Option<Time>,
    /// Price of the whole block per hour.
    pub cost_per_hour: Money,
    /// Whether the provider may take it back early.
    pub preemptible: bool,
}

impl Block {
    /// The instant after which nothing on the block runs, if there is one.
    pub fn ends_at(&self) -> Option<Time> {
        [self.end_at, self.drain_deadline].into_iter().flatten().min()
    }

    /// Whether its nodes may be used at `now`.
    pub fn usable_at(&self, now: Time) -> bool {
        self.status == BlockStatus::Active && self.start_at.is_none_or(|start| start <= now)
    }
}

/// How a provider sells capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderKind {
    /// Whole nodes only.
    Bulk,
    /// Exactly the number of GPUs asked for.
    Exact,
}

/// The largest node a provider can deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// GPUs of one node, at most.
    pub gpus: u32,
    /// Memory of each GPU.
    pub vram_mib: Mib,
    /// CPU of one node at full size.
    pub cpu_milli: MilliCpu,
    /// RAM of one node at full size.
    pub ram_mib: Mib,
}

/// Somebody who leases capacity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    pub name: Name,
    pub class: ProviderKind,
    pub shape: Shape,
    /// Longest lease it grants.
    #[serde(default = "thirty_days")]
    pub lease_max_ms: Millis,
    /// Whether it may be used.
    #[serde(default = "yes")]
    pub enabled: bool,
}

fn thirty_days() -> Millis {
    Millis::secs(30 * 86_400)
}

fn yes() -> bool {
    true
}

impl Provider {
    /// The providers known when a scenario names none.
    pub fn defaults() -> Vec<Provider> {
        let shape =
            Shape { gpus: 8, vram_mib: Mib::gib(80), cpu_milli: MilliCpu::cores(64), ram_mib: Mib::gib(512) };
        [("prime", ProviderKind::Exact), ("sfcompute", ProviderKind::Bulk)]
            .into_iter()
            .filter_map(|(name, class)| {
                let name = Name::new(name).ok()?;
                Some(Provider { name, class, shape, lease_max_ms: thirty_days(), enabled: true })
            })
            .collect()
    }
}
