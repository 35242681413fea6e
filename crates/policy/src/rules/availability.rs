//! How well a fleet could run a workload now: what its owner sees before submitting anything.

use std::collections::BTreeMap;

use landfall_model::{Job, JobId, JobSpec, Situation};
use serde::Serialize;

use crate::policy::Policy;
use crate::verdict::{Fact, Level, Ranking};

/// How well a fleet could run a workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Availability {
    /// Nodes that pass all filters with a level above `too_tight`.
    pub ready: u64,
    /// Level of the best node.
    pub best_level: Option<Level>,
    /// Total of the best node.
    pub best_score: Option<f64>,
    /// Tokens per second of the best node; only for LLMs.
    pub estimated_throughput: Option<f64>,
    /// Nodes that pass all filters, by level.
    pub levels: BTreeMap<Level, u64>,
    /// Nodes by reason against them; a node counts under each of its reasons.
    pub filtered: BTreeMap<&'static str, u64>,
}

impl Availability {
    /// How well the fleet could run a job of this spec, wherever it asks to be.
    pub fn of(policy: &Policy, situation: &Situation, spec: &JobSpec) -> Self {
        let anywhere = JobSpec { region: None, ..spec.clone() };
        let id = JobId::new("availability").unwrap_or_else(|_| unreachable!("a literal id is valid"));
        let job = Job::new(id, anywhere.into(), situation.now);
        Self::from_ranking(&policy.rank_nodes(situation, &job), spec.runs_with("llmcpp"))
    }

    fn from_ranking(ranking: &Ranking, is_llm: bool) -> Self {
        let mut levels = BTreeMap::from(
            [Level::Perfect, Level::Good, Level::Marginal, Level::TooTight].map(|level| (level, 0)),
        );
        for level in ranking.candidates.iter().filter_map(|verdict| verdict.level) {
            *levels.entry(level).or_default() += 1;
        }
        let best = ranking.winner.as_ref().filter(|_| !ranking.fallback);
        let best = best.and_then(|id| ranking.candidates.iter().find(|verdict| verdict.candidate == *id));
        let estimate = best.and_then(|verdict| match verdict.facts.get("estimate") {
            Some(Fact::Number(tok_s)) => Some(*tok_s),
            _ => None,
        });
        Self {
            ready: levels
                .iter()
                .filter(|(level, _)| **level != Level::TooTight)
                .map(|(_, count)| count)
                .sum(),
            best_level: best.and_then(|verdict| verdict.level),
            best_score: best.and_then(|verdict| verdict.total),
            estimated_throughput: estimate.filter(|_| is_llm),
            levels,
            filtered: ranking.reasons.iter().map(|count| (count.reason.name(), count.candidates)).collect(),
        }
    }
}
