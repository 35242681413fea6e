//! Jobs and arrays: submit, look, steer.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use landfall_api::agent::Command;
use landfall_api::answer::{
    Acted, Explained as Answered, JobPatch, MetricRequest, PlacementView, ResumeRequest,
};
use landfall_api::job::{ArrayView, JobRequest, JobView, MoreElements, STATES_ASKED, Submitted, Typed};
use landfall_api::{IDEMPOTENCY_KEY, Paged};
use landfall_engine::record::JobState;
use landfall_engine::{Input, Sample};
use landfall_model::answer::{Estimate, Explanation};
use landfall_model::{JobId, Millis, NodeId, Time};
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::{Principal, Submitter};
use super::extract::{At, Body, OptionalBody, Params, check_match, header_text, tagged, unless_known};
use super::problem::{BodyProblems, Problem, Problems, Reply, acted};
use crate::driver::JobFilter;

/// Longest idempotency key.
const KEY_MAX: usize = 200;

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list, submit))
        .routes(routes!(one, change))
        .routes(routes!(request))
        .routes(routes!(cancel))
        .routes(routes!(hold))
        .routes(routes!(release))
        .routes(routes!(suspend))
        .routes(routes!(resume))
        .routes(routes!(checkpoint))
        .routes(routes!(metric))
        .routes(routes!(input))
        .routes(routes!(explain))
        .routes(routes!(estimate))
        .routes(routes!(placement))
        .routes(routes!(array))
        .routes(routes!(cancel_array))
        .routes(routes!(extend_array))
        .routes(routes!(close_array))
}

pub(crate) fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    match header_text(headers, IDEMPOTENCY_KEY) {
        Some(text) if !text.is_empty() && text.len() <= KEY_MAX => Ok(Some(text.to_owned())),
        _ => {
            let message = format!("an Idempotency-Key has 1 to {KEY_MAX} ASCII characters");
            let _ = value;
            Err(Problem::bad(message, "use a random word that is new for each submission"))
        }
    }
}

/// Submits a job or an array.
#[utoipa::path(post, path = "/jobs", tag = "jobs", request_body = JobRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the submission safe to repeat.")),
    responses((status = 201, description = "Accepted.", body = Submitted),
        (status = 200, description = "Accepted before under the same key.", body = Submitted), Problems, BodyProblems))]
async fn submit(
    State(app): Shared,
    Submitter(principal): Submitter,
    headers: HeaderMap,
    Body(job): Body<JobRequest>,
) -> Result<(StatusCode, Json<Submitted>), Problem> {
    let key = key(&headers)?;
    let submitted = app.handle.submit(principal.caller(), job, key).await?;
    let status = if submitted.repeated { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(submitted)))
}

/// Which jobs to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Listed {
    /// States separated by commas; `live` and `ended` stand for several.
    state: Option<String>,
    /// Only this pool.
    pool: Option<String>,
    /// Only this tenant.
    tenant: Option<String>,
    /// Only elements of this array.
    array: Option<String>,
    /// Only jobs of this name.
    name: Option<String>,
    /// Only jobs whose id begins with this or whose name contains it, in whatever case.
    search: Option<String>,
    /// Only jobs on this node.
    node: Option<String>,
    /// How many at most: 1 to 1000, 100 if left out.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// How many of a list, checked.
pub(crate) fn limit(asked: Option<u32>, most: u32) -> Result<usize, Problem> {
    match asked {
        None => Ok(100),
        Some(limit) if (1..=most).contains(&limit) => Ok(limit as usize),
        Some(_) => {
            let mut problem = Problem::bad(format!("`limit` is 1 to {most}"), "use the cursor to get more");
            problem.error.field = Some("limit".into());
            Err(problem)
        }
    }
}

/// Lists jobs, newest first.
#[utoipa::path(get, path = "/jobs", tag = "jobs", params(Listed),
    responses((status = 200, description = "One page.", body = Paged<JobView>), Problems))]
