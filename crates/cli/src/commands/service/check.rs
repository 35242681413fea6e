//! `landfall check`: whether everything in a data directory is as it was written.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use landfall_server::ServerError;
use landfall_store::StoreError;
use landfall_store::sqlite::{Checked, Progress, Sqlite};
use serde::Serialize;

use crate::answer::{Answer, Page};
use crate::error::{CliError, broken, usage};
use crate::exit::Exit;
use crate::render::clock::{date, mib};
use crate::render::style::{BAD, DIM, STRONG};
use crate::render::text::{clean, count};
use crate::reply::Reply;

/// Most jobs that are named in text.
const NAMED_MAX: usize = 20;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads everything and compares it with its checksums: the structure of the file, snapshots, the journal, records. Nothing is \
changed. The server must not run. Where something is damaged the command ends with 3 and says what would be lost by going back to \
the last good point; --fall-back does that, and keeps the damaged journal beside the new one. A backup loses less, if there is a \
newer one: `landfall restore`.

Examples:
  landfall check /var/lib/landfall
  landfall check monday.db
  landfall check /var/lib/landfall --fall-back")]
pub(crate) struct Args {
    /// A data directory, or a backup.
    #[arg(value_name = "DATA_DIR")]
    at: PathBuf,
    /// Go back to the last good point, and lose what is behind it.
    #[arg(long)]
    fall_back: bool,
}

#[derive(Serialize)]
struct Found {
    at: String,
    /// Whether it is no data directory.
    #[serde(skip)]
    is_file: bool,
    journal: Option<String>,
    format: u32,
    events: u64,
    records: u64,
    snapshots: u64,
    damage: Vec<Damaged>,
    /// What falling back loses; null where nothing is damaged or there is no good point.
    lost: Option<Lost>,
    /// The new journal and where the damaged one is kept, after `--fall-back`.
    fell_back: Option<FellBack>,
}

#[derive(Serialize)]
struct Damaged {
    what: String,
    why: String,
}

#[derive(Serialize)]
struct Lost {
    /// The last event that stays.
    good_until: u64,
    good_at_ms: Option<i64>,
    /// Events behind it.
    events: u64,
    /// Damaged records.
    records: u64,
}

#[derive(Serialize)]
struct FellBack {
    journal: String,
    next_job: u64,
    /// Jobs whose record is lost.
    cancelled: Vec<String>,
    /// Jobs and arrays that came behind the good point.
    lost: Vec<String>,
    kept: String,
}

pub(crate) fn run(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    let (checked, fell_back) = if args.fall_back {
        let done = landfall_server::restore::fall_back(&args.at, &mut told()).map_err(failed)?;
        let fell_back = FellBack {
            journal: done.journal,
            next_job: done.next_job,
            cancelled: done.cancelled,
            lost: done.lost,
            kept: done.kept.display().to_string(),
        };
        (done.checked, Some(fell_back))
    } else {
        (Sqlite::check(&args.at, &mut told()).map_err(|error| failed(error.into()))?, None)
    };
    let is_good = checked.damage.is_empty() || fell_back.is_some();
    let data = Found {
        at: args.at.display().to_string(),
        is_file: args.at.is_file(),
        journal: checked.incarnation.clone(),
        format: checked.format,
        events: checked.events,
        records: checked.records,
        snapshots: checked.snapshots,
        lost: lost(&checked),
        damage: checked
            .damage
            .into_iter()
            .map(|found| Damaged { what: found.what, why: found.why })
            .collect(),
        fell_back,
    };
    let exit = if is_good { Exit::Done } else { Exit::BadInput };
    Ok(Reply::new("landfall.check/1", data, page).exit(exit).boxed())
}

fn lost(checked: &Checked) -> Option<Lost> {
    let good_until = checked.good_until.filter(|_| !checked.damage.is_empty())?;
    let records = checked.damage.iter().filter(|found| found.what.starts_with("the record ")).count();
    Some(Lost {
        good_until,
        good_at_ms: checked.good_at.map(landfall_model::Time::as_millis),
        events: checked.last.saturating_sub(good_until),
        records: records as u64,
    })
}

