//! Filter `cooldown`: the node is not resting after a fault.

use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Quantity, Refusal, Wake};
use crate::view::View;

/// What the catalogue says.
pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "cooldown",
    description: "Admits nodes that are not cooling down after a fault.",
    reasons: &["cooling_down"],
    params: &[],
    clock: true,
    job_identity: false,
    build,
};

struct Cooldown;

fn build(_: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(Cooldown))
}

impl Filter for Cooldown {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let until = view.node.cooldown_until.filter(|&until| view.now() < until)?;
        Some(
            Refusal::not_now("cooling_down", Quantity::AtMs(until), Quantity::AtMs(view.now()), Wake::Timer)
                .remedy(view.say(|| format!("wait {}", until.since(view.now()))))
                .until(until),
        )
    }
}
