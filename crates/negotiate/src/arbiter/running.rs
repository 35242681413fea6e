//! A committed job: renewals, lost leases, results, bodies.

use landfall_model::{Digest, NodeId, Time};

use super::JobState;
use crate::message::{Closing, LeaseGrant, LeaseRenew, Message, ResultAck, TaskOutcome, TaskResult};
use crate::reason::{Failure, Reason};
use crate::settings::due;
use crate::timers::JobTimer;
use crate::{Deed, Entry, Metric, Out, Peer, after};

impl Peer {
    pub(crate) fn on_renew(&mut self, now: Time, from: &NodeId, renew: &LeaseRenew, out: &mut Out) {
        let job = renew.job;
        let Some(known) = self.jobs.get(&job) else { return };
        let fence = self.present_fence(&job);
        if known.progress.state == JobState::Running
            && self.is_winner(from, &job)
            && renew.fence.is_award_of(fence)
        {
            let lease_ms = known.submission.lease_ms(&self.settings);
            self.set_job_timer(job, JobTimer::Lease, after(now, lease_ms), out);
            self.send(from, Message::LeaseGrant(LeaseGrant { job, fence, renewal: renew.renewal }), out);
        } else if renew.fence <= fence {
            self.revoke(from, job, out);
        }
    }

    fn is_winner(&self, node: &NodeId, job: &Digest) -> bool {
        let award = self.jobs.get(job).and_then(|known| known.progress.award.as_ref());
        award.is_some_and(|award| award.node == *node)
    }

    /// The winner is gone: its fence is void, and the job is offered anew at once.
    pub(super) fn lose_lease(&mut self, now: Time, job: Digest, is_loss: bool, out: &mut Out) {
        self.clear_job_timers(job, &[JobTimer::Lease], out);
        let Some(known) = self.jobs.get_mut(&job) else { return };
        let progress = &mut known.progress;
        progress.attempt += 1;
        let gone = progress.award.take().filter(|_| is_loss);
        if is_loss {
            progress.losses += 1;
            out.metric(Metric::LeaseLost);
        }
        let losses = progress.losses;
        if let Some(award) = gone {
            self.note(&award.node, Deed::LeaseLost, out);
        }
        if losses > self.settings.lease_losses_max {
            self.finish(now, job, JobState::Failed(Failure::LeaseLost), out);
            self.broadcast(self.closing(job, Closing::Failed), out);
        } else {
            self.open_round(now, job, out);
        }
    }

    pub(crate) fn on_result(&mut self, now: Time, from: &NodeId, result: TaskResult, out: &mut Out) {
        if !self.is_author(from, &result.node, out) {
            return;
        }
        let (job, fence) = (result.job, result.fence);
        let answer = match self.jobs.get(&job) {
            None => Err(Reason::UnknownJob),
            Some(known) => {
                let ours = self.is_winner(from, &job) && fence.is_award_of(self.present_fence(&job));
                match (known.progress.state, &known.progress.result) {
                    (JobState::Running, _) if ours => {
                        self.take_result(now, job, result, out);
                        Ok(())
                    }
                    // It was accepted before; only the answer was lost.
                    (_, Some(_)) if ours => Ok(()),
                    _ => Err(Reason::StaleFence),
                }
            }
        };
        if answer.is_err() {
            self.note(from, Deed::StaleResult, out);
        }
        let ack = ResultAck { job, fence, accepted: answer.is_ok(), reason: answer.err() };
        self.send(from, Message::ResultAck(ack), out);
    }

    fn take_result(&mut self, now: Time, job: Digest, result: TaskResult, out: &mut Out) {
        let Some(known) = self.jobs.get_mut(&job) else { return };
        let price = known.progress.award.as_ref().map_or(0, |award| award.price);
        let due = due(&result, price);
        let state = match result.outcome {
            TaskOutcome::Success => JobState::Completed,
            TaskOutcome::OutOfFuel => JobState::Failed(Failure::OutOfFuel),
            TaskOutcome::Timeout => JobState::Failed(Failure::Timeout),
            TaskOutcome::Failed if result.reason == Some(Reason::BodyUnavailable) => {
                JobState::Failed(Failure::BodyUnavailable)
            }
            TaskOutcome::Failed => JobState::Failed(Failure::TaskFailed),
        };
        known.progress.charge = Some(due);
        let (fence, node) = (result.fence, result.node.clone());
        known.progress.result = Some(result);
        self.note(&node, Deed::Kept, out);
        out.journal(Entry::Accepted { job, fence, node, charge: due });
        self.finish(now, job, state, out);
    }

    /// Bodies go to the node that runs the job, and to nobody else.
    pub(crate) fn on_body_request(&self, from: &NodeId, digest: Digest, out: &mut Out) {
        let theirs = self
            .jobs
            .iter()
            .filter(|(job, known)| known.progress.state == JobState::Running && self.is_winner(from, job));
        let body = theirs.map(|(_, known)| &known.submission.body).find(|body| body.digest() == digest);
        if let Some(body) = body {
            self.send(from, Message::Body { bytes: body.clone() }, out);
        }
    }
}
