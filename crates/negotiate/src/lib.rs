//! Negotiated placement: peers place work among themselves without a coordinator.
//!
//! The problem: several machines, no common clock, messages that are lost, doubled, late or forged, processes that
//! crash; and yet a job must run at most once at a time, on a node that has room for it and is trusted, at a price that
//! was agreed, and must not be forgotten.
//!
//! The machine: [`Peer::step`] takes the time and one [`Input`] and returns [`Effect`]s; it does no IO. A peer has two
//! parts. As *arbiter* it is the ledger of the jobs submitted to it:
//!
//! ```text
//! Open ─decide─► Awarded ─ack─► Running ─result─► Completed | Failed
//!  ▲ └─nobody─► Waiting ◄─none left─┘ │              └─lease lost─► Open
//!  └───backoff────┘                   └─refused, silent─► next best
//! ```
//!
//! As *node* it is the ledger of its own capacity:
//!
//! ```text
//! Considering ─timer─► Offered ─claim─► Reserved ─placed─► Running ─finished─► Reporting
//!                         └─hold ends─► Expired ─claim─┘
//! ```
//!
//! Only the arbiter commits, only on a current ack; only the node turns a hold into a reservation, in one step with the
//! check that it fits; nothing starts before the node knows of the commit; older fences are ignored everywhere. The
//! invariants of the test kit say the same as functions.

mod arbiter;
mod blob;
mod capacity;
mod conduct;
mod effect;
mod message;
mod node;
mod profile;
mod reason;
mod score;
mod settings;
mod submission;
mod timers;
mod trust;
pub mod wire;

use std::collections::{BTreeMap, VecDeque};

use landfall_model::{Digest, Millis, NodeId, Scope, Time};
use serde::{Deserialize, Serialize};

pub use arbiter::{ArbiterJob, Award, JobState, OfferRecord, OfferStatus, Progress, RoundRecord, Verdict};
pub use blob::Blob;
pub use capacity::{Grant, GrantKind, Ledger, Machine, Probe, ProbedGpu};
pub use conduct::{Conduct, Deed};
pub use effect::{Durable, Effect, Entry, Input, Metric, Received, Role, RunRecord, RunnerEvent, Start};
pub use message::{
    AwardAck, AwardRefuse, BodyRef, Closing, Fence, LeaseGrant, LeaseRenew, Message, NodeCapacityAnnounce,
    Phase, PlacementClosed, PlacementDecline, PlacementOffer, PlacementRequest, ResultAck, Revoke,
    TaskCancelled, TaskClaimed, TaskOutcome, TaskResult, Topic,
};
pub use node::{Host, HostedJob, Stage};
pub use profile::{Facts, GpuNeed, Profile};
pub use reason::{Failure, Reason};
pub use score::TermLine;
pub use settings::{LEASE_MS_MAX, LEASE_MS_MIN, Preset, Settings, SettingsError, charge};
pub use submission::{Protocol, Submission, SubmitRefusal};
pub use timers::{HostTimer, JobTimer, TimerId, Timers};
pub use trust::{Member, TrustError, TrustTable};

/// Bugs that tests plant to show that the invariants find them.
#[cfg(feature = "mutations")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Mutation {
    /// No bug.
    #[default]
    None,
    /// The arbiter awards the next best without a new attempt, so the first award is not void.
    DoubleAward,
    /// The node forgets to release a hold on closing.
    LeakedHold,
}

/// A peer that announced itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Known {
    announce: NodeCapacityAnnounce,
    at: Time,
}

/// Announcements kept; more peers than this are not told apart anyway.
const KNOWN_MAX: usize = 10_000;
/// A round trip counts this long.
const RTT_FRESH_MS: u64 = 300_000;

/// A process with a key pair: arbiter of its jobs, and node with its own capacity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    id: NodeId,
    settings: Settings,
    epoch: u64,
    boot: u64,
    trust: TrustTable,
    #[serde(default)]
    conduct: BTreeMap<NodeId, Conduct>,
    rtts: BTreeMap<NodeId, (u32, Time)>,
    known: BTreeMap<NodeId, Known>,
    jobs: BTreeMap<Digest, ArbiterJob>,
    host: Host,
    timers: Timers,
    /// Counts jobs and requests in the order in which they came.
    arrivals: u64,
    #[serde(skip)]
    scorers: score::Scorers,
    #[cfg(feature = "mutations")]
    #[serde(default)]
    pub mutation: Mutation,
}

