//! The peer of a pool that negotiates: what it wants done, done; what happens to what it runs, told to it.
//!
//! ```text
//!  network ──Heard──► Input::Peer ─► engine ─► Effect::Peer ┬─ Start ─► a hosted job is submitted, in the same commit
//!     ▲                                  ▲                  ├─ Stop ──► that job is cancelled, in the same commit
//!     └──────────Order, after the commit─┼──────────────────┴─ Broadcast, Send, Metric
//!                                        └── a hosted job began or ended
//! ```
//!
//! *Who owns what.* The engine owns the peer's state machine and both kinds of records; it is journalled with everything
//! else, so nothing is said to anybody before it is stored. A **hosted job** is what this peer won: a job of its own, named
//! after the digest and the attempt of the award, so that it is found again without being looked up. The service beside the
//! driver (`crate::peers`) owns connections, and carries output home; it keeps nothing that a restart would miss.
//!
//! *After a restart* the peer starts with the next epoch ([`Input::StartPeer`]); the service is told of every hosted job that
//! is live or whose result was not handed over, and carries its output home from the beginning: what is there already is not
//! kept twice. A hosted job whose server is away stops by itself after half its lease, well before the arbiter gives it up.

use std::collections::BTreeMap;

use landfall_api::job::JobRequest;
use landfall_api::peer::{Account, DeclineView, NegotiationView, OfferTerm, OfferView};
use landfall_engine::life::hosted_id;
use landfall_engine::record::{Cause, JobState};
use landfall_engine::{Answer, Effect, Event, Input};
use landfall_model::life::Refused;
use landfall_model::{Digest, Dispatch, JobId, NodeId, PoolId, Time};
use landfall_negotiate::{self as negotiate, Deed, Entry, Metric, Probe, RunnerEvent, Stage, TaskOutcome};
use landfall_store::{Reader, StoreError, Table};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::core::{Core, View, unreadable};
use super::handle::Caller;
use super::intake;
use super::probe::Loads;
use super::view::word;
use crate::config::Config;
use crate::error::ServerError;
use crate::foreign::{Foreign, under_lease};

/// What the service beside the driver has to do, in order, after the commit.
#[derive(Debug)]
pub enum Out {
    Order(landfall_peer::Order),
    /// A hosted job is there: carry its output home.
    Hosted(Hosted),
    /// It is over.
    Over(Over),
    /// Nobody waits for it any more.
    Dropped(JobId),
    Count(Metric),
    /// Another peer did something that counts for or against it.
    Deed {
        peer: NodeId,
        deed: Deed,
    },
}

/// A job that this peer won.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosted {
    pub id: JobId,
    pub job: Digest,
    pub attempt: u32,
    pub arbiter: NodeId,
}

/// How a hosted job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Over {
    pub id: JobId,
    pub outcome: TaskOutcome,
    pub code: i32,
    pub run_ms: u64,
}

/// The peer of this server.
#[derive(Debug)]
pub(super) struct PeerSide {
    pub(super) pool: PoolId,
    pub(super) id: NodeId,
    out: mpsc::UnboundedSender<Out>,
    /// What goes out once this round is stored.
    after: Vec<Out>,
    /// What the peer has to be told in this round.
    news: Vec<negotiate::Input>,
    pub(super) probed: Option<(Time, Probe)>,
    accounts: BTreeMap<String, Account>,
    pub(super) data_dir: std::path::PathBuf,
    /// Load that no job here causes, unless it is not to count.
    pub(super) loads: Option<Loads>,
    foreign: Foreign,
}

/// What the service needs to know of the peer that it serves.
#[derive(Debug)]
pub struct PeerLine {
    pub pool: PoolId,
    pub identity: landfall_peer::Identity,
    pub out: mpsc::UnboundedReceiver<Out>,
}

/// Key of what peers owe each other.
const ACCOUNTS: &str = "peer-accounts";
/// Key of what people said about peers.
pub(crate) const REMARKS: &str = "peer-remarks";

/// What people said about a peer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Remark {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub blocked: bool,
    /// Where it is to be reached, whatever happens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(skip)]
    pub account: Account,
}

fn record<T: Default + serde::de::DeserializeOwned>(
    store: &mut dyn Reader,
    key: &str,
) -> Result<T, StoreError> {
    match store.get(Table::Meta, key)? {
        Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| unreadable(Table::Meta, key, error)),
        None => Ok(T::default()),
    }
}

