//! Filter `pack-provider`: a pinned provider is respected.

use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Quantity, Refusal, Wake};
use crate::rules::capacity::DEFAULT_PROVIDER;
use crate::view::View;

/// What the catalogue says.
pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pack-provider",
    description: "Admits nodes of the provider that the job pins, if it pins one.",
    reasons: &["provider"],
    params: &[],
    clock: false,
    job_identity: false,
    build,
};

struct PackProvider;

fn build(_: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(PackProvider))
}

impl Filter for PackProvider {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let wanted = view.spec.provider.as_ref()?;
        let found = view.node.block.as_ref().map_or(DEFAULT_PROVIDER, |block| block.provider.as_str());
        if wanted.as_str() == found {
            return None;
        }
        let found = view
            .node
            .block
            .as_ref()
            .map_or(Quantity::Word(DEFAULT_PROVIDER), |b| Quantity::Name(b.provider.clone()));
        Some(
            Refusal::never("provider", Quantity::Name(wanted.clone()), found, Wake::NodeAdded)
                .remedy("submit the job without a provider, or lease from the one it names"),
        )
    }
}
