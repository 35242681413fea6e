//! A server for tests: it speaks the protocol over HTTP, hands out what the test says and keeps what the agent says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post, put};
use base64::Engine as _;
use futures::StreamExt as _;
use landfall_agent::Config;
use landfall_api::agent::{
    Ask, Asked, Command, Fetches, LogPieces, LogsKept, Probed, ReportAnswers, ReportItem, Reports, Share,
    Start,
};
use landfall_api::job::RunSpec;
use landfall_api::node::{Heard, Heartbeat, Registered, Registration};
use landfall_model::JobId;
use landfall_model::life::Fence;
use landfall_model::life::Report;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How long a test waits for something before it fails. Machines are slow at times; a hang is a failure all the same.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the agent said.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) registrations: Vec<Registration>,
    pub(crate) heartbeats: Vec<Heartbeat>,
    pub(crate) reports: Vec<ReportItem>,
    pub(crate) logs: BTreeMap<(String, u32, String), Vec<u8>>,
    pub(crate) probes: Vec<bool>,
    pub(crate) fetches: Vec<Fetches>,
    /// Commands that a pull worker gets when it asks.
    pub(crate) work: Vec<Start>,
    pub(crate) lines: Option<mpsc::UnboundedSender<Command>>,
    /// Whether reports are answered with an error.
    pub(crate) deaf: bool,
    /// Output cannot be stored.
    pub(crate) log_disk_full: bool,
    /// How often it could not.
    pub(crate) logs_refused: u32,
    pub(crate) requests: u64,
    /// Which journal it has, and what it adopts of another.
    pub(crate) journal: String,
    pub(crate) adopted: Vec<Fence>,
    /// The journals that reports were about.
    pub(crate) about: Vec<String>,
}

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) said: Arc<Mutex<Said>>,
    pub(crate) dispatch: &'static str,
    pub(crate) url: String,
}

pub(crate) const TOKEN: &str = "very-secret-token";

impl Server {
    pub(crate) async fn start(dispatch: &'static str) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("address"));
        let server = Self { said: Arc::default(), dispatch, url };
        let routes = axum::Router::new()
            .route("/api/v1/nodes/{id}/registration", put(register))
            .route("/api/v1/nodes/{id}/heartbeat", post(heartbeat))
            .route("/api/v1/nodes/{id}/commands", get(commands))
            .route("/api/v1/nodes/{id}/reports", post(reports))
            .route("/api/v1/nodes/{id}/ask", post(ask))
            .route("/api/v1/nodes/{id}/fetches", post(fetches))
            .route("/api/v1/nodes/{id}/logs", post(logs))
            .route("/api/v1/nodes/{id}/probe", post(probe))
            .with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        server
    }

