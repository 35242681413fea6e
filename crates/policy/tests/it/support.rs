//! Short ways to a situation, a policy and a verdict.

use landfall_model::Situation;
use landfall_model::scenario::{Format, parse};
use landfall_policy::verdict::{Fact, Ranking, Verdict};
use landfall_policy::{Policy, builtin, policy_file};

/// A situation from a TOML scenario.
pub(crate) fn situation(text: &str) -> Situation {
    parse(text, Format::Toml).unwrap_or_else(|error| panic!("{error} at {:?}\n{text}", error.position))
}

/// A built-in policy with changes as a scenario's `[policy]` table makes them.
pub(crate) fn policy_for(name: &str, situation: &Situation) -> Policy {
    let mut spec = policy_file::parse(builtin::text(name).expect("a built-in")).expect("built-ins parse");
    spec.apply(&situation.world.policy).unwrap_or_else(|error| panic!("{error}"));
    Policy::compile(spec).unwrap_or_else(|error| panic!("{error}"))
}

/// Nodes ranked for a job of a scenario.
pub(crate) fn rank(policy: &str, scenario: &str, job: &str) -> Ranking {
    let situation = situation(scenario);
    policy_for(policy, &situation).rank_nodes(&situation, situation.job(job).expect("the job is there"))
}

pub(crate) fn of<'r>(ranking: &'r Ranking, candidate: &str) -> &'r Verdict {
    let found = ranking.candidates.iter().find(|verdict| verdict.candidate.as_str() == candidate);
    found.unwrap_or_else(|| panic!("no candidate {candidate}"))
}

/// The raw value of a term.
pub(crate) fn raw(verdict: &Verdict, term: &str) -> f64 {
    verdict
        .term(term)
        .unwrap_or_else(|| panic!("no term {term} for {}: {:?}", verdict.candidate, verdict.refusals))
        .raw
}

/// A number among the facts.
pub(crate) fn fact(verdict: &Verdict, name: &str) -> f64 {
    match verdict.facts.get(name) {
        Some(Fact::Number(number)) => *number,
        Some(Fact::Count(count)) => *count as f64,
        other => panic!("{name}: {other:?}"),
    }
}

/// Reasons against a candidate.
pub(crate) fn reasons(verdict: &Verdict) -> Vec<&'static str> {
    verdict.refusals.iter().map(|refused| refused.refusal.reason.name()).collect()
}

/// Equal within the tolerance of the specifications.
#[track_caller]
pub(crate) fn near(got: f64, want: f64, what: &str) {
    assert!((got - want).abs() < 1e-6, "{what}: {got}, not {want}");
}
