//! Filter `gpu`: enough devices would do, or the model may leave them.

use crate::devices::MemoryView;
use crate::filter::{About, Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Finality, Reason, Refusal, Wake, devices_short};
use crate::rules::fit;
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "gpu",
    description: "Admits nodes whose devices, or RAM where offloading is allowed, hold the job.",
    reasons: &[Reason::GpuMissing, Reason::VramShort],
    about: About::Moment,
    ..FilterInfo::of(build)
};

struct GpuFilter {
    memory: MemoryView,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(GpuFilter { memory: MemoryView::build(params)? }))
}

impl Filter for GpuFilter {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        if fit::mode(view.spec, view.node, self.memory).is_some() {
            return None;
        }
        let refusal = devices_short(view, self.memory, Reason::GpuMissing, Reason::VramShort);
        if refusal.class == Finality::Never && fit::offloads_when_idle(view.spec, view.node) {
            let remedy = "wait until RAM or GPU memory is given back: the model may be offloaded";
            return Some(
                Refusal { class: Finality::NotNow, wake: Wake::PlacementEnded, ..refusal }.remedy(remedy),
            );
        }
        Some(refusal)
    }
}
