//! Filter `peer-fresh`: the peer's facts are not stale.

use crate::filter::{About, Filter, FilterInfo};
use crate::params::{ParamError, ParamInfo, Params};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;
use landfall_model::Millis;

const STALE_AFTER: ParamInfo =
    ParamInfo::whole("capacity_stale_ms", 90_000, "ms", "Oldest probe on which an offer may rest.");

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "peer-fresh",
    description: "Admits peers whose facts are fresh.",
    reasons: &[Reason::StaleCapacity],
    params: &[STALE_AFTER],
    about: About::Moment,
    ..FilterInfo::of(build)
};

struct PeerFresh {
    stale_after: u64,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(PeerFresh { stale_after: params.whole(&STALE_AFTER)? as u64 }))
}

impl Filter for PeerFresh {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let Some(peer) = view.node.peer.as_ref() else {
            let (needed, found) =
                (Quantity::Ms(Millis::new(self.stale_after)), Quantity::word("never probed"));
            return Some(
                Refusal::not_now(Reason::StaleCapacity, needed, found, Wake::Heartbeat)
                    .remedy("the peer must say what it has: give it a [nodes.peer] table"),
            );
        };
        let age = peer.probe_age_ms;
        if age <= self.stale_after {
            return None;
        }
        let (needed, found) = (Quantity::Ms(Millis::new(self.stale_after)), Quantity::Ms(Millis::new(age)));
        Some(
            Refusal::not_now(Reason::StaleCapacity, needed, found, Wake::Heartbeat)
                .remedy("the peer must probe its capacity again"),
        )
    }
}
