//! A server and agents in a directory of their own, and the command line that talks to them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_landfall");

/// Long enough for a slow machine; only a broken program reaches it.
const PATIENCE: Duration = Duration::from_secs(300);

/// A process that ends with the test.
pub(crate) struct Process(Child);

impl Process {
    /// The code with which it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        self.0.try_wait().unwrap().map(|status| status.code().unwrap_or(-1))
    }

    /// Sends it a signal, such as `STOP` or `CONT`.
    pub(crate) fn signal(&self, name: &str) {
        assert!(signal(&self.0.id().to_string(), name), "{name} for {}", self.0.id());
    }

    /// Ends it at once, as a power cut would.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a command said.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The answer, if the command ended with that code.
    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> String {
        assert_eq!(self.code, code, "out: {}\nerr: {}", self.out, self.err);
        self.out
    }

    #[track_caller]
    pub(crate) fn ok(self) -> String {
        self.ends_with(0)
    }
}

/// A command was refused, in these words.
#[track_caller]
pub(crate) fn refused(said: &Said, words: &[&str]) {
    assert_ne!(said.code, 0, "accepted: {}", said.out);
    for word in words {
        assert!(said.err.contains(word), "no `{word}` in: {}", said.err);
    }
}

/// A directory with a server.
pub(crate) struct Stand {
    pub(crate) dir: TempDir,
    server: Option<Process>,
    agents: Vec<(String, Process)>,
    url: String,
    /// The network namespace that the server runs in, and its address there, if that is not the usual one.
    inside: Option<(String, String)>,
}

impl Stand {
    /// A server with one push pool.
    pub(crate) fn new() -> Self {
        Self::with_config("")
    }

    /// With the agent of node `n1`, started with these arguments.
    pub(crate) fn with_agent(more: &[&str]) -> Self {
        let mut stand = Self::new();
        stand.agent("n1", more);
        stand
    }

    /// A server with a configuration file.
    pub(crate) fn with_config(config: &str) -> Self {
        let mut stand = Self::unstarted(config);
        stand.start_server();
        stand
    }

