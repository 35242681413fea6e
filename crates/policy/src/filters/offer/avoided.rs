//! Filter `peer-avoided`: the job does not avoid the peer.

use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "peer-avoided",
    description: "Refuses peers that the job avoids; avoiding beats preferring.",
    reasons: &[Reason::Avoided],
    about: About::Moment,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    if !view.spec.hints.avoid_peers.contains(&view.node.id) {
        return None;
    }
    let (needed, found) = (Quantity::word("any other peer"), Quantity::word("this one"));
    let refusal = Refusal::never(Reason::Avoided, needed, found, Wake::JobChanged);
    Some(refusal.remedy("take the peer out of the job's avoid_peers"))
}
