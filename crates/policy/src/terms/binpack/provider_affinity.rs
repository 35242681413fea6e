//! `provider-affinity`: large jobs to providers of whole nodes, small ones to providers of exact sizes.

use landfall_model::ProviderClass;

use crate::params::{ParamError, ParamInfo, Params};
use crate::rules::capacity::{DEFAULT_PROVIDER_PARAM, LARGE_JOB};
use crate::term::{Class, Family, Term, TermInfo};
use crate::view::View;

const BULK: ParamInfo =
    ParamInfo::number("affinity_bulk", 0.2, "", "Value of a large job on a bulk provider.");
const EXACT: ParamInfo =
    ParamInfo::number("affinity_exact", 0.1, "", "Value of a small job on an exact provider.");

pub(crate) const INFO: TermInfo = TermInfo {
    name: "provider-affinity",
    class: Class::Soft,
    range: (0.0, Some(0.2)),
    description: "Prefers bulk providers for large jobs and exact providers for small ones.",
    params: &[LARGE_JOB, BULK, EXACT, DEFAULT_PROVIDER_PARAM],
    ..TermInfo::of(Family::BinPack, build)
};

struct ProviderAffinity {
    large: u32,
    bulk: f64,
    exact: f64,
    default_provider: String,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Term>, ParamError> {
    Ok(Box::new(ProviderAffinity {
        large: u32::try_from(params.whole(&LARGE_JOB)?).unwrap_or(u32::MAX),
        bulk: params.number(&BULK)?,
        exact: params.number(&EXACT)?,
        default_provider: params.word(&DEFAULT_PROVIDER_PARAM)?,
    }))
}

impl Term for ProviderAffinity {
    fn score(&self, view: &View<'_>) -> f64 {
        let name =
            view.node.block.as_ref().map_or(self.default_provider.as_str(), |block| block.provider.as_str());
        let provider = view.pass.world.providers.iter().find(|provider| provider.name.as_str() == name);
        match provider.map(|provider| provider.class) {
            Some(ProviderClass::Bulk) if view.spec.gpu_count >= self.large => self.bulk,
            Some(ProviderClass::Exact) if view.spec.gpu_count < self.large => self.exact,
            _ => 0.0,
        }
    }
}