async fn list(
    State(app): Shared,
    Submitter(principal): Submitter,
    Params(listed): Params<Listed>,
) -> Reply<Paged<JobView>> {
    let states: Vec<String> =
        listed.state.iter().flat_map(|text| text.split(',')).map(|word| word.trim().to_owned()).collect();
    if let Some(bad) = states.iter().find(|state| !STATES_ASKED.contains(&state.as_str())) {
        let mut problem = Problem::bad(format!("there is no state `{}`", bad.escape_debug()), "");
        problem.error.hint = Some(format!("one of {}", STATES_ASKED.join(", ")));
        problem.error.field = Some("state".into());
        return Err(problem);
    }
    let own = principal.caller().tenant;
    let nothing = matches!((&own, &listed.tenant), (Some(own), Some(asked)) if own != asked);
    if nothing {
        return Ok(Json(Paged { items: Vec::new(), next: None }));
    }
    let filter = JobFilter {
        states,
        pool: listed.pool,
        tenant: own.or(listed.tenant),
        array: listed.array,
        name: listed.name,
        search: listed.search.filter(|text| !text.is_empty()),
        node: listed.node,
        limit: limit(listed.limit, 1000)?,
        cursor: listed.cursor,
    };
    let mut page = app.jobs(filter).await?;
    // A thousand elements have a thousand times the same script.
    page.items.iter_mut().for_each(|job| job.run.script = None);
    Ok(Json(page))
}

/// Shows a job.
#[utoipa::path(get, path = "/jobs/{id}", tag = "jobs", params(("id" = String, Path, description = "The job."),
        ("If-None-Match" = Option<String>, Header, description = "The ETag that is known already.")),
    responses((status = 200, description = "The job.", body = JobView,
            headers(("ETag" = String, description = "Changes whenever the job does."))),
        (status = 304, description = "It has not changed."), Problems))]
async fn one(Steered { app, principal, id }: Steered, headers: HeaderMap) -> Result<Response, Problem> {
    let job = app.job(&principal, &id).await?;
    Ok(unless_known(&headers, &job.version, &job))
}

/// Shows what a job or an array was submitted as, so that it can be submitted again. What it waited for is left out.
#[utoipa::path(get, path = "/jobs/{id}/request", tag = "jobs",
    params(("id" = String, Path, description = "The job or the array.")),
    responses((status = 200, description = "The submission.", body = JobRequest),
        (status = 422, description = "Another version knows what it needs, and this one does not.", body = landfall_api::ApiError), Problems))]
async fn request(Steered { app, principal, id }: Steered) -> Reply<JobRequest> {
    let id = match visible_array(&app, &principal, &id).await {
        Ok(array) => array.id,
        Err(_) => app.job(&principal, &id).await?.id,
    };
    app.ask(move |view| view.as_submitted(&id)?.ok_or_else(|| Problem::unknown("job", &id))).await.map(Json)
}

/// Changes a job.
#[utoipa::path(patch, path = "/jobs/{id}", tag = "jobs", request_body = JobPatch,
    params(("id" = String, Path, description = "The job."),
        ("If-Match" = Option<String>, Header, description = "Change it only if this is its ETag.")),
    responses((status = 200, description = "The job as it is now.", body = JobView,
            headers(("ETag" = String, description = "Changes whenever the job does."))), Problems, BodyProblems))]
async fn change(
    Steered { app, principal, id }: Steered,
    headers: HeaderMap,
    Body(patch): Body<JobPatch>,
) -> Result<Response, Problem> {
    let _one_by_one = app.edits.lock().await;
    let job = app.job(&principal, &id).await?;
    check_match(&headers, Some(&job.version))?;
    let job = job_id(&job.id)?;
    let mut inputs = Vec::new();
    if let Some(walltime) = patch.walltime_ms {
        inputs.push(Input::SetWalltime { job: job.clone(), walltime: millis(walltime)? });
    }
    if let Some(held) = patch.held {
        inputs.push(Input::UserHold { job: job.clone(), held });
    }
    // One after the other: nothing changes after something was refused.
    for input in inputs {
        acted(app.handle.apply(input).await?)?;
    }
    let job = app.job(&principal, &id).await?;
    Ok(tagged(&job.version, &job))
}

