//! Filter `cpu`: CPU asked is free in the ledger.

use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Quantity, Refusal, short};
use crate::view::View;

/// What the catalogue says.
pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "cpu",
    description: "Admits nodes with enough free CPU.",
    reasons: &["cpu_short"],
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
        let (needed, free) = (view.spec.cpu_milli, view.node.cpu_free());
        if needed <= free {
            return None;
        }
        let never = needed > view.node.cpu_total;
        Some(
            short(view, "cpu_short", "CPU", Quantity::CpuMilli(needed), Quantity::CpuMilli(free), never)
                .of_total(Quantity::CpuMilli(view.node.cpu_total)),
        )
    }
}
