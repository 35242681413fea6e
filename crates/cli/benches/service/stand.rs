//! A server and an agent to measure.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::machine;

const BINARY: &str = env!("CARGO_BIN_EXE_landfall");

pub(crate) struct Stand {
    dir: TempDir,
    server: Option<Child>,
    agent: Option<Child>,
    hollow: Option<Child>,
    url: String,
    token: String,
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
}

/// Sums since the server started.
pub(crate) struct Counters {
    pub(crate) placed: f64,
    pub(crate) ended: f64,
    pub(crate) engine_s: f64,
    pub(crate) journal_s: f64,
    pub(crate) written: f64,
}

impl Stand {
    pub(crate) fn new() -> Self {
        Self::in_dir(&std::env::temp_dir())
    }

    /// A stand that keeps everything below a directory.
    pub(crate) fn in_dir(below: &Path) -> Self {
        Self::with_pool(below, "push")
    }

    /// A stand for very many nodes: their silence is not noticed for minutes, so they need not speak often.
    pub(crate) fn patient() -> Self {
        let silence = "silence = { node_unknown_after_ms = 300000, node_down_after_ms = 600000, requeue_after_ms = 600000 }\n";
        Self::with(&std::env::temp_dir(), &format!("dispatch = \"push\"\n{silence}"))
    }

    /// A stand whose only pool dispatches so.
    pub(crate) fn with_pool(below: &Path, dispatch: &str) -> Self {
        Self::with(below, &format!("dispatch = \"{dispatch}\"\n"))
    }

    /// A peer, with these settings of its own.
    pub(crate) fn peer(settings: &str) -> Self {
        Self::with(&std::env::temp_dir(), &format!("dispatch = \"negotiate\"\n[peer]\n{settings}\n"))
    }

    /// A stand whose only pool has these settings.
    pub(crate) fn with(below: &Path, settings: &str) -> Self {
        // The provider may be set already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // A server closes lines that were idle for half a minute, perhaps in the moment in which one is used again.
        let idle = Duration::from_secs(10);
        let client = reqwest::Client::builder().no_proxy().pool_idle_timeout(idle).build().unwrap();
        let dir = TempDir::new_in(below).unwrap();
        let (url, token) = Default::default();
        let pool = format!("[[pools]]\nid = \"default\"\n{settings}");
        std::fs::write(dir.path().join("config.toml"), pool).unwrap();
        let mut stand = Self { dir, server: None, agent: None, hollow: None, url, token, runtime, client };
        stand.start_server();
        stand
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(BINARY);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("LANDFALL_CONFIG", self.path("config.toml"))
            .env("LANDFALL_DATA_DIR", self.path("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if !self.url.is_empty() {
            command.env("LANDFALL_SERVER", &self.url);
        }
        command
    }

    pub(crate) fn start_server(&mut self) {
        let ready = self.path("ready");
        let _ = std::fs::remove_file(&ready);
        let mut command = self.command();
        command.args(["server", "--allow-hollow", "--listen", "127.0.0.1:0", "--ready-file"]).arg(&ready);
        let mut server = command.spawn().unwrap();
        while !ready.exists() {
            assert!(server.try_wait().unwrap().is_none(), "the server ended");
            std::thread::sleep(Duration::from_micros(500));
        }
        self.url = std::fs::read_to_string(&ready).unwrap().trim().to_owned();
        self.token = std::fs::read_to_string(self.path("data/token")).unwrap().trim().to_owned();
        self.server = Some(server);
    }

    pub(crate) fn stop_server(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = Command::new("kill").arg(server.id().to_string()).status();
            let _ = server.wait();
        }
    }

