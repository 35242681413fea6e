//! `landfall submit`: submit a job, and wait for it if asked.

pub(crate) mod args;
mod dag;
mod entries;
mod lines;
pub(crate) mod request;
pub(crate) mod script;
pub(crate) mod slurm;
mod wait;

use landfall_api::job::{Submitted, SubmittedDag, SubmittedKey, SubmittedLine};
use landfall_api::node::NodeView;
use landfall_client::Client;
use serde::Serialize;

use self::args::JobArgs;
pub(crate) use self::entries::entries;
use self::request::{Asked, Origin, asked};
pub(crate) use self::wait::{Manner, Target, is_over, wait};
use super::{listing, plan};
use crate::answer::{Answer, Page, warn};
use crate::error::{CliError, broken};
use crate::exit::Exit;
use crate::render::style::{DIM, STRONG};
use crate::render::text::clean;
use crate::reply::{Reply, Said};
use crate::service::{ConnectArgs, Returning};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A job that says nothing about what it needs gets one core and runs as a process. What you write after `--` runs as it stands, \
without a shell.

Examples:
  landfall submit -- echo hello
  landfall submit --wait -- make -j4 test             wait, show its output, end with its exit code
  landfall submit --gpu 1:24GiB --memory 32GiB --name train -- python train.py
  landfall submit --array 1-1000 -- ./simulate        one job for each index, in LANDFALL_ARRAY_INDEX
  landfall submit --each-line inputs.txt -- ./simulate {entry}
  landfall submit --array 1-10 --open -- ./simulate   more later, with `landfall arrays add`
  landfall submit --cpu 2 --pin -- ./simulate         two cores of its own
  landfall submit job.sh                              a script with #LANDFALL or #SBATCH lines
  landfall submit --depends-on 12 -- ./report         after job 12 has completed
  landfall submit --file pipeline.toml                several jobs that depend on each other
  landfall submit --file many.jsonl                   a job in JSON on each line, answered one by one
  landfall submit --dry-run --gpu 4 -- ./big          where it would start, or why it would wait

With --wait the program ends with 0 if all is well, else with the exit code of the (first) job that did not end well; a \
job that was lost, killed or cancelled counts as 1. Ctrl-C stops waiting, not the job.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Wait until it has ended, show what it writes and end with its exit code.
    #[arg(long, short)]
    wait: bool,
    /// Show only its id; with --wait, show nothing that it writes.
    #[arg(long, short)]
    quiet: bool,
    /// With --wait: Ctrl-C cancels the job.
    #[arg(long, requires = "wait")]
    cancel_on_interrupt: bool,
    /// Submit nothing; say where it would start and why, or why it would wait.
    #[arg(long, conflicts_with_all = ["wait", "quiet"])]
    dry_run: bool,
    /// A word of your own that makes the submission safe to repeat [default: one made up].
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Most jobs that are named once more in a hint.
const NAMED_MAX: usize = 20;
/// Most jobs that are listed one by one.
const LISTED_MAX: usize = 1000;

/// What a submission became.
#[derive(Default, Serialize)]
struct Accepted {
    /// The id, if there is one: of a job or of an array.
    id: Option<String>,
    /// The DAG that the jobs make up.
    #[serde(skip_serializing_if = "Option::is_none")]
    dag: Option<String>,
    jobs: Vec<SubmittedKey>,
    count: u64,
    repeated: bool,
    /// What whoever submits should know, such as that no node could ever run it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    /// Lines of a file that were refused, where the others were not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<SubmittedLine>,
    /// Which of them are arrays.
    #[serde(skip)]
    arrays: Vec<String>,
    #[serde(skip)]
    quiet: bool,
}

impl Accepted {
    fn nothing(quiet: bool) -> Self {
        Self { quiet, ..Self::default() }
    }

    fn exit(&self) -> Exit {
        if self.refused.is_empty() { Exit::Done } else { Exit::Refused }
    }
}

