//! What a job needs and what a node says it has.

use landfall_model::Name;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuNeed {
    /// How many, 1 to 16.
    pub count: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Lowest capability, such as `sm_80`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Name>,
}

/// What a job needs; each part optional, at least one given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Profile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_milli: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_mib: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_mbit_s: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuNeed>,
    /// How long it may take, an estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

impl Profile {
    /// What a job without a profile is taken to need.
    pub fn minimal() -> Self {
        Self { cpu_milli: Some(100), memory_mib: Some(128), storage_mib: Some(10), ..Self::default() }
    }

    /// The first field that is out of range.
    pub fn validate(&self) -> Result<(), &'static str> {
        let within =
            |value: Option<u64>, low: u64, high: u64| value.is_none_or(|value| (low..=high).contains(&value));
        let gpu = self.gpu.as_ref();
        if *self == Self::default() {
            Err("profile")
        } else if !within(self.cpu_milli, 1, 128_000) {
            Err("cpu_milli")
        } else if !within(self.memory_mib, 1, 1_000_000) {
            Err("memory_mib")
        } else if !within(self.storage_mib, 0, 10_000_000) {
            Err("storage_mib")
        } else if !gpu.is_none_or(|gpu| (1..=16).contains(&gpu.count)) {
            Err("gpu.count")
        } else if !gpu.is_none_or(|gpu| within(gpu.memory_mib, 0, AMOUNT_MAX)) {
            Err("gpu.memory_mib")
        } else if !within(self.duration_ms, 0, AMOUNT_MAX) {
            Err("duration_ms")
        } else {
            Ok(())
        }
    }
}

/// Larger amounts are no real machine.
pub(super) const AMOUNT_MAX: u64 = 1 << 46;

/// What a node says it has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Facts {
    /// Free CPU in milli-cores.
    pub cpu_free: u64,
    pub cpu_total: u64,
    /// Free memory in MiB.
    pub memory_free: u64,
    pub memory_total: u64,
    /// Free disk in MiB.
    pub storage_free: u64,
    /// Free network in Mbit/s.
    pub network_mbit_s: u32,
    /// Devices that nothing uses.
    pub gpus_free: u32,
    pub gpus_total: u32,
    /// Free devices that have the memory and the capability asked for.
    pub gpus_fitting: u32,
    pub running: u64,
    pub queued: u64,
    /// How many of the asked digests it has.
    pub local: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Name>,
    /// Age of these facts.
    pub probe_age_ms: u64,
}

impl Facts {
    /// Whether they can be true: nothing free beyond what is there, nothing beyond any machine.
    pub fn are_plausible(&self, asked_digests: usize) -> bool {
        self.cpu_free <= self.cpu_total
            && self.memory_free <= self.memory_total
            && self.gpus_free <= self.gpus_total
            && self.gpus_fitting <= self.gpus_free
            && self.local as usize <= asked_digests
            && self.gpus_total <= 4096
            && [self.cpu_total, self.memory_total, self.storage_free, self.running, self.queued]
                .iter()
                .all(|amount| *amount <= AMOUNT_MAX)
    }
}
