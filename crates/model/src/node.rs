//! Nodes: machines that run work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    Block, DeviceShare, Gpu, JobId, Links, MemoryDomain, Mib, MilliCpu, MilliGpu, Name, NodeId, Placement,
    PoolId, Scope, Slice, TenantId, Tier, Time, WorkloadId,
};

/// What kind of machine a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Platform {
    /// Desktops and servers.
    #[default]
    Desktop,
    /// Apple phones and tablets.
    Ios,
    /// Android phones and tablets.
    Android,
    /// A browser tab.
    Browser,
}

/// Whether an operator lets a node take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// It may run work.
    #[default]
    Approved,
    /// Nobody has decided yet.
    Pending,
    /// It was taken out.
    Suspended,
}

/// How warm a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thermal {
    /// Cool.
    Nominal,
    /// Warm.
    Fair,
    Serious,
    /// Too hot.
    Critical,
}

/// Where a node stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// Starting.
    Booting,
    /// Takes work.
    #[default]
    Ready,
    /// Failed too often.
    Degraded,
    /// Silent for a moment.
    Unknown,
    /// Finishes what it has.
    Draining,
    /// Empty and taken out.
    Drained,
    /// Gone.
    Down,
}

/// Battery, heat and accelerators, mostly of phones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeviceHealth {
    /// How warm it is, if reported.
    pub thermal: Option<Thermal>,
    /// Battery level in percent, if reported.
    pub battery_pct: Option<u8>,
    /// Whether it is charging, if reported.
    pub charging: Option<bool>,
    /// Has a Neural Engine.
    pub neural_engine: bool,
    pub npu: bool,
    /// Has a Metal GPU.
    pub metal_gpu: bool,
}

/// What a node says about its speed and load. Absent is never read as 0.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Metrics {
    pub cpu_count: u32,
    pub cpu_core_score: u32,
    pub ram_total_mib: Mib,
    pub ram_free_mib: Option<Mib>,
    /// CPU use of the whole machine in percent.
    pub cpu_usage_pct: Option<f64>,
    /// Disk speed in MB/s.
    pub disk_mb_s: Option<f64>,
    /// Network speed in Mbit/s.
    pub network_mbit_s: Option<f64>,
}

/// What a pull worker can do, if it ever said.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Capabilities {
    pub architectures: BTreeSet<Name>,
    pub fetch: bool,
    pub eval: bool,
}

/// What a peer offers in a negotiation, and what the arbiter knows about it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Peer {
    /// The arbiter's trust in it, 0 to 1; unknown is 0.
    pub trust: f64,
    /// Jobs in its own queue.
    pub queued: u64,
    /// Price in credits per 1000 fuel, if it differs from the usual one.
    pub cost: Option<u64>,
    /// Delay to start in ms, if it differs from the usual one.
    pub start_delay_ms: Option<u64>,
    /// Round trip in ms as the arbiter measured it lately.
    pub rtt_ms: Option<f64>,
    /// How near it is.
    pub scope: Scope,
    pub cell: Option<Name>,
    pub data: BTreeSet<Name>,
    /// CPU in use as measured.
    pub cpu_measured: MilliCpu,
    /// CPU in use by its own jobs.
    pub cpu_own: MilliCpu,
    /// RAM in use as measured.
    pub ram_measured: Mib,
    /// RAM in use by its own jobs.
    pub ram_own: Mib,
    /// Age of these facts in ms.
    pub probe_age_ms: u64,
    pub storage_free: Option<Mib>,
    /// Network in Mbit/s.
    pub network_mbit_s: Option<u32>,
    /// Capability of its GPUs, such as `sm_90`.
    pub gpu_capability: Option<Name>,
}

/// How fast a node really is compared with the estimate, per runtime.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correction {
    /// Observed over estimated speed, smoothed.
    pub factor: f64,
    /// How many runs it rests on.
    #[serde(default)]
    pub samples: u64,
}

impl Default for Correction {
    fn default() -> Self {
        Self { factor: 1.0, samples: 0 }
    }
}

/// What a node draws from the mains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodePower {
    pub idle_w: u64,
    pub busy_w: u64,
}

