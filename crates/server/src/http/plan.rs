//! What would happen if.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use landfall_api::ApiError;
use landfall_api::answer::{PlanRequest, PlanView, ScenarioView};
use landfall_api::job::{DagRequest, JobRequest, PlannedJob};
use landfall_engine::answers::{Change, misfit};
use landfall_engine::{Engine, Input};
use landfall_model::answer::PlanAnswer;
use landfall_model::life::Refused;
use landfall_model::scenario::{Format, NodeRow, Rows, ScenarioError, decode, from_message};
use landfall_model::{JobId, Node, Pool, PoolId, Tenant, TenantId};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::{Operator, Principal, Submitter, forbidden};
use super::extract::{Body, Params, node_id};
use super::jobs::json;
use super::problem::{BodyProblems, Problem, Problems, Reply};
use crate::driver::View;
use crate::driver::intake::{self, Prepared};

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(plan)).routes(routes!(dry_run)).routes(routes!(scenario))
}

/// Says what a change would do, without doing it.
#[utoipa::path(post, path = "/plan", tag = "plan", request_body = PlanRequest,
    responses((status = 200, description = "What would start, stop, wait and move.", body = PlanView), Problems, BodyProblems))]
async fn plan(
    State(app): Shared,
    Submitter(principal): Submitter,
    Body(request): Body<PlanRequest>,
) -> Reply<PlanView> {
    answer(&app, principal, request).await
}

/// Says where a job would go, without submitting it.
#[utoipa::path(post, path = "/placement/dry-run", tag = "plan", request_body = JobRequest,
    responses((status = 200, description = "What would start, stop, wait and move.", body = PlanView), Problems, BodyProblems))]
async fn dry_run(
    State(app): Shared,
    Submitter(principal): Submitter,
    Body(request): Body<JobRequest>,
) -> Reply<PlanView> {
    answer(&app, principal, PlanRequest { submit: Some(request), ..PlanRequest::default() }).await
}

/// Nodes that a plan may add.
const ADDED_MAX: usize = 10_000;
/// Plans made at once: each works on a copy of everything.
pub(crate) static LOOKING_AHEAD: Semaphore = Semaphore::const_new(2);

/// Time that peers get beside what they were asked to think for.
const PEERS_WITHIN: Duration = Duration::from_secs(30);
/// How often it is looked whether they have answered.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// What peers offer for the one job of a request, if it is one that they would place.
async fn asked_of_peers(
    app: &App,
    principal: &Principal,
    request: &PlanRequest,
) -> Result<Option<PlanView>, Problem> {
    let Some(job) = request.submit.clone() else { return Ok(None) };
    let caller = principal.caller();
    let asked = app.ask(move |view| {
        let prepared = view.intake(&caller, vec![job], |_| "planned".to_owned())?;
        let Some(job) = prepared.iter().find(|job| view.asks_peers(job)) else { return Ok(None) };
        Ok(Some((view.dry_run(job)?, vec![job.planned()], view.now)))
    });
    let Some(((pool, digest, asked), submitted, now_ms)) = asked.await? else { return Ok(None) };
    let input = Box::new(landfall_negotiate::Input::Submit(Box::new(asked)));
    app.handle.apply(Input::Peer { pool: pool.clone(), input }).await?;
    let began = Instant::now();
    let negotiation = loop {
        let pool = pool.clone();
        if let Some(ranked) = app.ask(move |view| Ok(view.ranked(&pool, &digest))).await? {
            break ranked;
        }
        if began.elapsed() > PEERS_WITHIN {
            let error = ApiError::new("busy", "this server did not get round to the answers of its peers");
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.hint("ask again")));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    };
    let answer = PlanAnswer {
        now_ms,
        refused: None,
        starts: Vec::new(),
        stopped: Vec::new(),
        waiting: Vec::new(),
        moved: Vec::new(),
        waiting_total: 0,
    };
    Ok(Some(PlanView { answer, submitted, negotiation: Some(negotiation) }))
}

