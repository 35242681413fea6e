//! The clock of a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::iter::Peekable;
use std::vec::IntoIter;

use landfall_engine::array::Shape;
use landfall_engine::heartbeat::Heartbeat;
use landfall_engine::input::{NodeOrder, Submission};
use landfall_engine::{Answer, Engine, Event, Fence, Input};
use landfall_model::{Dispatch, JobId, JobKind, JobReport, Millis, Node, NodeId, NodeState, PoolId, Time};

use super::agents::Agents;
use super::books::Books;
use crate::decisions::Decisions;
use crate::run::{NODE_PARTS, Run, TenantRun};
use crate::work::Runs;

/// How long nothing but cycles may happen, after the last of the trace, before a replay is over. Longer than any
/// back-off or grace of the engine.
const IDLE_END: Millis = Millis::secs(6 * 3600);

#[derive(Debug, Clone)]
pub struct Arrival {
    pub at: Time,
    /// How it really runs; of an array, each element of which nothing else is known.
    pub runs: Runs,
    pub submission: Submission,
    /// The indices of an array.
    pub array: Option<Shape>,
    /// The first job of the request that it comes with, if it comes with others.
    pub with: Option<JobId>,
}

impl Arrival {
    /// A job that comes alone and takes so long; `None` if it runs until it is stopped.
    pub fn new(at: Time, run: Option<Millis>, submission: Submission) -> Self {
        Self { at, runs: Runs::once(run), submission, array: None, with: None }
    }
}

/// Something that happens to a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// It is gone, with what runs on it.
    Down(NodeId),
    /// It is back, or comes for the first time.
    Up(Box<Node>),
    /// It finishes what it has and takes nothing new.
    Drain(NodeId),
    /// It says something new about itself.
    Says(NodeId, Box<Heartbeat>),
}

