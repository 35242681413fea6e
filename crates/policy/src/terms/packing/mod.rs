//! Terms of published packing benchmarks, one file each.

mod best_fit;
mod dot_product;
mod gpu_clustering;
mod gpu_packing;

use crate::params::{ParamError, ParamInfo, Params};
use crate::term::TermInfo;

/// All of them, in the order in which policies list them.
pub(crate) const ALL: &[&TermInfo] =
    &[&best_fit::INFO, &dot_product::INFO, &gpu_packing::INFO, &gpu_clustering::INFO];

const CPU_REFERENCE: ParamInfo =
    ParamInfo::at_least("cpu_reference_milli", 128_000.0, 1.0, "milli-cores", "CPU that counts as one.");
const GPU_REFERENCE: ParamInfo =
    ParamInfo::at_least("gpu_reference_milli", 8000.0, 1.0, "milli-GPU", "GPU compute that counts as one.");

/// What amounts are divided by.
#[derive(Clone, Copy)]
struct Left {
    cpu_reference: f64,
    gpu_reference: f64,
}

impl Left {
    fn build(params: &Params<'_>) -> Result<Self, ParamError> {
        Ok(Self {
            cpu_reference: params.number(&CPU_REFERENCE)?,
            gpu_reference: params.number(&GPU_REFERENCE)?,
        })
    }
}
