//! Why a pair of job and node is refused: a closed vocabulary that explain, wake-ups and metrics all read.

use std::borrow::Cow;
use std::fmt;

use landfall_model::{Mib, MilliCpu, MilliGpu, Millis, Name, Time};
use serde::Serialize;

use crate::devices::{MemoryView, model_allowed, qualifying};
use crate::view::View;

/// Whether waiting can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalClass {
    /// The node may do later.
    NotNow,
    /// This node will never do for this job as it stands.
    Never,
}

/// What happens when a refused job should be looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wake {
    /// The node sends a heartbeat.
    Heartbeat,
    /// An operator changes the node's approval.
    ApprovalChange,
    /// A known instant passes.
    Timer,
    /// The node registers anew.
    RegistrationChange,
    /// A placement or hold on the node ends.
    PlacementEnded,
    /// A node or a block joins.
    NodeAdded,
    /// A lease is extended.
    LeaseExtended,
    /// The job itself changes.
    JobChanged,
    /// Something the job waits for ends.
    DependencyEnded,
    /// A node changes its state.
    NodeStateChange,
    /// Nothing will help this pair.
    Nothing,
}

/// An amount or a fact in a refusal.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    CpuMilli(MilliCpu),
    /// Memory in MiB.
    Mib(Mib),
    /// GPU compute in thousandths.
    GpuMilli(MilliGpu),
    /// A number of things.
    Count(u64),
    /// A span in ms.
    Ms(Millis),
    /// An instant in ms.
    AtMs(Time),
    Number(f64),
    Name(Name),
    /// Several names.
    Names(Vec<Name>),
    /// A fixed word.
    Word(&'static str),
    /// Devices that would do, and the most memory free on any one.
    Free {
        /// How many would do.
        devices: u64,
        /// The most memory free on one.
        most_vram_mib: Mib,
    },
    /// Devices with at least so much memory and compute each.
    Devices {
        count: u64,
        vram_mib: Mib,
        gpu_milli: MilliGpu,
    },
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CpuMilli(x) => x.fmt(f),
            Self::Mib(x) => x.fmt(f),
            Self::GpuMilli(x) => x.fmt(f),
            Self::Count(x) => x.fmt(f),
            Self::Ms(x) => x.fmt(f),
            Self::AtMs(x) => x.fmt(f),
            Self::Number(x) => x.fmt(f),
            Self::Name(x) => x.fmt(f),
            Self::Names(x) if x.is_empty() => f.write_str("none"),
            Self::Names(x) => f.write_str(&x.iter().map(Name::as_str).collect::<Vec<_>>().join(", ")),
            Self::Word(x) => f.write_str(x),
            Self::Free { devices, most_vram_mib } if most_vram_mib.get() < u64::MAX => {
                write!(f, "{devices} that would do, most free memory {most_vram_mib}")
            }
            Self::Free { devices, .. } => write!(f, "{devices} that would do"),
            Self::Devices { count, vram_mib, gpu_milli } => {
                write!(f, "{count} GPU{}", if *count == 1 { "" } else { "s" })?;
                if !vram_mib.is_zero() {
                    write!(f, " of {vram_mib}")?;
                }
                if *gpu_milli < MilliGpu::WHOLE {
                    write!(f, ", {gpu_milli}")?;
                }
                Ok(())
            }
        }
    }
}

/// Why one filter refuses a pair.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Refusal {
    /// A stable reason, such as `cpu_short`.
    pub reason: &'static str,
    /// Whether waiting can help.
    pub class: RefusalClass,
    /// What the job needs.
    pub needed: Quantity,
    pub found: Quantity,
    /// What the node has in all, where that says more than what was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Quantity>,
    /// What would change it, for people.
    pub remedy: Cow<'static, str>,
    /// When to look again.
    pub wake: Wake,
    /// The instant from which the filter admits, if time alone will do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<Time>,
}

impl Refusal {
    /// A refusal that waiting may lift.
    #[must_use]
    pub fn not_now(reason: &'static str, needed: Quantity, found: Quantity, wake: Wake) -> Self {
        let class = RefusalClass::NotNow;
        Self { reason, class, needed, found, total: None, remedy: Cow::Borrowed(""), wake, until_ms: None }
    }

