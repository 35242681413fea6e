//! What all handlers share.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::http::StatusCode;
use landfall_api::job::JobView;
use landfall_api::node::OTHER_JOURNAL;
use landfall_api::{ApiError, Paged};
use landfall_model::Time;
use landfall_store::sqlite::Sqlite;
use landfall_store::{Reader, StoreError, Table};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::auth::{Principal, StoredToken, Tokens};
use super::look::Looks;
use super::metrics::Metrics;
use super::problem::{Problem, shortened};
use super::sessions::Sessions;
use crate::config::Config;
use crate::driver::core::unreadable;
use crate::driver::{Failure, Handle, JobFilter, Listing, Stats, View};
use crate::logs::Logs;

/// Long answers that may be open at once, beside the lines to agents.
const STREAMS_MAX: usize = 10_000;
/// Lines to agents that may be open at once.
const LINES_MAX: usize = 250_000;
/// Connections for reading that are kept for the next question.
const READERS_KEPT: usize = 8;

/// Jobs that the driver copies for those who look ahead.
const COPIED_MAX: u64 = 20_000;

/// What all handlers share.
pub(crate) struct App {
    /// The way to the driver.
    pub(crate) handle: Handle,
    /// How the server runs.
    pub(crate) config: Config,
    /// Who may do what.
    pub(crate) tokens: Tokens,
    /// What jobs wrote.
    pub(crate) logs: Arc<Logs>,
    /// The journal, for reading.
    pub(crate) journal: Arc<Journal>,
    pub(crate) metrics: Arc<Metrics>,
    /// What the driver counts.
    pub(crate) stats: Arc<Stats>,
    /// What people look at, made once for all of them.
    pub(crate) looks: Arc<Looks>,
    /// Browsers that are signed in.
    pub(crate) sessions: Sessions,
    /// The replay of the journal that runs.
    pub(crate) replays: super::replays::Replays,
    /// Changes that depend on what is there go one after the other.
    pub(crate) edits: tokio::sync::Mutex<()>,
    /// Ends all long answers.
    pub(crate) shutdown: CancellationToken,
    /// When the server started.
    pub(crate) started_at: Time,
    /// Which journal this is.
    pub(crate) incarnation: String,
    /// The peer that this server is, if one of its pools negotiates.
    pub(crate) peers: std::sync::OnceLock<crate::peers::Peers>,
    streams: Arc<Semaphore>,
    lines: Arc<Semaphore>,
}

/// How handlers get at it.
pub(crate) type Shared = State<Arc<App>>;

impl App {
    /// Puts the parts together.
    pub(crate) fn new(
        config: Config,
        incarnation: String,
        handle: Handle,
        stats: Arc<Stats>,
        logs: Arc<Logs>,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            journal: Arc::new(Journal { dir: config.data_dir.clone(), readers: Mutex::default() }),
            config,
            started_at: handle.now(),
            handle,
            tokens: Tokens::default(),
            logs,
            metrics: Arc::new(Metrics::new(&stats.cycles)),
            stats,
            looks: Arc::new(Looks::new()),
            sessions: Sessions::default(),
            replays: super::replays::Replays::default(),
            edits: tokio::sync::Mutex::new(()),
            shutdown,
            incarnation,
            peers: std::sync::OnceLock::new(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            lines: Arc::new(Semaphore::new(LINES_MAX)),
        }
    }

    /// Takes the tokens in that are stored.
    pub(crate) async fn load_tokens(&self) -> Result<(), Failure> {
        let tokens = self.handle.read(|view| read_all(view, Table::Tokens)).await?;
        for (key, bytes) in tokens.map_err(|error| Failure::Storage(error.to_string()))? {
            let token = serde_json::from_slice::<StoredToken>(&bytes)
                .map_err(|error| Failure::Storage(unreadable(Table::Tokens, &key, error).to_string()))?;
            self.tokens.insert(token);
        }
        Ok(())
    }

    /// Refuses what is about another journal: its numbers mean something else here.
    pub(crate) fn check_journal(&self, named: Option<&str>) -> Result<(), Problem> {
        let other = other_journal(named, &self.incarnation);
        other.map_or(Ok(()), |error| Err(Problem::new(StatusCode::CONFLICT, error)))
    }

    /// A place among the open streams.
    pub(crate) fn stream(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.streams.clone().try_acquire_owned().map_err(|_| Problem::from(Failure::Busy))
    }

    /// A place among the lines to agents.
    pub(crate) fn line(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.lines.clone().try_acquire_owned().map_err(|_| Problem::from(Failure::Busy))
    }

