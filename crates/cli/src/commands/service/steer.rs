//! `landfall cancel`, `hold`, `release`, `suspend`, `resume`, `checkpoint`: one order for one or more jobs.

use std::io::{BufRead as _, IsTerminal as _};

use landfall_api::answer::{Acted, MetricRequest, ResumeRequest};
use landfall_api::fleet::PoolView;
use landfall_api::job::{ArrayView, JobView};
use landfall_client::{Client, segment};
use serde::Serialize;

use super::submit::args::millis;
use super::{again, jobs};
use crate::answer::{Answer, Page};
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::render::codes;
use crate::render::style::DIM;
use crate::render::text::{clean, count};
use crate::reply::Reply;
use crate::service::ConnectArgs;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Jobs; an array's id means all its elements where that makes sense.
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("which").args(["jobs", "name", "state", "pool", "tenant", "all"]).multiple(true).required(true)))]
#[command(after_help = "\
Jobs that run are asked to end, and killed after a while if they do not. Whoever names jobs by what they have in common is told how \
many those are and asked once; --yes answers.

Examples:
  landfall cancel 4
  landfall cancel --name sweep --yes
  landfall cancel --state pending --pool default --yes
  landfall cancel --all --yes")]
pub(crate) struct CancelArgs {
    /// Jobs; an array's id means all its elements.
    #[arg(value_name = "JOB", conflicts_with_all = ["name", "state", "pool", "tenant", "all"])]
    jobs: Vec<String>,
    /// All of this name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// All in one of these states, separated by commas, such as `pending` or `running`.
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = LIVE_STATES)]
    state: Vec<String>,
    /// All of this pool.
    #[arg(long, value_name = "ID")]
    pool: Option<String>,
    /// All of this tenant.
    #[arg(long, value_name = "ID")]
    tenant: Option<String>,
    /// All that you may cancel.
    #[arg(long)]
    all: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// States that a job can be taken back in.
const LIVE_STATES: [&str; 6] = ["pending", "staging", "running", "checkpointing", "stopping", "suspended"];

pub(crate) fn cancel(args: &CancelArgs) -> Result<Box<dyn Answer>, CliError> {
    args.connect.ask(async |client| {
        if !args.jobs.is_empty() {
            return order(client, Order::CANCEL.of(&args.jobs), None).await;
        }
        let states = if args.state.is_empty() { "live".to_owned() } else { args.state.join(",") };
        let filter = [
            ("state", Some(states.as_str())),
            ("name", args.name.as_deref()),
            ("pool", args.pool.as_deref()),
            ("tenant", args.tenant.as_deref()),
        ];
        let found = jobs::collect(client, &filter, usize::MAX, true).await?;
        let mut all = Order::CANCEL.of(found.jobs.iter().map(|job| &job.id));
        let mut elements = 0;
        for array in &found.arrays {
            if args.state.is_empty() || is_whole(array, &args.state) {
                all.push((array.id.clone(), Order::CANCEL));
                elements += array.pending + array.running;
                continue;
            }
            // Elements in other states go on. Those that wait are not all jobs yet, so they are taken back together.
            if args.state.iter().any(|state| state == "pending") && array.pending > 0 {
                all.push((array.id.clone(), Order::CANCEL_WAITING));
                elements += array.pending;
            }
            let others: Vec<&str> =
                args.state.iter().map(String::as_str).filter(|state| *state != "pending").collect();
            if !others.is_empty() {
                let some = again::elements(client, &array.id, Some(&others.join(",")), usize::MAX).await?;
                elements += some.len() as u64;
                all.extend(Order::CANCEL.of(some.iter().map(|job| &job.id)));
            }
        }
        let count = count(found.jobs.len() as u64 + elements, "job");
        let count = match found.arrays.len() {
            0 => count,
            1 => format!("{count}, {elements} of them of an array"),
            some => format!("{count}, {elements} of them of {some} arrays"),
        };
        if all.is_empty() {
            let reply = Reply::new("landfall.orders/1", Done::nothing(), page).exit(Exit::Nothing);
            let unknown = jobs::unknown(client, &[("pool", &args.pool), ("tenant", &args.tenant)]).await;
            return Ok(Box::new(unknown.into_iter().fold(reply, Reply::warn)));
        }
        if !args.yes && !agreed(&format!("cancel {count}?"))? {
            return Err(usage("nothing was cancelled", "say y, or --yes"));
        }
        let done = order(client, all, None).await?;
        anstream::eprintln!("{}", clean(&format!("cancelled {count}")));
        Ok(done)
    })
}

