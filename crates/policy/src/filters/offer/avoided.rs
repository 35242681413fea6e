//! Filter `peer-avoided`: the job does not avoid the peer.

use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Quantity, Refusal, Wake};
use crate::view::View;

/// What the catalogue says.
pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "peer-avoided",
    description: "Refuses peers that the job avoids; avoiding beats preferring.",
    reasons: &["avoided"],
    params: &[],
    clock: false,
    job_identity: false,
    build,
};

struct PeerAvoided;

fn build(_: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(PeerAvoided))
}

impl Filter for PeerAvoided {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        if !view.spec.hints.avoid_peers.contains(&view.node.id) {
            return None;
        }
        Some(
            Refusal::never(
                "avoided",
                Quantity::Word("any other peer"),
                Quantity::Word("this one"),
                Wake::JobChanged,
            )
            .remedy("take the peer out of the job's avoid_peers"),
        )
    }
}
