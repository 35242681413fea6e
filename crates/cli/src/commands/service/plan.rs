//! `landfall plan` and `submit --dry-run` against a running server.

use landfall_api::answer::PlanRequest;
use landfall_client::Client;
use serde::Serialize;
use serde_json::Value;

use super::explain::read;
use super::submit::args::JobArgs;
use super::submit::request::{Asked, asked};
use super::wire::Plan;
use crate::answer::Answer;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render;
use crate::reply::Reply;
use crate::service::{self, ConnectArgs};

/// A plan as the server said it, and what of it is shown.
#[derive(Serialize)]
pub(crate) struct Planned {
    /// The change in words.
    pub(crate) change: String,
    #[serde(flatten)]
    answer: Value,
    #[serde(skip)]
    pub(crate) shown: Plan,
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
        (Some(job), ..) => return with_client(connect, asked(job)?),
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

fn with_client(connect: &ConnectArgs, asked: Asked) -> Result<Box<dyn Answer>, CliError> {
    let client = connect.client()?;
    service::block_on(dry_run(&client, asked))
}

/// What would happen if the job were submitted.
pub(crate) async fn dry_run(client: &Client, asked: Asked) -> Result<Box<dyn Answer>, CliError> {
    let Asked::One(job) = asked else {
        return Err(CliError::Usage {
            message: "several jobs cannot be planned at once".into(),
            hint: "plan them one by one".into(),
        });
    };
    let change = match &job.name {
        Some(name) => format!("job {name} is submitted"),
        None => "the job is submitted".to_owned(),
    };
    ask(client, PlanRequest { submit: Some(*job), ..PlanRequest::default() }, change, true).await
}

async fn ask(
    client: &Client,
    request: PlanRequest,
    change: String,
    is_job: bool,
) -> Result<Box<dyn Answer>, CliError> {
    let answer: Value = client.post("/plan", &request).await?;
    let shown: Plan = read(client, &answer)?;
    let exit = match (&shown.refused, is_job && shown.starts.is_empty()) {
        (Some(_), _) => Exit::Refused,
        (None, true) => Exit::Nothing,
        (None, false) => Exit::Done,
    };
    let planned = Planned { change, answer, shown };
    Ok(Box::new(Reply::new("landfall.plan/1", planned, render::service::plan::page).exit(exit)))
}
