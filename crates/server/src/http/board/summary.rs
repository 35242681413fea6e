//! Scores of recent decisions in numbers.

use std::collections::BTreeMap;

use landfall_api::answer::DecisionView;
use serde::Serialize;
use utoipa::ToSchema;

/// Bins of the histogram.
const BINS: usize = 12;

/// One bin.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Bin {
    /// From this score on.
    pub(crate) lo: f64,
    /// Up to this one.
    pub(crate) hi: f64,
    /// Decisions in it.
    pub(crate) count: u64,
}

/// What one rule gave.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct RuleSummary {
    /// The rule.
    pub(crate) rule: String,
    /// On average.
    pub(crate) avg: f64,
    /// At least.
    pub(crate) min: f64,
    /// At most.
    pub(crate) max: f64,
}

/// Scores of recent decisions in numbers.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Summary {
    /// Decisions looked at.
    pub(crate) sample_size: u64,
    /// Smallest total.
    pub(crate) score_min: f64,
    /// Largest total.
    pub(crate) score_max: f64,
    /// Mean of the totals.
    pub(crate) score_avg: f64,
    /// Twelve bins from the smallest to the largest.
    pub(crate) histogram: Vec<Bin>,
    /// Rules by the size of their average, largest first.
    pub(crate) rules: Vec<RuleSummary>,
}

fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

/// Adds decisions up.
pub(crate) fn summary(decisions: &[DecisionView]) -> Summary {
    let totals: Vec<f64> = decisions.iter().filter_map(|decision| decision.total).collect();
    let count = totals.len();
    let (mut min, mut max) = (0.0, 0.0);
    if let Some(first) = totals.first() {
        (min, max) =
            totals.iter().fold((*first, *first), |(min, max), score| (score.min(min), score.max(max)));
    }
    let span = max - min;
    let width = span / BINS as f64;
    let mut counts = [0u64; BINS];
    for score in &totals {
        let bin = if span > 0.0 { ((score - min) / span * BINS as f64) as usize } else { 0 };
        counts[bin.min(BINS - 1)] += 1;
    }
    let bin = |(place, count): (usize, &u64)| Bin {
        lo: rounded(min + width * place as f64),
        hi: rounded(min + width * (place + 1) as f64),
        count: *count,
    };
    let mut rules: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for term in decisions.iter().filter(|decision| decision.total.is_some()).flat_map(|it| &it.terms) {
        rules.entry(&term.term).or_default().push(term.points);
    }
    let mut rules: Vec<RuleSummary> = rules
        .into_iter()
        .map(|(rule, points)| RuleSummary {
            rule: rule.to_owned(),
            avg: rounded(points.iter().sum::<f64>() / points.len() as f64),
            min: rounded(points.iter().copied().fold(f64::INFINITY, f64::min)),
            max: rounded(points.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        })
        .collect();
    rules.sort_by(|a, b| b.avg.abs().total_cmp(&a.avg.abs()).then_with(|| a.rule.cmp(&b.rule)));
    Summary {
        sample_size: count as u64,
        score_min: rounded(min),
        score_max: rounded(max),
        score_avg: rounded(if count == 0 { 0.0 } else { totals.iter().sum::<f64>() / count as f64 }),
        histogram: counts.iter().enumerate().map(bin).collect(),
        rules,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(total: f64, points: &[(&str, f64)]) -> DecisionView {
        let terms = points.iter().map(|(term, points)| landfall_model::life::Points {
            term: (*term).to_owned().into(),
            raw: *points,
            points: *points,
        });
        DecisionView {
            seq: 1,
            at_ms: 0,
            job: Some("1".into()),
            asked: None,
            pool: None,
            kind: "start".into(),
            nodes: Vec::new(),
            total: Some(total),
            terms: terms.collect(),
            runner_up: None,
            looked_at: 0,
            runners_up: Vec::new(),
            against: Vec::new(),
            facts: Default::default(),
            heard_ms: None,
        }
    }

    #[test]
    fn without_rows_all_is_zero() {
        let empty = summary(&[]);
        assert_eq!((empty.sample_size, empty.score_min, empty.score_avg), (0, 0.0, 0.0));
        assert_eq!(empty.histogram.len(), 12);
        assert!(empty.histogram.iter().all(|bin| bin.count == 0) && empty.rules.is_empty());
    }

    #[test]
    fn the_largest_is_in_the_last_bin_and_equal_ones_in_the_first() {
        let spread = summary(&[decision(0.0, &[("a", -5.0)]), decision(12.0, &[("a", -7.0), ("b", 1.0)])]);
        let counts: Vec<u64> = spread.histogram.iter().map(|bin| bin.count).collect();
        assert_eq!(counts, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(spread.rules[0], RuleSummary { rule: "a".into(), avg: -6.0, min: -7.0, max: -5.0 });
        let equal = summary(&[decision(3.0, &[]), decision(3.0, &[])]);
        assert_eq!((equal.histogram[0].count, equal.score_avg), (2, 3.0));
    }
}