    /// A refusal that holds as long as job and node stay what they are.
    #[must_use]
    pub fn never(reason: &'static str, needed: Quantity, found: Quantity, wake: Wake) -> Self {
        Self { class: RefusalClass::Never, ..Self::not_now(reason, needed, found, wake) }
    }

    /// Says what the node has in all.
    #[must_use]
    pub fn of_total(mut self, total: Quantity) -> Self {
        self.total = Some(total);
        self
    }

    /// Says what would change it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<Cow<'static, str>>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// Says when time alone will change it.
    #[must_use]
    pub fn until(mut self, at: Time) -> Self {
        self.until_ms = Some(at);
        self
    }
}

/// Refuses a node whose free CPU is less than the job asks for.
pub(crate) fn cpu_short(view: &View<'_>, reason: &'static str) -> Option<Refusal> {
    let (needed, free, total) = (view.spec.cpu_milli, view.node.cpu_free(), view.node.cpu_total);
    (needed > free)
        .then(|| short(view, reason, "CPU", [needed, free, total].map(Quantity::CpuMilli), needed > total))
}

/// Refuses a node whose free RAM is less than the job asks for.
pub(crate) fn ram_short(view: &View<'_>, reason: &'static str) -> Option<Refusal> {
    let (needed, free, total) = (view.spec.ram_mib, view.node.ram_free(), view.node.ram_total);
    (needed > free)
        .then(|| short(view, reason, "RAM", [needed, free, total].map(Quantity::Mib), needed > total))
}

/// Too little of an amount: never if the node does not have it at all, else until something on it ends.
fn short(view: &View<'_>, reason: &'static str, what: &str, amounts: [Quantity; 3], never: bool) -> Refusal {
    let [needed, free, total] = amounts;
    if never {
        let remedy = view.say(|| format!("use a node with at least {needed} {what}, or ask for less"));
        return Refusal::never(reason, needed, free, Wake::RegistrationChange).of_total(total).remedy(remedy);
    }
    let remedy = view.say(|| format!("wait until {what} is given back, or ask for at most {free}"));
    Refusal::not_now(reason, needed, free, Wake::PlacementEnded).of_total(total).remedy(remedy)
}

/// Too few devices that would do: `missing` if the node has too few at all, otherwise `full`.
pub(crate) fn devices_short(
    view: &View<'_>,
    memory: MemoryView,
    missing: &'static str,
    full: &'static str,
) -> Refusal {
    let spec = view.spec;
    let count = u64::from(spec.gpu_count);
    let accepted = || view.node.gpus.iter().filter(|gpu| model_allowed(spec, gpu));
    let needed = Quantity::Devices { count, vram_mib: spec.vram_mib, gpu_milli: spec.gpu_milli };
    let there = accepted().count() as u64;
    let total = Quantity::Count(view.node.gpus.len() as u64);
    if there < count {
        let remedy = view.say(|| match spec.gpu_models.as_slice() {
            [] if count == 1 => "use a node with a GPU".to_owned(),
            [] => format!("use a node with at least {count} GPUs"),
            models => {
                let models: Vec<&str> = models.iter().map(Name::as_str).collect();
                format!("use a node with at least {count} GPUs of model {}", models.join(" or "))
            }
        });
        let refusal = Refusal::never(missing, needed, Quantity::Count(there), Wake::RegistrationChange);
        return refusal.of_total(total).remedy(remedy);
    }
    let found = Quantity::Free {
        devices: if view.explains { qualifying(spec, view.node, memory).len() as u64 } else { 0 },
        most_vram_mib: accepted().map(|gpu| memory.free(gpu)).max().unwrap_or(Mib::ZERO),
    };
    if (accepted().filter(|gpu| memory.total(gpu) >= spec.vram_mib).count() as u64) < count {
        let remedy = view.say(|| format!("use larger GPUs, or ask for less than {} of each", spec.vram_mib));
        return Refusal::never(full, needed, found, Wake::RegistrationChange).of_total(total).remedy(remedy);
    }
    Refusal::not_now(full, needed, found, Wake::PlacementEnded)
        .of_total(total)
        .remedy("wait until a job on these GPUs ends, or ask for less")
}
