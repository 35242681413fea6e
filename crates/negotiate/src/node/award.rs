//! Claims and closings: a hold becomes a reservation, a reservation a run, and what others got is let go.

use landfall_model::{Digest, NodeId, Time};

use super::Stage;
use crate::capacity::GrantKind;
use crate::message::{AwardAck, AwardRefuse, Closing, Fence, Message, PlacementClosed, TaskClaimed};
use crate::reason::Reason;
use crate::settings::{LEASE_MS_MAX, LEASE_MS_MIN};
use crate::timers::HostTimer;
use crate::{Deed, Entry, Metric, Out, Peer, after};

impl Peer {
    /// Whether a message about a job comes from its arbiter, in its newest start. Others are forged or stale.
    fn is_from_arbiter(
        &mut self,
        now: Time,
        from: &NodeId,
        job: &Digest,
        fence: Fence,
        out: &mut Out,
    ) -> bool {
        let Some(seen) = self.host.seen.get(job) else { return false };
        if seen.arbiter != *from {
            self.reject(from, Reason::Forged, Deed::Forged, out);
            return false;
        }
        self.host.is_newest_epoch(from, fence.epoch, now)
    }

    pub(crate) fn on_claim(&mut self, now: Time, from: &NodeId, claim: &TaskClaimed, out: &mut Out) {
        let (job, fence) = (claim.job, claim.fence);
        if !self.is_from_arbiter(now, from, &job, fence, out) {
            return;
        }
        let newer = self.host.note_fence(job, fence, now);
        if self.host.is_second_claim(claim) {
            self.note(from, Deed::ClaimedTwice, out);
            // Two nodes have the same award in hand, and only one of them may run it: neither does.
            if self.holds_award(&job, fence) {
                self.void_award(job, out);
            }
            return;
        }
        if !newer {
            return;
        }
        let to_me = claim.node == self.id;
        let Some(hosted) = self.host.jobs.get(&job) else { return };
        match &hosted.stage {
            Stage::Considering => self.drop_hosted(job, out),
            Stage::Offered | Stage::Expired if to_me => self.take_award(now, from, claim, out),
            Stage::Offered | Stage::Expired => {}
            // A newer award makes the one this stage rests on void.
            Stage::Reserved { .. } | Stage::Reporting { .. } => self.drop_award(job, out),
            Stage::Running(_) => self.stop(job, out),
        }
    }

    fn take_award(&mut self, now: Time, arbiter: &NodeId, claim: &TaskClaimed, out: &mut Out) {
        let (job, fence) = (claim.job, claim.fence);
        let Some(hosted) = self.host.jobs.get(&job) else { return };
        let (need, expired) = (hosted.need(), hosted.stage == Stage::Expired);
        let in_range = (LEASE_MS_MIN..=LEASE_MS_MAX).contains(&claim.lease_ms);
        self.clear_host_timers(job, out);
        if !in_range || !self.host.ledger.grant(job, &need, GrantKind::Reservation, now) {
            self.drop_hosted(job, out);
            let reason = if expired { Reason::HoldExpired } else { Reason::Capacity };
            self.refuse_award(arbiter, job, fence, reason, out);
            return;
        }
        if let Some(hosted) = self.host.jobs.get_mut(&job) {
            hosted.stage = Stage::Reserved { fence, lease_ms: claim.lease_ms, first_ack_at: now };
            hosted.price = claim.price;
        }
        out.journal(Entry::Taken { job, arbiter: arbiter.clone(), fence, at: now });
        self.set_host_timer(job, HostTimer::Confirm, after(now, self.settings.confirm_timeout_ms), out);
        self.send_ack(now, job, out);
    }

    fn refuse_award(&self, arbiter: &NodeId, job: Digest, fence: Fence, reason: Reason, out: &mut Out) {
        let refuse = AwardRefuse { job, fence, node: self.id.clone(), reason };
        self.send(arbiter, Message::AwardRefuse(refuse), out);
    }

    /// Sends the ack, and again until it is confirmed.
    pub(super) fn send_ack(&mut self, now: Time, job: Digest, out: &mut Out) {
        let Some(hosted) = self.host.jobs.get(&job) else { return };
        let Stage::Reserved { fence, .. } = hosted.stage else { return };
        let (arbiter, node) = (hosted.arbiter.clone(), self.id.clone());
        self.set_host_timer(job, HostTimer::Repeat, after(now, self.settings.ack_repeat_ms), out);
        self.send(&arbiter, Message::AwardAck(AwardAck { job, fence, node }), out);
    }

