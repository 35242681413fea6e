//! The engine, the journal and what is kept beside them, as one thing that moves from commit to commit.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use landfall_api::alarm::AlarmView;
use landfall_engine::state::PoolState;
use landfall_engine::{Answer, Effect, Engine, Event, Input};
use landfall_model::life::Refused;
use landfall_model::{Dispatch, JobId, Millis, NodeState, PoolId, Time};
use landfall_store::{Batch, Change, Loaded, Reader, Store, StoreError, Table, encode_state};

use super::alarms::Alarms;
use super::arrays::Shared;
use super::connections::Connections;
use super::effects::{unable, unsuited};
use super::facts::Facts;
use super::handle::{Failure, Happened, Reply, Request};
use super::health::Health;
use super::instance::Instances;
use super::jobs::{JobMeta, Jobs, LiveRun};
use super::listing::Whys;
use super::nodes::Nodes;
use super::pull::PullPools;
use super::rings::Rings;
use super::roster::Roster;
use super::stats::Stats;
use super::stops::Stops;
use super::submit::Remembered;
use super::time::{StartClock, Timekeeper};
use super::{Owed, asked};
use crate::config::Config;
use crate::error::ServerError;
use crate::restore::Origin;

/// How long writing is left alone after it failed.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Jobs forgotten per round at most.
const FORGOTTEN_PER_ROUND: usize = 2048;
/// How long something that cannot be forgotten yet is left alone.
const FORGET_AGAIN_AFTER: Millis = Millis::secs(10);

/// Key of the number that the next job gets.
pub(crate) const NEXT_JOB: &str = "next_job";

/// The number that the next job gets.
pub(crate) fn next_job(store: &mut dyn Reader) -> Result<u64, StoreError> {
    let Some(bytes) = store.get(Table::Meta, NEXT_JOB)? else { return Ok(1) };
    let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse::<u64>().ok());
    let number = number.ok_or_else(|| unreadable(Table::Meta, NEXT_JOB, "it is no number"))?;
    Ok(number.max(1))
}

/// A record that is whole and makes no sense to this version.
pub(crate) fn unreadable(table: Table, key: &str, why: impl std::fmt::Display) -> StoreError {
    StoreError::Unreadable { what: format!("the record {}/{key}", table.name()), why: why.to_string() }
}

/// What a question may look at: what is stored, and nothing that is not.
pub struct View<'a> {
    pub engine: &'a Engine,
    /// The journal and the records.
    pub store: &'a mut Box<dyn Store>,
    /// What is kept of jobs beside the engine.
    pub jobs: &'a Jobs,
    /// What is kept of nodes beside the engine.
    pub nodes: &'a Nodes,
    /// What people should look at, oldest first.
    pub alarms: &'a [AlarmView],
    /// The last decisions.
    pub(crate) rings: &'a Rings,
    /// Which agents are connected.
    pub connections: &'a Connections,
    pub now: Time,
    /// Number of the last event.
    pub seq: u64,
    /// What elements of arrays share, as far as it was looked up for this question.
    pub(super) shared: BTreeMap<String, Arc<Shared>>,
    /// The rows of all jobs.
    pub(super) roster: &'a mut Roster,
    pub(super) whys: &'a mut Whys,
    /// Whether something can be stored.
    pub(super) health: &'a mut Health,
    /// Whether the memory is ahead of what is stored.
    pub(super) ahead: bool,
    /// The first record that could not be read. Whoever asked hears of it instead of an answer that left it out.
    pub(super) damage: Option<StoreError>,
}