fn page(found: &Found, _: Page) -> String {
    let mut text = format!(
        "{}: journal {}, {}, {}, {}\n",
        clean(&found.at),
        found.journal.as_deref().unwrap_or("without a name"),
        count(found.events, "event"),
        count(found.records, "record"),
        count(found.snapshots, "snapshot")
    );
    if found.damage.is_empty() {
        return text + "everything is as it was written\n";
    }
    for Damaged { what, why } in &found.damage {
        text += &format!("{BAD}damaged{BAD:#}: {STRONG}{}{STRONG:#}: {}\n", clean(what), clean(why));
    }
    match (&found.lost, &found.fell_back) {
        (None, _) => text += "there is no good point to go back to: restore a backup (`landfall restore`)\n",
        (Some(lost), None) => {
            text += &format!("going back to the last good point loses {}\n", words(lost, found));
            let order = if found.is_file {
                StoreError::NoDirectory { path: PathBuf::from(&found.at) }.hint()
            } else {
                format!("landfall check {} --fall-back", found.at)
            };
            text += &format!("  {}\n", clean(&order));
        }
        (Some(lost), Some(done)) => {
            text += &format!("went back to the last good point; lost: {}\n", words(lost, found));
            text += &format!("the journal is {} now, the next job {}\n", done.journal, done.next_job);
            if !done.cancelled.is_empty() {
                text += &format!(
                    "cancelled, as nobody knows any more what they run: {}\n",
                    done.cancelled.join(", ")
                );
            }
            if !done.lost.is_empty() {
                let named =
                    done.lost.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
                let more = match done.lost.len().saturating_sub(NAMED_MAX) {
                    0 => String::new(),
                    more => format!(" and {more} more (--json lists them)"),
                };
                text +=
                    &format!("nothing is left of these jobs, submit them again: {}{more}\n", clean(&named));
            }
            text += &format!("the damaged one is kept as {}\n", clean(&done.kept));
        }
    }
    text
}

fn words(lost: &Lost, found: &Found) -> String {
    let after = lost.good_at_ms.and_then(|at| u64::try_from(at).ok()).map(date);
    let events = match (lost.events, after) {
        // Its events are known to nobody.
        (0, _) if found.damage.iter().any(|found| found.what.starts_with("the log ")) => {
            format!("what was stored after event {}", lost.good_until)
        }
        (0, _) => "no event".to_owned(),
        (events, Some(at)) => {
            format!("{} (everything after event {}, {at})", count(events, "event"), lost.good_until)
        }
        (events, None) => format!("{} (everything after event {})", count(events, "event"), lost.good_until),
    };
    match lost.records {
        0 => format!("{events}, and no record that is known"),
        records => format!(
            "{events}, and {}: jobs of which nobody knows any more what they run are cancelled",
            count(records, "record")
        ),
    }
}

/// Says on standard error how far a long look is.
pub(super) fn told() -> impl FnMut(Progress) {
    let mut last = Instant::now();
    move |progress| {
        if last.elapsed() < Duration::from_secs(1)
            && !matches!(progress, Progress::Structure(bytes) if bytes >> 28 > 0)
        {
            return;
        }
        last = Instant::now();
        let text = match progress {
            Progress::Structure(bytes) => format!("looking at the structure of {}", mib(bytes >> 20)),
            Progress::Events(events) => format!("{} looked at", count(events, "event")),
            Progress::Records(records) => format!("{} looked at", count(records, "record")),
        };
        anstream::eprintln!("{DIM}{text}{DIM:#}");
    }
}

fn failed(error: ServerError) -> CliError {
    let hint = error.hint();
    match error {
        ServerError::Store(
            error @ (StoreError::Locked { .. } | StoreError::Whole { .. } | StoreError::NoDirectory { .. }),
        ) => usage(error.to_string(), hint),
        ServerError::Store(
            error @ (StoreError::Damaged { .. }
            | StoreError::NotOurs { .. }
            | StoreError::NewerVersion { .. }),
        ) => CliError::Damaged { message: error.to_string(), hint },
        error => broken(error.to_string(), hint),
    }
}