/// A machine that runs work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    pub id: NodeId,
    /// The pool it belongs to.
    pub pool: Option<PoolId>,
    /// The pool it is on loan to, if any.
    pub lent_to: Option<PoolId>,
    /// The lease it is part of.
    pub block: Option<Arc<Block>>,
    pub region: Option<Name>,
    /// What kind of machine it is.
    pub platform: Platform,

    /// Whether an operator lets it take part.
    pub approval: Approval,
    /// Whether its owner and its agent take work.
    pub accepting: bool,
    /// When it was last heard; `None` means just now.
    pub heartbeat_at: Option<Time>,
    /// Takes no work before this instant.
    pub cooldown_until: Option<Time>,
    /// Where it stands in its life.
    pub state: NodeState,

    pub runtimes: BTreeSet<Name>,
    pub cpu_total: MilliCpu,
    /// CPU held by placements and holds.
    pub cpu_committed: MilliCpu,
    pub ram_total: Mib,
    /// RAM held by placements and holds.
    pub ram_committed: Mib,
    /// RAM in use as reported.
    pub ram_reported: Option<Mib>,
    /// Devices in index order.
    pub gpus: Vec<Gpu>,
    /// Bandwidth of its one GPU as reported.
    pub gpu_bandwidth_gb_s: Option<f64>,
    /// Memory limit of its WASM runtime.
    pub wasm_limit: Option<Mib>,
    /// Jobs it reports as running.
    pub active_reported: u64,
    /// What the ledger has placed here.
    pub placements: Vec<Placement>,
    /// Workloads that are warm here.
    pub cache: BTreeSet<WorkloadId>,
    /// Images of containers that are here, by their [full names](crate::image_name).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub images: BTreeSet<Name>,
    /// Good service in the past; breaks ties only.
    pub karma: i64,
    /// Observed speed per runtime.
    pub corrections: BTreeMap<Name, Correction>,
    pub health: DeviceHealth,

    /// Speed and load as a pull worker reports them.
    pub metrics: Option<Metrics>,
    /// What a pull worker can do.
    pub capabilities: Option<Capabilities>,
    /// Features, each with how many.
    pub features: BTreeMap<Name, u32>,
    /// Tenants it serves; empty means all.
    pub tenants: BTreeSet<TenantId>,
    /// Builds it runs at a time as a pull worker.
    pub max_concurrent: u32,

    /// Switch, rack or dragonfly group.
    pub group: Option<Name>,
    /// Conformance fingerprint, if known.
    pub fingerprint: Option<Name>,
    /// The fingerprint that it should have where its pool sets none: the first, or the last that people took as right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Name>,
    /// Differs from the pool's baseline, or from what was acknowledged.
    pub drifted: bool,
    /// Links between its devices.
    pub links: Option<Links>,
    pub memory_domains: Vec<MemoryDomain>,
    pub unified_memory: bool,
    /// What it draws from the mains, if known.
    pub power: Option<NodePower>,
    /// When it is next taken out for maintenance.
    pub maintenance_at: Option<Time>,

    /// Facts of negotiated placement.
    pub peer: Option<Box<Peer>>,
    /// How many devices are being kept for a job.
    pub(crate) held_devices: u16,
}

/// Why a placement does not fit a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// The job is on the node already.
    #[error("job `{0}` is on the node already")]
    Twice(JobId),
    /// There is no such device.
    #[error("there is no device {0}")]
    NoDevice(u16),
    /// Some job has the device to itself.
    #[error("device {0} is held")]
    DeviceHeld(u16),
    /// Something is too small by now.
    #[error("not enough {0} left")]
    Short(&'static str),
}

impl Node {
    /// A ready, idle desktop without GPUs.
    pub fn new(id: NodeId, cpu: MilliCpu, ram: Mib) -> Self {
        Self {
            id,
            pool: None,
            lent_to: None,
            block: None,
            region: None,
            platform: Platform::Desktop,
            approval: Approval::Approved,
            accepting: true,
            heartbeat_at: None,
            cooldown_until: None,
            state: NodeState::Ready,
            runtimes: BTreeSet::new(),
            cpu_total: cpu,
            cpu_committed: MilliCpu::ZERO,
            ram_total: ram,
            ram_committed: Mib::ZERO,
            ram_reported: None,
            gpus: Vec::new(),
            gpu_bandwidth_gb_s: None,
            wasm_limit: None,
            active_reported: 0,
            placements: Vec::new(),
            cache: BTreeSet::new(),
            images: BTreeSet::new(),
            karma: 0,
            corrections: BTreeMap::new(),
            health: DeviceHealth::default(),
            metrics: None,
            capabilities: None,
            features: BTreeMap::new(),
            tenants: BTreeSet::new(),
            max_concurrent: 1,
            group: None,
            fingerprint: None,
            acknowledged: None,
            drifted: false,
            links: None,
            memory_domains: Vec::new(),
            unified_memory: false,
            power: None,
            maintenance_at: None,
            peer: None,
            held_devices: 0,
        }
    }

