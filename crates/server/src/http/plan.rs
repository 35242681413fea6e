//! What would happen if.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use landfall_api::ApiError;
use landfall_api::answer::PlanRequest;
use landfall_api::job::JobRequest;
use landfall_engine::Engine;
use landfall_engine::answers::Change;
use landfall_engine::input::Submission;
use landfall_model::scenario::{Format, JobRow, Rows, ScenarioError, decode};
use landfall_model::{Job, JobId, Pool, Tenant, TenantId, Time};
use landfall_store::Table;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::App;
use super::auth::{Principal, Submitter, forbidden};
use super::extract::{Body, node_id};
use super::jobs::json;
use super::problem::{BodyProblems, Problem, Problems};
use crate::driver::View;

/// Elements of an array that a plan looks at.
const ELEMENTS_MAX: u32 = 100;

/// The routes of this module.
pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(plan)).routes(routes!(dry_run))
}

/// Says what a change would do, without doing it.
#[utoipa::path(post, path = "/plan", tag = "plan", request_body = PlanRequest,
    responses((status = 200, description = "What would start, stop, wait and move.", body = Value), Problems, BodyProblems))]
async fn plan(
    State(app): State<Arc<App>>,
    Submitter(principal): Submitter,
    Body(request): Body<PlanRequest>,
) -> Result<Json<Value>, Problem> {
    answer(&app, principal, request).await
}

/// Says where a job would go, without submitting it.
#[utoipa::path(post, path = "/placement/dry-run", tag = "plan", request_body = JobRequest,
    responses((status = 200, description = "What would start, stop, wait and move.", body = Value), Problems, BodyProblems))]
async fn dry_run(
    State(app): State<Arc<App>>,
    Submitter(principal): Submitter,
    Body(request): Body<JobRequest>,
) -> Result<Json<Value>, Problem> {
    answer(&app, principal, PlanRequest { submit: Some(request), ..PlanRequest::default() }).await
}

/// Plans made at once: each works on a copy of everything.
static LOOKING_AHEAD: Semaphore = Semaphore::const_new(2);

async fn answer(app: &App, principal: Principal, request: PlanRequest) -> Result<Json<Value>, Problem> {
    let _place = LOOKING_AHEAD.acquire().await.map_err(|_| crate::driver::Failure::Closing)?;
    let asks = principal.clone();
    let (state, change) = app
        .ask(move |view| {
            let change = change(view, &asks, request)?;
            Ok((view.engine.state().clone(), change))
        })
        .await?;
    // Looking ahead may take long; meanwhile the driver goes on.
    let planned = tokio::task::spawn_blocking(move || {
        let engine = Engine::of(state);
        let mut answer = json(&engine.plan(change))?;
        if !principal.sees_all() {
            hide_others(&mut answer, &engine, &principal);
        }
        Ok(answer)
    });
    match planned.await {
        Ok(answer) => answer.map(Json),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(crate::driver::Failure::Closing.into()),
    }
}

/// Leaves out what a plan says about jobs of other tenants.
fn hide_others(answer: &mut Value, engine: &Engine, principal: &Principal) {
    let state = engine.state();
    let shown = |entry: &Value| {
        let Some(job) = entry.get("job").and_then(Value::as_str) else { return true };
        let array = job.split_once('.').map_or(job, |(array, _)| array);
        let spec = match state.jobs.get(job) {
            Some(record) => &record.job.spec,
            None => match state.folded.get(array) {
                Some(array) => &array.job.spec,
                // The job that is planned is nobody else's.
                None => return true,
            },
        };
        principal.sees(spec.tenant.as_ref().map(landfall_model::TenantId::as_str))
    };
    let lists = answer.as_object_mut().into_iter().flat_map(serde_json::Map::values_mut);
    for list in lists.filter_map(Value::as_array_mut) {
        list.retain(&shown);
    }
}

