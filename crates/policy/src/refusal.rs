//! Refusals that several filters share.

pub use landfall_model::reason::{Finality, Quantity, Reason, Wake};
pub use landfall_model::verdict::Refusal;
use landfall_model::{Mib, MigProfile, MilliCpu, Name};

use crate::devices::{MemoryView, may_have_slice, model_allowed, qualifying};
use crate::view::View;

/// Refuses a node whose free CPU is less than the job asks for.
pub(crate) fn cpu_short(view: &View<'_>, reason: Reason) -> Option<Refusal> {
    let (needed, free, total) = (view.spec.cpu_milli, view.node.cpu_free(), view.node.cpu_total);
    (needed > free)
        .then(|| short(view, reason, "CPU", [needed, free, total].map(Quantity::CpuMilli), needed > total))
}

/// Refuses a node whose free RAM is less than the job asks for.
pub(crate) fn ram_short(view: &View<'_>, reason: Reason) -> Option<Refusal> {
    let (needed, free, total) = (view.spec.ram_mib, view.node.ram_free(), view.node.ram_total);
    (needed > free)
        .then(|| short(view, reason, "RAM", [needed, free, total].map(Quantity::Mib), needed > total))
}

/// Too little of an amount: never if the node does not have it at all, else until something on it ends.
fn short(view: &View<'_>, reason: Reason, what: &str, amounts: [Quantity; 3], never: bool) -> Refusal {
    let [needed, free, total] = amounts;
    if never {
        let remedy = view.say(|| match what {
            // Cores are CPU.
            "CPU" => format!("use a node with at least {needed}, or ask for less"),
            _ => format!("use a node with at least {needed} of {what}, or ask for less"),
        });
        return Refusal::never(reason, needed, free, Wake::RegistrationChange).of_total(total).remedy(remedy);
    }
    let none = matches!(free, Quantity::CpuMilli(MilliCpu::ZERO) | Quantity::Mib(Mib::ZERO));
    let remedy = view.say(|| match none {
        true => format!("wait until {what} is given back"),
        false => format!("wait until {what} is given back, or ask for at most {free}"),
    });
    Refusal::not_now(reason, needed, free, Wake::PlacementEnded).of_total(total).remedy(remedy)
}

/// Too few devices that would do: `missing` if the node has too few at all, otherwise `full`.
pub(crate) fn devices_short(view: &View<'_>, memory: MemoryView, missing: Reason, full: Reason) -> Refusal {
    let spec = view.spec;
    if let Some(profile) = spec.slice() {
        return slice_short(view, &profile, missing, full);
    }
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
        most_vram_mib: accepted()
            .map(|gpu| memory.free(gpu))
            .max()
            .or(Some(Mib::ZERO))
            .filter(|most| most.get() < u64::MAX),
    };
    if (accepted().filter(|gpu| memory.total(gpu) >= spec.vram_mib).count() as u64) < count {
        let remedy = view.say(|| format!("use larger GPUs, or ask for less than {} of each", spec.vram_mib));
        return Refusal::never(full, needed, found, Wake::RegistrationChange).of_total(total).remedy(remedy);
    }
    Refusal::not_now(full, needed, found, Wake::PlacementEnded)
        .of_total(total)
        .remedy("wait until a job on these GPUs ends, or ask for less")
}

/// No device has the slice that a job asks for: `missing` if none of the node ever could, otherwise `full`.
fn slice_short(view: &View<'_>, profile: &MigProfile, missing: Reason, full: Reason) -> Refusal {
    let spec = view.spec;
    let needed = Quantity::Devices { count: 1, vram_mib: spec.vram_mib, gpu_milli: spec.gpu_milli };
    let able = view.node.gpus.iter().filter(|gpu| may_have_slice(spec, profile, gpu)).count() as u64;
    let (found, total) = (Quantity::Count(0), Quantity::Count(able));
    let slice = spec.gpu_slice.as_ref().map_or("", Name::as_str);
    if able == 0 {
        let remedy = view.say(|| {
            format!("use a node with a GPU that has slices of {slice} (agent.sliced_gpus, or MIG), or ask for a whole GPU")
        });
        return Refusal::never(missing, needed, found, Wake::RegistrationChange)
            .of_total(total)
            .remedy(remedy);
    }
    let remedy = view.say(|| format!("wait until enough of a GPU is given back for a slice of {slice}"));
    Refusal::not_now(full, needed, found, Wake::PlacementEnded).of_total(total).remedy(remedy)
}