    /// CPU that the ledger has not given away.
    pub fn cpu_free(&self) -> MilliCpu {
        self.cpu_total.saturating_sub(self.cpu_committed)
    }

    /// RAM that the ledger has not given away.
    pub fn ram_free(&self) -> Mib {
        self.ram_total.saturating_sub(self.ram_committed)
    }

    /// RAM in use: what is committed or what is reported, whichever is more.
    pub fn ram_in_use(&self) -> Mib {
        self.ram_committed.max(self.ram_reported.unwrap_or(Mib::ZERO))
    }

    /// Jobs running here, by the ledger or by its own report, whichever is more.
    pub fn active(&self) -> u64 {
        self.active_reported.max(self.placements.len() as u64)
    }

    /// Compute left on all devices together, in milli-GPU.
    pub fn gpu_milli_free(&self) -> u64 {
        self.gpus.iter().map(|gpu| gpu.milli_free().get()).sum()
    }

    /// Which jobs its lease serves.
    pub fn tier(&self) -> Tier {
        self.block.as_ref().map_or(Tier::Fast, |block| block.tier)
    }

    /// Observed speed for a runtime.
    pub fn correction(&self, runtime: &Name) -> Correction {
        self.corrections.get(runtime).copied().unwrap_or_default()
    }

    /// The device with this index.
    pub fn gpu(&self, index: u16) -> Option<&Gpu> {
        self.gpus.iter().find(|gpu| gpu.index == index)
    }

    /// Keeps a device for a job, or for nobody.
    pub fn hold_device(&mut self, index: u16, job: Option<JobId>) -> Result<(), PlacementError> {
        let gpu =
            self.gpus.iter_mut().find(|gpu| gpu.index == index).ok_or(PlacementError::NoDevice(index))?;
        gpu.hold = job.map(Box::new);
        self.held_devices = self.gpus.iter().filter(|gpu| gpu.hold.is_some()).count() as u16;
        Ok(())
    }

    /// Whether a device is being kept for this job.
    pub fn holds_for(&self, job: &JobId) -> bool {
        self.has_holds() && self.gpus.iter().any(|gpu| gpu.hold() == Some(job))
    }

    /// Whether neither its owner nor an operator keeps it from taking work, whatever its state. Whether one that nobody has looked at yet
    /// takes work is for the policy to say.
    pub fn is_open(&self) -> bool {
        self.accepting && self.approval != Approval::Suspended
    }

    /// Whether it takes new work, as far as it and those who decide about it go.
    pub fn takes_work(&self) -> bool {
        self.state == NodeState::Ready && self.is_open()
    }

    /// Whether it left for good; its place is kept and nothing else.
    pub fn has_left(&self) -> bool {
        self.state == NodeState::Down
            && !self.accepting
            && self.cpu_total.is_zero()
            && self.ram_total.is_zero()
    }

    /// Whether a device is being kept for any job.
    pub fn has_holds(&self) -> bool {
        self.held_devices > 0
    }

    /// The node as a job sees it: what is kept for that job is open to it.
    pub fn without_holds_of(&self, job: &JobId) -> Self {
        let mut node = self.clone();
        for gpu in &mut node.gpus {
            if gpu.hold() == Some(job) {
                gpu.hold = None;
                node.held_devices -= 1;
            }
        }
        node
    }

    /// Takes over what runs and is kept on an earlier report of the same node.
    ///
    /// If something no longer fits the node as it is now, one job that has to leave is named and nothing changes.
    pub fn carry_over(&mut self, earlier: &Self) -> Result<(), JobId> {
        let newest = |fits: &dyn Fn(&Placement) -> bool| {
            earlier
                .placements
                .iter()
                .rev()
                .find(|placement| !fits(placement))
                .map(|placement| placement.job.clone())
        };
        let has_devices =
            |placement: &Placement| placement.devices.iter().all(|share| self.gpu(share.index).is_some());
        if let Some(job) = newest(&has_devices) {
            return Err(job);
        }
        if (earlier.cpu_committed > self.cpu_total || earlier.ram_committed > self.ram_total)
            && let Some(job) = newest(&|_| false)
        {
            return Err(job);
        }
        for gpu in &self.gpus {
            let Some(old) = earlier.gpu(gpu.index) else { continue };
            let cut = |gpu: &Gpu| gpu.slices.as_ref().is_some_and(|slices| !slices.taken.is_empty());
            if old.vram_committed > gpu.vram_total() || (cut(old) && gpu.slices.is_none()) {
                let apart =
                    |placement: &Placement| placement.devices.iter().all(|share| share.index != gpu.index);
                if let Some(job) = newest(&apart) {
                    return Err(job);
                }
            }
        }
        self.cpu_committed = earlier.cpu_committed.min(self.cpu_total);
        self.ram_committed = earlier.ram_committed.min(self.ram_total);
        self.placements.clone_from(&earlier.placements);
        for gpu in &mut self.gpus {
            let Some(old) = earlier.gpu(gpu.index) else { continue };
            gpu.vram_committed = old.vram_committed;
            gpu.milli_committed = old.milli_committed;
            gpu.holder.clone_from(&old.holder);
            gpu.hold.clone_from(&old.hold);
            if let (Some(slices), Some(old)) = (&mut gpu.slices, &old.slices) {
                slices.taken.clone_from(&old.taken);
            }
        }
        self.held_devices = self.gpus.iter().filter(|gpu| gpu.hold.is_some()).count() as u16;
        Ok(())
    }

