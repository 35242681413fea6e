//! What goes wrong in a storm: kinds of faults, how each is done and undone, and what is remembered of it.

use std::time::{Duration, Instant};

use landfall_testkit::Rng;

use crate::clock;
use crate::stand::Said;

use super::line::Weather;
use super::load::Book;
use super::world::{World, now};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    ServerKilled,
    ServerStopped,
    AgentKilled,
    AgentStopped,
    KeeperKilled,
    KeeperStopped,
    NodeLost,
    LineCut,
    LineSilent,
    LineSlow,
    DiskFull,
    ClockJumped,
    SecondServer,
    Restored,
}

impl Kind {
    /// Each with the share it has among draws, and what it is called.
    pub(super) const ALL: [(Self, usize, &'static str); 14] = [
        (Self::ServerKilled, 3, "server killed"),
        (Self::ServerStopped, 2, "server stopped and continued"),
        (Self::AgentKilled, 3, "agent killed"),
        (Self::AgentStopped, 2, "agent stopped and continued"),
        (Self::KeeperKilled, 3, "keeper killed"),
        (Self::KeeperStopped, 2, "keeper stopped and continued"),
        (Self::NodeLost, 1, "agent, keeper and jobs killed at once"),
        (Self::LineCut, 2, "line between agent and server cut"),
        (Self::LineSilent, 2, "line silent, then everything arrives or breaks"),
        (Self::LineSlow, 2, "line slow"),
        (Self::DiskFull, 2, "disk of the server full"),
        (Self::ClockJumped, 3, "clock of the server jumped"),
        (Self::SecondServer, 2, "lock file removed, second server started"),
        (Self::Restored, 1, "server restored from a backup"),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, ..)| *kind == self).unwrap().2
    }

    /// Whether it is about one node.
    pub(super) fn has_node(self) -> bool {
        use Kind::*;
        matches!(
            self,
            AgentKilled
                | AgentStopped
                | KeeperKilled
                | KeeperStopped
                | NodeLost
                | LineCut
                | LineSilent
                | LineSlow
        )
    }

    /// What must be well for it: two faults of the same part at once would be one.
    fn parts(self) -> &'static [Part] {
        use Kind::*;
        match self {
            ServerKilled | ServerStopped => &[Part::Server],
            AgentKilled | AgentStopped => &[Part::Agent],
            KeeperKilled | KeeperStopped => &[Part::Keeper],
            NodeLost => &[Part::Agent, Part::Keeper],
            LineCut | LineSilent | LineSlow => &[Part::Line],
            DiskFull => &[Part::Disk],
            ClockJumped => &[Part::Clock],
            // A server that is stopped holds its locks; one that is gone does not.
            SecondServer => &[],
            Restored => &[Part::Server, Part::Disk],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Server,
    Agent,
    Keeper,
    Line,
    Disk,
    Clock,
}

#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    /// The place of the node, for kinds that have one.
    place: usize,
    lasts: Duration,
    /// A further draw, for what differs within a kind.
    draw: u64,
}

impl Fault {
    fn draw(random: &mut Rng, nodes: usize) -> Self {
        use Kind::*;
        let kinds: Vec<Kind> =
            Kind::ALL.iter().flat_map(|(kind, share, _)| std::iter::repeat_n(*kind, *share)).collect();
        let kind = random.choose(&kinds);
        let longer_than_time_outs = match kind {
            ServerKilled | AgentKilled => random.chance(20),
            ServerStopped | AgentStopped | KeeperStopped | LineCut | LineSilent => random.chance(60),
            _ => false,
        };
        let lasts = match kind {
            KeeperKilled | SecondServer | Restored => 0,
            LineSlow => random.within(2000, 6000),
            _ if longer_than_time_outs => random.within(12_000, 15_000),
            _ => random.within(100, 3000),
        };
        let (place, draw) = (random.index(nodes), random.word());
        Self { kind, place, lasts: Duration::from_millis(lasts), draw }
    }

    fn clashes(&self, other: &Self) -> bool {
        let same_place = !self.kind.has_node() || self.place == other.place;
        same_place && self.kind.parts().iter().any(|part| other.kind.parts().contains(part))
    }
}

/// What happened, for the checker.
#[derive(Debug, Clone)]
pub(super) struct Happened {
    pub(super) kind: Kind,
    pub(super) node: Option<&'static str>,
    pub(super) from: f64,
    pub(super) to: f64,
}

/// Draws faults and does them, several at once at times, until there were so many.
pub(super) struct Storm<'a> {
    pub(super) world: &'a mut World,
    pub(super) book: &'a Book,
    pub(super) random: Rng,
    pub(super) happened: Vec<Happened>,
    /// Those that are not undone: with their place in `happened` and when they are due.
    pub(super) lasting: Vec<(Fault, usize, Instant)>,
}

