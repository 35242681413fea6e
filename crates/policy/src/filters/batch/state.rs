//! `batch-state`: only nodes in service take new work.

use landfall_model::{JobSpec, Node, NodeState};

use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "batch-state",
    description: "Refuses nodes that are not ready: booting, degraded, silent, draining, drained or down.",
    reasons: &[Reason::NodeState],
    about: About::Plan,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

/// Whether the node takes new work.
pub(crate) fn admits(spec: &JobSpec, node: &Node) -> bool {
    node.state == NodeState::Ready || (node.state == NodeState::Degraded && spec.allow_degraded)
}

fn check(view: &View<'_>) -> Option<Refusal> {
    out_of_service(view)
}

/// Refuses a node that takes no new work.
pub(crate) fn out_of_service(view: &View<'_>) -> Option<Refusal> {
    let (found, remedy) = match view.node.state {
        NodeState::Ready => return None,
        NodeState::Degraded if view.spec.allow_degraded => return None,
        NodeState::Booting => ("booting", "wait for its first full report"),
        NodeState::Degraded => ("degraded", "wait for a good probe, or repair the node"),
        NodeState::Unknown => ("unknown", "wait for its next heartbeat"),
        NodeState::Draining => ("draining", "return the node to service when its work is done"),
        NodeState::Drained => ("drained", "return the node to service"),
        NodeState::Down => ("down", "bring the node back"),
    };
    let (needed, found) = (Quantity::word("ready"), Quantity::word(found));
    Some(Refusal::not_now(Reason::NodeState, needed, found, Wake::NodeStateChange).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{admits as admits_pair, refusal};

    #[test]
    fn only_ready_nodes_take_work() {
        assert!(admits_pair(&INFO, "", "state = 'ready'"));
        for state in ["booting", "degraded", "unknown", "draining", "drained", "down"] {
            let refusal = refusal(&INFO, "", &format!("state = '{state}'"));
            assert_eq!((refusal.reason, refusal.found.to_string().as_str()), (Reason::NodeState, state));
        }
    }
}
