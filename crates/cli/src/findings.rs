//! Summaries of a ranking: refused candidates by their reasons, the smallest change that helps most, and two verdicts
//! side by side. Only counting and subtracting: what is summed up was decided by the policy.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use landfall_model::Name;
use landfall_model::reason::{Finality, Reason};
use landfall_policy::verdict::{Ranking, TermScore, Verdict};
use serde::Serialize;

/// Candidates that are named per group; more would hide the rest of the page.
const EXAMPLES: usize = 3;

/// Refused candidates that have the same reasons.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Group {
    pub(crate) reasons: Vec<Reason>,
    /// How many candidates have exactly these.
    pub(crate) candidates: u64,
    /// Whether waiting may lift all of them.
    pub(crate) may_pass: bool,
    /// Some of the candidates.
    pub(crate) examples: Vec<Name>,
}

/// A change that would let some refused candidates in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Suggestion {
    /// The reasons that it lifts.
    pub(crate) reasons: Vec<Reason>,
    /// How many candidates it lets in.
    pub(crate) candidates: u64,
    /// What to do about each reason, as the filters say it for one of these candidates.
    pub(crate) remedies: Vec<Remedy>,
    pub(crate) example: Name,
}

/// What to do about one reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Remedy {
    pub(crate) reason: Reason,
    /// What to do, for people.
    pub(crate) remedy: String,
}

/// What one term gave to two candidates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct TermDifference {
    pub(crate) term: Cow<'static, str>,
    /// What it gave to the candidate.
    pub(crate) candidate: f64,
    /// What it gave to the other.
    pub(crate) against: f64,
    /// The first minus the second.
    pub(crate) difference: f64,
}

/// Two candidates side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Comparison {
    pub(crate) candidate: Name,
    pub(crate) against: Name,
    /// Total of the candidate minus total of the other.
    pub(crate) difference: f64,
    /// Term by term, in policy order.
    pub(crate) terms: Vec<TermDifference>,
    /// Factor by factor, in policy order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) multipliers: Vec<TermDifference>,
    /// The fewest terms that would make up for the difference if they gave the candidate what they gave the other.
    pub(crate) would_close: Vec<Cow<'static, str>>,
}

/// Groups the refused candidates by the set of their reasons, largest group first.
pub(crate) fn groups(ranking: &Ranking) -> Vec<Group> {
    let mut groups: BTreeMap<Vec<Reason>, Group> = BTreeMap::new();
    for verdict in ranking.candidates.iter().filter(|verdict| !verdict.is_admitted()) {
        let reasons = reasons_of(verdict);
        let group = groups.entry(reasons).or_insert_with_key(|reasons| Group {
            reasons: reasons.clone(),
            candidates: 0,
            may_pass: true,
            examples: Vec::new(),
        });
        group.candidates += 1;
        group.may_pass &= verdict.refusals.iter().all(|refused| refused.refusal.class == Finality::NotNow);
        if group.examples.len() < EXAMPLES {
            group.examples.push(verdict.candidate.clone());
        }
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    let names = |group: &Group| -> Vec<&str> { group.reasons.iter().map(|reason| reason.name()).collect() };
    groups.sort_by_cached_key(|group| (Reverse(group.candidates), names(group)));
    groups
}

/// The smallest set of reasons that stands alone against some candidates; among equally small ones, against the most.
pub(crate) fn suggestion(ranking: &Ranking, groups: &[Group]) -> Option<Suggestion> {
    let group = groups.iter().min_by_key(|group| (group.reasons.len(), Reverse(group.candidates)))?;
    let example =
        ranking.candidates.iter().find(|verdict| Some(&verdict.candidate) == group.examples.first())?;
    let refusals = example.refusals.iter().map(|refused| &refused.refusal);
    let refusals = refusals.filter(|refusal| !refusal.remedy.is_empty());
    let remedies =
        refusals.map(|refusal| Remedy { reason: refusal.reason, remedy: refusal.remedy.to_string() });
    let remedies = remedies.collect();
    Some(Suggestion {
        reasons: group.reasons.clone(),
        candidates: group.candidates,
        remedies,
        example: example.candidate.clone(),
    })
}

/// Puts two admitted candidates of one ranking side by side.
pub(crate) fn compare(candidate: &Verdict, against: &Verdict) -> Comparison {
    let difference = candidate.total.unwrap_or_default() - against.total.unwrap_or_default();
    let terms = differences(&candidate.terms, &against.terms);
    let multipliers = differences(&candidate.multipliers, &against.multipliers);
    // A factor changes what every term is worth, so no sum of terms can be said to close the gap.
    let would_close = if multipliers.iter().all(|factor| factor.difference == 0.0) {
        closing(&terms, -difference)
    } else {
        Vec::new()
    };
    Comparison {
        candidate: candidate.candidate.clone(),
        against: against.candidate.clone(),
        difference,
        terms,
        multipliers,
        would_close,
    }
}

/// The reasons against a candidate, sorted, each once.
pub(crate) fn reasons_of(verdict: &Verdict) -> Vec<Reason> {
    let mut reasons: Vec<_> = verdict.refusals.iter().map(|refused| refused.refusal.reason).collect();
    reasons.sort_unstable_by_key(|reason: &Reason| reason.name());
    reasons.dedup();
    reasons
}

fn differences(candidate: &[TermScore], against: &[TermScore]) -> Vec<TermDifference> {
    let pairs = candidate.iter().zip(against);
    pairs
        .map(|(a, b)| TermDifference {
            term: a.term.clone(),
            candidate: a.contribution,
            against: b.contribution,
            difference: a.contribution - b.contribution,
        })
        .collect()
}

fn closing(terms: &[TermDifference], gap: f64) -> Vec<Cow<'static, str>> {
    let mut behind: Vec<_> = terms.iter().filter(|term| term.difference < 0.0).collect();
    behind.sort_by(|a, b| a.difference.total_cmp(&b.difference));
    let mut sum = 0.0;
    let mut taken = Vec::new();
    for term in behind {
        // Sums of differences and differences of sums agree only up to rounding.
        if sum >= gap - 1e-9 {
            break;
        }
        sum -= term.difference;
        taken.push(term.term.clone());
    }
    if sum >= gap - 1e-9 { taken } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(term: &'static str, difference: f64) -> TermDifference {
        TermDifference { term: term.into(), candidate: difference, against: 0.0, difference }
    }

    #[test]
    fn the_fewest_terms_close_a_gap() {
        let terms = [difference("a", -1.0), difference("b", -4.0), difference("c", 2.0)];
        assert_eq!(closing(&terms, 3.0), ["b"]);
        assert_eq!(closing(&terms, 5.0), ["b", "a"]);
        assert!(closing(&terms, 9.0).is_empty(), "not even all of them would do");
        assert!(closing(&terms, 0.0).is_empty(), "nothing to close");
    }
}
