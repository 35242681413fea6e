//! Jobs after a restart of their arbiter: what was being negotiated is asked for anew, what runs goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_model::{Digest, Time};

use super::{ArbiterJob, JobState, Progress};
use crate::submission::Submission;
use crate::timers::JobTimer;
use crate::{Out, Peer, after};

impl Peer {
    pub(crate) fn restart_jobs(
        &mut self,
        now: Time,
        jobs: BTreeMap<Digest, (Arc<Submission>, Option<Progress>)>,
        out: &mut Out,
    ) {
        for (job, (submission, progress)) in jobs {
            let arrival = self.next_arrival();
            let mut progress = progress.unwrap_or_else(|| {
                Progress::new(now, arrival, submission.deadline_ms.map(|ms| after(now, ms)))
            });
            self.arrivals = self.arrivals.max(progress.arrival);
            // A clock behind the journal is one of a new boot: what was left of the deadline is still left.
            if now < progress.saved_at {
                let left = progress.deadline_at.map(|at| at.since(progress.saved_at));
                progress.deadline_at = left.map(|left| now + left);
            }
            let state = progress.state;
            let deadline_at = progress.deadline_at.filter(|_| state.is_live());
            if state == JobState::Awarded {
                progress.attempt += 1;
                progress.award = None;
            }
            let lease_ms = submission.lease_ms(&self.settings);
            self.jobs.insert(job, ArbiterJob { submission, progress });
            if let Some(at) = deadline_at {
                self.set_job_timer(job, JobTimer::Deadline, at, out);
            }
            match state {
                JobState::Open | JobState::Waiting | JobState::Awarded => self.open_round(now, job, out),
                JobState::Running => {
                    self.save(now, job, out);
                    self.set_job_timer(job, JobTimer::Lease, after(now, lease_ms), out);
                }
                JobState::Completed | JobState::Failed(_) | JobState::Cancelled | JobState::Ranked => {}
            }
        }
    }
}
