//! Filter `cooldown`: the node is not resting after a fault.

use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "cooldown",
    description: "Admits nodes that are not cooling down after a fault.",
    reasons: &[Reason::CoolingDown],
    clock: true,
    about: About::Moment,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    let until = view.node.cooldown_until.filter(|&until| view.now() < until)?;
    Some(
        Refusal::not_now(Reason::CoolingDown, Quantity::AtMs(until), Quantity::AtMs(view.now()), Wake::Timer)
            .remedy(view.say(|| format!("wait {}", until.since(view.now()))))
            .until(until),
    )
}