impl View<'_> {
    /// What is kept of peers beside the engine, by id.
    pub fn remarks(&mut self) -> Result<BTreeMap<String, Remark>, StoreError> {
        let mut remarks: BTreeMap<String, Remark> = record(&mut **self.store, REMARKS)?;
        let accounts: BTreeMap<String, Account> = record(&mut **self.store, ACCOUNTS)?;
        for (peer, account) in accounts {
            remarks.entry(peer).or_default().account = account;
        }
        Ok(remarks)
    }

    /// How the negotiation of a job stands, if it was negotiated.
    pub fn placement(&self, id: &str) -> Option<NegotiationView> {
        let state = self.engine.state();
        let id = JobId::new(id).ok()?;
        let digest = state.announced.get(&id)?;
        let peer = state.peers.values().find(|peer| peer.jobs().contains_key(digest))?;
        Some(NegotiationView { job: Some(id.to_string()), ..placement_view(peer, digest)? })
    }

    /// What came of a question to peers, once they had time to answer.
    pub fn ranked(&self, pool: &PoolId, digest: &Digest) -> Option<NegotiationView> {
        let view = placement_view(self.engine.state().peers.get(pool)?, digest)?;
        (view.state == "ranked").then_some(view)
    }
}

/// How a negotiation stands.
fn placement_view(peer: &negotiate::Peer, digest: &Digest) -> Option<NegotiationView> {
    let (verdict, known) = (peer.verdict(digest)?, peer.jobs().get(digest)?);
    let offers = verdict.offers.iter().map(|(round, offer)| OfferView {
        round: *round,
        peer: offer.node.to_string(),
        status: match (verdict.state, offer.status) {
            // Nobody was to be chosen.
            (negotiate::JobState::Ranked, negotiate::OfferStatus::Void) => {
                word(&negotiate::OfferStatus::Standing)
            }
            (_, status) => word(&status),
        },
        reason: match offer.status {
            negotiate::OfferStatus::Rejected(reason) => Some(reason.to_string()),
            _ => None,
        },
        score: offer.score,
        terms: offer
            .terms
            .iter()
            .map(|line| OfferTerm { term: line.term.clone(), raw: line.raw, points: line.contribution })
            .collect(),
        cost: offer.cost,
        start_delay_ms: offer.start_delay_ms,
        facts: crate::http::peer_facts(&offer.facts),
    });
    let declines = known.progress.rounds.iter().flat_map(|round| {
        round.declines.iter().map(|(peer, reasons)| DeclineView {
            round: round.round,
            peer: peer.to_string(),
            reasons: reasons.iter().map(ToString::to_string).collect(),
        })
    });
    Some(NegotiationView {
        job: None,
        digest: digest.to_string(),
        protocol: if known.submission.is_simple() { "simple" } else { "negotiated" }.to_owned(),
        state: word(&verdict.state).to_lowercase(),
        reason: match verdict.state {
            negotiate::JobState::Failed(why) => Some(why.to_string()),
            _ => None,
        },
        round: verdict.round,
        epoch: verdict.fence.epoch,
        attempt: verdict.fence.attempt,
        winner: verdict.winner.as_ref().map(ToString::to_string),
        price: verdict.price,
        charge: verdict.charge,
        offers: offers.collect(),
        declines: declines.collect(),
    })
}

