//! `gpu-fragmentation`: how far apart the chosen devices lie.

use crate::devices::gaps;
use crate::params::{ParamError, ParamInfo, Params};
use crate::term::{Family, Term, TermInfo};
use crate::view::View;

const DIVISOR: ParamInfo = ParamInfo::word(
    "fragmentation_divisor",
    "chosen",
    &["chosen", "gaps"],
    "Whether skipped indices are divided by the number of chosen devices or of gaps between them.",
);

pub(crate) const INFO: TermInfo = TermInfo {
    name: "gpu-fragmentation",
    range: (0.0, None),
    unit: "indices per device",
    description: "Counts the device indices skipped between the chosen devices; weighed negatively.",
    params: &[DIVISOR],
    ..TermInfo::of(Family::BinPack, build)
};

struct GpuFragmentation {
    by_gaps: bool,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Term>, ParamError> {
    Ok(Box::new(GpuFragmentation { by_gaps: params.word(&DIVISOR)? == "gaps" }))
}

impl Term for GpuFragmentation {
    fn score(&self, view: &View<'_>) -> f64 {
        let chosen = &view.devices.chosen;
        if chosen.len() < 2 {
            return 0.0;
        }
        let divisor = if self.by_gaps { chosen.len() - 1 } else { chosen.len() };
        gaps(chosen, view.node) as f64 / divisor as f64
    }
}
