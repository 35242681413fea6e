//! One device of a node.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gpu_table::GpuModel;
use crate::{JobId, Mib, MigProfile, MilliGpu, Name, slices};

/// A partitioned device (MIG): which memory slices are taken by which profile.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slices {
    /// Profiles in use as `(compute slices, first memory slice)`.
    #[serde(default)]
    pub taken: Vec<(u8, u8)>,
}

/// One device of a node.
///
/// Scoring a fleet reads little else than these, so what few devices have is kept out of line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// Its index on the node; devices are kept in index order.
    pub index: u16,
    /// Its model, if the node says.
    pub model: Option<Arc<GpuModel>>,
    /// Its memory, if known.
    pub vram: Option<Mib>,
    /// Memory held by placements and holds.
    pub vram_committed: Mib,
    /// Memory in use as the node reports it.
    pub vram_reported: Mib,
    /// Memory bandwidth as the node reports it, in GB/s.
    pub bandwidth_gb_s: Option<f64>,
    /// Devices with the same group share a fast link.
    pub link_group: Option<u16>,
    /// What it is capable of, such as `sm_90`, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Box<Name>>,
    /// Present if the device is partitioned.
    pub slices: Option<Box<Slices>>,
    /// The job with exclusive use.
    pub holder: Option<JobId>,
    /// A job for which the device is being kept; set through its node.
    pub(crate) hold: Option<Box<JobId>>,
    /// Compute committed to shared jobs.
    pub milli_committed: MilliGpu,
}

impl Gpu {
    pub fn new(index: u16, model: Option<Arc<GpuModel>>, vram: Option<Mib>) -> Self {
        Self {
            index,
            model,
            vram,
            vram_committed: Mib::ZERO,
            vram_reported: Mib::ZERO,
            bandwidth_gb_s: None,
            link_group: None,
            capability: None,
            slices: None,
            holder: None,
            hold: None,
            milli_committed: MilliGpu::ZERO,
        }
    }

    /// Memory in all; unknown counts as none.
    pub fn vram_total(&self) -> Mib {
        self.vram.unwrap_or(Mib::ZERO)
    }

    /// Memory in use: what is committed or what is reported, whichever is more.
    pub fn vram_in_use(&self) -> Mib {
        self.vram_committed.max(self.vram_reported)
    }

    /// Memory that the ledger has not given away.
    pub fn vram_free(&self) -> Mib {
        self.vram_total().saturating_sub(self.vram_committed)
    }

    /// The job for which the device is being kept.
    pub fn hold(&self) -> Option<&JobId> {
        self.hold.as_deref()
    }

    /// Where a slice of so many compute slices would go, as its first memory slice; `None` if it does not fit, or if the device is
    /// not partitioned.
    pub fn slice_start(&self, compute: u8) -> Option<u8> {
        let taken = &self.slices.as_ref()?.taken;
        slices::choose(&[taken], compute).map(|(_, start)| start)
    }

    /// Memory of a slice of so many compute slices, if there are such slices.
    pub fn slice_vram(&self, compute: u8) -> Option<Mib> {
        let share = u64::from(slices::memory_slices(compute)?);
        Some(Mib::new(self.vram_total().get() * share / u64::from(slices::MEMORY_SLICES)))
    }

    /// The slice that it is, if its driver shows it as one.
    pub fn profile(&self) -> Option<MigProfile> {
        MigProfile::of_device(self.model.as_ref()?.name.as_str())
    }

    /// Whether some job has the device to itself, or is about to.
    pub fn is_closed(&self) -> bool {
        self.holder.is_some() || self.hold.is_some()
    }

    /// Compute that can still be given away; none if a job has the device to itself.
    pub fn milli_free(&self) -> MilliGpu {
        if self.is_closed() { MilliGpu::ZERO } else { MilliGpu::WHOLE.saturating_sub(self.milli_committed) }
    }
}
