//! The engine: state, the indexes that make decisions fast, and the one function that drives it all.

use std::collections::{BTreeMap, BTreeSet};

use landfall_model::{Dispatch, JobId, NodeId, NodeState, PoolId, Time};

use crate::dispatch::Dispatcher;
use crate::effect::{Answer, Effect};
use crate::event::Event;
use crate::input::Input;
use crate::life::ahead::ShortRun;
use crate::notes::Note;
use crate::record::JobState;
use crate::specs::Specs;
use crate::state::{PoolState, State, Touched};
use crate::timers::{Timer, Timers};
use landfall_model::life::Fence;

/// What one step did.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The instant of all of it.
    pub at: Time,
    /// The facts it made, in order; the journal stores them before any effect leaves.
    pub events: Vec<Event>,
    /// What is to be done outside.
    pub effects: Vec<Effect>,
    /// The answer to the input.
    pub answer: Answer,
}

/// A scheduler without a clock: time and inputs go in, events and effects come out.
#[derive(Debug)]
pub struct Engine {
    pub(crate) state: State,
    /// The instant of the present step.
    pub(crate) now: Time,
    pub(crate) pools: BTreeMap<PoolId, Dispatcher>,
    pub(crate) timers: Timers,
    /// When nodes were last heard. Not part of the state: after a start, silence counts from then.
    pub(crate) heard: BTreeMap<NodeId, Time>,
    /// Since when somebody has listened without a break.
    pub(crate) listening_since: Time,
    /// When the journal last kept everybody waiting.
    pub(crate) stalled_at: Time,
    /// Pools whose cycles somebody asks for, whatever their beat.
    asked_for: BTreeSet<PoolId>,
    /// Specs of which jobs that are submitted share one.
    pub(crate) specs: Specs,
    /// Starts that nodes named when they were last heard, without having said yet how those went. Not part of the state, like
    /// when they were heard.
    pub(crate) taken_on: BTreeMap<NodeId, (Time, Vec<(JobId, u32)>)>,
    /// Elements of arrays that ended soon after they began, in the present step.
    pub(crate) short_runs: Vec<ShortRun>,
    /// What decisions looked at, if somebody wants to know. Not part of the state.
    pub(crate) notes: Option<Vec<Note>>,
    events: Vec<Event>,
    effects: Vec<Effect>,
    /// Draining nodes from which something was taken.
    emptied: Vec<NodeId>,
    /// Arrays of which more elements failed than may.
    pub(crate) failing: BTreeSet<JobId>,
    /// A fault planted in the solver to see whether tests notice it.
    #[cfg(feature = "mutations")]
    pub solver_mutation: Option<crate::solver::Mutation>,
    /// A fault planted in the ledger to see whether checks notice it.
    #[cfg(feature = "mutations")]
    pub fault: Option<crate::mutation::Fault>,
}

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}

impl Clone for Engine {
    /// Indexes are made anew from the state.
    fn clone(&self) -> Self {
        Self::with(self.state.clone(), self.heard.clone(), self.listening_since)
    }
}

impl Engine {
    /// An engine that knows nothing yet.
    pub fn new() -> Self {
        Self::of(State::default())
    }

    /// An engine that goes on from a state: a snapshot, or one rebuilt from its events.
    pub fn of(mut state: State) -> Self {
        state.share_specs();
        let now = state.now;
        Self::with(state, BTreeMap::new(), now)
    }

    /// The same at a later instant, at which everybody was heard.
    #[must_use]
    pub fn at(mut self, now: Time) -> Self {
        self.now = self.now.max(now);
        self.listen();
        self
    }