pub(super) struct Core {
    pub(super) engine: Engine,
    pub(super) store: Box<dyn Store>,
    pub(super) connections: Arc<Connections>,
    pub(super) stats: Arc<Stats>,
    pub(super) jobs: Jobs,
    roster: Roster,
    whys: Whys,
    pub(super) nodes: Nodes,
    pub(super) pull: PullPools,
    pub(super) stops: Stops,
    pub(super) instances: Instances,
    pub(super) facts: Facts,
    pub(super) alarms: Alarms,
    pub(super) rings: Rings,
    /// The peer of the pool that negotiates, if one does.
    pub(super) peers: Option<super::peers::PeerSide>,
    pub(super) next_job: u64,
    /// The backup that this journal was made from, if it was.
    pub(super) origin: Option<Origin>,
    /// Submissions that may be repeated, of this round and a few before.
    pub(super) remembered: Remembered,
    /// Ended jobs that the engine still knows, oldest first.
    ended: VecDeque<JobId>,
    ended_in_memory: usize,
    retention: Duration,
    clean_every: Duration,
    snapshot_every: u64,
    pub(super) time: Timekeeper,
    pub(super) now: Time,
    /// When pools whose cycles follow events last had one.
    cycled_at: BTreeMap<PoolId, Time>,
    /// What this round has to store.
    pub(super) batch: Batch,
    pub(super) effects: Vec<Effect>,
    seq: u64,
    /// The last event that a snapshot was tried for.
    snapshot_tried: u64,
    /// The last event in a snapshot that is stored.
    snapshot_stored: Arc<AtomicU64>,
    /// Ended things that cannot be forgotten yet are tried again at this instant.
    forget_again_at: Time,
    /// How far old answers to repeated submissions have been looked through.
    swept: Option<String>,
    /// Writing failed; it is tried again when the clock has counted so much.
    resting_until: Option<Duration>,
    /// What is stored could not be read back after that; the memory is ahead of it.
    ahead: bool,
    pub(super) health: Health,
    /// Another server writes this journal: nothing may be done any more.
    fenced: Option<StoreError>,
    /// Ticks of the clock when what is too old was last dropped.
    cleaned_at: Duration,
    snapshot_thread: Option<std::thread::JoinHandle<()>>,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("seq", &self.seq).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("seq", &self.seq).finish_non_exhaustive()
    }
}

impl View<'_> {
    /// What was read, or nothing if that failed, which is kept in mind.
    pub(super) fn noted<T>(&mut self, read: Result<T, StoreError>) -> Option<T> {
        match read {
            Ok(read) => Some(read),
            Err(error) => {
                self.damage.get_or_insert(error);
                None
            }
        }
    }

    /// An answer, unless something it needed could not be read.
    pub(super) fn sound<T>(&mut self, answer: T) -> Result<T, Failure> {
        match self.damage.take() {
            Some(error) => {
                tracing::error!(error = %error, hint = %error.hint(), "something stored cannot be read");
                Err(Failure::Storage(error.to_string()))
            }
            None => Ok(answer),
        }
    }
}

impl Core {
    pub(super) fn open(
        config: &Config,
        mut store: Box<dyn Store>,
        connections: Arc<Connections>,
        stats: Arc<Stats>,
        clock: StartClock<'_>,
    ) -> Result<Self, ServerError> {
        let loaded = store.load()?;
        let time = Timekeeper::start(&mut *store, loaded.state.now, clock)?;
        let (now, cleaned_at) = (time.clock.now(), time.ticks());
        let mut core = Self {
            engine: Engine::new(),
            store,
            connections,
            stats,
            jobs: Jobs::default(),
            roster: Roster::default(),
            whys: Whys::default(),
            nodes: Nodes::default(),
            pull: PullPools::default(),
            stops: Stops::default(),
            instances: Instances::default(),
            facts: Facts::default(),
            alarms: Alarms::default(),
            rings: Rings::default(),
            peers: None,
            next_job: 1,
            origin: None,
            remembered: Remembered::default(),
            cycled_at: BTreeMap::new(),
            ended: VecDeque::new(),
            ended_in_memory: config.ended_in_memory,
            retention: config.retention,
            clean_every: config.clean_every,
            snapshot_every: config.snapshot_every.max(1),
            time,
            now,
            batch: Batch::default(),
            effects: Vec::new(),
            seq: 0,
            snapshot_tried: 0,
            snapshot_stored: Arc::default(),
            forget_again_at: Time::ZERO,
            swept: None,
            resting_until: None,
            ahead: false,
            health: Health::default(),
            fenced: None,
            cleaned_at,
            snapshot_thread: None,
        };
        core.take(loaded)?;
        Ok(core)
    }

