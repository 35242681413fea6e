//! What must hold after every event, as functions over the peers of a network. Each answers with what is wrong.

use std::collections::{BTreeMap, BTreeSet};

use landfall_model::{Digest, NodeId};

use landfall_negotiate::{
    Effect, Entry, Fence, Grant, GrantKind, HostTimer, JobState, OfferStatus, Peer, Stage, TimerId,
};

/// What is wrong, for people.
pub type Broken = Result<(), String>;

/// I1: at most one node holds an award that the arbiter still stands by.
pub fn one_live_fence(peers: &[&Peer]) -> Broken {
    for arbiter in peers {
        for (job, known) in arbiter.jobs() {
            let live = matches!(known.progress.state, JobState::Awarded | JobState::Running);
            let Some(present) = arbiter.fence_of(job).filter(|_| live) else { continue };
            let holders: Vec<&NodeId> = peers
                .iter()
                .filter(|node| {
                    let stage = node.host().jobs().get(job).map(|hosted| &hosted.stage);
                    let fence = stage.and_then(Stage::fence);
                    fence.is_some_and(|fence: Fence| fence.is_award_of(present))
                })
                .map(|node| node.id())
                .collect();
            if holders.len() > 1 {
                return Err(format!("job {job}: {holders:?} all hold the fence {present:?}"));
            }
        }
    }
    Ok(())
}

/// I3: promises never exceed what a node has, and no device is promised twice.
pub fn within_capacity(peers: &[&Peer]) -> Broken {
    for peer in peers {
        let ledger = peer.host().ledger();
        let Some(probe) = ledger.probe() else { continue };
        let sum = |amount: fn(&Grant) -> u64| ledger.grants().values().map(amount).sum::<u64>();
        let devices: Vec<u16> = ledger.grants().values().flat_map(|grant| grant.gpus.clone()).collect();
        let distinct: BTreeSet<u16> = devices.iter().copied().collect();
        if sum(|g| g.cpu_milli) > probe.cpu_total
            || sum(|g| g.memory_mib) > probe.memory_total
            || sum(|g| g.storage_mib) > probe.storage_total
            || sum(|g| g.network_mbit_s) > probe.network_mbit_s.into()
            || distinct.len() != devices.len()
        {
            return Err(format!("{} has promised more than it has: {:?}", peer.id(), ledger.grants()));
        }
    }
    Ok(())
}

/// I4, first half: every promise belongs to a job that will end it, and the timer for that is pending.
pub fn every_hold_ends(peers: &[&Peer]) -> Broken {
    for peer in peers {
        for (job, grant) in peer.host().ledger().grants() {
            let timer = |kind| peer.timers().due_at(&TimerId::Host { job: *job, kind }).is_some();
            let stage = peer.host().jobs().get(job).map(|hosted| &hosted.stage);
            let ends = match (grant.kind, stage) {
                (GrantKind::Hold, Some(Stage::Offered)) => timer(HostTimer::Hold),
                (GrantKind::Reservation, Some(Stage::Reserved { .. })) => timer(HostTimer::Confirm),
                (GrantKind::Reservation, Some(Stage::Running(_))) => timer(HostTimer::SelfStop),
                _ => false,
            };
            if !ends {
                return Err(format!("{}: nothing ends the {:?} for job {job}", peer.id(), grant.kind));
            }
        }
    }
    Ok(())
}

/// I5: nobody pays more than the limit.
pub fn price_within_budget(peers: &[&Peer]) -> Broken {
    for (job, known) in peers.iter().flat_map(|peer| peer.jobs()) {
        let (award, limit) = (known.progress.award.as_ref(), known.submission.max_cost);
        if award.zip(limit).is_some_and(|(award, limit)| award.price > limit) {
            return Err(format!("job {job} pays {award:?}, at most {limit:?}"));
        }
    }
    Ok(())
}

/// I6: no winner is below the least trust, as it was when the arbiter decided.
pub fn winner_is_trusted(peers: &[&Peer]) -> Broken {
    for peer in peers {
        for (job, known) in peer.jobs() {
            for offer in known.progress.rounds.iter().flat_map(|round| &round.offers) {
                let chosen = matches!(offer.status, OfferStatus::Won | OfferStatus::Awarded);
                let trust =
                    offer.terms.iter().find(|line| line.term == "offer-trust").map_or(0.0, |line| line.raw);
                if chosen && trust < peer.settings().trust_execute {
                    return Err(format!("job {job} went to {} with trust {trust}", offer.node));
                }
            }
        }
    }
    Ok(())
}

