//! Filter `peer-fresh`: the peer's facts are not stale.

use crate::filter::{About, Filter, FilterInfo};
use crate::params::rule;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;
use landfall_model::Millis;

rule! { Filter PeerFresh {
    capacity_stale_ms: u64 = whole(90_000, "ms", "Oldest probe on which an offer may rest."),
} }

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "peer-fresh",
    description: "Admits peers whose facts are fresh.",
    reasons: &[Reason::StaleCapacity],
    params: PeerFresh::PARAMS,
    about: About::Moment,
    ..FilterInfo::of(PeerFresh::build)
};

impl Filter for PeerFresh {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let Some(peer) = view.node.peer.as_ref() else {
            let (needed, found) =
                (Quantity::Ms(Millis::new(self.capacity_stale_ms)), Quantity::word("never probed"));
            return Some(
                Refusal::not_now(Reason::StaleCapacity, needed, found, Wake::Heartbeat)
                    .remedy("the peer must say what it has: give it a [nodes.peer] table"),
            );
        };
        let age = peer.probe_age_ms;
        if age <= self.capacity_stale_ms {
            return None;
        }
        let (needed, found) =
            (Quantity::Ms(Millis::new(self.capacity_stale_ms)), Quantity::Ms(Millis::new(age)));
        Some(
            Refusal::not_now(Reason::StaleCapacity, needed, found, Wake::Heartbeat)
                .remedy("the peer must probe its capacity again"),
        )
    }
}
