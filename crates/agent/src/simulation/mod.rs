//! A node in virtual time: agent, keeper and processes without sockets, threads and clocks.
//!
//! ```text
//!  server ──commands──► Agent { Jobs } ──requests──► Keeper { Journal } ──► processes
//!         ◄──requests──               ◄──events────                      (what the machine saw)
//! ```
//!
//! *Real*: what decides. `Jobs` (the rules of the protocol), the keeper's `Journal` with its file, `Site::plan`,
//! `Layout` with the files that outlive an agent, the pauses of `Backoff`, and all types that go over both lines. *Played*: what
//! waits. The tasks of `session` and `reporter` are written down here as one machine that is woken at instants, in the order of
//! the originals and with their time-outs; the keeper's threads as a queue of events with drawn pauses between "noted",
//! "begun", "noted again" and "told", so that a crash can fall between any two of them.
//!
//! [`Node::out`] has what the agent wants to say; whoever simulates carries it to the server, or loses it, and comes back with
//! [`Node::answer`]. [`Node::seen`] has what the machine saw: processes that began, ended, were killed.

mod agent;
mod keeper;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use landfall_api::agent::{Ask, Command, ReportAnswers, Reports};
use landfall_api::node::{Heard, Heartbeat, Registered, Registration};
use landfall_model::JobId;
use landfall_model::life::Fence;

use crate::keeper::wire::{Event, Request};
use crate::layout::Layout;
use agent::Agent;
use keeper::Keeper;

/// Draws a number below a bound.
pub type Draw = Box<dyn FnMut(u64) -> u64>;

/// What an agent says to the server.
#[derive(Debug, Clone)]
pub enum Say {
    Register(Box<Registration>),
    /// It wants to be told things, on a line of its own.
    Connect,
    Heartbeat(Box<Heartbeat>),
    Reports(Reports),
    Ask(Ask),
    /// The result of a self test.
    Probed(bool),
}

/// Something on its way to the server.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// The answer has to name it.
    pub id: u64,
    /// The journal that the agent's memory is about.
    pub journal: Option<String>,
    pub say: Say,
}

/// What comes back.
#[derive(Debug, Clone)]
pub enum Reply {
    Registered(Box<Registered>),
    Connected,
    Heard(Heard),
    Stored(ReportAnswers),
    /// So many jobs were granted.
    Granted(u32),
    Done,
    /// The server refused with this status and code.
    Refused(u16, String),
    /// The connection broke.
    Broken,
}

/// What a machine saw of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Saw {
    Began {
        fence: Fence,
        argv: Vec<String>,
        journal: Option<String>,
        env: BTreeMap<String, String>,
    },
    /// It ended by itself.
    Exited(i32),
    Killed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub at: Duration,
    /// Which process of this machine.
    pub process: u64,
    pub saw: Saw,
}

/// A process that runs.
#[derive(Debug)]
struct Process {
    number: u64,
    key: (JobId, u32),
    code: i32,
}

/// What happens on a node at an instant. The numbers say to which life of agent or keeper it belongs.
#[derive(Debug)]
enum Happens {
    /// The agent looks at its instants.
    Poll(u64),
    AgentStarts,
    ToKeeper(u64, Request),
    ToAgent(u64, Event),
    /// The keeper notes that a job begins.
    Noted(u64, (JobId, u32)),
    /// Its process begins.
    Begins(u64, (JobId, u32)),
    /// The keeper notes that it began and tells so.
    Began(u64, (JobId, u32)),
    ProcessEnds(u64, Option<i32>),
    /// The keeper notes an end and tells it.
    Reaps(u64, (JobId, u32), i32),
    Kill(u64, (JobId, u32)),
    Silence(u64, (JobId, u32)),
    /// A process has saved its work.
    Saves(u64, JobId),
}

