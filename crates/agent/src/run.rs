//! The life of an agent.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use landfall_client::{Client, Settings};
use rustix::fs::FlockOperation;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::config::Config;
use crate::error::AgentError;
use crate::hub::Hub;
use crate::jobs::Jobs;
use crate::keeper::procfs;
use crate::keeper::wire::{Event, Request};
use crate::layout::{self, Layout};
use crate::link;
use crate::probe::{Machine, apple, gpu, score};
use crate::runtime::{Site, env, wasm};
use crate::{logs, reporter, session};

/// How long the server may take to answer an agent.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// How often what was kept for long enough is removed.
const CLEAN_EVERY: Duration = Duration::from_secs(3600);
/// For how long a checkpoint must have looked too old before it is removed: a clock that was set wrong is set right by then.
const CHECKPOINT_DOUBT: Duration = Duration::from_secs(24 * 3600);
/// How often checkpoints are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What jobs get to end when they are stopped with the agent.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// How long the last reports may take.
const LAST_REPORTS: Duration = Duration::from_secs(5);
/// After how long a keeper is one that works.
const KEEPER_STANDS: Duration = Duration::from_secs(10);
/// Checkpoints that nobody came back for are removed after this long.
const CHECKPOINT_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Variables that a container engine needs.
const ENGINE_ENV: [&str; 6] = [
    "XDG_RUNTIME_DIR",
    "XDG_DATA_HOME",
    "XDG_CONFIG_HOME",
    "DOCKER_HOST",
    "CONTAINER_HOST",
    "CONTAINERD_ADDRESS",
];

/// Runs an agent until it is told to end, or the server refuses it. Jobs go on without it unless the settings say otherwise.
pub async fn run(config: Config, shutdown: CancellationToken) -> Result<(), AgentError> {
    config.check()?;
    let data = |path: &Path| {
        let path = path.to_owned();
        move |source| AgentError::Data { path, source }
    };
    let root = std::path::absolute(&config.data_dir).map_err(data(&config.data_dir))?;
    let layout = Layout::new(&root);
    layout.create().map_err(data(&root))?;
    let _lock = lock(&layout)?;
    let epoch = next_epoch(&layout.file("epoch")).map_err(data(&layout.file("epoch")))?;
    let helper = config.program().map_err(data(Path::new("/proc/self/exe")))?;
    let client = Client::new(&Settings {
        token: config.token.clone(),
        ca_file: config.ca_file.clone(),
        timeout: ANSWER_WITHIN,
        ..Settings::new(&config.server)
    })
    .map_err(AgentError::Client)?;
    client.set_journal(layout.journal());

    let apple = apple::gpus(&std::env::var("PATH").unwrap_or_default()).await;
    let mut machine = Machine::probe(&config, gpu::of_this_machine(&config.sysfs, apple)).await;
    if machine.core_score.is_none() {
        let remembered = layout.file("core-score");
        machine.core_score = tokio::task::spawn_blocking(move || score::measure(&remembered)).await.ok();
    }
    let site = Site {
        node: config.node_id.clone(),
        layout: layout.clone(),
        base_env: env::allowed(&config.pass_env, std::env::vars_os()),
        engine_env: env::allowed(&ENGINE_ENV.map(str::to_owned), std::env::vars_os()),
        gpus: machine.gpus(),
        programs: machine.programs.clone(),
        limits: config.limits,
        helper: helper.clone(),
    };
    tracing::info!(node = config.node_id, runtimes = machine.runtimes().join(","), "the agent begins");
    if machine.programs.wasm.is_none() {
        tracing::info!("no jobs of runtime wasm: {}", wasm::MISSING);
    }
    let jobs = Jobs::new(site, config.max_concurrent);

    let (hub, ends) = Hub::new(config, layout, helper, client, epoch, jobs, machine);
    let hub = Arc::new(hub);
    let keeper = link::connect(&hub.layout, &hub.helper).await?;
    tracing::info!(pid = keeper.hello.pid, running = keeper.hello.running.len(), "{}", keeper.hello.limits);
    // Before anything is said to the server: a registration that does not name what runs would make it lost.
    let events = adopt(&hub, keeper);
    let keeping = tokio::spawn(keep(Arc::clone(&hub), events));
    let tasks = [
        tokio::spawn(reporter::work(Arc::clone(&hub), ends.reports)),
        tokio::spawn(logs::work(Arc::clone(&hub), ends.logs)),
        tokio::spawn(session::work(Arc::clone(&hub))),
        tokio::spawn(session::ask(Arc::clone(&hub))),
        tokio::spawn(look(Arc::clone(&hub))),
        tokio::spawn(clean_up(Arc::clone(&hub))),
    ];
    tokio::select! {
        () = shutdown.cancelled() => leave(&hub).await,
        () = hub.over.cancelled() => {}
    }
    hub.over.cancel();
    hub.keeper(Request::Bye);
    hub.set_keeper(None);
    for task in tasks {
        task.abort();
    }
    // The connection to the keeper ends once everything in it is sent.
    let _ = tokio::time::timeout(Duration::from_secs(1), keeping).await;
    let fatal = hub.fatal.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    fatal.map_or(Ok(()), Err)
}