    /// Goes back to what is stored.
    fn take_again(&mut self, loaded: Loaded) -> Result<(), StoreError> {
        self.time.forgot_who_spoke();
        self.take(loaded)
    }

    fn take(&mut self, loaded: Loaded) -> Result<(), StoreError> {
        (self.seq, self.snapshot_tried) = (loaded.seq, loaded.snapshot_seq);
        self.snapshot_stored.store(loaded.snapshot_seq, Ordering::Relaxed);
        self.engine = Engine::of(loaded.state);
        self.engine.keep_notes();
        #[cfg(feature = "mutations")]
        if crate::mutation::Fault::SilenceFromBefore.is_planted() {
            self.engine.fault = Some(landfall_engine::mutation::Fault::SilenceFromBefore);
        }
        self.batch = Batch::default();
        self.effects.clear();
        self.remembered = Remembered::default();
        self.next_job = next_job(&mut *self.store)?;
        self.origin = Origin::read(&mut *self.store)?;
        self.jobs = Jobs::default();
        let mut after: Option<String> = None;
        loop {
            let page = self.store.scan(Table::Jobs, after.as_deref(), 10_000, false)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            for (key, value) in page {
                let id = JobId::new(&key).map_err(|error| unreadable(Table::Jobs, &key, error))?;
                let meta: JobMeta =
                    serde_json::from_slice(&value).map_err(|error| unreadable(Table::Jobs, &key, error))?;
                self.jobs.insert(id, Arc::new(meta));
            }
        }
        self.nodes.load(&mut *self.store)?;
        let state = self.engine.state();
        let mut ended: Vec<(Time, JobId)> = Vec::new();
        for (id, record) in &state.jobs {
            if let Some(at) = record.ended.as_ref() {
                ended.push((at.1, id.clone()));
            } else if let Some(run) = &record.run {
                self.jobs.begin_run(id.clone(), super::view::live_run(state, id, run));
            }
        }
        for (id, array) in &state.folded {
            ended.extend(array.ended_at.map(|at| (at, id.clone())));
        }
        // At one instant elements come before their array: an array that still has elements cannot be forgotten.
        ended.sort_unstable_by(|(a, one), (b, other)| {
            a.cmp(b).then_with(|| other.as_str().contains('.').cmp(&one.as_str().contains('.')))
        });
        self.ended = ended.into_iter().map(|(_, id)| id).collect();
        self.roster = Roster::of(state, &self.jobs);
        self.pull = PullPools::of(state);
        self.facts = Facts::of(state);
        self.instances = Instances::load(&mut *self.store, self.engine.state())?;
        self.alarms = Alarms::load(&mut *self.store)?;
        self.rings = Rings::load(&mut *self.store, self.engine.state())?;
        Ok(())
    }

