//! The arithmetic of the `fit` family: modes, bandwidth, utilisation, curves and levels.

use landfall_model::{Gpu, JobSpec, Mib, Node, Offload, slices};

use crate::devices::{MemoryView, enough_qualify, model_allowed};
use crate::params::ParamInfo;
use crate::verdict::Level;
use crate::view::{Mode, View};

/// What a runtime is scored as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runtime {
    Llmcpp,
    Container,
    Wasm,
    /// coreml and onnx.
    Model,
    /// diffusers with GPU memory; without, it is scored as a container.
    Diffusers,
}

impl Runtime {
    pub(crate) fn of(spec: &JobSpec) -> Self {
        match spec.runtime.as_str() {
            "llmcpp" => Self::Llmcpp,
            "wasm" => Self::Wasm,
            "coreml" | "onnx" => Self::Model,
            "diffusers" if !spec.vram_mib.is_zero() && spec.is_gpu_job() => Self::Diffusers,
            _ => Self::Container,
        }
    }
}

/// How a job would use a node's devices; `None` if it cannot.
pub(crate) fn mode(spec: &JobSpec, node: &Node, memory: MemoryView) -> Option<Mode> {
    if !spec.is_gpu_job() {
        return Some(if spec.runs_with("llmcpp") { Mode::Cpu } else { Mode::None });
    }
    if enough_qualify(spec, node, memory) { Some(Mode::Gpu) } else { mode_beside(spec, node) }
}

/// How a GPU job would use a node on which too few devices would do; `None` if it cannot.
pub(crate) fn mode_beside(spec: &JobSpec, node: &Node) -> Option<Mode> {
    if !spec.runs_with("llmcpp") || spec.offload == Offload::Never {
        return None;
    }
    let need = spec.vram_mib * u64::from(spec.gpu_count);
    // The RAM that the job asks for besides is taken as well.
    let in_ram = |need: Mib| spec.ram_mib + need <= node.ram_free();
    match offload_device(spec, node) {
        Some(position) => {
            let gpu = &node.gpus[usize::from(position)];
            in_ram(need.saturating_sub(gpu.vram_free())).then_some(Mode::Offload)
        }
        None => in_ram(need).then_some(Mode::Cpu),
    }
}

/// Whether the model could be offloaded if nothing else ran on the node.
pub(crate) fn offloads_when_idle(spec: &JobSpec, node: &Node) -> bool {
    let need = spec.vram_mib * u64::from(spec.gpu_count);
    let device = node.gpus.iter().map(Gpu::vram_total).max().unwrap_or(Mib::ZERO);
    let in_ram = spec.ram_mib + need.saturating_sub(device);
    spec.runs_with("llmcpp") && spec.offload == Offload::Allow && in_ram <= node.ram_total
}

/// The device that an offloaded model would use: most free memory, then lowest index.
pub(crate) fn offload_device(spec: &JobSpec, node: &Node) -> Option<u16> {
    let open = (0u16..).zip(&node.gpus).filter(|(_, gpu)| !gpu.is_closed() && model_allowed(spec, gpu));
    open.min_by_key(|(_, gpu)| (std::cmp::Reverse(gpu.vram_free()), gpu.index)).map(|(position, _)| position)
}

/// Where a bandwidth comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BandwidthSource {
    /// The device reported it.
    Device,
    /// The node reported it for its one device.
    Node,
    /// The table knows the model.
    Table,
    /// So much per GiB of memory.
    Memory,
    /// Nothing is known.
    Unknown,
    /// The machine's RAM.
    Ram,
}

impl BandwidthSource {
    /// A word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Device => "reported by the device",
            Self::Node => "reported by the node",
            Self::Table => "table",
            Self::Memory => "by memory size",
            Self::Unknown => "unknown device",
            Self::Ram => "RAM",
        }
    }
}

pub(crate) const CPU_BANDWIDTH: ParamInfo =
    ParamInfo::at_least("cpu_bandwidth_gb_s", 200.0, 0.0, "GB/s", "Bandwidth of RAM when no GPU is used.");
pub(crate) const UNKNOWN_BANDWIDTH: ParamInfo = ParamInfo::at_least(
    "unknown_gpu_bandwidth_gb_s",
    200.0,
    0.0,
    "GB/s",
    "Bandwidth of a device about which nothing is known.",
);
pub(crate) const BANDWIDTH_PER_GIB: ParamInfo = ParamInfo::at_least(
    "bandwidth_per_gib",
    40.0,
    0.0,
    "GB/s per GiB",
    "Bandwidth of a device of an unknown model, by its memory.",
);

/// Bandwidth of devices that report none.
#[derive(Debug, Clone, Copy)]
pub struct Bandwidths {
    pub(crate) cpu: f64,
    pub(crate) unknown: f64,
    pub(crate) per_gib: f64,
}

impl Default for Bandwidths {
    fn default() -> Self {
        Self { cpu: 200.0, unknown: 200.0, per_gib: 40.0 }
    }
}

