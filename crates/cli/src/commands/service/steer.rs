//! `landfall cancel`, `hold`, `release`, `suspend`, `resume`, `checkpoint`: one order for one or more jobs.

use landfall_api::answer::{Acted, MetricRequest, ResumeRequest};
use landfall_api::fleet::PoolView;
use landfall_api::job::{ArrayView, JobView};
use landfall_client::{Client, segment};
use serde::Serialize;

use super::submit::args::millis;
use crate::answer::{Answer, Page};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::codes;
use crate::render::style::DIM;
use crate::render::text::clean;
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
  landfall metric 12 85
  landfall metric 12 85 --queue 40")]
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
    pub(crate) const HOLD: Self = Self { path: "hold", done: "held back" };
    pub(crate) const RELEASE: Self = Self { path: "release", done: "released" };
    pub(crate) const SUSPEND: Self = Self { path: "suspend", done: "asked to save its work and leave" };
    pub(crate) const RESUME: Self = Self { path: "resume", done: "goes on when there is room" };
    pub(crate) const CHECKPOINT: Self = Self { path: "checkpoint", done: "asked to save its work" };
}

#[derive(Serialize)]
struct Done {
    order: &'static str,
    jobs: Vec<One>,
    #[serde(skip)]
    words: &'static str,
}

#[derive(Serialize)]
struct One {
    job: String,
    ignored: Option<String>,
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
        let jobs = vec![One { job: args.job.clone(), ignored, stopping: None }];
        let data = Done { order: "metric", jobs, words: "noted" };
        Ok(Reply::new("landfall.orders/1", data, page).boxed())
    })
}

fn give(args: &Args, order: Order, body: Option<ResumeRequest>) -> Result<Box<dyn Answer>, CliError> {
    args.connect.ask(async |client| {
        let mut jobs = Vec::new();
        let mut failed: Option<CliError> = None;
        for job in &args.jobs {
            let path = format!("/jobs/{}/{}", segment(job), order.path);
            let acted: Result<Acted, _> = match &body {
                Some(body) => client.post(&path, body).await,
                None => client.order(&path).await,
            };
            match acted {
                Ok(Acted { ignored }) => {
                    let stopping = match order == Order::CANCEL && ignored.is_none() {
                        true => stopping(client, job).await,
                        false => None,
                    };
                    jobs.push(One { job: job.clone(), ignored, stopping });
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
                let data = Done { order: order.path, jobs, words: order.done };
                let mut reply = Reply::new("landfall.orders/1", data, page);
                if let Some(error) = failed {
                    reply = reply.exit(error.exit()).warn(error.to_string());
                } else {
                    reply = reply.exit(Exit::Done);
                }
                Ok(Box::new(reply) as Box<dyn Answer>)
            }
        }
    })
}

fn page(done: &Done, _: Page) -> String {
    let line = |one: &One| {
        let job = clean(&one.job);
        match (&one.ignored, &one.stopping) {
            (None, None) => format!("job {job}: {}\n", done.words),
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