    fn with(state: State, heard: BTreeMap<NodeId, Time>, listening_since: Time) -> Self {
        let mut engine = Self {
            now: state.now,
            listening_since,
            stalled_at: Time::ZERO,
            taken_on: BTreeMap::new(),
            state,
            pools: BTreeMap::new(),
            timers: Timers::default(),
            heard,
            asked_for: BTreeSet::new(),
            short_runs: Vec::new(),
            specs: Specs::default(),
            notes: None,
            events: Vec::new(),
            effects: Vec::new(),
            emptied: Vec::new(),
            failing: BTreeSet::new(),
            #[cfg(feature = "mutations")]
            solver_mutation: None,
            #[cfg(feature = "mutations")]
            fault: None,
        };
        let pools: Vec<PoolId> = engine.state.pools.keys().cloned().collect();
        for pool in pools {
            engine.set_up(&pool);
        }
        let jobs: Vec<JobId> = engine.state.jobs.keys().cloned().collect();
        for job in &jobs {
            engine.sync_job(job);
        }
        let arrays: Vec<JobId> = engine.state.folded.keys().cloned().collect();
        arrays.iter().for_each(|array| engine.sync_array(array));
        engine.set_all_timers();
        engine
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn now(&self) -> Time {
        self.now
    }

    /// Whether a job is in the queue of its pool; queues are found out from the state.
    pub fn is_queued(&self, job: &JobId) -> bool {
        let pool = self.state.job(job).and_then(|record| self.pools.get(&record.pool));
        pool.is_some_and(|pool| pool.has(job))
    }

    /// How many jobs are in the queue of a pool, without folded elements of arrays; `None` if it does not dispatch.
    pub fn queue_len(&self, pool: &PoolId) -> Option<usize> {
        self.pools.get(pool).map(Dispatcher::queued)
    }

    /// The deadline of an owner.
    pub fn deadline(&self, of: &Timer) -> Option<Time> {
        self.timers.of(of)
    }

    /// The name of the policy that a pool uses, and why that is not the one it asks for.
    pub fn policy_in_force(&self, pool: &PoolId) -> Option<(&str, Option<&str>)> {
        let dispatcher = self.pools.get(pool)?;
        Some((dispatcher.policy(landfall_model::JobKind::Build).name(), dispatcher.policy_warning()))
    }

    /// How many jobs of a pool are in its queue, with the elements of arrays that wait folded. Those of an array that
    /// follows another element by element are not counted before they are unfolded.
    pub fn waiting_in(&self, pool: &PoolId) -> usize {
        let folded = self.state.folded.values().filter(|array| array.pool == *pool);
        let folded: usize = folded.map(|array| array.waiting() as usize).sum();
        self.queue_len(pool).unwrap_or(0) + folded
    }

    /// How many of them are builds, in a pull pool.
    pub fn builds_waiting_in(&self, pool: &PoolId) -> usize {
        self.waiting_in(pool) - self.pools.get(pool).map_or(0, Dispatcher::queued_evals)
    }

    /// When a node was last heard, as far as that is known.
    pub fn heard_at(&self, node: &NodeId) -> Option<Time> {
        let (_, record) = self.state.node(node)?;
        Some(self.heard.get(node).copied().unwrap_or(record.heard_at).max(record.heard_at))
    }

    /// Cycles of these pools are run by [`Input::Cycle`] only, from now on. They are planned as if they came on the beat: this is
    /// for replays that know when each one really came.
    pub fn cycles_are_asked_for(&mut self, pools: BTreeSet<PoolId>) {
        self.asked_for = pools;
    }

    /// Whether the cycles of a pool come by themselves.
    fn has_beat(&self, id: &PoolId, pool: &PoolState) -> bool {
        !pool.pool.batch.cycle_on_events && !self.asked_for.contains(id)
    }

    /// When the engine wants to be called with [`Input::Tick`], if nothing else happens before.
    pub fn next_wake(&self) -> Option<Time> {
        let pools = self.state.pools.iter().filter(|(id, pool)| self.has_beat(id, pool));
        let cycles = pools.filter(|(id, _)| self.wants_cycle(id)).map(|(_, pool)| pool.next_cycle);
        let surges = self.state.pools.iter().filter_map(|(id, pool)| self.surge_due(id, pool));
        // A beat that passed while there was nothing to do is due at once.
        cycles
            .chain(surges)
            .chain(self.timers.next())
            .chain(self.state.next_autoscale())
            .min()
            .map(|at| at.max(self.now))
    }

    /// Takes one input in at one instant. Time never goes back: an earlier instant counts as the last one.
    ///
    /// ```
    /// use landfall_engine::input::Submission;
    /// use landfall_engine::{Effect, Engine, Input};
    /// use landfall_model::scenario::{Format, parse};
    /// use landfall_model::{Dispatch, Pool, PoolId, Time};
    ///
    /// let situation = parse(
    ///     r#"
    ///     now_ms = 0
    ///     nodes = [{ id = "a", cpu_milli = 4000, ram_mib = "8GiB" }]
    ///     jobs = [{ id = "build", cpu_milli = 1000 }]
    ///     "#,
    ///     Format::Toml,
    /// )?;
    /// let mut engine = Engine::new();
    /// let id = PoolId::new("lab")?;
    /// let pool = Box::new(Pool::new(id.clone(), Dispatch::Push));
    /// engine.step(Time::ZERO, Input::SetPool { pool, policy: None });
    /// let node = Box::new(situation.nodes()[0].clone());
    /// engine.step(Time::ZERO, Input::Join { pool: id, node, running: None });
    ///
    /// let job = Submission::new(situation.jobs()[0].clone());
    /// let outcome = engine.step(Time::from_secs(1), Input::Submit(vec![job]));
    /// assert!(matches!(&outcome.effects[..], [Effect::Start { node, .. }] if node.as_str() == "a"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn step(&mut self, now: Time, input: Input) -> Outcome {
        self.now = self.now.max(now);
        let answer = self.handle(input);
        self.settle();
        Outcome {
            at: self.now,
            events: std::mem::take(&mut self.events),
            effects: std::mem::take(&mut self.effects),
            answer,
        }
    }

