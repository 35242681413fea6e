//! A world: a virtual clock, an engine, agents, a network that loses, doubles and reorders, and checks after every step.

use std::collections::BTreeMap;

use landfall_engine::array::parse_element_id;
use landfall_engine::heartbeat::Heartbeat;
use landfall_engine::input::{Failure, Report, RunUsage, StartRefusal};
use landfall_engine::{Answer, Effect, Engine, Event, Fence, Input, State, codec};
use landfall_model::{Dispatch, JobId, JobKind, Millis, NodeId, Pool, Time};
use landfall_testkit::invariants::{Violation, Watcher, check_all, check_beside};

use crate::agent::{Agent, Begin, Mail, Post};
use crate::fleet;
use landfall_testkit::Rng;

/// How large a world is, and how closely it is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) nodes: (u64, u64),
    pub(crate) actions: u64,
    /// Whether hashes are compared at every step and the state is rebuilt from all events now and then.
    pub(crate) rebuilds: bool,
    /// No trouble and no delay: batch pools whose reservations must hold to the millisecond.
    pub(crate) prompt: bool,
}

pub(crate) type Found<T = ()> = Result<T, Violation>;

pub(crate) fn violation<T>(name: &'static str, detail: String) -> Found<T> {
    Err(Violation { name, detail })
}

pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) now: Time,
    pub(crate) engine: Engine,
    /// An engine that began from the state of the other one and must do the same.
    twin: Option<Engine>,
    watcher: Watcher,
    pub(crate) agents: BTreeMap<NodeId, Agent>,
    post: Post,
    sent: u64,
    pub(crate) calm: bool,
    pub(crate) prompt: bool,
    pub(crate) pools: Vec<Pool>,
    pub(crate) tenants: u64,
    pub(crate) jobs: Vec<JobId>,
    pub(crate) holds: Vec<u64>,
    pub(crate) next_job: u64,
    pub(crate) actions_left: u64,
    pub(crate) steps: u64,
    journal: Option<Vec<(Time, Event)>>,
    tells: bool,
}

impl World {
    pub(crate) fn new(seed: u64, size: Size) -> Found<Self> {
        let mut rng = Rng::new(seed);
        let pools = fleet::pools(&mut rng, size.prompt);
        let mut world = Self {
            now: Time::from_secs(1_000_000),
            engine: Engine::new(),
            twin: None,
            watcher: if size.prompt { Watcher::strict() } else { Watcher::new() },
            agents: BTreeMap::new(),
            post: Post::new(),
            sent: 0,
            calm: size.prompt,
            prompt: size.prompt,
            tenants: rng.within(1, 3),
            jobs: Vec::new(),
            holds: Vec::new(),
            next_job: 0,
            actions_left: size.actions,
            steps: 0,
            journal: size.rebuilds.then(Vec::new),
            tells: std::env::var("LANDFALL_SEED").is_ok(),
            pools,
            rng,
        };
        world.renew_faults();
        world.set_up(size)?;
        Ok(world)
    }

    fn set_up(&mut self, size: Size) -> Found {
        for pool in self.pools.clone() {
            self.step(Input::SetPool { pool: Box::new(pool), policy: None })?;
        }
        for position in 0..self.tenants {
            let tenant = fleet::tenant(&mut self.rng, position);
            self.step(Input::SetTenant(Box::new(tenant)))?;
        }
        let count = self.rng.within(size.nodes.0, size.nodes.1).max(self.pools.len() as u64);
        for position in 0..count {
            let pool = self.pools[position as usize % self.pools.len()].clone();
            let node = fleet::node(&mut self.rng, &format!("n{position}"));
            let id = node.id.clone();
            self.agents.insert(id.clone(), Agent::new(pool.id.clone(), node));
            self.join(&id)?;
            let first = self.rng.below(10_000);
            self.send_at(self.now + Millis::new(first), Mail::Beat(id.clone()));
            if pool.dispatch == Dispatch::Pull {
                self.send_at(self.now + Millis::new(first), Mail::Ask(id));
            }
        }
        self.send_at(self.now, Mail::Act);
        Ok(())
    }

    /// Goes on until all actions are done.
    pub(crate) fn live(&mut self) -> Found {
        while self.actions_left > 0 {
            self.advance()?;
        }
        Ok(())
    }

    /// Does what comes next: the engine's own wish or mail.
    pub(crate) fn advance(&mut self) -> Found {
        let (at, _) = *self.post.keys().next().expect("heartbeats go on");
        let late = if self.calm || !self.rng.chance(5) { 0 } else { self.rng.below(2000) };
        if let Some(wake) =
            self.engine.next_wake().map(|wake| wake + Millis::new(late)).filter(|wake| *wake <= at)
        {
            self.now = self.now.max(wake);
            self.step(Input::Tick)?;
            if self.engine.next_wake().is_some_and(|wake| wake <= self.now) {
                return violation("ticks_get_on", format!("at {} the engine wants a tick again", self.now));
            }
            return Ok(());
        }
        let Some((_, mail)) = self.post.pop_first() else { return Ok(()) };
        self.now = self.now.max(at);
        self.take(mail)
    }

