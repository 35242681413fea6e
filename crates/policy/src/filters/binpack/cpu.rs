//! Filter `pack-cpu`: CPU asked is free in the ledger.

use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Refusal, cpu_short};
use crate::view::View;

/// What the catalogue says.
pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pack-cpu",
    description: "Admits nodes with enough free CPU.",
    reasons: &["cpu"],
    params: &[],
    clock: false,
    job_identity: false,
    build,
};

struct CpuFilter;

fn build(_: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(CpuFilter))
}

impl Filter for CpuFilter {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        cpu_short(view, "cpu")
    }
}