fn change(view: &mut View<'_>, principal: &Principal, request: PlanRequest) -> Result<Change, Problem> {
    let given = [
        request.submit.is_some(),
        request.cancel.is_some(),
        request.lose.is_some(),
        request.set_tenant.is_some(),
        request.set_pool.is_some(),
    ];
    if given.iter().filter(|given| **given).count() > 1 {
        let error = ApiError::new("invalid", "a plan looks at one change").hint("ask once for each");
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error));
    }
    let operator = || if principal.sees_all() { Ok(()) } else { Err(forbidden(principal, "operator")) };
    if let Some(request) = request.submit {
        return submissions(view, principal, request).map(Change::Submit);
    }
    if let Some(job) = request.cancel {
        let job = super::app::visible_job(view, principal, &job)?;
        return JobId::new(&job.id).map(Change::Cancel).map_err(|_| Problem::unknown("job", &job.id));
    }
    if let Some(nodes) = request.lose {
        operator()?;
        return nodes.iter().map(|id| node_id(id)).collect::<Result<_, _>>().map(Change::NodesLost);
    }
    if let Some(fields) = request.set_tenant {
        operator()?;
        return tenant(view, None, fields).map(|tenant| Change::SetTenant(Box::new(tenant)));
    }
    if let Some(fields) = request.set_pool {
        operator()?;
        let pool = pool(None, fields)?;
        let policy = view.engine.state().pool(&pool.id).and_then(|known| known.policy.clone());
        return Ok(Change::SetPool { pool: Box::new(pool), policy });
    }
    Ok(Change::Nothing)
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
        Problem::invalid(&field, error.into_inner().to_string(), "see docs/reference/scenario.md")
    })
}

/// A job from its needs, as in a scenario.
pub(crate) fn job(id: &str, request: &JobRequest, now: Time) -> Result<Job, Problem> {
    let mut needs = request.needs.clone();
    needs.retain(|_, value| !value.is_null());
    needs.insert("id".into(), Value::String(id.to_owned()));
    needs.entry("runtime").or_insert_with(|| {
        let run = &request.run;
        let of = [
            (run.image.is_some(), "container"),
            (run.module.is_some(), "wasm"),
            (run.model.is_some(), "llmcpp"),
        ];
        let runtime = of.iter().find(|(is, _)| *is).map_or("process", |(_, runtime)| runtime);
        Value::String(runtime.to_owned())
    });
    let bad = |error: ScenarioError| {
        let field = error.field.strip_prefix("needs.").unwrap_or(&error.field);
        let field = if field.is_empty() { "needs".to_owned() } else { format!("needs.{field}") };
        let mut api = ApiError::new("invalid_needs", error.message).field(field);
        api.hint = error.hint;
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, api)
    };
    let row: JobRow = decode(&Value::Object(needs).to_string(), Format::Json).map_err(bad)?;
    Rows::default().job(row, now, "needs").map_err(bad)
}

fn submissions(
    view: &mut View<'_>,
    principal: &Principal,
    mut request: JobRequest,
) -> Result<Vec<Submission>, Problem> {
    if let Some(name) = &request.workload {
        let template = view.store.get(Table::Workloads, name)?;
        let template = template.and_then(|bytes| serde_json::from_slice::<JobRequest>(&bytes).ok());
        let Some(template) = template else { return Err(Problem::unknown("workload", name)) };
        let mut needs = template.needs;
        needs.append(&mut request.needs);
        needs.entry("workload").or_insert(Value::String(name.clone()));
        request.needs = needs;
    }
    if let Some(tenant) = principal.caller().tenant {
        request.needs.insert("tenant".into(), Value::String(tenant));
    }
    let ids: Vec<String> = match request.array {
        None => vec!["planned".into()],
        Some(range) if range.step > 0 && range.first <= range.last => (range.first..=range.last)
            .step_by(range.step as usize)
            .take(ELEMENTS_MAX as usize)
            .map(|index| format!("planned.{index}"))
            .collect(),
        Some(_) => {
            return Err(Problem::invalid("array", "the array has no elements", "first ≤ last, step ≥ 1"));
        }
    };
    let named = request.needs.get("pool").and_then(Value::as_str);
    let pools = &view.engine.state().pools;
    let chosen = match named {
        Some(name) => pools.keys().find(|pool| pool.as_str() == name),
        None if pools.len() == 1 => pools.keys().next(),
        None => pools.keys().find(|pool| pool.as_str() == "default"),
    };
    let Some(pool) = chosen.cloned() else {
        return Err(match named {
            Some(name) => {
                let mut problem = Problem::unknown("pool", name);
                problem.error.field = Some("needs.pool".into());
                problem
            }
            None => Problem::invalid("needs.pool", "there are several pools", "name one of them"),
        });
    };
    ids.iter()
        .map(|id| {
            let mut submission = Submission::new(job(id, &request, view.now)?);
            submission.pool = Some(pool.clone());
            Arc::make_mut(&mut submission.job.spec).pool = Some(pool.clone());
            submission.user_hold = request.hold;
            Ok(submission)
        })
        .collect()
}