    /// One input, looked at from all sides.
    pub(crate) fn step(&mut self, input: Input) -> Found<Answer> {
        self.steps += 1;
        if input == Input::Tick && self.rng.chance(4) && self.may_restart() {
            self.restart()?;
        }
        let outcome = self.engine.step(self.now, input.clone());
        if self.tells {
            eprintln!(
                "{} {input:?}\n    -> {:?}\n    events {:?}\n    effects {:?}",
                self.now, outcome.answer, outcome.events, outcome.effects
            );
        }
        if let Some(twin) = &mut self.twin {
            let other = twin.step(self.now, input.clone());
            if other != outcome {
                return violation(
                    "restarted_goes_on_alike",
                    format!("{input:?} gave {outcome:?}\nand after a restart {other:?}"),
                );
            }
        }
        self.watcher.observe(&self.engine, &input, &outcome)?;
        // The state is what its events make it, as was just seen, so without one it is the state that was checked before.
        if outcome.events.is_empty() {
            check_beside(&self.engine)?;
        } else {
            check_all(&self.engine)?;
        }
        if let Some(journal) = &mut self.journal {
            journal.extend(outcome.events.iter().map(|event| (outcome.at, event.clone())));
            if self.watcher.state().hash() != self.engine.state().hash() {
                return violation("same_events_same_hash", "equal states have different hashes".to_owned());
            }
            if self.rng.chance(1) {
                self.rebuild()?;
            }
        }
        for effect in outcome.effects {
            self.carry(effect);
        }
        if let Answer::Held { id, .. } = &outcome.answer {
            self.holds.push(*id);
        }
        Ok(outcome.answer)
    }

    /// A restarted engine looks at every waiting job again; one that goes on does so when its push cycles are due.
    fn may_restart(&self) -> bool {
        let state = self.engine.state();
        state.pools.values().filter(|pool| pool.pool.dispatch == Dispatch::Push).all(|pool| {
            let waits = state.jobs.values().any(|record| record.pool == pool.pool.id && record.is_queued());
            !waits || (pool.next_cycle <= self.now && pool.pool.push.cycle_limit.is_none())
        })
    }

    /// The engine crashes and begins again from its snapshot; what goes on must be the same as without.
    fn restart(&mut self) -> Found {
        // Whoever starts again has not heard what the other one heard, so silence counts from now for both.
        self.step(Input::Listen)?;
        let state = self.engine.state();
        let mut bytes = Vec::new();
        codec::write_state(&mut bytes, state).expect("a state can be written");
        let read = match codec::read_state(&mut bytes.as_slice()) {
            Ok(read) => read,
            Err(error) => return violation("a_snapshot_reads_back", error),
        };
        if read != *state {
            return violation("a_snapshot_reads_back", "not the same".to_owned());
        }
        match self.rng.below(3) {
            0 => self.twin = None,
            1 => self.twin = Some(Engine::of(read).at(self.now)),
            // The other way round: the restarted one is the one that is looked at.
            _ => self.twin = Some(std::mem::replace(&mut self.engine, Engine::of(read).at(self.now))),
        }
        self.renew_faults();
        Ok(())
    }

    /// The whole journal gives the state.
    fn rebuild(&self) -> Found {
        let mut state = State::default();
        for (at, event) in self.journal.iter().flatten() {
            state.apply(*at, event);
        }
        if state == *self.engine.state() && state.hash() == self.engine.state().hash() {
            return Ok(());
        }
        violation("the_journal_gives_the_state", "rebuilt from all events it differs".to_owned())
    }

    #[cfg(not(feature = "mutations"))]
    fn renew_faults(&mut self) {}

    /// Planted faults outlive a restart, on both sides.
    #[cfg(feature = "mutations")]
    fn renew_faults(&mut self) {
        let engines = [Some(&mut self.engine), self.twin.as_mut()];
        let planted = crate::mutations::planted();
        for engine in engines.into_iter().flatten() {
            planted.plant(engine);
        }
    }

    // ---- the network ----

    pub(crate) fn send_at(&mut self, at: Time, mail: Mail) {
        self.sent += 1;
        self.post.insert((at, self.sent), mail);
    }

    fn send(&mut self, least: u64, most: u64, mail: Mail) {
        let at = self.now + Millis::new(self.rng.within(least, most));
        self.send_at(at, mail);
    }