pub(crate) fn run(args: &Args, json: bool) -> Result<Box<dyn Answer>, CliError> {
    let asked = asked(&args.job, || args.connect.now())?;
    let origin = Origin::of(&args.job, &asked);
    let placed = |error| match &origin {
        Some(origin) => origin.place(error),
        None => error,
    };
    args.connect.ask(async |client| {
        if args.dry_run {
            return plan::dry_run(client, asked).await.map_err(placed);
        }
        let asks_for = runtime_by_name(&args.job, &asked);
        let key = match &args.idempotency_key {
            Some(key) => key.clone(),
            None => made_up_key()?,
        };
        let (accepted, targets) = submit(client, &key, asked, args.quiet).await.map_err(placed)?;
        for warning in &accepted.warnings {
            warn(warning);
        }
        if let Some(runtime) = asks_for.filter(|_| accepted.warnings.is_empty())
            && nobody_offers(client, &runtime).await
        {
            warn(&format!("no node offers the runtime `{runtime}` now, so the job waits for one that does"));
        }
        if !args.wait || targets.is_empty() {
            let exit = accepted.exit();
            return Ok(Reply::new("landfall.submitted/1", accepted, page).exit(exit).boxed());
        }
        let cancel = args.cancel_on_interrupt;
        waited(client, &args.connect, &accepted, targets, (args.quiet, json, cancel)).await
    })
}

/// Waits for what was submitted just now.
async fn waited(
    client: &Client,
    connect: &ConnectArgs,
    accepted: &Accepted,
    targets: Vec<Target>,
    (quiet, json, cancel_on_interrupt): (bool, bool, bool),
) -> Result<Box<dyn Answer>, CliError> {
    if !json && !quiet {
        let names: Vec<&str> = accepted.jobs.iter().map(|job| job.id.as_str()).collect();
        anstream::eprintln!("{DIM}submitted {}{DIM:#}", names.join(", "));
    }
    let manner = Manner { output: !json && !quiet, progress: !json && !quiet, cancel_on_interrupt };
    let ended = wait(Returning::new(client.clone(), connect), targets, manner).await?;
    let exit = if ended.exit == Exit::Done { accepted.exit() } else { ended.exit };
    if let Some(dag) =
        accepted.dag.as_ref().filter(|_| manner.progress && !ended.interrupted && exit != Exit::Done)
    {
        anstream::eprintln!("`landfall dags retry {}` runs again what did not complete", clean(dag));
    }
    match json {
        true => Ok(Reply::new("landfall.waited/1", ended, |_, _| String::new()).exit(exit).boxed()),
        false => Ok(Box::new(Said(exit)) as Box<dyn Answer>),
    }
}

/// Submits what has nothing to do with each other, one by one, and waits for all of it if asked.
pub(crate) async fn hand_in(
    client: &Client,
    connect: &ConnectArgs,
    asked: Vec<Asked>,
    waits: bool,
    quiet: bool,
    json: bool,
) -> Result<Box<dyn Answer>, CliError> {
    let key = made_up_key()?;
    let mut all = Accepted::nothing(quiet);
    let mut targets = Vec::new();
    for (place, one) in asked.into_iter().enumerate() {
        let (one, target) = submit(client, &format!("{key}-{place}"), one, quiet).await?;
        // Several have no id in common.
        (all.id, all.dag) = if place == 0 { (one.id, one.dag) } else { (None, None) };
        all.jobs.extend(one.jobs);
        all.arrays.extend(one.arrays);
        all.count += one.count;
        all.warnings.extend(one.warnings);
        targets.extend(target);
    }
    all.warnings.iter().for_each(|warning| warn(warning));
    match waits {
        true => waited(client, connect, &all, targets, (quiet, json, false)).await,
        false => Ok(Reply::new("landfall.submitted/1", all, page).boxed()),
    }
}

/// A runtime that somebody named and that not every node has.
fn runtime_by_name(args: &JobArgs, asked: &Asked) -> Option<String> {
    let in_file = match asked {
        Asked::One(job) => job.needs.runtime.as_ref().map(landfall_model::Name::as_str),
        Asked::Dag(_) | Asked::Lines(_) => None,
    };
    let named = args.runtime.as_deref().or(in_file)?;
    (named != "process").then(|| named.to_owned())
}

/// Whether there are nodes and none of them runs this. Somebody who may not look is not told.
async fn nobody_offers(client: &Client, runtime: &str) -> bool {
    let nodes: Vec<NodeView> =
        listing::all(client, "/nodes", &[("limit", Some("10000"))]).await.unwrap_or_default();
    !nodes.is_empty() && !nodes.iter().any(|node| node.runtimes.iter().any(|known| known == runtime))
}