/// Effects of a step, and messages of the peer to itself, which need no network.
#[derive(Default)]
struct Out {
    effects: Vec<Effect>,
    to_self: VecDeque<Message>,
}

impl Out {
    fn metric(&mut self, metric: Metric) {
        self.effects.push(Effect::Metric(metric));
    }

    fn journal(&mut self, entry: Entry) {
        self.effects.push(Effect::Journal(entry));
    }
}

fn after(now: Time, ms: u64) -> Time {
    now + Millis::new(ms)
}

impl Peer {
    /// A peer that starts for the first time.
    pub fn new(id: NodeId, settings: Settings) -> Result<Self, SettingsError> {
        settings.validate()?;
        Ok(Self {
            id,
            settings,
            epoch: 1,
            boot: 0,
            trust: TrustTable::default(),
            conduct: BTreeMap::new(),
            rtts: BTreeMap::new(),
            known: BTreeMap::new(),
            jobs: BTreeMap::new(),
            host: Host::default(),
            timers: Timers::default(),
            arrivals: 0,
            scorers: score::Scorers::default(),
            #[cfg(feature = "mutations")]
            mutation: Mutation::None,
        })
    }

    /// A peer that starts from its journal, with the next epoch. `boot` names the boot of the machine: runs go on only
    /// within the same one, because only its clock can tell whether their lease still holds. The trust table is needed
    /// at once, since rounds open anew.
    pub fn restart(
        id: NodeId,
        settings: Settings,
        trust: TrustTable,
        durable: Durable,
        now: Time,
        boot: u64,
    ) -> Result<(Self, Vec<Effect>), SettingsError> {
        let mut peer = Self::new(id, settings)?;
        peer.epoch = durable.epoch.saturating_add(1);
        peer.boot = boot;
        peer.trust = trust;
        peer.conduct = durable.conduct;
        let mut out = Out::default();
        out.journal(Entry::Epoch(peer.epoch));
        peer.restart_jobs(now, durable.jobs, &mut out);
        peer.restart_runs(now, durable.taken, durable.runs, &mut out);
        peer.deliver_own(now, &mut out);
        Ok((peer, out.effects))
    }

    /// All that another start of this peer needs, from the peer as it is: the journal folded by whoever kept it.
    pub fn durable(&self) -> Durable {
        let jobs = self.jobs.iter();
        let jobs = jobs.map(|(id, job)| (*id, (job.submission.clone(), Some(job.progress.clone()))));
        let runs = self.host.jobs.keys().filter_map(|job| Some((*job, self.run_record(job)?)));
        Durable {
            epoch: self.epoch,
            jobs: jobs.collect(),
            taken: self.host.taken(),
            runs: runs.collect(),
            conduct: self.conduct.clone(),
        }
    }

    pub const fn id(&self) -> &NodeId {
        &self.id
    }

    /// Which boot of the machine its clock belongs to.
    pub const fn boot(&self) -> u64 {
        self.boot
    }

    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    pub const fn trust(&self) -> &TrustTable {
        &self.trust
    }

    pub const fn jobs(&self) -> &BTreeMap<Digest, ArbiterJob> {
        &self.jobs
    }

    /// Its part as a node.
    pub const fn host(&self) -> &Host {
        &self.host
    }

    pub const fn timers(&self) -> &Timers {
        &self.timers
    }

    /// Takes one input at an instant of this peer's own clock.
    pub fn step(&mut self, now: Time, input: Input) -> Vec<Effect> {
        let mut out = Out::default();
        match input {
            Input::Message { from, message } => self.receive(now, &from, message, &mut out),
            Input::Unwilling { from, request, reasons } => {
                self.refuse_request(now, &from, &request, &reasons, &mut out);
            }
            Input::Timer { id } => self.fire(now, &id, &mut out),
            Input::Submit(submission) => {
                // The refusal is for the caller of `submit`; here it is only counted.
                if let Err(refusal) = self.accept(now, *submission, &mut out) {
                    out.metric(Metric::MessageRejected(refusal.reason));
                }
            }
            Input::Cancel { job } => self.cancel(now, job, &mut out),
            Input::Capacity(probe) => self.probed(now, *probe, &mut out),
            Input::Trust(table) => self.load_trust(table),
            Input::Rtt { peer, ms } => {
                self.rtts.retain(|_, (_, at)| now.since(*at).get() <= RTT_FRESH_MS);
                self.rtts.insert(peer, (ms, now));
            }
            Input::NoRoom { job } => self.give_up_award(job, Reason::Capacity, &mut out),
            Input::Runner { job, attempt, event } => self.runner(now, job, attempt, event, &mut out),
        }
        self.deliver_own(now, &mut out);
        out.effects
    }

