//! Which policy is replayed: one for logs, a built-in one, or a file.

use std::path::Path;

use landfall_policy::{builtin, policy_file};
use landfall_replay::machine::{LOG_POLICIES, LogPolicy};
use landfall_replay::subject::{Chosen, PolicyKind, Subject};

use super::subject::usage;
use crate::error::CliError;
use crate::input::Input;

/// The policy of a subject for which none is named.
pub(super) fn default_of(subject: &Subject) -> &'static str {
    match subject {
        Subject::Log(_) => "easy",
        Subject::Pods(_) => "fgd",
        Subject::Cluster(_) => "balanced",
    }
}

/// Finds a policy by name or file.
pub(super) fn choose(name: &str, subject: &Subject) -> Result<Chosen, CliError> {
    let chosen = |what| Chosen { name: name.to_owned(), what };
    if matches!(subject, Subject::Log(_))
        && let Some(policy) = LogPolicy::named(name)
    {
        return Ok(chosen(PolicyKind::Log(policy)));
    }
    if let Some(spec) = builtin::spec(name) {
        let spec = spec.map_err(|error| usage(&error.to_string(), "use another policy"))?;
        return Ok(chosen(PolicyKind::Spec(Box::new(spec))));
    }
    let path = Path::new(name);
    if path.extension().is_some() || path.exists() {
        let input = Input::read(path)?;
        let policy = policy_file::load(&input.text).map_err(|error| input.invalid(error))?;
        return Ok(chosen(PolicyKind::Spec(Box::new(policy.spec().clone()))));
    }
    let known: Vec<&str> = LOG_POLICIES
        .iter()
        .map(|(name, ..)| *name)
        .filter(|_| matches!(subject, Subject::Log(_)))
        .chain(builtin::ALL.iter().map(|(name, _)| *name))
        .collect();
    let all = format!("policies here: {}", known.join(", "));
    Err(CliError::no_such("policy", name, known).or_hint(&all))
}
