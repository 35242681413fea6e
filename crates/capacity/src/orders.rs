//! What the autoscaler wants done, and why. Everything here is shown on the board as it is.

use landfall_model::{BlockId, Millis, Money, Name, Tier, Time};
use serde::{Deserialize, Serialize};

use crate::provider::{PerGpu, ProvisionRequest, RequestId};

/// One thing to do, or the reason why there is nothing to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Lease capacity; until it is answered it counts as ordered.
    Buy(Purchase),
    /// Give a block back to its provider: mark it `selling` at once and `sold` when that one confirms.
    Release { block: BlockId, provider: Name, why: ReleaseReason },
    /// Nothing to do for this tier.
    None { tier: Tier, reason: Quiet },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Purchase {
    /// What identifies it; repeated with the same id until it is answered.
    pub request: RequestId,
    /// Which jobs it will serve.
    pub tier: Tier,
    pub provider: Name,
    pub gpus: u64,
    /// GPUs of each block.
    pub blocks: Vec<u32>,
    /// Most that a GPU-hour may cost.
    pub max_price: Money,
    /// What each GPU comes with.
    pub per_gpu: PerGpu,
    pub lease_ms: Millis,
    /// Why so much, and why there.
    pub why: BuyReason,
}

impl Purchase {
    /// The request that orders it.
    pub fn to_request(&self) -> ProvisionRequest {
        ProvisionRequest {
            id: self.request.clone(),
            provider: self.provider.clone(),
            tier: self.tier,
            blocks: self.blocks.clone(),
            max_price: self.max_price,
            per_gpu: self.per_gpu,
            lease_ms: self.lease_ms,
        }
    }
}

/// The numbers a decision about one tier rests on, in GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Balance {
    pub queue: u64,
    pub used: u64,
    pub total: u64,
    pub ordered: u64,
    pub target: u64,
}

/// Why capacity is bought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BuyReason {
    pub balance: Balance,
    /// GPUs missing, before rounding up.
    pub need: u64,
    /// Whether a small need is bought as a whole unit because demand is sustained.
    pub consolidated: bool,
    /// Whether less than this was on offer.
    pub partial: bool,
    /// Whether the price is assumed because the provider could not be reached.
    pub assumed_price: bool,
    /// The providers that came before it or could not be used.
    pub passed_over: Vec<PassedOver>,
}

/// A provider that was not chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedOver {
    pub provider: Name,
    pub why: Unusable,
}

/// Why a provider is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unusable {
    /// It is switched off.
    Disabled,
    /// It has no node with so many GPUs; its largest has `most`.
    TooLarge { gpus: u64, most: u32 },
    /// It gave no quote, or the last one is too old.
    NoQuote,
    /// It cannot be reached, and its price is never assumed.
    Unreachable,
    /// It has nothing to sell.
    SoldOut,
    /// Its cheapest GPU-hour costs more than may be paid.
    TooDear { price: Money, most: Money },
    /// It takes too long to deliver.
    SlowStart { startup_ms: Millis, most_ms: Millis },
    /// A purchase there failed since the last success.
    Failed,
}

/// Why a block is released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseReason {
    pub balance: Balance,
    /// GPUs that were too many before this block went.
    pub surplus: u64,
    /// GPUs of the block.
    pub gpus: u32,
    /// How long it has been idle.
    pub idle_ms: Millis,
    /// Whether it is larger than the surplus.
    pub overshoot: bool,
}

/// Why there is nothing to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quiet {
    /// Nothing waits.
    NoDemand,
    /// There is enough, and why nothing is released.
    Enough { balance: Balance, stays: Stays },
    /// Purchases failed everywhere; the next one waits.
    BackOff { need: u64, until: Time },
    /// No provider can be used, each with the reason.
    NoProvider { need: u64, passed_over: Vec<PassedOver> },
}

/// Why nothing is released although there is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stays {
    /// FLEX blocks run to their end.
    RunsToItsEnd,
    /// Too large a share is used.
    InUse,
    /// No more than the warm GPUs are there.
    Warm,
    /// The last release was too recent.
    CoolDown { until: Time },
    /// Nothing is left over.
    NoSurplus,
    /// No block is without work for long enough.
    NoIdleBlock,
    /// Every idle block is larger than the surplus.
    LargerThanSurplus { surplus: u64 },
}