    /// Asks the driver something that may find nothing wrong or a problem.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut View<'_>) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.handle.read(question).await?
    }

    /// The rows of all jobs as they stand. Looking through them is for a thread that may take its time.
    pub(crate) async fn listing(&self) -> Result<Listing, Failure> {
        self.handle.read(|view| view.listing()).await
    }

    /// One page of jobs. The driver is asked for the rows and for what the page shows, and looks for nothing itself.
    pub(crate) async fn jobs(&self, filter: JobFilter) -> Result<Paged<JobView>, Problem> {
        let listing = self.listing().await?;
        let (found, filter) = self
            .journal
            .read(move |archive| listing.find(&filter, archive).map(|found| (found, filter)))
            .await?;
        let live = found.live();
        let taken =
            if live.is_empty() { Vec::new() } else { self.handle.read(move |view| view.take(&live)).await? };
        let shown = tokio::task::spawn_blocking(move || found.shown(&filter, taken)).await;
        shown.map_err(|_| Failure::Closing.into())
    }

    /// Everything as it stands, to look ahead with. To copy it costs the driver time for every job there is; where there are many, it is made
    /// anew from what is stored instead.
    pub(crate) async fn copy(&self) -> Result<(landfall_engine::State, Time), Problem> {
        let copied = self.handle.read(|view| {
            let jobs: u64 = view.tally().values().sum();
            ((jobs <= COPIED_MAX).then(|| view.engine.state().clone()), view.now)
        });
        let (state, now) = copied.await?;
        if let Some(state) = state {
            return Ok((state, now));
        }
        let stored = self.journal.read(move |journal| journal.state_at(now)).await?;
        let missing = || Failure::Storage("no snapshot can be read".to_owned());
        Ok((stored.ok_or_else(missing)?, now))
    }

    /// A job that the asker may see.
    pub(crate) async fn job(&self, principal: &Principal, text: &str) -> Result<JobView, Problem> {
        let (principal, text) = (principal.clone(), text.to_owned());
        self.ask(move |view| visible_job(view, &principal, &text)).await
    }
}

/// A job that the asker may see; others' jobs are as unknown as those that do not exist.
pub(crate) fn visible_job(
    view: &mut View<'_>,
    principal: &Principal,
    text: &str,
) -> Result<JobView, Problem> {
    let id = view.exact(text).ok_or_else(|| Problem::unknown("job", text))?;
    let Some(job) = view.job(&id).or_else(|| view.archived(text)) else {
        return Err(no_element(view, principal, text).unwrap_or_else(|| Problem::unknown("job", text)));
    };
    if !principal.sees(job.tenant.as_deref()) {
        return Err(Problem::unknown("job", text));
    }
    Ok(job)
}

/// What is wrong where there is the array, and no element of this index.
fn no_element(view: &mut View<'_>, principal: &Principal, text: &str) -> Option<Problem> {
    let (array, index) = text.rsplit_once('.')?;
    let (array, index) = (view.array(array)?, index.parse::<u32>().ok()?);
    let missing = principal.sees(array.tenant.as_deref()) && array.range.position(index).is_none();
    missing.then(|| {
        let error = ApiError::new("unknown_job", format!("array `{}` has no element {index}", array.id));
        let hint = format!("its indices are {}", shortened(&array.range.to_string()));
        Problem::new(StatusCode::NOT_FOUND, error.hint(hint))
    })
}

/// All records of a table; for tables that stay small.
pub(crate) fn read_all(view: &mut View<'_>, table: Table) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
    let mut all = Vec::new();
    loop {
        let after = all.last().map(|(key, _): &(String, Vec<u8>)| key.clone());
        let page = view.store.scan(table, after.as_deref(), 1000, false)?;
        let last = page.len() < 1000;
        all.extend(page);
        if last {
            return Ok(all);
        }
    }
}

/// Reading the journal without troubling the driver.
pub(crate) struct Journal {
    dir: PathBuf,
    readers: Mutex<Vec<Box<dyn Reader>>>,
}

impl Journal {
    /// Reads something on a thread that may wait for the disk.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&mut dyn Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Problem> {
        let journal = self.clone();
        let answer = tokio::task::spawn_blocking(move || {
            let kept = journal.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut reader = match kept {
                Some(reader) => reader,
                None => Sqlite::open_reader(&journal.dir)?,
            };
            let answer = question(&mut *reader);
            let mut readers = journal.readers.lock().unwrap_or_else(PoisonError::into_inner);
            if answer.is_ok() && readers.len() < READERS_KEPT {
                readers.push(reader);
            }
            answer
        });
        match answer.await {
            Ok(answer) => answer.map_err(Problem::from),
            Err(_) => Err(Failure::Closing.into()),
        }
    }
}

/// What is said to whoever speaks about another journal than that of this server.
pub(crate) fn other_journal(named: Option<&str>, own: &str) -> Option<ApiError> {
    let named = named.filter(|named| *named != own)?;
    #[cfg(feature = "mutations")]
    if crate::mutation::Fault::IncarnationIgnored.is_planted() {
        return None;
    }
    let message = format!(
        "this is about journal {}, and the server has {own}: it was restored, or is another one",
        shortened(named)
    );
    let hint = "begin afresh: agents register anew, readers of events begin without a position";
    Some(ApiError::new(OTHER_JOURNAL, message).hint(hint))
}