/// Whether all elements of an array that have not ended are in one of these states.
fn is_whole(array: &ArrayView, states: &[String]) -> bool {
    let waits = states.iter().any(|state| state == "pending");
    let runs = states.iter().any(|state| state == "running");
    (array.pending == 0 || waits) && (array.running == 0 || runs)
}

/// Asks somebody who can answer.
fn agreed(question: &str) -> Result<bool, CliError> {
    if !std::io::stdin().is_terminal() {
        return Err(usage(format!("{question} There is nobody to answer"), "say --yes"));
    }
    anstream::eprint!("{} [y/N] ", clean(question));
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(CliError::Output)?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    args: Args,
    /// A new walltime, if the job used up the old one, such as `2h`.
    #[arg(long, value_name = "SPAN", value_parser = millis)]
    walltime: Option<u64>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A service (lifecycle=reactive) with a target grows by a node when its metric stays above the target, and shrinks when it stays below half of
it. On the node a job says the same by writing `VALUE` or `VALUE QUEUE` to $LANDFALL_METRIC_FILE.

Examples:
  landfall metric 16 85
  landfall metric 16 85 --queue 40")]
pub(crate) struct MetricArgs {
    /// The job.
    #[arg(value_name = "JOB")]
    job: String,
    /// What it measures; how busy it is from 0 to 1 if it has no target.
    #[arg(value_name = "VALUE")]
    value: f64,
    /// Requests that wait.
    #[arg(long, value_name = "N", default_value_t = 0)]
    queue: u64,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What is asked of jobs: the word of its route, and what is said once it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    path: &'static str,
    done: &'static str,
}

impl Order {
    pub(crate) const CANCEL: Self = Self { path: "cancel", done: "cancelled" };
    const CANCEL_WAITING: Self = Self { path: "cancel?waiting=true", done: "what waited is cancelled" };
    pub(crate) const HOLD: Self = Self { path: "hold", done: "held back" };
    pub(crate) const RELEASE: Self = Self { path: "release", done: "released" };
    pub(crate) const SUSPEND: Self = Self { path: "suspend", done: "asked to save its work and leave" };
    pub(crate) const RESUME: Self = Self { path: "resume", done: "goes on when there is room" };
    pub(crate) const CHECKPOINT: Self = Self { path: "checkpoint", done: "asked to save its work" };

    /// This order for each of these jobs.
    fn of<'a>(self, jobs: impl IntoIterator<Item = &'a String>) -> Vec<(String, Self)> {
        jobs.into_iter().map(|job| (job.clone(), self)).collect()
    }
}

#[derive(Serialize)]
struct Done {
    order: &'static str,
    jobs: Vec<One>,
}

impl Done {
    fn nothing() -> Self {
        Self { order: Order::CANCEL.path, jobs: Vec::new() }
    }
}

#[derive(Serialize)]
struct One {
    job: String,
    ignored: Option<String>,
    /// What is said once it is done.
    #[serde(skip)]
    words: &'static str,
    /// Something that was cancelled and still runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopping: Option<Stopping>,
}

/// What still runs after it was cancelled.
#[derive(Serialize)]
struct Stopping {
    /// How many jobs.
    jobs: u64,
    /// After how long they are killed, if that is known.
    kill_after_ms: Option<u64>,
    #[serde(skip)]
    array: bool,
}

impl Stopping {
    fn words(&self) -> String {
        let end = if self.jobs == 1 { "if it does not end" } else { "if they do not end" };
        let killed = match self.kill_after_ms {
            Some(ms) => format!("killed in {} s {end}", ms.div_ceil(1000)),
            None => format!("killed {end}"),
        };
        match (self.array, self.jobs) {
            (false, _) => format!("stopping; {killed}"),
            (true, 1) => format!("cancelled; 1 that runs is being stopped, {killed}"),
            (true, more) => format!("cancelled; {more} that run are being stopped, {killed}"),
        }
    }
}