fn job_id(text: &str) -> Result<JobId, Problem> {
    JobId::new(text).map_err(|_| Problem::unknown("job", text))
}

fn millis(value: u64) -> Result<Millis, Problem> {
    let span = Millis::try_new(value).ok().filter(|span| !span.is_zero());
    span.ok_or_else(|| {
        Problem::invalid("walltime_ms", "a walltime is at least 1 ms and not endless", "give less")
    })
}

/// A job or array that somebody who may have jobs asks about, not looked up yet.
struct Steered {
    app: Arc<App>,
    principal: Principal,
    id: String,
}

impl FromRequestParts<Arc<App>> for Steered {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let Submitter(principal) = Submitter::from_request_parts(parts, app).await?;
        let At(id) = At::from_request_parts(parts, app).await?;
        Ok(Self { app: app.clone(), principal, id })
    }
}

/// Gives the engine an order about a job that the asker may steer.
async fn order(
    app: &App,
    principal: &Principal,
    id: &str,
    input: impl FnOnce(JobId) -> Input,
) -> Reply<Acted> {
    let (asks, text) = (principal.clone(), id.to_owned());
    let job = app.ask(move |view| known(view, &asks, &text)).await;
    let job = match job {
        Ok(job) => job,
        // What the engine has forgotten has ended; the engine says so.
        Err(_) => job_id(&app.job(principal, id).await?.id)?,
    };
    let input = input(job);
    acted(app.handle.apply(input).await?).map(Json)
}

macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident, $path:literal, $input:expr;)*) => {$(
        $(#[$doc])*
        #[utoipa::path(post, path = $path, tag = "jobs", params(("id" = String, Path, description = "The job.")),
            responses((status = 200, description = "Done, or ignored for the reason given.", body = Acted),
                Problems, BodyProblems))]
        async fn $name(Steered { app, principal, id }: Steered) -> Reply<Acted> {
            order(&app, &principal, &id, $input).await
        }
    )*};
}

orders! {
    /// Keeps a job from starting.
    hold, "/jobs/{id}/hold", |job| Input::UserHold { job, held: true };
    /// Lets a job start that was kept from it.
    release, "/jobs/{id}/release", |job| Input::UserHold { job, held: false };
    /// Asks a running job to save its work and leave its nodes.
    suspend, "/jobs/{id}/suspend", Input::Suspend;
    /// Asks a running job to save its work and go on.
    checkpoint, "/jobs/{id}/checkpoint", Input::Checkpoint;
}

/// Says how a service does that scales by a metric of its own. Agents say so too, for jobs that write it to `LANDFALL_METRIC_FILE`.
#[utoipa::path(post, path = "/jobs/{id}/metric", tag = "jobs", request_body = MetricRequest,
    params(("id" = String, Path, description = "The job.")),
    responses((status = 200, description = "Taken in, or ignored for the reason given.", body = Acted),
        Problems, BodyProblems))]
async fn metric(Steered { app, principal, id }: Steered, Body(said): Body<MetricRequest>) -> Reply<Acted> {
    if !said.value.is_finite() || said.value < 0.0 {
        return Err(Problem::invalid("value", "a metric is a number of 0 or more", "such as 12.5"));
    }
    let sample = Sample { value: Some(said.value), queue: said.queue };
    order(&app, &principal, &id, |job| Input::Metric { job, sample }).await
}

/// Passes on what somebody types who is at a running job: one that was submitted with `run.terminal`. Send one every few seconds, empty
/// if need be: after a while of silence (`run.hang_up_ms`) the job is hung up on.
#[utoipa::path(post, path = "/jobs/{id}/input", tag = "jobs", request_body = Typed,
    params(("id" = String, Path, description = "The job.")),
    responses((status = 200, description = "Passed on.", body = Acted), Problems, BodyProblems))]
