//! Filters of the family `pull`, one file each: which queued jobs a worker that asks may run at all.

pub(crate) mod active;
mod architecture;
mod capability;
mod capacity;
mod feature;
mod kind;
mod needs;
mod ready;
mod tenant;

use landfall_model::Node;

use crate::filter::FilterInfo;

/// All of them, in the order in which policies list them.
pub(crate) const ALL: &[&FilterInfo] = &[
    &active::INFO,
    &capacity::INFO,
    &tenant::INFO,
    &kind::INFO,
    &architecture::INFO,
    &feature::INFO,
    &capability::INFO,
    &needs::INFO,
    &ready::INFO,
];

/// Whether a node ever said what it can do. One that did not is trusted to know what it asks for.
///
/// Features are part of what a node says, so a node that lists any has spoken.
fn sent_capabilities(node: &Node) -> bool {
    node.capabilities.is_some() || !node.features.is_empty()
}
