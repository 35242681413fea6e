//! Filter `pack-expiry`: the lease outlasts the job.

use crate::filter::{About, Filter, FilterInfo};
use crate::params::rule;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::rules::capacity::{PREDICT_DURATIONS, SAFETY_MARGIN_MS};
use crate::view::View;
use landfall_model::Millis;

rule! { Filter PackExpiry {
    margin: Millis = SAFETY_MARGIN_MS,
    predict: bool = PREDICT_DURATIONS,
} }

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pack-expiry",
    description: "Admits nodes whose lease outlasts the job by a margin.",
    reasons: &[Reason::Expiry],
    params: PackExpiry::PARAMS,
    clock: true,
    about: About::Moment,
    ..FilterInfo::of(PackExpiry::build)
};

impl Filter for PackExpiry {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let end = view.node.block.as_ref()?.ends_at()?;
        let (needed, left) = (view.durations(self.predict).0 + self.margin, end.since(view.now()));
        if left >= needed {
            return None;
        }
        Some(
            Refusal::never(Reason::Expiry, Quantity::Ms(needed), Quantity::Ms(left), Wake::LeaseExtended)
                .remedy(view.say(|| format!("extend the lease by {}", needed.saturating_sub(left)))),
        )
    }
}
