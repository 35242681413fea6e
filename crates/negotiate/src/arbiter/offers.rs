//! Receiving offers and declines: every offer is checked, and the first failure decides.

use landfall_model::{Digest, NodeId, Time};

use super::{ArbiterJob, JobState, OfferRecord, OfferStatus, RoundRecord};
use crate::message::{Closing, PlacementDecline, PlacementOffer};
use crate::reason::Reason;
use crate::score::{Candidate, Judged, Question, job_id};
use crate::settings::PRICE_MAX;
use crate::timers::JobTimer;
use crate::{Deed, Metric, Out, Peer, Received, Role, after};

/// What becomes of an offer that just came.
enum Fate {
    Rejected(Reason),
    Duplicate,
    Late,
    Judge,
}

impl Peer {
    pub(crate) fn on_offer(&mut self, now: Time, from: &NodeId, offer: PlacementOffer, out: &mut Out) {
        if !self.is_author(from, &offer.node, out) {
            return;
        }
        let job = offer.job;
        let fate = self.fate_of(&offer);
        let status = match fate {
            Fate::Rejected(reason) => {
                if reason == Reason::Invalid {
                    self.note(from, Deed::Invalid, out);
                }
                OfferStatus::Rejected(reason)
            }
            Fate::Duplicate => {
                out.metric(Metric::OfferReceived(Received::Duplicate));
                self.note(from, Deed::Repeated, out);
                return;
            }
            Fate::Late => OfferStatus::Late,
            Fate::Judge => OfferStatus::Standing,
        };
        let mut record = OfferRecord {
            node: offer.node,
            facts: offer.facts,
            cost: offer.cost,
            start_delay_ms: offer.start_delay_ms,
            received_at: now,
            score: None,
            terms: Vec::new(),
            status,
        };
        if status == OfferStatus::Standing {
            self.judge_one(now, job, &mut record);
        }
        out.metric(Metric::OfferReceived(match record.status {
            OfferStatus::Standing => Received::Accepted,
            OfferStatus::Late => Received::Late,
            _ => Received::Rejected,
        }));
        if let (OfferStatus::Standing, Some(score)) = (record.status, record.score) {
            out.metric(Metric::Score { role: Role::Arbiter, score });
        }
        let (status, node) = (record.status, record.node.clone());
        self.keep(job, record);
        match status {
            OfferStatus::Late => self.send(&node, self.closing(job, self.closing_for_late(&job)), out),
            OfferStatus::Standing
                if self.jobs.get(&job).is_some_and(|known| known.submission.is_simple()) =>
            {
                // The first valid offer is awarded; those of the same instant are ranked with it.
                self.set_job_timer(job, JobTimer::Decide, now, out);
            }
            _ => self.close_early(now, job, out),
        }
    }

    /// The checks up to the decision, in their order.
    fn fate_of(&self, offer: &PlacementOffer) -> Fate {
        let Some(known) = self.jobs.get(&offer.job) else { return Fate::Rejected(Reason::StaleRound) };
        let Some(round) = known.progress.rounds.last() else { return Fate::Rejected(Reason::StaleRound) };
        if (offer.epoch, offer.round) != (round.epoch, round.round) {
            return Fate::Rejected(Reason::StaleRound);
        }
        let valid = offer.facts.are_plausible(known.submission.hints.data.len())
            && offer.facts.probe_age_ms <= self.settings.capacity_stale_ms
            && (0.0..=1.0).contains(&offer.score)
            && offer.cost <= PRICE_MAX;
        if !valid {
            return Fate::Rejected(Reason::Invalid);
        }
        if round.offers.iter().any(|other| other.node == offer.node) {
            return Fate::Duplicate;
        }
        if known.progress.state != JobState::Open {
            return Fate::Late;
        }
        if round.offers.len() >= self.settings.offers_per_round_max {
            return Fate::Rejected(Reason::OffersPerRound);
        }
        Fate::Judge
    }

    fn judge_one(&self, now: Time, job: Digest, record: &mut OfferRecord) {
        let Some(known) = self.jobs.get(&job) else { return };
        let candidate = self.candidate(now, known, record);
        if let Some(judged) = self.judge(now, job, known, vec![candidate]).into_iter().next() {
            record.score = judged.score;
            record.terms = judged.terms;
            if let Some(&reason) = judged.reasons.first() {
                record.status = OfferStatus::Rejected(reason);
            }
        }
    }

    /// Stores an offer of the present round, one per node and within the bound.
    fn keep(&mut self, job: Digest, record: OfferRecord) {
        let most = self.settings.offers_per_round_max;
        let Some(known) = self.jobs.get_mut(&job) else { return };
        let Some(round) = known.progress.rounds.last_mut() else { return };
        let stale = record.status == OfferStatus::Rejected(Reason::StaleRound);
        let listed = round.offers.iter().any(|other| other.node == record.node);
        if !stale && !listed && round.offers.len() < most {
            round.offers.push(record);
        }
    }

