//! Which stage of a decision a view belongs to.

use crate::view::View;

/// Whether the set of nodes is decided: nodes are ranked for a job that needs one, so the set is this node alone.
///
/// Otherwise only the queue's view of all nodes is known, an upper bound of what the chosen set will have.
pub(super) fn is_node_set(view: &View<'_>) -> bool {
    view.ranks_nodes && view.spec.nodes.min == 1
}