async fn input(Steered { app, principal, id }: Steered, Body(typed): Body<Typed>) -> Reply<Acted> {
    let unplaced = |code: &'static str, message: String, hint: &str| {
        Problem::new(StatusCode::CONFLICT, landfall_api::ApiError::new(code, message).hint(hint))
    };
    let at = app.ask(move |view| {
        let job = known(view, &principal, &id)?;
        if view.job(&job).is_none_or(|job| job.run.terminal.is_none()) {
            let hint = "`landfall run` starts one that somebody is at";
            return Err(unplaced("not_attended", format!("nobody is at job `{job}`"), hint));
        }
        let state = view.engine.state();
        let record = state.job(&job).filter(|record| record.state == JobState::Running);
        let node = record.and_then(|record| Some((record, record.run.as_ref()?.nodes.first()?.node.clone())));
        let (record, node) =
            node.ok_or_else(|| unplaced("not_running", format!("job `{job}` does not run"), "wait for it"))?;
        Ok((node, state.fence(record)))
    });
    let (node, fence) = at.await?;
    if !app.handle.connections().tell(&node, Command::Input { fence, typed }) {
        let message = format!("the agent of node `{node}` is away");
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            landfall_api::ApiError::new("agent_away", message).hint("try again in a moment"),
        ));
    }
    Ok(Json(Acted::default()))
}

/// What of an array to take back.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Only the elements of an array that wait; those that run go on.
    waiting: bool,
}

/// Takes a job back; the id of an array takes all its elements back.
#[utoipa::path(post, path = "/jobs/{id}/cancel", tag = "jobs",
    params(("id" = String, Path, description = "The job or array."), Which),
    responses((status = 200, description = "Done, or ignored for the reason given.", body = Acted),
        Problems, BodyProblems))]
async fn cancel(
    State(app): Shared,
    Submitter(principal): Submitter,
    At(id): At<String>,
    Params(which): Params<Which>,
) -> Reply<Acted> {
    if which.waiting {
        let array = visible_array(&app, &principal, &id).await?;
        return acted(app.handle.apply(Input::CancelWaiting(job_id(&array.id)?)).await?).map(Json);
    }
    match order(&app, &principal, &id, Input::Cancel).await {
        Err(problem) if problem.status == StatusCode::NOT_FOUND => {
            let whole = cancel_whole(&app, &principal, &id).await;
            whole.map_err(|other| if other.status == StatusCode::NOT_FOUND { problem } else { other })
        }
        answer => answer,
    }
}

/// Lets a suspended job go on.
#[utoipa::path(post, path = "/jobs/{id}/resume", tag = "jobs", request_body = Option<ResumeRequest>,
    params(("id" = String, Path, description = "The job.")),
    responses((status = 200, description = "Done, or ignored for the reason given.", body = Acted),
        Problems, BodyProblems))]
async fn resume(
    Steered { app, principal, id }: Steered,
    OptionalBody(asked): OptionalBody<ResumeRequest>,
) -> Reply<Acted> {
    let walltime = asked.walltime_ms.map(millis).transpose()?;
    order(&app, &principal, &id, |job| Input::Resume { job, walltime }).await
}

/// Which node to explain.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Explained {
    /// Say what stands between the job and this node.
    node: Option<String>,
    /// As it was at this instant, in milliseconds since 1970: the state of then is made anew from the journal.
    at_ms: Option<u64>,
}

/// A job, an element that still waits in its array, or an array that the engine knows and the asker may see.
fn known(view: &mut crate::driver::View<'_>, principal: &Principal, text: &str) -> Result<JobId, Problem> {
    let id = view.exact(text).ok_or_else(|| Problem::unknown("job", text))?;
    known_in(view.engine.state(), principal, id)
}

fn known_in(state: &landfall_engine::State, principal: &Principal, id: JobId) -> Result<JobId, Problem> {
    let text = id.as_str();
    let spec = match (state.job(&id), state.folded.get(&id), state.folded_element(&id)) {
        (Some(record), ..) => &record.job.spec,
        (None, Some(array), _) => &array.job.spec,
        (None, None, Some((array, _))) => &array.job.spec,
        (None, None, None) => return Err(Problem::unknown("job", text)),
    };
    if !principal.sees(spec.tenant.as_ref().map(landfall_model::TenantId::as_str)) {
        return Err(Problem::unknown("job", text));
    }
    Ok(id)
}

