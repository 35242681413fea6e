//! Filter `pack-jobs`: a bound on the jobs of one node.

use crate::filter::{About, Filter, FilterInfo};
use crate::params::rule;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

rule! { Filter PackJobs {
    jobs_max: u64 = whole(1001, "jobs", "Most jobs on one node."),
} }

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pack-jobs",
    description: "Admits nodes that run fewer jobs than they can manage.",
    reasons: &[Reason::JobsFull],
    params: PackJobs::PARAMS,
    about: About::Moment,
    ..FilterInfo::of(PackJobs::build)
};

impl Filter for PackJobs {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let running = view.node.placements.len() as u64;
        if running < self.jobs_max {
            return None;
        }
        let needed = Quantity::Count(self.jobs_max - 1);
        Some(
            Refusal::not_now(Reason::JobsFull, needed, Quantity::Count(running), Wake::PlacementEnded)
                .remedy("wait until a job on the node ends"),
        )
    }
}
