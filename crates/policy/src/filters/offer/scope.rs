//! Filter `peer-scope`: the peer is near enough.

use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Quantity, Refusal, Wake};
use crate::view::View;
use landfall_model::Scope;

/// What the catalogue says.
pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "peer-scope",
    description: "Admits peers within the scopes the job allows.",
    reasons: &["scope"],
    params: &[],
    clock: false,
    job_identity: false,
    build,
};

struct PeerScope;

fn build(_: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(PeerScope))
}

impl Filter for PeerScope {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let scope = view.node.peer.as_ref().map_or_else(Default::default, |peer| peer.scope);
        let allowed = &view.spec.allowed_scopes;
        if scope <= view.spec.max_scope && (allowed.is_empty() || allowed.contains(&scope)) {
            return None;
        }
        Some(
            Refusal::never(
                "scope",
                Quantity::Word(word(view.spec.max_scope)),
                Quantity::Word(word(scope)),
                Wake::JobChanged,
            )
            .remedy("widen the job's max_scope or allowed_scopes"),
        )
    }
}

fn word(scope: Scope) -> &'static str {
    match scope {
        Scope::Local => "local",
        Scope::Cell => "cell",
        Scope::Org => "org",
        Scope::Federation => "federation",
        Scope::Commons => "commons",
    }
}