pub(crate) fn json(value: &impl serde::Serialize) -> Result<Value, Problem> {
    serde_json::to_value(value).map_err(|error| {
        let error = landfall_api::ApiError::new("internal", error.to_string());
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error)
    })
}

/// Says why a job is where it is, or what stands between it and a node.
#[utoipa::path(get, path = "/jobs/{id}/explain", tag = "jobs", params(("id" = String, Path, description = "The job."), Explained),
    responses((status = 200, description = "The engine's explanation.", body = Answered), Problems))]
async fn explain(
    Steered { app, principal, id }: Steered,
    Params(asked): Params<Explained>,
) -> Reply<Answered> {
    if let Some(at_ms) = asked.at_ms {
        return explain_at(&app, &principal, &id, asked.node, at_ms).await.map(Json);
    }
    let answer = app.ask(move |view| {
        let Some(node) = asked.node else {
            let job = known(view, &principal, &id).ok();
            let explained = job.and_then(|job| Some((view.engine.explain(&job)?, job)));
            return match explained {
                Some((mut explanation, job)) => {
                    explanation.notes.extend(view.pinned(&job));
                    Ok(Answered::Job(Box::new(explanation)))
                }
                // What is only on disk, or ended in a pool that is gone, explains itself by how it ended.
                None => Ok(Answered::Ended(Box::new(super::app::visible_job(view, &principal, &id)?))),
            };
        };
        let job = known(view, &principal, &id)?;
        let why = NodeId::new(&node).ok().and_then(|node| view.engine.why_not(&job, &node));
        why.map_or_else(|| Err(Problem::unknown("node", &node)), |why| Ok(Answered::Node(Box::new(why))))
    });
    answer.await.map(Json)
}

/// What the engine would have said at an instant: the same code, on the state of then.
async fn explain_at(
    app: &App,
    principal: &Principal,
    id: &str,
    node: Option<String>,
    at_ms: u64,
) -> Result<Answered, Problem> {
    let at = Time::from_millis(i64::try_from(at_ms).unwrap_or(i64::MAX));
    let asked = id.to_owned();
    let job = app.ask(move |view| Ok(view.exact(&asked))).await?;
    let job = job.or_else(|| JobId::new(id).ok()).ok_or_else(|| Problem::unknown("job", id))?;
    // A state of a large server is large: one at a time.
    let _one_by_one = app.edits.lock().await;
    let Some(state) = app.journal.read(move |reader| reader.state_at(at)).await? else {
        let error = landfall_api::ApiError::new("too_long_ago", "the journal does not reach back that far")
            .hint("`server.retention` says how long it is kept")
            .field("at_ms");
        return Err(Problem::new(StatusCode::GONE, error));
    };
    let job = known_in(&state, principal, job)?;
    let engine = landfall_engine::Engine::of(state);
    match node {
        None => {
            let explanation = engine.explain(&job).ok_or_else(|| Problem::unknown("job", id))?;
            Ok(Answered::Job(Box::new(explanation)))
        }
        Some(node) => {
            let why = NodeId::new(&node).ok().and_then(|node| engine.why_not(&job, &node));
            why.map_or_else(|| Err(Problem::unknown("node", &node)), |why| Ok(Answered::Node(Box::new(why))))
        }
    }
}

/// Says when a job starts, as far as can be told.
#[utoipa::path(get, path = "/jobs/{id}/estimate", tag = "jobs", params(("id" = String, Path, description = "The job.")),
    responses((status = 200, description = "The engine's estimate.", body = Estimate), Problems))]
async fn estimate(Steered { app, principal, id }: Steered) -> Reply<Estimate> {
    let answer = app.ask(move |view| {
        let job = known(view, &principal, &id)?;
        view.engine.estimate(&job).map_or_else(|| Err(Problem::unknown("job", &id)), Ok)
    });
    answer.await.map(Json)
}