    /// Refuses an award that was taken and is not confirmed yet.
    pub(crate) fn give_up_award(&mut self, job: Digest, reason: Reason, out: &mut Out) {
        let Some(hosted) = self.host.jobs.get(&job) else { return };
        let Stage::Reserved { fence, .. } = hosted.stage else { return };
        let arbiter = hosted.arbiter.clone();
        self.drop_hosted(job, out);
        self.refuse_award(&arbiter, job, fence, reason, out);
    }

    pub(crate) fn on_closed(&mut self, now: Time, from: &NodeId, closed: &PlacementClosed, out: &mut Out) {
        let (job, fence) = (closed.job, closed.fence);
        if !self.is_from_arbiter(now, from, &job, fence, out) {
            return;
        }
        if self.host.seen.get(&job).is_some_and(|seen| fence < seen.fence) {
            return;
        }
        self.host.note_fence(job, fence, now);
        let mine = closed.outcome == Closing::Placed && closed.winner.as_ref() == Some(&self.id);
        let Some(hosted) = self.host.jobs.get(&job) else { return };
        match hosted.stage {
            Stage::Considering => self.drop_hosted(job, out),
            Stage::Offered => {
                if closed.outcome == Closing::Placed && !mine {
                    out.metric(Metric::Loss);
                }
                self.release_offer(job, out);
            }
            Stage::Expired => self.drop_hosted(job, out),
            Stage::Reserved { fence: own, lease_ms, first_ack_at } => {
                if mine && own.is_award_of(fence) {
                    out.metric(Metric::Win);
                    self.begin_run(now, job, fence, lease_ms, first_ack_at, out);
                } else {
                    self.drop_award(job, out);
                }
            }
            Stage::Running(ref run) if !mine && fence > run.fence => self.stop(job, out),
            Stage::Running(_) | Stage::Reporting { .. } => {}
        }
    }

    #[cfg(feature = "mutations")]
    fn release_offer(&mut self, job: Digest, out: &mut Out) {
        if self.mutation == crate::Mutation::LeakedHold {
            self.clear_host_timers(job, out);
            self.host.jobs.remove(&job);
        } else {
            self.drop_hosted(job, out);
        }
    }

    #[cfg(not(feature = "mutations"))]
    fn release_offer(&mut self, job: Digest, out: &mut Out) {
        self.drop_hosted(job, out);
    }

    /// The arbiter says that an award is void (`revoked`: this one), or that the job is not wanted any more.
    pub(crate) fn on_void(&mut self, from: &NodeId, job: Digest, fence: Fence, revoked: bool, out: &mut Out) {
        let Some(seen) = self.host.seen.get_mut(&job) else { return };
        if seen.arbiter != *from {
            self.reject(from, Reason::Forged, Deed::Forged, out);
            return;
        }
        let stale = fence < seen.fence;
        seen.fence = seen.fence.max(fence);
        if stale {
            return;
        }
        let Some(hosted) = self.host.jobs.get(&job) else { return };
        match &hosted.stage {
            Stage::Considering | Stage::Offered | Stage::Expired if !revoked => self.drop_hosted(job, out),
            Stage::Considering | Stage::Offered | Stage::Expired => {}
            Stage::Reserved { .. } | Stage::Reporting { .. } => self.drop_award(job, out),
            Stage::Running(_) => self.stop(job, out),
        }
    }

    fn holds_award(&self, job: &Digest, fence: Fence) -> bool {
        let held = self.host.jobs.get(job).and_then(|hosted| hosted.stage.fence());
        held.is_some_and(|held| held.is_award_of(fence))
    }

    /// Gives up an award in whatever stage it is.
    fn void_award(&mut self, job: Digest, out: &mut Out) {
        match self.host.jobs.get(&job).map(|hosted| &hosted.stage) {
            Some(Stage::Running(_)) => self.stop(job, out),
            Some(_) => self.drop_award(job, out),
            None => {}
        }
    }

    /// Lets go of an award that runs nothing, or of a result that nobody wants.
    pub(super) fn drop_award(&mut self, job: Digest, out: &mut Out) {
        let was_run = matches!(self.host.jobs.get(&job).map(|job| &job.stage), Some(Stage::Reporting { .. }));
        self.drop_hosted(job, out);
        if was_run {
            out.journal(Entry::RunEnded { job });
        }
    }
}
