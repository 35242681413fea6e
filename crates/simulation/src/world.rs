//! The world: what happens when, the network between server and nodes, clients, and the trouble of the plan.
//!
//! One queue of events in virtual time; nothing else moves. Requests and answers take a drawn time and may be lost; a request that
//! was given up may still arrive. Commands come on a line that keeps their order and breaks as a whole, unless the plan wants
//! disorder.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use landfall_agent::simulation::{Node, Outgoing, Reply, Say};
use landfall_api::agent::{Asked, Command, ReportAnswers};
use landfall_api::job::{JobRequest, Submitted};
use landfall_api::node::{Heard, Registered};
use landfall_engine::{Answer, Event as Journalled, Input};
use landfall_model::{Checkpoint, JobId, MilliCpu, Millis, NodeId, OnDisconnect};
use landfall_server::driver::nodes::Registering;
use landfall_server::driver::simulation::Pending;
use landfall_server::driver::{Caller, Failure, JobFilter};
use landfall_testkit::Rng;
use tokio::sync::mpsc;

use crate::disk;
use crate::history::History;
use crate::plan::{Plan, TROUBLE_MS, Trouble};
use crate::server::{BEGIN_MS, Server, TENANTS};

/// A client asks again after so long.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often clients look at their jobs.
const LOOK_EVERY: Duration = Duration::from_secs(7);
/// The server says on every line that it is there.
const PING_EVERY: Duration = Duration::from_secs(10);
/// A world has to be at rest so long after its trouble.
const REST_WITHIN: Duration = Duration::from_secs(900);
/// At rest nothing but heartbeats is said for so long.
const QUIET: Duration = Duration::from_secs(60);
/// Nobody may say more than this in a world, or two go round and round.
const MESSAGES_MAX: u64 = 20_000;
/// Nobody waits for a broken connection longer than this to hear of it.
const BREAKS_WITHIN_MS: u64 = 3000;

enum Event {
    Submit(usize),
    /// An answer to the client of a job.
    Submitted(usize, Result<String, bool>, usize),
    GiveUp(usize, u32),
    Look(usize),
    Order(usize, Order),
    ToServer(usize, Box<Outgoing>),
    ToNode(usize, u64, Reply),
    Command(usize, u64, Command),
    LineBreaks(usize, u64),
    ServerStarts,
    Round(u64),
    Ping(u64),
    Trouble(usize),
    DiskHeals,
    SlowEnds,
    RoomAgain,
}

#[derive(Clone, Copy)]
enum Order {
    Cancel,
    Suspend,
    Resume,
}

/// What the server owes.
enum Owed {
    Submitted(usize, Pending<(Vec<Submitted>, bool)>),
    Probed(usize, u64, Pending<Vec<Answer>>),
    Registered(usize, u64, Pending<Registered>),
    Heard(usize, u64, Pending<Heard>),
    Stored(usize, u64, Pending<ReportAnswers>),
    Granted(usize, u64, Pending<Asked>),
}

/// A line on which a node is told things.
struct Line {
    number: u64,
    life: u64,
    commands: mpsc::Receiver<Command>,
    /// When the last command arrives that was sent on it.
    last: Duration,
}

/// A job as its client knows it.
#[derive(Default)]
struct Client {
    tries: u32,
    /// Its id, and the journal under which it was told.
    id: Option<(String, usize)>,
    given_up: bool,
}

