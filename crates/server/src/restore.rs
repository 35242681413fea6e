//! A journal that goes on from an earlier point: a backup, or the last good point of a damaged one.
//!
//! What happened behind that point is forgotten here and remembered elsewhere: by agents, by people, by programs. So nothing
//! that is numbered may be mistaken for it. The journal has another name, the next job gets the next full million as its
//! number, the next epoch is the next full thousand. Attempts that ran at that point go on if their agent names them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use landfall_api::token::{Role, TokenRequest, TokenView};
use landfall_engine::{Engine, Event, Input, State};
use landfall_model::{JobId, Millis, Time};
use landfall_store::sqlite::{Checked, Progress, Sqlite};
use landfall_store::{Batch, Change, Reader, Store as _, StoreError, Table};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::driver::archive::archive_key;
use crate::driver::core::{NEXT_JOB, unreadable};
use crate::driver::dags::named;
use crate::driver::submit::Kept;
use crate::error::ServerError;
use crate::http::auth::{self, StoredToken};
use crate::logs;
use crate::serve::write_file;

/// A restore has no server whose time it could ask.
fn now() -> Time {
    Clock::start(Time::ZERO, None).now()
}

/// The next job gets the next multiple of this as its number.
const JOBS_JUMP: u64 = 1_000_000;
/// The next epoch is a multiple of this.
const EPOCHS_JUMP: u32 = 1_000;
/// Earlier journals whose attempts are still known.
const JOURNALS_MAX: usize = 16;

/// Where a journal that was restored came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// The journals that it goes on from, the newest last: that may have been restored before.
    pub(crate) journals: Vec<String>,
    /// The last epoch before the restore.
    pub(crate) epoch: u32,
    /// The last instant before the restore.
    pub(crate) at: Time,
}

/// Key of the record that says so.
const ORIGIN: &str = "restored_from";

impl Origin {
    pub(crate) fn read(store: &mut dyn Reader) -> Result<Option<Self>, StoreError> {
        let Some(bytes) = store.get(Table::Meta, ORIGIN)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| unreadable(Table::Meta, ORIGIN, error))
    }
}

/// Which of the tokens of a backup do not work any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revoke {
    /// Those of these names or ids.
    Named(Vec<String>),
    All,
}

/// What a data directory was made of.
#[derive(Debug, Clone, Serialize)]
pub struct Restored {
    /// The journal that the backup was of.
    pub from: Option<String>,
    /// The journal as it is called now.
    pub journal: String,
    /// The last event of the backup.
    pub last: u64,
    /// When that happened.
    pub at_ms: i64,
    /// The number that the next job gets.
    pub next_job: u64,
    /// Tokens that work again.
    pub tokens: Vec<TokenView>,
    pub revoked: Vec<TokenView>,
    /// Whether the output of jobs was in the backup.
    pub logs: bool,
    /// A file with a new token that may do everything.
    pub token_file: PathBuf,
}

/// Where `backup` puts the output of jobs, beside the file.
pub fn logs_beside(backup: &Path) -> PathBuf {
    let mut name = backup.to_path_buf().into_os_string();
    name.push(".logs");
    name.into()
}

/// Makes a data directory from a backup.
///
/// # Errors
/// When the backup is damaged, the directory has something in it, or a token to be revoked is not there.
pub fn restore(
    backup: &Path,
    dir: &Path,
    revoke: &Revoke,
    progress: &mut dyn FnMut(Progress),
) -> Result<Restored, ServerError> {
    let (mut store, checked) = Sqlite::restore(backup, dir, progress)?;
    let restored = set_up(&mut store, &checked, backup, dir, revoke);
    if restored.is_err() {
        drop(store);
        // It was empty before; what is left of it is refused the next time.
        let _ = std::fs::remove_dir_all(dir);
    }
    restored
}