    /// What a placement takes of a device as that is now: of a partitioned one a slice has a place and its share of the memory; one
    /// that the driver shows as a slice is taken whole.
    fn settled(&self, share: &DeviceShare) -> Result<DeviceShare, PlacementError> {
        let gpu = self.gpu(share.index).ok_or(PlacementError::NoDevice(share.index))?;
        let Some(asked) = share.slice else {
            let cut = gpu.slices.as_ref().is_some_and(|slices| !slices.taken.is_empty());
            return if cut { Err(PlacementError::DeviceHeld(share.index)) } else { Ok(*share) };
        };
        if gpu.slices.is_none() {
            return Ok(DeviceShare::new(share.index, share.vram, MilliGpu::WHOLE));
        }
        let start = gpu.slice_start(asked.compute).ok_or(PlacementError::Short("slices of the GPU"))?;
        let vram = gpu.slice_vram(asked.compute).unwrap_or_default();
        if share.vram > vram {
            return Err(PlacementError::Short("GPU memory"));
        }
        Ok(DeviceShare { vram, slice: Some(Slice { start: Some(start), ..asked }), ..*share })
    }

    /// Whether a job fits on the node as it is now.
    pub fn fits(&self, placement: &Placement) -> Result<(), PlacementError> {
        if self.placements.iter().any(|p| p.job == placement.job) {
            return Err(PlacementError::Twice(placement.job.clone()));
        }
        if placement.cpu > self.cpu_free() {
            return Err(PlacementError::Short("CPU"));
        }
        if placement.ram > self.ram_free() {
            return Err(PlacementError::Short("RAM"));
        }
        for (position, share) in placement.devices.iter().enumerate() {
            if placement.devices[..position].iter().any(|other| other.index == share.index) {
                return Err(PlacementError::DeviceHeld(share.index));
            }
            let share = &self.settled(share)?;
            let gpu = self.gpu(share.index).ok_or(PlacementError::NoDevice(share.index))?;
            if gpu.holder.is_some() || gpu.hold.as_ref().is_some_and(|job| **job != placement.job) {
                return Err(PlacementError::DeviceHeld(share.index));
            }
            if share.milli > MilliGpu::WHOLE.saturating_sub(gpu.milli_committed) {
                return Err(PlacementError::Short("GPU compute"));
            }
            if share.vram > gpu.vram_free() {
                return Err(PlacementError::Short("GPU memory"));
            }
        }
        Ok(())
    }

    /// Puts a job on the node, all of it or nothing.
    pub fn place(&mut self, mut placement: Placement) -> Result<(), PlacementError> {
        self.fits(&placement)?;
        for share in &mut placement.devices {
            *share = self.settled(share)?;
        }
        self.cpu_committed += placement.cpu;
        self.ram_committed += placement.ram;
        for share in &placement.devices {
            if let Some(gpu) = self.gpus.iter_mut().find(|gpu| gpu.index == share.index) {
                gpu.vram_committed += share.vram;
                gpu.milli_committed += share.milli;
                if let (Some(slices), Some(slice)) = (&mut gpu.slices, share.slice) {
                    slices.taken.extend(slice.start.map(|start| (slice.compute, start)));
                }
                if share.milli == MilliGpu::WHOLE {
                    gpu.holder = Some(placement.job.clone());
                }
            }
        }
        self.placements.push(placement);
        Ok(())
    }

