//! A storm among peers: real servers and agents that negotiate, kills, stops and partitions drawn from a seed.
//!
//! ```text
//!  jobs ──► some peer (arbiter) ◄── network that is cut here and there ──► other peers (nodes) ── agent ── keeper ── runs
//!                 │ state, winner, charge, account                             │ account               │ a lock and lines in a file
//!                 └──────────────────────────────► compared ◄──────────────────┴───────────────────────┘
//! ```
//!
//! Every job must come to one end that stays, no two runs of a job may overlap (each holds a lock of the kernel that goes with its
//! last process), and what arbiters owe must be what winners have earned: one price for each job that was accepted, whatever was
//! said how often. A job may run *again*, one run after the other: the winner of a lost lease may have been at its end.
//!
//! The ordinary tests have a small one. A large one: `cargo xtask storm --peers 20 --jobs 500 --faults 120 --seed 1`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use landfall_testkit::Rng;
use serde_json::{Value, json};

use crate::lines::Lines;
use crate::peers::{at, first, id, text};
use crate::stand::Stand;

/// How long everything may take to come to an end after the last fault.
const HEALS_WITHIN: Duration = Duration::from_secs(600);
/// Nothing is given up: what cannot be placed now is asked for again.
const SETTINGS: &str = "settings = [\"rounds_max=0\", \"lease_losses_max=100\", \"lease_ms=10000\"]";
/// Logs that are read in the end.
const LOGS_READ: usize = 40;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    ServerKilled,
    ServerStopped,
    AgentKilled,
    Apart,
    OneWay,
}

impl Kind {
    /// Each with its share among draws, the longest time it lasts in seconds, and what it is called.
    const ALL: [(Self, usize, u64, &'static str); 5] = [
        (Self::ServerKilled, 4, 8, "server killed"),
        (Self::ServerStopped, 2, 14, "server stopped and continued"),
        (Self::AgentKilled, 2, 6, "agent killed"),
        (Self::Apart, 3, 18, "network in two parts"),
        (Self::OneWay, 2, 14, "some are not heard by the others"),
    ];

    const fn is_of_lines(self) -> bool {
        matches!(self, Self::Apart | Self::OneWay)
    }
}

/// A fault that lasts.
struct Lasting {
    kind: Kind,
    until: Instant,
    /// Whom it is about.
    peers: Vec<usize>,
}

struct Job {
    key: String,
    arbiter: usize,
    id: String,
    /// How it was seen to have ended.
    ended: Option<String>,
}

struct World {
    lines: Option<Lines>,
    peers: Vec<Stand>,
    ids: Vec<String>,
    tokens: Vec<String>,
    random: Rng,
    lasting: Vec<Lasting>,
    happened: BTreeMap<Kind, usize>,
    jobs: Vec<Job>,
    seed: u64,
}

impl World {
    fn new(count: usize, seed: u64) -> Self {
        let lines = match Lines::new(count) {
            Ok(lines) => Some(lines),
            Err(why) => {
                println!("no partitions, since this machine gives no namespaces: {why}");
                None
            }
        };
        let make = |place: usize, settings: &str| match &lines {
            Some(lines) => at(lines, place, settings),
            None => first(settings),
        };
        let mut peers = vec![make(0, SETTINGS)];
        let invitation = text(&peers[0].json(&["peer", "id"])["invitation"]);
        peers.extend(
            (1..count).map(|place| make(place, &format!("bootstrap = ['{invitation}']\n{SETTINGS}"))),
        );
        let ids: Vec<String> = peers.iter().map(id).collect();
        let table: String = ids.iter().map(|id| format!("[[peers]]\nid = '{id}'\ntrust = 0.8\n")).collect();
        let addresses: Vec<String> = peers
            .iter()
            .map(|peer| text(&peer.json(&["peer", "id"])["invitation"]).split_once('#').unwrap().0.to_owned())
            .collect();
        for (place, peer) in peers.iter_mut().enumerate() {
            std::fs::write(peer.path("trust.toml"), &table).unwrap();
            peer.run(&["peers", "import", peer.path("trust.toml").to_str().unwrap()]).ok();
            // Two more that it keeps in touch with: the first one may be down.
            for step in [1, 2] {
                peer.run(&["peers", "add", &addresses[(place + step) % count]]).ok();
            }
            peer.agent_unready("n1", &["--cpus", "2"]);
        }
        for peer in &peers {
            peer.until_ready("n1");
            peer.until("others are known", || {
                let peers = peer.json(&["peers", "list"]);
                let known =
                    peers["peers"].as_array().unwrap().iter().filter(|peer| peer["facts"].is_object());
                known.count() + 1 == count
            });
        }
        let token = |peer: &Stand| std::fs::read_to_string(peer.data().join("token")).unwrap();
        let tokens = peers.iter().map(token).collect();
        let (lasting, happened, jobs) = Default::default();
        Self { lines, peers, ids, tokens, random: Rng::new(seed), lasting, happened, jobs, seed }
    }