    pub(crate) fn said(&self) -> std::sync::MutexGuard<'_, Said> {
        self.said.lock().expect("no test panics here")
    }

    /// Sends a command once the agent listens.
    pub(crate) async fn send(&self, command: Command) {
        self.until("the agent listens", |said| {
            said.lines.as_ref().is_some_and(|lines| lines.send(command.clone()).is_ok()).then_some(())
        })
        .await;
    }

    pub(crate) async fn start_job(&self, start: &Start) {
        self.send(Command::Start(Box::new(start.clone()))).await;
    }

    /// Waits until something is so.
    pub(crate) async fn until<T>(&self, what: &str, mut look: impl FnMut(&mut Said) -> Option<T>) -> T {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look(&mut self.said()) {
                return found;
            }
            // Not inside the message: a guard that is held in a panic would make every handler panic as well.
            let late = (tokio::time::Instant::now() >= deadline).then(|| self.said().reports.clone());
            assert!(late.is_none(), "waited in vain until {what}; {late:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits for a report about an attempt.
    pub(crate) async fn report(&self, fence: &Fence, wanted: impl Fn(&Report) -> bool) -> Report {
        self.until(&format!("there is a report about {fence}"), |said| {
            let found = said.reports.iter().find(|item| {
                item.fence.job == fence.job && item.fence.attempt == fence.attempt && wanted(&item.report)
            });
            found.map(|item| item.report.clone())
        })
        .await
    }

    /// Waits for the end of a job and returns its exit code.
    pub(crate) async fn exit_code(&self, fence: &Fence) -> i32 {
        match self.report(fence, is_exit).await {
            Report::Exited { code, .. } => code,
            other => panic!("{other:?}"),
        }
    }

    /// Starts a job, waits for its end and returns its exit code.
    pub(crate) async fn run(&self, start: &Start) -> i32 {
        self.start_job(start).await;
        self.exit_code(&start.fence).await
    }

    /// What the agent says is running in its next registration after so many.
    pub(crate) async fn named_after(&self, registrations: usize) -> Vec<Fence> {
        let named = |said: &mut Said| Some(said.registrations.get(registrations)?.heartbeat.running.clone());
        self.until("it registers again", named).await
    }

    /// What a job wrote, so far.
    pub(crate) fn output(&self, fence: &Fence, stream: &str) -> String {
        let at = (fence.job.as_str().to_owned(), fence.attempt, stream.to_owned());
        String::from_utf8_lossy(self.said().logs.get(&at).map_or(&[], Vec::as_slice)).into_owned()
    }
}

pub(crate) fn is_exit(report: &Report) -> bool {
    matches!(report, Report::Exited { .. })
}

fn allowed(headers: &HeaderMap) -> Result<(), (StatusCode, Json<Value>)> {
    let good = headers.get("authorization").is_some_and(|value| value == &format!("Bearer {TOKEN}"));
    let error = json!({"code": "unauthorized", "message": "the token is unknown"});
    if good { Ok(()) } else { Err((StatusCode::UNAUTHORIZED, Json(error))) }
}

type Answer<T> = Result<Json<T>, (StatusCode, Json<Value>)>;

async fn register(
    State(server): State<Server>,
    headers: HeaderMap,
    Json(said): Json<Registration>,
) -> Answer<Registered> {
    allowed(&headers)?;
    let mut known = server.said();
    known.registrations.push(said);
    Ok(Json(Registered {
        pool: "main".into(),
        dispatch: server.dispatch.into(),
        heartbeat_interval_ms: 200,
        server_epoch: 1,
        approval: "approved".into(),
        journal: known.journal.clone(),
        adopted: known.adopted.clone(),
        server_time_ms: None,
    }))
}

/// Refuses what is about another journal.
fn here(server: &Server, headers: &HeaderMap) -> Result<(), (StatusCode, Json<Value>)> {
    let mut said = server.said();
    let named = headers.get("landfall-journal").map(|value| value.to_str().expect("text").to_owned());
    let Some(named) = named.filter(|_| !said.journal.is_empty()) else { return Ok(()) };
    if named != said.journal {
        let error = json!({"code": "other_journal", "message": "this is about another journal"});
        return Err((StatusCode::CONFLICT, Json(error)));
    }
    said.about.push(named);
    Ok(())
}

async fn heartbeat(
    State(server): State<Server>,
    headers: HeaderMap,
    Json(beat): Json<Heartbeat>,
) -> Answer<Heard> {
    here(&server, &headers)?;
    server.said().heartbeats.push(beat);
    Ok(Json(Heard { status: "ok".into(), server_time_ms: None }))
}

async fn commands(
    State(server): State<Server>,
    headers: HeaderMap,
) -> Result<Body, (StatusCode, Json<Value>)> {
    allowed(&headers)?;
    here(&server, &headers)?;
    let (lines, receiver) = mpsc::unbounded_channel::<Command>();
    server.said().lines = Some(lines);
    let stream = futures::stream::unfold(receiver, |mut receiver| async {
        let mut batch = Vec::new();
        if receiver.recv_many(&mut batch, 100).await == 0 {
            return None;
        }
        let mut text = Vec::new();
        for command in batch {
            serde_json::to_writer(&mut text, &command).expect("JSON");
            text.push(b'\n');
        }
        Some((Bytes::from(text), receiver))
    });
    Ok(Body::from_stream(stream.map(Ok::<_, std::convert::Infallible>)))
}

async fn reports(
    State(server): State<Server>,
    headers: HeaderMap,
    Json(new): Json<Reports>,
) -> Answer<ReportAnswers> {
    here(&server, &headers)?;
    let mut said = server.said();
    said.requests += 1;
    if said.deaf {
        let error = json!({"code": "unavailable", "message": "not now"});
        return Err((StatusCode::SERVICE_UNAVAILABLE, Json(error)));
    }
    let answers = new.reports.iter().map(|_| "done".to_owned()).collect();
    said.reports.extend(new.reports);
    let granted = grant(&mut said, new.ask).len() as u32;
    Ok(Json(ReportAnswers { answers, granted }))
}

fn grant(said: &mut Said, slots: u32) -> Vec<Fence> {
    let count = said.work.len().min(slots as usize);
    let work: Vec<Start> = said.work.drain(..count).collect();
    let fences = work.iter().map(|start| start.fence.clone()).collect();
    for start in work {
        if let Some(lines) = &said.lines {
            lines.send(Command::Start(Box::new(start))).expect("the agent listens");
        }
    }
    fences
}

async fn ask(State(server): State<Server>, Json(ask): Json<Ask>) -> Answer<Asked> {
    Ok(Json(Asked { granted: grant(&mut server.said(), ask.slots), reason: None }))
}

async fn fetches(State(server): State<Server>, Json(new): Json<Fetches>) -> Answer<Value> {
    server.said().fetches.push(new);
    Ok(Json(json!({})))
}

async fn logs(
    State(server): State<Server>,
    headers: HeaderMap,
    Json(new): Json<LogPieces>,
) -> Answer<LogsKept> {
    here(&server, &headers)?;
    let mut said = server.said();
    if said.log_disk_full {
        said.logs_refused += 1;
        let error = json!({"code": "storage", "message": "no space left on device"});
        return Err((StatusCode::INSUFFICIENT_STORAGE, Json(error)));
    }
    let mut next = Vec::new();
    for piece in new.pieces {
        let data = base64::engine::general_purpose::STANDARD.decode(&piece.data).expect("base64");
        let kept = said
            .logs
            .entry((piece.fence.job.as_str().to_owned(), piece.fence.attempt, piece.stream))
            .or_default();
        let offset = usize::try_from(piece.offset).expect("small");
        // What is there already is kept once; a hole would be a mistake of the agent.
        assert!(offset <= kept.len(), "a hole: {offset} after {}", kept.len());
        let known = kept.len() - offset;
        kept.extend_from_slice(data.get(known..).unwrap_or_default());
        next.push(kept.len() as u64);
    }
    Ok(Json(LogsKept { next }))
}

async fn probe(State(server): State<Server>, Json(probed): Json<Probed>) -> Answer<Value> {
    server.said().probes.push(probed.good);
    Ok(Json(json!({})))
}

/// An agent inside the test, with a directory of its own.
pub(crate) struct Agent {
    pub(crate) dir: tempfile::TempDir,
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), landfall_agent::AgentError>>,
}