    /// Takes a job off the node and gives back what it held.
    pub fn remove(&mut self, job: &JobId) -> Option<Placement> {
        let position = self.placements.iter().position(|p| p.job == *job)?;
        let placement = self.placements.remove(position);
        self.cpu_committed = self.cpu_committed.saturating_sub(placement.cpu);
        self.ram_committed = self.ram_committed.saturating_sub(placement.ram);
        for share in &placement.devices {
            if let Some(gpu) = self.gpus.iter_mut().find(|gpu| gpu.index == share.index) {
                gpu.vram_committed = gpu.vram_committed.saturating_sub(share.vram);
                gpu.milli_committed = gpu.milli_committed.saturating_sub(share.milli);
                if let (Some(slices), Some(slice)) = (&mut gpu.slices, share.slice) {
                    slices.taken.retain(|taken| Some(taken.1) != slice.start);
                }
                if gpu.holder.as_ref() == Some(job) {
                    gpu.holder = None;
                }
            }
        }
        Some(placement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GpuShape;

    fn node() -> Node {
        let mut node = Node::new(NodeId::new("n").unwrap(), MilliCpu::cores(8), Mib::gib(16));
        node.gpus = (0..2).map(|index| Gpu::new(index, None, Some(Mib::gib(80)))).collect();
        node
    }

    fn placement(job: &str, device: u16, milli: u64, vram: u64) -> Placement {
        Placement {
            job: JobId::new(job).unwrap(),
            cpu: MilliCpu::cores(1),
            ram: Mib::gib(1),
            devices: vec![DeviceShare::new(device, Mib::gib(vram), MilliGpu::new(milli))],
            gpu_shape: GpuShape::Shared,
            exclusive_node: false,
            expected_duration: crate::Millis::secs(3600),
            walltime: None,
        }
    }

    #[test]
    fn what_is_placed_and_removed_leaves_no_trace() {
        let mut node = node();
        let before = node.clone();
        node.place(placement("a", 0, 1000, 80)).unwrap();
        node.place(placement("b", 1, 400, 10)).unwrap();
        assert_eq!((node.gpus[0].milli_free().get(), node.gpus[1].milli_free().get()), (0, 600));
        assert!(node.remove(&JobId::new("a").unwrap()).is_some());
        assert!(node.remove(&JobId::new("b").unwrap()).is_some());
        assert_eq!(node, before);
    }

    #[test]
    fn slices_have_places_of_their_own_and_leave_no_trace() {
        let mut node = node();
        node.gpus[0].slices = Some(Box::default());
        let before = node.clone();
        let slice = |job: &str, compute: u8| {
            let mut placement = placement(job, 0, u64::from(compute) * 1000 / 7, 0);
            placement.devices[0].slice = Some(Slice { compute, start: None });
            placement
        };
        for (job, compute, at, vram) in [("a", 1, 6, 10), ("b", 3, 0, 40), ("c", 2, 4, 20)] {
            node.place(slice(job, compute)).unwrap();
            let share = node.placements.last().unwrap().devices[0];
            assert_eq!((share.slice.unwrap().start, share.vram), (Some(at), Mib::gib(vram)), "{job}");
        }
        assert_eq!(node.place(slice("d", 2)), Err(PlacementError::Short("slices of the GPU")));
        assert_eq!(node.place(placement("e", 0, 100, 1)), Err(PlacementError::DeviceHeld(0)), "it is cut");
        // One that is no longer partitioned cannot keep them.
        let mut whole = before.clone();
        whole.gpus[0].slices = None;
        assert_eq!(whole.carry_over(&node), Err(JobId::new("c").unwrap()));
        let mut again = before.clone();
        again.carry_over(&node).unwrap();
        assert_eq!(again, node);
        for job in ["b", "a", "c"] {
            assert!(node.remove(&JobId::new(job).unwrap()).is_some());
        }
        assert_eq!(node, before);
        // A device that its driver shows as a slice is taken whole.
        node.gpus[1] = Gpu::new(1, None, Some(Mib::gib(10)));
        let mut placed = slice("f", 1);
        placed.devices[0].index = 1;
        node.place(placed).unwrap();
        assert_eq!(node.gpus[1].holder, JobId::new("f").ok());
    }

    #[test]
    fn no_device_is_given_twice() {
        let mut node = node();
        node.place(placement("a", 0, 1000, 10)).unwrap();
        let before = node.clone();
        assert_eq!(node.place(placement("b", 0, 100, 10)), Err(PlacementError::DeviceHeld(0)));
        assert_eq!(
            node.place(placement("a", 1, 100, 10)),
            Err(PlacementError::Twice(JobId::new("a").unwrap()))
        );
        assert_eq!(node.place(placement("c", 1, 1000, 81)), Err(PlacementError::Short("GPU memory")));
        assert_eq!(node.place(placement("d", 7, 1000, 1)), Err(PlacementError::NoDevice(7)));
        assert_eq!(node, before, "a refused placement changes nothing");
    }
}