    fn is_well(&self, place: usize) -> bool {
        let of_server = |fault: &&Lasting| matches!(fault.kind, Kind::ServerKilled | Kind::ServerStopped);
        !self.lasting.iter().filter(of_server).any(|fault| fault.peers.contains(&place))
    }

    /// The file that all runs write to, and the directory of their locks.
    fn runs(&self) -> (PathBuf, PathBuf) {
        (self.peers[0].path("runs"), self.peers[0].path("locks"))
    }

    /// Submits a job to a peer that can be asked.
    fn submit(&mut self) {
        let well: Vec<usize> = (0..self.peers.len()).filter(|place| self.is_well(*place)).collect();
        let Some(arbiter) = self.random.pick(&well) else { return };
        let (runs, locks) = self.runs();
        std::fs::create_dir_all(&locks).unwrap();
        let key = format!("k{}", self.jobs.len());
        let tenths =
            if self.random.chance(10) { self.random.within(80, 160) } else { self.random.within(2, 30) };
        let (runs, lock) = (runs.display(), locks.join(&key));
        let script = format!(
            "exec 9>>{}; flock -n 9 || echo twice {key} >> {runs}; echo begin {key} $LANDFALL_NODE_ID >> {runs}; \
             i=0; while [ $i -lt {tenths} ]; do sleep 0.1; i=$((i+1)); done; echo {key} is done; echo end {key} >> {runs}",
            lock.display()
        );
        let mut hints = json!({});
        if self.random.chance(30) {
            hints = json!({ "avoid_peers": [self.ids[arbiter]] });
        }
        let body = json!({
            "name": key,
            "run": { "command": ["sh", "-c", script] },
            "needs": { "cpu_milli": 100, "ram_mib": 16 },
            "placement": { "hints": hints },
        });
        let (status, answer) = self.peers[arbiter].says(
            &self.tokens[arbiter],
            "POST",
            "/jobs",
            &[("idempotency-key", &key)],
            Some(&body),
        );
        assert!((200..300).contains(&status), "seed {}: {status} {answer}", self.seed);
        let id = answer["jobs"][0]["id"].as_str().or(answer["id"].as_str()).unwrap().to_owned();
        self.jobs.push(Job { key, arbiter, id, ended: None });
    }

    /// Draws one more fault, of parts that are well.
    fn one_more(&mut self) {
        let total: usize = Kind::ALL.iter().map(|row| row.1).sum();
        let mut draw = self.random.index(total);
        let row = Kind::ALL.iter().find(|row| {
            let found = draw < row.1;
            draw = draw.saturating_sub(row.1);
            found
        });
        let (kind, _, longest, _) = *row.unwrap();
        let place = self.random.index(self.peers.len());
        let taken = if kind.is_of_lines() {
            self.lines.is_none() || self.lasting.iter().any(|fault| fault.kind.is_of_lines())
        } else {
            let about = |fault: &Lasting| !fault.kind.is_of_lines() && fault.peers.contains(&place);
            self.lasting.iter().any(about)
                || self.lasting.iter().filter(|fault| !fault.kind.is_of_lines()).count() > 3
        };
        if taken {
            return;
        }
        let mut peers = vec![place];
        match kind {
            Kind::ServerKilled => self.peers[place].kill_server(),
            Kind::ServerStopped => self.peers[place].signal_server("STOP"),
            Kind::AgentKilled => self.peers[place].agent_process("n1").kill(),
            Kind::Apart | Kind::OneWay => {
                peers = (0..self.peers.len()).filter(|_| self.random.chance(40)).collect();
                self.set_lines(kind, &peers, true);
            }
        }
        let until = Instant::now() + Duration::from_millis(self.random.within(200, longest * 1000));
        self.lasting.push(Lasting { kind, until, peers });
        *self.happened.entry(kind).or_default() += 1;
    }

