//! The clock of a cluster.

use std::collections::BTreeSet;
use std::io;

use landfall_engine::input::{NodeOrder, Submission};
use landfall_engine::{Answer, Engine, Input};
use landfall_model::{Dispatch, JobId, JobKind, Millis, Node, NodeId, NodeState, PoolId, Time};

use super::agents::Agents;
use super::books::Books;
use crate::decisions::Decisions;
use crate::run::{NODE_PARTS, Run, TenantRun};

/// How long nothing but cycles may happen, after the last of the trace, before a replay is over. Longer than any
/// back-off or grace of the engine.
const IDLE_END: Millis = Millis::secs(6 * 3600);

#[derive(Debug, Clone)]
pub struct Arrival {
    pub at: Time,
    /// How long it really takes; `None` if it runs until it is stopped.
    pub run: Option<Millis>,
    pub submission: Submission,
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
}

impl Change {
    fn node(&self) -> &NodeId {
        match self {
            Self::Down(node) | Self::Drain(node) => node,
            Self::Up(node) => &node.id,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Workload {
    pub arrivals: Vec<Arrival>,
    pub changes: Vec<(Time, Change)>,
}

struct Clock<'a, 'b> {
    engine: Engine,
    agents: Agents,
    books: Books<'a>,
    arrivals: std::iter::Peekable<std::vec::IntoIter<Arrival>>,
    changes: std::iter::Peekable<std::vec::IntoIter<(Time, Change)>>,
    /// Batch pools whose cycles follow events.
    on_events: Vec<PoolId>,
    pull: Vec<(PoolId, Vec<NodeId>)>,
    now: Time,
    /// When something last happened that was not merely a cycle.
    stirred: Time,
    arrived: usize,
    progress: &'b mut dyn FnMut(usize) -> bool,
}

/// Replays a workload on an engine that has its pools and nodes. `progress` is told how many jobs have arrived; `false`
/// stops the replay where it is.
pub fn simulate(
    engine: Engine,
    mut workload: Workload,
    decisions: Decisions<'_>,
    progress: &mut dyn FnMut(usize) -> bool,
) -> io::Result<Run> {
    workload.arrivals.sort_by(|a, b| (a.at, &a.submission.job.id).cmp(&(b.at, &b.submission.job.id)));
    predecessors_first(&mut workload.arrivals);
    workload.changes.sort_by(|a, b| (a.0, a.1.node()).cmp(&(b.0, b.1.node())));
    let pools = |dispatch| {
        let all = engine.state().pools.iter().filter(move |(_, pool)| pool.pool.dispatch == dispatch);
        all.map(|(id, pool)| (id.clone(), pool.nodes.iter().map(|node| node.id.clone()).collect::<Vec<_>>()))
    };
    let follows =
        |id: &PoolId| engine.state().pools.get(id).is_some_and(|pool| pool.pool.batch.cycle_on_events);
    let on_events = pools(Dispatch::Batch).map(|(id, _)| id).filter(follows).collect();
    let pull = pools(Dispatch::Pull).collect();
    let now = engine.state().now;
    let mut clock = Clock {
        on_events,
        pull,
        engine,
        agents: Agents::default(),
        books: Books::new(decisions),
        arrivals: workload.arrivals.into_iter().peekable(),
        changes: workload.changes.into_iter().peekable(),
        now,
        stirred: now,
        arrived: 0,
        progress,
    };
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
    /// Everything that happens at the next instant; `false` at the end.
    fn one_instant(&mut self) -> bool {
        let trace = self.arrivals.peek().map(|arrival| arrival.at).into_iter();
        let trace = trace.chain(self.changes.peek().map(|(at, _)| *at)).chain(self.agents.next_end()).min();
        let wake = self.engine.next_wake();
        let Some(next) = trace.into_iter().chain(wake).min() else { return false };
        if trace.is_none() && next.since(self.stirred) > IDLE_END {
            return false;
        }
        self.now = self.now.max(next);
        if trace.is_some_and(|at| at <= self.now) {
            self.stirred = self.now;
        }
        let epoch = self.engine.state().epoch;
        while self.agents.next_end().is_some_and(|at| at <= self.now) {
            self.agents.end_one(epoch);
            self.hear_agents();
        }
        while let Some((_, change)) = self.changes.next_if(|(at, _)| *at <= self.now) {
            self.change(change);
        }
        while let Some(arrival) = self.arrivals.next_if(|arrival| arrival.at <= self.now) {
            self.arrive(arrival);
        }
        if self.engine.next_wake().is_some_and(|wake| wake <= self.now) {
            self.step(Input::Tick);
        }
        for pool in self.on_events.clone() {
            self.step(Input::Cycle(pool));
        }
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
            self.books.note(self.now, event, &self.engine, &mut self.agents);
        }
        for effect in outcome.effects {
            self.agents.obey(effect);
        }
        outcome.answer
    }

    fn hear_agents(&mut self) {
        while let Some(input) = self.agents.answer() {
            self.stirred = self.now;
            self.step_alone(input);
        }
    }

    fn arrive(&mut self, arrival: Arrival) {
        let job = arrival.submission.job.clone();
        self.arrived += 1;
        self.agents.knows(&job.id, arrival.run);
        self.books.arrives(&job, arrival.run, arrival.at);
        if let Answer::Refused(refused) = self.step(Input::Submit(vec![arrival.submission])) {
            self.books.refused(&job.id, &refused.code);
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
                    self.step(Input::Join { pool: pool.clone(), node, running: Some(Vec::new()) });
                }
                self.step(Input::Order { node: id.clone(), order: NodeOrder::Return });
                if let Some((_, nodes)) = self.pull.iter_mut().find(|(known, _)| *known == pool)
                    && !nodes.contains(&id)
                {
                    nodes.push(id);
                }
            }
        }
    }

    /// Workers of pull pools ask until they get nothing.
    fn ask(&mut self) {
        for (pool, nodes) in self.pull.clone() {
            for node in nodes {
                if !self.waits_in(&pool) {
                    break;
                }
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