async fn answer(app: &App, principal: Principal, mut request: PlanRequest) -> Reply<PlanView> {
    read_file(&mut request)?;
    if let Some(offers) = asked_of_peers(app, &principal, &request).await? {
        return Ok(Json(offers));
    }
    let _place = LOOKING_AHEAD.acquire().await.map_err(|_| crate::driver::Failure::Closing)?;
    let asks = principal.clone();
    let (change, submitted) = app.ask(move |view| change(view, &asks, request)).await?;
    let (state, now) = app.copy().await?;
    // Looking ahead may take long; meanwhile the driver goes on.
    let planned = tokio::task::spawn_blocking(move || {
        let engine = Engine::of(state).at(now);
        let mut answer = engine.plan(change);
        if !principal.sees_all() {
            hide_others(&mut answer, &engine, &principal);
        }
        PlanView { answer, submitted, negotiation: None }
    });
    match planned.await {
        Ok(answer) => Ok(Json(answer)),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(crate::driver::Failure::Closing.into()),
    }
}

/// Which pool a scenario is about.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScenarioQuery {
    /// Only this pool, with its nodes and jobs.
    #[serde(default)]
    pool: Option<String>,
}

/// What is now, as a scenario file: nodes, what runs on them, what waits, pools, tenants and what policies read.
#[utoipa::path(get, path = "/scenario", tag = "plan", params(ScenarioQuery),
    responses((status = 200, description = "The file, and what could not be told in it.", body = ScenarioView), Problems))]
async fn scenario(
    State(app): Shared,
    _operator: Operator,
    Params(query): Params<ScenarioQuery>,
) -> Reply<ScenarioView> {
    let _place = LOOKING_AHEAD.acquire().await.map_err(|_| crate::driver::Failure::Closing)?;
    let only = match &query.pool {
        Some(pool) => Some(PoolId::new(pool).map_err(|_| Problem::unknown("pool", pool))?),
        None => None,
    };
    let (state, now) = app.copy().await?;
    let written = tokio::task::spawn_blocking(move || -> Result<ScenarioView, Problem> {
        let exported = Engine::of(state).at(now).export(only.as_ref())?;
        let text = landfall_model::scenario::write(&exported.situation).map_err(|error| {
            let error = ApiError::new("not_exported", format!("it cannot be written as a scenario: {error}"));
            Problem::new(StatusCode::CONFLICT, error)
        })?;
        Ok(ScenarioView { text, left_out: exported.left_out })
    });
    match written.await {
        Ok(view) => view.map(Json),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(crate::driver::Failure::Closing.into()),
    }
}

/// Leaves out what a plan says about jobs of other tenants.
fn hide_others(answer: &mut PlanAnswer, engine: &Engine, principal: &Principal) {
    let state = engine.state();
    let shown = |job: &JobId| {
        let array = job.as_str().split_once('.').map_or(job.as_str(), |(array, _)| array);
        let spec = match (state.job(job), state.folded.get(array)) {
            (Some(record), _) => &record.job.spec,
            (None, Some(array)) => &array.job.spec,
            // The job that is planned is nobody else's.
            (None, None) => return true,
        };
        principal.sees(spec.tenant.as_ref().map(TenantId::as_str))
    };
    answer.starts.retain(|start| shown(&start.job));
    answer.stopped.retain(|stopped| shown(&stopped.job));
    answer.waiting.retain(|waiting| shown(&waiting.job));
    answer.moved.retain(|moved| shown(&moved.job));
}

fn several_changes() -> Problem {
    let error = ApiError::new("invalid", "a plan looks at one change").hint("ask once for each");
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error)
}

