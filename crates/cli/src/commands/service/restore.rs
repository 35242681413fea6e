//! `landfall restore`: a data directory from a backup.

use std::path::{Path, PathBuf};

use landfall_api::token::TokenView;
use landfall_server::ServerError;
use landfall_server::restore::{Restored, Revoke};
use landfall_store::StoreError;
use serde::Serialize;

use super::check::told;
use crate::answer::{Answer, Page};
use crate::error::{CliError, broken, usage};
use crate::render::clock::date;
use crate::render::text::{clean, count, word};
use crate::reply::Reply;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The backup is looked at first; a damaged one is refused. The journal gets another name, by which agents notice that they remember \
more than it does: what ran at the time of the backup and still runs goes on, other jobs of theirs are ended. No number is given \
twice: the next job gets the next full million. Output of jobs comes from the directory BACKUP.logs, if `backup --logs` made it.

Tokens that were revoked after the backup was made work again, and those made since do not. They are listed; --revoke NAME and \
--revoke-all end them. The file `token` in the data directory has a new one that may do everything.

Examples:
  landfall restore monday.db --data-dir /var/lib/landfall
  landfall restore monday.db --data-dir restored --revoke ci --revoke anna
  landfall restore monday.db --data-dir fresh --revoke-all")]
pub(crate) struct Args {
    /// The file that `landfall backup` made.
    backup: PathBuf,
    /// The directory to make; it must not be there, or be empty.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Revoke the tokens of this name or id; may be given several times.
    #[arg(long, value_name = "NAME", conflicts_with = "revoke_all")]
    revoke: Vec<String>,
    /// Revoke all tokens of the backup; the new one in the file `token` makes others.
    #[arg(long)]
    revoke_all: bool,
}

#[derive(Serialize)]
struct Made {
    data_dir: String,
    backup: String,
    #[serde(flatten)]
    restored: Restored,
}

pub(crate) fn run(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    let revoke = if args.revoke_all { Revoke::All } else { Revoke::Named(args.revoke.clone()) };
    let restored = landfall_server::restore::restore(&args.backup, &args.data_dir, &revoke, &mut told());
    let restored = restored.map_err(|error| failed(&args.backup, error))?;
    let data = Made {
        data_dir: args.data_dir.display().to_string(),
        backup: args.backup.display().to_string(),
        restored,
    };
    Ok(Reply::new("landfall.restore/1", data, page).boxed())
}

fn page(made: &Made, _: Page) -> String {
    let Made { data_dir, restored, .. } = made;
    let at = date(u64::try_from(restored.at_ms).unwrap_or(0));
    let mut text = format!(
        "{}: journal {} with {}, as of {at}\nthe next job is {}\n",
        clean(data_dir),
        restored.journal,
        count(restored.last, "event"),
        restored.next_job
    );
    text +=
        if restored.logs { "what jobs wrote came along\n" } else { "what jobs wrote is not in the backup\n" };
    let list = |tokens: &[TokenView]| {
        let line = |token: &TokenView| {
            let about = token.tenant.as_ref().or(token.node.as_ref()).map(|id| format!(" {}", clean(id)));
            format!(
                "  {}  {} ({}{})\n",
                clean(&token.id),
                clean(&token.name),
                word(token.role),
                about.unwrap_or_default()
            )
        };
        tokens.iter().map(line).collect::<String>()
    };
    if !restored.tokens.is_empty() {
        text += &format!(
            "tokens that work, also if they were revoked since (`landfall token revoke ID`, or restore with --revoke NAME):\n{}",
            list(&restored.tokens)
        );
    }
    if !restored.revoked.is_empty() {
        text += &format!("revoked:\n{}", list(&restored.revoked));
    }
    text + &format!(
        "a new token that may do everything: {}\n",
        clean(&restored.token_file.display().to_string())
    )
}

fn failed(backup: &Path, error: ServerError) -> CliError {
    let hint = error.hint();
    match error {
        ServerError::Store(StoreError::Exists { path }) => usage(
            format!("{} has something in it", path.display()),
            "name a directory that is not there yet, or an empty one",
        ),
        ServerError::Refused { message, hint, .. } => usage(message, hint),
        ServerError::Store(StoreError::Io { source, .. }) if !backup.exists() => {
            CliError::Read { file: backup.display().to_string(), source }
        }
        ServerError::Store(
            error @ (StoreError::Damaged { .. }
            | StoreError::NotOurs { .. }
            | StoreError::NewerVersion { .. }
            | StoreError::Unreadable { .. }),
        ) => CliError::Damaged {
            message: error.to_string(),
            hint: "use another backup; this one stays as it is".into(),
        },
        error => broken(error.to_string(), hint),
    }
}