    /// Takes the journal over and sets up what the configuration names.
    pub(super) fn set_up(&mut self, config: &Config) -> Result<Option<super::peers::PeerLine>, ServerError> {
        self.begin();
        self.step(Input::TakeOver);
        self.keep_anchor();
        for pool in &config.pools {
            let what = || format!("pool `{}`", pool.pool.id);
            if let Some(Refused { message, hint, .. }) = unable(&pool.pool) {
                return Err(ServerError::Refused { what: what(), message, hint });
            }
            let policy = pool.policy.as_deref().map(Arc::from);
            let known = self.engine.state().pool(&pool.pool.id);
            if known.is_some_and(|known| known.pool == pool.pool && known.policy == policy) {
                continue;
            }
            self.must(Input::SetPool { pool: Box::new(pool.pool.clone()), policy }, what)?;
        }
        self.ignore_what_cannot_be_done();
        for pool in self.engine.state().pools.keys() {
            if let Some((_, Some(warning))) = self.engine.policy_in_force(pool) {
                tracing::warn!(%pool, "{warning}");
            }
        }
        for block in &config.blocks {
            let known = |pool: &landfall_engine::state::PoolState| {
                pool.world.blocks.get(&block.id).is_some_and(|known| **known == *block)
            };
            if !self.engine.state().pools.values().all(known) {
                self.step(Input::SetBlock(std::sync::Arc::new(block.clone())));
            }
        }
        let mut providers = self.engine.state().providers().to_vec();
        providers.retain(|known| config.providers.iter().all(|named| named.name != known.name));
        providers.extend(config.providers.iter().cloned());
        self.must(Input::SetProviders(providers), || "the providers".to_owned())?;
        for tenant in &config.tenants {
            let known = self.engine.state().tenants.get(&tenant.id);
            if known.is_none_or(|known| known.tenant != *tenant) {
                let what = || format!("tenant `{}`", tenant.id);
                self.must(Input::SetTenant(Box::new(tenant.clone())), what)?;
            }
        }
        let line = self.set_up_peer(config)?;
        self.write_batch()?;
        self.send_to_peers(true);
        Ok(line)
    }

    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(super) fn put_effects_back(&mut self, effects: Vec<Effect>) {
        self.effects.splice(0..0, effects);
    }

    pub(super) fn must(&mut self, input: Input, what: impl Fn() -> String) -> Result<(), ServerError> {
        match self.step(input) {
            Answer::Refused(refused) => {
                Err(ServerError::Refused { what: what(), message: refused.message, hint: refused.hint })
            }
            _ => Ok(()),
        }
    }

    /// How long nothing has to be done if nobody asks.
    pub(super) fn nap(&self) -> Duration {
        if let Some(until) = self.resting_until {
            return until.saturating_sub(self.time.clock.ticks());
        }
        if self.ended.len() > self.ended_in_memory && self.forget_again_at <= self.now {
            return Duration::ZERO;
        }
        let Some(wake) = self.engine.next_wake() else { return Duration::MAX };
        Duration::from_millis(wake.since(self.time.clock.now()).get())
    }

    /// A new round begins.
    pub(super) fn begin(&mut self) {
        let pools = self.engine.state().pools.values().map(|pool| &pool.pool);
        let silences = pools.filter(|pool| pool.heartbeats).map(|pool| pool.silence.node_unknown_after_ms);
        self.time.shortest_silence(silences.min());
        self.now = self.time.round();
        if self.resting_until.is_none_or(|until| until > self.time.ticks()) {
            return;
        }
        if self.ahead {
            self.go_back();
        }
        self.resting_until = self.ahead.then(|| self.time.ticks() + REST_AFTER_FAILURE);
    }

