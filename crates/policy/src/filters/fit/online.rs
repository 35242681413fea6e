//! Filter `online`: the node was heard lately.

use crate::filter::{About, Filter, FilterInfo};
use crate::params::rule;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;
use landfall_model::Millis;

rule! { Filter Online {
    online_within_ms: Millis = whole(30_000, "ms", "Oldest heartbeat of a node that counts as online."),
} }

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "online",
    description: "Admits nodes that were heard lately.",
    reasons: &[Reason::Offline],
    params: Online::PARAMS,
    clock: true,
    about: About::Moment,
    ..FilterInfo::of(Online::build)
};

impl Filter for Online {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let heard = view.node.heartbeat_at?;
        let age = view.now().since(heard);
        if age <= self.online_within_ms {
            return None;
        }
        let found = Quantity::Ms(age);
        Some(
            Refusal::not_now(Reason::Offline, Quantity::Ms(self.online_within_ms), found, Wake::Heartbeat)
                .remedy(view.say(|| {
                    format!(
                        "the node was last heard {age} ago and must be heard every {}; check its agent and network",
                        self.online_within_ms
                    )
                })),
        )
    }
}