fn set_up(
    store: &mut Sqlite,
    checked: &Checked,
    backup: &Path,
    dir: &Path,
    revoke: &Revoke,
) -> Result<Restored, ServerError> {
    let mut changes = Vec::new();
    let (mut tokens, mut revoked) = (Vec::new(), Vec::new());
    for (key, bytes) in scan_all(store, Table::Tokens)? {
        let token: StoredToken =
            serde_json::from_slice(&bytes).map_err(|error| unreadable(Table::Tokens, &key, error))?;
        let goes = match revoke {
            Revoke::All => true,
            Revoke::Named(names) => {
                names.iter().any(|name| *name == token.view.name || *name == token.view.id)
            }
        };
        if goes {
            changes.push(Change::delete(Table::Tokens, key));
            revoked.push(token.view);
        } else if !auth::has_expired(&token.view, now()) {
            tokens.push(token.view);
        }
    }
    if let Revoke::Named(names) = revoke
        && let Some(name) =
            names.iter().find(|name| !revoked.iter().any(|view| view.name == **name || view.id == **name))
    {
        let known: Vec<&str> = tokens.iter().map(|view| view.name.as_str()).collect();
        return Err(ServerError::Refused {
            what: "the backup".into(),
            message: format!("it has no token `{name}`"),
            hint: format!("it has {}", known.join(", ")),
        });
    }
    let request = TokenRequest {
        name: "local".into(),
        role: Role::Admin,
        tenant: None,
        node: None,
        expires_at_ms: None,
        max_cpu_milli: None,
        max_ram_mib: None,
    };
    let failed = |message: String| ServerError::Io {
        what: "cannot make a token".into(),
        source: std::io::Error::other(message),
    };
    let (stored, new) = auth::make(request, now()).map_err(|error| failed(error.to_string()))?;
    let bytes = serde_json::to_vec(&stored).map_err(|error| failed(error.to_string()))?;
    changes.push(Change::put(Table::Tokens, stored.view.id, bytes));
    let token_file = dir.join("token");
    write_file(&token_file, &format!("{}\n", new.secret))?;
    let from = logs_beside(backup);
    let has_logs = from.is_dir();
    if has_logs {
        logs::copy(&from, &logs::directory(dir, store.incarnation()))
            .map_err(|source| ServerError::Io { what: "cannot copy the output of jobs".into(), source })?;
    }
    let anew = begin_anew(store, checked.incarnation.clone(), changes)?;
    Ok(Restored {
        from: checked.incarnation.clone(),
        journal: store.incarnation().to_owned(),
        last: checked.last,
        at_ms: anew.from.as_millis(),
        next_job: anew.next_job,
        tokens,
        revoked,
        logs: has_logs,
        token_file,
    })
}

/// What became of a damaged journal.
#[derive(Debug, Clone)]
pub struct FellBack {
    pub checked: Checked,
    /// The journal as it is called now.
    pub journal: String,
    pub next_job: u64,
    /// Jobs that nobody can run any more.
    pub cancelled: Vec<String>,
    /// Jobs and arrays of which nothing is left: they came behind the point that was gone back to.
    pub lost: Vec<String>,
    /// Where the damaged one is kept.
    pub kept: PathBuf,
}

/// Goes back to the last good point of a damaged journal.
///
/// # Errors
/// When nothing is damaged, a server runs, or there is no good point.
pub fn fall_back(dir: &Path, progress: &mut dyn FnMut(Progress)) -> Result<FellBack, ServerError> {
    let (mut store, checked, kept) = Sqlite::fall_back(dir, progress)?;
    let journal = store.incarnation().to_owned();
    // Their jobs are still there, and no number is given twice.
    if let Some(old) = &checked.incarnation {
        let (old, new) = (logs::directory(dir, old), logs::directory(dir, &journal));
        if old.is_dir() {
            std::fs::rename(&old, &new)
                .map_err(|source| ServerError::Io { what: "cannot rename the logs".into(), source })?;
        }
    }
    let Anew { next_job, cancelled, lost, .. } =
        begin_anew(&mut store, checked.incarnation.clone(), Vec::new())?;
    Ok(FellBack { checked, journal, next_job, cancelled, lost, kept })
}

/// How a journal goes on.
struct Anew {
    /// The last instant that is remembered.
    from: Time,
    /// The number that the next job gets.
    next_job: u64,
    /// Jobs that are cancelled because the record of what they run is lost.
    cancelled: Vec<String>,
    /// Jobs that nothing is left of.
    lost: Vec<String>,
}

/// Makes sure that nothing numbered is mistaken for what was forgotten, and lets servers start.
fn begin_anew(
    store: &mut Sqlite,
    from: Option<String>,
    mut changes: Vec<Change>,
) -> Result<Anew, ServerError> {
    let state = store.load()?.state;
    let next_job = (highest_job(store, &state)? / JOBS_JUMP + 1) * JOBS_JUMP;
    let lost = forget_lost(store, &state, &mut changes)?;
    changes.push(Change::put(Table::Meta, NEXT_JOB, next_job.to_string()));
    let mut journals = Origin::read(store)?.map_or_else(Vec::new, |origin| origin.journals);
    journals.extend(from);
    journals.drain(..journals.len().saturating_sub(JOURNALS_MAX));
    let origin = Origin { journals, epoch: state.epoch, at: state.now };
    let bytes = serde_json::to_vec(&origin).map_err(|error| unreadable(Table::Meta, ORIGIN, error))?;
    changes.push(Change::put(Table::Meta, ORIGIN, bytes));
    let epoch = (state.epoch / EPOCHS_JUMP + 1) * EPOCHS_JUMP;
    // What is placed from now on is placed later than anything that is remembered.
    let (from, at) = (state.now, state.now + Millis::new(1));
    let mut events = vec![(at, Event::Epoch(epoch))];
    let mut engine = Engine::of(state);
    let cancelled = without_record(store, engine.state())?;
    for id in &cancelled {
        let outcome = engine.step(at, Input::Cancel(id.clone()));
        events.extend(outcome.events.into_iter().map(|event| (outcome.at, event)));
    }
    store.append(&Batch { at, epoch, events, changes })?;
    store.finish()?;
    Ok(Anew { from, next_job, cancelled: cancelled.iter().map(ToString::to_string).collect(), lost })
}

