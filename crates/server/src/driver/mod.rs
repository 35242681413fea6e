//! The driver: one thread that owns the engine and the journal.
//!
//! It takes what waits in line, gives all of it to the engine, stores the events of all of it in one commit, and only then
//! answers, tells agents and publishes. While it waits for the disk the next requests gather, so a busy server makes few
//! large commits and an idle one answers at once. Questions are answered between commits, so they only ever see what is
//! stored.
//!
//! *When storing fails* nothing has left yet: the engine goes back to what is stored, everybody in that round is told so,
//! and writing is tried again a second later. *When another server has taken the journal over* the driver ends, and the server
//! with it: to load again would be to go on under the other one's epoch.

mod alarms;
pub(crate) mod archive;
mod arrays;
mod asked;
mod asked_of_peers;
pub mod connections;
pub mod core;
pub(crate) mod dags;
mod effects;
mod facts;
pub mod handle;
mod health;
mod instance;
pub mod intake;
pub mod jobs;
mod listing;
pub mod nodes;
pub mod peers;
mod probe;
mod pull;
pub(crate) mod rings;
pub mod roster;
#[cfg(feature = "simulation")]
pub mod simulation;
mod stats;
mod stops;
pub(crate) mod submit;
#[cfg(test)]
mod tests;
mod time;
mod view;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use landfall_engine::Input;
use landfall_store::{Store, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, oneshot};
use tokio_util::sync::CancellationToken;

pub use connections::Connections;
pub use core::View;
pub use handle::{Caller, Failure, Handle, Happened};
pub use listing::{JobFilter, Taken};
pub use roster::Listing;
pub use stats::{Cycles, Stats};
pub use view::version_of;

use crate::clock::Clock;
use crate::config::Config;
use crate::error::ServerError;
use core::Core;
use handle::Request;

/// Requests taken into one commit at most.
const ROUND_MAX: usize = 1024;
/// Batches that a slow listener of the event stream may fall behind before it has to read the journal.
const BATCHES_KEPT: usize = 4096;
/// The longest time between two looks at the clock.
const NAP: Duration = Duration::from_secs(1);

/// The thread; it ends with an error when another server writes the journal.
pub type Driver = JoinHandle<Result<(), StoreError>>;

/// A driver that runs.
#[derive(Debug)]
pub struct Started {
    pub handle: Handle,
    pub stats: Arc<Stats>,
    pub thread: Driver,
    /// What the peer of this server says, if it is one.
    pub peer: Option<peers::PeerLine>,
}

/// Opens the journal's state, sets up what the configuration names, and starts the thread.
///
/// # Errors
/// When the journal cannot be read, or a pool or tenant of the configuration makes no sense.
pub fn start(config: &Config, store: Box<dyn Store>) -> Result<(Handle, Arc<Stats>, Driver), ServerError> {
    start_peer(config, store).map(|Started { handle, stats, thread, .. }| (handle, stats, thread))
}

/// The same, with what the peer of this server says.
///
/// # Errors
/// As above.
pub fn start_peer(config: &Config, store: Box<dyn Store>) -> Result<Started, ServerError> {
    let connections = Arc::new(Connections::default());
    let stats = Arc::new(Stats::default());
    let mut core = Core::open(config, store, connections.clone(), stats.clone(), &Clock::start)?;
    let peer = core.set_up(config)?;
    let (requests, line) = channel();
    let (happened, _) = broadcast::channel(BATCHES_KEPT);
    let places = Arc::new(Semaphore::new(config.queue_limit));
    let ended = CancellationToken::new();
    let handle = Handle {
        requests,
        places,
        happened: happened.clone(),
        connections,
        ended: ended.clone(),
        clock: core.clock(),
    };
    let thread = std::thread::Builder::new()
        .name("driver".into())
        .spawn(move || {
            let driven = catch_unwind(AssertUnwindSafe(|| run(core, &line, &happened)));
            let Ok(driven) = driven else {
                // Nobody can trust what is in memory now. What is stored is whole, and the next start goes on from there.
                tracing::error!("the driver panicked; the server ends so that it can be started anew");
                std::process::abort();
            };
            ended.cancel();
            driven
        })
        .map_err(|source| ServerError::Io { what: "cannot start the driver".into(), source })?;
    Ok(Started { handle, stats, thread, peer })
}

