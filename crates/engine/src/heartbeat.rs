//! What a node says about itself while it is in service.

use std::collections::BTreeSet;

use landfall_model::{DeviceHealth, Metrics, Mib, Name, Node, WorkloadId};
use serde::{Deserialize, Serialize};

/// A heartbeat. What it leaves out stays as it was.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Heartbeat {
    /// RAM in use on the whole machine.
    pub ram_used: Option<Mib>,
    /// Memory in use by device index.
    pub vram_used: Vec<(u16, Mib)>,
    /// Jobs it reports as running.
    pub active: Option<u64>,
    /// Workloads that are warm.
    pub cache: Option<BTreeSet<WorkloadId>>,
    /// Speed and load of a pull worker.
    pub metrics: Option<Metrics>,
    pub health: Option<DeviceHealth>,
    /// Whether its owner and its agent take work.
    pub accepting: Option<bool>,
    /// Its configuration, if it was measured anew.
    pub fingerprint: Option<Name>,
}

impl Heartbeat {
    /// Whether a number in it is not finite.
    pub fn is_finite(&self) -> bool {
        let metrics = self.metrics.unwrap_or_default();
        let numbers = [metrics.cpu_usage_pct, metrics.disk_mb_s, metrics.network_mbit_s];
        numbers.into_iter().flatten().all(f64::is_finite)
    }

    /// Whether it says anything that a policy could read.
    pub fn is_bare(&self) -> bool {
        *self == Self::default()
    }

    /// Takes over what it says.
    pub(crate) fn write_to(&self, node: &mut Node, baseline: Option<&Name>) {
        if let Some(used) = self.ram_used {
            node.ram_reported = Some(used);
        }
        for &(index, used) in &self.vram_used {
            if let Some(gpu) = node.gpus.iter_mut().find(|gpu| gpu.index == index) {
                gpu.vram_reported = used;
            }
        }
        if let Some(active) = self.active {
            node.active_reported = active;
        }
        if let Some(cache) = &self.cache {
            node.cache.clone_from(cache);
        }
        if self.metrics.is_some() {
            node.metrics = self.metrics;
        }
        if let Some(health) = self.health {
            node.health = health;
        }
        if let Some(accepting) = self.accepting {
            node.accepting = accepting;
        }
        if let Some(fingerprint) = &self.fingerprint {
            let known = baseline.or(node.fingerprint.as_ref());
            node.drifted = known.is_some_and(|known| known != fingerprint);
            node.fingerprint = Some(fingerprint.clone());
        }
    }
}
