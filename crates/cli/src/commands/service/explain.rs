//! `landfall explain JOB`: why a job of a running server is where it is.

use landfall_api::Paged;
use landfall_api::answer::{DecisionView, Explained as Answered, PlacementView};
use landfall_api::peer::NegotiationView;
use landfall_client::{Client, ClientError, segment, with_query};
use landfall_model::Dispatch;
use landfall_model::answer::{Estimate, Explanation, WhyNot};
use serde::Serialize;

use super::decisions::{Listed, instant};
use crate::answer::Answer;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render;
use crate::reply::Reply;
use crate::service::{ConnectArgs, now_ms};

/// An explanation of the server.
#[derive(Serialize)]
pub(crate) struct Explained {
    /// The job that was asked about.
    pub(crate) job: String,
    pub(crate) explanation: Explanation,
    pub(crate) estimate: Option<Estimate>,
    /// Why it was put where it ran last, if it has ended; with an instant, the last decision about it up to then.
    pub(crate) decision: Option<DecisionView>,
    /// How it was negotiated, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) placement: Option<NegotiationView>,
}

/// What stands between a job and a node.
#[derive(Serialize)]
pub(crate) struct ExplainedNode {
    pub(crate) why_not: WhyNot,
}

/// Answers `explain` about a running server.
pub(crate) fn run(
    job: &str,
    node: Option<&str>,
    at: Option<&str>,
    connect: &ConnectArgs,
) -> Result<Box<dyn Answer>, CliError> {
    let at = at.map(|text| instant("--at", text)).transpose()?.map(|ms| ms.to_string());
    let at = at.as_deref();
    connect.ask(async |client| {
        if let Some(node) = node {
            let params = [("node", Some(node)), ("at_ms", at)];
            let path = with_query(&format!("/jobs/{}/explain", segment(job)), &params);
            let why_not: WhyNot = client.get(&path).await?;
            let fits = why_not.placed_here || (why_not.verdict.is_admitted() && why_not.ledger.is_empty());
            let exit = if fits { Exit::Done } else { Exit::Nothing };
            let data = ExplainedNode { why_not };
            return Ok(Box::new(
                Reply::new("landfall.why-not/1", data, render::service::explain::node).exit(exit),
            ) as _);
        }
        let found = match at {
            None => ask(client, job).await?,
            Some(at) => {
                let decision = last_decision(client, job, Some(at)).await;
                let path = with_query(&format!("/jobs/{}/explain", segment(job)), &[("at_ms", Some(at))]);
                let explanation = match (client.get(&path).await, decision.clone()) {
                    (Ok(Answered::Job(explanation)), _) => *explanation,
                    (Ok(_), _) => return Err(not_asked(client)),
                    // What the state was made of may be gone; decisions are kept for longer.
                    (Err(ClientError::Refused { status: 410, .. }), Some(decision)) => {
                        let data = Listed { decisions: vec![decision], now_ms: now_ms(), full: true };
                        let page = render::service::decisions::list;
                        return Ok(Reply::new("landfall.decisions/1", data, page).boxed());
                    }
                    (Err(error), _) => return Err(error.into()),
                };
                let job = job.to_owned();
                Explained { job, explanation, estimate: None, decision, placement: None }
            }
        };
        Ok(Reply::new("landfall.explanation/1", found, render::service::explain::job).boxed())
    })
}

/// Asks why a job is where it is, and when it starts.
pub(crate) async fn ask(client: &Client, job: &str) -> Result<Explained, CliError> {
    let explanation = match client.get(&format!("/jobs/{}/explain", segment(job))).await? {
        Answered::Job(explanation) => *explanation,
        Answered::Node(_) => return Err(not_asked(client)),
        Answered::Ended(view) => {
            let message = format!(
                "job `{job}` is {}, and long enough ago that its explanation is no longer at hand",
                view.state
            );
            let hint =
                format!("`landfall job {job}` shows how it ended, `landfall events` what happened to it");
            return Err(CliError::Usage { message, hint });
        }
    };
    let estimate = match explanation.placed.is_none() && explanation.ended.is_none() {
        true => client.get(&format!("/jobs/{}/estimate", segment(job))).await.ok(),
        false => None,
    };
    let decision = match explanation.ended.is_some() {
        true => last_decision(client, job, None).await,
        false => None,
    };
    let placement = match explanation.dispatch {
        Dispatch::Negotiate => {
            let path = format!("/jobs/{}/placement", segment(job));
            client.get::<PlacementView>(&path).await.ok().and_then(|placement| placement.negotiation)
        }
        _ => None,
    };
    Ok(Explained { job: job.to_owned(), explanation, estimate, decision, placement })
}

/// The last decision about a job, up to an instant in milliseconds since 1970.
async fn last_decision(client: &Client, job: &str, until: Option<&str>) -> Option<DecisionView> {
    let params = [("job", Some(job)), ("until_ms", until), ("chose", Some("any")), ("limit", Some("1"))];
    let page: Paged<DecisionView> = client.get(&with_query("/decisions", &params)).await.ok()?;
    page.items.into_iter().next()
}

fn not_asked(client: &Client) -> CliError {
    let message = "it answers about a node that nobody asked about".to_owned();
    CliError::Service(ClientError::BadAnswer { url: client.server().to_owned(), message })
}
