//! The built-in policies, spelled as data in the same form as a user's own file.

use crate::policy::{Policy, PolicyError};
use crate::policy_file;

/// Name and text of each built-in policy.
pub const ALL: &[(&str, &str)] = &[
    ("fit", include_str!("../policies/fit.toml")),
    ("bin-pack", include_str!("../policies/bin-pack.toml")),
    ("fgd", include_str!("../policies/fgd.toml")),
    ("first-fit", include_str!("../policies/first-fit.toml")),
    ("best-fit", include_str!("../policies/best-fit.toml")),
    ("dot-product", include_str!("../policies/dot-product.toml")),
    ("gpu-packing", include_str!("../policies/gpu-packing.toml")),
    ("gpu-clustering", include_str!("../policies/gpu-clustering.toml")),
    ("random", include_str!("../policies/random.toml")),
    ("offer-standard", include_str!("../policies/offer-standard.toml")),
    ("offer-locality", include_str!("../policies/offer-locality.toml")),
    ("offer-scope", include_str!("../policies/offer-scope.toml")),
    ("balanced", include_str!("../policies/balanced.toml")),
    ("hpc-batch", include_str!("../policies/hpc-batch.toml")),
    ("ml-training", include_str!("../policies/ml-training.toml")),
    ("service", include_str!("../policies/service.toml")),
    ("sensitive", include_str!("../policies/sensitive.toml")),
    ("interactive", include_str!("../policies/interactive.toml")),
    ("service-lite", include_str!("../policies/service-lite.toml")),
    ("interactive-lite", include_str!("../policies/interactive-lite.toml")),
];

/// The policy used where a pull pool names one that does not exist.
pub const PULL_DEFAULT: &str = "resource-aware";

/// The file of a built-in policy.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A built-in policy, ready to use.
#[must_use]
pub fn policy(name: &str) -> Option<Result<Policy, PolicyError>> {
    let spec = policy_file::parse(text(name)?).map_err(|e| PolicyError::at(e.field, e.message));
    Some(spec.and_then(Policy::compile))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_compiles_without_warning_under_its_own_name() {
        for (name, _) in ALL {
            let policy = policy(name).expect("it is listed").unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(policy.name(), *name);
            assert_eq!(policy.warnings(), [""; 0], "{name}");
        }
    }
}
