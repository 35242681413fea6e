//! `landfall explain JOB`: why a job of a running server is where it is.

use landfall_api::Paged;
use landfall_api::answer::DecisionView;
use landfall_client::{Client, ClientError, segment, with_query};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::wire::{Estimate, Explanation, WhyNot};
use crate::answer::Answer;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render;
use crate::reply::Reply;
use crate::service::{self, ConnectArgs};

/// An explanation as the server said it, and what of it is shown.
#[derive(Serialize)]
pub(crate) struct Explained {
    /// The job that was asked about.
    pub(crate) job: String,
    explanation: Value,
    estimate: Option<Value>,
    /// Why it was put where it ran last, if it has ended.
    pub(crate) decision: Option<DecisionView>,
    #[serde(skip)]
    pub(crate) shown: Explanation,
    #[serde(skip)]
    pub(crate) start: Option<Estimate>,
}

/// What stands between a job and a node, as the server said it, and what of it is shown.
#[derive(Serialize)]
pub(crate) struct ExplainedNode {
    why_not: Value,
    #[serde(skip)]
    pub(crate) shown: WhyNot,
}

/// Answers `explain` about a running server.
pub(crate) fn run(job: &str, node: Option<&str>, connect: &ConnectArgs) -> Result<Box<dyn Answer>, CliError> {
    let client = connect.client()?;
    service::block_on(async {
        if let Some(node) = node {
            let path = with_query(&format!("/jobs/{}/explain", segment(job)), &[("node", Some(node))]);
            let why_not: Value = client.get(&path).await?;
            let shown: WhyNot = read(&client, &why_not)?;
            let fits = shown.placed_here || (shown.verdict.refusals.is_empty() && shown.ledger.is_empty());
            let exit = if fits { Exit::Done } else { Exit::Nothing };
            let data = ExplainedNode { why_not, shown };
            return Ok(Box::new(
                Reply::new("landfall.why-not/1", data, render::service::explain::node).exit(exit),
            ) as _);
        }
        let found = ask(&client, job).await?;
        Ok(Box::new(Reply::new("landfall.explanation/1", found, render::service::explain::job))
            as Box<dyn Answer>)
    })
}

/// Asks why a job is where it is, and when it starts.
pub(crate) async fn ask(client: &Client, job: &str) -> Result<Explained, CliError> {
    let explanation: Value = client.get(&format!("/jobs/{}/explain", segment(job))).await?;
    if explanation.get("dispatch").is_none() {
        let state = explanation["state"].as_str().unwrap_or("ended").to_owned();
        return Err(CliError::Usage {
            message: format!(
                "job `{job}` is {state}, and long enough ago that its explanation is no longer at hand"
            ),
            hint: format!("`landfall job {job}` shows how it ended, `landfall events` what happened to it"),
        });
    }
    let shown: Explanation = read(client, &explanation)?;
    let estimate: Option<Value> = match shown.placed.is_none() && shown.ended.is_none() {
        true => client.get(&format!("/jobs/{}/estimate", segment(job))).await.ok(),
        false => None,
    };
    let start = estimate.as_ref().and_then(Estimate::deserialize_from);
    let decision = match shown.ended.is_some() {
        true => {
            let path = with_query("/decisions", &[("job", Some(job)), ("limit", Some("1"))]);
            client.get::<Paged<DecisionView>>(&path).await.ok().and_then(|page| page.items.into_iter().next())
        }
        false => None,
    };
    Ok(Explained { job: job.to_owned(), explanation, estimate, decision, shown, start })
}

impl Estimate {
    fn deserialize_from(value: &Value) -> Option<Self> {
        serde_json::from_value(value.clone()).ok()
    }
}

/// Reads what is shown of an answer.
pub(crate) fn read<T: DeserializeOwned>(client: &Client, value: &Value) -> Result<T, CliError> {
    serde_json::from_value(value.clone()).map_err(|error| {
        let url = client.server().to_owned();
        CliError::Service(ClientError::BadAnswer { url, message: error.to_string() })
    })
}
