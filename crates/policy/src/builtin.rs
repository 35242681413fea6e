//! The built-in policies, spelled as data in the same form as a user's own file.

use crate::policy::{Policy, PolicyError};
use crate::policy_file;

/// Name and text of each built-in policy.
pub const ALL: &[(&str, &str)] = &[
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
