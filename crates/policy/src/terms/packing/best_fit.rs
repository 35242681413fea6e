//! `best-fit`: the less CPU and GPU is left, the better.

use super::{CPU_REFERENCE, GPU_REFERENCE, Left};
use crate::params::{ParamError, Params};
use crate::term::{Family, Term, TermInfo};
use crate::view::View;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "best-fit",
    range: (-1e9, Some(100.0)),
    unit: "points",
    description: "Prefers nodes with little CPU and GPU left once the job is on them.",
    params: &[CPU_REFERENCE, GPU_REFERENCE],
    ..TermInfo::of(Family::Packing, build)
};

struct BestFit(Left);

fn build(params: &Params<'_>) -> Result<Box<dyn Term>, ParamError> {
    Ok(Box::new(BestFit(Left::build(params)?)))
}

impl Term for BestFit {
    fn score(&self, view: &View<'_>) -> f64 {
        let Left { cpu_reference, gpu_reference } = self.0;
        let cpu = view.node.cpu_free().as_f64() - view.spec.cpu_milli.as_f64();
        let gpu = view.node.gpu_milli_free() as f64 - view.spec.gpu_milli_total() as f64;
        100.0 * (1.0 - 0.5 * cpu / cpu_reference - 0.5 * gpu / gpu_reference)
    }
}