pub(crate) struct World<'a> {
    plan: &'a Plan,
    random: Rng,
    now: Duration,
    queue: BTreeMap<(Duration, u64), Event>,
    count: u64,
    nodes: Vec<Node>,
    lines: Vec<Option<Line>>,
    /// Until when a node cannot be reached.
    apart: Vec<Duration>,
    clients: Vec<Client>,
    server: Server,
    owed: Vec<Owed>,
    backup: Option<(usize, Duration)>,
    /// Commands and reports that were said.
    messages: u64,
    pub(crate) history: History,
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl<'a> World<'a> {
    pub(crate) fn new(plan: &'a Plan, root: &Path) -> Option<Self> {
        let mut random = Rng::new(plan.seed ^ 0xa17e);
        let mut nodes = Vec::new();
        for number in 0..plan.nodes {
            let mut draws = Rng::new(random.word());
            let draw = Box::new(move |bound| draws.below(bound));
            let name = format!("n{number}");
            let mut node = Node::new(&name, root.join(&name), BEGIN_MS, draw).ok()?;
            node.slowness_ms = plan.slowness_ms;
            node.repeats_itself = crate::mutation::repeats_itself();
            nodes.push(node);
        }
        let mut world = Self {
            plan,
            random,
            now: Duration::ZERO,
            queue: BTreeMap::new(),
            count: 0,
            lines: nodes.iter().map(|_| None).collect(),
            apart: vec![Duration::ZERO; nodes.len()],
            nodes,
            clients: plan.jobs.iter().map(|_| Client::default()).collect(),
            server: Server::new(plan, root)?,
            owed: Vec::new(),
            backup: None,
            messages: 0,
            history: History::default(),
        };
        world.at(Duration::ZERO, Event::ServerStarts);
        for (number, job) in plan.jobs.iter().enumerate() {
            world.at(job.at, Event::Submit(number));
        }
        for (number, (at, _)) in plan.troubles.iter().enumerate() {
            world.at(*at, Event::Trouble(number));
        }
        Some(world)
    }

    fn at(&mut self, at: Duration, event: Event) {
        self.count += 1;
        self.queue.insert((at.max(self.now), self.count), event);
    }

    fn soon(&mut self, event: Event) {
        let delay = self.delay();
        self.at(self.now + delay, event);
    }

    fn delay(&mut self) -> Duration {
        Duration::from_micros(self.random.within(50, self.plan.delay_ms * 1000 + 50))
    }

    fn is_lost(&mut self) -> bool {
        self.random.below(1000) < self.plan.lost_permille
    }

    /// Lets everything happen up to an instant.
    fn run_until(&mut self, until: Duration) {
        while self.history.wrong.is_none() {
            let next = self.queue.keys().next().map(|(at, _)| *at);
            let node = self.nodes.iter().enumerate().filter_map(|(n, node)| Some((node.next()?, n))).min();
            let at = [next, node.map(|(at, _)| at)].into_iter().flatten().min();
            let Some(at) = at.filter(|at| *at <= until) else { break };
            self.now = self.now.max(at);
            self.server.set_now(self.now);
            match node {
                Some((due, n)) if next.is_none_or(|next| due <= next) => {
                    self.nodes[n].run(self.now);
                    self.after_node(n);
                }
                _ => {
                    if let Some((_, event)) = self.queue.pop_first() {
                        self.happen(event);
                    }
                }
            }
            if self.messages > MESSAGES_MAX {
                self.history.fail(format!("{} messages were said, and no end", self.messages));
            }
        }
        self.now = self.now.max(until);
    }

    /// The whole story; what must not be is in the history.
    pub(crate) fn run(&mut self) {
        self.run_until(millis(TROUBLE_MS));
        self.heal();
        let until = self.now + REST_WITHIN;
        while self.history.wrong.is_none() && !self.rests() && self.now < until {
            self.run_until(self.now + Duration::from_secs(5));
        }
        if !self.rests() {
            let unrest: Vec<String> = self.nodes.iter().map(Node::unrest).collect();
            let open: Vec<String> = self.open_jobs();
            self.history.fail(format!("it does not come to rest: {unrest:?}, {open:?}"));
        }
        // What was under way when it came to rest arrives.
        self.run_until(self.now + QUIET);
        let before = self.messages;
        self.run_until(self.now + QUIET);
        if self.history.wrong.is_none() && self.messages > before {
            let more = self.messages - before;
            self.history.fail(format!("{more} messages were said when all was at rest"));
        }
        self.check();
    }

    /// All trouble ends.
    fn heal(&mut self) {
        self.queue.retain(|_, event| !matches!(event, Event::Trouble(_)));
        self.apart.fill(Duration::ZERO);
        {
            let mut trouble = disk::lock(&self.server.trouble);
            (trouble.cut_after, trouble.fails, trouble.full) = (None, None, false);
        }
        self.server.slow = false;
        self.happen(Event::RoomAgain);
    }

    fn view(&mut self, id: &str) -> Option<landfall_api::job::JobView> {
        let id = JobId::new(id).ok()?;
        let service = self.server.service.as_mut()?;
        match service.read(|view| view.job(&id)) {
            Ok(view) => view,
            Err(failure) => {
                self.history.fail(format!("job {id} cannot be read: {failure}"));
                None
            }
        }
    }

    fn open_jobs(&mut self) -> Vec<String> {
        let mut open = Vec::new();
        for (job, id) in self.history.standing() {
            let view = self.view(&id);
            let state = view.as_ref().map_or("gone", |view| view.state.as_str());
            if !matches!(state, "completed" | "failed" | "cancelled") {
                let why = view.as_ref().and_then(|view| view.why.clone());
                open.push(format!("t{job} = {id}: {state} {why:?}"));
            }
        }
        open
    }

    fn rests(&mut self) -> bool {
        let answered = self.clients.iter().all(|client| client.id.is_some() || client.given_up);
        self.server.service.is_some()
            && answered
            && self.nodes.iter().all(Node::rests)
            && self.open_jobs().is_empty()
    }

    fn check(&mut self) {
        if self.history.wrong.is_some() {
            return;
        }
        let ids: Vec<String> = self.history.standing().into_values().collect();
        let views = ids.into_iter().map(|id| (id.clone(), self.view(&id))).collect();
        self.check_lists();
        let mut all = Vec::new();
        for tenant in TENANTS {
            let filter = JobFilter { tenant: Some(tenant.into()), limit: 1000, ..JobFilter::default() };
            let Some(service) = &mut self.server.service else { return };
            let Ok(page) = service.read(|view| view.jobs(&filter)) else {
                return self.history.fail("jobs cannot be listed");
            };
            if let Some(other) = page.items.iter().find(|job| job.tenant.as_deref() != Some(tenant)) {
                self.history.fail(format!("tenant {tenant} sees job {} of {:?}", other.id, other.tenant));
            }
            all.extend(page.items);
        }
        let plan = self.plan;
        self.history.check(plan, &views, &all);
    }

    fn check_lists(&mut self) {
        if self.server.service.as_mut().is_some_and(|service| !service.lists_rightly()) {
            self.history.fail("lists are made of rows that are not those of the jobs there are");
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Submit(job) => self.submit(job),
            Event::Submitted(job, answer, journal) => self.submitted(job, answer, journal),
            Event::GiveUp(job, tries) => {
                let client = &mut self.clients[job];
                if client.id.is_none() && client.tries == tries && !client.given_up {
                    client.given_up = !self.plan.jobs[job].keyed;
                    self.soon(Event::Submit(job));
                }
            }
            Event::Look(job) => {
                self.check_lists();
                self.look(job);
            }
            Event::Order(job, order) => self.order(job, order),
            Event::ToServer(node, outgoing) => self.server_hears(node, *outgoing),
            Event::ToNode(node, id, mut reply) => {
                if matches!(reply, Reply::Connected) && self.lines[node].is_none() {
                    reply = Reply::Broken;
                }
                self.nodes[node].answer(self.now, id, reply);
                self.after_node(node);
            }
            Event::Command(node, line, command) => self.node_hears(node, line, command),
            Event::LineBreaks(node, line) => {
                if self.lines[node].as_ref().is_some_and(|known| known.number == line) {
                    self.lines[node] = None;
                    self.nodes[node].line_broke(self.now);
                    self.after_node(node);
                }
            }
            Event::ServerStarts => self.start_server(),
            Event::Round(life) if life == self.server.life => self.round(),
            Event::Ping(life) if life == self.server.life && self.server.service.is_some() => self.ping(),
            Event::Round(_) | Event::Ping(_) => {}
            Event::Trouble(number) => self.trouble(self.plan.troubles[number].1.clone()),
            Event::DiskHeals => {
                let mut trouble = disk::lock(&self.server.trouble);
                (trouble.fails, trouble.full) = (None, false);
            }
            Event::SlowEnds => self.server.slow = false,
            Event::RoomAgain => {
                self.server.little_room(false);
                if self.server.service.is_some() {
                    self.kill_server(millis(10));
                }
            }
        }
    }

    fn trouble(&mut self, trouble: Trouble) {
        self.history.tell(self.now, || format!("trouble: {trouble:?}"));
        match trouble {
            Trouble::KillServer { away } => self.kill_server(away),
            Trouble::CloseServer { away } => {
                if self.server.service.is_some() {
                    self.server.close();
                    self.server_ended(away, true);
                }
            }
            Trouble::CutPower { writes, away: _ } => {
                disk::lock(&self.server.trouble).cut_after = Some(writes);
            }
            Trouble::DiskFails { lasts, stored } => {
                disk::lock(&self.server.trouble).fails = Some(stored);
                self.at(self.now + lasts, Event::DiskHeals);
            }
            Trouble::DiskFull { lasts } => {
                disk::lock(&self.server.trouble).full = true;
                self.at(self.now + lasts, Event::DiskHeals);
            }
            Trouble::LittleRoom { lasts } => {
                self.server.little_room(true);
                self.kill_server(millis(10));
                self.at(self.now + lasts, Event::RoomAgain);
            }
            Trouble::SlowDisk { lasts } => {
                self.server.slow = true;
                self.at(self.now + lasts, Event::SlowEnds);
            }
            Trouble::FlipBit => {
                if self.server.service.is_some() {
                    self.server.close();
                    if let Err(wrong) = self.server.flip_bit() {
                        self.history.fail(wrong);
                    }
                    self.server_ended(millis(100), true);
                }
            }
            Trouble::SetClock { by_ms } => self.server.set_clock(by_ms),
            Trouble::Backup => {
                if self.server.service.is_some() && self.server.back_up() {
                    let journal = self.history.journal(&self.server.journal, None);
                    self.backup = Some((journal, self.now));
                }
            }
            Trouble::Restore { away } => {
                if self.server.service.is_some() && self.server.has_backup() {
                    self.kill_server(away);
                    if let Err(error) = self.server.restore() {
                        self.history.fail(format!("a backup cannot be restored: {error}"));
                    }
                }
            }
            Trouble::KillAgent { node, pause } => {
                self.nodes[node].kill_agent(self.now, pause);
                self.after_node(node);
            }
            Trouble::KillKeeper { node } => {
                self.nodes[node].kill_keeper(self.now);
                self.after_node(node);
            }
            Trouble::Crash { node, pause, clock_ms } => {
                self.nodes[node].crash(self.now, pause, clock_ms);
                self.after_node(node);
            }
            Trouble::Partition { node, lasts } => {
                self.apart[node] = self.apart[node].max(self.now + lasts);
            }
            Trouble::Reset { node } => self.break_line(node),
        }
    }
}

mod clients;
mod network;
