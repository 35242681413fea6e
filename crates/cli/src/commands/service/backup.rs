//! `landfall backup`: a copy of everything that a server keeps, made while it runs.

use std::path::{Path, PathBuf};

use landfall_store::StoreError;
use landfall_store::sqlite::Sqlite;
use serde::Serialize;

use crate::answer::{Answer, Page};
use crate::config::{Config, ConfigArgs};
use crate::error::{CliError, broken, usage};
use crate::render::clock::mib;
use crate::render::text::clean;
use crate::reply::Reply;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
One file with the journal, consistent, whether the server runs or not. To restore: stop the server, put the file in place of \
`journal.db` in the data directory, remove `journal.db-wal` and `journal.db-shm`, start the server.

Examples:
  landfall backup --to monday.db
  landfall backup --data-dir /var/lib/landfall --to /backup/landfall.db")]
pub(crate) struct Args {
    /// The file to write; it must not be there.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Where the server keeps everything [default: $XDG_DATA_HOME/landfall].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Serialize)]
struct Made {
    file: String,
    data_dir: String,
    bytes: u64,
}

pub(crate) fn run(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    let flags = [("server.data_dir", args.data_dir.as_ref().map(|dir| dir.display().to_string()))];
    let dir = Config::load(&args.config, &flags)?.data_dir()?;
    if args.to.exists() {
        return Err(usage(format!("{} is there already", args.to.display()), "choose another name"));
    }
    let mut reader = Sqlite::open_reader(&dir).map_err(failed)?;
    reader.backup(&args.to).map_err(|error| unwritten(&args.to, error))?;
    let bytes = std::fs::metadata(&args.to).map_or(0, |found| found.len());
    let data = Made { file: args.to.display().to_string(), data_dir: dir.display().to_string(), bytes };
    let page = |made: &Made, _: Page| format!("{} ({})\n", clean(&made.file), mib((made.bytes >> 20).max(1)));
    Ok(Reply::new("landfall.backup/1", data, page).boxed())
}

/// Why there is no copy: a place that cannot be written to is no fault of the server.
fn unwritten(to: &Path, error: StoreError) -> CliError {
    let file = to.display().to_string();
    match error {
        StoreError::Io { source, .. } => CliError::Write { file, source },
        StoreError::Full { .. } => CliError::Write { file, source: std::io::ErrorKind::StorageFull.into() },
        other => failed(other),
    }
}

fn failed(error: StoreError) -> CliError {
    let hint = error.hint();
    broken(error.to_string(), hint)
}
