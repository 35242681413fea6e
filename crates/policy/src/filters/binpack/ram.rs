//! Filter `pack-ram`: RAM asked is free in the ledger.

use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Quantity, Refusal, short};
use crate::view::View;

/// What the catalogue says.
pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pack-ram",
    description: "Admits nodes with enough free RAM.",
    reasons: &["ram"],
    params: &[],
    clock: false,
    job_identity: false,
    build,
};

struct RamFilter;

fn build(_: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(RamFilter))
}

impl Filter for RamFilter {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let (needed, free) = (view.spec.ram_mib, view.node.ram_free());
        if needed <= free {
            return None;
        }
        let never = needed > view.node.ram_total;
        Some(
            short(view, "ram", "RAM", Quantity::Mib(needed), Quantity::Mib(free), never)
                .of_total(Quantity::Mib(view.node.ram_total)),
        )
    }
}
