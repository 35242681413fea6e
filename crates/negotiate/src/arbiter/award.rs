//! Deciding a round: award the best offer, then the next best, until one is acknowledged or none is left.

use landfall_model::{Digest, NodeId, Time};

use super::{Award, JobState, OfferStatus, RoundRecord};
use crate::message::{AwardAck, AwardRefuse, Closing, Message, Revoke, TaskClaimed};
use crate::reason::{Failure, Reason};
use crate::timers::JobTimer;
use crate::{Deed, Metric, Out, Peer, after};

impl Peer {
    /// Awards the best standing offer, judged anew: trust may have changed since it came.
    pub(super) fn award_next(&mut self, now: Time, job: Digest, out: &mut Out) {
        let best = self.best_standing(now, job);
        let most = self.settings.awards_max;
        let Some(known) = self.jobs.get_mut(&job) else { return };
        if known.submission.dry_run {
            self.broadcast(self.closing(job, Closing::NoOffer), out);
            self.finish(now, job, JobState::Ranked, out);
            return;
        }
        let awards = known.progress.rounds.last().map_or(0, |round| round.awards);
        let Some(award) = best.filter(|_| awards < most) else {
            self.nobody(now, job, out);
            return;
        };
        let raises = self.raises_attempt(awards);
        let Some(known) = self.jobs.get_mut(&job) else { return };
        let lease_ms = known.submission.lease_ms(&self.settings);
        let progress = &mut known.progress;
        if raises {
            progress.attempt += 1;
        }
        progress.state = JobState::Awarded;
        progress.rounds.iter_mut().next_back().into_iter().for_each(|round| round.awards += 1);
        progress.set_status(&award.node, OfferStatus::Awarded);
        progress.award = Some(award.clone());
        self.save(now, job, out);
        let fence = self.present_fence(&job);
        let claim = TaskClaimed { job, fence, node: award.node, price: award.price, lease_ms };
        self.broadcast(Message::TaskClaimed(claim), out);
        self.set_job_timer(job, JobTimer::Ack, after(now, self.settings.ack_timeout_ms), out);
    }

    #[cfg(feature = "mutations")]
    fn raises_attempt(&self, awards: u32) -> bool {
        self.mutation != crate::Mutation::DoubleAward || awards == 0
    }

    #[cfg(not(feature = "mutations"))]
    const fn raises_attempt(&self, _awards: u32) -> bool {
        true
    }

    fn best_standing(&mut self, now: Time, job: Digest) -> Option<Award> {
        let known = self.jobs.get(&job)?;
        let standing = known.progress.rounds.last()?.offers.iter();
        let standing = standing.filter(|offer| offer.status == OfferStatus::Standing);
        let candidates: Vec<_> = standing.map(|offer| self.candidate(now, known, offer)).collect();
        let judged = self.judge(now, job, known, candidates);
        let round = self.jobs.get_mut(&job)?.progress.rounds.last_mut()?;
        let mut best = None;
        for judged in judged {
            let Some(offer) = round.offers.iter_mut().find(|offer| offer.node == judged.node) else {
                continue;
            };
            offer.score = judged.score.or(offer.score);
            if !judged.terms.is_empty() {
                offer.terms = judged.terms;
            }
            match judged.reasons.first() {
                Some(&reason) => offer.status = OfferStatus::Rejected(reason),
                None if best.is_none() => best = Some(Award { node: judged.node, price: offer.cost }),
                None => {}
            }
        }
        best
    }

    /// No placement comes of this round.
    fn nobody(&mut self, now: Time, job: Digest, out: &mut Out) {
        self.clear_job_timers(job, &[JobTimer::Decide, JobTimer::Ack], out);
        let rounds_max = self.settings.rounds_max;
        let Some(known) = self.jobs.get_mut(&job) else { return };
        let progress = &mut known.progress;
        let why = progress.rounds.last().map_or(Failure::NoOffers, why_nobody);
        progress.settle(OfferStatus::Void);
        progress.award = None;
        let tries = progress.tries;
        if rounds_max == 0 || tries < rounds_max {
            progress.state = JobState::Waiting;
            self.save(now, job, out);
            let pause = self.settings.backoff_after(tries);
            self.broadcast(self.closing(job, Closing::NoOffer), out);
            self.set_job_timer(job, JobTimer::Backoff, after(now, pause), out);
        } else {
            self.finish(now, job, JobState::Failed(why), out);
            self.broadcast(self.closing(job, Closing::NoOffer), out);
        }
    }

