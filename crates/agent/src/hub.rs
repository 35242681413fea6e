//! What the tasks of an agent share, and how actions are carried out.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use landfall_api::agent::{Command, Fetches, Probed, ReportItem};
use landfall_api::node::{Heartbeat, Limits, NODE_TAKEN, Registration};
use landfall_client::{Client, ClientError};
use landfall_model::JobId;
use landfall_model::life::{Failure, Fence, Report};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::attend::Attended;
use crate::config::Config;
use crate::error::AgentError;
use crate::jobs::{Action, Jobs};
use crate::keeper::procfs;
use crate::keeper::wire::{Ended, Request};
use crate::layout::Layout;
use crate::logs::Writing;
use crate::probe::Machine;
use crate::probe::ewma;
use crate::reporter::Told;
use crate::runtime::{llm, wasm};

/// How much of the end of a model's output is searched for its figures.
const FIGURES_BYTES: u64 = 16 << 10;
/// Shorter runs tell nothing about speed.
const RUN_MS_MIN: u64 = 5000;

/// How often it is looked whether what ran for another journal has ended.
const FOREIGN_LOOK: Duration = Duration::from_millis(10);
/// How often the keeper hears of the server at most.
const HEARD_EVERY: Duration = Duration::from_millis(100);

/// Everything that the tasks share.
pub(crate) struct Hub {
    pub(crate) config: Config,
    pub(crate) layout: Layout,
    pub(crate) helper: PathBuf,
    pub(crate) client: Client,
    pub(crate) epoch: u64,
    seq: AtomicU64,
    jobs: Mutex<Jobs>,
    machine: Mutex<Machine>,
    keeper: Mutex<Option<mpsc::UnboundedSender<Request>>>,
    /// Which limits of jobs bind here, as the keeper says.
    limits: Mutex<Option<Limits>>,
    reports: mpsc::UnboundedSender<Told>,
    logs: mpsc::UnboundedSender<Writing>,
    /// What people type for jobs.
    attended: Attended,
    /// When the server last answered.
    heard: Mutex<Instant>,
    /// Reports and output that the server has not stored yet.
    pub(crate) unsent: AtomicU64,
    /// Wakes whoever waits for all of that to be stored.
    pub(crate) sent: Notify,
    /// Wakes whoever asks for work.
    pub(crate) ask: Notify,
    /// Wakes the session when it has to begin anew.
    pub(crate) rejoin: Notify,
    /// Ends the agent with an error.
    pub(crate) fatal: Mutex<Option<AgentError>>,
    pub(crate) over: CancellationToken,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the other tasks listen.
pub(crate) struct Ends {
    pub(crate) reports: mpsc::UnboundedReceiver<Told>,
    pub(crate) logs: mpsc::UnboundedReceiver<Writing>,
}

impl Hub {
    pub(crate) fn new(
        config: Config,
        layout: Layout,
        helper: PathBuf,
        client: Client,
        epoch: u64,
        jobs: Jobs,
        machine: Machine,
    ) -> (Self, Ends) {
        let (reports, reports_end) = mpsc::unbounded_channel();
        let (logs, logs_end) = mpsc::unbounded_channel();
        let hub = Self {
            config,
            layout,
            helper,
            client,
            epoch,
            seq: AtomicU64::new(0),
            jobs: Mutex::new(jobs),
            machine: Mutex::new(machine),
            keeper: Mutex::new(None),
            limits: Mutex::new(None),
            reports,
            logs,
            attended: Attended::default(),
            heard: Mutex::new(Instant::now()),
            unsent: AtomicU64::new(0),
            sent: Notify::new(),
            ask: Notify::new(),
            rejoin: Notify::new(),
            fatal: Mutex::new(None),
            over: CancellationToken::new(),
        };
        (hub, Ends { reports: reports_end, logs: logs_end })
    }

    pub(crate) fn jobs(&self) -> MutexGuard<'_, Jobs> {
        lock(&self.jobs)
    }