    /// Submits a job and says what it is called or why it was refused. A live job that is submitted again is returned
    /// unchanged.
    pub fn submit(
        &mut self,
        now: Time,
        submission: Submission,
    ) -> (Result<Digest, SubmitRefusal>, Vec<Effect>) {
        let mut out = Out::default();
        let answer = self.accept(now, submission, &mut out);
        self.deliver_own(now, &mut out);
        (answer, out.effects)
    }

    fn deliver_own(&mut self, now: Time, out: &mut Out) {
        let me = self.id.clone();
        while let Some(message) = out.to_self.pop_front() {
            self.receive(now, &me, message, out);
        }
    }

    fn receive(&mut self, now: Time, from: &NodeId, message: Message, out: &mut Out) {
        match message {
            Message::PlacementRequest(request) => self.on_request(now, from, *request, false, out),
            Message::TaskSubmitted(request) => self.on_request(now, from, *request, true, out),
            Message::PlacementOffer(offer) => self.on_offer(now, from, *offer, out),
            Message::PlacementDecline(decline) => self.on_decline(now, from, decline, out),
            Message::NodeCapacityAnnounce(announce) => self.on_announce(now, from, *announce, out),
            Message::TaskClaimed(claim) => self.on_claim(now, from, &claim, out),
            Message::AwardAck(ack) => self.on_ack(now, from, &ack, out),
            Message::AwardRefuse(refuse) => self.on_refuse(now, from, &refuse, out),
            Message::PlacementClosed(closed) => self.on_closed(now, from, &closed, out),
            Message::LeaseRenew(renew) => self.on_renew(now, from, &renew, out),
            Message::LeaseGrant(grant) => self.on_grant(now, from, &grant, out),
            Message::Revoke(revoke) => self.on_void(from, revoke.job, revoke.fence, true, out),
            Message::TaskResult(result) => self.on_result(now, from, result, out),
            Message::ResultAck(ack) => self.on_result_ack(from, &ack, out),
            Message::TaskCancelled(cancelled) => {
                self.on_void(from, cancelled.job, cancelled.fence, false, out);
            }
            Message::BodyRequest { digest } => self.on_body_request(from, digest, out),
            Message::Body { bytes } => self.on_body(from, &bytes, out),
        }
    }

    /// Everything due goes in one order, whichever timer the driver names first: time, class, arrival, job.
    fn fire(&mut self, now: Time, id: &TimerId, out: &mut Out) {
        if !self.timers.is_due(id, now) {
            return;
        }
        let mut due: Vec<(Time, u8, u64, TimerId)> = Vec::new();
        for (id, at) in self.timers.iter().filter(|(_, at)| *at <= now) {
            let (class, arrival) = self.standing_of(id);
            due.push((at, u8::MAX - class, arrival, id.clone()));
        }
        due.sort();
        for (.., id) in due {
            if !self.timers.is_due(&id, now) {
                continue;
            }
            self.timers.clear(&id);
            match id {
                TimerId::Job { job, kind } => self.job_timer(now, job, kind, out),
                TimerId::Host { job, kind } => self.host_timer(now, job, kind, out),
                TimerId::Announce => self.announce(now, out),
                TimerId::ScopeAdapt => self.adapt_scopes(now, out),
            }
        }
    }

    fn standing_of(&self, id: &TimerId) -> (u8, u64) {
        match id {
            TimerId::Job { job, .. } => {
                self.jobs.get(job).map(|job| (job.submission.class, job.progress.arrival))
            }
            TimerId::Host { job, .. } => self.host.jobs.get(job).map(|job| (job.request.class, job.arrival)),
            TimerId::Announce | TimerId::ScopeAdapt => None,
        }
        .unwrap_or((0, u64::MAX))
    }

    fn set_timer(&mut self, id: TimerId, at: Time, out: &mut Out) {
        self.timers.set(id.clone(), at);
        out.effects.push(Effect::SetTimer { id, at });
    }

    fn clear_timer(&mut self, id: TimerId, out: &mut Out) {
        if self.timers.clear(&id) {
            out.effects.push(Effect::ClearTimer { id });
        }
    }

