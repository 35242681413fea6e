//! Arrays: many jobs that differ in their index only.

use landfall_engine::input::Submission;
use landfall_engine::{Answer, Event, Input};
use landfall_model::{Job, JobId};

use super::core::Core;
use super::submit::Prepared;

/// The id of an element: padded, so that ids sort like indices.
pub(super) fn element_id(array: &str, index: u32, last: u32) -> String {
    let width = last.to_string().len();
    format!("{array}.{index:0width$}")
}

impl Core {
    pub(super) fn submit_array(&mut self, array: Prepared) -> Answer {
        let Some(range) = array.meta.array else { return Answer::Done };
        let jobs = (range.first..=range.last).step_by(range.step.max(1) as usize).filter_map(|index| {
            let id = JobId::new(&element_id(array.id.as_str(), index, range.last)).ok()?;
            let job = Job { id, ..array.submission.job.clone() };
            Some(Submission { job, ..array.submission.clone() })
        });
        self.step(Input::Submit(jobs.collect()))
    }

    pub(super) fn follow_array(&mut self, _event: &Event) {}
}