    pub(crate) fn machine(&self) -> MutexGuard<'_, Machine> {
        lock(&self.machine)
    }

    pub(crate) fn node(&self) -> &str {
        &self.config.node_id
    }

    /// Where requests to the keeper go from now on.
    pub(crate) fn set_keeper(&self, requests: Option<mpsc::UnboundedSender<Request>>) {
        *lock(&self.keeper) = requests;
    }

    pub(crate) fn keeper(&self, request: Request) {
        if let Some(keeper) = &*lock(&self.keeper) {
            let _ = keeper.send(request);
        }
    }

    pub(crate) fn heard(&self) {
        let before = std::mem::replace(&mut *lock(&self.heard), Instant::now());
        if before.elapsed() >= HEARD_EVERY && self.jobs().shortest_silence().is_some() {
            self.keeper(Request::Heard);
        }
    }

    /// How long the server has not answered.
    pub(crate) fn silent_for(&self) -> Duration {
        lock(&self.heard).elapsed()
    }

    /// Something that the server will not forgive ends the agent.
    pub(crate) fn fail(&self, error: AgentError) {
        lock(&self.fatal).get_or_insert(error);
        self.over.cancel();
    }

    /// Whether an error of the server ends the agent. Then it does.
    pub(crate) fn is_fatal(&self, error: ClientError) -> Option<ClientError> {
        let taken = error.api().is_some_and(|api| api.code == NODE_TAKEN);
        if taken || matches!(error, ClientError::Forbidden { .. }) {
            self.fail(AgentError::Refused(error));
            return None;
        }
        Some(error)
    }

    pub(crate) fn on_command(self: &std::sync::Arc<Self>, command: Command) {
        let actions = self.jobs().on_command(command, Instant::now());
        self.carry_out(actions);
    }

    pub(crate) fn report(&self, item: ReportItem) {
        self.unsent.fetch_add(1, Ordering::Relaxed);
        let _ = self.reports.send(Told::Report(item));
    }

    /// So many things are stored now.
    pub(crate) fn stored(&self, count: u64) {
        if self.unsent.fetch_sub(count, Ordering::Relaxed) == count {
            self.sent.notify_waiters();
        }
    }

    /// Waits until everything is stored, but not for ever.
    pub(crate) async fn all_stored(&self, within: Duration) -> bool {
        let wait = async {
            loop {
                let sent = self.sent.notified();
                if self.unsent.load(Ordering::Relaxed) == 0 {
                    return;
                }
                // Woken as well when nobody woke it: the count may fall between the look and the wait.
                let _ = tokio::time::timeout(Duration::from_millis(50), sent).await;
            }
        };
        tokio::time::timeout(within, wait).await.is_ok()
    }

    pub(crate) fn carry_out(self: &std::sync::Arc<Self>, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Keeper(request) => self.keeper(request),
                Action::Track(fence, shipped) => {
                    let attended = self.jobs().is_attended(&fence);
                    let _ = self.logs.send(Writing::Track(fence, shipped, attended));
                }
                Action::Type(fence, typed) => self.attended.pass_on(self, &fence, &typed),
                Action::Report(item) => self.report(item),
                Action::End { ended, report } => self.on_end(&ended, report),
                Action::Refuse { report, why } => {
                    self.unsent.fetch_add(1, Ordering::Relaxed);
                    let _ = self.logs.send(Writing::Refused(report, why));
                }
                Action::PrepareCheckpoint(job) => self.prepare_checkpoint(&job),
                Action::MarkSaved(job) => {
                    let mark = self.layout.saved_mark(job.as_str());
                    if let Err(error) = std::fs::write(&mark, "") {
                        tracing::warn!(%error, mark = %mark.display(), "cannot mark a checkpoint");
                    }
                }
                Action::Notice(job, in_ms) => {
                    let path = self.layout.checkpoint(job.as_str());
                    let _ = std::fs::create_dir_all(&path);
                    let _ = std::fs::write(path.join("notice"), in_ms.to_string());
                }
                Action::Probed(good) => self.on_probed(good),
                Action::NoteForgotten(pid) => {
                    if let Err(error) = self.layout.note_forgetting_told(&procfs::boot_id(), pid) {
                        tracing::warn!(%error, "cannot note what the server was told; it is told again");
                    }
                }
                Action::Ask => self.ask.notify_one(),
                Action::Fetches(entries) => {
                    let hub = std::sync::Arc::clone(self);
                    tokio::spawn(async move {
                        if let Err(error) = hub.client.fetches(hub.node(), &Fetches { entries }).await {
                            tracing::debug!(%error, "cannot say what is missing");
                        }
                    });
                }
            }
        }
    }

    fn prepare_checkpoint(&self, job: &JobId) {
        let dir = self.layout.checkpoint(job.as_str());
        if let Err(error) = std::fs::create_dir_all(&dir) {
            tracing::warn!(%error, dir = %dir.display(), "cannot make a checkpoint directory");
        }
        let _ = std::fs::remove_file(dir.join("done"));
    }

    fn on_probed(self: &std::sync::Arc<Self>, spawned: bool) {
        let path = self.layout.file("self-test");
        let good = spawned
            && std::fs::write(&path, "ok").is_ok()
            && std::fs::read(&path).is_ok_and(|it| it == b"ok");
        let _ = std::fs::remove_file(&path);
        let hub = std::sync::Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = hub.client.probed(hub.node(), &Probed { good }).await {
                tracing::warn!(%error, good, "cannot tell the result of the self test");
            }
        });
    }

    /// A job ended: what only files tell is added, and its output goes before its end.
    fn on_end(&self, ended: &Ended, mut report: ReportItem) {
        if let Some(sample) = ewma::disk_mb_s(ended.disk_bytes, ended.wall_ms as f64 / 1000.0) {
            self.machine().disk.add(sample);
        }
        report.network_bytes_s = self.machine().network_use.over(&ended.fence);
        if let Report::Exited { code, failure, usage } = &mut report.report {
            match ended.note.runtime.as_str() {
                "wasm" => {
                    let path = self.layout.outcome(&ended.fence);
                    match std::fs::read_to_string(&path).unwrap_or_default().as_str() {
                        wasm::OUTCOME_TIMEOUT => *failure = Some(Failure::Timeout),
                        wasm::OUTCOME_MEMORY => usage.oom = true,
                        _ => {}
                    }
                    let _ = std::fs::remove_file(path);
                }
                "llmcpp" => usage.speed_ratio = self.speed_ratio(ended),
                _ => {}
            }
            let _ = std::fs::remove_file(self.layout.metric(&ended.fence));
            let code = *code;
            if code == 0 {
                // A job that reached its end needs no checkpoint any more. Most never had one.
                let dir = self.layout.checkpoint(ended.fence.job.as_str());
                if dir.exists() {
                    std::thread::spawn(move || std::fs::remove_dir_all(dir));
                }
            }
        }
        if matches!(ended.note.runtime.as_str(), "wasm" | "llmcpp") || report.network_bytes_s.is_some() {
            self.jobs().amend(&report);
        }
        if ended.written == ended.note.shipped {
            let _ = self.logs.send(Writing::Forget(ended.fence.clone()));
            self.report(report);
        } else {
            self.unsent.fetch_add(1, Ordering::Relaxed);
            let _ = self.logs.send(Writing::Ended(report, ended.note.shipped));
        }
    }

    /// How a model did against what its GPU should reach.
    fn speed_ratio(&self, ended: &Ended) -> Option<f64> {
        use std::io::{Read as _, Seek as _, SeekFrom};
        if ended.wall_ms < RUN_MS_MIN {
            return None;
        }
        let expected = ended.note.expected_milli_tok_s.filter(|expected| *expected > 0)?;
        let observed =
            [self.layout.stderr(&ended.fence), self.layout.stdout(&ended.fence)].iter().find_map(|path| {
                let mut file = std::fs::File::open(path).ok()?;
                let from = file.metadata().ok()?.len().saturating_sub(FIGURES_BYTES);
                file.seek(SeekFrom::Start(from)).ok()?;
                let mut tail = Vec::new();
                file.read_to_end(&mut tail).ok()?;
                llm::tokens_per_second(&String::from_utf8_lossy(&tail))
            })?;
        Some((observed * 1_000_000.0 / expected as f64).round() / 1000.0)
    }

    /// These reports are stored.
    pub(crate) fn on_stored(self: &std::sync::Arc<Self>, stored: &[ReportItem]) {
        let actions = self.jobs().on_stored(stored);
        self.carry_out(actions);
    }

    /// Begins afresh with a server that has another journal, but for attempts that go on. When this is over, nothing here
    /// knows anything of the journal before; until then nothing is noted, so that it is done again after a crash.
    pub(crate) async fn change_journal(self: &std::sync::Arc<Self>, journal: &str, adopted: &[Fence]) {
        let actions = self.jobs().on_other_journal(adopted);
        self.carry_out(actions);
        let (reports, reports_done) = oneshot::channel();
        let (logs, logs_done) = oneshot::channel();
        let _ = self.logs.send(Writing::OtherJournal(adopted.to_vec(), logs));
        let _ = logs_done.await;
        let _ = self.reports.send(Told::OtherJournal(adopted.to_vec(), reports));
        let _ = reports_done.await;
        while self.jobs().is_foreign_left() {
            tokio::time::sleep(FOREIGN_LOOK).await;
        }
        // The keeper is being told to forget the last of them.
        tokio::time::sleep(FOREIGN_LOOK).await;
        let kept: Vec<&str> = adopted.iter().map(|fence| fence.job.as_str()).collect();
        if let Err(error) = self.layout.put_checkpoints_away(&kept) {
            tracing::error!(%error, "checkpoints of another journal cannot be put away");
        }
        if let Err(error) = self.layout.set_journal(journal) {
            tracing::error!(%error, "cannot note which journal the server has");
        }
        self.client.set_journal(Some(journal.to_owned()));
    }

    pub(crate) fn heartbeat(&self) -> Heartbeat {
        let mut beat = self.machine().heartbeat();
        let hour =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 3600 % 24);
        let on_battery = beat.charging == Some(false);
        let allowed = self.config.accepting.allows(hour as u8, beat.ram_free_mib, on_battery);
        let jobs = self.jobs();
        beat.accepting = allowed && !jobs.draining;
        beat.active_jobs = jobs.active();
        beat.running = jobs.running();
        drop(jobs);
        beat.metrics = crate::metric::told(&self.layout, &beat.running);
        beat.epoch = self.epoch;
        beat.seq = self.seq.fetch_add(1, Ordering::Relaxed) + 1;
        beat
    }

    /// Notes which limits the keeper enforces, where the owner of the machine wants any.
    pub(crate) fn set_limits(&self, enforced: Option<Limits>) {
        let off = Limits { how: "limits are not enforced: agent.limits = false".into(), ..Limits::default() };
        *lock(&self.limits) = if self.config.limits { enforced } else { Some(off) };
    }

    /// What the node says when it registers.
    pub(crate) fn registration(&self) -> Registration {
        let config = &self.config;
        let forgot = self.jobs().forgot.is_some();
        self.machine().tell_all();
        Registration {
            hollow: false,
            pool: config.pool.clone(),
            region: config.region.clone(),
            block: config.block.clone(),
            group: config.group.clone(),
            tenants: config.tenants.clone(),
            architectures: config.architectures.clone(),
            features: config.features.clone(),
            eval: config.eval,
            fetch: config.fetch,
            max_concurrent: Some(config.max_concurrent),
            power_w: config.power_w,
            forgot,
            limits: lock(&self.limits).clone(),
            heartbeat: self.heartbeat(),
        }
    }
}