    /// Does what a request wants; the answer is owed until it is stored.
    pub(super) fn write(&mut self, request: Request) -> Owed {
        if self.resting_until.is_some() {
            return asked::refuse(request, Failure::Storage("writing failed a moment ago".into()));
        }
        match request {
            Request::Apply(inputs, changes, reply) => {
                let apply = |input| {
                    if let Input::SetPool { pool, policy } = &input
                        && let Some(refused) = unable(pool).or_else(|| unsuited(pool, policy.as_deref()))
                    {
                        return Answer::Refused(refused);
                    }
                    if let Some(refused) = self.not_this_peer(&input).or_else(|| self.unenforced(&input)) {
                        return Answer::Refused(refused);
                    }
                    self.step(input)
                };
                let answers: Vec<Answer> = inputs.into_iter().map(apply).collect();
                self.batch.changes.extend(changes);
                owe(reply, Ok(answers))
            }
            Request::Submit(asked, reply) => {
                let (caller, jobs, key) = *asked;
                let submitted = self.submit(&caller, jobs, key.as_deref());
                owe(reply, submitted)
            }
            Request::Extend(asked, reply) => {
                let (caller, array, more, key) = *asked;
                let extended = self.extend(&caller, &array, more, key.as_deref());
                owe(reply, extended)
            }
            Request::Register(node, reply) => {
                let registered = self.register(*node);
                owe(reply, registered)
            }
            Request::Heartbeat(node, heartbeat, reply) => {
                let (heartbeat, most) = *heartbeat;
                let heard = self.heartbeat(&node, heartbeat, most);
                owe(reply, heard)
            }
            Request::Reports(node, reports, reply) => {
                let answers = self.reports(&node, reports);
                owe(reply, Ok(answers))
            }
            Request::Ask(node, ask, reply) => {
                let work = self.ask(&node, &ask);
                owe(reply, work)
            }
            Request::Acknowledge(alarm, by, reply) => {
                let seen = self.acknowledge(alarm, by);
                owe(reply, seen)
            }
            Request::Read(_) | Request::Close(_) => Box::new(|_| {}),
        }
    }

    /// Gives the engine an input and keeps what comes of it for the commit.
    pub(super) fn step(&mut self, input: Input) -> Answer {
        let began = Instant::now();
        let mut outcome = self.engine.step(self.now, input);
        let took = began.elapsed();
        Stats::took(&self.stats.step_nanos, took);
        Stats::add(&self.stats.steps, 1);
        self.stats.cycles.note(&outcome.events, took);
        let notes = self.engine.take_notes();
        let undecided = self.keep_decisions(&mut outcome.events, notes);
        for event in outcome.events {
            self.follow(&event);
            self.batch.events.push((outcome.at, event));
        }
        self.effects.extend(outcome.effects);
        for input in undecided {
            self.step(input);
        }
        outcome.answer
    }

    /// Keeps what is beside the engine up with an event.
    fn follow(&mut self, event: &Event) {
        self.roster.note(event, self.engine.state());
        self.note_instance(event);
        self.follow_hosted(event);
        match event {
            Event::WalltimeSet { job, .. } => self.tell_walltime(job, None),
            Event::Submitted { job, pool, .. } => {
                self.facts.came(pool, &job.spec, 1);
                self.pull_waits(pool.clone(), job.id.clone());
            }
            Event::ArraySubmitted { job, pool, shape, .. } => {
                self.facts.came(pool, &job.spec, shape.total());
                self.follow_array(event);
            }
            Event::Eligible(job) | Event::Requeued { job, .. } => {
                if matches!(event, Event::Requeued { .. }) {
                    self.jobs.end_run(job);
                }
                if let Some(pool) = self.engine.state().job(job).map(|record| record.pool.clone()) {
                    self.pull_waits(pool, job.clone());
                }
            }
            Event::Committed(commit) => self.jobs.begin_run(commit.job.clone(), LiveRun::of(commit)),
            Event::Resized { job, gained, lost, .. } => {
                if let Some(run) = self.jobs.run_mut(job) {
                    run.nodes.retain(|at| !lost.iter().any(|node| node.as_str() == at.node));
                    run.nodes.extend(gained.iter().map(|grant| landfall_api::job::OnNode {
                        node: grant.node.to_string(),
                        gpus: grant.placement.devices.iter().map(|device| device.index).collect(),
                        cpus: None,
                        phase: "assigned".into(),
                        exit_code: None,
                    }));
                }
            }
            Event::Reported { job, node, phase, exit } => {
                let Some(run) = self.jobs.run_mut(job) else { return };
                if let Some(at) = run.nodes.iter_mut().find(|at| at.node == node.as_str()) {
                    at.phase = super::view::word(phase);
                    at.exit_code = exit.or(at.exit_code);
                }
                run.exit = match (run.exit, exit) {
                    (Some(known), _) if known != 0 => Some(known),
                    (known, exit) => exit.or(known),
                };
            }
            Event::Suspended { job, .. } => {
                self.jobs.end_run(job);
            }
            Event::Ended { job, .. } => {
                self.ended_one(job.clone());
                self.archive(job);
            }
            Event::Started(job) => self.service_started(job),
            Event::ReactiveSet { job, .. } => self.facts.sampled(job, self.now),
            Event::EnergyPrice(price) => self.facts.price_said(price.map(|_| self.now)),
            Event::NodeLeft(node) => {
                self.pull.gone(node);
                self.stops.forget(node);
                self.nodes.forget(node);
                self.batch.changes.push(Change::delete(Table::Nodes, node.as_str()));
            }
            Event::NodeMoved { node, to: NodeState::Down } => {
                self.pull.gone(node);
                self.stops.forget(node);
            }
            other => self.follow_array(other),
        }
    }

