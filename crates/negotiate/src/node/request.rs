//! Requests: which are new, which pass the gates, and what is offered after deliberation.

use landfall_model::{Digest, NodeId, Time};

use super::{HostedJob, Seen, Stage};
use crate::capacity::GrantKind;
use crate::message::{Message, PlacementDecline, PlacementOffer, PlacementRequest};
use crate::profile::{Facts, Profile};
use crate::reason::Reason;
use crate::score::{Candidate, Judged, Question, job_id};
use crate::settings::{LEASE_MS_MAX, LEASE_MS_MIN};
use crate::submission::hints_are_few;
use crate::timers::HostTimer;
use crate::wire::INLINE_BYTES_MAX;
use crate::{Deed, Metric, Out, Peer, Role, after};

/// Requests of a peer are counted over this span.
const REQUESTS_WINDOW_MS: u64 = 10_000;
/// An expired offer is remembered this long.
const EXPIRED_KEPT_MS: u64 = 60_000;

/// Whether every value of a request is in range.
fn is_valid(request: &PlacementRequest, simple: bool) -> bool {
    let inline = request.body.inline.as_ref();
    request.profile.as_ref().map_or(simple, |profile| profile.validate().is_ok())
        && (100..=10_000_000).contains(&request.fuel_limit)
        && request.class <= 10
        && request.deliberation_ms <= 10_000
        && (LEASE_MS_MIN..=LEASE_MS_MAX).contains(&request.lease_ms)
        && request.round >= 1
        && hints_are_few(&request.hints)
        && request.runtimes.len() <= 64
        && inline.is_none_or(|inline| {
            inline.len() <= INLINE_BYTES_MAX && inline.len() as u64 == request.body.bytes
        })
}

impl Peer {
    pub(crate) fn on_request(
        &mut self,
        now: Time,
        from: &NodeId,
        request: PlacementRequest,
        simple: bool,
        out: &mut Out,
    ) {
        if !self.settings.runs_work {
            return;
        }
        let job = request.job;
        if !self.is_news(now, from, &request, simple, out) {
            return;
        }
        match self.host.jobs.get(&job).map(|hosted| hosted.stage.fence()) {
            Some(Some(_)) => {
                self.decline(from, &request, &[Reason::HasJob], out);
                return;
            }
            Some(None) => self.drop_hosted(job, out),
            None => {}
        }
        let deliberation = request.deliberation_ms;
        let arrival = self.next_arrival();
        let hosted = HostedJob {
            arbiter: from.clone(),
            request,
            received_at: now,
            arrival,
            price: 0,
            stage: Stage::Considering,
        };
        if simple {
            self.host.jobs.insert(job, hosted);
            self.offer_or_decline(now, job, out);
            return;
        }
        match self.gates(now, &hosted) {
            Ok(_) => {
                self.host.jobs.insert(job, hosted);
                self.set_host_timer(job, HostTimer::Consider, after(now, deliberation), out);
            }
            Err(reasons) => self.decline(from, &hosted.request, &reasons, out),
        }
    }

    /// Whether a request is sound, of its author, and one that was not seen before; what is not is counted.
    fn is_news(
        &mut self,
        now: Time,
        from: &NodeId,
        request: &PlacementRequest,
        simple: bool,
        out: &mut Out,
    ) -> bool {
        if !is_valid(request, simple) {
            self.reject(from, Reason::Invalid, Deed::Invalid, out);
            return false;
        }
        let job = request.job;
        let before = self.host.seen.get(&job);
        if before.is_some_and(|seen| seen.arbiter != *from) {
            self.reject(from, Reason::Forged, Deed::Forged, out);
            return false;
        }
        let copy = before.is_some_and(|seen| (request.epoch, request.round) <= (seen.epoch, seen.round));
        let (fence, claimed) = before.map(|seen| (seen.fence, seen.claimed.clone())).unwrap_or_default();
        if copy || !self.host.is_newest_epoch(from, request.epoch, now) {
            return false;
        }
        out.metric(Metric::RequestReceived);
        let (epoch, round) = (request.epoch, request.round);
        self.host.remember(job, Seen { arbiter: from.clone(), epoch, round, fence, claimed, at: now });
        if self.is_flooded_by(from, now) {
            self.note(from, Deed::Flooded, out);
            self.decline(from, request, &[Reason::RequestsPerPeer], out);
            return false;
        }
        true
    }

    /// Declines a request that whoever runs this peer will not have.
    pub(crate) fn refuse_request(
        &mut self,
        now: Time,
        from: &NodeId,
        request: &PlacementRequest,
        reasons: &[Reason],
        out: &mut Out,
    ) {
        let simple = request.profile.is_none();
        if self.settings.runs_work && self.is_news(now, from, request, simple, out) {
            self.decline(from, request, reasons, out);
        }
    }

    fn is_flooded_by(&mut self, peer: &NodeId, now: Time) -> bool {
        let most = self.settings.requests_per_peer_max;
        let old = |at: &Time| now.since(*at).get() >= REQUESTS_WINDOW_MS;
        self.host.requests.retain(|_, times| times.back().is_some_and(|last| !old(last)));
        let times = self.host.requests.entry(peer.clone()).or_default();
        while times.front().is_some_and(old) {
            times.pop_front();
        }
        if times.len() >= most {
            return true;
        }
        times.push_back(now);
        false
    }

    fn decline(&self, arbiter: &NodeId, request: &PlacementRequest, reasons: &[Reason], out: &mut Out) {
        reasons.iter().for_each(|reason| out.metric(Metric::Declined(*reason)));
        if request.want_declines {
            let decline = PlacementDecline {
                job: request.job,
                epoch: request.epoch,
                round: request.round,
                node: self.id.clone(),
                reasons: reasons.to_vec(),
            };
            self.send(arbiter, Message::PlacementDecline(decline), out);
        }
    }

