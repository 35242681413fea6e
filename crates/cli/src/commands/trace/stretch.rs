//! A stretch of a server's journal as a trace, read from its data directory. The server may run meanwhile.

use std::path::{Path, PathBuf};

use landfall_model::{PoolId, Time};
use landfall_replay::trace::journal::{Recorded, Recorder};
use landfall_store::StoreError;
use landfall_store::sqlite::Sqlite;

use super::export;
use super::files::write_file;
use crate::commands::service::decisions::instant;
use crate::error::{CliError, broken, usage};

/// Events read at once.
const EVENTS_AT_ONCE: usize = 5000;

// Arguments that say which stretch.
#[derive(Debug, clap::Args)]
pub(crate) struct StretchArgs {
    /// The data directory of a server instead of a trace; it may run.
    #[arg(long, value_name = "DIR", conflicts_with = "traces", requires = "out")]
    journal: Option<PathBuf>,
    /// From this instant on: 7d for a week ago, a date in UTC, or milliseconds since 1970; all that is kept without it.
    #[arg(long, value_name = "WHEN", requires = "journal")]
    since: Option<String>,
    /// Up to this instant; until now without it.
    #[arg(long, value_name = "WHEN", requires = "journal")]
    until: Option<String>,
    /// Only jobs and nodes of this pool.
    #[arg(long, value_name = "ID", requires = "journal")]
    pool: Option<String>,
}

impl StretchArgs {
    /// Writes the stretch as a trace beside the reports; gives its path.
    pub(crate) fn write(&self, out: Option<&Path>, force: bool) -> Result<Option<PathBuf>, CliError> {
        let (Some(dir), Some(out)) = (&self.journal, out) else { return Ok(None) };
        let only = self.pool.as_deref().map(PoolId::new).transpose();
        let only = only.map_err(|error| usage(format!("--pool: {error}"), "name a pool"))?;
        let at = |flag: &str, text: &Option<String>| -> Result<Option<Time>, CliError> {
            let ms = text.as_deref().map(|text| instant(flag, text)).transpose()?;
            Ok(ms.map(|ms| Time::from_millis(i64::try_from(ms).unwrap_or(i64::MAX))))
        };
        let (since, until) = (at("--since", &self.since)?, at("--until", &self.until)?);
        if matches!((since, until), (Some(since), Some(until)) if until <= since) {
            return Err(usage("--until is not after --since", "give a later instant"));
        }
        let recorded = record(dir, since, until, only)?;
        if recorded.jobs == 0 {
            return Err(usage("there are no jobs in that stretch", "choose a longer one, or another pool"));
        }
        let path = out.join("trace.jsonl.gz");
        write_file(&path, force, |file| export::write(&recorded, file))?;
        Ok(Some(path))
    }
}

fn record(
    dir: &Path,
    since: Option<Time>,
    until: Option<Time>,
    only: Option<PoolId>,
) -> Result<Recorded, CliError> {
    let wrong = |error: StoreError| broken(error.to_string(), error.hint());
    let mut reader = Sqlite::open_reader(dir).map_err(wrong)?;
    let mut recorder = Recorder::new(only);
    let oldest = reader.oldest_seq().map_err(wrong)?;
    let mut after = 0;
    let since = match since {
        // What was before the oldest event that is kept is told by a snapshot.
        None if oldest > 1 => reader.events(oldest - 1, 1).map_err(wrong)?.first().map(|stored| stored.at),
        since => since,
    };
    if let Some(since) = since {
        let state = reader.state_at(since).map_err(wrong)?;
        let state = state.ok_or_else(|| {
            usage("the journal does not reach back so far", "choose a later --since; settings: retention")
        })?;
        after = state.version;
        recorder.begin_with(&state, since);
    }
    let mut last = since.unwrap_or(Time::ZERO);
    loop {
        let page = reader.events(after, EVENTS_AT_ONCE).map_err(wrong)?;
        let all = page.len() < EVENTS_AT_ONCE;
        for stored in page {
            if until.is_some_and(|until| stored.at > until) {
                return Ok(recorder.finish(until.unwrap_or(last)));
            }
            (after, last) = (stored.seq, last.max(stored.at));
            recorder.take(stored.seq, stored.at, stored.event);
        }
        if all {
            return Ok(recorder.finish(last));
        }
    }
}
