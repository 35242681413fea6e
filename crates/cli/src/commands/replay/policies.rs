//! Which policy is replayed: one for logs, a built-in one, or a file.

use std::path::Path;

use landfall_model::scenario::closest;
use landfall_policy::{builtin, policy_file};
use landfall_replay::machine::{LOG_POLICIES, LogPolicy};
use landfall_replay::subject::{Chosen, PolicyKind, Subject};
use landfall_replay::trace::source::sha256;

use crate::error::{CliError, usage};
use crate::input::Input;

/// Whatever the pools of a cluster say themselves.
const OWN: &str = "own";

/// The policy of a subject for which none is named.
pub(super) fn default_of(subject: &Subject) -> &'static str {
    match subject {
        Subject::Log(_) => "easy",
        Subject::Pods(_) => "fgd",
        Subject::Cluster(cluster) if cluster.has_pools() => OWN,
        Subject::Cluster(_) => "balanced",
    }
}

/// Finds a policy by name or file.
pub(super) fn choose(name: &str, subject: &Subject) -> Result<Chosen, CliError> {
    let chosen = |what| Chosen { name: name.to_owned(), what, sha256: None };
    if name == OWN && matches!(subject, Subject::Cluster(_)) {
        return Ok(chosen(PolicyKind::Own));
    }
    if matches!(subject, Subject::Log(_))
        && let Some(policy) = LogPolicy::named(name)
    {
        return Ok(chosen(PolicyKind::Log(policy)));
    }
    if LogPolicy::named(name).is_some() && !matches!(subject, Subject::Log(_)) {
        let what = format!("policy `{name}` is for batch logs, and {} is none", subject.name());
        return Err(usage(&what, "use a policy that scores, see `landfall policy list`"));
    }
    if let Some(spec) = builtin::spec(name) {
        let spec = spec.map_err(|error| usage(error.to_string(), "use another policy"))?;
        return Ok(chosen(PolicyKind::Spec(Box::new(spec))));
    }
    let path = Path::new(name);
    if path.extension().is_some() || path.exists() {
        let input = Input::read(path)?;
        let policy = policy_file::load(&input.text).map_err(|error| input.invalid(error))?;
        // Reports name the policy as it names itself: paths differ from machine to machine.
        let spec = policy.spec().clone();
        let name = if spec.name.is_empty() { name.to_owned() } else { spec.name.clone() };
        let sha256 = Some(sha256(input.text.as_bytes()));
        return Ok(Chosen { name, what: PolicyKind::Spec(Box::new(spec)), sha256 });
    }
    let known: Vec<&str> = LOG_POLICIES
        .iter()
        .map(|(name, ..)| *name)
        .filter(|_| matches!(subject, Subject::Log(_)))
        .chain(builtin::ALL.iter().map(|(name, _)| *name))
        .collect();
    let near = closest(name, known.iter().copied()).map(|near| format!("did you mean `{near}`? "));
    let hint = format!("{}policies here: {}", near.unwrap_or_default(), known.join(", "));
    // Exit code 4 is for bounds that were broken, so a wrong name counts as a wrong command line.
    Err(usage(format!("there is no policy `{name}`"), &hint))
}
