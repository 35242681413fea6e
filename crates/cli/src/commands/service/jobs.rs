//! `landfall jobs` and `landfall job`.

use landfall_api::Paged;
use landfall_api::job::{ArrayView, JobView, STATES_ASKED};
use landfall_client::{Client, ClientError, segment, with_query};
use serde::Serialize;

use crate::answer::Answer;
use crate::error::CliError;
use crate::render;
use crate::reply::Reply;
use crate::service::{ConnectArgs, now_ms};

/// Jobs that one page of the server holds at most.
const PAGE_MAX: usize = 1000;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Jobs that have not ended, newest first; --all adds those that have. Elements of an array are one line with how many are \
where; --array ID lists them.

Examples:
  landfall jobs
  landfall jobs --state pending --pool gpu
  landfall jobs --all --limit 20
  landfall jobs --array 12 --state failed")]
pub(crate) struct Args {
    /// Jobs that have ended, too.
    #[arg(long, short)]
    all: bool,
    /// Only these states, separated by commas; `live` and `ended` stand for several.
    #[arg(long, value_name = "STATES", value_delimiter = ',', conflicts_with = "all", value_parser = STATES_ASKED)]
    state: Vec<String>,
    /// Only this pool.
    #[arg(long, value_name = "ID")]
    pool: Option<String>,
    /// Only this tenant.
    #[arg(long, value_name = "ID")]
    tenant: Option<String>,
    /// Only the elements of this array, one by one.
    #[arg(long, value_name = "ID")]
    array: Option<String>,
    /// Only jobs of this name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only jobs on this node.
    #[arg(long, value_name = "ID")]
    node: Option<String>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
pub(crate) struct Listed {
    /// Jobs; elements of arrays that are in `arrays` are left out.
    pub(crate) jobs: Vec<JobView>,
    /// Arrays that have elements among what was asked for.
    pub(crate) arrays: Vec<ArrayView>,
    /// Whether there are more.
    pub(crate) more: bool,
    pub(crate) now_ms: u64,
}

pub(crate) fn list(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    args.connect.ask(async |client| {
        let states = match (args.all || args.array.is_some(), args.state.as_slice()) {
            (_, states @ [_, ..]) => Some(states.join(",")),
            (true, []) => None,
            (false, []) => Some("live".to_owned()),
        };
        let filter = [
            ("state", states.as_deref()),
            ("pool", args.pool.as_deref()),
            ("tenant", args.tenant.as_deref()),
            ("array", args.array.as_deref()),
            ("name", args.name.as_deref()),
            ("node", args.node.as_deref()),
        ];
        let fold = args.array.is_none();
        let mut listed = collect(client, &filter, args.limit as usize, fold).await?;
        let unknown = match listed.jobs.is_empty() && listed.arrays.is_empty() {
            true => {
                unknown(
                    client,
                    &[
                        ("pool", &args.pool),
                        ("tenant", &args.tenant),
                        ("array", &args.array),
                        ("node", &args.node),
                    ],
                )
                .await
            }
            false => Vec::new(),
        };
        let folded = folded(client, args, &mut listed).await;
        let mut reply = Reply::new("landfall.jobs/1", listed, render::service::jobs::list);
        for words in unknown.into_iter().chain(folded) {
            reply = reply.warn(words);
        }
        Ok(Box::new(reply) as Box<dyn Answer>)
    })
}

/// What was asked for and is not there: somebody who finds no jobs may have misspelled it.
pub(crate) async fn unknown(client: &Client, named: &[(&str, &Option<String>)]) -> Vec<String> {
    let mut words = Vec::new();
    for (what, id) in named {
        let Some(id) = id else { continue };
        let found = client.get::<serde_json::Value>(&format!("/{what}s/{}", segment(id))).await;
        if found.is_err_and(|error| error.status() == Some(404)) {
            words.push(format!("there is no {what} `{id}`"));
        }
    }
    words
}

/// What a list of an array's elements leaves out: those that wait far back are not jobs yet.
async fn folded(client: &Client, args: &Args, listed: &mut Listed) -> Option<String> {
    let asked_for =
        args.state.is_empty() || args.state.iter().any(|state| state == "live" || state == "pending");
    if !asked_for || listed.more || args.node.is_some() || args.name.is_some() {
        return None;
    }
    let array: ArrayView = client.get(&format!("/arrays/{}", segment(args.array.as_ref()?))).await.ok()?;
    let shown = listed.jobs.iter().filter(|job| job.state == "pending").count() as u64;
    let rest = array.pending.checked_sub(shown).filter(|rest| *rest > 0)?;
    if listed.jobs.is_empty() {
        // Better one line about all of them than none.
        listed.arrays.push(array);
        return None;
    }
    Some(format!("{rest} more elements wait; they are listed once they are about to start"))
}

/// Reads pages until there are enough lines; an array is one line however many elements it has.
pub(crate) async fn collect(
    client: &Client,
    filter: &[(&str, Option<&str>)],
    limit: usize,
    fold: bool,
) -> Result<Listed, ClientError> {
    let (mut jobs, mut arrays): (Vec<JobView>, Vec<ArrayView>) = (Vec::new(), Vec::new());
    let mut cursor: Option<String> = None;
    let size = if fold { PAGE_MAX } else { limit.min(PAGE_MAX) }.to_string();
    loop {
        let mut params = filter.to_vec();
        params.extend([("limit", Some(size.as_str())), ("cursor", cursor.as_deref())]);
        let page: Paged<JobView> = client.get(&with_query("/jobs", &params)).await?;
        for job in page.items {
            let element = job.array.as_ref().filter(|_| fold).map(|element| &element.id);
            let array = job.elements.map(|_| &job.id).or(element);
            match array {
                Some(id) if arrays.iter().any(|array| array.id == *id) => continue,
                _ if jobs.len() + arrays.len() >= limit => {
                    return Ok(Listed { jobs, arrays, more: true, now_ms: now_ms() });
                }
                Some(id) => arrays.push(client.get(&format!("/arrays/{}", segment(id))).await?),
                None => jobs.push(job),
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(Listed { jobs, arrays, more: false, now_ms: now_ms() });
        }
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  landfall job 12
  landfall job 12.0007                an element of array 12
  landfall job 12 --json | jq .state")]
pub(crate) struct OneArgs {
    /// The job or array.
    #[arg(value_name = "JOB")]
    job: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
pub(crate) struct One {
    #[serde(flatten)]
    pub(crate) job: JobView,
    /// When it starts, if it waits.
    pub(crate) estimate: Option<serde_json::Value>,
    pub(crate) now_ms: u64,
}

#[derive(Serialize)]
pub(crate) struct OneArray {
    #[serde(flatten)]
    pub(crate) array: ArrayView,
    pub(crate) now_ms: u64,
}

pub(crate) fn one(args: &OneArgs) -> Result<Box<dyn Answer>, CliError> {
    args.connect.ask(async |client| {
        let id = segment(&args.job);
        let job: JobView = match client.get(&format!("/jobs/{id}")).await {
            Ok(job) => job,
            Err(error) if error.status() == Some(404) => {
                let array: ArrayView = client.get(&format!("/arrays/{id}")).await.map_err(|_| error)?;
                let data = OneArray { array, now_ms: now_ms() };
                return Ok(Reply::new("landfall.array/1", data, render::service::jobs::array).boxed());
            }
            Err(error) => return Err(error.into()),
        };
        let waits = matches!(job.state.as_str(), "pending" | "suspended");
        let estimate = match waits {
            true => client.get(&format!("/jobs/{id}/estimate")).await.ok(),
            false => None,
        };
        let data = One { job, estimate, now_ms: now_ms() };
        Ok(Reply::new("landfall.job/1", data, render::service::jobs::one).boxed())
    })
}