    /// Something ended and may be forgotten in its turn.
    pub(super) fn ended_one(&mut self, id: JobId) {
        self.ended.push_back(id);
    }

    fn pull_waits(&mut self, pool: PoolId, job: JobId) {
        if self.is_pull(&pool) {
            self.pull.waits(&pool, job);
        }
    }

    /// Lets time pass, and forgets what ended long ago.
    pub(super) fn tick(&mut self) {
        if self.resting_until.is_some() {
            return;
        }
        self.tell_time();
        if self.engine.next_wake().is_some_and(|at| at <= self.now) {
            self.step(Input::Tick);
        }
        self.cycles_on_events();
        self.take_out_deaf_nodes();
        self.forget_old();
        self.refresh_instances();
        self.refresh_facts();
        self.sample_services();
        self.pull_tick();
        self.settle_peers();
    }

    /// Pools whose cycles follow events get one when something happened, and one now and then: quota may come back, and times may
    /// come, without an event.
    fn cycles_on_events(&mut self) {
        let happened = !self.batch.events.is_empty();
        let state = self.engine.state();
        let asks =
            |pool: &PoolState| pool.pool.dispatch == Dispatch::Batch && pool.pool.batch.cycle_on_events;
        let due = |id: &PoolId, pool: &PoolState| {
            let last = self.cycled_at.get(id).copied().unwrap_or(Time::ZERO);
            happened || self.now.since(last) >= pool.pool.batch.cycle_ms
        };
        let pools = state.pools.iter().filter(|(id, pool)| asks(pool) && due(id, pool));
        let pools: Vec<PoolId> =
            pools.filter(|(id, _)| self.engine.waiting_in(id) > 0).map(|(id, _)| id.clone()).collect();
        for pool in pools {
            self.cycled_at.insert(pool.clone(), self.now);
            self.step(Input::Cycle(pool));
        }
    }

    /// Lets the engine forget what ended long ago; the archive has it.
    fn forget_old(&mut self) {
        if self.forget_again_at > self.now {
            return;
        }
        let too_many = self.ended.len().saturating_sub(self.ended_in_memory).min(FORGOTTEN_PER_ROUND);
        for job in self.ended.drain(..too_many).collect::<Vec<_>>() {
            if matches!(self.step(Input::Forget(job.clone())), Answer::Refused(_)) {
                // An array that others still follow, for instance.
                self.ended.push_back(job);
                self.forget_again_at = self.now + FORGET_AGAIN_AFTER;
            }
        }
    }

