//! The public list of filters, terms and device choices.

use serde::Serialize;

use crate::filter::FilterInfo;
use crate::term::{TermInfo, TermKind};
use crate::{builtin, filters, terms};

pub fn terms() -> impl Iterator<Item = &'static TermInfo> + Clone {
    [
        terms::fit::ALL,
        terms::binpack::ALL,
        terms::pull::ALL,
        terms::batch::ALL,
        terms::offer::ALL,
        terms::packing::ALL,
    ]
    .into_iter()
    .flatten()
    .copied()
}

pub fn filters() -> impl Iterator<Item = &'static FilterInfo> + Clone {
    [filters::fit::ALL, filters::binpack::ALL, filters::pull::ALL, filters::batch::ALL, filters::offer::ALL]
        .into_iter()
        .flatten()
        .copied()
}

pub fn term(name: &str) -> Option<&'static TermInfo> {
    terms().find(|info| info.name == name)
}

pub fn filter(name: &str) -> Option<&'static FilterInfo> {
    filters().find(|info| info.name == name)
}

/// What people are told about a rule of pull pools.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PullRule {
    pub rule: &'static str,
    /// What it does, in one sentence.
    pub description: &'static str,
    /// What it may do to a total.
    pub class: TermKind,
    /// Smallest and largest value with default parameters.
    pub range: (f64, Option<f64>),
    /// Whether the default policy of pull pools uses it.
    pub enabled: bool,
}

/// The rules of pull pools, sorted by name: those that the default policy uses, or all that there are.
pub fn pull_rules(all: bool) -> Vec<PullRule> {
    let used = builtin::spec(builtin::FALLBACK).and_then(Result::ok).map_or_else(Vec::new, |spec| spec.terms);
    let mut rules: Vec<PullRule> = terms::pull::ALL
        .iter()
        .map(|info| PullRule {
            rule: info.name,
            description: info.description,
            class: info.class,
            range: info.range,
            enabled: used.iter().any(|term| term.enabled && term.name == info.name),
        })
        .filter(|rule| all || rule.enabled)
        .collect();
    rules.sort_by_key(|rule| rule.rule);
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_everything_is_described() {
        let mut names: Vec<_> =
            terms().map(|info| info.name).chain(filters().map(|info| info.name)).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for info in terms() {
            assert!(info.description.ends_with('.') && info.description.len() > 20, "{}", info.name);
            assert!(info.range.1.is_none_or(|max| info.range.0 < max), "{}", info.name);
            assert!(info.params.iter().all(|param| !param.description.is_empty()), "{}", info.name);
        }
        for info in filters() {
            assert!(info.description.ends_with('.'), "{}", info.name);
            assert!(!info.reasons.is_empty(), "{}", info.name);
        }
    }
}
