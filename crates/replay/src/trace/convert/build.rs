//! Submissions out of plain numbers, refused with a reason where the model has no room for them.

use std::sync::Arc;

use landfall_model::{Job, JobId, JobSpec, Millis, NodeCount, TenantId, Time};

use super::Refused;
use crate::trace::own::Submission;

/// Latest instant that the own trace takes, in milliseconds.
const AT_MS_MAX: i64 = 1 << 50;

/// What every conversion knows of a job.
pub(super) struct Timing {
    pub(super) at_ms: i64,
    pub(super) run_ms: Option<u64>,
    /// What its user asked for; the run time where that is unknown.
    pub(super) estimate_ms: Option<u64>,
}

/// A submission; `fill` says what the job needs.
pub(super) fn submission(
    id: &str,
    timing: &Timing,
    fill: impl FnOnce(&mut JobSpec) -> Option<()>,
) -> Result<Submission, Refused> {
    let refused = |reason: &str| Refused::Job(reason.to_owned());
    let id = JobId::new(id).map_err(|_| refused("its name cannot be an id"))?;
    if !(0..=AT_MS_MAX).contains(&timing.at_ms) {
        return Err(refused("its submit time is out of range"));
    }
    let span = |ms: u64| Millis::try_new(ms).map_err(|_| refused("its run time is out of range"));
    let mut spec = JobSpec::empty();
    if let Some(ms) = timing.estimate_ms.or(timing.run_ms) {
        let estimate = span(ms.max(1))?;
        (spec.walltime_ms, spec.expected_duration_ms) = (estimate, estimate);
    }
    fill(&mut spec).ok_or_else(|| refused("its needs are out of range"))?;
    spec.validate().map_err(|error| Refused::Job(format!("its {} makes no sense", error.field)))?;
    let at = Time::from_millis(timing.at_ms);
    let run = timing.run_ms.map(span).transpose()?;
    Ok(Submission::new(at, run, Job::new(id, Arc::new(spec), at)))
}

pub(super) fn exactly(nodes: u64) -> Option<NodeCount> {
    let nodes = u32::try_from(nodes).ok()?;
    Some(NodeCount { min: nodes, max: nodes })
}

/// The tenant of a numbered user; unknown users have none.
pub(super) fn tenant(user: i64) -> Option<TenantId> {
    (user >= 0).then(|| TenantId::new(&format!("user{user}")).ok()).flatten()
}