/// What a cancelled job or array still runs; what cannot be learnt is left out.
async fn stopping(client: &Client, id: &str) -> Option<Stopping> {
    let id = segment(id);
    let (pool, jobs, array) = match client.get::<JobView>(&format!("/jobs/{id}")).await {
        Ok(job) => {
            let runs = matches!(job.state.as_str(), "staging" | "running" | "checkpointing" | "stopping");
            (job.pool, u64::from(runs), false)
        }
        Err(_) => {
            let array: ArrayView = client.get(&format!("/arrays/{id}")).await.ok()?;
            (array.pool, array.running, true)
        }
    };
    if jobs == 0 {
        return None;
    }
    let pool = client.get::<PoolView>(&format!("/pools/{}", segment(&pool))).await.ok();
    let kill_after_ms = pool.and_then(|view| view.pool["batch"]["kill_grace_ms"].as_u64());
    Some(Stopping { jobs, kill_after_ms, array })
}

pub(crate) fn run(args: &Args, order: Order) -> Result<Box<dyn Answer>, CliError> {
    give(args, order, None)
}

pub(crate) fn resume(args: &ResumeArgs) -> Result<Box<dyn Answer>, CliError> {
    let body = args.walltime.map(|span| ResumeRequest { walltime_ms: Some(span) });
    give(&args.args, Order::RESUME, body)
}

pub(crate) fn metric(args: &MetricArgs) -> Result<Box<dyn Answer>, CliError> {
    args.connect.ask(async |client| {
        let said = MetricRequest { value: args.value, queue: args.queue };
        let path = format!("/jobs/{}/metric", segment(&args.job));
        let Acted { ignored } = client.post(&path, &said).await?;
        let jobs = vec![One { job: args.job.clone(), ignored, words: "noted", stopping: None }];
        let data = Done { order: "metric", jobs };
        Ok(Reply::new("landfall.orders/1", data, page).boxed())
    })
}

fn give(args: &Args, what: Order, body: Option<ResumeRequest>) -> Result<Box<dyn Answer>, CliError> {
    args.connect.ask(async |client| order(client, what.of(&args.jobs), body.as_ref()).await)
}

async fn order(
    client: &Client,
    all: Vec<(String, Order)>,
    body: Option<&ResumeRequest>,
) -> Result<Box<dyn Answer>, CliError> {
    let mut jobs = Vec::new();
    let mut failed: Option<CliError> = None;
    let name = all.first().map_or("", |(_, order)| order.path.split('?').next().unwrap_or_default());
    for (job, order) in all {
        let path = format!("/jobs/{}/{}", segment(&job), order.path);
        let acted: Result<Acted, _> = match body {
            Some(body) => client.post(&path, body).await,
            None => client.order(&path).await,
        };
        match acted {
            Ok(Acted { ignored }) => {
                let stopping = match order == Order::CANCEL && ignored.is_none() {
                    true => stopping(client, &job).await,
                    false => None,
                };
                jobs.push(One { job, ignored, words: order.done, stopping });
            }
            // The others are still asked; the first failure is told at the end.
            Err(error) if error.status().is_some() => {
                failed.get_or_insert(CliError::Service(error));
            }
            Err(error) => return Err(error.into()),
        }
    }
    match failed {
        Some(error) if jobs.is_empty() => Err(error),
        failed => {
            let data = Done { order: name, jobs };
            let mut reply = Reply::new("landfall.orders/1", data, page);
            if let Some(error) = failed {
                reply = reply.exit(error.exit()).warn(error.to_string());
            } else {
                reply = reply.exit(Exit::Done);
            }
            Ok(Box::new(reply) as Box<dyn Answer>)
        }
    }
}

fn page(done: &Done, _: Page) -> String {
    if done.jobs.is_empty() {
        return "there are no such jobs\n".to_owned();
    }
    let line = |one: &One| {
        let job = clean(&one.job);
        match (&one.ignored, &one.stopping) {
            (None, None) => format!("job {job}: {}\n", one.words),
            (None, Some(stopping)) => format!("job {job}: {}\n", stopping.words()),
            (Some(why), _) => {
                format!("job {job}: {DIM}nothing changed: {}{DIM:#}\n", clean(codes::ignored(why)))
            }
        }
    };
    done.jobs.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_is_being_stopped_is_not_called_cancelled() {
        let words = |jobs, kill_after_ms, array| Stopping { jobs, kill_after_ms, array }.words();
        assert_eq!(words(1, Some(30_000), false), "stopping; killed in 30 s if it does not end");
        assert_eq!(words(1, None, false), "stopping; killed if it does not end");
        assert_eq!(
            words(4, Some(1500), true),
            "cancelled; 4 that run are being stopped, killed in 2 s if they do not end"
        );
    }
}
