//! Which devices of a node a job would get, decided before the pair is scored. One rule, one file.

mod best_scored;
mod best_window;
mod first_fit;
mod gradient;
mod link_aware;
pub mod link_bandwidth;
mod tightest;
mod uniform;

use landfall_model::{Gpu, JobSpec, Mib, MigProfile, MilliGpu, Name, Node, slices};
use smallvec::SmallVec;

use crate::evaluate::Pair;
use crate::params::{ParamError, ParamInfo, Params};
use crate::policy::Policy;
use crate::rules::fit;
use crate::rules::offer::capability_reaches;
use crate::score::q;
use crate::view::{Devices, Mode};

const DEVICE_CHOICE: ParamInfo = ParamInfo::word(
    "device_choice",
    "first-fit",
    &["first-fit", "best-window", "best-scored", "gradient", "tightest", "link-aware", "uniform"],
    "How devices are chosen on a node: lowest indices, closest together, best by score, best by fragmentation-gradient or mix-room (shared jobs), least free share, fewest link groups, or drawn.",
);
const DEVICE_MEMORY: ParamInfo = ParamInfo::word(
    "device_memory",
    "in-use",
    &["committed", "in-use", "ignored"],
    "What counts as taken when GPU memory is checked: what the ledger gave away, that or the reported use, or nothing.",
);

/// Parameters of every device choice.
pub const PARAMS: [ParamInfo; 2] = [DEVICE_CHOICE, DEVICE_MEMORY];

/// Positions of devices in a node's list.
pub(crate) type Positions = SmallVec<[u16; 8]>;

/// What counts as taken when GPU memory is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryView {
    /// What the ledger gave away.
    Committed,
    /// That, or the reported use if it is more.
    InUse,
    /// Nothing: memory is no dimension.
    Ignored,
}

impl MemoryView {
    pub(crate) fn build(params: &Params<'_>) -> Result<Self, ParamError> {
        Ok(match params.word(&DEVICE_MEMORY)?.as_str() {
            "committed" => Self::Committed,
            "ignored" => Self::Ignored,
            _ => Self::InUse,
        })
    }

    /// Memory of a device that a job could get.
    pub(crate) fn free(self, gpu: &Gpu) -> Mib {
        match self {
            Self::Committed => gpu.vram_free(),
            Self::InUse => gpu.vram_total().saturating_sub(gpu.vram_in_use()),
            Self::Ignored => Mib::new(u64::MAX),
        }
    }

