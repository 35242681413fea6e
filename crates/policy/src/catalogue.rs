//! The public list of filters, terms and device choices.

use crate::filter::FilterInfo;
use crate::term::TermInfo;
use crate::{filters, terms};

/// All terms.
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

/// All filters.
pub fn filters() -> impl Iterator<Item = &'static FilterInfo> + Clone {
    [filters::fit::ALL, filters::binpack::ALL, filters::pull::ALL, filters::batch::ALL, filters::offer::ALL]
        .into_iter()
        .flatten()
        .copied()
}

/// The term of that name.
#[must_use]
pub fn term(name: &str) -> Option<&'static TermInfo> {
    terms().find(|info| info.name == name)
}

/// The filter of that name.
#[must_use]
pub fn filter(name: &str) -> Option<&'static FilterInfo> {
    filters().find(|info| info.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_everything_is_described() {
        let mut names: Vec<_> = terms().map(|info| info.name).chain(filters().map(|info| info.name)).collect();
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
