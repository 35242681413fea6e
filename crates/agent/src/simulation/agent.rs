//! The agent of a simulated node: the real rules for jobs, with its session and its reporter played as one machine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use landfall_api::agent::{Ask, Command, ReportItem, Reports};
use landfall_api::node::{Heartbeat, NODE_TAKEN, PerformanceEstimates, Registered, Registration};
use landfall_model::JobId;
use landfall_model::life::{Fence, Report};

use super::{Happens, Node, Outgoing, Reply, Say};
use crate::backoff::Backoff;
use crate::jobs::{Action, Jobs};
use crate::keeper::wire::{Event, Hello, Request};
use crate::layout;
use crate::probe::Programs;
use crate::reporter::is_of;
use crate::runtime::Site;

/// How long the server may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// How long old reports may hold up a registration.
const REPORTS_FIRST: Duration = Duration::from_secs(3);
/// After so much silence the line is dead.
const SILENCE_MAX: Duration = Duration::from_secs(35);
const FLIGHTS_MAX: usize = 2;
/// How often checkpoints are looked at, and other things.
const LOOK_SOON: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often what ran for another journal is looked at.
const FOREIGN_LOOK: Duration = Duration::from_millis(10);

/// Where the session with the server is.
#[derive(Debug)]
enum Session {
    /// Old reports go first, until this instant.
    Settles(Duration),
    Registers,
    /// What is about another journal is ended first.
    Changes(Box<Registered>),
    Connects,
    Up,
    Waits(Duration),
}

#[derive(Debug)]
pub(super) struct Agent {
    jobs: Jobs,
    epoch: u64,
    seq: u64,
    /// The journal that is named in what is said.
    journal: Option<String>,
    session: Session,
    backoff: Backoff,
    /// What waits for an answer, and since when.
    asked: BTreeMap<u64, (Duration, Say)>,
    beat_every: Duration,
    next_beat: Duration,
    beating: Option<u64>,
    /// When the line last said something, and the server anything.
    line_heard: Duration,
    heard: Duration,
    rejoin: bool,
    /// What the registration that is under way says about the keeper.
    said_forgot: Option<u32>,
    ask: bool,
    next_look: Duration,
    keeper_backoff: Backoff,
    keeper_again: Option<Duration>,
    waiting: VecDeque<ReportItem>,
    flying: BTreeSet<JobId>,
    flights: usize,
    retry: Option<Duration>,
    report_backoff: Backoff,
    other_journal: Option<Vec<Fence>>,
}

impl Agent {
    pub(super) fn listens(&self) -> bool {
        matches!(self.session, Session::Up)
    }

    pub(super) fn connects(&self) -> bool {
        matches!(self.session, Session::Connects)
    }

    pub(super) fn rests(&self) -> bool {
        self.jobs.running().is_empty() && self.waiting.is_empty() && self.flights == 0 && self.listens()
    }

    pub(super) fn unrest(&self) -> String {
        format!("{:?}, names {:?}, {} reports wait", self.session, self.jobs.running(), self.waiting.len())
    }

    fn heartbeat(&mut self) -> Heartbeat {
        self.seq += 1;
        Heartbeat {
            epoch: self.epoch,
            seq: self.seq,
            platform: "desktop".into(),
            accepting: !self.jobs.draining,
            active_jobs: self.jobs.active(),
            running: self.jobs.running(),
            cpu_milli: 4000,
            ram_mib: 8192,
            performance_estimates: PerformanceEstimates {
                supported_runtimes: vec!["process".into()],
                ..PerformanceEstimates::default()
            },
            ..Heartbeat::default()
        }
    }
}