    /// Memory of a device that a job could get if nothing else ran.
    pub(crate) fn total(self, gpu: &Gpu) -> Mib {
        if self == Self::Ignored { Mib::new(u64::MAX) } else { gpu.vram_total() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeviceChoice {
    FirstFit,
    BestWindow,
    BestScored,
    Gradient,
    Tightest,
    LinkAware,
    Uniform,
}

/// How a policy chooses devices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceRule {
    choice: DeviceChoice,
    memory: MemoryView,
}

impl DeviceRule {
    pub(crate) fn build(params: &Params<'_>) -> Result<Self, ParamError> {
        let choice = match params.word(&DEVICE_CHOICE)?.as_str() {
            "best-window" => DeviceChoice::BestWindow,
            "best-scored" => DeviceChoice::BestScored,
            "gradient" => DeviceChoice::Gradient,
            "tightest" => DeviceChoice::Tightest,
            "link-aware" => DeviceChoice::LinkAware,
            "uniform" => DeviceChoice::Uniform,
            _ => DeviceChoice::FirstFit,
        };
        Ok(Self { choice, memory: MemoryView::build(params)? })
    }

    /// Whether the choice draws from the job's identity.
    pub(crate) fn draws(&self) -> bool {
        self.choice == DeviceChoice::Uniform
    }

    /// Chooses devices for an admitted pair.
    pub(crate) fn choose(&self, policy: &Policy, pair: Pair<'_>) -> Devices {
        let (spec, node) = (pair.job.spec.as_ref(), pair.node);
        if !spec.is_gpu_job() {
            let mode = fit::mode(spec, node, self.memory).unwrap_or_default();
            return Devices { mode, chosen: Positions::new() };
        }
        let fitting = qualifying(spec, node, self.memory);
        let count = spec.gpu_count as usize;
        if fitting.len() < count {
            return match fit::mode_beside(spec, node).unwrap_or_default() {
                mode @ Mode::Offload => {
                    Devices { mode, chosen: fit::offload_device(spec, node).into_iter().collect() }
                }
                mode => Devices { mode, chosen: Positions::new() },
            };
        }
        if let Some(profile) = spec.slice() {
            let chosen = slice_device(&fitting, node, profile.compute).into_iter().collect();
            return Devices { mode: Mode::Gpu, chosen };
        }
        let mut chosen = match self.choice {
            DeviceChoice::FirstFit => first_fit::choose(&fitting, count),
            DeviceChoice::BestWindow => best_window::choose(&fitting, count, node),
            DeviceChoice::BestScored => best_scored::choose(&fitting, policy, pair),
            DeviceChoice::Gradient => gradient::choose(&fitting, policy, pair),
            DeviceChoice::Tightest => tightest::choose(&fitting, spec, node),
            DeviceChoice::LinkAware => link_aware::choose(&fitting, count, node),
            DeviceChoice::Uniform => uniform::choose(&fitting, policy, pair),
        };
        chosen.sort_unstable();
        Devices { mode: Mode::Gpu, chosen }
    }
}

/// The device that a slice is taken of: one that is such a slice, else where it costs the fewest possible starts of others.
fn slice_device(fitting: &[u16], node: &Node, compute: u8) -> Option<u16> {
    let of = |position: &u16| &node.gpus[usize::from(*position)];
    if let Some(slice) = fitting.iter().find(|position| of(position).slices.is_none()) {
        return Some(*slice);
    }
    let taken: Vec<&[(u8, u8)]> = fitting
        .iter()
        .filter_map(|position| of(position).slices.as_ref())
        .map(|it| it.taken.as_slice())
        .collect();
    slices::choose(&taken, compute).map(|(place, _)| fitting[place])
}

/// Whether a device has the slice that a job asks for: one that can be cut from it, or itself.
fn has_slice(spec: &JobSpec, profile: &MigProfile, gpu: &Gpu, memory: MemoryView) -> bool {
    if gpu.is_closed() || !model_allowed(spec, gpu) {
        return false;
    }
    match &gpu.slices {
        Some(_) => {
            gpu.slice_start(profile.compute).is_some()
                && gpu.slice_vram(profile.compute).is_some_and(|vram| vram >= spec.vram_mib)
        }
        None => {
            gpu.profile().is_some_and(|own| own.compute == profile.compute)
                && gpu.milli_free() == MilliGpu::WHOLE
                && memory.free(gpu) >= spec.vram_mib
        }
    }
}

/// Whether a device could ever have the slice that a job asks for.
pub(crate) fn may_have_slice(spec: &JobSpec, profile: &MigProfile, gpu: &Gpu) -> bool {
    model_allowed(spec, gpu)
        && match &gpu.slices {
            Some(_) => gpu.slice_vram(profile.compute).is_some_and(|vram| vram >= spec.vram_mib),
            None => {
                gpu.profile().is_some_and(|own| own.compute == profile.compute)
                    && gpu.vram_total() >= spec.vram_mib
            }
        }
}

/// Whether a device would do for a job.
pub(crate) fn qualifies(spec: &JobSpec, gpu: &Gpu, memory: MemoryView) -> bool {
    if spec.gpu_slice.is_some() {
        return spec.slice().is_some_and(|profile| has_slice(spec, &profile, gpu, memory));
    }
    !gpu.is_closed()
        // The slices of a partitioned device are devices of their own.
        && gpu.slices.is_none()
        && gpu.milli_free() >= spec.gpu_milli
        && memory.free(gpu) >= spec.vram_mib
        && model_allowed(spec, gpu)
        && spec.gpu_capability.as_ref().is_none_or(|needs| is_capable(gpu, needs))
}

/// Whether a device says that it is capable of what a job asks for.
fn is_capable(gpu: &Gpu, needs: &Name) -> bool {
    gpu.capability.as_ref().is_some_and(|has| capability_reaches(has.as_str(), needs.as_str()))
}

/// Whether the job accepts a device's model.
pub(crate) fn model_allowed(spec: &JobSpec, gpu: &Gpu) -> bool {
    spec.gpu_models.is_empty()
        || gpu.model.as_ref().is_some_and(|model| spec.gpu_models.contains(&model.name))
}

/// Positions of the devices that would do, ascending.
pub(crate) fn qualifying(spec: &JobSpec, node: &Node, memory: MemoryView) -> Positions {
    (0u16..)
        .zip(&node.gpus)
        .filter(|(_, gpu)| qualifies(spec, gpu, memory))
        .map(|(position, _)| position)
        .collect()
}

/// Whether as many devices would do as the job asks for.
pub(crate) fn enough_qualify(spec: &JobSpec, node: &Node, memory: MemoryView) -> bool {
    let count = spec.gpu_count as usize;
    count == 0 || node.gpus.iter().filter(|gpu| qualifies(spec, gpu, memory)).nth(count - 1).is_some()
}

/// The best devices by what each would score alone, then by index; those that are alike score the same.
fn best_by(
    fitting: &[u16],
    count: usize,
    alike: impl Fn(u16, u16) -> bool,
    score: impl Fn(&Devices) -> f64,
) -> Positions {
    if fitting.len() <= count {
        return fitting.iter().take(count).copied().collect();
    }
    let mut alone = Devices { mode: Mode::Gpu, chosen: Positions::new() };
    let mut scored: SmallVec<[(std::cmp::Reverse<i64>, u16); 8]> = SmallVec::new();
    for &position in fitting {
        let known = scored.iter().find(|(_, other)| alike(*other, position)).map(|(score, _)| *score);
        let score = known.unwrap_or_else(|| {
            alone.chosen.clear();
            alone.chosen.push(position);
            std::cmp::Reverse(q(score(&alone)))
        });
        scored.push((score, position));
    }
    scored.sort_unstable();
    scored.iter().take(count).map(|&(_, position)| position).collect()
}

/// Indices skipped between neighbours of an ascending choice.
pub(crate) fn gaps(positions: &[u16], node: &Node) -> u64 {
    positions
        .windows(2)
        .map(|pair| {
            let index = |position: u16| u64::from(node.gpus[usize::from(position)].index);
            index(pair[1]) - index(pair[0]) - 1
        })
        .sum()
}
