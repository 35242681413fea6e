//! Filter `peer-trust`: the arbiter trusts the peer.

use crate::filter::{About, Filter, FilterInfo};
use crate::params::rule;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

rule! { Filter PeerTrust {
    trust_execute: f64 = at_least(0.3, 0.0, "", "Least trust of the arbiter in a peer that runs work."),
} }

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "peer-trust",
    description: "Admits peers that the arbiter trusts enough to run work.",
    reasons: &[Reason::Trust],
    params: PeerTrust::PARAMS,
    about: About::Moment,
    ..FilterInfo::of(PeerTrust::build)
};

impl Filter for PeerTrust {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let trust = view.node.peer.as_ref().map_or(0.0, |peer| peer.trust);
        if trust >= self.trust_execute {
            return None;
        }
        let (needed, found) = (Quantity::Number(self.trust_execute), Quantity::Number(trust));
        let refusal = Refusal::never(Reason::Trust, needed, found, Wake::RegistrationChange);
        Some(refusal.remedy("raise the peer's entry in the arbiter's trust table"))
    }
}