    /// Stores what happened in this round. If that fails, nothing of it happened.
    pub(super) fn commit(&mut self) -> Result<Vec<Happened>, Failure> {
        if self.batch.is_empty() {
            return Ok(Vec::new());
        }
        match self.write_batch() {
            Ok(happened) => {
                self.health.heard(Ok(()));
                self.remembered.stored();
                Ok(happened)
            }
            Err(error @ StoreError::Fenced { .. }) => {
                // To load again would be to take over what the other server wrote, under its own epoch.
                let failure = Failure::Storage(error.to_string());
                self.effects.clear();
                self.send_to_peers(false);
                self.fenced = Some(error);
                Err(failure)
            }
            Err(error) => {
                Stats::add(&self.stats.append_failures, 1);
                self.health.heard(Err(&error));
                tracing::error!(error = %error, hint = %error.hint(), "the journal cannot be written");
                self.resting_until = Some(self.time.ticks() + REST_AFTER_FAILURE);
                // Nobody may hear of what did not happen.
                self.effects.clear();
                self.send_to_peers(false);
                self.pull.forget_offers();
                self.go_back();
                Err(Failure::Storage(error.to_string()))
            }
        }
    }

    /// Makes the memory what is stored. While that fails, nothing is written. What another server stored is not taken over:
    /// under its epoch nothing here would be fenced any more.
    pub(super) fn go_back(&mut self) {
        let own = self.engine.state().epoch;
        let read = match self.store.load() {
            Ok(loaded) if loaded.state.epoch > own => {
                self.fenced = Some(StoreError::Fenced { epoch: own, highest: loaded.state.epoch });
                self.ahead = true;
                return;
            }
            Ok(loaded) => self.take_again(loaded),
            Err(error) => Err(error),
        };
        if let Err(error) = &read {
            tracing::error!(error = %error, "the journal cannot be read back");
            self.health.heard(Err(error));
        }
        self.ahead = read.is_err();
    }

    /// Why the server has to end, if another one writes its journal.
    pub(super) fn fenced(&mut self) -> Option<StoreError> {
        self.fenced.take()
    }

    fn write_batch(&mut self) -> Result<Vec<Happened>, StoreError> {
        let mut batch = std::mem::take(&mut self.batch);
        (batch.at, batch.epoch) = (self.now, self.engine.state().epoch);
        let began = Instant::now();
        let seq = self.store.append(&batch)?;
        Stats::took(&self.stats.append_nanos, began.elapsed());
        Stats::add(&self.stats.appends, 1);
        Stats::add(&self.stats.events, batch.events.len() as u64);
        let first = self.seq + 1;
        if !batch.events.is_empty() {
            self.seq = seq;
        }
        let happened = (first..).zip(batch.events).map(|(seq, (at, event))| Happened { seq, at, event });
        Ok(happened.collect())
    }

    /// Tells agents what the engine wants of them.
    pub(super) fn send_effects(&mut self) {
        if self.ahead {
            return;
        }
        for effect in std::mem::take(&mut self.effects) {
            self.send_effect(effect);
        }
        self.send_to_peers(true);
        self.send_pull_commands();
    }