impl Change {
    fn node(&self) -> &NodeId {
        match self {
            Self::Down(node) | Self::Drain(node) | Self::Says(node, _) => node,
            Self::Up(node) => &node.id,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Workload {
    /// Pools, tenants, blocks and nodes that come after the engine was made, as they are told to it.
    pub settings: Vec<(Time, Input)>,
    pub arrivals: Vec<Arrival>,
    /// How elements of arrays really run.
    pub elements: BTreeMap<JobId, Runs>,
    pub changes: Vec<(Time, Change)>,
    /// What people want of jobs, as it is told to the engine.
    pub orders: Vec<(Time, Input)>,
    /// When pools run their cycles, in order; one that is not named, and one whose list is over, has its own beat.
    pub cycles: BTreeMap<PoolId, Vec<Time>>,
}

/// What is still to come of a list.
type Coming<T> = Peekable<IntoIter<(Time, T)>>;

fn coming<T>(list: Vec<(Time, T)>) -> Coming<T> {
    list.into_iter().peekable()
}

struct Clock<'a, 'b> {
    engine: Engine,
    agents: Agents,
    books: Books<'a>,
    settings: Coming<Input>,
    /// What comes in one request is one entry.
    arrivals: Coming<Vec<Arrival>>,
    changes: Coming<Change>,
    orders: Coming<Input>,
    cycles: BTreeMap<PoolId, Peekable<IntoIter<Time>>>,
    elements: BTreeMap<JobId, Runs>,
    /// How elements run that are not listed, by their array.
    arrays: BTreeMap<JobId, Runs>,
    /// Jobs of pull pools in the order in which they came to the queue, and how far down each worker was asked about them.
    came: BTreeMap<PoolId, Vec<JobId>>,
    asked: BTreeMap<NodeId, usize>,
    now: Time,
    /// When something last happened that was not merely a cycle.
    stirred: Time,
    arrived: usize,
    progress: &'b mut dyn FnMut(usize) -> bool,
}

/// Replays a workload on an engine that has its pools and nodes, or gets them with the workload. `progress` is told how many
/// jobs have arrived; `false` stops the replay where it is.
pub fn simulate(
    mut engine: Engine,
    mut workload: Workload,
    decisions: Decisions<'_>,
    progress: &mut dyn FnMut(usize) -> bool,
) -> io::Result<Run> {
    workload.settings.sort_by_key(|(at, _)| *at);
    workload.changes.sort_by(|a, b| (a.0, a.1.node()).cmp(&(b.0, b.1.node())));
    workload.orders.sort_by_key(|(at, _)| *at);
    workload.cycles.retain(|_, times| !times.is_empty());
    engine.cycles_are_asked_for(workload.cycles.keys().cloned().collect());
    let now = engine.state().now;
    let mut clock = Clock {
        engine,
        agents: Agents::default(),
        books: Books::new(decisions),
        settings: coming(workload.settings),
        arrivals: coming(in_requests(workload.arrivals)),
        changes: coming(workload.changes),
        orders: coming(workload.orders),
        cycles: workload.cycles.into_iter().map(|(pool, at)| (pool, at.into_iter().peekable())).collect(),
        elements: workload.elements,
        arrays: BTreeMap::new(),
        came: BTreeMap::new(),
        asked: BTreeMap::new(),
        now,
        stirred: now,
        arrived: 0,
        progress,
    };
    clock.note_pull_pools();
    clock.books.in_service(now, clock.engine.state());
    while clock.one_instant() {}
    let closed = clock.books.close(&clock.engine)?;
    let tenants = closed.tenants.iter().map(|tenant| {
        let known = clock.engine.state().tenants.get(tenant);
        TenantRun { name: tenant.to_string(), share: known.map_or(0.0, |known| known.tenant.share) }
    });
    Ok(Run {
        unit: "nodes",
        unit_parts: NODE_PARTS,
        tenants: tenants.collect(),
        jobs: closed.jobs,
        capacity: closed.capacity,
        nodes: closed.nodes.iter().map(ToString::to_string).collect(),
        spans: closed.spans,
        counts: closed.counts,
        decisions_sha256: closed.decisions_sha256,
        ..Run::default()
    })
}

/// Arrivals in order, those of one request together.
fn in_requests(mut arrivals: Vec<Arrival>) -> Vec<(Time, Vec<Arrival>)> {
    arrivals.sort_by(|a, b| (a.at, &a.submission.job.id).cmp(&(b.at, &b.submission.job.id)));
    predecessors_first(&mut arrivals);
    let mut requests: Vec<(Time, Vec<Arrival>)> = Vec::with_capacity(arrivals.len());
    let mut places: BTreeMap<(Time, JobId), usize> = BTreeMap::new();
    for arrival in arrivals {
        let first = arrival.with.clone().unwrap_or_else(|| arrival.submission.job.id.clone());
        let place = *places.entry((arrival.at, first)).or_insert(requests.len());
        match requests.get_mut(place) {
            Some((_, request)) => request.push(arrival),
            None => requests.push((arrival.at, vec![arrival])),
        }
    }
    requests
}

/// Among jobs of one instant, those that others wait for come first; the rest stay as they are.
fn predecessors_first(arrivals: &mut [Arrival]) {
    for group in arrivals.chunk_by_mut(|a, b| a.at == b.at) {
        if group.iter().all(|arrival| arrival.submission.edges.is_empty()) {
            continue;
        }
        let mut left: BTreeSet<JobId> = group.iter().map(|one| one.submission.job.id.clone()).collect();
        for place in 0..group.len() {
            let ready = |one: &Arrival| one.submission.edges.iter().all(|edge| !left.contains(&edge.on));
            // In a circle nobody is first; the engine says so when it is asked.
            let next = group[place..].iter().position(ready).unwrap_or(0);
            group[place..=place + next].rotate_right(1);
            left.remove(&group[place].submission.job.id);
        }
    }
}

impl Clock<'_, '_> {
    /// When the trace brings something next, or something that it brought is over.
    fn next_of_trace(&mut self) -> Option<Time> {
        let times = [
            self.settings.peek().map(|(at, _)| *at),
            self.arrivals.peek().map(|(at, _)| *at),
            self.changes.peek().map(|(at, _)| *at),
            self.orders.peek().map(|(at, _)| *at),
            self.agents.next_due(),
            self.cycles.values_mut().filter_map(|times| times.peek().copied()).min(),
        ];
        times.into_iter().flatten().min()
    }

    /// Everything that happens at the next instant; `false` at the end.
    fn one_instant(&mut self) -> bool {
        let trace = self.next_of_trace();
        let wake = self.engine.next_wake();
        let Some(next) = trace.into_iter().chain(wake).min() else { return false };
        if trace.is_none() && next.since(self.stirred) > IDLE_END {
            return false;
        }
        self.now = self.now.max(next);
        if trace.is_some_and(|at| at <= self.now) {
            self.stirred = self.now;
        }
        while let Some((_, input)) = self.settings.next_if(|(at, _)| *at <= self.now) {
            if let Input::Join { node, .. } = &input {
                self.asked.remove(&node.id);
            }
            self.step(input);
            self.note_pull_pools();
        }
        let epoch = self.engine.state().epoch;
        while self.agents.next_due().is_some_and(|at| at <= self.now) {
            self.agents.next(epoch);
            self.hear_agents();
        }
        while let Some((_, change)) = self.changes.next_if(|(at, _)| *at <= self.now) {
            self.change(change);
        }
        while let Some((_, request)) = self.arrivals.next_if(|(at, _)| *at <= self.now) {
            self.arrive(request);
        }
        while let Some((_, input)) = self.orders.next_if(|(at, _)| *at <= self.now) {
            self.step(input);
        }
        if self.engine.next_wake().is_some_and(|wake| wake <= self.now) {
            self.step(Input::Tick);
        }
        self.cycle();
        self.ask();
        self.books.first_estimates(&self.engine);
        !self.arrived.is_multiple_of(64) || (self.progress)(self.arrived)
    }

    fn step(&mut self, input: Input) -> Answer {
        let answer = self.step_alone(input);
        self.hear_agents();
        answer
    }

    fn step_alone(&mut self, input: Input) -> Answer {
        let outcome = self.engine.step(self.now, input);
        for event in &outcome.events {
            match event {
                Event::Unfolded { array, positions } => self.unfolded(array, positions.iter()),
                Event::Submitted { job, .. } => self.waits(&job.id),
                Event::Eligible(job) | Event::Requeued { job, .. } => self.waits(job),
                _ => {}
            }
            self.books.note(self.now, event, &self.engine, &mut self.agents);
        }
        for effect in outcome.effects {
            self.agents.obey(self.now, effect);
        }
        outcome.answer
    }

    /// Elements of an array are jobs from now on.
    fn unfolded(&mut self, array: &JobId, positions: impl Iterator<Item = u32>) {
        let Some(folded) = self.engine.state().folded.get(array) else { return };
        let usual = self.arrays.get(array);
        for position in positions {
            let id = folded.element(position);
            let runs = self.elements.get(&id).or(usual).cloned().unwrap_or_default();
            self.books.arrives(&id, &folded.job.spec, runs.last.run, folded.job.submitted_at);
            self.agents.knows(&id, runs);
            if let Some(came) = self.came.get_mut(&folded.pool) {
                came.push(id);
            }
        }
    }

    /// A job came to the queue, or may come to it.
    fn waits(&mut self, job: &JobId) {
        let Some(record) = self.engine.state().job(job) else { return };
        if let Some(came) = self.came.get_mut(&record.pool) {
            came.push(job.clone());
        }
    }

    fn hear_agents(&mut self) {
        while let Some(input) = self.agents.answer() {
            self.stirred = self.now;
            self.step_alone(input);
        }
    }

    /// One request: all its jobs are accepted or none.
    fn arrive(&mut self, request: Vec<Arrival>) {
        let mut jobs = Vec::with_capacity(request.len());
        for Arrival { at, runs, submission, array, .. } in request {
            self.arrived += 1;
            let id = submission.job.id.clone();
            if let Some(Shape { indices, .. }) = array {
                self.arrays.insert(id.clone(), runs);
                let (spec, submission) = (submission.job.spec.clone(), Box::new(submission));
                let input = Input::SubmitArray { submission, indices };
                if let Answer::Refused(refused) = self.step(input) {
                    self.books.arrives(&id, &spec, None, at);
                    self.books.refused(&id, &refused.code);
                }
                continue;
            }
            self.books.arrives(&id, &submission.job.spec, runs.last.run, at);
            self.agents.knows(&id, runs);
            jobs.push(submission);
        }
        if jobs.is_empty() {
            return;
        }
        let ids: Vec<JobId> = jobs.iter().map(|submission| submission.job.id.clone()).collect();
        if let Answer::Refused(refused) = self.step(Input::Submit(jobs)) {
            ids.iter().for_each(|id| self.books.refused(id, &refused.code));
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            // What ran there is lost; the node counts as gone until it joins again.
            Change::Down(node) => drop(self.step(Input::Order { node, order: NodeOrder::Leave })),
            Change::Drain(node) => drop(self.step(Input::Order { node, order: NodeOrder::Drain })),
            Change::Up(node) => {
                let known = self.engine.state().places.get(&node.id).map(|(pool, _)| pool.clone());
                let first = || self.engine.state().pools.keys().next().cloned();
                let Some(pool) = known.or_else(|| node.pool.clone()).or_else(first) else { return };
                let id = node.id.clone();
                // One that only takes work again keeps what runs on it.
                let gone =
                    self.engine.state().node(&id).is_none_or(|(node, _)| node.state == NodeState::Down);
                if gone {
                    self.step(Input::Join { pool, node, running: Some(Vec::new()) });
                }
                self.step(Input::Order { node: id, order: NodeOrder::Return });
            }
            Change::Says(node, heartbeat) => {
                let running = self.running_on(&node);
                self.step(Input::Heartbeat { node, heartbeat, running });
            }
        }
    }

    /// What a node runs is what it should run.
    fn running_on(&self, node: &NodeId) -> Vec<Fence> {
        let state = self.engine.state();
        let placements = state.node(node).map_or(&[][..], |(node, _)| node.placements.as_slice());
        let records = placements.iter().filter_map(|placement| state.job(&placement.job));
        records.map(|record| state.fence(record)).collect()
    }

    /// Cycles at instants that the trace tells, and those that follow events.
    fn cycle(&mut self) {
        let due = |times: &mut Peekable<IntoIter<Time>>| times.next_if(|at| *at <= self.now).is_some();
        let told: Vec<PoolId> =
            self.cycles.iter_mut().filter_map(|(pool, times)| due(times).then(|| pool.clone())).collect();
        for pool in told {
            self.step(Input::Cycle(pool));
        }
        let known = self.cycles.len();
        self.cycles.retain(|_, times| times.peek().is_some());
        if self.cycles.len() < known {
            self.engine.cycles_are_asked_for(self.cycles.keys().cloned().collect());
        }
        let pools =
            self.engine.state().pools.iter().filter(|(_, state)| {
                state.pool.dispatch == Dispatch::Batch && state.pool.batch.cycle_on_events
            });
        let pools: Vec<PoolId> = pools.map(|(id, _)| id.clone()).collect();
        for pool in pools {
            self.step(Input::Cycle(pool));
        }
    }

    /// Notices pools whose workers ask.
    fn note_pull_pools(&mut self) {
        let pull =
            self.engine.state().pools.iter().filter(|(_, state)| state.pool.dispatch == Dispatch::Pull);
        for (id, _) in pull {
            self.came.entry(id.clone()).or_default();
        }
    }

    /// A worker says of jobs that have no inputs that it would have to fetch nothing, as a server says for it.
    fn answer_for(&mut self, pool: &PoolId, node: &NodeId) {
        let came = self.came.get(pool).map_or(&[][..], Vec::as_slice);
        let asked = self.asked.insert(node.clone(), came.len()).unwrap_or(0);
        let state = self.engine.state();
        let without_inputs = |job: &&JobId| {
            state.job(job).is_some_and(|record| {
                record.is_queued() && record.job.spec.inputs.as_deref().unwrap_or_default().is_empty()
            })
        };
        let jobs = came[asked.min(came.len())..].iter().filter(without_inputs);
        let entries: Vec<_> = jobs.map(|job| (job.clone(), Some(JobReport::NOTHING))).collect();
        if !entries.is_empty() {
            self.step(Input::Fetches { node: node.clone(), entries });
        }
    }

    /// Workers of pull pools ask until they get nothing.
    fn ask(&mut self) {
        let pull: Vec<PoolId> = self.came.keys().filter(|pool| self.waits_in(pool)).cloned().collect();
        for pool in pull {
            let nodes = self.engine.state().pools.get(&pool).map_or(&[][..], |state| state.nodes.as_slice());
            let nodes: Vec<NodeId> = nodes.iter().map(|node| node.id.clone()).collect();
            for node in nodes {
                if !self.waits_in(&pool) {
                    break;
                }
                self.answer_for(&pool, &node);
                for kind in [JobKind::Build, JobKind::Eval] {
                    while let Answer::Work(_) = self.step(Input::Ask { node: node.clone(), kind }) {}
                }
            }
        }
    }

    fn waits_in(&self, pool: &PoolId) -> bool {
        self.engine.waiting_in(pool) > 0
    }
}
