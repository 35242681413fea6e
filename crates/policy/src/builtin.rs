//! The built-in policies, spelled as data in the same form as a user's own file.

use landfall_model::PolicySetting;
use landfall_model::scenario::closest;

use crate::policy::{Policy, PolicyError};
use crate::policy_file;
use crate::spec::PolicySpec;

/// Name and text of each built-in policy.
pub const ALL: &[(&str, &str)] = &[
    ("fit", include_str!("../policies/fit.toml")),
    ("bin-pack", include_str!("../policies/bin-pack.toml")),
    ("fgd", include_str!("../policies/fgd.toml")),
    ("landfall-pack", include_str!("../policies/landfall-pack.toml")),
    ("first-fit", include_str!("../policies/first-fit.toml")),
    ("best-fit", include_str!("../policies/best-fit.toml")),
    ("dot-product", include_str!("../policies/dot-product.toml")),
    ("gpu-packing", include_str!("../policies/gpu-packing.toml")),
    ("gpu-clustering", include_str!("../policies/gpu-clustering.toml")),
    ("random", include_str!("../policies/random.toml")),
    ("offer-standard", include_str!("../policies/offer-standard.toml")),
    ("offer-locality", include_str!("../policies/offer-locality.toml")),
    ("offer-scope", include_str!("../policies/offer-scope.toml")),
    ("simple", include_str!("../policies/simple.toml")),
    ("resource-aware", include_str!("../policies/resource-aware.toml")),
    ("balanced", include_str!("../policies/balanced.toml")),
    ("hpc-batch", include_str!("../policies/hpc-batch.toml")),
    ("ml-training", include_str!("../policies/ml-training.toml")),
    ("service", include_str!("../policies/service.toml")),
    ("sensitive", include_str!("../policies/sensitive.toml")),
    ("interactive", include_str!("../policies/interactive.toml")),
    ("service-lite", include_str!("../policies/service-lite.toml")),
    ("interactive-lite", include_str!("../policies/interactive-lite.toml")),
];

/// The policy used where a pool names one that does not exist.
pub const FALLBACK: &str = "resource-aware";

/// The file of a built-in policy.
pub fn text(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A built-in policy, ready to use.
pub fn policy(name: &str) -> Option<Result<Policy, PolicyError>> {
    Some(spec(name)?.and_then(Policy::compile))
}

/// The data of a built-in policy.
pub fn spec(name: &str) -> Option<Result<PolicySpec, PolicyError>> {
    Some(policy_file::parse(text(name)?).map_err(|e| PolicyError::at(e.field, e.message)))
}

/// The policy of a pool that names a built-in one. An unknown name does not stop the pool: it falls back to [`FALLBACK`],
/// whose own name is then reported, with one warning that names the unknown one.
pub fn pool_policy(name: &str) -> (Policy, Option<String>) {
    pool_policy_with(name, &PolicySetting::default())
        .unwrap_or_else(|error| unreachable!("every built-in policy compiles: {error}"))
}

/// The same with a pool's own settings. What they get wrong, such as an unknown preset, is an error.
pub fn pool_policy_with(
    name: &str,
    setting: &PolicySetting,
) -> Result<(Policy, Option<String>), PolicyError> {
    let (found, warning) = match spec(name) {
        Some(found) => (Some(found), None),
        None => {
            let near = closest(name, ALL.iter().map(|(known, _)| *known));
            let near = near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
            let warning = format!("there is no policy `{name}`{near}; the pool uses `{FALLBACK}` instead");
            (spec(FALLBACK), Some(warning))
        }
    };
    let mut spec = found.ok_or_else(|| PolicyError::at("name", format!("there is no policy `{name}`")))??;
    spec.apply(setting).map_err(|message| PolicyError::at("policy", message))?;
    Ok((Policy::compile(spec)?, warning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_compiles_without_warning_under_its_own_name() {
        for (name, _) in ALL {
            let policy =
                policy(name).expect("it is listed").unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(policy.name(), *name);
            assert_eq!(policy.warnings(), [""; 0], "{name}");
        }
    }

    #[test]
    fn p27_an_unknown_name_falls_back_with_one_warning() {
        let named = |name| {
            let (policy, warning) = pool_policy(name);
            (policy.name().to_owned(), warning)
        };
        assert_eq!(named("simple"), ("simple".into(), None));
        assert_eq!(named("resource-aware"), ("resource-aware".into(), None));
        let (name, warning) = named("nonsense");
        assert_eq!(name, "resource-aware");
        assert!(warning.unwrap().contains("`nonsense`"));
    }

    #[test]
    fn an_unknown_preset_is_an_error() {
        let mut setting = PolicySetting::default();
        setting.params.insert("preset".into(), "upstream".into());
        assert!(pool_policy_with("simple", &setting).is_ok());
        setting.params.insert("preset".into(), "downstream".into());
        let error = pool_policy_with("simple", &setting).unwrap_err();
        assert!(error.field.ends_with("preset"), "{error}");
        assert!(error.message.contains("documented, upstream"), "{error}");
    }
}
