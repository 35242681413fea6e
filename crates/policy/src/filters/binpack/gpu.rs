//! Filter `pack-gpu`: enough devices would do.

use crate::devices::{MemoryView, enough_qualify};
use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Refusal, devices_short};
use crate::view::View;

/// What the catalogue says.
pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pack-gpu",
    description: "Admits nodes on which enough devices would do.",
    reasons: &["gpu"],
    params: &[],
    clock: false,
    job_identity: false,
    build,
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
        Some(devices_short(view, self.memory, "gpu", "gpu"))
    }
}