impl Core {
    /// Sets up the peer of the pool that negotiates, if there is one.
    pub(super) fn set_up_peer(&mut self, config: &Config) -> Result<Option<PeerLine>, ServerError> {
        let pools = self.engine.state().pools.values();
        let mut pools =
            pools.filter(|pool| pool.pool.dispatch == Dispatch::Negotiate).map(|pool| &pool.pool.id);
        let Some(pool) = pools.next().cloned() else { return Ok(None) };
        if let Some(other) = pools.next() {
            return Err(ServerError::Refused {
                what: format!("pool `{other}`"),
                message: format!("pool `{pool}` negotiates already, and a server is one peer"),
                hint: "let one pool negotiate".into(),
            });
        }
        let identity =
            landfall_peer::Identity::load_or_make(&config.data_dir).map_err(|error| ServerError::Io {
                what: "cannot use the key of this peer".into(),
                source: std::io::Error::other(error),
            })?;
        let id = identity.id().clone();
        let (out, line) = mpsc::unbounded_channel();
        self.peers = Some(PeerSide {
            pool: pool.clone(),
            id: id.clone(),
            out,
            after: Vec::new(),
            news: Vec::new(),
            probed: None,
            accounts: record(&mut *self.store, ACCOUNTS)?,
            data_dir: config.data_dir.clone(),
            loads: (!config.peer.ledger_only).then(Loads::default),
            foreign: config.peer.foreign.clone(),
        });
        let settings = Box::new(config.peer.settings.clone());
        let what = || format!("the peer of pool `{pool}`");
        self.must(Input::SetPeer { pool: pool.clone(), id, settings }, what)?;
        self.must(Input::StartPeer { pool: pool.clone(), boot: self.boot() }, what)?;
        self.trust_as_set(config)?;
        self.settle_peers();
        for hosted in self.hosted_jobs() {
            let ended = self.engine.state().job(&hosted.id).is_some_and(|record| record.state.is_final());
            let id = hosted.id.clone();
            self.after_commit(Out::Hosted(hosted));
            if ended {
                self.hosted_over(&id);
            }
        }
        Ok(Some(PeerLine { pool, identity, out: line }))
    }

    /// Which boot of which machine the clock belongs to, as a number.
    fn boot(&self) -> u64 {
        use sha2::Digest as _;
        let digest = sha2::Sha256::digest(self.time.clock.anchor().boot);
        digest.first_chunk().map_or(0, |word| u64::from_be_bytes(*word))
    }

    fn trust_as_set(&mut self, config: &Config) -> Result<(), ServerError> {
        let Some(peer) = self.peer() else { return Ok(()) };
        let (own, mut table) = (peer.id().clone(), peer.trust().clone());
        // What it may run for itself is not for others to say.
        if table.entry(&own).is_none() {
            table = table.with(own, Some(1.0)).unwrap_or_default();
        }
        for (who, value) in &config.peer.trust {
            if landfall_peer::peer_id(who.as_str()).is_none() {
                return Err(ServerError::Refused {
                    what: "peer.trust".into(),
                    message: format!("`{who}` is no id of a peer"),
                    hint: "`landfall peer id` on that machine prints it".into(),
                });
            }
            table = table.with(who.clone(), Some(*value)).map_err(|error| ServerError::Refused {
                what: "peer.trust".into(),
                message: error.to_string(),
                hint: "give a number from 0 to 1".into(),
            })?;
        }
        if table != *peer.trust() {
            self.tell_peer(negotiate::Input::Trust(table));
        }
        Ok(())
    }

    pub(super) fn peer(&self) -> Option<&negotiate::Peer> {
        self.engine.state().peers.get(&self.peers.as_ref()?.pool)
    }

    pub(super) fn tell_peer(&mut self, input: negotiate::Input) {
        if let Some(pool) = self.peers.as_ref().map(|peers| peers.pool.clone()) {
            self.step(Input::Peer { pool, input: Box::new(input) });
        }
    }

    fn after_commit(&mut self, out: Out) {
        if let Some(peers) = &mut self.peers {
            peers.after.push(out);
        }
    }

    /// Why a pool cannot negotiate from now on: the peer of a server is set up when it starts.
    pub(super) fn not_this_peer(&self, input: &Input) -> Option<Refused> {
        let Input::SetPool { pool, .. } = input else { return None };
        let known = self.peers.as_ref().map(|peers| &peers.pool);
        let (message, hint) = match known {
            _ if pool.dispatch != Dispatch::Negotiate && known != Some(&pool.id) => return None,
            Some(known) if *known == pool.id && pool.dispatch == Dispatch::Negotiate => return None,
            Some(known) if *known == pool.id => {
                (format!("pool `{known}` negotiates, and peers count on it"), "make another pool")
            }
            Some(known) => {
                (format!("pool `{known}` negotiates already, and a server is one peer"), "use that pool")
            }
            None => (
                format!("this server is no peer, so pool `{}` cannot negotiate yet", pool.id),
                "name the pool in the settings file and start the server anew, or use `landfall up --peer`",
            ),
        };
        Some(Refused::new("negotiate_unsupported", message, hint))
    }

    /// What this round left to be told goes out, or is forgotten if it was not stored.
    pub(super) fn send_to_peers(&mut self, stored: bool) {
        let Some(peers) = &mut self.peers else { return };
        for out in std::mem::take(&mut peers.after).into_iter().filter(|_| stored) {
            // Without a service (a test, a server that ends) nobody listens.
            let _ = peers.out.send(out);
        }
        if !stored {
            peers.news.clear();
            peers.probed = None;
        }
    }

