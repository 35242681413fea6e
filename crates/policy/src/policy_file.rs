//! Reads policy files.

use landfall_model::scenario::{Format, ScenarioError, decode, locate};

use crate::policy::{Policy, PolicyError};
use crate::spec::PolicySpec;

/// Reads a policy file without resolving it.
pub fn parse(text: &str) -> Result<PolicySpec, ScenarioError> {
    decode(text, Format::Toml)
}

/// Reads and resolves a policy file; errors carry field and position.
pub fn load(text: &str) -> Result<Policy, ScenarioError> {
    Policy::compile(parse(text)?).map_err(|error| located(error, text))
}

/// A policy error with its place in the file.
#[must_use]
pub fn located(error: PolicyError, text: &str) -> ScenarioError {
    ScenarioError {
        position: locate(text, Format::Toml, &error.field),
        field: error.field,
        message: error.message,
        hint: error.hint,
    }
}
