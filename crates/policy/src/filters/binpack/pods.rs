//! Filter `pack-jobs`: a bound on the jobs of one node.

use crate::filter::{About, Filter, FilterInfo};
use crate::params::{ParamError, ParamInfo, Params};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

const JOBS_MAX: ParamInfo = ParamInfo::whole("jobs_max", 1001, "jobs", "Most jobs on one node.");

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pack-jobs",
    description: "Admits nodes that run fewer jobs than they can manage.",
    reasons: &[Reason::JobsFull],
    params: &[JOBS_MAX],
    about: About::Moment,
    ..FilterInfo::of(build)
};

struct PackJobs {
    jobs_max: u64,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(PackJobs { jobs_max: params.whole(&JOBS_MAX)? as u64 }))
}

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
