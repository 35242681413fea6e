//! The agent's jobs and the server's engine, with a line between them that repeats, reorders and keeps old things: whatever
//! happened, the two come to rest.

use landfall_engine::{Answer, Effect, Engine, Input};
use landfall_model::scenario::{Format, parse};
use landfall_model::{Dispatch, NodeId, Pool, PoolId, Time};
use landfall_testkit::Rng;

use super::*;
use crate::runtime::tests::{site, start};

const SCENARIO: &str = r#"
[[nodes]]
id = "n1"
cpu_milli = 64000
ram_mib = 65536
supported_runtimes = ["process"]
"#;
/// Messages that one attempt may cause in all: start, started, checkpoint, saved, stop, stopped, and each once more.
const PER_ATTEMPT: usize = 12;

struct World {
    random: Rng,
    engine: Engine,
    jobs: Jobs,
    /// What the keeper runs.
    kept: BTreeMap<(JobId, u32), Fence>,
    now: Time,
    clock: Instant,
    commands: Vec<Command>,
    reports: Vec<ReportItem>,
    /// All that was ever said, to be said again.
    old_commands: Vec<Command>,
    old_reports: Vec<ReportItem>,
    submitted: u64,
}

fn node_id() -> NodeId {
    NodeId::new("n1").expect("id")
}

impl World {
    fn new(seed: u64) -> Self {
        let mut jobs = Jobs::new(site(), 64);
        let hello = Hello {
            pid: 1,
            limits: String::new(),
            enforced: None,
            running: Vec::new(),
            ended: Vec::new(),
            remembers: true,
        };
        jobs.on_hello(hello, Instant::now());
        let mut world = Self {
            random: Rng::new(seed),
            engine: Engine::new(),
            jobs,
            kept: BTreeMap::new(),
            now: Time::ZERO,
            clock: Instant::now(),
            commands: Vec::new(),
            reports: Vec::new(),
            old_commands: Vec::new(),
            old_reports: Vec::new(),
            submitted: 0,
        };
        let mut pool = Pool::new(PoolId::new("p").expect("id"), Dispatch::Push);
        pool.batch.kill_grace_ms = Millis::secs(5);
        world.step(Input::SetPool { pool: Box::new(pool), policy: None });
        world.join();
        world
    }

    fn step(&mut self, input: Input) -> Answer {
        let outcome = self.engine.step(self.now, input);
        for effect in outcome.effects {
            let command = match effect {
                Effect::Start { fence, resume, .. } => {
                    Command::Start(Box::new(Start { fence, resume, ..start("process", &["true"]) }))
                }
                Effect::Stop { fence, grace, .. } => Command::Stop { fence, grace_ms: grace.get() },
                Effect::Checkpoint { fence, leave, .. } => {
                    Command::Checkpoint { fence, within_ms: 600_000, leave }
                }
                _ => continue,
            };
            self.old_commands.push(command.clone());
            self.commands.push(command);
        }
        outcome.answer
    }

    fn join(&mut self) {
        let situation = parse(SCENARIO, Format::Toml).expect("a node");
        let node = Box::new(situation.nodes()[0].clone());
        let running = Some(self.jobs.running());
        self.step(Input::Join { pool: PoolId::new("p").expect("id"), node, running });
    }

    fn heartbeat(&mut self) {
        let running = self.jobs.running();
        self.step(Input::Heartbeat { node: node_id(), heartbeat: Box::default(), running });
    }

