//! `landfall arrays`: more elements for an array that was submitted with `--open`, and no more.

use std::path::PathBuf;

use landfall_api::answer::Acted;
use landfall_api::job::{ArrayView, MoreElements, Submitted};
use landfall_client::segment;
use serde::Serialize;

use super::submit::{entries, made_up_key};
use crate::answer::{Answer, Page};
use crate::error::CliError;
use crate::render::text::{clean, count};
use crate::reply::Reply;
use crate::service::ConnectArgs;

#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Add elements to an array that was submitted with --open.
    #[command(after_help = "\
The new elements have the indices that follow. An array whose elements have entries (--each-line, --from-json) gets more of them the \
same way.

Examples:
  landfall arrays add 14 50                       fifty more
  landfall arrays add 15 --each-line more.txt     one more for each line")]
    Add(AddArgs),
    /// Take no more elements: the array ends when all it has have ended.
    #[command(after_help = "Example:\n  landfall arrays close 14")]
    Close(CloseArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// The array.
    #[arg(value_name = "ARRAY")]
    array: String,
    /// How many elements more.
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..), required_unless_present_any = ["each_line", "from_json"])]
    number: Option<u32>,
    /// One for each line of a file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["number", "from_json"])]
    each_line: Option<PathBuf>,
    /// One for each element of a list in JSON.
    #[arg(long, value_name = "FILE", conflicts_with = "number")]
    from_json: Option<PathBuf>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CloseArgs {
    /// Arrays.
    #[arg(value_name = "ARRAY", required = true)]
    arrays: Vec<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What became of arrays.
#[derive(Serialize)]
struct Changed {
    /// How many elements came.
    added: u64,
    /// The arrays as they are now.
    arrays: Vec<ArrayView>,
}

pub(crate) fn run(command: &Command) -> Result<Box<dyn Answer>, CliError> {
    match command {
        Command::Add(args) => add(args),
        Command::Close(args) => close(args),
    }
}

fn add(args: &AddArgs) -> Result<Box<dyn Answer>, CliError> {
    let entries = entries(args.each_line.as_deref(), args.from_json.as_deref())?;
    let more = MoreElements { count: args.number.unwrap_or(0), entries };
    args.connect.ask(async |client| {
        let path = format!("/arrays/{}", segment(&args.array));
        let added: Submitted = client.post_once(&format!("{path}/elements"), &made_up_key()?, &more).await?;
        let arrays = vec![client.get(&path).await?];
        Ok(Reply::new("landfall.arrays/1", Changed { added: added.count, arrays }, page).boxed())
    })
}

fn close(args: &CloseArgs) -> Result<Box<dyn Answer>, CliError> {
    args.connect.ask(async |client| {
        let mut arrays = Vec::new();
        for id in &args.arrays {
            let path = format!("/arrays/{}", segment(id));
            let _: Acted = client.order(&format!("{path}/close")).await?;
            arrays.push(client.get(&path).await?);
        }
        Ok(Reply::new("landfall.arrays/1", Changed { added: 0, arrays }, page).boxed())
    })
}

fn page(changed: &Changed, _: Page) -> String {
    let line = |array: &ArrayView| {
        let id = clean(&array.id);
        let all = count(array.total, "element");
        match array.open {
            true => format!("array {id} has {} more, {all} in all\n", changed.added),
            false => format!("array {id} is closed with {all}\n"),
        }
    };
    changed.arrays.iter().map(line).collect()
}
