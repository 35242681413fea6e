//! What the autoscaler says to a provider and hears from it, as plain data.
//!
//! Five questions: what do you sell (`describe`), at which price (`quote`), lease me this (`provision`), how is it
//! (`status`), take it back (`terminate`). Each carries a request id. Asking again with the same id changes nothing and
//! gives the same answer, so a lost answer is simply asked for again.

use std::fmt;

use landfall_model::{
    BlockId, Mib, MilliCpu, Millis, Money, Name, Provider, ProviderKind, Shape, Tier, Time,
};
use serde::{Deserialize, Serialize};

use crate::order_book::OrderBook;
use crate::settings::{CPU_PER_GPU, FALLBACK_CPU, FALLBACK_RAM, LEASE, RAM_PER_GPU, VRAM_PER_GPU};

/// What identifies a request, also after a restart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId {
    /// Who asks; keeps the numbers of two clusters apart that use one account.
    pub scope: Name,
    /// Counted up by whoever asks.
    pub number: u64,
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.scope, self.number)
    }
}

/// What a provider sells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Name, class, largest node, longest lease, whether it may be used.
    pub provider: Provider,
    /// Time from the order to the first use.
    pub startup_ms: Millis,
    /// Whether it may take capacity back early.
    pub preemptible: bool,
}

impl Description {
    /// The providers known when nobody names any.
    pub fn defaults() -> Vec<Self> {
        let describe = |provider: Provider| match provider.class {
            ProviderKind::Bulk => Self { provider, startup_ms: Millis::secs(120), preemptible: false },
            ProviderKind::Exact => Self { provider, startup_ms: Millis::secs(60), preemptible: true },
        };
        Provider::defaults().into_iter().map(describe).collect()
    }

    pub fn name(&self) -> &Name {
        &self.provider.name
    }

    /// GPUs of its largest node.
    pub fn max_gpus(&self) -> u32 {
        self.provider.shape.gpus
    }

    /// The lease to ask it for.
    pub fn lease(&self) -> Millis {
        LEASE.min(self.provider.lease_max_ms)
    }
}

/// What each GPU of an order comes with, at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerGpu {
    /// Memory of the GPU.
    pub vram_mib: Mib,
    pub cpu_milli: MilliCpu,
    pub ram_mib: Mib,
}

impl Default for PerGpu {
    fn default() -> Self {
        Self { vram_mib: VRAM_PER_GPU, cpu_milli: CPU_PER_GPU, ram_mib: RAM_PER_GPU }
    }
}

impl PerGpu {
    /// The same, raised to what an assumed price is for.
    #[must_use]
    pub fn for_assumed_price(self) -> Self {
        let (cpu_milli, ram_mib) = (self.cpu_milli.max(FALLBACK_CPU), self.ram_mib.max(FALLBACK_RAM));
        Self { cpu_milli, ram_mib, ..self }
    }

    /// Whether a node of that shape has this for each of its GPUs.
    pub fn fits(&self, shape: &Shape) -> bool {
        let gpus = u64::from(shape.gpus);
        self.vram_mib <= shape.vram_mib
            && self.cpu_milli * gpus <= shape.cpu_milli
            && self.ram_mib * gpus <= shape.ram_mib
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuoteRequest {
    pub id: RequestId,
    pub provider: Name,
    /// What each GPU comes with.
    pub per_gpu: PerGpu,
    pub lease_ms: Millis,
}

/// What a provider asks for how many GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quote {
    /// When it was given.
    pub at: Time,
    /// What is on offer; a provider with one price has one ask.
    pub book: OrderBook,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvisionRequest {
    pub id: RequestId,
    pub provider: Name,
    /// Which jobs it will serve.
    pub tier: Tier,
    /// GPUs of each block.
    pub blocks: Vec<u32>,
    /// Most that a GPU-hour may cost.
    pub max_price: Money,
    /// What each GPU comes with.
    pub per_gpu: PerGpu,
    pub lease_ms: Millis,
}

/// A block that a provider agreed to deliver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    pub block: BlockId,
    pub gpus: u32,
    /// Price of the whole block per hour.
    pub cost_per_hour: Money,
    /// When the lease ends.
    pub end_at: Time,
    /// Whether it may be taken back early.
    pub preemptible: bool,
}

/// Asks how blocks are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusRequest {
    pub id: RequestId,
    pub blocks: Vec<BlockId>,
}

/// How a block is, as its provider sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum DeliveryStatus {
    /// Being made.
    Starting,
    Ready,
    /// Usable until it is taken back.
    Draining {
        deadline: Time,
    },
    /// Gone.
    Ended {
        why: Ending,
    },
    /// The provider does not know it.
    Unknown,
}

/// Why a block is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It never started.
    FailedToStart,
    LeaseOver,
    /// The provider took it back.
    Preempted,
    /// It was given back.
    Terminated,
}

/// What is given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Termination {
    Block(BlockId),
    /// Whatever an earlier order led to, and whatever it would still lead to.
    Order(RequestId),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminateRequest {
    pub id: RequestId,
    /// What is given back.
    pub what: Termination,
}

/// Why a provider did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderError {
    /// No answer; whether the request arrived is not known.
    #[error("the provider cannot be reached")]
    Unreachable,
    /// The answer was no, and nothing was done.
    #[error("the provider refuses: {0}")]
    Refused(String),
}

/// Somebody who leases capacity, as a plug-in.
pub trait ProviderApi {
    fn describe(&self) -> Description;
    /// What it asks for how many GPUs.
    fn quote(&mut self, request: &QuoteRequest, now: Time) -> Result<Quote, ProviderError>;
    /// Leases blocks: all that were asked for or, where less is on offer, as many of them as fit.
    fn provision(&mut self, request: &ProvisionRequest, now: Time) -> Result<Vec<Delivery>, ProviderError>;
    /// How the blocks are, in the order in which they were named.
    fn status(&mut self, request: &StatusRequest, now: Time) -> Result<Vec<DeliveryStatus>, ProviderError>;
    /// Takes capacity back; what is gone already is no error.
    fn terminate(&mut self, request: &TerminateRequest, now: Time) -> Result<(), ProviderError>;
}
