//! `landfall wait` and `landfall retry`: what was submitted before.

use std::collections::BTreeSet;

use landfall_api::Paged;
use landfall_api::job::{ArrayView, DagJob, DagRequest, DagView, DependsOn, JobRequest, JobView};
use landfall_client::{Client, ClientError, segment, with_query};
use landfall_model::life::{EdgeKind, Join};
use landfall_model::{Indices, LISTED_MAX, Millis, Requeue};

use super::submit::args::millis;
use super::submit::request::Asked;
use super::submit::{Manner, Target, hand_in, is_over, wait};
use crate::answer::Answer;
use crate::error::{CliError, broken, usage};
use crate::reply::{Reply, Said};
use crate::service::{ConnectArgs, Returning};

/// Elements that one page of the server holds at most.
const PAGE_MAX: &str = "1000";

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Shows where they stand until all have ended, then what failed with the last it wrote. Ends with 0 if all is well, else with the exit \
code of the first that did not end well. Ctrl-C stops waiting, not the jobs.

Examples:
  landfall wait 9
  landfall wait 9 10 11 --quiet")]
pub(crate) struct WaitArgs {
    /// Jobs and arrays.
    #[arg(value_name = "JOB", required_unless_present = "dag")]
    jobs: Vec<String>,
    /// All jobs of this DAG; the id of any of them will do.
    #[arg(long, value_name = "DAG")]
    dag: Option<String>,
    /// Show nothing.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) fn wait_for(args: &WaitArgs, json: bool) -> Result<Box<dyn Answer>, CliError> {
    args.connect.ask(async |client| {
        let mut targets = Vec::new();
        for id in &args.jobs {
            targets.push(match found(client, id).await? {
                Found::Job(job) => Target::Job(job.id),
                Found::Array(array) => Target::Array(array.id),
            });
        }
        if let Some(id) = &args.dag {
            let dag: DagView = client.get(&format!("/dags/{}", segment(id))).await?;
            targets.extend(dag.jobs.into_iter().map(|job| match job.elements {
                Some(_) => Target::Array(job.id),
                None => Target::Job(job.id),
            }));
        }
        let shows = !json && !args.quiet;
        let manner = Manner { output: false, progress: shows, cancel_on_interrupt: false };
        let ended = wait(Returning::new(client.clone(), &args.connect), targets, manner).await?;
        let exit = ended.exit;
        Ok(match json {
            true => Reply::new("landfall.waited/1", ended, |_, _| String::new()).exit(exit).boxed(),
            false => Box::new(Said(exit)),
        })
    })
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Submits what has ended once more, as it was, and says the new id. Of an array --failed takes only the elements that failed or were \
cancelled, with the indices they had.

Examples:
  landfall retry 9
  landfall retry 8 --failed               the elements of array 8 that failed
  landfall retry 9 --retries 3 --retry-delay 10s
  landfall retry 8.042 --wait")]
pub(crate) struct RetryArgs {
    /// A job, an array, or an element of one.
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
    /// Only what did not end well.
    #[arg(long)]
    failed: bool,
    /// How often it may fail this time before it has failed [default: as it was submitted].
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Pause before a run that failed is repeated; it doubles each time, to 10 min at most [default: as it was submitted].
    #[arg(long, value_name = "SPAN", value_parser = millis)]
    retry_delay: Option<u64>,
    /// Wait until it has ended.
    #[arg(long, short)]
    wait: bool,
    /// Show only the new ids.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) fn retry(args: &RetryArgs, json: bool) -> Result<Box<dyn Answer>, CliError> {
    args.connect.ask(async |client| {
        let mut requests = Vec::new();
        for id in &args.jobs {
            requests.extend(once_more(client, id, args.failed).await?);
        }
        for request in &mut requests {
            let needs = &mut request.needs;
            if let Some(number) = args.retries {
                needs.max_requeue = Some(number);
                // Whoever names exit codes means those.
                if number > 0 && request.run.retry_on.is_empty() {
                    needs.requeue = Some(Requeue::Always);
                }
            }
            needs.retry_delay_ms = args.retry_delay.map(Millis::new).or(needs.retry_delay_ms);
        }
        if requests.is_empty() {
            return Err(usage("nothing of it failed", "leave --failed out to run all of it again"));
        }
        let asked = requests.into_iter().map(|request| Asked::One(Box::new(request))).collect();
        hand_in(client, &args.connect, asked, args.wait, args.quiet, json).await
    })
}

enum Found {
    Job(Box<JobView>),
    Array(Box<ArrayView>),
}

/// The job or array of an id.
async fn found(client: &Client, id: &str) -> Result<Found, CliError> {
    match client.get(&format!("/jobs/{}", segment(id))).await {
        Ok(job) => Ok(Found::Job(Box::new(job))),
        Err(error) if error.status() == Some(404) => {
            let array = client.get(&format!("/arrays/{}", segment(id))).await;
            Ok(Found::Array(Box::new(array.map_err(|_| CliError::from(error))?)))
        }
        Err(error) => Err(error.into()),
    }
}

/// What has to be submitted so that something runs again.
async fn once_more(client: &Client, id: &str, failed: bool) -> Result<Vec<JobRequest>, CliError> {
    let array = match found(client, id).await? {
        Found::Job(job) if !is_over(&job.state) => return Err(still_there(&job.id)),
        Found::Job(job) if failed && job.state == "completed" => return Ok(Vec::new()),
        Found::Job(job) => return Ok(vec![as_submitted(client, &job.id).await?]),
        Found::Array(array) if !array.is_over() && !failed => return Err(still_there(&array.id)),
        Found::Array(array) => array,
    };
    let whole = as_submitted(client, &array.id).await?;
    if !failed {
        return Ok(vec![whole]);
    }
    let mut bad = indices(client, &array.id, "failed,cancelled").await?;
    // What was cancelled before its turn came never was a job, and is in no list.
    if array.is_over() && bad.len() as u64 != array.failed + array.cancelled {
        let good = indices(client, &array.id, "completed").await?;
        bad = array.range.iter().filter(|index| !good.contains(index)).collect();
    }
    let bad: Vec<u32> = bad.into_iter().collect();
    let entry = |index: u32| whole.entries.get(array.range.position(index)? as usize).cloned();
    // More than a list may have make several arrays.
    let parts = bad.chunks(LISTED_MAX as usize).map(|part| {
        let indices =
            Indices::listed(part.to_vec()).map_err(|error| broken(error, "name the indices yourself"))?;
        let entries = indices.iter().filter_map(entry).collect();
        Ok(JobRequest { array: Some(indices), entries, ..whole.clone() })
    });
    parts.collect()
}

/// What of a DAG did not end well, as it can be submitted once more: who waits for whom stays, and what has completed is not waited for.
/// Whoever is there for a failure comes along.
pub(crate) async fn dag_once_more(client: &Client, dag: &DagView) -> Result<DagRequest, CliError> {
    if dag.ended_at_ms.is_none() {
        let hint =
            format!("`landfall dag {0}` says what still runs, `landfall dags cancel {0}` stops it", dag.id);
        return Err(usage(format!("DAG {} has not ended", dag.id), hint));
    }
    let bad = |job: &&DagJob| matches!(job.state.as_str(), "failed" | "cancelled");
    let mut again: BTreeSet<&str> = dag.jobs.iter().filter(bad).map(|job| job.id.as_str()).collect();
    loop {
        let before = again.len();
        for job in &dag.jobs {
            let follows = |edge: &DependsOn| {
                again.contains(edge.on.as_str())
                    && (edge.kind == EdgeKind::Failure || job.state == "unneeded")
            };
            if job.depends_on.iter().any(follows) {
                again.insert(&job.id);
            }
        }
        if again.len() == before {
            break;
        }
    }
    let key = |id: &str| {
        let job = dag.jobs.iter().find(|job| job.id == id);
        job.and_then(|job| job.key.clone()).unwrap_or_else(|| id.to_owned())
    };
    let mut jobs = Vec::new();
    for job in dag.jobs.iter().filter(|job| again.contains(job.id.as_str())) {
        let mut request = as_submitted(client, &job.id).await?;
        let by_element =
            |edge: &DependsOn| edge.kind == EdgeKind::Corresponding && again.contains(edge.on.as_str());
        let followed = dag
            .jobs
            .iter()
            .any(|other| other.depends_on.iter().any(|edge| edge.on == job.id && by_element(edge)));
        // Where elements wait for each other one by one, all of them are needed.
        if job.elements.is_some()
            && bad(&job)
            && !followed
            && !job.depends_on.iter().any(by_element)
            && let [part] = once_more(client, &job.id, true).await?.as_slice()
        {
            request = part.clone();
        }
        let edges = job.depends_on.iter().filter_map(|edge| match again.contains(edge.on.as_str()) {
            true => Some(DependsOn { on: key(&edge.on), kind: edge.kind }),
            false => (!dag.jobs.iter().any(|other| other.id == edge.on)).then(|| edge.clone()),
        });
        request.depends_on = edges.collect();
        // How many of its edges it needs, a job itself says.
        if request.depends_on.len() > 1
            && let Found::Job(job) = found(client, &job.id).await?
        {
            request.join = job.dag.map_or(Join::All, |dag| dag.join);
        }
        request.key = Some(key(&job.id));
        jobs.push(request);
    }
    match jobs.is_empty() {
        true => Err(usage(
            format!("all of DAG {} has completed", dag.id),
            "submit its file to run all of it again",
        )),
        false => Ok(DagRequest { jobs }),
    }
}

/// The submission that a job or an array came from, as far as it is kept: what it waited for is over.
async fn as_submitted(client: &Client, id: &str) -> Result<JobRequest, ClientError> {
    client.get(&format!("/jobs/{}/request", segment(id))).await
}

/// The indices of the elements of an array that are in one of these states.
async fn indices(client: &Client, array: &str, states: &str) -> Result<BTreeSet<u32>, ClientError> {
    let elements = elements(client, array, Some(states), usize::MAX).await?;
    Ok(elements.iter().filter_map(|job| job.array.as_ref()).map(|element| element.index).collect())
}

fn still_there(id: &str) -> CliError {
    usage(
        format!("{id} has not ended"),
        format!("`landfall wait {id}` waits for it, `landfall cancel {id}` stops it"),
    )
}

pub(crate) async fn elements(
    client: &Client,
    array: &str,
    states: Option<&str>,
    most: usize,
) -> Result<Vec<JobView>, ClientError> {
    let mut all: Vec<JobView> = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let params = [
            ("array", Some(array)),
            ("state", states),
            ("limit", Some(PAGE_MAX)),
            ("cursor", cursor.as_deref()),
        ];
        let page: Paged<JobView> = client.get(&with_query("/jobs", &params)).await?;
        all.extend(page.items);
        cursor = page.next;
        if cursor.is_none() || all.len() >= most {
            all.truncate(most);
            return Ok(all);
        }
    }
}