/// Takes the data directory; two agents in one would report each other's jobs.
fn lock(layout: &Layout) -> Result<File, AgentError> {
    let path = layout.file("agent.lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|source| AgentError::Data { path, source })?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(_) => Err(AgentError::Taken(layout.root().to_owned())),
    }
}

/// Counts starts of the agent. A clock alone may go back; a counter alone begins anew with a new directory.
fn next_epoch(path: &Path) -> std::io::Result<u64> {
    let last = std::fs::read_to_string(path)
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok())
        .unwrap_or_default();
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let epoch = clock.max(last.saturating_add(1));
    layout::replace(path, &epoch.to_string())?;
    Ok(epoch)
}

/// Takes over what a keeper keeps.
fn adopt(hub: &Arc<Hub>, keeper: link::Link) -> mpsc::UnboundedReceiver<Event> {
    hub.set_keeper(Some(keeper.requests));
    let mut hello = keeper.hello;
    hub.set_limits(hello.enforced.clone());
    hello.remembers |= hub.layout.is_forgetting_told(&procfs::boot_id(), hello.pid);
    let actions = hub.jobs().on_hello(hello, Instant::now());
    hub.carry_out(actions);
    keeper.events
}

/// Hears the keeper, and finds another one if it is gone.
async fn keep(hub: Arc<Hub>, mut events: mpsc::UnboundedReceiver<Event>) {
    let mut backoff = Backoff::new(hub.node());
    loop {
        let began = Instant::now();
        while let Some(event) = events.recv().await {
            let actions = hub.jobs().on_event(event);
            hub.carry_out(actions);
        }
        hub.set_keeper(None);
        if hub.over.is_cancelled() {
            return;
        }
        tracing::warn!("the keeper is gone; another one is started");
        let actions = hub.jobs().on_keeper_gone();
        hub.carry_out(actions);
        // A keeper that ends as soon as it begins must not be started as fast as the machine can.
        if began.elapsed() > KEEPER_STANDS {
            backoff.reset();
        }
        events = loop {
            tokio::select! {
                () = tokio::time::sleep(backoff.next()) => {}
                () = hub.over.cancelled() => return,
            }
            match link::connect(&hub.layout, &hub.helper).await {
                Ok(keeper) => break adopt(&hub, keeper),
                Err(error) => tracing::error!(%error, "there is no keeper; jobs cannot be started"),
            }
        };
    }
}

/// Looks whether jobs saved their work, and minds what time alone brings.
async fn look(hub: Arc<Hub>) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut minded = Instant::now();
    let mut counted = minded;
    loop {
        ticks.tick().await;
        let saving = hub.jobs().saving();
        for job in &saving {
            if hub.layout.checkpoint(job.as_str()).join("done").exists() {
                let actions = hub.jobs().on_saved(job);
                hub.carry_out(actions);
            }
        }
        if !saving.is_empty() || minded.elapsed() >= Duration::from_secs(1) {
            minded = Instant::now();
            let actions = hub.jobs().on_time(minded, hub.silent_for());
            hub.carry_out(actions);
        }
        if counted.elapsed() >= Duration::from_secs(1) {
            counted = Instant::now();
            let running = hub.jobs().under_way();
            hub.machine().look_at_network(counted, &running);
        }
    }
}