/// Puts what a job file says in the place of its text.
fn read_file(request: &mut PlanRequest) -> Result<(), Problem> {
    #[derive(Deserialize)]
    struct Shape {
        jobs: Option<serde::de::IgnoredAny>,
    }
    let Some(text) = request.file.take() else { return Ok(()) };
    if request.submit.is_some() || request.jobs.is_some() {
        return Err(several_changes());
    }
    let format = if text.trim_start().starts_with('{') { Format::Json } else { Format::Toml };
    let wrong = |error: ScenarioError| {
        let line = error.position.map(|at| format!(" (line {})", at.line)).unwrap_or_default();
        let hint = error.hint.unwrap_or_else(|| "see docs/reference/api.md for the fields of a job".into());
        Problem::invalid("file", format!("{}{line}", error.message), &hint)
    };
    if decode::<Shape>(&text, format).map_err(wrong)?.jobs.is_some() {
        request.jobs = Some(decode::<DagRequest>(&text, format).map_err(wrong)?.jobs);
    } else {
        request.submit = Some(decode(&text, format).map_err(wrong)?);
    }
    Ok(())
}

/// The change, and the jobs that it submits.
fn change(
    view: &mut View<'_>,
    principal: &Principal,
    mut request: PlanRequest,
) -> Result<(Change, Vec<PlannedJob>), Problem> {
    let given = [
        request.submit.is_some(),
        request.jobs.is_some(),
        request.cancel.is_some(),
        request.lose.is_some(),
        request.add.is_some(),
        request.set_tenant.is_some(),
        request.set_pool.is_some(),
    ];
    if given.iter().filter(|given| **given).count() > 1 {
        return Err(several_changes());
    }
    let jobs = request.submit.take().map(|job| vec![job]).or(request.jobs.take());
    if let Some(jobs) = jobs {
        let several = jobs.len() > 1;
        let name = |place| if several { format!("planned-{}", place + 1) } else { "planned".to_owned() };
        let prepared = view.intake(&principal.caller(), jobs, name)?;
        if prepared.iter().any(|job| view.asks_peers(job)) {
            let message = "peers are asked about one job at a time";
            let error = ApiError::new("negotiate_unsupported", message).field("needs.pool");
            let hint = "plan each by itself, or with --placement local";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.hint(hint)));
        }
        let submitted = prepared.iter().map(Prepared::planned).collect();
        return Ok((intake::change(prepared), submitted));
    }
    Ok((other_change(view, principal, request)?, Vec::new()))
}

fn other_change(view: &mut View<'_>, principal: &Principal, request: PlanRequest) -> Result<Change, Problem> {
    let operator = || if principal.sees_all() { Ok(()) } else { Err(forbidden(principal, "operator")) };
    if let Some(job) = request.cancel {
        let job = super::app::visible_job(view, principal, &job)?;
        return JobId::new(&job.id).map(Change::Cancel).map_err(|_| Problem::unknown("job", &job.id));
    }
    if let Some(nodes) = request.lose {
        operator()?;
        return nodes.iter().map(|id| node_id(id)).collect::<Result<_, _>>().map(Change::NodesLost);
    }
    if let Some(nodes) = request.add {
        operator()?;
        return added(view, nodes).map(Change::NodesAdded);
    }
    if let Some(fields) = request.set_tenant {
        operator()?;
        return tenant(view, None, fields).map(|tenant| Change::SetTenant(Box::new(tenant)));
    }
    if let Some(fields) = request.set_pool {
        operator()?;
        let pool = pool(None, fields)?;
        // A file of its own stays, unless another policy is named.
        let known = view.engine.state().pool(&pool.id).filter(|known| known.pool.policy == pool.policy);
        let own = request.policy_text.map(Arc::from);
        let policy = own.or_else(|| known.and_then(|known| known.policy.clone()));
        if let Some(message) = misfit(&pool, policy.as_deref()) {
            let hint = "`landfall policy list` shows what each is for";
            return Err(Refused::new("policy_family", message, hint).into());
        }
        return Ok(Change::SetPool { pool: Box::new(pool), policy });
    }
    Ok(Change::Nothing)
}

