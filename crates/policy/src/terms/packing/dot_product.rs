//! `dot-product`: jobs go where what they ask and what is free point in different directions.

use super::{CPU_REFERENCE, GPU_REFERENCE, Left};
use crate::params::{ParamError, Params};
use crate::term::{Family, Term, TermInfo};
use crate::view::View;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "dot-product",
    range: (-1e9, Some(100.0)),
    unit: "points",
    description: "Prefers nodes for which the product of free and asked amounts, over CPU and GPU, is small.",
    params: &[CPU_REFERENCE, GPU_REFERENCE],
    ..TermInfo::of(Family::Packing, build)
};

struct DotProduct(Left);

fn build(params: &Params<'_>) -> Result<Box<dyn Term>, ParamError> {
    Ok(Box::new(DotProduct(Left::build(params)?)))
}

impl Term for DotProduct {
    fn score(&self, view: &View<'_>) -> f64 {
        let Left { cpu_reference, gpu_reference } = self.0;
        let cpu =
            view.node.cpu_free().as_f64() * view.spec.cpu_milli.as_f64() / (cpu_reference * cpu_reference);
        let gpu = view.node.gpu_milli_free() as f64 * view.spec.gpu_milli_total() as f64
            / (gpu_reference * gpu_reference);
        100.0 * (1.0 - 0.5 * (cpu + gpu))
    }
}
