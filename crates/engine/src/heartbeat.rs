//! What a node says about itself while it is in service.

use std::collections::BTreeSet;

use landfall_model::{DeviceHealth, Gpu, Metrics, Mib, Millis, Name, Node, WorkloadId};
use landfall_policy::Policy;
use landfall_policy::rules::load::{memory_moved, metrics_moved};
use serde::{Deserialize, Serialize};

/// A heartbeat. What it leaves out stays as it was.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Heartbeat {
    /// RAM in use on the whole machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ram_used: Option<Mib>,
    /// RAM in use was told before and no longer is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ram_unknown: bool,
    /// Memory in use by device index.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vram_used: Vec<(u16, Mib)>,
    /// Jobs it reports as running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<u64>,
    /// Workloads that are warm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<BTreeSet<WorkloadId>>,
    /// Images of containers that are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<BTreeSet<Name>>,
    /// Speed and load of a pull worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<DeviceHealth>,
    /// Whether its owner and its agent take work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepting: Option<bool>,
    /// Its configuration, if it was measured anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Name>,
    /// Somebody takes its configuration as it is now for right.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub acknowledged: bool,
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

    /// What of it has to be remembered, `None` if nothing has. What a node is and has is news whenever it changes, load as
    /// [`landfall_policy::rules::load`] says. `quiet` is how long no load was remembered of the node.
    pub(crate) fn news(
        &self,
        node: &Node,
        baseline: Option<&Name>,
        quiet: Millis,
        policy: Option<&Policy>,
    ) -> Option<Self> {
        let vram = |&(index, used): &(u16, Mib)| {
            let known = |gpu: &Gpu| memory_moved(used, Some(gpu.vram_reported), gpu.vram_total(), quiet);
            node.gpu(index).is_some_and(known)
        };
        let load =
            self.ram_used.is_some_and(|used| memory_moved(used, node.ram_reported, node.ram_total, quiet))
                || self.vram_used.iter().any(vram)
                || self.metrics.is_some_and(|now| metrics_moved(&now, node.metrics.as_ref(), quiet, policy));
        let news = Self {
            ram_used: self.ram_used.filter(|_| load),
            ram_unknown: self.ram_unknown && node.ram_reported.is_some(),
            vram_used: if load { self.vram_used.clone() } else { Vec::new() },
            active: self.active.filter(|active| *active != node.active_reported),
            cache: self.cache.clone().filter(|cache| *cache != node.cache),
            images: self.images.clone().filter(|images| *images != node.images),
            metrics: self.metrics.filter(|_| load),
            health: self.health.filter(|health| *health != node.health),
            accepting: self.accepting.filter(|accepting| *accepting != node.accepting),
            fingerprint: self.fingerprint.clone().filter(|print| {
                Some(print) != node.fingerprint.as_ref()
                    || node.acknowledged.is_none()
                    || drifts(node, baseline, Some(print)) != node.drifted
            }),
            acknowledged: self.acknowledged,
        };
        // A node that was out of touch is in touch again.
        (!news.is_bare() || node.heartbeat_at.is_some()).then_some(news)
    }

    /// Takes over what it says.
    pub(crate) fn write_to(&self, node: &mut Node, baseline: Option<&Name>) {
        if self.ram_used.is_some() || self.ram_unknown {
            node.ram_reported = self.ram_used;
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
        if let Some(images) = &self.images {
            node.images.clone_from(images);
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
        if self.fingerprint.is_some() {
            node.fingerprint.clone_from(&self.fingerprint);
        }
        if self.fingerprint.is_some() || self.acknowledged {
            if self.acknowledged || node.acknowledged.is_none() {
                node.acknowledged.clone_from(&node.fingerprint);
            }
            node.drifted = drifts(node, baseline, node.fingerprint.as_ref());
        }
    }
}

/// Whether a node with that fingerprint is no longer what it should be. It is until it is again, or people say so: one
/// heartbeat later the drift is still there.
pub(crate) fn drifts(node: &Node, baseline: Option<&Name>, fingerprint: Option<&Name>) -> bool {
    let right = baseline.or(node.acknowledged.as_ref());
    right.zip(fingerprint).is_some_and(|(right, fingerprint)| right != fingerprint)
}
