//! Negotiated pools: the peer of this process, with its timers among those of the engine.
//!
//! A peer is a state machine of its own ([`landfall_negotiate`]); what it is told are facts, so the journal stores its
//! inputs, and telling it the same again gives the same peer.
//!
//! *Who owns what.* A job that was submitted here has a record like any other. While peers place it, its arbiter (the peer)
//! decides and the record follows: committed to the winner when the award is, back in line when its lease is lost, ended with
//! its result. The winner is no node of this ledger, so such a commit holds nothing here. What this peer won runs as a job of
//! its own in the same pool, submitted like any other by whoever drives the engine, and placed on the pool's machines by the
//! ledger; so a peer that wins its own job has two records, one of each kind.
//!
//! *From award to placement.* An award that the peer takes becomes a hold on the best machine by the pool's own policy, in the
//! same step, so that no other job of the pool gets that room before the arbiter has confirmed; where there is none, the award is
//! refused and not acknowledged. The hold ends with the award, or in the step that submits the job, which places it first.
//!
//! ```text
//!  arbiter's job   Open, Waiting, Awarded ──commit──► Running ──result──► Completed | Failed   Cancelled
//!  record here     Pending ─────────────Committed───► Running ──Ended───► Completed | Failed   Cancelled
//!                     ▲                                  │
//!                     └──────────────Requeued────────────┘ lease lost
//! ```
//!
//! *After a restart* ([`Input::StartPeer`](crate::Input::StartPeer)) the peer goes on from itself as it is in the state, with the
//! next epoch: whatever was negotiated is asked for anew, whatever runs elsewhere keeps its lease, and what runs here goes on
//! if the clock of this boot says that it may.

use std::sync::Arc;

use landfall_model::life::{Breakdown, Points};
use landfall_model::{
    Digest, Dispatch, Job, JobId, JobSpec, Mib, MilliCpu, Millis, Name, NodeId, Placement, PoolId,
};

use super::unknown;
use crate::effect::{Answer, Effect, Refused};
use crate::engine::Engine;
use crate::event::{Back, Event, Grant, Hold, HoldEnd};
use crate::input::Submission;
use crate::ledger::{Counted, Proposal};
use crate::record::{Cause, JobState, Phase, StartKind};
use crate::timers::Timer;
use landfall_negotiate::{
    self as negotiate, Entry, Failure, Message, OfferStatus, Peer, PlacementRequest, Profile, Progress,
    Settings, Stage,
};

/// What a job is called that the peer of this process won.
pub fn hosted_id(job: &Digest, attempt: u32) -> JobId {
    let digest = job.to_string();
    JobId::new(&format!("p{}-{attempt}", &digest[..12]))
        .unwrap_or_else(|_| unreachable!("it is short and plain"))
}

/// What a request says of the job that it is about, as the ledger would keep it.
fn asked_for(request: &PlacementRequest, runtime: &Name) -> JobSpec {
    let need = request.profile.clone().unwrap_or_else(Profile::minimal);
    let mut spec = JobSpec::empty();
    spec.runtime = runtime.clone();
    spec.cpu_milli = MilliCpu::new(need.cpu_milli.unwrap_or(0));
    spec.ram_mib = Mib::new(need.memory_mib.unwrap_or(0));
    if let Some(gpu) = need.gpu {
        spec.gpu_count = gpu.count;
        spec.vram_mib = Mib::new(gpu.memory_mib.unwrap_or(0));
        spec.gpu_capability = gpu.capability;
    }
    spec
}

impl Engine {
    pub(crate) fn set_peer(&mut self, pool: PoolId, id: NodeId, settings: Settings) -> Answer {
        let Some(state) = self.state.pools.get(&pool) else {
            return Answer::Refused(unknown("pool", pool.as_str()));
        };
        if state.pool.dispatch != Dispatch::Negotiate {
            let message = format!("pool `{pool}` does not negotiate");
            return Answer::Refused(Refused::new("not_negotiate", message, "set dispatch = \"negotiate\""));
        }
        // What the pool's own policy file says goes for offers too.
        let policy = settings.policy.or_else(|| state.policy.as_deref().map(str::to_owned));
        let settings = Settings { policy, ..settings };
        match self.state.peers.get(&pool).filter(|known| *known.id() == id) {
            Some(known) if *known.settings() == settings => Answer::Ignored("as_it_was".into()),
            Some(known) => {
                let boot = known.boot();
                self.renew_peer(pool, settings, boot)
            }
            None => match Peer::new(id, settings) {
                Ok(peer) => {
                    self.emit(Event::PeerSet { pool, peer: Box::new(peer) });
                    Answer::Done
                }
                Err(error) => out_of_range(&error),
            },
        }
    }