/// The helper program of this crate.
pub(crate) fn helper() -> PathBuf {
    env!("CARGO_BIN_EXE_landfall-agent-helper").into()
}

pub(crate) fn config(server: &Server, dir: &Path) -> Config {
    let mut config = Config::new(&server.url, dir);
    config.token = Some(TOKEN.into());
    config.node_id = "n1".into();
    config.core_score = Some(100);
    config.helper = Some(helper());
    config
}

impl Agent {
    pub(crate) fn start(server: &Server) -> Self {
        Self::start_with(server, |_| {})
    }

    pub(crate) fn start_with(server: &Server, change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let mut config = config(server, dir.path());
        change(&mut config);
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(landfall_agent::run(config, shutdown.clone()));
        Self { dir, shutdown, task }
    }

    /// Ends the agent in order.
    pub(crate) async fn stop(self) -> (tempfile::TempDir, Result<(), landfall_agent::AgentError>) {
        self.shutdown.cancel();
        let result = self.task.await.expect("no panic");
        (self.dir, result)
    }

    /// Waits until the agent ends by itself.
    pub(crate) async fn end(self) -> Result<(), landfall_agent::AgentError> {
        tokio::time::timeout(PATIENCE, self.task).await.expect("it ends").expect("no panic")
    }
}

/// A server whose pool is pushed to, and its agent.
pub(crate) async fn up() -> (Server, Agent) {
    let server = Server::start("push").await;
    let agent = Agent::start(&server);
    (server, agent)
}

pub(crate) fn fence(job: &str, attempt: u32) -> Fence {
    Fence { job: JobId::new(job).expect("id"), attempt, epoch: 1 }
}

pub(crate) fn job(name: &str, command: &[&str]) -> Start {
    Start {
        fence: fence(name, 1),
        name: Some(name.to_owned()),
        runtime: "process".to_owned(),
        run: RunSpec {
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            ..RunSpec::default()
        },
        share: Share::default(),
        pool: "main".to_owned(),
        tenant: None,
        array: None,
        nodes: Vec::new(),
        resume: false,
        walltime_ms: None,
        stop_after_silence_ms: None,
        sent_at_ms: None,
        inputs: Vec::new(),
        ahead: false,
        task: None,
        expected_milli_tok_s: None,
    }
}

pub(crate) fn shell(name: &str, script: &str) -> Start {
    job(name, &["sh", "-c", script])
}
