//! `fragmentation-gradient`: by how much placing the job lowers the node's fragmentation for the expected mix.

use crate::params::{ParamError, ParamInfo, Params};
use crate::rules::fragmentation::{fragmented, free_of};
use crate::term::{Class, Family, Reads, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::View;

const SCALE: ParamInfo = ParamInfo::word(
    "gradient_scale",
    "exact",
    &["exact", "sigmoid100"],
    "The exact difference in GPUs, or the published whole number from 0 to 100.",
);

/// What the catalogue says.
pub(crate) const INFO: TermInfo = TermInfo {
    name: "fragmentation-gradient",
    family: Family::BinPack,
    class: Class::Mixed,
    range: (-64.0, Some(64.0)),
    unit: "GPUs",
    description: "How many GPUs fewer would be fragmented for the expected job mix with the job on the node.",
    params: &[SCALE],
    reads: Reads::PAIR,
    build,
};

struct FragmentationGradient {
    sigmoid: bool,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Term>, ParamError> {
    Ok(Box::new(FragmentationGradient { sigmoid: params.word(&SCALE)? == "sigmoid100" }))
}

/// Fragmented compute of the node before and after placing the job, in thousandths of GPUs.
fn before_and_after(view: &View<'_>) -> (f64, f64) {
    let (node, mix) = (view.node, &view.pass.world.mix);
    let mut free = free_of(node);
    let cpu_free = node.cpu_free().get();
    let before = fragmented(&free, cpu_free, &node.gpus, mix);
    for &position in &view.devices.chosen {
        let device = &mut free[usize::from(position)];
        *device = device.saturating_sub(view.spec.gpu_milli.get());
    }
    let after = fragmented(&free, cpu_free.saturating_sub(view.spec.cpu_milli.get()), &node.gpus, mix);
    (before, after)
}

impl Term for FragmentationGradient {
    fn score(&self, view: &View<'_>) -> f64 {
        let (before, after) = before_and_after(view);
        // The order of these operations is the published one: a last bit more or less makes another whole number.
        let gradient = (before - after) / 1000.0;
        if self.sigmoid { (100.0 * (1.0 / (1.0 + libm::exp(-gradient)))).floor() } else { gradient }
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        let (before, after) = before_and_after(view);
        facts.note("fragmented_gpus_before", Fact::Number(before / 1000.0));
        facts.note("fragmented_gpus_after", Fact::Number(after / 1000.0));
    }
}