/// Says which pool or tenant of the settings the engine would refuse, and what is odd about pools.
///
/// # Errors
/// When one makes no sense.
pub fn check_named(config: &Config) -> Result<Vec<String>, ServerError> {
    let mut engine = landfall_engine::Engine::new();
    let pools = config.pools.iter().map(|named| {
        let policy = named.policy.as_deref().map(Arc::from);
        let input = Input::SetPool { pool: Box::new(named.pool.clone()), policy };
        (format!("pool `{}`", named.pool.id), effects::unable(&named.pool), input)
    });
    let tenants = config
        .tenants
        .iter()
        .map(|tenant| (format!("tenant `{}`", tenant.id), None, Input::SetTenant(Box::new(tenant.clone()))));
    for (what, unable, input) in pools.chain(tenants) {
        let refused = match unable {
            Some(refused) => Some(refused),
            None => match engine.step(landfall_model::Time::ZERO, input).answer {
                landfall_engine::Answer::Refused(refused) => Some(refused),
                _ => None,
            },
        };
        if let Some(landfall_model::life::Refused { message, hint, .. }) = refused {
            return Err(ServerError::Refused { what, message, hint });
        }
    }
    let pools = config.pools.iter().map(|named| &named.pool.id);
    Ok(pools.filter_map(|pool| engine.policy_in_force(pool)?.1.map(str::to_owned)).collect())
}

/// What a round owes once it is stored.
pub(super) type Owed = Box<dyn FnOnce(Result<(), Failure>) + Send>;

/// Whether anybody wants the driver to end, or why it has to.
enum After {
    Another,
    Close(oneshot::Sender<()>),
    Fenced(StoreError),
}

fn run(
    mut core: Core,
    line: &Receiver<(Request, Option<OwnedSemaphorePermit>)>,
    happened: &broadcast::Sender<Arc<[Happened]>>,
) -> Result<(), StoreError> {
    let closing = loop {
        let first = match line.recv_timeout(core.nap().min(NAP)) {
            Ok(request) => Some(request),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => break None,
        };
        let mut places = Vec::new();
        let waiting = first.into_iter().chain(std::iter::from_fn(|| line.try_recv().ok()));
        let requests = waiting.take(ROUND_MAX).map(|(request, place)| {
            places.push(place);
            request
        });
        let after = round(&mut core, requests, |batch| {
            // Nobody may be listening.
            let _ = happened.send(batch.into());
        });
        match after {
            After::Another => {}
            After::Close(done) => break Some(done),
            After::Fenced(error) => return Err(error),
        }
    };
    core.close();
    if let Some(done) = closing {
        // The server may have stopped waiting.
        let _ = done.send(());
    }
    Ok(())
}

/// One round: what waits is given to the engine, all of it is stored in one commit, and only then anything leaves.
fn round(
    core: &mut Core,
    requests: impl Iterator<Item = Request>,
    publish: impl FnOnce(Vec<Happened>),
) -> After {
    core.begin();
    let mut questions = Vec::new();
    let mut owed: Vec<Owed> = Vec::new();
    let mut after = After::Another;
    for request in requests {
        match request {
            Request::Read(question) => questions.push(question),
            Request::Close(done) => {
                after = After::Close(done);
                break;
            }
            write => owed.push(core.write(write)),
        }
    }
    core.tick();
    #[cfg(feature = "mutations")]
    if crate::mutation::Fault::AnswerBeforeSync.is_planted() {
        owed.drain(..).for_each(|answer| answer(Ok(())));
    }
    match core.commit() {
        Ok(batch) => {
            if !batch.is_empty() {
                publish(batch);
            }
            core.send_effects();
            owed.into_iter().for_each(|answer| answer(Ok(())));
        }
        Err(failure) => owed.into_iter().for_each(|answer| answer(Err(failure.clone()))),
    }
    if let Some(error) = core.fenced() {
        return After::Fenced(error);
    }
    for question in questions {
        // A question changes nothing, so one that panics harms nobody but whoever asked.
        if catch_unwind(AssertUnwindSafe(|| question(&mut core.view()))).is_err() {
            tracing::error!("a question panicked; this is a fault of the server");
        }
    }
    core.keep_house();
    after
}