    pub(crate) fn start_peer(&mut self, pool: PoolId, boot: u64) -> Answer {
        let Some(settings) = self.state.peers.get(&pool).map(|peer| peer.settings().clone()) else {
            return no_peer(&pool);
        };
        self.renew_peer(pool, settings, boot)
    }

    /// The peer as it is after another start.
    fn renew_peer(&mut self, pool: PoolId, settings: Settings, boot: u64) -> Answer {
        let Some(known) = self.state.peers.get(&pool) else { return no_peer(&pool) };
        let (id, trust) = (known.id().clone(), known.trust().clone());
        match Peer::restart(id, settings, trust, known.durable(), self.now, boot) {
            Ok((peer, effects)) => {
                self.emit(Event::PeerSet { pool: pool.clone(), peer: Box::new(peer) });
                self.peer_wants(&pool, effects);
                Answer::Done
            }
            Err(error) => out_of_range(&error),
        }
    }

    pub(crate) fn tell_peer(&mut self, pool: PoolId, input: Box<negotiate::Input>) -> Answer {
        if !self.state.peers.contains_key(&pool) {
            return no_peer(&pool);
        }
        if let negotiate::Input::Submit(submission) = &*input
            && let Err(refusal) = submission.validate()
        {
            return refused(&refusal);
        }
        self.emit(Event::PeerTold { pool, input });
        Answer::Done
    }

    /// Accepts a job that peers place among themselves.
    pub(crate) fn negotiate(&mut self, submission: Submission, asked: Box<negotiate::Submission>) -> Answer {
        let job = submission.job.id.clone();
        if self.state.jobs.contains_key(&job) {
            return Answer::Ignored("submitted_before".into());
        }
        let pool = match self.pool_for(&submission) {
            Ok(pool) => pool,
            Err(refused) => return Answer::Refused(refused),
        };
        if let Err(refused) = self.acceptable(&submission.job, &pool, 1) {
            return Answer::Refused(refused);
        }
        let Some(peer) = self.state.peers.get(&pool) else { return no_peer(&pool) };
        let digest = match peer.check(self.now, &asked) {
            Ok(digest) => digest,
            Err(refusal) => return refused(&refusal),
        };
        let accepted = self.as_accepted(submission.job, None, &[]);
        self.emit(Event::Announced { job, digest });
        self.emit(Event::Submitted { job: Box::new(accepted), pool: pool.clone(), user_hold: false });
        self.emit(Event::PeerTold { pool, input: Box::new(negotiate::Input::Submit(asked)) });
        Answer::Done
    }

    /// Tells peers that a job which they place is not wanted any more; says whether there was one.
    pub(crate) fn call_off(&mut self, job: &JobId) -> bool {
        let Some(digest) = self.state.announced.get(job).copied() else { return false };
        let Some(record) = self.state.job(job).filter(|record| !record.state.is_final()) else {
            return false;
        };
        let pool = record.pool.clone();
        let live = self.state.peers.get(&pool).and_then(|peer| peer.jobs().get(&digest));
        if !live.is_some_and(|job| job.progress.state.is_live()) {
            return false;
        }
        let input = Box::new(negotiate::Input::Cancel { job: digest });
        self.emit(Event::PeerTold { pool, input });
        true
    }

    /// The code that the winner says a job exited with; the result follows.
    pub(crate) fn peer_exit(&mut self, job: &JobId, attempt: u32, code: i32) -> Answer {
        let Some(record) = self.state.job(job) else { return Answer::Refused(unknown("job", job.as_str())) };
        let Some(run) = record.run.as_ref().filter(|_| record.attempt == attempt) else {
            return Answer::Ignored("stale_fence".into());
        };
        let Some(at) = run.nodes.first().filter(|_| self.state.announced.contains_key(job)) else {
            return Answer::Ignored("not_announced".into());
        };
        let node = at.node.clone();
        self.emit(Event::Reported { job: job.clone(), node, phase: Phase::Started, exit: Some(code) });
        Answer::Done
    }