/// Leaves in order: no new work, the last reports, and jobs as the settings say.
async fn leave(hub: &Arc<Hub>) {
    let active = {
        let mut jobs = hub.jobs();
        jobs.draining = true;
        jobs.active()
    };
    let beat = hub.heartbeat();
    let _ = tokio::time::timeout(LAST_REPORTS, hub.client.heartbeat(hub.node(), &beat)).await;
    if hub.config.stop_jobs && active > 0 {
        tracing::info!(active, "the agent ends; its jobs are stopped");
        let actions = hub.jobs().stop_all(STOP_GRACE.as_millis() as u64);
        hub.carry_out(actions);
        let until = Instant::now() + STOP_GRACE + Duration::from_secs(2);
        while hub.jobs().active() > 0 && Instant::now() < until {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    } else if active > 0 {
        tracing::info!(active, "the agent ends; its jobs go on, and the next agent takes them over");
    }
    hub.all_stored(LAST_REPORTS).await;
    // What the server stored is forgotten by the keeper through the same line, so nothing is told twice.
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Removes what jobs left, once it was kept for long enough.
async fn clean_up(hub: Arc<Hub>) {
    let mut aged = (Aged::default(), Aged::default());
    loop {
        let swept = Arc::clone(&hub);
        let sweep = move || {
            sweep_checkpoints(&swept.layout, &mut aged.0, |dir| {
                swept.jobs().running().iter().any(|fence| swept.layout.checkpoint(fence.job.as_str()) == dir)
            });
            sweep_kept(&swept.layout, swept.config.keep_files, &mut aged.1);
            aged
        };
        let Ok(again) = tokio::task::spawn_blocking(sweep).await else { return };
        aged = again;
        tokio::time::sleep(CLEAN_EVERY.min(hub.config.keep_files.max(Duration::from_secs(1)))).await;
    }
}

/// What looked too old, and since when by the clock that never jumps: the wall clock alone may be set wrong for a while.
#[derive(Debug, Default)]
struct Aged(BTreeMap<PathBuf, Instant>);

impl Aged {
    /// Of these, which are too old, those that were so for long enough.
    fn surely(&mut self, too_old: Vec<PathBuf>, doubt: Duration, now: Instant) -> Vec<PathBuf> {
        let since = |path: &PathBuf| self.0.get(path).copied().unwrap_or(now);
        self.0 = too_old.iter().map(|path| (path.clone(), since(path))).collect();
        let sure = |path: &PathBuf| self.0.get(path).is_some_and(|since| now.duration_since(*since) >= doubt);
        too_old.into_iter().filter(sure).collect()
    }
}

/// Removes checkpoints that nobody came back for. What runs has its own, however old that is.
fn sweep_checkpoints(layout: &Layout, aged: &mut Aged, runs: impl Fn(&Path) -> bool) {
    let entries = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let all =
        entries(layout.root()).filter(|dir| dir.file_name().to_string_lossy().starts_with("checkpoints"));
    let old = all.flat_map(|dir| entries(&dir.path())).filter(|entry| {
        let modified = entry.metadata().and_then(|meta| meta.modified());
        let age = modified.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        age.is_some_and(|age| age > CHECKPOINT_AGE_MAX)
    });
    let old = old.map(|entry| entry.path()).filter(|path| !runs(path)).collect();
    for path in aged.surely(old, CHECKPOINT_DOUBT, Instant::now()) {
        if !runs(&path) {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// Removes what ended jobs left. It must have looked too old for as long as it is kept, or for as long as sweeps lie apart.
fn sweep_kept(layout: &Layout, keep: Duration, aged: &mut Aged) {
    let old = std::fs::read_dir(layout.file("kept")).into_iter().flatten().flatten().filter(|entry| {
        // A directory that was renamed keeps the time of its content; when it came here the inode knows.
        let since = entry.metadata().map(|meta| meta.ctime()).unwrap_or(i64::MAX);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(Duration::from_secs(since.try_into().unwrap_or(0))) > keep
    });
    for path in aged.surely(old.map(|entry| entry.path()).collect(), keep.min(CLEAN_EVERY), Instant::now()) {
        let _ = std::fs::remove_dir_all(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_start_has_a_larger_number() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("epoch");
        let first = next_epoch(&path).expect("counted");
        let second = next_epoch(&path).expect("counted");
        assert!(second > first, "{first} {second}");
        std::fs::write(&path, "99999999999999").expect("written");
        assert_eq!(next_epoch(&path).expect("counted"), 100_000_000_000_000);
    }

    #[test]
    fn a_clock_that_is_wrong_for_a_while_costs_no_checkpoint() {
        let dir = tempfile::tempdir().expect("dir");
        let layout = Layout::new(dir.path());
        layout.create().expect("made");
        let old = SystemTime::now() - CHECKPOINT_AGE_MAX * 2;
        let make = |job: &str| {
            let path = layout.checkpoint(job);
            std::fs::create_dir(&path).expect("made");
            File::open(&path).and_then(|dir| dir.set_modified(old)).expect("made older");
            path
        };
        let (left, runs) = (make("left"), make("runs"));
        let mut aged = Aged::default();
        // As when the agent begins while the clock is wrong, and once more an hour later.
        for _ in 0..2 {
            sweep_checkpoints(&layout, &mut aged, |path| path == runs);
            assert!(left.exists() && runs.exists());
        }
        let earlier = |since: &mut Instant| *since = since.checked_sub(CHECKPOINT_DOUBT).expect("an instant");
        aged.0.values_mut().for_each(earlier);
        sweep_checkpoints(&layout, &mut aged, |path| path == runs);
        assert!(!left.exists() && runs.exists(), "what runs keeps what it saved");
        // The clock was set right in between: nothing was too old after all.
        let (path, now) = (layout.checkpoint("x"), Instant::now());
        let mut sure = |old: &[&PathBuf], after: u64| {
            let old = old.iter().map(|path| (*path).clone()).collect();
            aged.surely(old, Duration::from_secs(60), now + Duration::from_secs(after)).len()
        };
        assert_eq!([sure(&[&path], 0), sure(&[], 50), sure(&[&path], 70), sure(&[&path], 130)], [0, 0, 0, 1]);
    }

    #[test]
    fn a_directory_has_one_agent() {
        let dir = tempfile::tempdir().expect("dir");
        let layout = Layout::new(dir.path());
        let first = lock(&layout).expect("taken");
        assert!(matches!(lock(&layout), Err(AgentError::Taken(_))));
        drop(first);
        assert!(lock(&layout).is_ok());
    }
}
