//! What lies inside a node: links between devices, and memory domains.

use serde::{Deserialize, Serialize};

/// Bandwidth between pairs of devices of one node, in GB/s.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Links {
    pairs: std::collections::BTreeMap<(u16, u16), u32>,
}

impl Links {
    /// What a pair counts when nothing is known about it (PCIe 4).
    pub const UNKNOWN_GB_S: u32 = 32;

    /// Links from `(device, device, GB/s)` rows; the order inside a pair does not matter.
    pub fn new(rows: impl IntoIterator<Item = (u16, u16, u32)>) -> Self {
        Self { pairs: rows.into_iter().map(|(a, b, gb_s)| ((a.min(b), a.max(b)), gb_s)).collect() }
    }

    /// Bandwidth between two devices.
    pub fn between(&self, a: u16, b: u16) -> u32 {
        self.pairs.get(&(a.min(b), a.max(b))).copied().unwrap_or(Self::UNKNOWN_GB_S)
    }

    /// What is known, as `(device, device, GB/s)` rows in order.
    pub fn rows(&self) -> impl Iterator<Item = (u16, u16, u32)> + '_ {
        self.pairs.iter().map(|(&(a, b), &gb_s)| (a, b, gb_s))
    }

    /// Whether nothing is known at all.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

/// CPUs and GPUs that share one memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryDomain {
    /// CPUs of the domain.
    #[serde(default)]
    pub cpus: u32,
    /// GPUs of the domain.
    #[serde(default)]
    pub gpus: u32,
}