    /// What a question may look at.
    pub(super) fn view(&mut self) -> View<'_> {
        View {
            engine: &self.engine,
            store: &mut self.store,
            jobs: &self.jobs,
            nodes: &self.nodes,
            alarms: self.alarms.open(),
            rings: &self.rings,
            connections: &self.connections,
            now: self.now,
            seq: self.seq,
            shared: BTreeMap::new(),
            roster: &mut self.roster,
            whys: &mut self.whys,
            health: &mut self.health,
            ahead: self.ahead,
            damage: None,
        }
    }

    /// Makes snapshots and drops what is too old, now and then.
    pub(super) fn keep_house(&mut self) {
        if self.roster.is_far_behind() {
            self.roster.catch_up(self.engine.state(), &self.jobs);
        }
        let now = self.time.ticks();
        if self.resting_until.is_some() {
            return;
        }
        if self.seq.saturating_sub(self.snapshot_tried) >= self.snapshot_every {
            self.snapshot_aside();
        }
        if now.saturating_sub(self.cleaned_at) < self.clean_every {
            return;
        }
        self.cleaned_at = now;
        self.keep_anchor();
        let Some(past) = self.time.clock.surely_past() else { return };
        let keep = Millis::new(u64::try_from(self.retention.as_millis()).unwrap_or(u64::MAX));
        let since = Time::from_millis(past.as_millis().saturating_sub_unsigned(keep.get()));
        match self.clean(since) {
            // There is more than one cleaning takes: go on in the next round.
            Ok(true) => self.cleaned_at = now.saturating_sub(self.clean_every),
            Ok(false) => {}
            Err(error) => tracing::warn!(error = %error, "old parts of the journal could not be dropped"),
        }
    }

    /// Drops some of what is older than an instant; says whether there is more.
    fn clean(&mut self, since: Time) -> Result<bool, StoreError> {
        let compacted = self.store.compact(since)?;
        let archive_has_more = self.drop_old_archive(since)?;
        self.swept = self.drop_old_answers(self.swept.clone(), since)?;
        let dags_have_more = self.drop_old_dags(since)?;
        Ok(compacted.more || archive_has_more || dags_have_more || self.swept.is_some())
    }

    /// Makes a snapshot on a thread of its own, so that nobody waits for it.
    fn snapshot_aside(&mut self) {
        if self.snapshot_thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        self.snapshot_tried = self.seq;
        let (seq, state) = (self.seq, self.engine.state().clone());
        let mut snapshotter = match self.store.snapshotter() {
            Ok(snapshotter) => snapshotter,
            Err(error) => return tracing::warn!(error = %error, "no snapshot could be made"),
        };
        let (stats, stored) = (self.stats.clone(), self.snapshot_stored.clone());
        let work = move || match snapshotter.snapshot(seq, &encode_state(&state)) {
            Ok(()) => {
                stored.store(seq, Ordering::Relaxed);
                Stats::add(&stats.snapshots, 1);
            }
            Err(error) => tracing::warn!(error = %error, "no snapshot could be made"),
        };
        match std::thread::Builder::new().name("snapshot".into()).spawn(work) {
            Ok(thread) => self.snapshot_thread = Some(thread),
            Err(error) => tracing::warn!(error = %error, "no snapshot could be made"),
        }
    }

    /// Waits for a snapshot that is being made, so that a simulation always sees the same.
    #[cfg(feature = "simulation")]
    pub(super) fn settle(&mut self) {
        if let Some(thread) = self.snapshot_thread.take() {
            // It reported its own failure.
            let _ = thread.join();
        }
    }

    /// The last snapshot, so that the next start is quick.
    pub(super) fn close(&mut self) {
        self.connections.close();
        if let Some(thread) = self.snapshot_thread.take() {
            // It reported its own failure.
            let _ = thread.join();
        }
        let snapshot = self.snapshot_stored.load(Ordering::Relaxed);
        if self.seq > snapshot
            && !self.ahead
            && let Err(error) = self.store.snapshot(self.seq, &encode_state(self.engine.state()))
        {
            tracing::warn!(error = %error, "no snapshot could be made; the next start takes longer");
        }
    }

    /// Keeps a change to a record for the commit.
    pub(super) fn put(&mut self, table: Table, key: impl Into<String>, value: &impl serde::Serialize) {
        match serde_json::to_vec(value) {
            Ok(bytes) => self.batch.changes.push(Change::put(table, key, bytes)),
            Err(error) => tracing::error!(error = %error, "a record could not be written as JSON"),
        }
    }
}

/// Owes an answer until it is stored.
fn owe<T: Send + 'static>(reply: Reply<T>, answer: Result<T, Failure>) -> Owed {
    Box::new(move |stored| {
        let answer = match (stored, answer) {
            (Err(failure), Ok(_)) => Err(failure),
            (_, answer) => answer,
        };
        // Whoever asked may have gone away.
        let _ = reply.send(answer);
    })
}

/// Idempotency keys and what they gave.
pub(super) type RememberedAnswers = BTreeMap<String, (String, Vec<landfall_api::job::Submitted>)>;
