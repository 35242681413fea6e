//! Filter `online`: the node was heard lately.

use crate::filter::{About, Filter, FilterInfo};
use crate::params::{ParamError, ParamInfo, Params};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;
use landfall_model::Millis;

const ONLINE_WITHIN: ParamInfo =
    ParamInfo::whole("online_within_ms", 30_000, "ms", "Oldest heartbeat of a node that counts as online.");

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "online",
    description: "Admits nodes that were heard lately.",
    reasons: &[Reason::Offline],
    params: &[ONLINE_WITHIN],
    clock: true,
    about: About::Moment,
    ..FilterInfo::of(build)
};

struct Online {
    within: Millis,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(Online { within: Millis::new(params.whole(&ONLINE_WITHIN)? as u64) }))
}

impl Filter for Online {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let heard = view.node.heartbeat_at?;
        let age = view.now().since(heard);
        if age <= self.within {
            return None;
        }
        let found = Quantity::Ms(age);
        Some(
            Refusal::not_now(Reason::Offline, Quantity::Ms(self.within), found, Wake::Heartbeat)
                .remedy(view.say(|| {
                    format!(
                        "the node was last heard {age} ago and must be heard every {}; check its agent and network",
                        self.within
                    )
                })),
        )
    }
}
