//! Filter `pull-active`: the node takes new work.

use landfall_model::NodeState;

use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Quantity, Refusal, Wake};
use crate::view::View;

/// What the catalogue says.
pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pull-active",
    description: "Admits nodes that take new work: ready, neither draining nor lost.",
    reasons: &["draining"],
    params: &[],
    clock: false,
    job_identity: false,
    build,
};

struct Active;

fn build(_: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(Active))
}

impl Filter for Active {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let (state, remedy) = match view.node.state {
            NodeState::Ready => return None,
            NodeState::Booting => ("booting", "wait until the node has started"),
            NodeState::Degraded => ("degraded", "wait for a good probe of the node"),
            NodeState::Unknown => ("unknown", "wait until the node is heard again"),
            NodeState::Draining => ("draining", "end the drain of the node"),
            NodeState::Drained => ("drained", "put the node back into service"),
            NodeState::Down => ("down", "bring the node back"),
        };
        let (needed, found) = (Quantity::Word("ready"), Quantity::Word(state));
        Some(Refusal::not_now("draining", needed, found, Wake::NodeStateChange).remedy(remedy))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{admits, refusal};
    use super::*;
    use crate::refusal::RefusalClass;

    #[test]
    fn only_ready_nodes_take_work_of_either_kind() {
        assert!(admits(&INFO, "", "state = 'ready'"));
        for state in ["booting", "degraded", "unknown", "draining", "drained", "down"] {
            for kind in ["build", "eval"] {
                let got = refusal(&INFO, &format!("kind = '{kind}'"), &format!("state = '{state}'"));
                assert_eq!((got.reason, got.class), ("draining", RefusalClass::NotNow));
                assert_eq!(got.found.to_string(), state);
                assert_eq!(got.wake, Wake::NodeStateChange);
            }
        }
    }
}
