//! The machines of a storm: a server on a small disk with a clock of its own, and agents that reach it over lines of
//! their own. Whatever ends without being told to is noted and started again, as a service manager does.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::runtime::Runtime;

use crate::clock;
use crate::keepers::{noted_ends, signal_keeper};
use crate::ready::Mounted;
use crate::stand::{Process, Stand, end_keepers};

use super::line::Line;

/// A node with jobs that was silent for longer is given up.
pub(super) const GIVEN_UP_AFTER: f64 = 10.0;

/// Times are short, so that a storm sees nodes given up; few things stay in memory, so that it sees the disk.
const CONFIG: &str = r#"
[server]
snapshot_every = 500
ended_in_memory = 100

# Under `fit` a node that lost a job would rest for a minute, and a storm is short.
[[pools]]
id = "push"
policy = "bin-pack"
[pools.silence]
node_unknown_after_ms = 3000
node_down_after_ms = 10000
requeue_after_ms = 10000
requeue_limit = 1

[[pools]]
id = "pull"
dispatch = "pull"
# The usual policy keeps work off a worker that is as busy as a machine in a storm.
policy = "simple"
[pools.pull]
liveness_timeout_ms = 10000
[pools.silence]
node_unknown_after_ms = 3000
requeue_limit = 1
"#;

/// How long what ended by itself stays down, at least.
const RESTART_AFTER: Duration = Duration::from_millis(300);

/// Seconds since 1970 by the clock that no fault touches.
pub(super) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// A process that should be there, unless a fault says otherwise.
#[derive(Default)]
pub(super) struct Kept {
    process: Option<Process>,
    pub(super) is_down: bool,
    started: Option<Instant>,
}

impl Kept {
    pub(super) fn kill(&mut self) {
        self.is_down = true;
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    pub(super) fn signal(&self, name: &str) {
        if let Some(process) = &self.process {
            process.signal(name);
        }
    }

    /// Whether it should be started now; with the code of the one before, if that ended by itself.
    fn wants(&mut self) -> Option<Option<i32>> {
        if self.is_down || self.started.is_some_and(|at| at.elapsed() < RESTART_AFTER) {
            return None;
        }
        match &mut self.process {
            None => Some(None),
            Some(process) => process.ended().map(Some),
        }
    }

    fn is(&mut self, process: Process) {
        self.process = Some(process);
        self.started = Some(Instant::now());
    }
}

pub(super) struct Node {
    pub(super) name: &'static str,
    pub(super) pool: &'static str,
    pub(super) agent: Kept,
    pub(super) line: Line,
}

pub(super) struct World {
    pub(super) stand: Stand,
    pub(super) url: String,
    pub(super) nodes: Vec<Node>,
    pub(super) server: Kept,
    /// Whether the server's disk can be filled, and its clock set.
    pub(super) disk: Option<Mounted>,
    pub(super) has_clock: bool,
    /// Who ended without being told to, with what code and when.
    pub(super) ended: Vec<(String, i32, f64)>,
    /// Attempts that keepers had noted as ended when they were killed, and when that was.
    pub(super) noted: Vec<(String, u64, f64)>,
}

impl World {
    pub(super) fn new(runtime: &Runtime) -> Self {
        let stand = Stand::unstarted(CONFIG);
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let line = |name, pool| Node {
            name,
            pool,
            agent: Kept::default(),
            line: runtime.block_on(Line::to(free.to_string())),
        };
        let nodes = [("n1", "push"), ("n2", "push"), ("n3", "push"), ("n4", "pull"), ("n5", "pull")];
        let nodes = nodes.map(|(name, pool)| line(name, pool)).into();
        std::fs::create_dir(stand.path("disk")).unwrap();
        let disk = Mounted::over(&stand.path("disk"), "192m");
        let faked = clock::faked_by(&stand.path("faketime"));
        let (has_clock, url) = (faked.is_some(), format!("http://{free}"));
        clock::set(&stand.path("faketime"), 0);
        std::fs::write(stand.path("server.env"), faked.unwrap_or_default()).unwrap();
        let (server, ended, noted) = (Kept::default(), Vec::new(), Vec::new());
        let mut world = Self { stand, url, nodes, server, disk, has_clock, ended, noted };
        world.watch();
        let token = world.data().join("token");
        world.stand.until("the server is up", || token.exists() && world.command(&["status"]).code == 0);
        // A restore makes another one; this one works before and after.
        std::fs::copy(token, world.token()).unwrap();
        world
    }