/// Drops what records still say of jobs whose submission is behind the point that was gone back to, and names those jobs. Whoever
/// repeats such a submission under its key submits it anew. An older answer stays, even where its job is not there any
/// more: that one has run.
fn forget_lost(
    store: &mut Sqlite,
    state: &State,
    changes: &mut Vec<Change>,
) -> Result<Vec<String>, StoreError> {
    let lives = |id: &str| state.jobs.contains_key(id) || state.folded.contains_key(id);
    let is_lost = |store: &mut Sqlite, id: &str| {
        Ok::<_, StoreError>(!lives(id) && store.get(Table::Archive, &archive_key(id))?.is_none())
    };
    // In the order of their numbers.
    let mut lost = BTreeMap::new();
    for (id, _) in scan_all(store, Table::Jobs)?.into_iter().filter(|(id, _)| !lives(id)) {
        if is_lost(store, &id)? {
            lost.insert(archive_key(&id), id.clone());
        }
        changes.push(Change::delete(Table::Jobs, id));
    }
    let good = state.now.as_millis();
    for (key, bytes) in scan_all(store, Table::Idempotency)? {
        let kept: Kept =
            serde_json::from_slice(&bytes).map_err(|error| unreadable(Table::Idempotency, &key, error))?;
        let mut is_gone = false;
        for job in kept.jobs.into_iter().filter(|_| kept.at_ms >= good) {
            if is_lost(store, &job.id)? {
                is_gone = true;
                lost.insert(archive_key(&job.id), job.id);
            }
        }
        if is_gone {
            changes.push(Change::delete(Table::Idempotency, key));
        }
    }
    for (key, bytes) in scan_all(store, Table::Dags)? {
        let at: i64 = serde_json::from_slice(&bytes).map_err(|error| unreadable(Table::Dags, &key, error))?;
        let member = named(&key).map(|(_, member)| member.to_owned());
        if at >= good && member.map_or(Ok(false), |member| is_lost(store, &member))? {
            changes.push(Change::delete(Table::Dags, key));
        }
    }
    Ok(lost.into_values().collect())
}

/// Jobs and arrays that have not ended and of which nobody knows any more what they run.
fn without_record(store: &mut Sqlite, state: &State) -> Result<Vec<JobId>, StoreError> {
    let known: BTreeSet<String> = scan_all(store, Table::Jobs)?.into_iter().map(|(key, _)| key).collect();
    let live = state.jobs.iter().filter(|(_, record)| !record.state.is_final()).map(|(id, _)| id);
    let arrays = state.folded.iter().filter(|(_, array)| !array.is_over()).map(|(id, _)| id);
    let lost = live.chain(arrays).filter(|id| !id.as_str().contains('.') && !known.contains(id.as_str()));
    Ok(lost.cloned().collect())
}

/// The highest number that a job ever had, as far as it is known.
fn highest_job(store: &mut Sqlite, state: &State) -> Result<u64, StoreError> {
    let next = crate::driver::core::next_job(store)?;
    let number = |id: &str| id.split('.').next().and_then(|digits| digits.parse::<u64>().ok());
    let mut known: BTreeSet<u64> =
        state.jobs.keys().chain(state.folded.keys()).filter_map(|id| number(id.as_str())).collect();
    for table in [Table::Jobs, Table::Archive] {
        // Keys of the archive sort by number, those of jobs do not, and there are few of them.
        let page =
            if table == Table::Jobs { scan_all(store, table)? } else { store.scan(table, None, 1, true)? };
        known.extend(page.iter().filter_map(|(key, _)| number(key)));
    }
    Ok(known.last().copied().unwrap_or(0).max(next.saturating_sub(1)))
}

fn scan_all(store: &mut Sqlite, table: Table) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
    store.scan(table, None, usize::MAX, false)
}
