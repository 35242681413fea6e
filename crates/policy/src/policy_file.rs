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

/// A policy as the text of a file; `None` if it has a parameter that TOML cannot say.
pub fn text(spec: &PolicySpec) -> Option<String> {
    toml::to_string(spec).ok()
}

/// A policy error with its place in the file.
pub fn located(error: PolicyError, text: &str) -> ScenarioError {
    ScenarioError {
        position: locate(text, Format::Toml, &error.field),
        field: error.field,
        message: error.message,
        hint: error.hint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_policy_survives_being_written_and_read() {
        for (name, file) in crate::builtin::ALL {
            let spec = parse(file).expect("it is valid");
            let written = text(&spec).expect("it can be written");
            assert_eq!(parse(&written).expect("it can be read again"), spec, "{name}");
        }
    }
}