/// The share of a partitioned device's bandwidth that a slice has: that of the memory.
fn slice_share(view: &View<'_>, gpu: &Gpu) -> f64 {
    let slice = view.spec.gpu_slice.as_ref().filter(|_| gpu.slices.is_some()).and_then(|_| view.spec.slice());
    let memory = slice.and_then(|slice| slices::memory_slices(slice.compute));
    memory.map_or(1.0, |memory| f64::from(memory) / f64::from(slices::MEMORY_SLICES))
}

impl Bandwidths {
    /// Bandwidth of one device in GB/s, by the most trustworthy source.
    pub fn of(&self, gpu: &Gpu, node: &Node) -> (f64, BandwidthSource) {
        let usable = |gb_s: &f64| gb_s.is_finite() && *gb_s > 0.0;
        if let Some(gb_s) = gpu.bandwidth_gb_s.filter(usable) {
            return (gb_s, BandwidthSource::Device);
        }
        if let Some(gb_s) = node.gpu_bandwidth_gb_s.filter(usable).filter(|_| node.gpus.len() == 1) {
            return (gb_s, BandwidthSource::Node);
        }
        if let Some(known) = gpu.model.as_ref().and_then(|model| model.known) {
            return (known.gb_s_with(gpu.vram), BandwidthSource::Table);
        }
        self.of_unknown(gpu.vram)
    }

    /// Bandwidth of a device of an unknown model, by its memory.
    pub fn of_unknown(&self, vram: Option<Mib>) -> (f64, BandwidthSource) {
        match vram.filter(|vram| !vram.is_zero()) {
            Some(vram) => (vram.as_f64() / 1024.0 * self.per_gib, BandwidthSource::Memory),
            None => (self.unknown, BandwidthSource::Unknown),
        }
    }

    /// Bandwidth of a pair: the slowest chosen device, or RAM.
    pub(crate) fn of_pair(&self, view: &View<'_>) -> (f64, BandwidthSource) {
        view.gpus()
            .map(|gpu| {
                let (gb_s, source) = self.of(gpu, view.node);
                (gb_s * slice_share(view, gpu), source)
            })
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .unwrap_or((self.cpu, BandwidthSource::Ram))
    }
}

/// Knees of a fit curve.
#[derive(Debug, Clone, Copy)]
pub struct Curve(f64, f64, f64);

/// For memory that fails hard.
pub const TIGHT: Curve = Curve(0.5, 0.8, 0.9);
/// For CPU and RAM.
pub const BROAD: Curve = Curve(0.3, 0.7, 0.9);

impl Curve {
    /// The value at a utilisation; 0 if it is above 1 or not a number.
    pub fn at(self, u: f64) -> f64 {
        let Curve(x, y, z) = self;
        if u.is_nan() || u > 1.0 {
            0.0
        } else if u < x {
            60.0 + 40.0 * u / x
        } else if u <= y {
            100.0
        } else if u <= z {
            100.0 - 30.0 * (u - y) / (z - y)
        } else {
            70.0 - 50.0 * (u - z) / (1.0 - z)
        }
    }
}

/// Utilisation of a pair and the curve it is judged by. A divisor of 0 makes it infinite.
pub(crate) fn utilisation(view: &View<'_>, model_share: f64) -> (f64, Curve) {
    let (spec, node) = (view.spec, view.node);
    match Runtime::of(spec) {
        Runtime::Llmcpp => (llm_utilisation(view, model_share), TIGHT),
        Runtime::Container => (container_utilisation(view), BROAD),
        Runtime::Wasm => (over(spec.ram_mib.as_f64(), wasm_limit(node).as_f64()), BROAD),
        Runtime::Model => {
            let free = node.ram_total.as_f64() - node.ram_reported.unwrap_or(Mib::ZERO).as_f64();
            (over(spec.model_mib_f64(model_share), free), TIGHT)
        }
        Runtime::Diffusers => (device_utilisation(view), TIGHT),
    }
}

/// Memory limit of the node's WASM runtime.
pub fn wasm_limit(node: &Node) -> Mib {
    node.wasm_limit.unwrap_or(Mib::new(node.ram_total.get() * 3 / 4))
}

fn over(amount: f64, total: f64) -> f64 {
    if total > 0.0 { amount / total } else { f64::INFINITY }
}

/// The fullest of the chosen devices with the job on it.
fn device_utilisation(view: &View<'_>) -> f64 {
    let asked = view.spec.vram_mib.as_f64();
    view.gpus()
        .map(|gpu| over(gpu.vram_in_use().as_f64() + asked, gpu.vram_total().as_f64()))
        .fold(0.0, f64::max)
}