    pub(super) fn data(&self) -> PathBuf {
        self.stand.path("disk").join("server")
    }

    pub(super) fn token(&self) -> PathBuf {
        self.stand.path("token")
    }

    pub(super) fn clock(&self) -> PathBuf {
        self.stand.path("faketime")
    }

    /// Where the jobs say that they ran.
    pub(super) fn runs(&self) -> PathBuf {
        self.stand.path("runs")
    }

    /// The binary as this world's people use it.
    pub(super) fn binary(&self) -> Command {
        let mut command = self.stand.command();
        command.env("LANDFALL_DATA_DIR", self.data()).env("LANDFALL_SERVER", &self.url);
        if self.token().exists() {
            command.env("LANDFALL_TOKEN_FILE", self.token());
        }
        command
    }

    pub(super) fn command(&self, args: &[&str]) -> crate::stand::Said {
        crate::stand::Said::of(self.binary().args(args).stdin(Stdio::null()).output().unwrap())
    }

    /// Starts what should be there and is not.
    pub(super) fn watch(&mut self) {
        if let Some(before) = self.server.wants() {
            self.ended.extend(before.map(|code| ("server".to_owned(), code, now())));
            let mut command = self.binary();
            command.envs(self.stand.server_env());
            let listen = self.url.trim_start_matches("http://").to_owned();
            let process = self.stand.start("server", command, &["server", "--listen", &listen]);
            self.server.is(process);
        }
        if !self.token().exists() {
            return;
        }
        for place in 0..self.nodes.len() {
            let Some(before) = self.nodes[place].agent.wants() else { continue };
            let node = &self.nodes[place];
            self.ended.extend(before.map(|code| (node.name.to_owned(), code, now())));
            let (dir, token) = (self.stand.path(node.name), self.token());
            let args = ["agent", "--server", &node.line.url, "--token-file", token.to_str().unwrap()];
            let more = ["--node", node.name, "--pool", node.pool, "--cpus", "8", "--data-dir"];
            let args = [&args[..], &more, &[dir.to_str().unwrap()]].concat();
            let process = self.stand.start(node.name, self.binary(), &args);
            self.nodes[place].agent.is(process);
        }
    }

    /// Kills the keeper of a node; its jobs go on without it until the next one comes. Tells whether there was one.
    pub(super) fn kill_keeper(&mut self, place: usize) -> bool {
        let dir = self.stand.path(self.nodes[place].name);
        let killed = signal_keeper(&dir, "KILL");
        // Read after the kill, and before the next keeper writes it anew.
        let journal = std::fs::read_to_string(dir.join("keeper.journal")).unwrap_or_default();
        self.noted.extend(noted_ends(&journal).into_iter().map(|(job, attempt)| (job, attempt, now())));
        killed
    }

    pub(super) fn signal_keeper(&self, place: usize, name: &str) -> bool {
        signal_keeper(&self.stand.path(self.nodes[place].name), name)
    }

    /// Ends everything that a machine runs for us, as a power cut does.
    pub(super) fn lose_node(&mut self, place: usize) {
        self.nodes[place].agent.kill();
        end_keepers(&self.stand.path(self.nodes[place].name));
    }

    /// The last lines that somebody wrote.
    pub(super) fn last_words(&self, who: &str) -> String {
        let log = self.stand.log(who);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.kill();
        self.nodes.iter_mut().for_each(|node| node.agent.kill());
        // The directory it is mounted over is about to be removed.
        self.disk = None;
    }
}
