//! The arbiter's part: the ledger of the jobs submitted to this peer. It alone awards and commits them.

mod award;
mod offers;
mod restart;
mod running;
mod submit;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_model::{Digest, NodeId, Scope, Time};
use serde::{Deserialize, Serialize};

use crate::message::{Closing, Fence, Message, PlacementClosed, TaskResult};
use crate::profile::Facts;
use crate::reason::{Failure, Reason};
use crate::score::TermLine;
use crate::submission::Submission;
use crate::timers::{JobTimer, TimerId};
use crate::{Deed, Entry, Metric, Out, Peer};

pub use verdict::Verdict;

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobState {
    /// Offers are welcome.
    Open,
    /// A pause before the next round.
    Waiting,
    /// An award is out.
    Awarded,
    /// Committed to a node.
    Running,
    /// The work was done.
    Completed,
    /// The work was not done.
    Failed(Failure),
    /// Nobody wants it any more.
    Cancelled,
    /// A dry run: offers were ranked.
    Ranked,
}

impl JobState {
    /// Whether anything can still happen.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Open | Self::Waiting | Self::Awarded | Self::Running)
    }

    /// Whether it is being negotiated.
    pub const fn is_negotiating(self) -> bool {
        matches!(self, Self::Open | Self::Waiting | Self::Awarded)
    }
}

/// What became of an offer. All but the first two are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfferStatus {
    /// It may be awarded.
    Standing,
    /// An award is out to its node.
    Awarded,
    /// Its node has the job.
    Won,
    /// Another was placed.
    Lost,
    /// It came after the decision.
    Late,
    /// A check failed.
    Rejected(Reason),
    /// It was awarded, and refused or met with silence.
    Failed,
    /// No placement came of the round.
    Void,
}

impl OfferStatus {
    /// Whether it stays as it is.
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Standing | Self::Awarded)
    }
}

/// One offer of a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfferRecord {
    pub node: NodeId,
    pub facts: Facts,
    pub cost: u64,
    pub start_delay_ms: u64,
    pub received_at: Time,
    /// The arbiter's score, once computed.
    pub score: Option<f64>,
    /// What each term gave.
    pub terms: Vec<TermLine>,
    /// What became of it.
    pub status: OfferStatus,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    pub round: u32,
    /// The epoch in which it was opened.
    pub epoch: u64,
    /// How far it reached.
    pub max_scope: Scope,
    /// Offers in the order in which they came, one per node.
    pub offers: Vec<OfferRecord>,
    pub declines: BTreeMap<NodeId, Vec<Reason>>,
    pub awards: u32,
}

/// Who was awarded a job, and for how much.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Award {
    pub node: NodeId,
    /// Credits per 1000 fuel.
    pub price: u64,
}

/// Where a job stands, with all that a restart needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub state: JobState,
    /// Its place among the jobs of this arbiter.
    pub arrival: u64,
    /// When this was written; what is left of a deadline survives a reboot.
    pub saved_at: Time,
    /// Rounds over the whole life of the job.
    pub round: u32,
    /// Rounds since the last commit.
    pub tries: u32,
    /// Awards over the whole life of the job, and changes that made one void.
    pub attempt: u32,
    pub losses: u32,
    /// When the present round was opened.
    pub asked_at: Time,
    /// When the first round since the last commit was opened.
    pub first_asked_at: Time,
    /// When it must be finished.
    pub deadline_at: Option<Time>,
    /// The last rounds, the present one at the end.
    pub rounds: Vec<RoundRecord>,
    /// The award that is out or committed.
    pub award: Option<Award>,
    /// What it came to.
    pub result: Option<TaskResult>,
    /// What is due for it.
    pub charge: Option<u64>,
}

/// Rounds of which the offers are kept for the verdict.
const ROUNDS_KEPT: usize = 8;
/// Finished jobs kept, so that late offers and repeated results get their answer.
const FINISHED_MAX: usize = 4096;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArbiterJob {
    pub submission: Arc<Submission>,
    pub progress: Progress,
}

impl Progress {
    fn new(now: Time, arrival: u64, deadline_at: Option<Time>) -> Self {
        Self {
            state: JobState::Open,
            arrival,
            saved_at: now,
            round: 0,
            tries: 0,
            attempt: 0,
            losses: 0,
            asked_at: now,
            first_asked_at: now,
            deadline_at,
            rounds: Vec::new(),
            award: None,
            result: None,
            charge: None,
        }
    }

    /// Gives every offer of the present round that has no final status this one.
    fn settle(&mut self, status: OfferStatus) {
        let open = self.rounds.iter_mut().flat_map(|round| &mut round.offers);
        open.filter(|offer| !offer.status.is_final()).for_each(|offer| offer.status = status);
    }