impl Storm<'_> {
    /// A fault that can be done now, if one is found.
    fn draw(&mut self) -> Option<Fault> {
        let fault = Fault::draw(&mut self.random, self.world.nodes.len());
        let possible = match fault.kind {
            Kind::DiskFull => self.world.disk.is_some(),
            Kind::ClockJumped => self.world.has_clock,
            Kind::SecondServer | Kind::Restored => self.is_up(),
            _ => true,
        };
        let clash = self.lasting.iter().any(|(other, ..)| fault.clashes(other));
        (possible && !clash && self.lasting.len() < 4).then_some(fault)
    }

    fn is_up(&self) -> bool {
        !self.world.server.is_down
            && std::net::TcpStream::connect(self.world.url.trim_start_matches("http://")).is_ok()
    }

    pub(super) fn one_more(&mut self) {
        let Some(fault) = self.draw() else { return };
        let node = fault.kind.has_node().then(|| self.world.nodes[fault.place].name);
        let from = now();
        if !self.inflict(&fault) {
            return;
        }
        let count = self.happened.len() + 1;
        let (kind, node_name) = (fault.kind.name(), node.unwrap_or_default());
        println!("{count:>4} {from:.3} {kind} {node_name} for {:?}", fault.lasts);
        self.happened.push(Happened { kind: fault.kind, node, from, to: now() });
        if fault.lasts > Duration::ZERO {
            let due = Instant::now() + fault.lasts;
            self.lasting.push((fault, self.happened.len() - 1, due));
        }
    }

    /// Undoes what is due, or everything.
    pub(super) fn heal(&mut self, everything: bool) {
        let (due, rest) = self.lasting.drain(..).partition(|(.., due)| everything || *due <= Instant::now());
        self.lasting = rest;
        let due: Vec<(Fault, usize, Instant)> = due;
        for (fault, place, _) in due {
            self.undo(&fault);
            self.happened[place].to = now();
        }
    }

    /// Does it; tells whether it could be done.
    fn inflict(&mut self, fault: &Fault) -> bool {
        let world = &mut *self.world;
        let node = &mut world.nodes[fault.place];
        match fault.kind {
            Kind::ServerKilled => world.server.kill(),
            Kind::ServerStopped => world.server.signal("STOP"),
            Kind::AgentKilled => node.agent.kill(),
            Kind::AgentStopped => node.agent.signal("STOP"),
            Kind::KeeperKilled => return world.kill_keeper(fault.place),
            Kind::KeeperStopped => return world.signal_keeper(fault.place, "STOP"),
            Kind::NodeLost => world.lose_node(fault.place),
            Kind::LineCut => node.line.set(Weather::Cut),
            Kind::LineSilent => node.line.set(Weather::Silent),
            Kind::LineSlow => node.line.set(Weather::Slow(Duration::from_millis(50 + fault.draw % 300))),
            Kind::DiskFull => {
                // As much as there is.
                let _ = std::fs::write(world.stand.path("disk").join("ballast"), vec![1; 192 << 20]);
            }
            Kind::ClockJumped => {
                let ahead = [60, 3600, 86_400, 40 * 86_400][fault.draw as usize % 4];
                clock::set(&world.clock(), if fault.draw & 64 == 0 { ahead } else { -ahead });
            }
            Kind::SecondServer => self.second_server(),
            Kind::Restored => return self.restore(fault.draw),
        }
        true
    }

    fn undo(&mut self, fault: &Fault) {
        let world = &mut *self.world;
        let node = &mut world.nodes[fault.place];
        match fault.kind {
            Kind::ServerKilled => world.server.is_down = false,
            Kind::ServerStopped => world.server.signal("CONT"),
            Kind::AgentKilled | Kind::NodeLost => node.agent.is_down = false,
            Kind::AgentStopped => node.agent.signal("CONT"),
            Kind::KeeperStopped => {
                // Its agent may have come back to none, and then nobody is stopped.
                world.signal_keeper(fault.place, "CONT");
            }
            Kind::LineCut | Kind::LineSlow => node.line.mend(false),
            Kind::LineSilent => node.line.mend(fault.draw & 1 == 0),
            Kind::DiskFull => std::fs::remove_file(world.stand.path("disk").join("ballast")).unwrap(),
            Kind::ClockJumped => clock::set(&world.clock(), 0),
            Kind::KeeperKilled | Kind::SecondServer | Kind::Restored => {}
        }
    }

    /// A second server on the same directory is refused, with and without the lock file.
    fn second_server(&mut self) {
        let _ = std::fs::remove_file(self.world.data().join("lock"));
        let mut command = self.world.binary();
        command.args(["server", "--listen", "127.0.0.1:0"]);
        let mut second = self.world.stand.start("second", command, &[]);
        let began = Instant::now();
        loop {
            match second.ended() {
                Some(7) => return,
                Some(code) => return self.book.is_wrong(format!("a second server ended with {code}")),
                None if began.elapsed() > Duration::from_secs(30) => {
                    return self.book.is_wrong("a second server runs on the same journal".to_owned());
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Makes a backup, lets the load go on, and lets another server go on from the backup. Tells whether it could be done.
    fn restore(&mut self, draw: u64) -> bool {
        let (from, data) = (now(), self.world.data());
        let backup = self.world.stand.path(&format!("backup-{}.db", self.happened.len()));
        let backup = backup.to_str().unwrap();
        let Said { code, .. } = self.world.command(&["backup", "--to", backup, "--logs"]);
        if code != 0 {
            return false;
        }
        std::thread::sleep(Duration::from_millis(draw % 2000));
        self.world.server.kill();
        std::fs::remove_dir_all(&data).unwrap();
        let said = self.world.command(&["restore", backup, "--data-dir", data.to_str().unwrap()]);
        if said.code != 0 {
            self.book.is_wrong(format!("a backup cannot be restored: {}", said.err));
        }
        self.world.server.is_down = false;
        self.book.restores.lock().unwrap().push((from, now()));
        true
    }
}