    /// An effect goes to whom it concerns: late, twice or never.
    fn carry(&mut self, effect: Effect) {
        let node = match &effect {
            Effect::Start { node, .. }
            | Effect::Stop { node, .. }
            | Effect::GiveBack { node, .. }
            | Effect::Checkpoint { node, .. } => node.clone(),
            Effect::Probe(node) => {
                let good = self.calm || self.rng.chance(70);
                let mail = Mail::Probed(node.clone(), good);
                return self.send(10, 3000, mail);
            }
            _ => return,
        };
        let copies = match self.rng.below(100) {
            0..8 if !self.calm => 0,
            8..16 if !self.calm => 2,
            _ => 1,
        };
        if self.prompt {
            return self.send(0, 0, Mail::Command(node, effect));
        }
        for _ in 0..copies {
            let most = if self.rng.chance(10) && !self.calm { 5000 } else { 300 };
            self.send(1, most, Mail::Command(node.clone(), effect.clone()));
        }
    }

    /// An agent says something about a job; it says it again until it was heard.
    fn say(&mut self, node: &NodeId, fence: Fence, report: Report) {
        let cut = self.agents.get(node).is_some_and(|agent| agent.cut);
        let mail = Mail::Report(node.clone(), fence, report);
        if self.prompt {
            return self.send(0, 0, mail);
        }
        if !self.calm && self.rng.chance(8) {
            self.send(1, 4000, mail.clone());
        }
        if cut || (!self.calm && self.rng.chance(10)) {
            self.send(2000, 6000, mail);
        } else {
            self.send(1, 500, mail);
        }
    }

    fn take(&mut self, mail: Mail) -> Found {
        match mail {
            Mail::Act => {
                self.actions_left = self.actions_left.saturating_sub(1);
                self.act()?;
                let wait =
                    if self.rng.chance(6) { self.rng.within(20_000, 150_000) } else { self.rng.below(4000) };
                if self.actions_left > 0 {
                    self.send_at(self.now + Millis::new(wait), Mail::Act);
                }
            }
            Mail::Beat(node) => {
                let every = if self.calm { 25_000 } else { 10_000 };
                self.send_at(self.now + Millis::new(every), Mail::Beat(node.clone()));
                self.beat(&node)?;
            }
            Mail::Ask(node) => {
                let wait = self.rng.within(1000, 8000);
                self.send_at(self.now + Millis::new(wait), Mail::Ask(node.clone()));
                let asks = self.agents.get(&node).is_some_and(|agent| agent.hears());
                if asks && self.engine.state().jobs.values().any(|record| record.is_queued()) {
                    let kind = if self.rng.chance(50) { JobKind::Eval } else { JobKind::Build };
                    self.step(Input::Ask { node, kind })?;
                }
            }
            Mail::Report(node, fence, report) => {
                if self.agents.get(&node).is_some_and(|agent| agent.cut) {
                    self.send(2000, 6000, Mail::Report(node, fence, report));
                } else {
                    self.step(Input::Report { node, fence, report })?;
                }
            }
            Mail::Probed(node, good) => {
                self.step(Input::Probe { node, good })?;
            }
            Mail::Return(node) => self.come_back(&node)?,
            Mail::Command(node, effect) => self.obey(&node, effect),
            Mail::Exit(node, fence, code) => {
                let Some(agent) = self.agents.get_mut(&node) else { return Ok(()) };
                if !agent.up && agent.runs(&fence) {
                    // It runs on without its agent, which will tell when it is there again.
                    self.send(1000, 9000, Mail::Exit(node, fence, code));
                } else if agent.runs(&fence) {
                    agent.end(&fence);
                    if let Some(next) = agent.next_of(&fence.job) {
                        agent.begin(&next);
                        self.start(&node, next);
                    }
                    let failures =
                        [None, Some(Failure::Transient), Some(Failure::FetchMiss), Some(Failure::Permanent)];
                    let failure = self.rng.pick(&failures).flatten().filter(|_| code != 0);
                    let usage = Box::new(RunUsage { speed_ratio: Some(1.1), ..RunUsage::default() });
                    self.say(&node, fence, Report::Exited { code, failure, usage });
                }
            }
            Mail::Kill(node, fence) => {
                let Some(agent) = self.agents.get_mut(&node).filter(|agent| agent.up) else { return Ok(()) };
                agent.end(&fence);
                self.say(&node, fence, Report::Stopped);
            }
            Mail::Saved(node, fence, leave) => {
                let Some(agent) = self.agents.get_mut(&node).filter(|agent| agent.up && agent.runs(&fence))
                else {
                    return Ok(());
                };
                if leave {
                    agent.end(&fence);
                }
                self.say(&node, fence, Report::Checkpointed);
            }
        }
        Ok(())
    }

