//! Filter `accepting`: the owner and the agent take work.

use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Quantity, Refusal, Wake};
use crate::view::View;

/// What the catalogue says.
pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "accepting",
    description: "Admits nodes whose owner has not paused them.",
    reasons: &["paused"],
    params: &[],
    clock: false,
    job_identity: false,
    build,
};

struct Accepting;

fn build(_: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(Accepting))
}

impl Filter for Accepting {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        if view.node.accepting {
            return None;
        }
        Some(
            Refusal::not_now("paused", Quantity::Word("accepting"), Quantity::Word("paused"), Wake::Heartbeat)
                .remedy("the owner must resume the node, or its own preconditions (power, network, schedule) must hold"),
        )
    }
}