    fn handle(&mut self, input: Input) -> Answer {
        match input {
            Input::Tick => self.tick(),
            Input::Cycle(pool) => self.cycle_now(&pool),
            Input::TakeOver => self.take_over(),
            Input::Listen => self.listen(),
            Input::Stalled => self.stalled(),
            Input::ClockJumped { by_ms, ahead_ms } => self.done(Event::ClockJumped { by_ms, ahead_ms }),
            Input::SetPool { pool, policy } => self.set_pool(pool, policy),
            Input::SetTenant(tenant) => self.set_tenant(tenant),
            Input::DeletePool(pool) => self.delete_pool(pool),
            Input::DeleteTenant(tenant) => self.delete_tenant(tenant),
            Input::Undecided(undecided) => self.done(Event::Undecided(undecided)),
            Input::SetProviders(providers) => self.set_providers(providers),
            Input::SetMix { pool, mix } => self.in_pool(&pool.clone(), Event::MixSet { pool, mix }),
            Input::Measure { pool, power_w, io_bytes_s } => {
                self.in_pool(&pool.clone(), Event::Measured { pool, power_w, io_bytes_s })
            }
            Input::SetCaps(caps) => self.done(Event::CapsSet(caps)),
            Input::EnergyPrice(price) => self.set_energy_price(price),
            Input::SetInstance { pool, instance } => self.set_instance(pool, instance),
            Input::SetBlock(block) => self.done(Event::BlockSet(block)),
            Input::AddHistory { pool, rows } => self.add_history(&pool, rows),
            Input::Submit(jobs) => self.submit(jobs),
            Input::SubmitArray { submission, indices } => self.submit_array(*submission, indices),
            Input::ExtendArray { array, count } => self.extend_array(&array, count),
            Input::CloseArray(array) => self.close_array(&array),
            Input::Cancel(job) => self.cancel(&job),
            Input::CancelWaiting(array) => self.cancel_waiting(&array),
            Input::UserHold { job, held } => self.user_hold(job, held),
            Input::Suspend(job) => self.suspend(&job),
            Input::Resume { job, walltime } => self.resume(&job, walltime),
            Input::Checkpoint(job) => self.checkpoint(&job),
            Input::SetWalltime { job, walltime } => self.set_walltime(&job, walltime),
            Input::Forget(job) => self.forget(job),
            Input::Join { pool, node, running } => self.join(pool, node, running),
            Input::Heartbeat { node, heartbeat, running } => self.heartbeat(&node, &heartbeat, &running),
            Input::Order { node, order } => self.order(&node, order),
            Input::Maintain { node, at, why } => self.maintain(node, at, why),
            Input::Probe { node, good } => self.probe(&node, good),
            Input::RevokeTenant { node, tenant } => self.revoke_tenant(&node, &tenant),
            Input::Report { node, fence, report } => self.report(&node, &fence, report),
            Input::Ask { node, kind } => self.ask(&node, kind),
            Input::Fetches { node, entries } => self.fetches(&node, entries),
            Input::Metric { job, sample } => self.metric(&job, sample),
            Input::Staged { job, digest, near } => self.staged(job, digest, near),
            Input::SetAutoscale { settings, providers } => self.set_autoscale(*settings, providers),
            Input::Quoted { provider, answer } => self.quoted(&provider, answer),
            Input::Provisioned { request, answer } => self.provisioned(&request, answer),
            Input::Withdrawn(request) => self.withdrawn(&request),
            Input::BlockChanged { block, event } => self.block_changed(&block, event),
            Input::SetPeer { pool, id, settings } => self.set_peer(pool, id, *settings),
            Input::StartPeer { pool, boot } => self.start_peer(pool, boot),
            Input::Peer { pool, input } => self.tell_peer(pool, input),
            Input::Negotiate { submission, asked } => self.negotiate(*submission, asked),
            Input::PeerExit { job, attempt, code } => self.peer_exit(&job, attempt, code),
            Input::Hold { job, node, gpus, lifetime, fence } => {
                self.reserve(&job, &node, &gpus, lifetime, fence.as_ref())
            }
            Input::Release(hold) => self.release(hold),
            Input::Place(hold) => self.place_hold(hold),
        }
    }

