//! The clients of a storm: they submit under keys, repeat what was not answered, follow what was, and remember all of it.
//!
//! A client repeats a submission under the same key until it is acknowledged, and sometimes once more afterwards. What it was
//! told is in the [`Book`]; the checker compares it with what ran and what the server says in the end.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use landfall_client::{Client, ClientError, Settings};
use landfall_testkit::Rng;
use serde_json::{Value, json};

use super::world::{World, now};

/// Clients that speak HTTP, and those that use the command line.
const CLIENTS: u64 = 4;
const COMMAND_LINES: u64 = 2;
/// Jobs of one client that have not ended.
const OPEN_MAX: usize = 10;

#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) id: String,
    /// Whether it was submitted with `--retries 0`.
    pub(super) once: bool,
    /// When it was sent first, and when a client was told that it is there. The command line tells when it has ended.
    pub(super) sent: f64,
    pub(super) acknowledged: f64,
    /// When a client saw it ended first, and how.
    pub(super) ended: Option<(f64, String)>,
    /// Whether a restore had forgotten it under another id.
    pub(super) was_forgotten: bool,
}

/// What was asked for.
#[derive(Debug, Clone)]
struct Asked {
    key: String,
    once: bool,
    pool: &'static str,
    tenths: u64,
    sent: f64,
}

/// What clients were told.
#[derive(Default)]
pub(super) struct Book {
    pub(super) records: Mutex<BTreeMap<String, Record>>,
    /// From when a backup was begun until a server went on from it.
    pub(super) restores: Mutex<Vec<(f64, f64)>>,
    /// What should never have been said.
    pub(super) wrong: Mutex<Vec<String>>,
    /// Submissions whose acknowledged job a restore has forgotten; they were submitted again.
    pub(super) forgotten: AtomicUsize,
    /// Submissions that were sent again after they had been acknowledged.
    pub(super) repeated: AtomicUsize,
    over: AtomicBool,
}

impl Book {
    pub(super) fn is_wrong(&self, what: String) {
        eprintln!("WRONG: {what}");
        self.wrong.lock().unwrap().push(what);
    }

    /// Whether a restore may have taken away what was said at that time.
    pub(super) fn may_be_forgotten(&self, at: f64) -> bool {
        // An answer may be read a little after the server that gave it is gone.
        self.restores.lock().unwrap().iter().any(|(from, to)| (*from..=*to + 1.0).contains(&at))
    }

    fn acknowledge(&self, asked: &Asked, id: &str) {
        let mut records = self.records.lock().unwrap();
        let known = records.get(&asked.key).cloned();
        let (id, was_forgotten) = (id.to_owned(), known.is_some());
        let (once, sent) = (asked.once, asked.sent);
        let new = Record { id, once, sent, acknowledged: now(), ended: None, was_forgotten };
        match known {
            Some(known) if known.id == new.id => {}
            Some(known) if !self.may_be_forgotten(known.acknowledged) => {
                drop(records);
                self.is_wrong(format!("{} became job {} and then job {}", asked.key, known.id, new.id));
            }
            _ => {
                records.insert(asked.key.clone(), new);
            }
        }
    }

    fn see(&self, key: &str, job: &Value) {
        let state = job["state"].as_str().unwrap_or_default().to_owned();
        if job["name"] != key {
            self.is_wrong(format!("{key} is shown as {job}"));
        }
        let mut records = self.records.lock().unwrap();
        if let Some(record) = records.get_mut(key)
            && is_final(&state)
            && job["id"] == record.id.as_str()
        {
            record.ended.get_or_insert((now(), state));
        }
    }
}

pub(super) fn is_final(state: &str) -> bool {
    matches!(state, "completed" | "failed" | "cancelled")
}

/// Draws jobs; no two have the same key.
struct Drawing {
    random: Rng,
    who: String,
    count: u64,
}

