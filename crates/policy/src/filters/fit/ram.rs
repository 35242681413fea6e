//! Filter `ram`: RAM asked is free in the ledger.

use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Refusal, ram_short};
use crate::view::View;

/// What the catalogue says.
pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "ram",
    description: "Admits nodes with enough free RAM.",
    reasons: &["ram_short"],
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
        ram_short(view, "ram_short")
    }
}
