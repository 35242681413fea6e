//! What people look at: the fleet, the queue with its reasons, the last hours, what changes.
//!
//! All of it is made once for everybody who looks, from short questions to the driver, and never more often than its making allows: what
//! took the driver a millisecond is made at most every fifty. So the number of people who look costs the driver nothing.

mod census;
mod changes;
mod find;
mod fleet;
mod graph;
mod life;
mod overview;
mod ranks;
mod samples;
mod timeline;

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use landfall_model::Millis;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::App;
use super::problem::Problem;
use crate::driver::{Failure, Happened};
use census::Census;
use changes::{Change, Gathered};
use fleet::Fleet;
use samples::Samples;

/// How often people are told what changed.
pub(crate) const TOLD_EVERY: Duration = Duration::from_millis(400);
/// How often it is noted how things stand.
pub(crate) const SAMPLED_EVERY: Duration = Duration::from_secs(15);

/// Nothing is made anew for people within this time.
const FRESH_FOR: Duration = Duration::from_millis(900);
/// Of the driver's time at most one part in so many goes into what people look at.
const SHARE_OF_DRIVER: u32 = 50;
/// Reasons are looked for while somebody looked within this time.
const LOOKED_WITHIN: Millis = Millis::secs(60);
/// Messages that may wait for one who listens; beyond that it is told that it missed some.
const MESSAGES_KEPT: usize = 64;
/// Answers smaller than this are sent as they are.
const PACKED_FROM: usize = 16 << 10;

/// What is kept for people who look.
#[derive(Debug)]
pub(crate) struct Looks {
    fleet: tokio::sync::Mutex<Option<Arc<Fleet>>>,
    census: Mutex<Arc<Census>>,
    /// Whether one is being taken.
    counting: tokio::sync::Mutex<()>,
    samples: Mutex<Samples>,
    gathered: Mutex<Gathered>,
    changes: tokio::sync::broadcast::Sender<Arc<Change>>,
    /// How often it was time for a message.
    ticks: AtomicUsize,
    /// When somebody last looked, in milliseconds.
    looked_at: AtomicI64,
}

fn locked<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Looks {
    pub(crate) fn new() -> Self {
        Self {
            fleet: tokio::sync::Mutex::default(),
            census: Mutex::default(),
            counting: tokio::sync::Mutex::default(),
            samples: Mutex::default(),
            gathered: Mutex::default(),
            changes: tokio::sync::broadcast::channel(MESSAGES_KEPT).0,
            ticks: AtomicUsize::new(0),
            looked_at: AtomicI64::new(i64::MIN),
        }
    }

    /// Takes in what happened, for the next message to those who listen.
    pub(crate) fn note(&self, batch: &[Happened]) {
        if self.changes.receiver_count() > 0 {
            locked(&self.gathered).take_in(batch);
        }
    }

    /// Something happened that nobody saw.
    pub(crate) fn missed(&self) {
        locked(&self.gathered).more = true;
    }

    fn census(&self) -> Arc<Census> {
        locked(&self.census).clone()
    }

    fn somebody_looks(&self, app: &App) {
        self.looked_at.store(app.handle.now().as_millis(), Ordering::Relaxed);
    }

    fn anybody_looks(&self, app: &App) -> bool {
        let looked_at = self.looked_at.load(Ordering::Relaxed);
        app.handle.now().as_millis().saturating_sub(looked_at) < LOOKED_WITHIN.get().cast_signed()
    }
}

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(overview::overview))
        .routes(routes!(fleet::map))
        .routes(routes!(samples::history))
        .routes(routes!(changes::changes))
        .routes(routes!(timeline::timeline))
        .routes(routes!(find::find))
        .routes(routes!(graph::graph))
        .routes(routes!(fleet::loans))
        .routes(routes!(life::of_job))
        .routes(routes!(life::of_node))
        .routes(routes!(ranks::ranks))
}

pub(crate) use changes::tell;
pub(crate) use samples::{remember, sample};

/// How long something may be used whose making took the driver so long.
fn fresh_for(took: Duration) -> Duration {
    FRESH_FOR.max(took * SHARE_OF_DRIVER)
}

/// Answers with JSON that was made before, packed for those who can unpack it.
async fn sent(headers: &HeaderMap, text: Arc<Vec<u8>>) -> Result<Response, Problem> {
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if text.len() < PACKED_FROM || !super::page::packs(headers) {
        return Ok(([kind], text.to_vec()).into_response());
    }
    let packed = tokio::task::spawn_blocking(move || {
        use std::io::Write as _;
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(&text).and_then(|()| packer.finish())
    });
    let packed = packed.await.map_err(|_| Failure::Closing)?;
    let packed = packed.map_err(|error| Failure::Storage(error.to_string()))?;
    Ok(([kind, (header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))], packed).into_response())
}