    /// A timer of a peer is due.
    pub(crate) fn peer_due(&mut self, pool: &PoolId) {
        loop {
            let due = self.state.peers.get(pool).and_then(|peer| {
                peer.timers().iter().filter(|(_, at)| *at <= self.now).map(|(id, at)| (at, id.clone())).min()
            });
            let Some((_, id)) = due else { break };
            self.emit(Event::PeerTold {
                pool: pool.clone(),
                input: Box::new(negotiate::Input::Timer { id }),
            });
        }
        self.set_peer_timer(pool);
    }

    pub(crate) fn set_peer_timer(&mut self, pool: &PoolId) {
        let at = self.state.peers.get(pool).and_then(|peer| peer.timers().iter().map(|(_, at)| at).min());
        self.timers.set(Timer::Peer(pool.clone()), at);
    }

    /// Hands on what a peer wants done; its timers are the engine's business, and its journal is that of the engine.
    pub(crate) fn peer_wants(&mut self, pool: &PoolId, effects: Vec<negotiate::Effect>) {
        let mut no_room = Vec::new();
        for effect in effects {
            match effect {
                negotiate::Effect::SetTimer { .. } | negotiate::Effect::ClearTimer { .. } => {}
                negotiate::Effect::Journal(Entry::Progress { job, progress }) => {
                    self.follow_arbiter(&job, &progress);
                }
                negotiate::Effect::Journal(Entry::Taken { job, fence, .. }) => {
                    if !self.hold_award(pool, job, fence.attempt) {
                        no_room.push(job);
                    }
                }
                negotiate::Effect::Send { message: Message::AwardAck(ack), .. }
                    if no_room.contains(&ack.job) => {}
                effect => self.want(Effect::Peer { pool: pool.clone(), effect: Box::new(effect) }),
            }
        }
        for job in no_room {
            let input = Box::new(negotiate::Input::NoRoom { job });
            self.emit(Event::PeerTold { pool: pool.clone(), input });
        }
        self.end_void_awards(pool);
        self.set_peer_timer(pool);
    }

    /// Keeps room for what the peer was awarded, on the best machine; says whether there is any.
    fn hold_award(&mut self, pool: &PoolId, digest: Digest, attempt: u32) -> bool {
        let peer = self.state.peers.get(pool);
        let Some(hosted) = peer.and_then(|peer| peer.host().jobs().get(&digest)) else { return true };
        let (request, lease_ms) = match &hosted.stage {
            Stage::Reserved { lease_ms, .. } => (hosted.request.clone(), *lease_ms),
            Stage::Running(run) => (hosted.request.clone(), run.lease_ms),
            _ => return true,
        };
        let machines = self.state.pools.get(pool).map_or(&[][..], |state| &state.nodes);
        let runtimes: Vec<Name> = match request.runtimes.is_empty() {
            true => machines.iter().flat_map(|node| node.runtimes.iter().cloned()).collect(),
            false => request.runtimes.clone(),
        };
        let id = hosted_id(&digest, attempt);
        let grant = runtimes.iter().find_map(|runtime| {
            let job = Job::new(id.clone(), Arc::new(asked_for(&request, runtime)), self.now);
            let grant = self.best_place(pool, &job)?;
            self.can_hold(&grant.placement, &grant.node).is_ok().then_some(grant)
        });
        let Some(Grant { node, placement, .. }) = grant else { return false };
        self.emit(Event::HoldMade(Box::new(Hold {
            id: self.state.next_hold,
            job: id,
            attempt: 1,
            pool: pool.clone(),
            node,
            placement,
            expires_at: self.now + Millis::new(lease_ms),
            created_at: self.now,
            award: Some(digest),
        })));
        true
    }

    /// Gives back what is kept for awards that are void, or whose job is there.
    fn end_void_awards(&mut self, pool: &PoolId) {
        let Some(peer) = self.state.peers.get(pool) else { return };
        let stands = |hold: &Hold, digest: &Digest| {
            let stage = peer.host().jobs().get(digest).map(|hosted| &hosted.stage);
            let fence =
                stage.and_then(Stage::fence).filter(|_| !matches!(stage, Some(Stage::Reporting { .. })));
            fence.is_some_and(|fence| hosted_id(digest, fence.attempt) == hold.job)
        };
        let holds = self.state.holds.values().filter(|hold| hold.pool == *pool);
        let void = holds.filter(|hold| hold.award.is_some_and(|digest| !stands(hold, &digest)));
        for id in void.map(|hold| hold.id).collect::<Vec<_>>() {
            self.emit(Event::HoldEnded { id, why: HoldEnd::JobGone });
        }
    }