    /// Handles what is due, in order of time, then runs the cycles that are due, pools by id.
    fn tick(&mut self) -> Answer {
        let now = self.now;
        while let Some((_, timer)) = self.timers.due(now) {
            match timer {
                Timer::Job(job) => self.job_due(&job),
                Timer::Array(array) => self.tend_array(&array),
                Timer::Hold(hold) => self.hold_due(hold),
                Timer::Kept(pool, job) => self.kept_due(&pool, &job),
                Timer::Node(node) => self.node_due(&node),
                Timer::Peer(pool) => self.peer_due(&pool),
                Timer::Saves(pool) => self.save_where_worth(&pool),
            }
        }
        self.look_for_surges();
        let due: Vec<PoolId> = self
            .state
            .pools
            .iter()
            .filter(|(id, pool)| pool.next_cycle <= now && self.has_beat(id, pool))
            .filter(|(id, _)| self.wants_cycle(id))
            .map(|(id, _)| id.clone())
            .collect();
        for pool in due {
            self.cycle(&pool);
        }
        self.autoscale();
        Answer::Done
    }

    fn cycle_now(&mut self, pool: &PoolId) -> Answer {
        if !self.state.pools.contains_key(pool) {
            return Answer::Refused(crate::life::unknown("pool", pool.as_str()));
        }
        self.cycle(pool);
        Answer::Done
    }

