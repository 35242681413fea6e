//! Filter `pack-provider`: a pinned provider is respected.

use crate::filter::{About, Filter, FilterInfo};
use crate::params::rule;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::rules::capacity::DEFAULT_PROVIDER_PARAM;
use crate::view::View;
use landfall_model::Name;

rule! { Filter PackProvider {
    default_provider: String = DEFAULT_PROVIDER_PARAM,
} }

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pack-provider",
    description: "Admits nodes of the provider that the job pins, if it pins one.",
    reasons: &[Reason::Provider],
    params: PackProvider::PARAMS,
    about: About::Registration,
    ..FilterInfo::of(PackProvider::build)
};

impl Filter for PackProvider {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let wanted = view.spec.provider.as_ref()?;
        let block = view.node.block.as_ref();
        let found = block.map_or(self.default_provider.as_str(), |block| block.provider.as_str());
        if wanted.as_str() == found {
            return None;
        }
        let found = Quantity::Names(Name::new(found).into_iter().collect());
        Some(
            Refusal::never(Reason::Provider, Quantity::Name(wanted.clone()), found, Wake::NodeAdded)
                .remedy("submit the job without a provider, or lease from the one it names"),
        )
    }
}