    /// The awarded node refused or was silent.
    pub(super) fn award_failed(&mut self, now: Time, job: Digest, deed: Deed, out: &mut Out) {
        self.clear_job_timers(job, &[JobTimer::Ack], out);
        let Some(known) = self.jobs.get_mut(&job) else { return };
        if let Some(award) = known.progress.award.take() {
            known.progress.set_status(&award.node, OfferStatus::Failed);
            self.note(&award.node, deed, out);
        }
        self.award_next(now, job, out);
    }

    pub(crate) fn on_ack(&mut self, now: Time, from: &NodeId, ack: &AwardAck, out: &mut Out) {
        if !self.is_author(from, &ack.node, out) {
            return;
        }
        let Some(known) = self.jobs.get(&ack.job) else { return };
        let present = self.present_fence(&ack.job);
        let awarded = known.progress.award.as_ref().is_some_and(|award| award.node == *from);
        match known.progress.state {
            JobState::Awarded if awarded && ack.fence == present => self.commit(now, ack.job, out),
            JobState::Running if awarded && ack.fence.is_award_of(present) => {
                self.send(from, self.closing(ack.job, Closing::Placed), out);
            }
            _ if ack.fence <= present => self.revoke(from, ack.job, out),
            _ => {}
        }
    }

    pub(super) fn revoke(&self, node: &NodeId, job: Digest, out: &mut Out) {
        let fence = self.present_fence(&job);
        self.send(node, Message::Revoke(Revoke { job, fence }), out);
    }

    fn commit(&mut self, now: Time, job: Digest, out: &mut Out) {
        self.clear_job_timers(job, &[JobTimer::Ack], out);
        let Some(known) = self.jobs.get_mut(&job) else { return };
        let lease_ms = known.submission.lease_ms(&self.settings);
        let progress = &mut known.progress;
        if let Some(award) = progress.award.clone() {
            progress.set_status(&award.node, OfferStatus::Won);
        }
        progress.settle(OfferStatus::Lost);
        progress.state = JobState::Running;
        progress.tries = 0;
        let took = now.since(progress.first_asked_at).get();
        self.save(now, job, out);
        out.metric(Metric::DurationMs(took));
        self.broadcast(self.closing(job, Closing::Placed), out);
        self.set_job_timer(job, JobTimer::Lease, after(now, lease_ms), out);
    }

    pub(crate) fn on_refuse(&mut self, now: Time, from: &NodeId, refuse: &AwardRefuse, out: &mut Out) {
        if !self.is_author(from, &refuse.node, out) {
            return;
        }
        let Some(known) = self.jobs.get(&refuse.job) else { return };
        let present = self.present_fence(&refuse.job);
        let awarded = known.progress.award.as_ref().is_some_and(|award| award.node == *from);
        match known.progress.state {
            JobState::Awarded if awarded && refuse.fence == present => {
                let deed = if refuse.reason == Reason::Capacity { Deed::Overstated } else { Deed::Silent };
                self.award_failed(now, refuse.job, deed, out);
            }
            // It never saw the closing, so it never started.
            JobState::Running if awarded && refuse.fence.is_award_of(present) => {
                self.lose_lease(now, refuse.job, false, out);
            }
            _ => {}
        }
    }
}

/// Why no placement came of a round.
fn why_nobody(round: &RoundRecord) -> Failure {
    if round.awards > 0 {
        return Failure::AwardFailed;
    }
    let rejected = |reason| {
        let status = OfferStatus::Rejected(reason);
        round.offers.iter().all(|offer| offer.status == status)
    };
    let dear = round.declines.values().all(|reasons| reasons.contains(&Reason::OverBudget));
    if !(round.offers.is_empty() && round.declines.is_empty()) && dear && rejected(Reason::OverBudget) {
        Failure::NoAffordableOffer
    } else if !round.offers.is_empty() && rejected(Reason::Trust) {
        Failure::NoTrustedOffer
    } else {
        Failure::NoOffers
    }
}
