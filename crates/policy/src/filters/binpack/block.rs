//! Filter `pack-block`: the lease has begun.

use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Quantity, Refusal, Wake};
use crate::view::View;
use landfall_model::BlockStatus;

/// What the catalogue says.
pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pack-block",
    description: "Admits nodes whose block is active and has begun.",
    reasons: &["block_inactive"],
    params: &[],
    clock: true,
    job_identity: false,
    build,
};

struct PackBlock;

fn build(_: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(PackBlock))
}

impl Filter for PackBlock {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let block = view.node.block.as_ref()?;
        if block.usable_at(view.now()) {
            return None;
        }
        let refusal = Refusal::not_now(
            "block_inactive",
            Quantity::Word("active"),
            Quantity::Word("not active"),
            Wake::NodeAdded,
        )
        .remedy("wait until the provider delivers the block");
        match block.start_at.filter(|_| block.status == BlockStatus::Active) {
            Some(start) => Some(refusal.until(start)),
            None => Some(refusal),
        }
    }
}
