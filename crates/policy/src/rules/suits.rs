//! Which nodes a batch job could use at all, whatever their state and occupancy, and whatever the time.

use landfall_model::{JobSpec, Node, World};

use crate::filters::batch::eligible;

/// The reasons for which filters refuse the node, leaving out those about its state, its occupancy and the clock.
#[must_use]
pub fn misfits(spec: &JobSpec, node: &Node, world: &World) -> Vec<&'static str> {
    eligible::misfits(spec, node, world).collect()
}
