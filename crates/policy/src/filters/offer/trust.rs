//! Filter `peer-trust`: the arbiter trusts the peer.

use crate::filter::{About, Filter, FilterInfo};
use crate::params::{ParamError, ParamInfo, Params};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

const TRUST_EXECUTE: ParamInfo = ParamInfo::at_least(
    "trust_execute",
    0.3,
    0.0,
    "",
    "Least trust of the arbiter in a peer that runs work.",
);

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "peer-trust",
    description: "Admits peers that the arbiter trusts enough to run work.",
    reasons: &[Reason::Trust],
    params: &[TRUST_EXECUTE],
    about: About::Moment,
    ..FilterInfo::of(build)
};

struct PeerTrust {
    least: f64,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(PeerTrust { least: params.number(&TRUST_EXECUTE)? }))
}

impl Filter for PeerTrust {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let trust = view.node.peer.as_ref().map_or(0.0, |peer| peer.trust);
        if trust >= self.least {
            return None;
        }
        Some(
            Refusal::never(
                Reason::Trust,
                Quantity::Number(self.least),
                Quantity::Number(trust),
                Wake::RegistrationChange,
            )
            .remedy("raise the peer's entry in the arbiter's trust table"),
        )
    }
}
