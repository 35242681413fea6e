//! Filter `peer-scope`: the peer is near enough.

use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;
use landfall_model::Scope;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "peer-scope",
    description: "Admits peers within the scopes the job allows.",
    reasons: &[Reason::Scope],
    about: About::Moment,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    let scope = view.node.peer.as_ref().map_or_else(Default::default, |peer| peer.scope);
    let allowed = &view.spec.allowed_scopes;
    if scope <= view.spec.max_scope && (allowed.is_empty() || allowed.contains(&scope)) {
        return None;
    }
    let (needed, found) = (Quantity::word(word(view.spec.max_scope)), Quantity::word(word(scope)));
    let refusal = Refusal::never(Reason::Scope, needed, found, Wake::JobChanged);
    Some(refusal.remedy("widen the job's max_scope or allowed_scopes"))
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
