//! Filter `pack-gpu`: enough devices would do.

use crate::devices::{MemoryView, enough_qualify};
use crate::filter::{About, Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Reason, Refusal, devices_short};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pack-gpu",
    description: "Admits nodes on which enough devices would do.",
    reasons: &[Reason::Gpu],
    about: About::Moment,
    ..FilterInfo::of(build)
};

struct PackGpu {
    memory: MemoryView,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(PackGpu { memory: MemoryView::build(params)? }))
}

impl Filter for PackGpu {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        if enough_qualify(view.spec, view.node, self.memory) {
            return None;
        }
        Some(devices_short(view, self.memory, Reason::Gpu, Reason::Gpu))
    }
}
