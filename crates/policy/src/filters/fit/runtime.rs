//! Filter `runtime`: the node has what runs the job.

use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Quantity, Refusal, Wake};
use crate::view::View;

/// What the catalogue says.
pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "runtime",
    description: "Admits nodes that have the job's runtime.",
    reasons: &["runtime_missing"],
    params: &[],
    clock: false,
    job_identity: false,
    build,
};

struct RuntimeFilter;

fn build(_: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(RuntimeFilter))
}

impl Filter for RuntimeFilter {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        if view.node.runtimes.contains(&view.spec.runtime) {
            return None;
        }
        let found = if view.explains { view.node.runtimes.iter().cloned().collect() } else { Vec::new() };
        Some(
            Refusal::never(
                "runtime_missing",
                Quantity::Name(view.spec.runtime.clone()),
                Quantity::Names(found),
                Wake::RegistrationChange,
            )
            .remedy(view.say(|| format!("install the runtime `{}` on the node", view.spec.runtime))),
        )
    }
}