    fn set_lines(&self, kind: Kind, some: &[usize], cut: bool) {
        let Some(lines) = &self.lines else { return };
        let others: Vec<usize> = (0..self.peers.len()).filter(|place| !some.contains(place)).collect();
        lines.set_cut(some, &others, cut);
        if kind == Kind::Apart {
            lines.set_cut(&others, some, cut);
        }
    }

    /// Undoes what has lasted long enough, or everything.
    fn heal(&mut self, all: bool) {
        let now = Instant::now();
        let (over, rest) =
            std::mem::take(&mut self.lasting).into_iter().partition(|fault| all || fault.until <= now);
        self.lasting = rest;
        for fault in over {
            let fault: Lasting = fault;
            match fault.kind {
                Kind::ServerKilled => self.peers[fault.peers[0]].start_server(),
                Kind::ServerStopped => self.peers[fault.peers[0]].signal_server("CONT"),
                Kind::AgentKilled => self.peers[fault.peers[0]].agent_unready("n1", &["--cpus", "2"]),
                Kind::Apart | Kind::OneWay => self.set_lines(fault.kind, &fault.peers, false),
            }
        }
    }

    fn get(&self, place: usize, path: &str) -> Value {
        self.peers[place].get(&self.tokens[place], path)
    }

    /// Waits until every job has come to an end.
    fn settle(&mut self) {
        let healed = Instant::now();
        loop {
            let open: Vec<usize> =
                (0..self.jobs.len()).filter(|job| self.jobs[*job].ended.is_none()).collect();
            for job in open {
                let seen = self.get(self.jobs[job].arbiter, &format!("/jobs/{}", self.jobs[job].id));
                if seen["ended_at_ms"].is_number() {
                    self.jobs[job].ended = Some(text(&seen["state"]));
                }
            }
            let open = self.jobs.iter().filter(|job| job.ended.is_none()).count();
            if open == 0 {
                println!("at rest {} s after the last fault was healed", healed.elapsed().as_secs());
                return;
            }
            if healed.elapsed() > HEALS_WITHIN {
                let job = self.jobs.iter().find(|job| job.ended.is_none()).unwrap();
                let said = self.peers[job.arbiter].run(&["explain", &job.id]);
                panic!("seed {}: {open} jobs never end, such as {}: {}", self.seed, job.key, said.out);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// What a peer and each other one owe each other: bought, spent, sold, earned.
    fn accounts(&self, place: usize) -> BTreeMap<String, [u64; 4]> {
        let peers = self.get(place, "/peers");
        let of = |peer: &Value| {
            let amounts =
                ["bought", "spent", "sold", "earned"].map(|name| peer["account"][name].as_u64().unwrap());
            (text(&peer["id"]), amounts)
        };
        peers.as_array().unwrap().iter().map(of).collect()
    }

    /// What arbiters owe, by themselves and by their jobs, is what winners have earned.
    fn judge_accounts(&self) -> (u64, u64) {
        let mut owed: BTreeMap<(usize, String), (u64, u64)> = BTreeMap::new();
        for job in &self.jobs {
            let placement =
                self.get(job.arbiter, &format!("/jobs/{}/placement", job.id))["negotiation"].clone();
            let winner = placement["winner"]
                .as_str()
                .unwrap_or_else(|| panic!("nobody won {}: {placement}", job.key))
                .to_owned();
            if winner != self.ids[job.arbiter] {
                let due = owed.entry((job.arbiter, winner)).or_default();
                *due = (due.0 + 1, due.1 + placement["charge"].as_u64().unwrap_or(0));
            }
        }
        let due =
            |arbiter: usize, node: &str| owed.get(&(arbiter, node.to_owned())).copied().unwrap_or_default();
        for (arbiter, own) in self.ids.iter().enumerate() {
            let accounts = self.accounts(arbiter);
            for node in self.ids.iter().filter(|id| *id != own) {
                let [bought, spent, ..] = accounts.get(node).copied().unwrap_or_default();
                assert_eq!((bought, spent), due(arbiter, node), "seed {}: {own} owes {node}", self.seed);
            }
        }
        for (node, own) in self.ids.iter().enumerate() {
            self.peers[node].until("what is owed is earned", || {
                let accounts = self.accounts(node);
                self.ids.iter().enumerate().filter(|(_, id)| *id != own).all(|(arbiter, id)| {
                    let ([.., sold, earned], due) =
                        (accounts.get(id).copied().unwrap_or_default(), due(arbiter, own));
                    assert!(
                        sold <= due.0 && earned <= due.1,
                        "seed {}: {own} was paid twice by {id}",
                        self.seed
                    );
                    (sold, earned) == due
                })
            });
        }
        owed.values().fold((0, 0), |sum, due| (sum.0 + due.0, sum.1 + due.1))
    }
}

#[test]
fn whatever_happens_among_peers_every_job_ends_once_runs_alone_and_is_paid_once() {
    let peers = number("LANDFALL_PEERS", 4) as usize;
    let (jobs, faults) = (number("LANDFALL_JOBS", 16) as usize, number("LANDFALL_FAULTS", 8) as usize);
    let seed = number("LANDFALL_SEED", 5);
    println!("LANDFALL_SEED={seed} LANDFALL_PEERS={peers} LANDFALL_JOBS={jobs} LANDFALL_FAULTS={faults}");
    let mut world = World::new(peers, seed);
    let began = Instant::now();
    for step in 1..=faults {
        while world.jobs.len() < jobs * step / faults {
            world.submit();
            world.heal(false);
        }
        world.one_more();
        let next = Instant::now() + Duration::from_millis(world.random.within(100, 3500));
        while Instant::now() < next {
            world.heal(false);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    world.heal(true);
    println!("healed after {} s", began.elapsed().as_secs());
    world.settle();
    for job in &world.jobs {
        let told = || world.get(job.arbiter, &format!("/jobs/{}/placement", job.id));
        assert_eq!(job.ended.as_deref(), Some("completed"), "seed {seed}: {} {}", job.key, told());
    }
    let (sold, credits) = world.judge_accounts();

    let lines = std::fs::read_to_string(world.runs().0).unwrap();
    let count = |what: &str, key: &str| {
        lines
            .lines()
            .filter(|line| line.starts_with(&format!("{what} {key} ")) || *line == format!("{what} {key}"))
            .count()
    };
    let mut again = 0;
    for (place, job) in world.jobs.iter().enumerate() {
        let (began, ended) = (count("begin", &job.key), count("end", &job.key));
        let state = world.get(job.arbiter, &format!("/jobs/{}", job.id))["state"].clone();
        assert_eq!(count("twice", &job.key), 0, "seed {seed}: two runs of {} at once", job.key);
        assert_eq!(
            (job.ended.as_deref(), &state),
            (Some("completed"), &"completed".into()),
            "seed {seed}: {}",
            job.key
        );
        assert!(ended >= 1 && began >= ended, "seed {seed}: {} began {began} times, ended {ended}", job.key);
        again += usize::from(began > 1);
        if place % (world.jobs.len() / LOGS_READ + 1) == 0 {
            let (peer, done) = (&world.peers[job.arbiter], format!("{} is done", job.key));
            peer.until(&format!("{} is in the log", job.key), || {
                peer.run(&["logs", &job.id]).out.contains(&done)
            });
        }
    }
    println!("| fault | times |\n|---|---|");
    for (kind, _, _, name) in Kind::ALL {
        println!("| {name} | {} |", world.happened.get(&kind).copied().unwrap_or(0));
    }
    let runs = lines.lines().filter(|line| line.starts_with("begin ")).count();
    println!(
        "{} s; {} jobs, all completed; {runs} runs, {again} jobs ran again after a lost lease, never two at once; {sold} run for others and \
         paid once, {credits} credits",
        began.elapsed().as_secs(),
        world.jobs.len()
    );
}
