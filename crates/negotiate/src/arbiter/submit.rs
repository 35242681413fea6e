//! Accepting a job, and opening its rounds.

use std::sync::Arc;

use landfall_model::{Digest, Time};

use super::{ArbiterJob, JobState, OfferStatus, Progress, ROUNDS_KEPT, RoundRecord};
use crate::message::{BodyRef, Message, PlacementRequest};
use crate::reason::Reason;
use crate::submission::{Submission, SubmitRefusal};
use crate::timers::JobTimer;
use crate::wire::{Channel, Envelope, INLINE_BYTES_MAX, encode};
use crate::{Entry, Out, Peer, after};

/// With more known peers than this, nodes that do not offer are not asked why.
const DECLINES_UP_TO: usize = 100;
/// On the simple path, no answer within this span is a round without offers.
const SIMPLE_ROUND_MS: u64 = 1000;

impl Peer {
    /// Says why a job would not be accepted, or what it would be called.
    pub fn check(&self, now: Time, submission: &Submission) -> Result<Digest, SubmitRefusal> {
        submission.validate()?;
        let refuse = |reason, field| Err(SubmitRefusal { reason, field });
        if !self.trusts_submitter(&submission.submitter) {
            return refuse(Reason::SubmitterTrust, "submitter");
        }
        let job = submission.digest()?;
        if let Some(known) = self.jobs.get(&job) {
            return if known.progress.state.is_live() {
                Ok(job)
            } else {
                refuse(Reason::Finished, "nonce: take a new one")
            };
        }
        let open = self.jobs.values().filter(|job| job.progress.state.is_negotiating()).count();
        if open >= self.settings.open_negotiations_max {
            return refuse(Reason::OpenNegotiations, "wait until others are placed");
        }
        let accepted = self.as_accepted(now, submission.clone().into());
        if encode(&Envelope::to_all(self.request(now, job, &accepted, 1)), Channel::Gossip).is_err() {
            return refuse(Reason::Invalid, "the request is too large for one message");
        }
        Ok(job)
    }

    fn as_accepted(&self, now: Time, submission: Arc<Submission>) -> ArbiterJob {
        let deadline_at = submission.deadline_ms.map(|ms| after(now, ms));
        let progress = Progress::new(now, self.arrivals + 1, deadline_at);
        ArbiterJob { submission, progress }
    }

    pub(crate) fn accept(
        &mut self,
        now: Time,
        submission: Submission,
        out: &mut Out,
    ) -> Result<Digest, SubmitRefusal> {
        let job = self.check(now, &submission)?;
        if self.jobs.contains_key(&job) {
            return Ok(job);
        }
        let accepted = self.as_accepted(now, submission.into());
        let (submission, deadline_at) = (accepted.submission.clone(), accepted.progress.deadline_at);
        self.arrivals = accepted.progress.arrival;
        self.jobs.insert(job, accepted);
        out.journal(Entry::Submitted { job, submission });
        if let Some(at) = deadline_at {
            self.set_job_timer(job, JobTimer::Deadline, at, out);
        }
        self.open_round(now, job, out);
        Ok(job)
    }

    pub(crate) fn next_arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    /// Asks everybody for offers.
    pub(super) fn open_round(&mut self, now: Time, job: Digest, out: &mut Out) {
        let epoch = self.epoch;
        let Some(known) = self.jobs.get_mut(&job) else { return };
        let (submission, progress) = (known.submission.clone(), &mut known.progress);
        progress.settle(OfferStatus::Void);
        progress.round += 1;
        progress.tries += 1;
        progress.state = JobState::Open;
        progress.award = None;
        progress.asked_at = now;
        if progress.tries == 1 {
            progress.first_asked_at = now;
        }
        let (round, max_scope) = (progress.round, submission.reach(progress.tries));
        let (offers, declines) = Default::default();
        progress.rounds.push(RoundRecord { round, epoch, max_scope, offers, declines, awards: 0 });
        let surplus = progress.rounds.len().saturating_sub(ROUNDS_KEPT);
        progress.rounds.drain(..surplus);
        let request = self.jobs.get(&job).map(|known| self.request(now, job, known, round));
        self.save(now, job, out);
        request.into_iter().for_each(|request| self.broadcast(request, out));
        let wait = if submission.is_simple() {
            SIMPLE_ROUND_MS
        } else {
            self.deliberation_of(&submission).saturating_add(self.settings.grace_ms)
        };
        self.set_job_timer(job, JobTimer::Decide, after(now, wait), out);
    }

    pub(super) fn deliberation_of(&self, submission: &Submission) -> u64 {
        submission.deliberation_ms.unwrap_or(self.settings.deliberation_ms)
    }

    fn request(&self, now: Time, job: Digest, known: &ArbiterJob, round: u32) -> Message {
        let (submission, progress) = (&known.submission, &known.progress);
        let simple = submission.is_simple();
        let body = &submission.body;
        let few = || self.known_now(now).count() <= DECLINES_UP_TO;
        let request = Box::new(PlacementRequest {
            job,
            epoch: self.epoch,
            round,
            submitter: submission.submitter.clone(),
            profile: if simple { submission.profile.clone() } else { Some(submission.need()) },
            runtimes: submission.runtimes.clone(),
            hints: submission.hints.clone(),
            max_cost: submission.max_cost,
            fuel_limit: submission.fuel_limit,
            class: submission.class,
            deadline_ms: progress.deadline_at.map(|at| at.since(now).get()),
            deliberation_ms: self.deliberation_of(submission),
            lease_ms: submission.lease_ms(&self.settings),
            max_scope: submission.reach(progress.tries.max(1)),
            allowed_scopes: submission.allowed_scopes.clone(),
            body: BodyRef {
                digest: body.digest(),
                bytes: body.len() as u64,
                inline: (body.len() <= INLINE_BYTES_MAX).then(|| body.clone()),
            },
            dry_run: submission.dry_run,
            want_declines: submission.want_declines.unwrap_or_else(few),
            requested_at: None,
        });
        if simple { Message::TaskSubmitted(request) } else { Message::PlacementRequest(request) }
    }
}
