//! Filter `pack-block`: the lease has begun.

use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;
use landfall_model::BlockStatus;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pack-block",
    description: "Admits nodes whose block is active and has begun.",
    reasons: &[Reason::BlockInactive],
    clock: true,
    about: About::Plan,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

pub(crate) fn check(view: &View<'_>) -> Option<Refusal> {
    let block = view.node.block.as_ref()?;
    if block.usable_at(view.now()) {
        return None;
    }
    let refusal = Refusal::not_now(
        Reason::BlockInactive,
        Quantity::word("active"),
        Quantity::word("not active"),
        Wake::NodeAdded,
    )
    .remedy("wait until the provider delivers the block");
    match block.start_at.filter(|_| block.status == BlockStatus::Active) {
        Some(start) => Some(refusal.until(start)),
        None => Some(refusal),
    }
}