/// I8: every live job has a pending timer that moves it on.
pub fn live_job_has_timer(peers: &[&Peer]) -> Broken {
    for peer in peers {
        for (job, known) in peer.jobs() {
            if known.progress.state.is_live() && !peer.timers().drives_job(job) {
                return Err(format!("job {job} is {:?} and nothing moves it on", known.progress.state));
            }
        }
    }
    Ok(())
}

/// What must hold over time: fed with every step, it remembers what later states must not contradict.
#[derive(Debug, Clone, Default)]
pub struct History {
    copies: BTreeSet<(Digest, NodeId, u32)>,
    accepted: BTreeMap<Digest, u32>,
    offers: BTreeMap<(Digest, u32, NodeId), OfferStatus>,
}

impl History {
    /// A process of a job began on a node.
    pub fn began(&mut self, job: Digest, node: NodeId, attempt: u32) {
        self.copies.insert((job, node, attempt));
    }

    /// A process of a job is gone.
    pub fn ended(&mut self, job: Digest, node: NodeId, attempt: u32) {
        self.copies.remove(&(job, node, attempt));
    }

    /// What a step brought about.
    pub fn observe(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Effect::Journal(Entry::Accepted { job, .. }) = effect {
                *self.accepted.entry(*job).or_default() += 1;
            }
        }
    }

    /// I2: at most one process of a job runs anywhere.
    pub fn one_running_copy(&self) -> Broken {
        let mut jobs = self.copies.iter().map(|(job, node, _)| (job, node));
        let mut before = jobs.next();
        for (job, node) in jobs {
            if let Some((_, other)) = before.filter(|(other, _)| *other == job) {
                return Err(format!("job {job} runs on {other} and on {node}"));
            }
            before = Some((job, node));
        }
        Ok(())
    }

    /// I7: a result is accepted at most once per job.
    pub fn result_accepted_once(&self) -> Broken {
        match self.accepted.iter().find(|(_, times)| **times > 1) {
            Some((job, times)) => Err(format!("job {job}: a result was accepted {times} times")),
            None => Ok(()),
        }
    }

    /// I4, second half: a final status stays, and no offer of a finished round or job is without one.
    pub fn offers_end_once(&mut self, peers: &[&Peer]) -> Broken {
        for (job, known) in peers.iter().flat_map(|peer| peer.jobs()) {
            let progress = &known.progress;
            for round in &progress.rounds {
                let deciding = round.round == progress.round
                    && matches!(progress.state, JobState::Open | JobState::Awarded);
                for offer in &round.offers {
                    if !offer.status.is_final() {
                        if !deciding {
                            return Err(format!("job {job}: the offer of {} has no end", offer.node));
                        }
                        continue;
                    }
                    let key = (*job, round.round, offer.node.clone());
                    let first = *self.offers.entry(key).or_insert(offer.status);
                    if first != offer.status {
                        let (then, now) = (first, offer.status);
                        return Err(format!(
                            "job {job}: the offer of {} was {then:?}, is {now:?}",
                            offer.node
                        ));
                    }
                }
                let won = round.offers.iter().filter(|offer| offer.status == OfferStatus::Won).count();
                if won > 1 {
                    return Err(format!("job {job}: {won} offers won round {}", round.round));
                }
            }
        }
        Ok(())
    }
}

/// Every invariant, by its name.
pub fn all(peers: &[&Peer], history: &mut History) -> Result<(), (&'static str, String)> {
    let named = |name, broken: Broken| broken.map_err(|what| (name, what));
    named("one_live_fence", one_live_fence(peers))?;
    named("one_running_copy", history.one_running_copy())?;
    named("within_capacity", within_capacity(peers))?;
    named("every_hold_ends", every_hold_ends(peers))?;
    named("offers_end_once", history.offers_end_once(peers))?;
    named("price_within_budget", price_within_budget(peers))?;
    named("winner_is_trusted", winner_is_trusted(peers))?;
    named("result_accepted_once", history.result_accepted_once())?;
    named("live_job_has_timer", live_job_has_timer(peers))
}
