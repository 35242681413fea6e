//! Filter `peer-fits`: the peer has room for the job.

use crate::devices::{MemoryView, enough_qualify};
use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake, devices_short};
use crate::rules::offer;
use crate::view::View;
use landfall_model::{Mib, MilliCpu};

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "peer-fits",
    description: "Admits peers that have what the job asks for, free.",
    reasons: &[Reason::DoesNotFit],
    about: About::Moment,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    let (spec, node) = (view.spec, view.node);
    let refuse = |needed, found| {
        let refusal = Refusal::not_now(Reason::DoesNotFit, needed, found, Wake::PlacementEnded);
        Some(refusal.remedy("wait until the peer has room, or ask for less"))
    };
    let (cpu, ram) = (MilliCpu::new(offer::cpu_free(node)), Mib::new(offer::ram_free(node)));
    if spec.cpu_milli > cpu {
        return refuse(Quantity::CpuMilli(spec.cpu_milli), Quantity::CpuMilli(cpu));
    }
    if spec.ram_mib > ram {
        return refuse(Quantity::Mib(spec.ram_mib), Quantity::Mib(ram));
    }
    let unknown = || Quantity::word("unknown");
    let peer = node.peer.as_deref();
    if !spec.storage_mib.is_zero() && peer.is_none_or(|peer| peer.storage_free.is_none()) {
        return refuse(Quantity::Mib(spec.storage_mib), unknown());
    }
    if spec.network_mbit_s > 0 && peer.is_none_or(|peer| peer.network_mbit_s.is_none()) {
        return refuse(Quantity::Count(spec.network_mbit_s.into()), unknown());
    }
    if let Some(free) =
        node.peer.as_ref().and_then(|peer| peer.storage_free).filter(|&free| spec.storage_mib > free)
    {
        return refuse(Quantity::Mib(spec.storage_mib), Quantity::Mib(free));
    }
    let network = node.peer.as_ref().and_then(|peer| peer.network_mbit_s);
    if let Some(mbit_s) = network.filter(|&mbit_s| spec.network_mbit_s > mbit_s) {
        return refuse(Quantity::Count(spec.network_mbit_s.into()), Quantity::Count(mbit_s.into()));
    }
    let capable = spec.gpu_count == 0 || capable(view);
    if !capable || !enough_qualify(spec, node, MemoryView::Committed) {
        return Some(devices_short(view, MemoryView::Committed, Reason::DoesNotFit, Reason::DoesNotFit));
    }
    None
}

/// Whether the peer's devices reach the capability asked for.
fn capable(view: &View<'_>) -> bool {
    let Some(needs) = &view.spec.gpu_capability else { return true };
    let has = view.node.peer.as_ref().and_then(|peer| peer.gpu_capability.as_ref());
    has.is_some_and(|has| offer::capability_reaches(has.as_str(), needs.as_str()))
}