    /// Lets the engine do what is due within so many seconds.
    fn pass(&mut self, secs: u64) {
        let until = self.now + Millis::secs(secs);
        while let Some(at) = self.engine.next_wake().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.step(Input::Tick);
        }
        self.now = until;
        self.clock += Duration::from_secs(secs);
        let actions = self.jobs.on_time(self.clock, Duration::ZERO);
        self.act(actions);
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Report(item)
                | Action::End { report: item, .. }
                | Action::Refuse { report: item, .. } => {
                    self.old_reports.push(item.clone());
                    self.reports.push(item);
                }
                Action::Keeper(Request::Spawn(spawn)) => {
                    let fence = spawn.fence.clone();
                    self.kept.insert((fence.job.clone(), fence.attempt), fence.clone());
                    let actions = self.jobs.on_event(Event::Spawned(fence));
                    self.act(actions);
                }
                Action::Keeper(Request::Stop { fence, cause, .. }) => self.end(&fence, Some(cause)),
                _ => {}
            }
        }
    }

    fn end(&mut self, fence: &Fence, cause: Option<Cause>) {
        let Some(fence) = self.kept.remove(&(fence.job.clone(), fence.attempt)) else { return };
        let ended = Ended { fence, code: 0, cause, note: Note::default(), ..tests::ended(1, 0, None) };
        let actions = self.jobs.on_event(Event::Ended(Box::new(ended)));
        self.act(actions);
    }

    fn hear_command(&mut self, command: Command) {
        let actions = self.jobs.on_command(command, self.clock);
        self.act(actions);
    }

    fn hear_report(&mut self, item: ReportItem) {
        let (fence, report) = (item.fence.clone(), item.report.clone());
        self.step(Input::Report { node: node_id(), fence, report });
        let actions = self.jobs.on_stored(&[item]);
        self.act(actions);
    }

    /// Something happens.
    fn happen(&mut self) {
        let job = JobId::new(&format!("j{}", self.random.below(self.submitted.max(1)))).expect("id");
        match self.random.below(24) {
            0..3 if self.submitted < 12 => {
                let text = format!(
                    "[[jobs]]\nid = \"j{}\"\nruntime = \"process\"\ncheckpoint = \"auto\"\ncpu_milli = 100\n",
                    self.submitted
                );
                let situation = parse(&text, Format::Toml).expect("a job");
                let job = situation.jobs()[0].clone();
                self.submitted += 1;
                self.step(Input::Submit(vec![landfall_engine::input::Submission::new(job)]));
            }
            0..8 if !self.commands.is_empty() => {
                let at = self.random.index(self.commands.len());
                let again = self.random.chance(20);
                let command = if again { self.commands[at].clone() } else { self.commands.swap_remove(at) };
                self.hear_command(command);
            }
            8..12 if !self.reports.is_empty() => {
                let at = self.random.index(self.reports.len());
                let again = self.random.chance(20);
                let item = if again { self.reports[at].clone() } else { self.reports.swap_remove(at) };
                self.hear_report(item);
            }
            12 => {
                let fences: Vec<Fence> = self.kept.values().cloned().collect();
                if let Some(fence) = self.random.pick(&fences) {
                    self.end(&fence, None);
                }
            }
            13..15 => {
                let saving = self.jobs.saving();
                if let Some(job) = self.random.pick(&saving) {
                    let actions = self.jobs.on_saved(&job);
                    self.act(actions);
                }
            }
            15 => drop(self.step(Input::Suspend(job))),
            16 => drop(self.step(Input::Resume { job, walltime: None })),
            17 => drop(self.step(Input::Checkpoint(job))),
            18 if self.random.one_in(4) => drop(self.step(Input::Cancel(job))),
            19 => {
                if let Some(command) = self.random.pick(&self.old_commands) {
                    self.hear_command(command);
                }
            }
            20 => {
                if let Some(item) = self.random.pick(&self.old_reports) {
                    self.hear_report(item);
                }
            }
            21 => self.heartbeat(),
            22 if self.random.one_in(8) => drop(self.step(Input::TakeOver)),
            23 if self.random.one_in(8) => self.join(),
            _ => {
                let secs = self.random.below(4);
                self.pass(secs);
            }
        }
    }

    /// Delivers all there is and all that comes of it; how many messages that took.
    fn come_to_rest(&mut self, bound: usize) -> Option<usize> {
        let mut messages = 0;
        while !self.commands.is_empty() || !self.reports.is_empty() {
            messages += 1;
            if messages > bound {
                return None;
            }
            if self.commands.is_empty() || (self.random.chance(50) && !self.reports.is_empty()) {
                let item = self.reports.remove(0);
                self.hear_report(item);
            } else {
                let command = self.commands.remove(0);
                self.hear_command(command);
            }
        }
        Some(messages)
    }
}

#[test]
fn stale_repeated_and_reordered_messages_come_to_rest() {
    for seed in 0..300 {
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.happen();
        }
        let outstanding = world.commands.len() + world.reports.len();
        let bound = outstanding * PER_ATTEMPT + world.submitted as usize * PER_ATTEMPT;
        let took = world.come_to_rest(bound);
        assert!(took.is_some(), "seed {seed}: {outstanding} messages became more than {bound}");
        // Nobody wants anything any more: a few heartbeats later nothing is said at all.
        for number in 0..world.submitted {
            world.step(Input::Cancel(JobId::new(&format!("j{number}")).expect("id")));
        }
        for beat in 0..6 {
            world.pass(10);
            world.heartbeat();
            let took = world.come_to_rest(bound);
            assert!(took.is_some(), "seed {seed}, heartbeat {beat}");
            assert!(
                beat < 4 || took == Some(0),
                "seed {seed}: heartbeat {beat} still takes {took:?} messages"
            );
        }
        assert!(
            world.kept.is_empty() && world.jobs.running().is_empty(),
            "seed {seed}: something still runs"
        );
    }
}
