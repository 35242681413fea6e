//! `landfall dags`: jobs that depend on each other, looked at and taken back as one.

use landfall_api::Paged;
use landfall_api::job::{CancelledDag, DagJob, DagView};
use landfall_client::{segment, with_query};
use serde::Serialize;

use super::again;
use super::submit::hand_in;
use super::submit::request::Asked;
use crate::answer::{Answer, Page};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::clock::{ago, span};
use crate::render::codes;
use crate::render::style::{BAD, DIM, GOOD, PLAIN, STRONG};
use crate::render::table::{Cell, Table};
use crate::render::text::{clean, count};
use crate::reply::Reply;
use crate::service::{ConnectArgs, now_ms};

/// Commands about DAGs.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// List DAGs, newest first.
    #[command(after_help = "Examples:\n  landfall dags list\n  landfall dags list --limit 5 --json")]
    List(ListArgs),
    /// Show a DAG: how many of its jobs are where, who waits for whom, what failed.
    #[command(after_help = "\
A DAG is what was submitted together (`submit --file`), and what joined it since (`submit --dag`). The id of any of its jobs will do.

Example:
  landfall dags show 16")]
    Show(ShowArgs),
    /// Take back all jobs of a DAG that have not ended.
    #[command(after_help = "\
It is done in one step, those that wait first: none of them starts because another one is gone.

Example:
  landfall dags cancel 16")]
    Cancel(ShowArgs),
    /// Run again what of a DAG did not complete, in its order.
    #[command(after_help = "\
What has completed is not run again, and not waited for. Of an array it takes the elements that failed or were cancelled, unless others wait \
for its elements one by one.