    /// Reacts to what the input changed until nothing is left to react to.
    pub(crate) fn settle(&mut self) {
        loop {
            let before = self.events.len();
            for node in std::mem::take(&mut self.emptied) {
                self.drained_if_empty(&node);
            }
            for array in std::mem::take(&mut self.failing) {
                self.stop_failing(&array);
            }
            self.start_kept();
            let woken: Vec<PoolId> =
                self.pools.iter().filter(|(_, pool)| pool.is_woken()).map(|(id, _)| id.clone()).collect();
            for pool in woken {
                self.push_pass(&pool, false);
            }
            if self.events.len() == before {
                return self.tell_ahead();
            }
        }
    }

    /// Makes a fact: the state takes it in, the indexes follow, the journal gets it.
    pub(crate) fn emit(&mut self, event: Event) {
        let mut touched = self.state.apply(self.now, &event);
        touched.arrays.sort_unstable();
        touched.arrays.dedup();
        self.follow(&event, &touched);
        self.events.push(event);
        // What follows for jobs that waited for this one happens in the same step, predecessors first.
        if let Some(Event::PeerTold { pool, .. } | Event::PeerSet { pool, .. }) = self.events.last() {
            let pool = pool.clone();
            self.peer_wants(&pool, touched.peer);
        }
        for change in touched.changes {
            self.dependency_changed(change);
        }
        // Within the event, so that whoever places jobs one after the other never finds an array's queue empty.
        for array in &touched.arrays {
            self.tend_array(array);
        }
    }

