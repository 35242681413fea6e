//! `headroom`: how much else the node could still take.

use crate::params::rule;
use crate::rules::fit::Runtime;
use crate::score::clamp100;
use crate::term::{Family, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::View;

/// What each active job costs a GPU runtime and a WASM node.
const PER_ACTIVE_GPU: f64 = 25.0;
const PER_ACTIVE_WASM: f64 = 5.0;
/// What a busy phone is worth.
const BUSY_MODEL: f64 = 20.0;

rule! { Term Headroom {
    slot_points: f64 = at_least(25.0, 0.0, "points", "Points of a container job per free slot."),
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "headroom",
    range: (0.0, Some(100.0)),
    unit: "points",
    description: "How much more the node could take beside what runs there already.",
    params: Headroom::PARAMS,
    ..TermInfo::of(Family::Fit, Headroom::build)
};

impl Term for Headroom {
    fn score(&self, view: &View<'_>) -> f64 {
        let active = view.node.active();
        match Runtime::of(view.spec) {
            Runtime::Llmcpp | Runtime::Diffusers => (100.0 - PER_ACTIVE_GPU * active as f64).max(0.0),
            Runtime::Container => {
                let asked = if view.spec.cpu_milli.is_zero() { 1000 } else { view.spec.cpu_milli.get() };
                let slots = (view.node.cpu_total.get() / asked).max(1) as f64 - active as f64;
                clamp100(self.slot_points * slots)
            }
            Runtime::Wasm => (100.0 - PER_ACTIVE_WASM * active as f64).max(0.0),
            Runtime::Model => {
                if active == 0 {
                    100.0
                } else {
                    BUSY_MODEL
                }
            }
        }
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        facts.note("active", Fact::Count(view.node.active()));
    }
}