    pub(crate) fn kill_server(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    /// Starts an agent with so many slots and waits until it is connected.
    pub(crate) fn agent(&mut self, cpus: &str) {
        let mut command = self.command();
        command.args(["agent", "--node", "n1", "--cpus", cpus, "--token-file"]).arg(self.path("data/token"));
        command.arg("--data-dir").arg(self.path("agent"));
        self.agent = Some(command.spawn().unwrap());
        while self.get("/nodes/n1")["connected"] != true {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Joins so many hollow nodes and waits until all are connected.
    pub(crate) fn hollow(&mut self, nodes: u64, cpus: u32, task_time: &str) {
        let mut command = self.command();
        command.args(["hollow", "--nodes", &nodes.to_string(), "--cpus", &cpus.to_string()]);
        command.args(["--task-time", task_time, "--token-file"]).arg(self.path("data/token"));
        let mut hollow = command.spawn().unwrap();
        while self.get("/status")["agents_connected"] != nodes {
            assert!(hollow.try_wait().unwrap().is_none(), "the hollow nodes ended");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.hollow = Some(hollow);
    }

    /// CPU time of the server and of hollow nodes.
    pub(crate) fn cpu_with_hollow(&self) -> (f64, f64) {
        let hollow = self.hollow.as_ref().map_or(0.0, |hollow| machine::cpu_seconds(hollow.id(), false));
        (machine::cpu_seconds(self.pid(), false), hollow)
    }

    pub(crate) fn hollow_rss_mb(&self) -> u64 {
        self.hollow.as_ref().map_or(0, |hollow| machine::status_mb(hollow.id(), "VmRSS"))
    }

    /// CPU time of the server: the thread of the driver, and all others.
    pub(crate) fn server_cpu(&self) -> (f64, f64) {
        let whole = machine::cpu_seconds(self.pid(), false);
        let driver = machine::thread_seconds(self.pid(), "driver");
        (driver, whole - driver)
    }

    /// What the server counts, and what it wrote to disk.
    pub(crate) fn counters(&self) -> Counters {
        let page = self.metrics();
        let sum = |name: &str| sum_of(&page, name);
        Counters {
            placed: sum("landfall_starts_total"),
            ended: sum("landfall_jobs_ended_total"),
            engine_s: sum("landfall_engine_step_seconds_total"),
            journal_s: sum("landfall_journal_append_seconds_total"),
            written: machine::written_bytes(self.pid()),
        }
    }

    /// What the server counts.
    pub(crate) fn metrics(&self) -> String {
        self.runtime.block_on(async {
            let answer = self.client.get(format!("{}/metrics", self.url)).bearer_auth(&self.token).send();
            answer.await.unwrap().text().await.unwrap()
        })
    }

    /// CPU time of the server.
    pub(crate) fn own_cpu(&self) -> f64 {
        machine::cpu_seconds(self.pid(), false)
    }

    /// Submits one job that asks for a little, and waits until it has ended.
    pub(crate) fn place_one(&self) {
        let job = json!({ "run": { "command": ["true"] }, "needs": { "cpu_milli": 100 } });
        let answer = self.runtime.block_on(self.post("/jobs", &job));
        let id = answer["jobs"][0]["id"].as_str().or(answer["id"].as_str()).unwrap().to_owned();
        loop {
            let state = self.get(&format!("/jobs/{id}"))["state"].clone();
            assert!(state != "failed" && state != "cancelled", "{state}");
            if state == "completed" {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Size of the server's directory.
    pub(crate) fn data_mb(&self) -> u64 {
        let files = std::fs::read_dir(self.path("data")).unwrap().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum::<u64>() / 1_000_000
    }

    /// How many jobs are in this state.
    pub(crate) fn jobs_in(&self, state: &str) -> u64 {
        self.get("/status")["jobs"][state].as_u64().unwrap_or(0)
    }

    fn pid(&self) -> u32 {
        self.server.as_ref().map_or(0, Child::id)
    }

    pub(crate) fn server_rss_mb(&self) -> u64 {
        machine::status_mb(self.pid(), "VmRSS")
    }

    pub(crate) fn server_peak_mb(&self) -> u64 {
        machine::status_mb(self.pid(), "VmHWM")
    }

    /// CPU time of the server, and of the agent with its keeper.
    pub(crate) fn cpu_seconds(&self) -> (f64, f64) {
        let agent = self.agent.as_ref().map_or(0.0, |agent| machine::cpu_seconds(agent.id(), false));
        let keepers = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse::<u32>().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).into_owned();
            let ours = line.contains("keeper") && line.contains(self.dir.path().to_str()?);
            ours.then(|| machine::cpu_seconds(pid, false))
        });
        (machine::cpu_seconds(self.pid(), false), agent + keepers.sum::<f64>())
    }

    /// Runs one command line.
    pub(crate) fn call(&self, args: &[&str]) {
        let status = self.command().args(args).status().unwrap();
        assert!(status.success(), "{args:?}: {status}");
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        let url = format!("{}/api/v1{path}", self.url);
        let answer = self.client.post(url).bearer_auth(&self.token).json(body).send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let url = format!("{}/api/v1{path}", self.url);
        self.runtime.block_on(async {
            let answer = self.client.get(url).bearer_auth(&self.token).send().await.unwrap();
            serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default()
        })
    }

    /// Submits jobs one by one, from so many clients at once.
    pub(crate) fn submit_singles(&self, count: usize, clients: usize, hold: bool) {
        let each = count / clients;
        self.submit_while(clients, hold, |done| done < each);
    }

    /// Submits jobs one by one for a while, from so many clients at once.
    pub(crate) fn submit_for(&self, time: Duration, clients: usize) {
        let began = std::time::Instant::now();
        self.submit_while(clients, false, |_| began.elapsed() < time);
    }

    /// Every client submits as long as there is more to do, seen from how many it has submitted.
    fn submit_while(&self, clients: usize, hold: bool, more: impl Fn(usize) -> bool) {
        let needs = json!({ "cpu_milli": 1000, "walltime_ms": 3_600_000, "exclusive": false });
        let body = json!({ "hold": hold, "needs": needs, "run": { "command": ["true"] } }).to_string();
        let host = self.url.trim_start_matches("http://");
        let request = format!(
            "POST /api/v1/jobs HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        self.runtime.block_on(async {
            let each = || async {
                let mut line = tokio::net::TcpStream::connect(host).await.unwrap();
                line.set_nodelay(true).unwrap();
                let mut done = 0;
                while more(done) {
                    accepted(&mut line, request.as_bytes()).await;
                    done += 1;
                }
            };
            futures::future::join_all((0..clients).map(|_| each())).await;
        });
    }

    /// Submits jobs of so many classes in one request.
    pub(crate) fn submit_stream(&self, count: u64, classes: u64) {
        let job = move |number: u64| {
            let class = number % classes;
            let needs = json!({ "cpu_milli": 1000 + 20 * class, "walltime_ms": 3_600_000 + 60_000 * class, "exclusive": false });
            json!({ "needs": needs, "run": { "command": ["true"] } }).to_string() + "\n"
        };
        let pieces = (0..count).step_by(1000).map(move |first| {
            let last = count.min(first + 1000);
            Ok::<_, std::io::Error>((first..last).map(job).collect::<String>())
        });
        let url = format!("{}/api/v1/jobs/stream", self.url);
        let body = reqwest::Body::wrap_stream(futures::stream::iter(pieces));
        self.runtime.block_on(async {
            // On a line of its own: one that was idle may be closed just now, and what has been sent of a stream cannot be sent again.
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let request = client.post(url).bearer_auth(&self.token).body(body);
            let answer = request.header("content-type", "application/x-ndjson").send().await.unwrap();
            assert!(answer.status().is_success(), "{}", answer.status());
            let mut pieces = answer.bytes_stream();
            let mut stored = 0;
            while let Some(piece) = futures::StreamExt::next(&mut pieces).await {
                stored += piece.unwrap().iter().filter(|byte| **byte == b'\n').count() as u64;
            }
            assert_eq!(stored, count, "answers");
        });
    }

    /// Submits an array and gives its id.
    pub(crate) fn submit_array(&self, count: u32) -> String {
        let body = json!({
            "needs": { "cpu_milli": 1000 },
            "run": { "command": ["true"] },
            "array": { "first": 1, "last": count },
        });
        let answer = self.runtime.block_on(self.post("/jobs", &body));
        answer["id"].as_str().unwrap().to_owned()
    }

    /// Submits tasks and waits for the last.
    pub(crate) fn submit_and_wait(&self, count: u32) {
        let id = self.submit_array(count);
        loop {
            let array = self.get(&format!("/arrays/{id}"));
            assert_eq!(array["failed"], 0, "{array}");
            if array["completed"] == count {
                return;
            }
            std::thread::sleep(Duration::from_millis(if count == 1 { 1 } else { 20 }));
        }
    }
}

/// The sum of a metric over its labels, on a page of them.
pub(crate) fn sum_of(page: &str, name: &str) -> f64 {
    let values = page.lines().filter_map(|line| line.strip_prefix(name));
    let values = values.filter(|rest| rest.starts_with([' ', '{']));
    values.filter_map(|rest| rest.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

/// Sends a request and reads its answer, with next to no work of its own: what is measured is the server.
async fn accepted(line: &mut tokio::net::TcpStream, request: &[u8]) {
    line.write_all(request).await.unwrap();
    let mut answer = Vec::with_capacity(1024);
    loop {
        assert!(line.read_buf(&mut answer).await.unwrap() > 0, "the server hung up");
        let text = std::str::from_utf8(&answer).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        assert!(head.starts_with("HTTP/1.1 201"), "{text}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() == length.parse::<usize>().unwrap() {
            return;
        }
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        for child in [&mut self.agent, &mut self.hollow, &mut self.server].into_iter().flatten() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
