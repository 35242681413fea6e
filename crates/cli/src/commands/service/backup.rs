//! `landfall backup`: a copy of the journal and, if asked, of what jobs wrote, made while the server runs.

use std::path::{Path, PathBuf};

use landfall_server::restore::logs_beside;
use landfall_store::StoreError;
use landfall_store::sqlite::Sqlite;
use serde::Serialize;

use crate::answer::{Answer, Page};
use crate::config::{Config, ConfigArgs};
use crate::error::{CliError, stored, usage};
use crate::render::clock::mib;
use crate::render::text::clean;
use crate::reply::Reply;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
One file with the journal, consistent, whether the server runs or not. It is compared with its checksums: of a damaged journal \
there is no backup, and the command ends with 3. What jobs wrote is not in it; --logs copies that into the \
directory FILE.logs. `landfall restore` makes a data directory from both.

Examples:
  landfall backup --to monday.db
  landfall backup --to tuesday.db --logs
  landfall backup --data-dir /var/lib/landfall --to /backup/landfall.db")]
pub(crate) struct Args {
    /// The file to write; it must not be there.
    #[arg(long, alias = "out", value_name = "FILE")]
    to: PathBuf,
    /// Copy what jobs wrote as well, into the directory FILE.logs.
    #[arg(long)]
    logs: bool,
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
    /// Where the output of jobs is, if it was copied.
    logs: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    let flags = [("server.data_dir", args.data_dir.as_ref().map(|dir| dir.display().to_string()))];
    let dir = Config::load(&args.config, &flags)?.data_dir()?;
    let beside = logs_beside(&args.to);
    for file in [Some(&args.to), args.logs.then_some(&beside)].into_iter().flatten() {
        if file.exists() {
            return Err(usage(format!("{} is there already", file.display()), "choose another name"));
        }
    }
    let mut reader = Sqlite::open_reader(&dir).map_err(|error| stored(&error))?;
    reader.backup(&args.to).map_err(|error| unwritten(&dir, &args.to, error))?;
    if args.logs {
        let from = landfall_server::logs::directory(&dir, reader.incarnation());
        landfall_server::logs::copy(&from, &beside)
            .map_err(|source| CliError::Write { file: beside.display().to_string(), source })?;
    }
    let bytes = std::fs::metadata(&args.to).map_or(0, |found| found.len());
    let data = Made {
        file: args.to.display().to_string(),
        data_dir: dir.display().to_string(),
        bytes,
        logs: args.logs.then(|| beside.display().to_string()),
    };
    Ok(Reply::new("landfall.backup/1", data, page).boxed())
}

fn page(made: &Made, _: Page) -> String {
    let logs = match &made.logs {
        Some(logs) => format!("what jobs wrote: {}\n", clean(logs)),
        None => "what jobs wrote is not in it; --logs copies it as well\n".to_owned(),
    };
    format!("{} ({})\n{logs}", clean(&made.file), mib((made.bytes >> 20).max(1)))
}

/// Why there is no copy: a place that cannot be written to is no fault of the server.
fn unwritten(from: &Path, to: &Path, error: StoreError) -> CliError {
    let file = to.display().to_string();
    match error {
        StoreError::Io { source, .. } => CliError::Write { file, source },
        StoreError::Full { .. } => CliError::Write { file, source: std::io::ErrorKind::StorageFull.into() },
        StoreError::Damaged { .. } => {
            let (hint, from) = (error.hint(), from.display());
            CliError::Damaged { message: format!("{error}; there is no backup of {from}"), hint }
        }
        other => stored(&other),
    }
}