    /// Ends what is kept for an award whose job is submitted now; says whether something was.
    pub(super) fn end_award(&mut self, job: &JobId) -> bool {
        let kept = self.state.holds.values().find(|hold| hold.job == *job && hold.award.is_some());
        let Some(id) = kept.map(|hold| hold.id) else { return false };
        self.emit(Event::HoldEnded { id, why: HoldEnd::Released });
        true
    }

    /// Brings the record of a job to where its arbiter says that it stands.
    fn follow_arbiter(&mut self, digest: &Digest, progress: &Progress) {
        let job = self.state.announced.iter().find(|(_, known)| *known == digest);
        let Some(job) = job.map(|(job, _)| job.clone()) else { return };
        let Some(record) = self.state.job(&job).filter(|record| !record.state.is_final()) else { return };
        let placed = record.run.is_some();
        let exit = record.run.iter().flat_map(|run| &run.nodes).find_map(|at| at.exit);
        let ended = |state, cause| Event::Ended { job: job.clone(), state, cause };
        match progress.state {
            negotiate::JobState::Open | negotiate::JobState::Waiting | negotiate::JobState::Awarded => {
                if placed {
                    let back = Back { cause: Cause::NodeLost, retry_at: None, counts: false, failed: false };
                    self.emit(Event::Requeued { job, back: Box::new(back) });
                }
            }
            negotiate::JobState::Running if placed => {}
            negotiate::JobState::Running => self.commit_elsewhere(&job, progress),
            negotiate::JobState::Completed => self.emit(ended(JobState::Completed, Cause::Exit(0))),
            negotiate::JobState::Failed(Failure::TaskFailed) => {
                self.emit(ended(JobState::Failed, Cause::Exit(exit.filter(|code| *code != 0).unwrap_or(1))));
            }
            negotiate::JobState::Failed(why) => {
                let why = Name::new(why.as_str()).unwrap_or_else(|_| unreachable!("a word is a name"));
                self.emit(ended(JobState::Failed, Cause::NotPlaced(why)));
            }
            negotiate::JobState::Cancelled => self.emit(ended(JobState::Cancelled, Cause::User)),
            negotiate::JobState::Ranked => {}
        }
    }

    /// The winner is no node of this ledger: nothing is held here.
    fn commit_elsewhere(&mut self, job: &JobId, progress: &Progress) {
        let (Some(award), Some(record)) = (&progress.award, self.state.job(job)) else { return };
        let placement = Placement::of(job.clone(), &record.job.spec, &[]);
        let grant = Grant { node: award.node.clone(), placement, lender: None };
        let offers = progress.rounds.last().map_or(&[][..], |round| &round.offers);
        let won = offers.iter().find(|offer| offer.status == OfferStatus::Won);
        let lost = offers.iter().filter(|offer| offer.status == OfferStatus::Lost);
        let next = lost.max_by(|a, b| {
            let key = |offer: &negotiate::OfferRecord| offer.score.map_or(i64::MIN, landfall_policy::q);
            key(a).cmp(&key(b)).then_with(|| b.node.cmp(&a.node))
        });
        let terms = won.iter().flat_map(|offer| &offer.terms).map(|line| Points {
            term: line.term.clone().into(),
            raw: line.raw,
            points: line.contribution,
        });
        let why = Breakdown {
            total: won.and_then(|offer| offer.score),
            terms: terms.collect(),
            runner_up: next.and_then(|offer| Name::new(offer.node.as_str()).ok()),
            raw_speed: None,
        };
        let node = award.node.clone();
        let (grants, kind) = ([grant].into_iter().collect(), StartKind::Start);
        let proposal = Proposal { job: job.clone(), attempt: 0, grants, kind, why };
        self.emit(Event::Committed(Box::new(proposal.commit(Counted::default()))));
        self.emit(Event::Reported { job: job.clone(), node, phase: Phase::Started, exit: None });
        self.emit(Event::Started(job.clone()));
    }
}

fn no_peer(pool: &PoolId) -> Answer {
    let message = format!("pool `{pool}` has no peer");
    Answer::Refused(Refused::new("no_peer", message, "set up the peer of the pool first"))
}

fn refused(refusal: &negotiate::SubmitRefusal) -> Answer {
    let hint = "change the field, or use another pool";
    Answer::Refused(Refused::new(refusal.reason.as_str(), refusal.to_string(), hint))
}

fn out_of_range(error: &negotiate::SettingsError) -> Answer {
    Answer::Refused(Refused::new("out_of_range", error.to_string(), "change the setting"))
}