    fn broadcast(&self, message: Message, out: &mut Out) {
        if self.settings.runs_work {
            out.to_self.push_back(message.clone());
        }
        out.effects.push(Effect::Broadcast { message });
    }

    fn send(&self, to: &NodeId, message: Message, out: &mut Out) {
        if *to == self.id {
            out.to_self.push_back(message);
        } else {
            out.effects.push(Effect::Send { to: to.clone(), message });
        }
    }

    /// Whether the author is who the message says; a forgery is counted.
    fn is_author(&mut self, from: &NodeId, named: &NodeId, out: &mut Out) -> bool {
        if from != named {
            self.reject(from, Reason::Forged, Deed::Forged, out);
        }
        from == named
    }

    /// Drops a message that its author should not have sent.
    fn reject(&mut self, from: &NodeId, reason: Reason, deed: Deed, out: &mut Out) {
        out.metric(Metric::MessageRejected(reason));
        self.note(from, deed, out);
    }

    /// Remembers what another peer did.
    fn note(&mut self, peer: &NodeId, deed: Deed, out: &mut Out) {
        if *peer == self.id || (self.conduct.len() >= KNOWN_MAX && !self.conduct.contains_key(peer)) {
            return;
        }
        let conduct = self.conduct.entry(peer.clone()).or_default();
        conduct.note(deed, &self.settings);
        let (peer, conduct) = (peer.clone(), conduct.clone());
        out.journal(Entry::Deed { peer, deed, conduct });
    }

    /// What others did, as far as it was noted.
    pub const fn conduct(&self) -> &BTreeMap<NodeId, Conduct> {
        &self.conduct
    }

    /// Trust in a peer: what the table says, as far as what it did has moved that. Somebody unknown stays unknown.
    pub fn trust_in(&self, peer: &NodeId) -> f64 {
        match (self.trust.entry(peer), self.conduct.get(peer)) {
            (Some(set), Some(conduct)) => conduct.moves(set, &self.settings),
            (set, _) => set.unwrap_or(0.0),
        }
    }

    /// Takes another table; where it says something new, that is where trust starts from again.
    fn load_trust(&mut self, table: TrustTable) {
        for (peer, conduct) in &mut self.conduct {
            if table.entry(peer) != self.trust.entry(peer) {
                conduct.moved_milli = 0;
            }
        }
        self.trust = table;
    }

    /// Own trust in a submitter; a peer trusts itself.
    fn trusts_submitter(&self, submitter: &NodeId) -> bool {
        *submitter == self.id || self.trust_in(submitter) >= self.settings.trust_submit
    }

    /// How near a peer is; the peer itself is as near as can be.
    pub fn scope_of(&self, peer: &NodeId) -> Scope {
        if *peer == self.id { Scope::Local } else { self.trust.scope(peer) }
    }

    /// The last round trip to a peer in ms, if it was measured within the last five minutes.
    pub fn rtt_to(&self, peer: &NodeId, now: Time) -> Option<f64> {
        let fresh = self.rtts.get(peer).filter(|(_, at)| now.since(*at).get() <= RTT_FRESH_MS);
        fresh.map(|(ms, _)| f64::from(*ms))
    }

    fn on_announce(&mut self, now: Time, from: &NodeId, announce: NodeCapacityAnnounce, out: &mut Out) {
        if !self.is_author(from, &announce.node, out) || *from == self.id {
            return;
        }
        if !announce.capacity.are_plausible(0) {
            self.reject(from, Reason::Invalid, Deed::Invalid, out);
            return;
        }
        let known_ms = self.settings.known_ms;
        self.known.retain(|_, known| now.since(known.at).get() <= known_ms);
        let newer = self.known.get(from).is_none_or(|known| announce.seq > known.announce.seq);
        if newer && (self.known.len() < KNOWN_MAX || self.known.contains_key(from)) {
            self.known.insert(from.clone(), Known { announce, at: now });
        }
    }

    /// Peers whose last announcement is fresh.
    pub fn known_now(&self, now: Time) -> impl Iterator<Item = (&NodeId, &NodeCapacityAnnounce)> {
        let fresh = move |known: &&Known| now.since(known.at).get() <= self.settings.known_ms;
        self.known.iter().filter_map(move |(id, known)| Some((id, &Some(known).filter(fresh)?.announce)))
    }
}