    fn closing_for_late(&self, job: &Digest) -> Closing {
        let Some(known) = self.jobs.get(job) else { return Closing::NoOffer };
        match known.progress.state {
            JobState::Running | JobState::Completed => Closing::Placed,
            JobState::Failed(_) if known.progress.result.is_some() => Closing::Placed,
            JobState::Failed(_) => Closing::Failed,
            JobState::Cancelled => Closing::Cancelled,
            // Until the commit it is only known that this offer cannot win.
            JobState::Open | JobState::Waiting | JobState::Awarded | JobState::Ranked => Closing::NoOffer,
        }
    }

    /// A stored offer with what this arbiter itself knows of the node.
    pub(super) fn candidate(&self, now: Time, known: &ArbiterJob, offer: &OfferRecord) -> Candidate {
        let runs_there = |other: &&JobState| **other == JobState::Running;
        let beside = if known.submission.hints.colocate_with.is_empty() {
            Vec::new()
        } else {
            let there = self.jobs.iter().filter(|(_, other)| {
                Some(&other.progress.state).filter(runs_there).is_some()
                    && other.progress.award.as_ref().is_some_and(|award| award.node == offer.node)
            });
            there.map(|(id, _)| job_id(id)).collect()
        };
        Candidate {
            id: offer.node.clone(),
            facts: offer.facts.clone(),
            cost: offer.cost,
            start_delay_ms: offer.start_delay_ms,
            trust: self.trust_in(&offer.node),
            rtt_ms: self.rtt_to(&offer.node, now),
            scope: self.scope_of(&offer.node),
            cell: self.trust.cell(&offer.node).cloned(),
            runtimes: None,
            beside,
        }
    }

    pub(super) fn judge(
        &self,
        now: Time,
        job: Digest,
        known: &ArbiterJob,
        candidates: Vec<Candidate>,
    ) -> Vec<Judged> {
        let (submission, need) = (&known.submission, known.submission.need());
        let round = known.progress.rounds.last();
        let question = Question {
            job,
            round: known.progress.round,
            need: &need,
            hints: &submission.hints,
            max_cost: submission.max_cost,
            max_scope: round.map_or(submission.max_scope, |round| round.max_scope),
            allowed_scopes: &submission.allowed_scopes,
            cell: submission.cell.as_ref(),
            runtimes: &submission.runtimes,
        };
        let preset = submission.preset.unwrap_or(self.settings.preset);
        self.scorers.judge(&self.settings, preset, now, &question, candidates)
    }

    pub(crate) fn on_decline(&mut self, now: Time, from: &NodeId, decline: PlacementDecline, out: &mut Out) {
        if !self.is_author(from, &decline.node, out) {
            return;
        }
        let most = self.settings.offers_per_round_max;
        let Some(known) = self.jobs.get_mut(&decline.job) else { return };
        let open = known.progress.state == JobState::Open;
        let Some(round) = known.progress.rounds.last_mut().filter(|_| open) else { return };
        let present = (decline.epoch, decline.round) == (round.epoch, round.round);
        if present && round.declines.len() < most && decline.reasons.len() <= Reason::ALL.len() {
            round.declines.entry(decline.node).or_insert(decline.reasons);
            self.close_early(now, decline.job, out);
        }
    }

    /// Decides early, though not before deliberation is over, once everybody who could has answered.
    fn close_early(&mut self, now: Time, job: Digest, out: &mut Out) {
        let Some(known) = self.jobs.get(&job).filter(|known| known.progress.state == JobState::Open) else {
            return;
        };
        let Some(round) = known.progress.rounds.last() else { return };
        if !self.settings.early_close || known.submission.is_simple() || !self.all_answered(now, known, round)
        {
            return;
        }
        let at = after(known.progress.asked_at, self.deliberation_of(&known.submission)).max(now);
        self.set_job_timer(job, JobTimer::Decide, at, out);
    }

    fn all_answered(&self, now: Time, known: &ArbiterJob, round: &RoundRecord) -> bool {
        let answered = |id: &NodeId| {
            round.declines.contains_key(id) || round.offers.iter().any(|offer| offer.node == *id)
        };
        let need = known.submission.need();
        let could = self.known_now(now).filter(|(id, announce)| {
            let has = &announce.capacity;
            self.trust_in(id) >= self.settings.trust_execute
                && need.cpu_milli.unwrap_or(0) <= has.cpu_free
                && need.memory_mib.unwrap_or(0) <= has.memory_free
                && need.storage_mib.unwrap_or(0) <= has.storage_free
                && need.network_mbit_s.unwrap_or(0) <= has.network_mbit_s
                && need.gpu.as_ref().is_none_or(|gpu| gpu.count <= has.gpus_free)
        });
        let mut expected =
            could.map(|(id, _)| id).chain(self.settings.runs_work.then_some(&self.id)).peekable();
        expected.peek().is_some() && expected.all(answered)
    }
}