impl Drawing {
    fn next(&mut self) -> Asked {
        self.count += 1;
        let long = self.random.chance(15);
        Asked {
            key: format!("{}-{}", self.who, self.count),
            once: self.random.chance(40),
            pool: self.random.choose(&["push", "push", "pull"]),
            tenths: if long { self.random.within(30, 120) } else { self.random.within(0, 15) },
            sent: now(),
        }
    }

    fn pause(&mut self) -> Duration {
        Duration::from_millis(self.random.within(50, 900))
    }
}

#[derive(Clone)]
pub(super) struct Load {
    pub(super) book: Arc<Book>,
    pub(super) client: Client,
    runs: String,
}

impl Load {
    pub(super) fn new(world: &World) -> Self {
        let mut settings =
            Settings::new(&world.url).token(std::fs::read_to_string(world.token()).unwrap().trim());
        settings.timeout = Duration::from_secs(4);
        let client = Client::new(&settings).unwrap();
        Self { book: Arc::default(), client, runs: world.runs().display().to_string() }
    }

    /// What a job does: it leaves a line where it begins and where it ends, and says the same in its log.
    fn script(&self, asked: &Asked) -> String {
        let says = |what: &str| {
            let key = &asked.key;
            format!(
                "echo {what} {key} $LANDFALL_JOB_ID $LANDFALL_ATTEMPT $LANDFALL_NODE_ID $EPOCHREALTIME >> {}; \
                 echo {key} {what} $LANDFALL_ATTEMPT",
                self.runs
            )
        };
        format!("{}; sleep {}.{}; {}", says("begin"), asked.tenths / 10, asked.tenths % 10, says("end"))
    }

    fn request(&self, asked: &Asked) -> Value {
        let needs = json!({ "cpu_milli": 500, "pool": asked.pool, "max_requeue": retries(asked) });
        json!({ "name": asked.key, "needs": needs, "run": { "command": ["bash", "-c", self.script(asked)] } })
    }

    /// Sends a submission until it is acknowledged.
    async fn submit(&self, asked: &Asked) {
        loop {
            let sent = self.client.post_once::<Value>("/jobs", &asked.key, &self.request(asked)).await;
            match sent {
                Ok(answer) => return self.book.acknowledge(asked, answer["id"].as_str().unwrap()),
                Err(error) if passes(&error) => tokio::time::sleep(Duration::from_millis(200)).await,
                Err(error) => return self.book.is_wrong(format!("{} is refused: {error}", asked.key)),
            }
        }
    }