/// Says where a job is and why there.
#[utoipa::path(get, path = "/jobs/{id}/placement", tag = "jobs", params(("id" = String, Path, description = "The job.")),
    responses((status = 200, description = "State, nodes, fence and breakdown; `placed` is null while it waits.", body = PlacementView),
        Problems))]
async fn placement(Steered { app, principal, id }: Steered) -> Reply<PlacementView> {
    let answer = app.ask(move |view| {
        let job = known(view, &principal, &id)?;
        let Some(explained) = view.engine.explain(&job) else { return Err(Problem::unknown("job", &id)) };
        let Explanation { job, state, pool, attempt, reason, placed, .. } = explained;
        let negotiation = view.placement(job.as_str());
        Ok(PlacementView { job, state, pool, attempt, reason, placed, negotiation })
    });
    answer.await.map(Json)
}

async fn visible_array(app: &App, principal: &Principal, id: &str) -> Result<ArrayView, Problem> {
    let (principal, id) = (principal.clone(), id.to_owned());
    app.ask(move |view| {
        let array = view.array(&id).filter(|array| principal.sees(array.tenant.as_deref()));
        array.ok_or_else(|| Problem::unknown("array", &id))
    })
    .await
}

async fn cancel_whole(app: &App, principal: &Principal, id: &str) -> Reply<Acted> {
    let array = visible_array(app, principal, id).await?;
    if array.is_over() {
        return Ok(Json(Acted { ignored: Some("ended".into()) }));
    }
    acted(app.handle.apply(Input::Cancel(job_id(&array.id)?)).await?).map(Json)
}

/// Shows an array.
#[utoipa::path(get, path = "/arrays/{id}", tag = "jobs", params(("id" = String, Path, description = "The array.")),
    responses((status = 200, description = "How many of its jobs are where.", body = ArrayView), Problems))]
async fn array(State(app): Shared, Submitter(principal): Submitter, At(id): At<String>) -> Reply<ArrayView> {
    visible_array(&app, &principal, &id).await.map(Json)
}

/// Adds elements to an array that was submitted open.
#[utoipa::path(post, path = "/arrays/{id}/elements", tag = "jobs", request_body = MoreElements,
    params(("id" = String, Path, description = "The array."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to repeat.")),
    responses((status = 200, description = "How many came.", body = Submitted), Problems, BodyProblems))]
async fn extend_array(
    Steered { app, principal, id }: Steered,
    headers: HeaderMap,
    Body(more): Body<MoreElements>,
) -> Reply<Submitted> {
    let key = key(&headers)?;
    let array = visible_array(&app, &principal, &id).await?;
    Ok(Json(app.handle.extend(principal.caller(), job_id(&array.id)?, more, key).await?))
}

/// Ends the time in which an array takes more elements: it is over when all it has have ended.
#[utoipa::path(post, path = "/arrays/{id}/close", tag = "jobs", params(("id" = String, Path, description = "The array.")),
    responses((status = 200, description = "Done, or ignored for the reason given.", body = Acted),
        Problems, BodyProblems))]
async fn close_array(Steered { app, principal, id }: Steered) -> Reply<Acted> {
    let array = visible_array(&app, &principal, &id).await?;
    if array.is_over() {
        return Ok(Json(Acted { ignored: Some("ended".into()) }));
    }
    acted(app.handle.apply(Input::CloseArray(job_id(&array.id)?)).await?).map(Json)
}

/// Takes all jobs of an array back.
#[utoipa::path(post, path = "/arrays/{id}/cancel", tag = "jobs", params(("id" = String, Path, description = "The array.")),
    responses((status = 200, description = "Done, or ignored for the reason given.", body = Acted),
        Problems, BodyProblems))]
async fn cancel_array(Steered { app, principal, id }: Steered) -> Reply<Acted> {
    cancel_whole(&app, &principal, &id).await
}