async fn submit(
    client: &Client,
    key: &str,
    asked: Asked,
    quiet: bool,
) -> Result<(Accepted, Vec<Target>), CliError> {
    let (mut accepted, targets) = send(client, key, asked, quiet).await?;
    accepted.arrays = targets.iter().filter_map(Target::array).map(str::to_owned).collect();
    Ok((accepted, targets))
}

async fn send(
    client: &Client,
    key: &str,
    asked: Asked,
    quiet: bool,
) -> Result<(Accepted, Vec<Target>), CliError> {
    match asked {
        Asked::One(job) => {
            let is_array = job.array.is_some() || !job.entries.is_empty();
            let Submitted { id, count, repeated, warnings } = client.post_once("/jobs", key, &*job).await?;
            let target = if is_array { Target::Array(id.clone()) } else { Target::Job(id.clone()) };
            let jobs = vec![SubmittedKey { key: job.key, id: id.clone() }];
            let (dag, nothing) = (job.dag, Accepted::nothing(quiet));
            Ok((Accepted { id: Some(id), dag, jobs, count, repeated, warnings, ..nothing }, vec![target]))
        }
        Asked::Lines(lines) => lines::send(client, key, lines, quiet).await,
        Asked::Dag(dag) if dag.jobs.iter().any(|job| job.array.is_some() || !job.entries.is_empty()) => {
            dag::one_by_one(client, key, dag, quiet).await
        }
        Asked::Dag(dag) => {
            let SubmittedDag { id, jobs, repeated, warnings } = client.post_once("/dags", key, &dag).await?;
            let targets: Vec<Target> = jobs.iter().map(|job| Target::Job(job.id.clone())).collect();
            let count = dag.jobs.len() as u64;
            // One that is alone is no DAG.
            let dag = Some(id).filter(|id| jobs.len() > 1 && !id.is_empty());
            Ok((Accepted { dag, jobs, count, repeated, warnings, ..Accepted::nothing(quiet) }, targets))
        }
    }
}

/// A key that nobody else has.
pub(crate) fn made_up_key() -> Result<String, CliError> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        broken(format!("the system gives no random numbers: {error}"), "say --idempotency-key yourself")
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn page(accepted: &Accepted, _: Page) -> String {
    let Accepted { jobs, arrays, repeated, quiet, .. } = accepted;
    if *quiet {
        return jobs.iter().map(|job| format!("{}\n", clean(&job.id))).collect();
    }
    if jobs.len() > LISTED_MAX && accepted.dag.is_none() {
        let (first, last) = (clean(&jobs[0].id), clean(&jobs[jobs.len() - 1].id));
        return format!("{} jobs, {STRONG}{first}{STRONG:#} to {STRONG}{last}{STRONG:#}\n", jobs.len());
    }
    let again = if *repeated { " (it had been accepted before)" } else { "" };
    let mut text = String::new();
    for job in jobs {
        let what = if arrays.contains(&job.id) { "array" } else { "job" };
        let key = job.key.as_deref().map(|key| format!("  {}", clean(key))).unwrap_or_default();
        text += &format!("{what} {STRONG}{}{STRONG:#}{key}{again}\n", clean(&job.id));
    }
    let ids: Vec<String> = jobs.iter().map(|job| clean(&job.id)).collect();
    let next = match (ids.as_slice(), &accepted.dag) {
        ([id], _) if !arrays.is_empty() => {
            format!("landfall job {id} says how many are where, landfall jobs --array {id} lists them")
        }
        ([id], _) => {
            format!("landfall job {id} says where it stands, landfall logs -f {id} shows what it writes")
        }
        (_, Some(dag)) => {
            let id = clean(dag);
            format!("landfall dag {id} says where they stand, landfall dags cancel {id} cancels them")
        }
        (some, None) if some.len() > NAMED_MAX => return text,
        (some, None) => format!("landfall wait {} waits for all of them", some.join(" ")),
    };
    text += &format!("{DIM}{next}{DIM:#}\n");
    text
}