Examples:
  landfall dags retry 16
  landfall dags retry 16 --wait")]
    Retry(RetryArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct RetryArgs {
    /// The DAG, or a job or an array of it.
    #[arg(value_name = "DAG")]
    dag: String,
    /// Wait until all of it has ended.
    #[arg(long, short)]
    wait: bool,
    /// Show only the new ids.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// How many at most.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The DAG, or a job or an array of it.
    #[arg(value_name = "DAG")]
    dag: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
struct Listed {
    now_ms: u64,
    dags: Vec<DagView>,
}

#[derive(Serialize)]
struct One {
    now_ms: u64,
    #[serde(flatten)]
    dag: DagView,
}

#[derive(Serialize)]
struct Cancelled {
    dag: String,
    #[serde(flatten)]
    done: CancelledDag,
}

pub(crate) fn run(command: &Command, json: bool) -> Result<Box<dyn Answer>, CliError> {
    match command {
        Command::List(args) => args.connect.ask(async |client| {
            let limit = args.limit.to_string();
            let page: Paged<DagView> = client.get(&with_query("/dags", &[("limit", Some(&limit))])).await?;
            let data = Listed { now_ms: now_ms(), dags: page.items };
            Ok(Reply::new("landfall.dags/1", data, list).boxed())
        }),
        Command::Show(args) => args.connect.ask(async |client| {
            let dag = client.get(&format!("/dags/{}", segment(&args.dag))).await?;
            Ok(Reply::new("landfall.dag/1", One { now_ms: now_ms(), dag }, show).boxed())
        }),
        Command::Retry(args) => args.connect.ask(async |client| {
            let dag: DagView = client.get(&format!("/dags/{}", segment(&args.dag))).await?;
            let asked = vec![Asked::Dag(again::dag_once_more(client, &dag).await?)];
            hand_in(client, &args.connect, asked, args.wait, args.quiet, json).await
        }),
        Command::Cancel(args) => args.connect.ask(async |client| {
            let done: CancelledDag = client.order(&format!("/dags/{}/cancel", segment(&args.dag))).await?;
            let exit = if done.cancelled == 0 { Exit::Nothing } else { Exit::Done };
            let data = Cancelled { dag: args.dag.clone(), done };
            Ok(Reply::new("landfall.dag-cancelled/1", data, cancelled).exit(exit).boxed())
        }),
    }
}

/// How many are where, in words.
fn counts(dag: &DagView) -> String {
    let parts = [
        (dag.completed, "completed"),
        (dag.running, "running"),
        (dag.pending, "waiting"),
        (dag.failed, "failed"),
        (dag.cancelled, "cancelled"),
        (dag.unneeded, "not needed"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    parts.join(", ")
}

fn state(dag: &DagView) -> Cell {
    match (dag.state.as_str(), dag.failing) {
        (state, true) => Cell::styled(format!("{state}, failing"), BAD),
        ("failed", _) => Cell::styled("failed", BAD),
        ("completed", _) => Cell::styled("completed", GOOD),
        (state, _) => Cell::from(state),
    }
}

fn list(listed: &Listed, _: Page) -> String {
    if listed.dags.is_empty() {
        return format!("no DAGs\n{DIM}landfall submit --file FILE with several [[jobs]] makes one{DIM:#}\n");
    }
    let mut table = Table::of(&["dag", "state", ">jobs", "of them", ">submitted", ">took"]);
    for dag in &listed.dags {
        let took =
            dag.started_at_ms.map(|from| span(dag.ended_at_ms.unwrap_or(listed.now_ms).saturating_sub(from)));
        table.row(vec![
            Cell::from(&dag.id),
            state(dag),
            dag.total.to_string().into(),
            counts(dag).into(),
            ago(dag.submitted_at_ms, listed.now_ms).into(),
            took.unwrap_or_default().into(),
        ]);
    }
    table.render()
}

fn show(one: &One, _: Page) -> String {
    let dag = &one.dag;
    let failing = if dag.failing { ", failing" } else { "" };
    let (id, state) = (clean(&dag.id), clean(&dag.state));
    let of = format!("{}: {}", count(dag.total, "job"), counts(dag));
    let mut text = format!("{STRONG}dag {id}{STRONG:#} {state}{failing}\n  {of}\n");
    let mut table = Table::of(&["job", "key", "name", "state", "after", "now"]);
    for job in &dag.jobs {
        let kind = |on: &str| if job.waits_for.iter().any(|open| open == on) { "" } else { " ✓" };
        let after: Vec<String> =
            job.depends_on.iter().map(|edge| format!("{}{}", edge.on, kind(&edge.on))).collect();
        table.row(vec![
            Cell::from(&job.id),
            Cell::from(job.key.as_deref().unwrap_or_default()),
            Cell::from(job.name.as_deref().unwrap_or_default()),
            Cell::styled(job.state.clone(), colour(&job.state)),
            after.join(", ").into(),
            standing(job, one.now_ms).into(),
        ]);
    }
    text += &table.render();
    text
}

fn colour(state: &str) -> anstyle::Style {
    match state {
        "failed" => BAD,
        "completed" => GOOD,
        _ => PLAIN,
    }
}

/// What there is to say about a job beside its state.
fn standing(job: &DagJob, now_ms: u64) -> String {
    let mut words: Vec<String> = Vec::new();
    if !job.waits_for.is_empty() {
        words.push(format!("waits for {}", job.waits_for.join(", ")));
    } else if let Some(reason) = job.reason.as_deref().filter(|_| job.state != "completed") {
        words.push(codes::reason(reason));
    }
    words.extend(job.exit_code.filter(|code| *code != 0).map(|code| format!("exit code {code}")));
    words.extend(job.elements.map(|elements| count(elements, "element")));
    if let Some(from) = job.started_at_ms {
        let until = job.ended_at_ms.unwrap_or(now_ms);
        words.push(format!(
            "{} {}",
            if job.ended_at_ms.is_some() { "ran" } else { "for" },
            span(until.saturating_sub(from))
        ));
    }
    words.join(", ")
}

fn cancelled(done: &Cancelled, _: Page) -> String {
    let CancelledDag { cancelled, ended } = done.done;
    let ended = if ended == 0 { String::new() } else { format!("; {ended} had ended") };
    match cancelled {
        0 => format!("dag {}: nothing to take back{ended}\n", clean(&done.dag)),
        some => format!("dag {}: {} taken back{ended}\n", clean(&done.dag), count(some, "job")),
    }
}
