//! Helpers for the unit tests of batch terms and filters: one scenario in, one value out.

use std::collections::BTreeMap;

use landfall_model::Situation;
use landfall_model::scenario::{Format, parse};

use crate::filter::FilterInfo;
use crate::params::Params;
use crate::refusal::Refusal;
use crate::term::TermInfo;
use crate::verdict::Facts;
use crate::view::{Devices, Pass, View};

/// Runs `look` on the pair of the scenario's first job and first node.
pub(crate) fn with_view<T>(scenario: &str, ranks_nodes: bool, look: impl FnOnce(&View<'_>) -> T) -> T {
    let situation: Situation = parse(scenario, Format::Toml).unwrap();
    let pass = Pass::new(&situation);
    let (job, node, devices) = (&situation.jobs()[0], &situation.nodes()[0], Devices::default());
    let policy = crate::builtin::policy("balanced").unwrap().unwrap();
    let pair = crate::evaluate::Pair { pass: &pass, job, node, ranks_nodes };
    look(&View { explains: true, ..pair.view(&policy.filters, &devices) })
}

pub(crate) fn with_params<T>(params: &str, build: impl FnOnce(&Params<'_>) -> T) -> T {
    let (own, shared) = (toml::from_str(params).unwrap(), BTreeMap::new());
    build(&Params { own: &own, shared: &shared })
}

/// The value of a term in the queue score.
pub(crate) fn queue(info: &TermInfo, params: &str, scenario: &str) -> f64 {
    let term = with_params(params, info.build).unwrap();
    with_view(scenario, false, |view| term.score(view))
}

/// The value and the facts of a term when nodes are ranked.
pub(crate) fn node_set(info: &TermInfo, params: &str, scenario: &str) -> (f64, Facts) {
    let term = with_params(params, info.build).unwrap();
    with_view(scenario, true, |view| {
        let mut facts = Facts::default();
        term.explain(view, &mut facts);
        (term.score(view), facts)
    })
}

/// What a filter says.
pub(crate) fn refusal(info: &FilterInfo, scenario: &str) -> Option<Refusal> {
    let filter = with_params("", info.build).unwrap();
    with_view(scenario, false, |view| filter.check(view))
}

/// Asserts that two numbers agree to a millionth.
#[track_caller]
pub(crate) fn close(got: f64, want: f64) {
    assert!((got - want).abs() < 1e-6, "{got} is not {want}");
}
