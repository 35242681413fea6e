//! `fragmentation-gradient`: by how much placing the job lowers the node's fragmentation for the expected mix.

use super::before_and_after;
use crate::params::{ParamError, ParamInfo, Params};
use crate::rules::fragmentation::fragmented;
use crate::term::{Family, Term, TermInfo, TermKind};
use crate::verdict::{Fact, Facts};
use crate::view::{Measure, View};

const SCALE: ParamInfo = ParamInfo::word(
    "gradient_scale",
    "exact",
    &["exact", "sigmoid100"],
    "The exact difference in GPUs, or the published whole number from 0 to 100.",
);

pub(crate) const INFO: TermInfo = TermInfo {
    name: "fragmentation-gradient",
    class: TermKind::Mixed,
    range: (-64.0, Some(64.0)),
    unit: "GPUs",
    description: "How many GPUs fewer would be fragmented for the expected job mix with the job on the node.",
    params: &[SCALE],
    ..TermInfo::of(Family::BinPack, build)
};

struct FragmentationGradient {
    sigmoid: bool,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Term>, ParamError> {
    Ok(Box::new(FragmentationGradient { sigmoid: params.word(&SCALE)? == "sigmoid100" }))
}

/// Fragmented compute of the node before and after placing the job, in thousandths of GPUs.
fn fragmented_milli(view: &View<'_>) -> (f64, f64) {
    let (gpus, mix) = (&view.node.gpus, &view.pass.world.mix);
    before_and_after(view, Measure::Fragmentation, |free, cpu_free| fragmented(free, cpu_free, gpus, mix))
}

impl Term for FragmentationGradient {
    fn score(&self, view: &View<'_>) -> f64 {
        let (before, after) = fragmented_milli(view);
        // The order of these operations is the published one: a last bit more or less makes another whole number.
        let gradient = (before - after) / 1000.0;
        if self.sigmoid { (100.0 * (1.0 / (1.0 + libm::exp(-gradient)))).floor() } else { gradient }
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        let (before, after) = fragmented_milli(view);
        facts.note("fragmented_gpus_before", Fact::Number(before / 1000.0));
        facts.note("fragmented_gpus_after", Fact::Number(after / 1000.0));
    }
}