impl Node {
    pub(super) fn agent_starts(&mut self) {
        let path = self.layout.file("epoch");
        let last = std::fs::read_to_string(&path).ok().and_then(|text| text.parse::<u64>().ok());
        let clock = u64::try_from(self.wall_ms + self.now.as_millis() as i64).unwrap_or_default();
        let epoch = clock.max(last.unwrap_or_default() + 1);
        if layout::replace(&path, &epoch.to_string()).is_err() {
            return;
        }
        let site = Site {
            node: self.name.clone(),
            layout: self.layout.clone(),
            base_env: BTreeMap::new(),
            engine_env: BTreeMap::new(),
            gpus: Vec::new(),
            programs: Programs::default(),
            limits: true,
            helper: "landfall".into(),
        };
        #[cfg_attr(
            not(feature = "mutations"),
            expect(unused_mut, reason = "only a planted fault changes it")
        )]
        let mut jobs = Jobs::new(site, 4);
        #[cfg(feature = "mutations")]
        {
            jobs.repeats_itself = self.repeats_itself;
        }
        let backoff = Backoff::new(&self.name);
        self.agents += 1;
        self.agent = Some(Agent {
            jobs,
            epoch,
            seq: 0,
            journal: self.layout.journal(),
            session: Session::Settles(self.now + REPORTS_FIRST),
            backoff: backoff.clone(),
            asked: BTreeMap::new(),
            beat_every: LOOK_EVERY,
            next_beat: self.now,
            beating: None,
            line_heard: self.now,
            heard: self.now,
            rejoin: false,
            said_forgot: None,
            ask: false,
            next_look: self.now,
            keeper_backoff: backoff.clone(),
            keeper_again: None,
            waiting: VecDeque::new(),
            flying: BTreeSet::new(),
            flights: 0,
            retry: None,
            report_backoff: backoff,
            other_journal: None,
        });
        self.connect_keeper();
        self.poll();
    }

    pub(super) fn agent_meets_keeper(&mut self, mut hello: Hello) {
        hello.remembers |= self.layout.is_forgetting_told(&self.boot_id(), hello.pid);
        let now = self.instant();
        let Some(agent) = &mut self.agent else { return };
        let actions = agent.jobs.on_hello(hello, now);
        self.carry_out(actions);
    }

    pub(super) fn agent_lost_keeper(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        let actions = agent.jobs.on_keeper_gone();
        agent.keeper_again = Some(self.now + agent.keeper_backoff.next());
        self.carry_out(actions);
        self.poll();
    }

    pub(super) fn agent_hears(&mut self, event: Event) {
        let Some(agent) = &mut self.agent else { return };
        let actions = agent.jobs.on_event(event);
        self.carry_out(actions);
        self.poll();
    }

    pub(super) fn agent_told(&mut self, command: Command) {
        let now = self.instant();
        let Some(agent) = self.agent.as_mut().filter(|agent| agent.listens()) else { return };
        agent.line_heard = self.now;
        let actions = agent.jobs.on_command(command, now);
        self.carry_out(actions);
        self.poll();
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Keeper(request) => self.ask_keeper(request),
                Action::Report(item) | Action::Refuse { report: item, .. } => self.report(item),
                Action::End { ended, report } => {
                    if matches!(report.report, Report::Exited { code: 0, .. }) {
                        let dir = self.layout.checkpoint(ended.fence.job.as_str());
                        let _ = std::fs::remove_dir_all(dir);
                    }
                    self.report(report);
                }
                Action::PrepareCheckpoint(job) => {
                    let _ = std::fs::create_dir_all(self.layout.checkpoint(job.as_str()));
                    self.saved.remove(&job);
                }
                Action::MarkSaved(job) => drop(std::fs::write(self.layout.saved_mark(job.as_str()), "")),
                Action::Probed(good) => drop(self.say(Say::Probed(good))),
                Action::NoteForgotten(pid) => {
                    let _ = self.layout.note_forgetting_told(&self.boot_id(), pid);
                }
                Action::Ask => {
                    if let Some(agent) = &mut self.agent {
                        agent.ask = true;
                    }
                }
                Action::Track(..) | Action::Type(..) | Action::Notice(..) | Action::Fetches(_) => {}
            }
        }
    }

    fn ask_keeper(&mut self, request: Request) {
        if self.keeper.as_ref().is_some_and(|keeper| keeper.linked) {
            self.later(Happens::ToKeeper(self.keepers, request));
        }
    }

    fn report(&mut self, item: ReportItem) {
        if let Some(agent) = &mut self.agent {
            agent.waiting.push_back(item);
        }
    }

    fn say(&mut self, say: Say) -> u64 {
        self.count += 1;
        let id = self.count;
        if let Some(agent) = &mut self.agent {
            agent.asked.insert(id, (self.now, say.clone()));
            self.out.push(Outgoing { id, journal: agent.journal.clone(), say });
        }
        id
    }

    /// Everything that time brings, and then when to look again.
    pub(super) fn poll(&mut self) {
        let now = self.now;
        let Some(agent) = &mut self.agent else { return };
        let late: Vec<u64> = agent
            .asked
            .iter()
            .filter(|(_, (since, _))| *since + ANSWER_WITHIN <= now)
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            self.agent_answered(id, Reply::Broken);
        }
        let Some(agent) = &mut self.agent else { return };
        if agent.keeper_again.is_some_and(|at| at <= now) {
            agent.keeper_again = None;
            self.connect_keeper();
        }
        self.look();
        self.send_reports();
        self.move_session();
        self.ask_for_work();
        let Some(agent) = &self.agent else { return };
        let session = match &agent.session {
            Session::Settles(until) | Session::Waits(until) => Some(*until),
            Session::Up => Some(agent.next_beat.min(agent.line_heard + SILENCE_MAX)),
            Session::Changes(_) => Some(now + FOREIGN_LOOK),
            Session::Registers | Session::Connects => None,
        };
        let asked = agent.asked.values().map(|(since, _)| *since + ANSWER_WITHIN).min();
        let times = [session, asked, agent.keeper_again, agent.retry, Some(agent.next_look)];
        let next = times.into_iter().flatten().filter(|at| *at > now).min();
        if let Some(next) = next {
            self.at(next, Happens::Poll(self.agents));
        }
    }

    /// Looks whether jobs saved their work, and minds what time alone brings.
    fn look(&mut self) {
        let (now, instant) = (self.now, self.instant());
        let Some(agent) = self.agent.as_mut().filter(|agent| agent.next_look <= now) else { return };
        let saving = agent.jobs.saving();
        agent.next_look = now + if saving.is_empty() { LOOK_EVERY } else { LOOK_SOON };
        let mut actions = Vec::new();
        for job in saving.iter().filter(|job| self.saved.contains(*job)) {
            actions.extend(agent.jobs.on_saved(job));
        }
        actions.extend(agent.jobs.on_time(instant, now.saturating_sub(agent.heard)));
        let shortest = agent.jobs.shortest_silence();
        let beats = shortest.is_some_and(|silence| now.saturating_sub(agent.heard) >= silence / 4);
        if beats && agent.listens() && agent.beating.is_none() {
            agent.next_beat = now;
        }
        self.carry_out(actions);
    }

    fn send_reports(&mut self) {
        let now = self.now;
        loop {
            let Some(agent) = &mut self.agent else { return };
            if agent.flights == 0
                && let Some(adopted) = agent.other_journal.take()
            {
                agent.waiting.retain(|item| is_of(&item.fence, &adopted));
            }
            if agent.retry.is_some_and(|until| until <= now) {
                agent.retry = None;
            }
            if agent.retry.is_some() || agent.other_journal.is_some() || agent.flights >= FLIGHTS_MAX {
                return;
            }
            let (go, stay) = std::mem::take(&mut agent.waiting)
                .into_iter()
                .partition::<VecDeque<_>, _>(|item| !agent.flying.contains(&item.fence.job));
            agent.waiting = stay;
            if go.is_empty() {
                return;
            }
            agent.flying.extend(go.iter().map(|item| item.fence.job.clone()));
            agent.flights += 1;
            let ask = agent.jobs.take_ask();
            self.say(Say::Reports(Reports { reports: go.into(), ask }));
        }
    }

    fn ask_for_work(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        if !std::mem::take(&mut agent.ask) {
            return;
        }
        let slots = agent.jobs.take_ask();
        if slots > 0 {
            self.say(Say::Ask(Ask { kind: "build".into(), slots }));
        }
    }

    fn move_session(&mut self) {
        let now = self.now;
        let Some(agent) = &mut self.agent else { return };
        match &agent.session {
            Session::Settles(until) if *until <= now || (agent.waiting.is_empty() && agent.flights == 0) => {
                agent.rejoin = false;
                agent.session = Session::Registers;
                agent.said_forgot = agent.jobs.forgot;
                let registration = Registration {
                    max_concurrent: Some(4),
                    forgot: agent.jobs.forgot.is_some(),
                    heartbeat: agent.heartbeat(),
                    ..Registration::default()
                };
                self.say(Say::Register(Box::new(registration)));
            }
            Session::Waits(until) if *until <= now => agent.session = Session::Settles(now + REPORTS_FIRST),
            Session::Changes(_) if agent.other_journal.is_none() && !agent.jobs.is_foreign_left() => {
                self.changed_journal();
            }
            Session::Up => self.stay_up(),
            _ => {}
        }
    }

    fn stay_up(&mut self) {
        let now = self.now;
        let Some(agent) = &mut self.agent else { return };
        if agent.rejoin || agent.line_heard + SILENCE_MAX <= now {
            return self.session_again();
        }
        if agent.beating.is_none() && agent.next_beat <= now {
            agent.next_beat = now + agent.beat_every;
            let beat = agent.heartbeat();
            let id = self.say(Say::Heartbeat(Box::new(beat)));
            if let Some(agent) = &mut self.agent {
                agent.beating = Some(id);
            }
        }
    }

    fn session_again(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        agent.beating = None;
        agent.session = Session::Waits(self.now + agent.backoff.next());
    }

    /// The line broke.
    pub(super) fn agent_line_broke(&mut self) {
        if self.listens() {
            self.session_again();
            self.poll();
        }
    }

    fn heard(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        agent.heard = self.now;
        if agent.jobs.shortest_silence().is_some() {
            self.ask_keeper(Request::Heard);
        }
    }

    pub(super) fn agent_answered(&mut self, id: u64, reply: Reply) {
        let Some((since, say)) = self.agent.as_mut().and_then(|agent| agent.asked.remove(&id)) else {
            return;
        };
        if matches!(&reply, Reply::Refused(_, code) if code == NODE_TAKEN) {
            // It ends, and whoever looks after it starts it again.
            let now = self.now;
            return self.kill_agent(now, Duration::from_secs(2));
        }
        let asked = self.base + since;
        match (say, reply) {
            (Say::Register(_), Reply::Registered(registered)) => {
                self.heard();
                if let Some(agent) = &mut self.agent {
                    agent.jobs.server_clock.set(asked, registered.server_time_ms);
                }
                self.registered(registered);
            }
            (Say::Connect, Reply::Connected) => self.connected(),
            (Say::Register(_) | Say::Connect, _) => self.session_again(),
            (Say::Heartbeat(_), reply) => {
                if let (Some(agent), Reply::Heard(heard)) = (&mut self.agent, &reply) {
                    agent.jobs.server_clock.see(asked, heard.server_time_ms);
                }
                self.heartbeat_answered(id, &reply);
            }
            (Say::Reports(reports), reply) => self.reports_answered(reports, reply),
            (Say::Ask(ask), reply) => {
                let granted = if let Reply::Granted(granted) = reply { granted } else { 0 };
                if let Some(agent) = &mut self.agent {
                    agent.jobs.on_granted(ask.slots, granted);
                }
            }
            (Say::Probed(_), _) => {}
        }
        self.poll();
    }

    fn registered(&mut self, registered: Box<Registered>) {
        let known = self.layout.journal();
        let Some(agent) = &mut self.agent else { return };
        let said = agent.said_forgot;
        let actions = agent.jobs.on_registered(said);
        self.carry_out(actions);
        let Some(agent) = &mut self.agent else { return };
        if known.as_ref() == Some(&registered.journal) {
            return self.connect(&registered);
        }
        let actions = agent.jobs.on_other_journal(&registered.adopted);
        agent.other_journal = Some(registered.adopted.clone());
        agent.session = Session::Changes(registered);
        self.carry_out(actions);
    }

    fn changed_journal(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        let Session::Changes(registered) = std::mem::replace(&mut agent.session, Session::Registers) else {
            return;
        };
        let kept: Vec<&str> = registered.adopted.iter().map(|fence| fence.job.as_str()).collect();
        let _ = self.layout.put_checkpoints_away(&kept);
        let _ = self.layout.set_journal(&registered.journal);
        agent.journal = Some(registered.journal.clone());
        agent.rejoin = false;
        self.connect(&registered);
    }

    fn connect(&mut self, registered: &Registered) {
        let Some(agent) = &mut self.agent else { return };
        agent.jobs.pull = registered.dispatch == "pull";
        agent.beat_every = Duration::from_millis(registered.heartbeat_interval_ms.clamp(100, 600_000));
        agent.session = Session::Connects;
        self.say(Say::Connect);
    }

    fn connected(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        if matches!(agent.session, Session::Connects) {
            agent.session = Session::Up;
            agent.line_heard = self.now;
            agent.next_beat = self.now + agent.beat_every;
            agent.ask = true;
        }
    }

    fn heartbeat_answered(&mut self, id: u64, reply: &Reply) {
        let Some(agent) = &mut self.agent else { return };
        if agent.beating != Some(id) {
            return;
        }
        agent.beating = None;
        match reply {
            Reply::Heard(heard) if heard.status == "rejoin" => {
                self.heard();
                self.session_again();
            }
            Reply::Heard(_) => {
                agent.jobs.forget_expected();
                agent.ask = true;
                self.heard();
            }
            _ => self.session_again(),
        }
    }

    fn reports_answered(&mut self, reports: Reports, reply: Reply) {
        let now = self.now;
        let Some(agent) = &mut self.agent else { return };
        agent.flights -= 1;
        for item in &reports.reports {
            agent.flying.remove(&item.fence.job);
        }
        let granted = if let Reply::Stored(answers) = &reply { answers.granted } else { 0 };
        agent.jobs.on_granted(reports.ask, granted);
        match reply {
            Reply::Stored(_) => {
                agent.report_backoff.reset();
                let actions = agent.jobs.on_stored(&reports.reports);
                self.heard();
                self.carry_out(actions);
            }
            reply => {
                if matches!(reply, Reply::Refused(404 | 409 | 410 | 412, _)) {
                    agent.rejoin = true;
                }
                agent.retry = Some(now + agent.report_backoff.next());
                reports.reports.into_iter().rev().for_each(|item| agent.waiting.push_front(item));
            }
        }
    }
}
