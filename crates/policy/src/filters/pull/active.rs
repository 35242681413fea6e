//! Filter `pull-active`: the node takes new work.

use landfall_model::NodeState;

use crate::filter::FilterInfo;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pull-active",
    description: "Admits nodes that take new work: ready, neither draining nor lost.",
    reasons: &[Reason::Draining],
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    let (state, remedy) = match view.node.state {
        NodeState::Ready => return None,
        NodeState::Booting => ("booting", "wait until the node has started"),
        NodeState::Degraded => ("degraded", "wait for a good probe of the node"),
        NodeState::Unknown => ("unknown", "wait until the node is heard again"),
        NodeState::Draining => ("draining", "end the drain of the node"),
        NodeState::Drained => ("drained", "put the node back into service"),
        NodeState::Down => ("down", "bring the node back"),
    };
    let (needed, found) = (Quantity::word("ready"), Quantity::word(state));
    Some(Refusal::not_now(Reason::Draining, needed, found, Wake::NodeStateChange).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{admits, refusal};
    use crate::refusal::Finality;

    #[test]
    fn only_ready_nodes_take_work_of_either_kind() {
        assert!(admits(&INFO, "", "state = 'ready'"));
        for state in ["booting", "degraded", "unknown", "draining", "drained", "down"] {
            for kind in ["build", "eval"] {
                let got = refusal(&INFO, &format!("kind = '{kind}'"), &format!("state = '{state}'"));
                assert_eq!((got.reason, got.class), (Reason::Draining, Finality::NotNow));
                assert_eq!(got.found.to_string(), state);
                assert_eq!(got.wake, Wake::NodeStateChange);
            }
        }
    }
}