    /// Follows a job to its end; one that a restore has forgotten is submitted again.
    async fn follow(&self, asked: &Asked) {
        while !self.book.over.load(Ordering::Relaxed) {
            let Some(record) = self.book.records.lock().unwrap().get(&asked.key).cloned() else { return };
            match self.client.get::<Value>(&format!("/jobs/{}", record.id)).await {
                Ok(job) => {
                    self.book.see(&asked.key, &job);
                    if is_final(job["state"].as_str().unwrap_or_default()) {
                        return;
                    }
                }
                Err(ClientError::Refused { status: 404, .. }) => {
                    if !self.book.may_be_forgotten(record.acknowledged) {
                        let (key, id) = (&asked.key, record.id);
                        return self.book.is_wrong(format!("{key} was acknowledged as job {id} and is lost"));
                    }
                    self.book.forgotten.fetch_add(1, Ordering::Relaxed);
                    self.submit(asked).await;
                }
                Err(error) if passes(&error) => {}
                Err(error) => {
                    return self.book.is_wrong(format!("{} cannot be followed: {error}", asked.key));
                }
            }
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
    }

    /// Submits under load until the storm is over.
    async fn speak(self, mut drawing: Drawing) {
        let open = Arc::new(AtomicUsize::new(0));
        while !self.book.over.load(Ordering::Relaxed) {
            if open.load(Ordering::Relaxed) < OPEN_MAX {
                let asked = drawing.next();
                self.submit(&asked).await;
                if drawing.random.one_in(8) {
                    self.book.repeated.fetch_add(1, Ordering::Relaxed);
                    self.submit(&asked).await;
                }
                open.fetch_add(1, Ordering::Relaxed);
                let (load, open) = (self.clone(), Arc::clone(&open));
                tokio::spawn(async move {
                    load.follow(&asked).await;
                    open.fetch_sub(1, Ordering::Relaxed);
                });
            }
            tokio::time::sleep(drawing.pause()).await;
        }
    }

    /// The same with `landfall submit --wait`, which comes back while the server is away.
    async fn type_in(self, mut drawing: Drawing, binary: impl Fn() -> std::process::Command) {
        while !self.book.over.load(Ordering::Relaxed) {
            let asked = drawing.next();
            let retries = retries(&asked).to_string();
            loop {
                let mut command = tokio::process::Command::from(binary());
                command.args(["--json", "submit", "--wait", "--idempotency-key", &asked.key]);
                command.args(["--name", &asked.key, "--pool", asked.pool, "--cpu", "0.5"]);
                command.args(["--retries", &retries, "--", "bash", "-c", &self.script(&asked)]);
                let output = command.stdin(Stdio::null()).output().await.unwrap();
                let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
                if let Some(id) = answer["ids"][0].as_str() {
                    self.book.acknowledge(&asked, id);
                    self.book.see(&asked.key, &answer["jobs"][0]);
                    break;
                }
                // Not acknowledged, or not to the end: the same again.
                let error = String::from_utf8_lossy(&output.stderr).into_owned();
                if !(matches!(output.status.code(), Some(4 | 6 | 7)) || error.contains("journal")) {
                    let (key, code) = (&asked.key, output.status.code());
                    self.book.is_wrong(format!("submit --wait of {key} ended with {code:?}: {error}"));
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            tokio::time::sleep(drawing.pause()).await;
        }
    }

    /// Starts all clients; they end some time after [`Self::end`].
    pub(super) fn begin(&self, world: &World, seed: u64) -> Vec<tokio::task::JoinHandle<()>> {
        let drawing = |who: u64| Drawing {
            random: Rng::new(seed ^ (who + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            who: format!("c{who}"),
            count: 0,
        };
        let speaking = (0..CLIENTS).map(|who| tokio::spawn(self.clone().speak(drawing(who))));
        let typing = (CLIENTS..CLIENTS + COMMAND_LINES).map(|who| {
            let template = world.binary();
            let copy = move || {
                let mut command = std::process::Command::new(template.get_program());
                command.env_clear().envs(template.get_envs().filter_map(|(key, value)| Some((key, value?))));
                command
            };
            tokio::spawn(self.clone().type_in(drawing(who), copy))
        });
        speaking.chain(typing).collect()
    }

    pub(super) fn end(&self) {
        self.book.over.store(true, Ordering::Relaxed);
    }

    /// All jobs that the server knows, or nothing if it does not answer.
    pub(super) async fn all(&self) -> Option<Vec<Value>> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let page: Value = self.client.get(&format!("/jobs?limit=1000{cursor}")).await.ok()?;
            all.extend(page["items"].as_array()?.iter().cloned());
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Some(all),
            }
        }
    }

    /// Submits again what a restore has forgotten and nobody has followed since.
    pub(super) async fn submit_forgotten(&self, known: &[Value]) {
        let records = self.book.records.lock().unwrap().clone();
        for (key, record) in records {
            let there = known.iter().any(|job| job["id"] == record.id.as_str());
            if !there && self.book.may_be_forgotten(record.acknowledged) {
                self.book.forgotten.fetch_add(1, Ordering::Relaxed);
                self.submit(&Asked { key, once: record.once, pool: "push", tenths: 0, sent: now() }).await;
            }
        }
    }
}

fn retries(asked: &Asked) -> u32 {
    if asked.once { 0 } else { 100 }
}

/// Whether the same request may be answered later: the server is away, busy, or cannot store.
fn passes(error: &ClientError) -> bool {
    error.may_pass() || matches!(error, ClientError::Refused { status: 507, .. })
}