    fn set_status(&mut self, node: &NodeId, status: OfferStatus) {
        let offers = self.rounds.last_mut().map_or(&mut [][..], |round| &mut round.offers);
        if let Some(offer) = offers.iter_mut().find(|offer| offer.node == *node) {
            offer.status = status;
        }
    }
}

impl Peer {
    /// The present fence of a job of this arbiter.
    pub fn fence_of(&self, job: &Digest) -> Option<Fence> {
        let job = self.jobs.get(job)?;
        Some(Fence { epoch: self.epoch, attempt: job.progress.attempt })
    }

    fn present_fence(&self, job: &Digest) -> Fence {
        self.fence_of(job).unwrap_or(Fence { epoch: self.epoch, attempt: 0 })
    }

    fn save(&mut self, now: Time, job: Digest, out: &mut Out) {
        if let Some(known) = self.jobs.get_mut(&job) {
            known.progress.saved_at = now;
            out.journal(Entry::Progress { job, progress: Box::new(known.progress.clone()) });
        }
    }

    fn set_job_timer(&mut self, job: Digest, kind: JobTimer, at: Time, out: &mut Out) {
        self.set_timer(TimerId::Job { job, kind }, at, out);
    }

    fn clear_job_timers(&mut self, job: Digest, kinds: &[JobTimer], out: &mut Out) {
        for &kind in kinds {
            self.clear_timer(TimerId::Job { job, kind }, out);
        }
    }

    /// Tells everybody, or one node, that a negotiation is over.
    fn closing(&self, job: Digest, outcome: Closing) -> Message {
        let winner = self.jobs.get(&job).and_then(|known| known.progress.award.as_ref());
        let winner = winner.filter(|_| outcome == Closing::Placed).map(|award| award.node.clone());
        Message::PlacementClosed(PlacementClosed { job, fence: self.present_fence(&job), outcome, winner })
    }

    /// Ends a job; nothing can happen to it any more.
    fn finish(&mut self, now: Time, job: Digest, state: JobState, out: &mut Out) {
        let all = [JobTimer::Deadline, JobTimer::Decide, JobTimer::Ack, JobTimer::Backoff, JobTimer::Lease];
        self.clear_job_timers(job, &all, out);
        let Some(known) = self.jobs.get_mut(&job) else { return };
        known.progress.settle(OfferStatus::Void);
        known.progress.state = state;
        if let JobState::Failed(reason) = state {
            out.metric(Metric::Failed(reason));
        }
        self.save(now, job, out);
        self.forget_finished(out);
    }

    fn forget_finished(&mut self, out: &mut Out) {
        let finished = self.jobs.iter().filter(|(_, job)| !job.progress.state.is_live());
        if finished.clone().count() <= FINISHED_MAX {
            return;
        }
        let oldest = finished.min_by_key(|(id, job)| (job.progress.saved_at, **id)).map(|(id, _)| *id);
        if let Some(job) = oldest {
            self.jobs.remove(&job);
            out.journal(Entry::Forgotten { job });
        }
    }

    pub(super) fn job_timer(&mut self, now: Time, job: Digest, kind: JobTimer, out: &mut Out) {
        let Some(state) = self.jobs.get(&job).map(|known| known.progress.state) else { return };
        match (kind, state) {
            (JobTimer::Decide, JobState::Open) => self.award_next(now, job, out),
            (JobTimer::Ack, JobState::Awarded) => self.award_failed(now, job, Deed::Silent, out),
            (JobTimer::Backoff, JobState::Waiting) => self.open_round(now, job, out),
            (JobTimer::Lease, JobState::Running) => self.lose_lease(now, job, true, out),
            (JobTimer::Deadline, state) if state.is_live() => {
                self.call_off(now, job, Reason::Deadline, JobState::Failed(Failure::Deadline), out);
            }
            _ => {}
        }
    }

    pub(super) fn cancel(&mut self, now: Time, job: Digest, out: &mut Out) {
        if self.jobs.get(&job).is_some_and(|known| known.progress.state.is_live()) {
            self.call_off(now, job, Reason::Requested, JobState::Cancelled, out);
        }
    }

    fn call_off(&mut self, now: Time, job: Digest, reason: Reason, state: JobState, out: &mut Out) {
        if let Some(known) = self.jobs.get_mut(&job) {
            known.progress.attempt += 1;
        }
        self.finish(now, job, state, out);
        let fence = self.present_fence(&job);
        self.broadcast(Message::TaskCancelled(crate::TaskCancelled { job, fence, reason }), out);
        self.broadcast(self.closing(job, Closing::Cancelled), out);
    }
}