    /// Every gate on present facts: what an offer would say, or all reasons against one.
    fn gates(&self, now: Time, hosted: &HostedJob) -> Result<(Facts, f64), Vec<Reason>> {
        let request = &hosted.request;
        let need = hosted.need();
        let mut reasons = Vec::new();
        if !self.trusts_submitter(&request.submitter) {
            reasons.push(Reason::SubmitterTrust);
        }
        let facts = self.host.ledger.facts(now, need.gpu.as_ref(), &request.hints.data);
        let judged = facts.as_ref().and_then(|facts| self.judge_self(now, hosted, &need, facts.clone()));
        match &judged {
            None => reasons.push(Reason::StaleCapacity),
            Some(judged) => reasons.extend(judged.reasons.iter().map(|reason| match reason {
                // What the policy calls trust is here the node's own standing.
                Reason::Trust => Reason::SelfTrust,
                other => *other,
            })),
        }
        if let Some(facts) = &facts {
            if !reasons.contains(&Reason::DoesNotFit) && !self.host.ledger.has_machine_for(&need) {
                reasons.push(Reason::DoesNotFit);
            }
            if self.is_scope_full(&hosted.arbiter, &need) {
                reasons.push(Reason::ScopeFull);
            }
            if facts.running >= self.settings.running_jobs_max {
                reasons.push(Reason::RunningJobs);
            }
            if facts.queued > self.settings.queued_jobs_max {
                reasons.push(Reason::QueuedJobs);
            }
        }
        if self.holds_for(&request.submitter) >= self.settings.holds_per_submitter_max {
            reasons.push(Reason::HoldsPerSubmitter);
        }
        match (facts, judged.and_then(|judged| judged.score)) {
            (Some(facts), Some(score)) if reasons.is_empty() => Ok((facts, score)),
            _ => Err(reasons),
        }
    }

    fn holds_for(&self, submitter: &NodeId) -> usize {
        let offered = self.host.jobs.values().filter(|job| job.stage == Stage::Offered);
        offered.filter(|job| job.request.submitter == *submitter).count()
    }

    /// The advisory score: the node's own standing, and what it knows of the rest.
    fn judge_self(&self, now: Time, hosted: &HostedJob, need: &Profile, facts: Facts) -> Option<Judged> {
        let request = &hosted.request;
        let (cost, start_delay_ms) = self.settings.price(facts.queued);
        let probe = self.host.ledger.probe()?;
        let running = self.host.jobs.iter().filter(|(_, job)| matches!(job.stage, Stage::Running(_)));
        let candidate = Candidate {
            id: self.id.clone(),
            facts,
            cost,
            start_delay_ms,
            trust: self.trust.entry(&self.id).unwrap_or(1.0),
            rtt_ms: self.rtt_to(&hosted.arbiter, now),
            scope: self.scope_of(&hosted.arbiter),
            cell: None,
            runtimes: Some(probe.runtimes.clone()),
            beside: running.map(|(id, _)| job_id(id)).collect(),
        };
        let question = Question {
            job: request.job,
            round: request.round,
            need,
            hints: &request.hints,
            max_cost: request.max_cost,
            max_scope: request.max_scope,
            allowed_scopes: &request.allowed_scopes,
            cell: None,
            runtimes: &request.runtimes,
        };
        let judged =
            self.scorers.judge(&self.settings, self.settings.preset, now, &question, vec![candidate]);
        judged.into_iter().next()
    }

    /// Deliberation is over: all gates again, then hold and offer.
    pub(super) fn offer_or_decline(&mut self, now: Time, job: Digest, out: &mut Out) {
        let Some(hosted) = self.host.jobs.get(&job) else { return };
        let (arbiter, request, need) = (hosted.arbiter.clone(), hosted.request.clone(), hosted.need());
        let mut passed = self.gates(now, hosted);
        if passed.is_ok() && !request.dry_run && !self.host.ledger.grant(job, &need, GrantKind::Hold, now) {
            passed = Err(vec![Reason::DoesNotFit]);
        }
        let (facts, score) = match passed {
            Ok(passed) => passed,
            Err(reasons) => {
                self.drop_hosted(job, out);
                self.decline(&arbiter, &request, &reasons, out);
                return;
            }
        };
        if request.dry_run {
            self.drop_hosted(job, out);
        } else {
            if let Some(hosted) = self.host.jobs.get_mut(&job) {
                hosted.stage = Stage::Offered;
            }
            self.set_host_timer(job, HostTimer::Hold, after(now, self.settings.hold_ttl_ms), out);
        }
        let (cost, start_delay_ms) = self.settings.price(facts.queued);
        let offer = PlacementOffer {
            job,
            epoch: request.epoch,
            round: request.round,
            node: self.id.clone(),
            facts,
            cost,
            start_delay_ms,
            hold_ttl_ms: if request.dry_run { 0 } else { self.settings.hold_ttl_ms },
            score,
            offered_at: None,
        };
        out.metric(Metric::OfferSent);
        out.metric(Metric::Score { role: Role::Node, score });
        self.send(&arbiter, Message::PlacementOffer(Box::new(offer)), out);
    }

    /// The hold has ended; the award may still come.
    pub(super) fn expire(&mut self, now: Time, job: Digest, out: &mut Out) {
        self.host.ledger.release(&job);
        if let Some(hosted) = self.host.jobs.get_mut(&job) {
            hosted.stage = Stage::Expired;
        }
        self.set_host_timer(job, HostTimer::Forget, after(now, EXPIRED_KEPT_MS), out);
    }
}