    /// What has happened since this was last asked; for copies of the engine that nobody journals.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        self.effects.clear();
        std::mem::take(&mut self.events)
    }

    /// Asks for something to be done outside.
    pub(crate) fn want(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    fn done(&mut self, event: Event) -> Answer {
        self.emit(event);
        Answer::Done
    }

    pub(crate) fn in_pool(&mut self, pool: &PoolId, event: Event) -> Answer {
        if !self.state.pools.contains_key(pool) {
            return Answer::Refused(crate::life::unknown("pool", pool.as_str()));
        }
        self.done(event)
    }

    /// The present fence of a job.
    pub(crate) fn fence_of(&self, job: &JobId) -> Option<Fence> {
        self.state.job(job).map(|record| self.state.fence(record))
    }

    /// Keeps the indexes up with an event.
    fn follow(&mut self, event: &Event, touched: &Touched) {
        for pool in &touched.pools {
            self.set_up(pool);
        }
        for pool in &touched.worlds {
            if let Some(dispatcher) = self.pools.get_mut(pool) {
                dispatcher.world_changed(event);
            }
        }
        for (pool, slot) in &touched.nodes {
            if let Some(dispatcher) = self.pools.get_mut(pool) {
                dispatcher.node_changed(*slot as usize);
            }
        }
        // Service, faults and most heartbeats change what a node did, not what kind of node it is.
        let same_kind = match event {
            Event::NodeServed { .. } | Event::NodeFault { .. } | Event::Probed { .. } => true,
            Event::Heard { heartbeat, .. } => {
                heartbeat.fingerprint.is_none() && heartbeat.accepting.is_none()
            }
            _ => false,
        };
        if !same_kind && (!touched.nodes.is_empty() || !touched.pools.is_empty()) {
            self.pools.values_mut().for_each(Dispatcher::fleet_changed);
        }
        for (pool, slot) in &touched.heard {
            if let Some(dispatcher) = self.pools.get_mut(pool) {
                dispatcher.node_heard(*slot as usize);
            }
        }
        // Whatever left its nodes may have been in somebody's way; what was placed cannot help anybody.
        let freed = !matches!(event, Event::Committed(_) | Event::TookRoom(_) | Event::HoldMade(_));
        for (pool, slot) in &touched.loads {
            if let Some(dispatcher) = self.pools.get_mut(pool) {
                dispatcher.load_changed(*slot as usize, freed);
            }
            let node = &self.state.pools[pool].nodes[*slot as usize];
            let (id, state) = (node.id.clone(), node.state);
            if freed && state == NodeState::Draining {
                self.emptied.push(id);
            } else if state == NodeState::Unknown {
                // How long it may be silent depends on what runs there.
                self.set_node_timer(&id);
            }
        }
        if freed && !touched.loads.is_empty() {
            // Quotas and locks reach over pools.
            self.pools.values_mut().for_each(Dispatcher::ledger_changed);
        }
        for job in &touched.jobs {
            self.sync_job_in(job, touched.queues);
            self.set_job_timer(job);
        }
        for array in &touched.arrays {
            self.sync_array(array);
            self.set_array_timer(array);
        }
        match event {
            Event::HoldMade(hold) => self.timers.set(Timer::Hold(hold.id), Some(hold.expires_at)),
            Event::HoldEnded { id, .. } => self.timers.set(Timer::Hold(*id), None),
            Event::NodesKept { job, until, .. } => {
                if let Some(pool) = self.state.job(job).map(|record| record.pool.clone()) {
                    self.timers.set(Timer::Kept(pool, job.clone()), Some(*until));
                }
            }
            Event::Round(pool) => self.round_passed(pool),
            Event::NodeJoined { node, .. } => self.set_node_timer(&node.id),
            Event::NodeMoved { node, .. } | Event::Probed { node, .. } | Event::Maintenance { node, .. } => {
                self.set_node_timer(node);
                self.ask_back_where_it_goes(node);
            }
            // Whether a job could ever fit depends on them.
            Event::CapsSet(_) => self.pools.values_mut().for_each(Dispatcher::fleet_changed),
            // How long a node may be silent is a setting of its pool.
            Event::PoolSet { pool, .. } => self.set_node_timers(&pool.id),
            _ => {}
        }
    }

    /// Puts a job into the queue of its pool, or takes it out, as its record says.
    pub(crate) fn sync_job(&mut self, id: &JobId) {
        self.sync_job_in(id, true);
    }

    /// The same; a job that was in no queue need not be looked for there.
    fn sync_job_in(&mut self, id: &JobId, queues: bool) {
        let Some(record) = self.state.jobs.get(id) else {
            self.pools.values_mut().for_each(|dispatcher| dispatcher.forget(id, queues));
            return;
        };
        let Some(dispatcher) = self.pools.get_mut(&record.pool) else { return };
        if record.is_queued() && !self.state.announced.contains_key(id) {
            // Only a push pool leaves jobs alone that somebody else is placing.
            let held = dispatcher.heeds_holds() && self.state.holds.values().any(|hold| hold.job == *id);
            dispatcher.enqueue(record, &self.state, held, self.now);
        } else if queues {
            dispatcher.dequeue(id);
        }
        dispatcher.note(record);
    }

    /// Counts what is folded of an array among what waits in its pool.
    pub(crate) fn sync_array(&mut self, id: &JobId) {
        match self.state.folded.get(id) {
            Some(array) => {
                if let Some(dispatcher) = self.pools.get_mut(&array.pool) {
                    let waiting = if array.is_open(self.now) { array.waiting() } else { 0 };
                    dispatcher.count_folded(id, &array.job, waiting);
                }
            }
            None => self.pools.values_mut().for_each(|dispatcher| dispatcher.forget_folded(id)),
        }
    }

    /// Whether a pool has a reason to run its next cycle.
    pub(crate) fn wants_cycle(&self, id: &PoolId) -> bool {
        let (Some(pool), Some(dispatcher)) = (self.state.pools.get(id), self.pools.get(id)) else {
            return false;
        };
        match pool.pool.dispatch {
            Dispatch::Batch => {
                dispatcher.has_queued() || !pool.reservations.is_empty() || dispatcher.has_suspended()
            }
            Dispatch::Push | Dispatch::Pull | Dispatch::Negotiate => dispatcher.has_queued(),
        }
    }

    /// Whether a job is in the given state.
    pub(crate) fn is_in(&self, job: &JobId, state: JobState) -> bool {
        self.state.job(job).is_some_and(|record| record.state == state)
    }
}
