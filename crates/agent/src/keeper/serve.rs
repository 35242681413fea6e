//! The keeper's side of the socket.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use super::cgroup::Cgroups;
use super::journal::{Journal, key};
use super::orphans::{self, Orphans};
use super::state::Keeper;
use super::wire::{Event, Request};
use super::{procfs, reap, spawn};
use crate::layout::Layout;

/// Threads that start processes, for each processor: most of a start is waiting for the new process to get its turn.
const SPAWNERS_PER_CPU: usize = 4;
/// More of them than this would only wait for each other.
const SPAWNERS_MAX: usize = 32;

/// Why a keeper does not keep.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    #[error("another keeper serves {0}")]
    Taken(String),
    /// A file or the socket failed.
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> KeeperError {
    let what = what.into();
    |source| KeeperError::Io { what, source }
}

/// Runs a keeper for a data directory until nobody needs it. It leaves the session of its parent first, so that neither
/// a closed terminal nor an interrupted agent ends it.
pub fn keep(dir: &Path) -> Result<(), KeeperError> {
    // It fails if somebody started the keeper by hand as a leader; then there is nothing to leave.
    let _ = rustix::process::setsid();
    catch_ignored();
    let layout = Layout::new(dir);
    layout.create().map_err(io_error(format!("cannot make {}", dir.display())))?;
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(layout.file("keeper.lock"));
    let lock: File = lock.map_err(io_error("cannot open keeper.lock"))?;
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err(KeeperError::Taken(dir.display().to_string()));
    }
    // For people who look; programs ask over the socket.
    let _ = lock.set_len(0).and_then(|()| writeln!(&lock, "{}", std::process::id()));
    // Every job is watched through an open file, so there may have to be many.
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let more = rustix::process::Rlimit { current: files.maximum, ..files };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, more);
    let opened = Journal::open(&layout.file("keeper.journal"), &procfs::boot_id());
    let (mut journal, mut found) = opened.map_err(io_error("cannot open keeper.journal"))?;
    spawn::kill_leftovers(&found.left);
    orphans::end_strays(&layout);
    for started in &found.left {
        let lost = spawn::lost(&layout, started);
        journal.ended(&lost).map_err(io_error("cannot write keeper.journal"))?;
        found.ended.push(lost);
    }
    spawn::remove_strays(&layout, &found.ended);
    let socket = layout.socket();
    let _ = std::fs::remove_file(&socket);
    let bind = super::with_short_path(&socket, |path| UnixListener::bind(path));
    let listener = bind.map_err(io_error(format!("cannot listen on {}", socket.display())))?;
    let keeper = Keeper::new(layout, Cgroups::of_this_machine(), Orphans::adopt(), journal, found);
    let keeper = Arc::new(keeper.map_err(io_error("cannot watch processes"))?);

    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let spawners = (cpus * SPAWNERS_PER_CPU).min(SPAWNERS_MAX);
    for _ in 0..spawners {
        let keeper = Arc::clone(&keeper);
        std::thread::spawn(move || spawn::work(&keeper));
    }
    let serving = Arc::clone(&keeper);
    std::thread::spawn(move || serve(&serving, &listener));
    let result = reap::work(&keeper).map_err(io_error("cannot wait for processes"));
    keeper.spares.clear();
    keeper.cgroups.close();
    let _ = std::fs::remove_file(&socket);
    drop(lock);
    result
}

/// Catches signals that a shell (`landfall up &` in a script) or `nohup` told this process to ignore. What is ignored stays ignored in
/// whatever is started, and nobody could interrupt a job; what is caught is as usual there. The keeper itself goes on, as before.
fn catch_ignored() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
    let _inside = runtime.enter();
    for kind in [SignalKind::interrupt(), SignalKind::quit(), SignalKind::hangup()] {
        let _ = signal(kind);
    }
}

/// One agent at a time: the agents of a directory exclude each other, so a second one means that the first is gone.
fn serve(keeper: &Arc<Keeper>, listener: &UnixListener) {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                if let Err(error) = converse(keeper, stream) {
                    eprintln!("keeper: the agent's connection broke: {error}");
                }
                keeper.outbox.close();
                keeper.lock().alone_since = Some(Instant::now());
                keeper.wake();
            }
            Err(error) => {
                eprintln!("keeper: cannot accept a connection: {error}");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

fn converse(keeper: &Arc<Keeper>, stream: UnixStream) -> io::Result<()> {
    let mut lines = BufReader::with_capacity(1 << 16, stream.try_clone()?);
    let stream = Arc::new(stream);
    {
        let mut state = keeper.lock();
        keeper.outbox.open(&stream, &Event::Hello(Box::new(keeper.hello(&state))));
        state.alone_since = None;
        state.bye = false;
    }
    let telling = Arc::clone(keeper);
    let patient = std::thread::spawn(move || telling.outbox.wait_while_full());
    let mut line = String::new();
    let result = loop {
        line.clear();
        match lines.read_line(&mut line) {
            Ok(0) => break Ok(()),
            Ok(_) => match serde_json::from_str(&line) {
                Ok(request) => on_request(keeper, request),
                Err(error) => break Err(io::Error::other(format!("a line makes no sense: {error}"))),
            },
            Err(error) => break Err(error),
        }
    };
    keeper.outbox.close();
    match patient.join() {
        Ok(told) => result.and(told),
        Err(_) => Err(io::Error::other("the thread that tells the agent panicked")),
    }
}

fn on_request(keeper: &Keeper, request: Request) {
    match request {
        Request::Spawn(spawn) => keeper.enqueue(*spawn),
        Request::Begin { fence } => keeper.begin(&key(&fence)),
        Request::GiveBack { fence } => keeper.give_back(&fence),
        Request::Signal { fence, signal } => keeper.signal(&fence, &signal),
        Request::Stop { fence, grace_ms, cause } => {
            let mut state = keeper.lock();
            keeper.stop(&mut state, &key(&fence), Duration::from_millis(grace_ms), cause);
        }
        Request::Forget { fences } => keeper.forget(&fences),
        Request::Shipped { fence, shipped } => {
            if let Some(job) = keeper.lock().jobs.get_mut(&key(&fence)) {
                job.note.shipped = shipped;
            }
        }
        Request::Walltime { fence, walltime_ms } => keeper.set_walltime(&key(&fence), walltime_ms),
        Request::Heard => keeper.lock().heard = Some(Instant::now()),
        Request::Bye => keeper.lock().bye = true,
    }
}
