//! Filter `runtime`: the node has what runs the job.

use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "runtime",
    description: "Admits nodes that have the job's runtime.",
    reasons: &[Reason::RuntimeMissing],
    about: About::Registration,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    if view.node.runtimes.contains(&view.spec.runtime) {
        return None;
    }
    let found = if view.explains { view.node.runtimes.iter().cloned().collect() } else { Vec::new() };
    let (needed, found) = (Quantity::Name(view.spec.runtime.clone()), Quantity::Names(found));
    let refusal = Refusal::never(Reason::RuntimeMissing, needed, found, Wake::RegistrationChange);
    Some(refusal.remedy(view.say(|| match view.spec.runtime.as_str() {
        "wasm" => "install landfall-wasm beside landfall on the node (`make install`)".to_owned(),
        other => format!("install the runtime `{other}` on the node"),
    })))
}