/// Nodes that might join, from the fields of a scenario; one that is there already would be told anew, not added.
fn added(view: &View<'_>, rows: Vec<Map<String, Value>>) -> Result<Vec<Node>, Problem> {
    let mut made = Vec::new();
    for (place, row) in rows.into_iter().enumerate() {
        let place = format!("add[{place}]");
        let row: NodeRow = typed(None, row, &place)?;
        let nodes = Rows::default().nodes(row, view.now, &place);
        made.extend(nodes.map_err(|error| {
            Problem::invalid(&place, error.to_string(), "see docs/reference/scenario.md")
        })?);
        if made.len() > ADDED_MAX {
            return Err(Problem::invalid("add", format!("at most {ADDED_MAX} nodes"), "add fewer at once"));
        }
    }
    if let Some(known) = made.iter().find(|node| view.engine.state().node(&node.id).is_some()) {
        let message = format!("there is a node `{}` already", known.id);
        return Err(Problem::invalid("add", message, "give new nodes another name"));
    }
    Ok(made)
}

/// A pool from its fields; the id may come from the path.
pub(crate) fn pool(id: Option<&str>, fields: Map<String, Value>) -> Result<Pool, Problem> {
    typed(id, fields, "pool")
}

/// A tenant from its fields, with what is left out as it is or as usual.
pub(crate) fn tenant(
    view: &View<'_>,
    id: Option<&str>,
    mut fields: Map<String, Value>,
) -> Result<Tenant, Problem> {
    let named = id.or_else(|| fields.get("id").and_then(Value::as_str)).unwrap_or_default().to_owned();
    let id_of = TenantId::new(&named)
        .map_err(|error| Problem::invalid("tenant.id", error.to_string(), "name the tenant"))?;
    let known = view.engine.state().tenants.get(&id_of).map(|state| state.tenant.clone());
    let base = json(&known.unwrap_or_else(|| Tenant::new(id_of)))?;
    for (name, value) in base.as_object().into_iter().flatten() {
        match (fields.get_mut(name), value) {
            (None, value) => {
                fields.insert(name.clone(), value.clone());
            }
            (Some(Value::Object(given)), Value::Object(usual)) => {
                for (name, value) in usual {
                    given.entry(name.clone()).or_insert(value.clone());
                }
            }
            _ => {}
        }
    }
    if let Some(field) = fields.keys().find(|name| base.get(name.as_str()).is_none()) {
        let message = format!("a tenant has no field `{}`", field.escape_debug());
        return Err(Problem::invalid(&format!("tenant.{field}"), message, "see docs/reference/scenario.md"));
    }
    let tenant: Tenant = typed(Some(&named), fields, "tenant")?;
    let numbers = [("share", tenant.share, 1.0), ("burst", tenant.burst, 1e6), ("usage", tenant.usage, 1e6)];
    for (name, value, most) in numbers {
        if !value.is_finite() || !(0.0..=most).contains(&value) {
            let message = format!("`{name}` is 0 to {most}");
            return Err(Problem::invalid(&format!("tenant.{name}"), message, "give another number"));
        }
    }
    Ok(tenant)
}

/// A thing of the model from its fields.
pub(crate) fn typed<T: serde::de::DeserializeOwned>(
    id: Option<&str>,
    mut fields: Map<String, Value>,
    what: &str,
) -> Result<T, Problem> {
    if let Some(id) = id {
        let given = fields.insert("id".into(), Value::String(id.to_owned()));
        if given.is_some_and(|given| given != Value::String(id.to_owned())) {
            let hint = "leave it out; the path names it";
            return Err(Problem::invalid(&format!("{what}.id"), "the path names another one", hint));
        }
    }
    serde_path_to_error::deserialize(Value::Object(fields)).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { what.to_owned() } else { format!("{what}.{path}") };
        let found = from_message(&field, &error.into_inner().to_string());
        let hint = found.hint.unwrap_or_else(|| "see docs/reference/scenario.md".to_owned());
        Problem::invalid(&field, found.message, &hint)
    })
}
