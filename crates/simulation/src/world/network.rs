//! The server's life, and what goes between it and the nodes.

use super::*;

fn refused<T>(reply: impl FnOnce(T) -> Reply, answer: Result<T, Failure>) -> Reply {
    match answer {
        Ok(answer) => reply(answer),
        Err(Failure::Refused(status, error)) => Reply::Refused(status, error.code),
        Err(failure) => Reply::Refused(503, failure.to_string()),
    }
}

impl World<'_> {
    pub(super) fn start_server(&mut self) {
        if self.server.service.is_some() {
            return;
        }
        match self.server.start() {
            Ok(()) => {
                self.history.tell(self.now, || "the server starts".to_owned());
                let (journal, backup) = (self.server.journal.clone(), self.backup);
                self.history.journal(&journal, backup);
                self.server.busy_until = self.now;
                let life = self.server.life;
                self.at(self.now, Event::Round(life));
                self.at(self.now + PING_EVERY, Event::Ping(life));
            }
            Err(error) => {
                // While the disk fails nobody can start.
                let fails = {
                    let trouble = disk::lock(&self.server.trouble);
                    trouble.full || trouble.fails.is_some() || trouble.cut.is_some()
                };
                let cut = self.server.was_cut(self.now);
                if fails || cut || error.contains("no room") {
                    self.at(self.now + millis(1000), Event::ServerStarts);
                } else {
                    self.history.fail(format!("the server does not start: {error}"));
                }
            }
        }
    }

    pub(super) fn kill_server(&mut self, away: Duration) {
        if self.server.service.is_some() {
            self.server.kill();
            self.server_ended(away, true);
        }
    }

    /// All lines break, and what was owed is never said. Of a process that ended its machine tells; of a machine without power
    /// nobody does, so whoever asked it something waits in vain.
    pub(super) fn server_ended(&mut self, away: Duration, told: bool) {
        for owed in std::mem::take(&mut self.owed) {
            let (node, id) = match owed {
                Owed::Submitted(..) => continue,
                Owed::Probed(node, id, _) => (node, id),
                Owed::Registered(node, id, _) => (node, id),
                Owed::Heard(node, id, _) => (node, id),
                Owed::Stored(node, id, _) => (node, id),
                Owed::Granted(node, id, _) => (node, id),
            };
            if told && self.apart[node] <= self.now {
                self.soon(Event::ToNode(node, id, Reply::Broken));
            }
        }
        for node in 0..self.nodes.len() {
            self.break_line(node);
        }
        self.at(self.now + away, Event::ServerStarts);
    }

    /// The node hears that its line broke, if it can be reached; otherwise it finds out by itself.
    pub(super) fn break_line(&mut self, node: usize) {
        let Some(line) = &self.lines[node] else { return };
        let number = line.number;
        if self.apart[node] <= self.now {
            self.soon(Event::LineBreaks(node, number));
        }
    }

    pub(super) fn wake_server(&mut self) {
        let (at, life) = (self.server.busy_until.max(self.now), self.server.life);
        self.at(at, Event::Round(life));
    }

    pub(super) fn round(&mut self) {
        if self.now < self.server.busy_until {
            return;
        }
        let Some(service) = &mut self.server.service else { return };
        let happened = service.round();
        let takes = self.server.commit_takes();
        self.server.busy_until = self.now + takes;
        let journal = self.history.journal(&self.server.journal, None);
        match happened {
            Ok(happened) => {
                for it in &happened {
                    let (now, event) = (self.now, &it.event);
                    self.history.tell(now, || format!("server: {event:?}"));
                    if let Journalled::Ended { job, .. } = &it.event {
                        self.history.ended(journal, job);
                    }
                }
            }
            Err(error) => self.history.fail(format!("nobody else writes, and yet: {error}")),
        }
        self.answer_all();
        self.send_commands(journal);
        if self.server.was_cut(self.now) {
            return self.server_ended(millis(500), false);
        }
        let Some(service) = &self.server.service else { return };
        let nap = service.nap().max(millis(1));
        let at = self.server.busy_until + nap;
        self.at(at, Event::Round(self.server.life));
    }

    fn answer_all(&mut self) {
        let dead = disk::lock(&self.server.trouble).cut.is_some();
        for owed in std::mem::take(&mut self.owed) {
            match owed {
                Owed::Submitted(job, mut pending) => {
                    let answer = pending.take().filter(|answer| !dead || answer.is_ok());
                    self.answer_client(job, answer);
                }
                Owed::Probed(node, id, mut pending) => {
                    self.reply(node, id, dead, pending.take(), |_| Reply::Done);
                }
                Owed::Registered(node, id, mut pending) => {
                    self.reply(node, id, dead, pending.take(), |it| Reply::Registered(Box::new(it)));
                }
                Owed::Heard(node, id, mut pending) => {
                    self.reply(node, id, dead, pending.take(), Reply::Heard);
                }
                Owed::Stored(node, id, mut pending) => {
                    self.reply(node, id, dead, pending.take(), Reply::Stored);
                }
                Owed::Granted(node, id, mut pending) => {
                    self.reply(node, id, dead, pending.take(), |it| Reply::Granted(it.granted.len() as u32));
                }
            }
        }
    }

    fn reply<T>(
        &mut self,
        node: usize,
        id: u64,
        dead: bool,
        answer: Option<Result<T, Failure>>,
        reply: impl FnOnce(T) -> Reply,
    ) {
        let Some(answer) = answer.filter(|answer| !dead || answer.is_ok()) else { return };
        let reply = refused(reply, answer);
        self.answer_node(node, id, reply);
    }

    fn answer_node(&mut self, node: usize, id: u64, reply: Reply) {
        let sent = self.server.busy_until.max(self.now) + self.delay();
        if self.is_lost() || self.apart[node] > sent {
            let breaks = millis(self.random.below(BREAKS_WITHIN_MS));
            return self.at(sent.max(self.apart[node]) + breaks, Event::ToNode(node, id, Reply::Broken));
        }
        self.at(sent, Event::ToNode(node, id, reply));
    }

    /// Takes along what the commands were that the last round sent.
    fn send_commands(&mut self, journal: usize) {
        for node in 0..self.nodes.len() {
            let mut commands = Vec::new();
            let Some(line) = &mut self.lines[node] else { continue };
            while let Ok(command) = line.commands.try_recv() {
                commands.push(command);
            }
            for command in commands {
                if let Command::Start(start) = &command {
                    self.history.told_to_start(journal, &start.fence, self.now);
                }
                self.messages += u64::from(!matches!(command, Command::Ping | Command::Work));
                self.send_command(node, command);
            }
        }
    }

    fn send_command(&mut self, node: usize, command: Command) {
        let (now, delay) = (self.server.busy_until.max(self.now), self.delay());
        let twice = self.plan.disorder && self.random.chance(5);
        let (disorder, apart) = (self.plan.disorder, self.apart[node]);
        let late = if disorder { millis(self.random.below(2000)) } else { Duration::ZERO };
        let Some(line) = &mut self.lines[node] else { return };
        let mut at = (now + delay + late).max(apart);
        if !disorder {
            at = at.max(line.last);
            line.last = at;
        }
        let number = line.number;
        if twice {
            self.at(at + delay * 3, Event::Command(node, number, command.clone()));
        }
        self.at(at, Event::Command(node, number, command));
    }

    pub(super) fn ping(&mut self) {
        for node in 0..self.nodes.len() {
            if self.lines[node].as_ref().is_some_and(|line| line.life == self.server.life) {
                self.send_command(node, Command::Ping);
            }
        }
        let life = self.server.life;
        self.at(self.now + PING_EVERY, Event::Ping(life));
    }

    pub(super) fn node_hears(&mut self, node: usize, line: u64, command: Command) {
        if self.lines[node].as_ref().is_some_and(|known| known.number == line) {
            if !matches!(command, Command::Ping | Command::Work) {
                self.history.tell(self.now, || format!("n{node} hears {command:?}"));
            }
            self.nodes[node].command(self.now, command);
            self.after_node(node);
        }
    }

    /// Takes along what a node said and saw.
    pub(super) fn after_node(&mut self, node: usize) {
        for seen in std::mem::take(&mut self.nodes[node].seen) {
            self.history.saw(node, seen);
        }
        for outgoing in std::mem::take(&mut self.nodes[node].out) {
            let delay = self.delay();
            let mut at = self.now + delay;
            let apart = self.apart[node] > self.now;
            // What was said while nobody could hear it may still arrive, long after its sender gave it up.
            if self.is_lost() || (apart && self.random.chance(50)) {
                let breaks = self.apart[node].max(self.now) + millis(self.random.below(BREAKS_WITHIN_MS));
                self.at(breaks, Event::ToNode(node, outgoing.id, Reply::Broken));
                continue;
            }
            if apart {
                at = self.apart[node] + delay;
            }
            self.at(at, Event::ToServer(node, Box::new(outgoing)));
        }
        // A line that its node no longer listens on ends, sooner or later.
        if !self.nodes[node].listens()
            && !self.nodes[node].connects()
            && let Some(line) = &self.lines[node]
            && line.last < self.now
        {
            let number = line.number;
            self.soon(Event::LineBreaks(node, number));
        }
    }

    pub(super) fn server_hears(&mut self, node: usize, outgoing: Outgoing) {
        let Outgoing { id, journal, say } = outgoing;
        if !matches!(say, Say::Heartbeat(_)) {
            self.history.tell(self.now, || format!("server hears n{node}: {say:?}"));
        }
        let Ok(name) = NodeId::new(self.nodes[node].name()) else { return };
        let Some(service) = &mut self.server.service else {
            return self.soon(Event::ToNode(node, id, Reply::Broken));
        };
        if !matches!(say, Say::Register(_))
            && let Some(error) = service.other_journal(journal.as_deref())
        {
            return self.answer_node(node, id, Reply::Refused(409, error.code));
        }
        let owed = match say {
            Say::Register(registration) => {
                let most = Default::default();
                let registering = Registering { node: name, registration: *registration, journal, most };
                Owed::Registered(node, id, service.register(registering))
            }
            Say::Connect => {
                let commands = service.connect(name);
                self.count += 1;
                let line = Line { number: self.count, life: self.server.life, commands, last: self.now };
                self.lines[node] = Some(line);
                return self.answer_node(node, id, Reply::Connected);
            }
            Say::Heartbeat(beat) => Owed::Heard(node, id, service.heartbeat(name, *beat)),
            Say::Reports(reports) => {
                self.messages += reports.reports.len() as u64;
                Owed::Stored(node, id, service.reports(name, reports))
            }
            Say::Ask(ask) => Owed::Granted(node, id, service.ask_for_work(name, ask)),
            Say::Probed(good) => Owed::Probed(node, id, service.apply(Input::Probe { node: name, good })),
        };
        self.owed.push(owed);
        self.wake_server();
    }
}
