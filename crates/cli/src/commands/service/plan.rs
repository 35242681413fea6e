//! `landfall plan` and `submit --dry-run` against a running server.

use landfall_api::answer::{PlanRequest, PlanView};
use landfall_api::fleet::{PoolView, TenantView};
use landfall_api::job::DagRequest;
use landfall_api::peer::NegotiationView;
use landfall_client::{Client, segment};
use serde::Serialize;
use serde_json::json;

use super::listing;
use super::submit::args::JobArgs;
use super::submit::request::{Asked, Origin, asked};
use crate::answer::Answer;
use crate::commands::plan::Wanted;
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::render;
use crate::reply::Reply;
use crate::selection;
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
    /// A pool gets this policy.
    pub(crate) policy: Option<Policy<'a>>,
    /// Which pool; the only one if left out.
    pub(crate) pool: Option<&'a str>,
    /// A tenant gets this quota.
    pub(crate) quota: Option<Wanted>,
}

/// A policy that a pool might have.
#[derive(Debug)]
pub(crate) enum Policy<'a> {
    Named(&'a str),
    Own { name: String, text: String },
}

/// Answers `plan` about a running server.
pub(crate) fn run(question: &Question<'_>, connect: &ConnectArgs) -> Result<Box<dyn Answer>, CliError> {
    if let Some(policy) = &question.policy {
        return connect.ask(async |client| {
            let (request, change) = with_policy(client, question.pool, policy).await?;
            ask(client, request, change, false).await
        });
    }
    if let Some(Wanted { tenant, field, value, shown }) = &question.quota {
        return connect.ask(async |client| {
            // A tenant that is not there would be one without limits.
            let known: TenantView = client.get(&format!("/tenants/{}", segment(tenant))).await?;
            let fields = json!({ "id": known.id, "quota": { *field: value } });
            let set_tenant = fields.as_object().cloned();
            ask(client, PlanRequest { set_tenant, ..PlanRequest::default() }, shown.clone(), false).await
        });
    }
    let (request, change) = match (question.job, question.cancel, question.lose) {
        (Some(job), ..) => {
            let asked = asked(job, || connect.now())?;
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

/// The question what a policy would do in a pool.
async fn with_policy(
    client: &Client,
    pool: Option<&str>,
    policy: &Policy<'_>,
) -> Result<(PlanRequest, String), CliError> {
    let view: PoolView = match pool {
        Some(pool) => client.get(&format!("/pools/{}", segment(pool))).await?,
        None => {
            let mut pools: Vec<PoolView> = listing::all(client, "/pools", &[]).await?;
            match (pools.len(), pools.pop()) {
                (1, Some(only)) => only,
                _ => return Err(usage("there are several pools", "name one with --pool")),
            }
        }
    };
    let mut pool = view.pool.as_object().cloned().unwrap_or_default();
    let (name, policy_text) = match policy {
        Policy::Named(name) => {
            if landfall_policy::builtin::text(name).is_none() {
                return Err(selection::unknown(name));
            }
            pool.insert("policy".into(), json!(name));
            (*name, None)
        }
        Policy::Own { name, text } => (name.as_str(), Some(text.clone())),
    };
    let change = format!("pool {} has policy {name}", view.id);
    Ok((PlanRequest { set_pool: Some(pool), policy_text, ..PlanRequest::default() }, change))
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
        Asked::Dag(DagRequest { jobs }) => {
            let change = format!("{} jobs are submitted", jobs.len());
            (PlanRequest { jobs: Some(jobs), ..PlanRequest::default() }, change)
        }
        Asked::Lines(_) => {
            return Err(usage(
                "a file of lines is submitted line by line, so there is no plan for all of it",
                "ask about one of its lines, or about a file with [[jobs]]",
            ));
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
    if let Some(offers) = &plan.negotiation {
        let exit = exit_of(offers);
        let page =
            |planned: &Planned, page| render::service::peers::offered(&planned.change, &planned.plan, page);
        return Ok(Reply::new("landfall.plan/1", Planned { change, plan }, page).exit(exit).boxed());
    }
    let exit = match (&plan.answer.refused, is_job && plan.answer.starts.is_empty()) {
        (Some(_), _) => Exit::Refused,
        (None, true) => Exit::Nothing,
        (None, false) => Exit::Done,
    };
    let page = |planned: &Planned, page| render::plan::page(&planned.change, &planned.plan.answer, page);
    Ok(Reply::new("landfall.plan/1", Planned { change, plan }, page).exit(exit).boxed())
}

/// Whether some peer would take the job; if none, the code that its submission would end with.
fn exit_of(offers: &NegotiationView) -> Exit {
    if offers.offers.iter().any(|offer| offer.status == "standing") {
        return Exit::Done;
    }
    let dear = offers.offers.iter().all(|offer| offer.reason.as_deref() == Some("over_budget"))
        && offers.declines.iter().all(|decline| decline.reasons.iter().any(|why| why == "over_budget"));
    let nobody = offers.offers.is_empty() && offers.declines.is_empty();
    let why = if dear && !nobody { "no_affordable_offer" } else { "no_offers" };
    Exit::of_negotiation(why).unwrap_or(Exit::Nothing)
}
