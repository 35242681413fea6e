//! `landfall plan` and `submit --dry-run` against a running server.

use landfall_api::answer::{PlanRequest, PlanView};
use landfall_api::job::DagRequest;
use landfall_client::Client;
use serde::Serialize;

use super::submit::args::JobArgs;
use super::submit::request::{Asked, Origin, asked};
use crate::answer::Answer;
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::render;
use crate::reply::Reply;
use crate::service::{self, ConnectArgs};

#[derive(Serialize)]
struct Planned {
    change: String,
    #[serde(flatten)]
    plan: PlanView,
}

/// A change to a running server.
#[derive(Debug, Default)]
pub(crate) struct Question<'a> {
    /// This job is submitted, if it says what runs.
    pub(crate) job: Option<&'a JobArgs>,
    /// This job is cancelled.
    pub(crate) cancel: Option<&'a str>,
    /// These nodes are lost.
    pub(crate) lose: &'a [String],
}

/// Answers `plan` about a running server.
pub(crate) fn run(question: &Question<'_>, connect: &ConnectArgs) -> Result<Box<dyn Answer>, CliError> {
    let (request, change) = match (question.job, question.cancel, question.lose) {
        (Some(job), ..) => {
            let asked = asked(job)?;
            let origin = Origin::of(job, &asked);
            let client = connect.client()?;
            let planned = service::block_on(dry_run(&client, asked));
            return planned.map_err(|error| match &origin {
                Some(origin) => origin.place(error),
                None => error,
            });
        }
        (_, Some(id), _) => (
            PlanRequest { cancel: Some(id.to_owned()), ..PlanRequest::default() },
            format!("job {id} is cancelled"),
        ),
        (_, _, lost @ [_, ..]) => {
            let what = if lost.len() == 1 { "is" } else { "are" };
            let change = format!("{} {what} lost", lost.join(", "));
            (PlanRequest { lose: Some(lost.to_vec()), ..PlanRequest::default() }, change)
        }
        _ => (PlanRequest::default(), "nothing is changed".to_owned()),
    };
    let client = connect.client()?;
    service::block_on(async { ask(&client, request, change, false).await })
}

/// What would happen if the job were submitted.
pub(crate) async fn dry_run(client: &Client, asked: Asked) -> Result<Box<dyn Answer>, CliError> {
    let (request, change) = match asked {
        Asked::One(job) => {
            let change = match &job.name {
                Some(name) => format!("job {name} is submitted"),
                None => "the job is submitted".to_owned(),
            };
            (PlanRequest { submit: Some(*job), ..PlanRequest::default() }, change)
        }
        Asked::Several(_) => {
            return Err(usage(
                "these indices are several arrays, and a plan is about one",
                "plan with a range such as 1-100",
            ));
        }
        Asked::Dag(DagRequest { jobs }) => {
            let change = format!("{} jobs are submitted", jobs.len());
            (PlanRequest { jobs: Some(jobs), ..PlanRequest::default() }, change)
        }
    };
    ask(client, request, change, true).await
}

async fn ask(
    client: &Client,
    request: PlanRequest,
    change: String,
    is_job: bool,
) -> Result<Box<dyn Answer>, CliError> {
    let plan: PlanView = client.post("/plan", &request).await?;
    let exit = match (&plan.answer.refused, is_job && plan.answer.starts.is_empty()) {
        (Some(_), _) => Exit::Refused,
        (None, true) => Exit::Nothing,
        (None, false) => Exit::Done,
    };
    let page = |planned: &Planned, page| render::plan::page(&planned.change, &planned.plan.answer, page);
    Ok(Reply::new("landfall.plan/1", Planned { change, plan }, page).exit(exit).boxed())
}