    /// Jobs that this peer won and that somebody still waits for.
    pub(super) fn hosted_jobs(&self) -> Vec<Hosted> {
        let Some(peer) = self.peer() else { return Vec::new() };
        let running = peer.host().jobs().iter().filter_map(|(job, hosted)| match &hosted.stage {
            Stage::Running(run) => Some((job, run.fence.attempt, hosted.arbiter.clone())),
            _ => None,
        });
        running
            .map(|(job, attempt, arbiter)| Hosted {
                id: hosted_id(job, attempt),
                job: *job,
                attempt,
                arbiter,
            })
            .filter(|hosted| self.engine.state().job(&hosted.id).is_some())
            .collect()
    }

    pub(super) fn is_hosted(&self, id: &JobId) -> bool {
        self.peers.is_some()
            && id.as_str().starts_with('p')
            && self.jobs.meta(id).is_some_and(|meta| meta.foreign)
    }

    /// Keeps the peer up with what happens to the jobs that it hosts.
    pub(super) fn follow_hosted(&mut self, event: &Event) {
        match event {
            Event::Started(id) if self.is_hosted(id) => {
                let found = self.hosted_jobs().into_iter().find(|hosted| hosted.id == *id);
                if let (Some(hosted), Some(peers)) = (found, &mut self.peers) {
                    let Hosted { job, attempt, .. } = hosted;
                    peers.news.push(negotiate::Input::Runner { job, attempt, event: RunnerEvent::Started });
                }
            }
            Event::Ended { job, .. } if self.is_hosted(job) => self.hosted_over(&job.clone()),
            _ => {}
        }
    }

    /// A hosted job ended: what it wrote goes home first, then its result.
    fn hosted_over(&mut self, id: &JobId) {
        let Some(record) = self.engine.state().job(id) else { return };
        let Some((cause, at)) = record.ended.as_deref().cloned() else { return };
        let started = record.past.as_ref().and_then(|past| past.first_started_at);
        let run_ms = started.map_or(0, |started| at.since(started).get());
        let (outcome, code) = match (record.state, cause) {
            (JobState::Completed, _) => (TaskOutcome::Success, 0),
            (_, Cause::Exit(code)) => (TaskOutcome::Failed, code),
            _ => (TaskOutcome::Failed, 1),
        };
        self.after_commit(Out::Over(Over { id: id.clone(), outcome, code, run_ms }));
    }