fn llm_utilisation(view: &View<'_>, model_share: f64) -> f64 {
    let (spec, node) = (view.spec, view.node);
    match view.devices.mode {
        Mode::Gpu => device_utilisation(view),
        Mode::Offload | Mode::Cpu | Mode::None => {
            let asked = match (spec.gpu_count, spec.ram_mib.is_zero()) {
                (0, true) => spec.model_mib_f64(model_share),
                (0, false) => spec.ram_mib.as_f64(),
                (count, _) => spec.vram_mib.as_f64() * f64::from(count),
            };
            let on_devices: f64 = view.gpus().map(|gpu| gpu.vram_in_use().as_f64()).sum();
            let devices: f64 = view.gpus().map(|gpu| gpu.vram_total().as_f64()).sum();
            let in_use = on_devices + node.ram_in_use().as_f64();
            over(in_use + asked, devices + node.ram_total.as_f64())
        }
    }
}

/// The share of the machine that the job takes: the mean over what it declares.
fn container_utilisation(view: &View<'_>) -> f64 {
    let (spec, node) = (view.spec, view.node);
    let mut sum = 0.0;
    let mut declared = 0.0;
    let mut add = |share: f64| {
        sum += share;
        declared += 1.0;
    };
    if !spec.cpu_milli.is_zero() {
        add(over(spec.cpu_milli.as_f64(), node.cpu_total.as_f64()));
    }
    if !spec.ram_mib.is_zero() {
        add(over(spec.ram_mib.as_f64(), node.ram_total.as_f64()));
    }
    if !spec.vram_mib.is_zero() && spec.is_gpu_job() {
        let asked = spec.vram_mib.as_f64();
        add(view.gpus().map(|gpu| over(asked, gpu.vram_total().as_f64())).fold(0.0, f64::max));
    }
    if declared > 0.0 { sum / declared } else { 0.0 }
}

/// The level of a pair from its fit and speed; penalties do not count.
pub fn level(fit: f64, speed: f64, view: &View<'_>) -> Level {
    let on_device = !view.spec.is_gpu_job() || view.devices.mode != Mode::Cpu;
    level_of(fit, speed, on_device)
}

fn level_of(fit: f64, speed: f64, on_device: bool) -> Level {
    if fit < 20.0 {
        Level::TooTight
    } else if fit >= 80.0 && speed >= 60.0 && on_device {
        Level::Perfect
    } else if fit >= 50.0 && speed >= 30.0 {
        Level::Good
    } else {
        Level::Marginal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_model::gpu_table::GpuModel;
    use landfall_model::{MilliCpu, Name, NodeId};

    #[test]
    fn f1_f2_curves() {
        let table = |curve: Curve, cases: &[(f64, f64)]| {
            for &(u, want) in cases {
                assert!((curve.at(u) - want).abs() < 1e-6, "{u}: {} {want}", curve.at(u));
            }
        };
        table(
            TIGHT,
            &[
                (0.0, 60.0),
                (0.25, 80.0),
                (0.5, 100.0),
                (0.8, 100.0),
                (0.85, 85.0),
                (0.9, 70.0),
                (0.95, 45.0),
                (1.0, 20.0),
                (1.0001, 0.0),
                (f64::INFINITY, 0.0),
            ],
        );
        table(
            BROAD,
            &[(0.0, 60.0), (0.15, 80.0), (0.3, 100.0), (0.7, 100.0), (0.8, 85.0), (0.9, 70.0), (1.0, 20.0)],
        );
    }

    #[test]
    fn f26_levels() {
        for (speed, fit, want) in [
            (60.0, 80.0, Level::Perfect),
            (59.99, 80.0, Level::Good),
            (30.0, 50.0, Level::Good),
            (29.99, 50.0, Level::Marginal),
            (100.0, 20.0, Level::Marginal),
            (100.0, 19.99, Level::TooTight),
        ] {
            assert_eq!(level_of(fit, speed, true), want, "{speed} {fit}");
        }
        assert_eq!(level_of(100.0, 100.0, false), Level::Good, "a GPU job in RAM is never perfect");
    }

    #[test]
    fn f29_f30_bandwidth_by_the_best_source() {
        let bandwidths = Bandwidths::default();
        let node = Node::new(NodeId::new("n").unwrap(), MilliCpu::ZERO, Mib::ZERO);
        let of = |model: &str, vram: Option<u64>, reported: Option<f64>| {
            let mut gpu = Gpu::new(0, Some(GpuModel::new(Name::new(model).unwrap())), vram.map(Mib::new));
            gpu.bandwidth_gb_s = reported;
            bandwidths.of(&gpu, &node).0
        };
        assert_eq!(of("Mystery", Some(8192), None), 320.0);
        assert_eq!(of("Mystery", None, None), 200.0);
        assert_eq!(of("Mystery", Some(0), None), 200.0);
        assert_eq!(of("RTX 3090", None, Some(880.5)), 880.5);
        assert_eq!(of("RTX 3090", None, Some(0.0)), 936.2);
        assert_eq!(of("RTX 3090", None, None), 936.2);
        assert_eq!(of("NVIDIA GeForce RTX 3080", Some(12_288), None), 912.4, "memory tells variants apart");
    }
}
