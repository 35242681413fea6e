//! `provider-affinity`: large jobs to providers of whole nodes, small ones to providers of exact sizes.

use landfall_model::ProviderKind;

use crate::params::rule;
use crate::rules::capacity::{DEFAULT_PROVIDER_PARAM, LARGE_JOB};
use crate::term::{Family, Term, TermInfo};
use crate::view::View;

rule! { Term ProviderAffinity {
    large: u32 = LARGE_JOB,
    affinity_bulk: f64 = number(0.2, "", "Value of a large job on a bulk provider."),
    affinity_exact: f64 = number(0.1, "", "Value of a small job on an exact provider."),
    default_provider: String = DEFAULT_PROVIDER_PARAM,
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "provider-affinity",
    range: (0.0, Some(0.2)),
    description: "Prefers bulk providers for large jobs and exact providers for small ones.",
    params: ProviderAffinity::PARAMS,
    ..TermInfo::of(Family::BinPack, ProviderAffinity::build)
};

impl Term for ProviderAffinity {
    fn score(&self, view: &View<'_>) -> f64 {
        let name =
            view.node.block.as_ref().map_or(self.default_provider.as_str(), |block| block.provider.as_str());
        let provider = view.pass.world.providers.iter().find(|provider| provider.name.as_str() == name);
        match provider.map(|provider| provider.class) {
            Some(ProviderKind::Bulk) if view.spec.gpu_count >= self.large => self.affinity_bulk,
            Some(ProviderKind::Exact) if view.spec.gpu_count < self.large => self.affinity_exact,
            _ => 0.0,
        }
    }
}
