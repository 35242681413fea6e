//! `landfall cancel`, `hold`, `release`, `suspend`, `resume`, `checkpoint`: one order for one or more jobs.

use landfall_api::answer::{Acted, ResumeRequest};
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
use crate::service::{self, ConnectArgs};

/// Arguments of an order about jobs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Jobs; an array's id means all its elements where that makes sense.
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Arguments of `resume`.
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    args: Args,
    /// A new walltime, if the job used up the old one, such as `2h`.
    #[arg(long, value_name = "SPAN", value_parser = millis)]
    walltime: Option<u64>,
}

/// What is asked of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Take it back.
    Cancel,
    /// Keep it from starting.
    Hold,
    /// Let it start again.
    Release,
    /// Save its work and leave its nodes.
    Suspend,
    /// Go on.
    Resume,
    /// Save its work and go on.
    Checkpoint,
}

impl Order {
    fn path(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::Checkpoint => "checkpoint",
        }
    }

    fn done(self) -> &'static str {
        match self {
            Self::Cancel => "cancelled",
            Self::Hold => "held back",
            Self::Release => "released",
            Self::Suspend => "asked to save its work and leave",
            Self::Resume => "goes on when there is room",
            Self::Checkpoint => "asked to save its work",
        }
    }
}

/// What became of the orders.
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

/// Gives an order to jobs.
pub(crate) fn run(args: &Args, order: Order) -> Result<Box<dyn Answer>, CliError> {
    give(args, order, None)
}

/// Answers `resume`.
pub(crate) fn resume(args: &ResumeArgs) -> Result<Box<dyn Answer>, CliError> {
    let body = args.walltime.map(|span| ResumeRequest { walltime_ms: Some(span) });
    give(&args.args, Order::Resume, body)
}

fn give(args: &Args, order: Order, body: Option<ResumeRequest>) -> Result<Box<dyn Answer>, CliError> {
    let client = args.connect.client()?;
    service::block_on(async {
        let mut jobs = Vec::new();
        let mut failed: Option<CliError> = None;
        for job in &args.jobs {
            let path = format!("/jobs/{}/{}", segment(job), order.path());
            let acted: Result<Acted, _> = match &body {
                Some(body) => client.post(&path, body).await,
                None => client.order(&path).await,
            };
            match acted {
                Ok(Acted { ignored }) => {
                    let stopping = match order == Order::Cancel && ignored.is_none() {
                        true => stopping(&client, job).await,
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
                let data = Done { order: order.path(), jobs, words: order.done() };
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