/// A machine with an agent and a keeper.
pub struct Node {
    name: String,
    layout: Layout,
    base: Instant,
    now: Duration,
    /// How far the machine's wall clock is from the truth, in milliseconds since 1970 at the beginning.
    wall_ms: i64,
    boot: u32,
    draw: Draw,
    /// Pauses are up to so many milliseconds.
    pub slowness_ms: u64,
    agent: Option<Agent>,
    agents: u64,
    keeper: Option<Keeper>,
    keepers: u64,
    processes: Vec<Process>,
    process_count: u64,
    /// Jobs whose process says that it saved its work.
    saved: BTreeSet<JobId>,
    queue: BTreeMap<(Duration, u64), Happens>,
    /// When the last line between agent and keeper arrives, in each direction: a socket keeps their order.
    keeper_hears: Duration,
    agent_hears: Duration,
    count: u64,
    /// What the agent wants to say.
    pub out: Vec<Outgoing>,
    /// What the machine saw since the last look.
    pub seen: Vec<Seen>,
    /// A planted fault: the agent tells again and again what is over.
    pub repeats_itself: bool,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Node {
    /// A machine that was just switched on; its agent begins with it.
    ///
    /// # Errors
    /// When its directory cannot be made.
    pub fn new(name: &str, dir: PathBuf, wall_ms: i64, draw: Draw) -> std::io::Result<Self> {
        let layout = Layout::new(dir);
        layout.create()?;
        let mut node = Self {
            name: name.to_owned(),
            layout,
            base: Instant::now(),
            now: Duration::ZERO,
            wall_ms,
            boot: 1,
            draw,
            slowness_ms: 5,
            agent: None,
            agents: 0,
            keeper: None,
            keepers: 0,
            processes: Vec::new(),
            process_count: 0,
            saved: BTreeSet::new(),
            queue: BTreeMap::new(),
            keeper_hears: Duration::ZERO,
            agent_hears: Duration::ZERO,
            count: 0,
            out: Vec::new(),
            seen: Vec::new(),
            repeats_itself: false,
        };
        node.later(Happens::AgentStarts);
        Ok(node)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// When something happens next by itself.
    pub fn next(&self) -> Option<Duration> {
        self.queue.keys().next().map(|(at, _)| *at)
    }

    /// Lets everything happen that is due.
    pub fn run(&mut self, now: Duration) {
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((at, _), happens) = entry.remove_entry();
            self.now = self.now.max(at);
            self.happen(happens);
        }
        self.now = self.now.max(now);
    }

    fn at(&mut self, at: Duration, happens: Happens) {
        self.count += 1;
        self.queue.insert((at.max(self.now), self.count), happens);
    }

    /// After a pause that is drawn.
    fn later(&mut self, happens: Happens) {
        let pause = (self.draw)(self.slowness_ms.max(1) * 1000);
        let mut at = self.now + Duration::from_micros(pause);
        let line = match happens {
            Happens::ToKeeper(..) => Some(&mut self.keeper_hears),
            Happens::ToAgent(..) => Some(&mut self.agent_hears),
            _ => None,
        };
        if let Some(last) = line {
            at = at.max(*last);
            *last = at;
        }
        self.at(at, happens);
    }

    fn boot_id(&self) -> String {
        format!("{}-{}", self.name, self.boot)
    }

    fn instant(&self) -> Instant {
        self.base + self.now
    }

    fn happen(&mut self, happens: Happens) {
        match happens {
            Happens::Poll(life) if self.agent.is_some() && life == self.agents => self.poll(),
            Happens::AgentStarts if self.agent.is_none() => self.agent_starts(),
            Happens::ToAgent(life, event) if self.agent.is_some() && life == self.agents => {
                self.agent_hears(event);
            }
            Happens::ProcessEnds(number, code) => self.process_ends(number, code),
            Happens::Saves(number, job) => {
                if self.processes.iter().any(|process| process.number == number) {
                    self.saved.insert(job);
                }
            }
            happens => self.keeper_happens(happens),
        }
    }

    fn saw(&mut self, process: u64, saw: Saw) {
        self.seen.push(Seen { at: self.now, process, saw });
    }

    /// A command of the server arrives on the open line.
    pub fn command(&mut self, now: Duration, command: Command) {
        self.run(now);
        self.agent_told(command);
    }

    /// Something comes back for what was said.
    pub fn answer(&mut self, now: Duration, id: u64, reply: Reply) {
        self.run(now);
        self.agent_answered(id, reply);
    }

    /// The line on which the agent is told things broke.
    pub fn line_broke(&mut self, now: Duration) {
        self.run(now);
        self.agent_line_broke();
    }

    /// Whether the agent has a line on which it can be told things.
    pub fn listens(&self) -> bool {
        self.agent.as_ref().is_some_and(Agent::listens)
    }

    /// Whether the agent has asked for such a line and has not heard yet that there is one.
    pub fn connects(&self) -> bool {
        self.agent.as_ref().is_some_and(Agent::connects)
    }

    /// The agent is killed; another one is started after the pause.
    pub fn kill_agent(&mut self, now: Duration, pause: Duration) {
        self.run(now);
        self.agent = None;
        if let Some(keeper) = &mut self.keeper {
            keeper.linked = false;
        }
        self.at(now + pause, Happens::AgentStarts);
    }

    /// The keeper is killed. Its processes go on until the next one ends them.
    pub fn kill_keeper(&mut self, now: Duration) {
        self.run(now);
        self.keeper_gone();
    }

    /// The machine loses power and is started again after the pause, with the wall clock wrong by so much more.
    pub fn crash(&mut self, now: Duration, pause: Duration, clock_ms: i64) {
        self.run(now);
        self.agent = None;
        self.keeper = None;
        for process in std::mem::take(&mut self.processes) {
            self.saw(process.number, Saw::Killed);
        }
        self.saved.clear();
        self.queue.clear();
        self.lose_last_lines();
        self.boot += 1;
        self.wall_ms += clock_ms;
        self.at(now + pause, Happens::AgentStarts);
    }

    /// The wall clock of the machine is set.
    pub fn set_clock(&mut self, by_ms: i64) {
        self.wall_ms += by_ms;
    }

    /// Whether nothing runs here and nothing is left to be told.
    pub fn rests(&self) -> bool {
        self.processes.is_empty() && self.agent.as_ref().is_some_and(Agent::rests)
    }

    /// What is not as it would be at rest, for people.
    pub fn unrest(&self) -> String {
        let agent = self.agent.as_ref().map_or("no agent".to_owned(), Agent::unrest);
        format!("{}: {} processes, {agent}", self.name, self.processes.len())
    }
}