    // ---- agents ----

    fn obey(&mut self, id: &NodeId, effect: Effect) {
        let Some(agent) = self.agents.get_mut(id).filter(|agent| agent.hears()) else { return };
        match effect {
            Effect::Start { fence, ahead: true, .. } => agent.hold(&fence),
            Effect::GiveBack { fence, .. } if agent.give_back(&fence) => {
                self.say(id, fence, Report::Refused(StartRefusal::Returned));
            }
            Effect::Start { fence, .. } => match agent.begin(&fence) {
                Begin::TooLate => {}
                Begin::Again => self.say(id, fence, Report::Started),
                Begin::New => self.start(id, fence),
            },
            Effect::Stop { fence, grace, .. } => {
                if grace.is_zero() || !agent.runs(&fence) {
                    agent.end(&fence);
                    self.say(id, fence, Report::Stopped);
                } else if self.rng.chance(30) {
                    self.send(1, grace.get().max(1), Mail::Exit(id.clone(), fence.clone(), 0));
                    self.send(grace.get(), grace.get(), Mail::Kill(id.clone(), fence));
                } else {
                    self.send(1, grace.get().max(1), Mail::Kill(id.clone(), fence));
                }
            }
            Effect::Checkpoint { fence, leave, .. } => {
                if !agent.runs(&fence) {
                    return;
                }
                match self.rng.below(10) {
                    0 if !self.calm => self.say(id, fence, Report::CheckpointFailed),
                    1 if !self.calm => {}
                    2 => {
                        self.say(id, fence.clone(), Report::CheckpointProgress);
                        self.send(500, 9000, Mail::Saved(id.clone(), fence, leave));
                    }
                    _ => self.send(500, 9000, Mail::Saved(id.clone(), fence, leave)),
                }
            }
            _ => {}
        }
    }

    fn start(&mut self, id: &NodeId, fence: Fence) {
        let refuses = !self.calm && self.rng.chance(8);
        if refuses {
            let all = [
                StartRefusal::Busy,
                StartRefusal::Unsupported,
                StartRefusal::Malformed,
                StartRefusal::Draining,
                StartRefusal::AtCapacity,
                StartRefusal::Failed,
            ];
            if let Some(agent) = self.agents.get_mut(id) {
                agent.live.remove(&fence.job);
            }
            let refusal = self.rng.pick(&all).unwrap_or(StartRefusal::Busy);
            return self.say(id, fence, Report::Refused(refusal));
        }
        self.say(id, fence.clone(), Report::Started);
        let short = parse_element_id(&fence.job).is_some() && self.rng.chance(50);
        let (least, most) = match () {
            () if short => (1, 100),
            () if self.calm && self.actions_left == 0 => (500, 5000),
            () => (100, 90_000),
        };
        let code = if self.calm || self.rng.chance(80) { 0 } else { 1 };
        self.send(least, most, Mail::Exit(id.clone(), fence, code));
    }

    pub(crate) fn join(&mut self, id: &NodeId) -> Found {
        let Some(agent) = self.agents.get(id) else { return Ok(()) };
        // After a crash it looks what still runs; only who tells anew what it is may leave that out.
        let running = Some(agent.running());
        let (pool, node) = (agent.pool.clone(), Box::new(agent.node.clone()));
        self.step(Input::Join { pool, node, running })?;
        Ok(())
    }

    fn beat(&mut self, id: &NodeId) -> Found {
        let Some(agent) = self.agents.get(id).filter(|agent| agent.hears()) else { return Ok(()) };
        if !self.calm && self.rng.chance(5) {
            return Ok(());
        }
        let mut heartbeat = Heartbeat::default();
        if self.rng.chance(10) && !self.prompt {
            heartbeat.ram_used = Some(landfall_model::Mib::gib(self.rng.below(4)));
            heartbeat.accepting = Some(self.calm || self.rng.chance(90));
        }
        if self.calm && !self.prompt {
            heartbeat.accepting = Some(true);
        }
        let running = agent.running();
        let answer =
            self.step(Input::Heartbeat { node: id.clone(), heartbeat: Box::new(heartbeat), running })?;
        if matches!(answer, Answer::Refused(refused) if refused.code == "rejoin") {
            self.join(id)?;
        }
        Ok(())
    }

    /// An agent that was cut off or had crashed is there again.
    pub(crate) fn come_back(&mut self, id: &NodeId) -> Found {
        let Some(agent) = self.agents.get_mut(id) else { return Ok(()) };
        let crashed = !agent.up;
        (agent.up, agent.cut) = (true, false);
        if crashed { self.join(id) } else { self.beat(id) }
    }
}