    /// Carries out, within this round, what the peer wants of this server, and tells it what it has to know.
    pub(super) fn settle_peers(&mut self) {
        if self.peers.is_none() {
            return;
        }
        self.probe_peer();
        loop {
            for input in self.peers.as_mut().map(|peers| std::mem::take(&mut peers.news)).unwrap_or_default()
            {
                self.tell_peer(input);
            }
            let effects = self.take_peer_effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                self.carry_out(effect);
            }
        }
    }

    fn carry_out(&mut self, effect: negotiate::Effect) {
        match effect {
            negotiate::Effect::Broadcast { message } => {
                self.after_commit(Out::Order(landfall_peer::Order::Broadcast(message)));
            }
            negotiate::Effect::Send { to, message } => {
                self.after_commit(Out::Order(landfall_peer::Order::Send { to, message }));
            }
            negotiate::Effect::Start(start) => self.host(*start),
            negotiate::Effect::Stop { job, attempt } => {
                let id = hosted_id(&job, attempt);
                self.after_commit(Out::Dropped(id.clone()));
                self.step(Input::Cancel(id));
            }
            negotiate::Effect::Metric(metric) => self.after_commit(Out::Count(metric)),
            negotiate::Effect::Journal(Entry::Accepted { node, charge, .. }) => {
                self.book(&node, |account| {
                    account.bought += 1;
                    account.spent = account.spent.saturating_add(charge);
                });
            }
            negotiate::Effect::Journal(Entry::Earned { arbiter, charge, .. }) => {
                self.book(&arbiter, |account| {
                    account.sold += 1;
                    account.earned = account.earned.saturating_add(charge);
                });
            }
            negotiate::Effect::Journal(Entry::Deed { peer, deed, .. }) => {
                self.after_commit(Out::Deed { peer, deed });
            }
            negotiate::Effect::Journal(_)
            | negotiate::Effect::SetTimer { .. }
            | negotiate::Effect::ClearTimer { .. } => {}
        }
    }

    /// Submits what this peer won as a job of its own; a body that makes no sense is a run that failed.
    fn host(&mut self, start: negotiate::Start) {
        let negotiate::Start { job, attempt, request, body, .. } = start;
        let id = hosted_id(&job, attempt);
        let found = self.peer().and_then(|peer| Some(peer.host().jobs().get(&job)?.arbiter.clone()));
        let here =
            self.peers.as_ref().map(|peers| (peers.pool.clone(), peers.id.clone(), peers.foreign.clone()));
        let (Some(arbiter), Some((pool, own, foreign))) = (found, here) else { return };
        let hosted = Hosted { id: id.clone(), job, attempt, arbiter: arbiter.clone() };
        let submitted = serde_json::from_slice::<JobRequest>(body.as_slice())
            .map_err(|error| format!("what is to be run cannot be read: {error}"))
            .and_then(|wanted| match arbiter == own {
                // What was submitted here may do what any job may.
                true => Ok(self.as_submitted(&job, under_lease(wanted, request.lease_ms))),
                false => foreign
                    .admit(wanted, request.profile.as_ref(), request.lease_ms)
                    .map_err(|reason| reason.to_string()),
            })
            .and_then(|mut wanted| {
                wanted.needs.pool = Some(pool);
                let caller = Caller { name: format!("peer {arbiter}"), ..Caller::default() };
                self.submit_hosted(&caller, wanted, &id).map_err(|failure| failure.to_string())
            });
        match submitted {
            Ok(()) => self.after_commit(Out::Hosted(hosted)),
            Err(why) => {
                tracing::warn!(%arbiter, %job, %why, "a job of a peer cannot be run here");
                let event = RunnerEvent::Finished {
                    outcome: TaskOutcome::Failed,
                    fuel_used: Some(0),
                    run_ms: 0,
                    output: None,
                };
                self.tell_peer(negotiate::Input::Runner { job, attempt, event });
            }
        }
    }

    /// A job that this peer won from itself, with what nobody else is told: who submitted it, and where.
    fn as_submitted(&self, job: &Digest, mut wanted: JobRequest) -> JobRequest {
        let state = self.engine.state();
        let Some((id, _)) = state.announced.iter().find(|(_, digest)| *digest == job) else { return wanted };
        wanted.run.submitted_from = self.jobs.meta(id).and_then(|meta| meta.run.submitted_from.clone());
        wanted.needs.user = state.job(id).and_then(|record| record.job.spec.user.clone());
        wanted
    }

    fn submit_hosted(
        &mut self,
        caller: &Caller,
        wanted: JobRequest,
        id: &JobId,
    ) -> Result<(), super::handle::Failure> {
        let mut view = self.view();
        let prepared = view.intake(caller, vec![wanted], |_| id.to_string());
        let mut prepared = view.sound(prepared)??;
        for job in &mut prepared {
            job.meta.foreign = true;
        }
        let metas: Vec<_> = prepared.iter().map(|job| std::sync::Arc::new(job.meta.clone())).collect();
        for meta in &metas {
            self.jobs.insert(id.clone(), meta.clone());
        }
        match self.step(intake::input(prepared)) {
            Answer::Refused(refused) => {
                self.jobs.remove(id);
                Err(super::submit::refused_answer(refused))
            }
            _ => {
                for meta in &metas {
                    self.put(Table::Jobs, id.as_str(), &**meta);
                }
                Ok(())
            }
        }
    }

    /// A result was accepted: somebody owes something to somebody else.
    fn book(&mut self, peer: &NodeId, change: impl FnOnce(&mut Account)) {
        let Some(peers) = self.peers.as_mut().filter(|peers| peers.id != *peer) else { return };
        change(peers.accounts.entry(peer.to_string()).or_default());
        let accounts = peers.accounts.clone();
        self.put(Table::Meta, ACCOUNTS, &accounts);
    }

    fn take_peer_effects(&mut self) -> Vec<negotiate::Effect> {
        let mut taken = Vec::new();
        let mut rest = Vec::new();
        for effect in self.take_effects() {
            match effect {
                Effect::Peer { effect, .. } => taken.push(*effect),
                other => rest.push(other),
            }
        }
        self.put_effects_back(rest);
        taken
    }
}
