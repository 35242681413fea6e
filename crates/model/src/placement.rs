//! What a job holds on a node once the ledger has committed it.

use serde::{Deserialize, Serialize};

use crate::{JobId, JobSpec, Lifecycle, Mib, MilliCpu, MilliGpu, Millis};

/// The GPU shape of a job as packing policies tell jobs apart: shared, one device, two devices, ...
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum GpuShape {
    /// No device.
    None,
    /// Part of one device.
    Shared,
    /// So many whole devices.
    Whole(u32),
}

impl GpuShape {
    /// The class of a job.
    pub fn of(spec: &JobSpec) -> Self {
        match (spec.gpu_count, spec.gpu_milli) {
            (0, _) => Self::None,
            (_, milli) if milli < MilliGpu::WHOLE => Self::Shared,
            (count, _) => Self::Whole(count),
        }
    }
}

/// A slice of a partitioned device (MIG).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Compute slices.
    pub compute: u8,
    /// Its first memory slice, once it is placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u8>,
}

/// What a placement takes of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceShare {
    /// Which device, by index.
    pub index: u16,
    pub vram: Mib,
    /// Compute taken; a whole device is held exclusively.
    pub milli: MilliGpu,
    /// The slice that it is, if the job asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Slice>,
}

impl DeviceShare {
    /// A share of a device that is not partitioned.
    pub fn new(index: u16, vram: Mib, milli: MilliGpu) -> Self {
        Self { index, vram, milli, slice: None }
    }
}

/// What a job holds on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    pub job: JobId,
    pub cpu: MilliCpu,
    pub ram: Mib,
    pub devices: Vec<DeviceShare>,
    /// The GPU shape of the job.
    #[serde(rename = "class")]
    pub gpu_shape: GpuShape,
    /// Whether the job has the node to itself.
    pub exclusive_node: bool,
    /// How long the job was expected to run.
    pub expected_duration: Millis,
    /// How long the job may run; `None` means until it is stopped.
    pub walltime: Option<Millis>,
}

impl Placement {
    /// The placement of `spec` on the given devices, as the job asked for them.
    pub fn of(job: JobId, spec: &JobSpec, devices: &[u16]) -> Self {
        let slice = spec.slice().map(|profile| Slice { compute: profile.compute, start: None });
        Self {
            job,
            cpu: spec.cpu_milli,
            ram: spec.ram_mib,
            devices: devices
                .iter()
                .map(|&index| DeviceShare { slice, ..DeviceShare::new(index, spec.vram_mib, spec.gpu_milli) })
                .collect(),
            gpu_shape: GpuShape::of(spec),
            exclusive_node: false,
            expected_duration: spec.expected_duration_ms,
            walltime: (spec.lifecycle == Lifecycle::Bounded).then_some(spec.walltime_ms),
        }
    }
}