    /// A directory with a configuration file, and no server yet.
    pub(crate) fn unstarted(config: &str) -> Self {
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("config.toml"), config).unwrap();
        Self { dir, server: None, agents: Vec::new(), url: String::new(), inside: None }
    }

    /// A server in a network namespace, where it listens on this address.
    pub(crate) fn inside(namespace: &str, address: &str, config: &str) -> Self {
        let mut stand = Self::unstarted(config);
        stand.inside = Some((namespace.to_owned(), address.to_owned()));
        stand.start_server();
        stand
    }

    /// A server on a journal that another one wrote, and the token that goes with it.
    pub(crate) fn on(journal: &[u8], token: &str) -> Self {
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("config.toml"), "").unwrap();
        let mut stand = Self { dir, server: None, agents: Vec::new(), url: String::new(), inside: None };
        std::fs::create_dir(stand.data()).unwrap();
        std::fs::write(stand.data().join("journal.db"), journal).unwrap();
        std::fs::write(stand.data().join("token"), token).unwrap();
        stand.start_server();
        stand
    }

    /// A server with TLS, and a certificate made for it.
    pub(crate) fn secured() -> Self {
        let dir = TempDir::new().unwrap();
        let at = |name: &str| dir.path().join("tls").join(name).display().to_string();
        let (cert, key) = (at("cert.pem"), at("key.pem"));
        let config =
            format!("[server]\ntls_cert = '{cert}'\ntls_key = '{key}'\n[client]\nca_file = '{cert}'\n");
        std::fs::write(dir.path().join("config.toml"), config).unwrap();
        let mut stand = Self { dir, server: None, agents: Vec::new(), url: String::new(), inside: None };
        stand.run(&["certificate", "--host", "127.0.0.1", "--out", stand.path("tls").to_str().unwrap()]).ok();
        stand.start_server();
        assert!(stand.url.starts_with("https://"), "{}", stand.url);
        stand
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Where the server is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Where the server keeps everything.
    pub(crate) fn data(&self) -> PathBuf {
        self.path("server")
    }

    fn process(&self, name: &str, args: &[&str]) -> Process {
        self.start(name, self.command(), args)
    }

    /// Starts a command that writes into a log of that name.
    pub(crate) fn start(&self, name: &str, mut command: Command, args: &[&str]) -> Process {
        let log = File::options().create(true).append(true).open(self.path(&format!("{name}.log"))).unwrap();
        command.args(args).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Process(command.spawn().unwrap())
    }

    /// Starts the server; after the first time on the same port.
    pub(crate) fn start_server(&mut self) {
        let ready = self.path("ready");
        let _ = std::fs::remove_file(&ready);
        let listen = match self.url.strip_prefix("http://") {
            Some(address) => address.to_owned(),
            None => {
                format!("{}:0", self.inside.as_ref().map_or("127.0.0.1", |(_, address)| address.as_str()))
            }
        };
        let args = ["server", "--listen", &listen, "--ready-file", ready.to_str().unwrap()];
        let mut command = self.command_inside();
        command.envs(self.server_env());
        let mut process = self.start("server", command, &args);
        let began = Instant::now();
        while !ready.exists() {
            let ended = process.0.try_wait().unwrap();
            assert!(ended.is_none(), "the server ended: {}", self.log("server"));
            assert!(began.elapsed() < PATIENCE, "the server is not ready: {}", self.log("server"));
            std::thread::sleep(Duration::from_millis(5));
        }
        self.url = std::fs::read_to_string(&ready).unwrap().trim().to_owned();
        self.server = Some(process);
    }

    /// What a test wrote into `server.env`, a line for each variable.
    pub(crate) fn server_env(&self) -> Vec<(String, String)> {
        let text = std::fs::read_to_string(self.path("server.env")).unwrap_or_default();
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Starts the server on another port; agents and commands that were told the old one do not find it.
    pub(crate) fn start_server_elsewhere(&mut self) {
        self.url.clear();
        self.start_server();
    }

    /// Asks the server to end, and waits until it has.
    pub(crate) fn end_server(&mut self) {
        let mut server = self.server.take().unwrap();
        Command::new("kill").arg(server.0.id().to_string()).status().unwrap();
        server.0.wait().unwrap();
    }

    pub(crate) fn kill_server(&mut self) {
        self.server.take().unwrap().kill();
    }

    /// Sends a signal to the server, such as `STOP` or `CONT`.
    pub(crate) fn signal_server(&self, signal: &str) {
        self.server.as_ref().unwrap().signal(signal);
    }

    /// The server, for a test that watches it end.
    pub(crate) fn server_process(&mut self) -> Process {
        self.server.take().unwrap()
    }

    /// What a process wrote.
    pub(crate) fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default()
    }

    /// Starts an agent and waits until it is connected.
    pub(crate) fn agent(&mut self, node: &str, more: &[&str]) {
        self.agent_unready(node, more);
        self.until_ready(node);
    }

    /// Starts an agent of a binary that has nothing but itself and the system's programs, and waits until it is connected.
    pub(crate) fn agent_alone(&mut self, node: &str, binary: &Path) {
        let (data, token) = (self.path(node), self.data().join("token"));
        let (data, token) = (data.to_str().unwrap(), token.to_str().unwrap());
        let mut command = self.command_of(binary);
        command.env("PATH", "/usr/bin:/bin");
        let args = ["agent", "--token-file", token, "--node", node, "--data-dir", data];
        let process = self.start(node, command, &args);
        self.agents.push((node.to_owned(), process));
        self.until_ready(node);
    }

    /// Starts an agent that looks for programs in a directory of the test first, and does not wait.
    pub(crate) fn agent_with_programs(&mut self, node: &str, programs: &Path, more: &[&str]) {
        let (data, token) = (self.path(node), self.data().join("token"));
        let mut command = self.command();
        command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
        let mut args = vec!["agent", "--token-file", token.to_str().unwrap(), "--node", node];
        args.extend(["--data-dir", data.to_str().unwrap()]);
        args.extend(more);
        let process = self.start(node, command, &args);
        self.agents.push((node.to_owned(), process));
    }

    pub(crate) fn until_ready(&self, node: &str) {
        self.until(&format!("node {node} is ready"), || {
            let shown = self.run(&["node", node, "--json"]);
            let view: Value = serde_json::from_str(&shown.out).unwrap_or_default();
            shown.code == 0 && view["state"] == "ready" && view["connected"] == true
        });
    }

    /// Starts an agent and does not wait.
    pub(crate) fn agent_unready(&mut self, node: &str, more: &[&str]) {
        self.agent_in(node, node, more);
    }

    /// Starts an agent with a directory, and thus an identity, of its own.
    pub(crate) fn agent_in(&mut self, dir: &str, node: &str, more: &[&str]) {
        let token = self.data().join("token");
        self.agent_with(dir, node, token.to_str().unwrap(), more);
    }

    /// Starts an agent with a token of its own.
    pub(crate) fn agent_with(&mut self, dir: &str, node: &str, token: &str, more: &[&str]) {
        let data = self.path(dir);
        let mut args = vec!["agent", "--server", &self.url, "--token-file", token];
        args.extend(["--node", node, "--data-dir", data.to_str().unwrap()]);
        args.extend(more);
        let process = self.process(dir, &args);
        self.agents.push((dir.to_owned(), process));
    }

    pub(crate) fn agent_process(&mut self, node: &str) -> Process {
        let place = self.agents.iter().position(|(name, _)| name == node).unwrap();
        self.agents.remove(place).1
    }

    /// The binary with nothing of the caller's environment but what a shell gives.
    pub(crate) fn command(&self) -> Command {
        self.command_of(Path::new(BINARY))
    }

    /// The binary where the server is.
    pub(crate) fn command_inside(&self) -> Command {
        let Some((namespace, _)) = &self.inside else { return self.command() };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, BINARY]);
        self.dressed(command)
    }

    fn command_of(&self, binary: &Path) -> Command {
        self.dressed(Command::new(binary))
    }

    fn dressed(&self, mut command: Command) -> Command {
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("LANDFALL_CONFIG", self.path("config.toml"))
            .env("LANDFALL_DATA_DIR", self.data())
            .env("LANDFALL_SERVER", &self.url)
            // Other tests keep this machine busy, and peers would offer nothing.
            .env("LANDFALL_PEER_MEASURED_LOAD", "false")
            .current_dir(self.dir.path());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Said {
        let mut command = self.command();
        if self.url.is_empty() {
            command.env_remove("LANDFALL_SERVER");
        }
        Said::of(command.args(args).stdin(Stdio::null()).output().unwrap())
    }

    /// Runs a command with `--json` and reads its answer.
    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let mut all = vec!["--json"];
        all.extend(args);
        let said = self.run(&all);
        let out = said.ok();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error} in {out}"))
    }

    /// Submits and gives the id.
    #[track_caller]
    pub(crate) fn submit(&self, args: &[&str]) -> String {
        let mut all = vec!["submit"];
        all.extend(args);
        let answer = self.json(&all);
        answer["jobs"][0]["id"].as_str().unwrap_or_else(|| panic!("no id in {answer}")).to_owned()
    }

    /// Where a job stands.
    #[track_caller]
    pub(crate) fn job(&self, id: &str) -> Value {
        self.json(&["job", id])
    }

    /// How many elements of an array are where.
    #[track_caller]
    pub(crate) fn array(&self, id: &str) -> Value {
        self.json(&["job", id])
    }

    /// Where a node stands.
    #[track_caller]
    pub(crate) fn node(&self, id: &str) -> Value {
        self.json(&["node", id])
    }

    /// Waits until a job is in one of the states, and gives it.
    #[track_caller]
    pub(crate) fn wait_for(&self, id: &str, states: &[&str]) -> Value {
        let mut last = Value::Null;
        self.until(&format!("job {id} is {states:?}"), || {
            last = self.job(id);
            states.iter().any(|state| last["state"] == *state)
        });
        last
    }

    /// Asks the API itself.
    #[track_caller]
    pub(crate) fn get(&self, token: &str, path: &str) -> Value {
        self.request(token, "GET", path, None)
    }

    /// Sends something to the API itself.
    #[track_caller]
    pub(crate) fn post(&self, token: &str, path: &str, body: &Value) -> Value {
        self.request(token, "POST", path, Some(body))
    }

    #[track_caller]
    fn request(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Value {
        serde_json::from_str(&self.ask(token, method, &format!("/api/v1{path}"), body)).unwrap()
    }

    /// What the server counts.
    #[track_caller]
    pub(crate) fn metrics(&self) -> String {
        let token = std::fs::read_to_string(self.data().join("token")).unwrap();
        self.ask(&token, "GET", "/metrics", None)
    }

    #[track_caller]
    fn ask(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> String {
        let (status, text) = self.send(token, method, path, &[], body.map(json_body));
        assert!((200..300).contains(&status), "{method} {path}: {status} {text}");
        text
    }

    /// Says something to the API, or to one of the few routes beside it, and gives the status and what was answered.
    pub(crate) fn says(
        &self,
        token: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> (u16, Value) {
        let path = if path == "/readyz" { path.to_owned() } else { format!("/api/v1{path}") };
        let (status, text) = self.send(token, method, &path, headers, body.map(json_body));
        (status, serde_json::from_str(&text).unwrap_or_default())
    }

    /// The status and the headers of something that is no JSON.
    pub(crate) fn page(&self, token: &str, path: &str) -> (u16, Vec<(String, String)>) {
        let url = format!("{}{path}", self.url);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let answer = client.get(&url).bearer_auth(token.trim()).send().await.unwrap();
            let text = |value: &reqwest::header::HeaderValue| value.to_str().unwrap_or_default().to_owned();
            let headers = answer.headers().iter().map(|(name, value)| (name.to_string(), text(value)));
            (answer.status().as_u16(), headers.collect())
        })
    }

    /// Sends lines of JSON, and gives the lines of the answer.
    pub(crate) fn says_lines(&self, path: &str, headers: &[(&str, &str)], lines: &[String]) -> Vec<Value> {
        let token = std::fs::read_to_string(self.data().join("token")).unwrap();
        let body = ("application/x-ndjson", lines.join("\n"));
        let (status, text) = self.send(&token, "POST", &format!("/api/v1{path}"), headers, Some(body));
        assert_eq!(status, 200, "{text}");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn send(
        &self,
        token: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<(&str, String)>,
    ) -> (u16, String) {
        let url = format!("{}{path}", self.url);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            // The provider may be set already.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let mut request = client.request(method.parse().unwrap(), &url).bearer_auth(token.trim());
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            if let Some((kind, body)) = body {
                request = request.header("content-type", kind).body(body);
            }
            let answer = request.send().await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        })
    }

    /// Waits until something is so.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !so() {
            if began.elapsed() > PATIENCE {
                let logs: String = std::fs::read_dir(self.dir.path())
                    .unwrap()
                    .flatten()
                    .filter(|entry| entry.path().extension().is_some_and(|kind| kind == "log"))
                    .map(|entry| format!("\n--- {:?}\n{}", entry.file_name(), tail(&entry.path())))
                    .collect();
                panic!("it is never so that {what}{logs}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Sends a signal, and tells whether there was somebody to take it.
pub(crate) fn signal(pid: &str, name: &str) -> bool {
    let sent = Command::new("kill").args([&format!("-{name}"), pid.trim()]).stderr(Stdio::null()).status();
    sent.is_ok_and(|status| status.success())
}

/// Ends the keepers below a directory, and with them the jobs that they keep.
pub(crate) fn end_keepers(below: &Path) {
    let below = below.display().to_string();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if line.contains(" keeper ") && line.contains(&below) {
            // First the keeper: it must not see how its jobs end.
            let children = children(pid);
            signal(&pid.to_string(), "KILL");
            for child in children {
                let _ = Command::new("kill").args(["-KILL", "--", &format!("-{child}")]).status();
            }
        }
    }
}

fn children(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.agents.clear();
        self.server = None;
        end_keepers(self.dir.path());
    }
}

fn tail(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// A body as it is sent.
fn json_body(body: &Value) -> (&'static str, String) {
    ("application/json", body.to_string())
}
