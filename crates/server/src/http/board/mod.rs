//! The board: queue, decisions and workers, in the shapes that boards of build farms know.
//!
//! Every answer is `{ "error": bool, "message": payload }`. Kind codes: 0 = eval, 1 = build. Times are RFC 3339.

mod live;
mod load;
mod summary;
mod time;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use landfall_engine::record::{JobRecord, JobState};
use landfall_engine::state::PoolState;
use landfall_model::{JobId, JobKind, Millis, Node, NodeState, TenantId};
use landfall_policy::catalogue;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::openapi::RefOr;
use utoipa::{IntoParams, IntoResponses, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::{Admin, Principal, Submitter};
use super::extract::{At, Params};
use super::history::{Wanted, decisions_before};
use super::problem::Problem;
use crate::driver::rings::{Candidate, JobSeen, Made, NodeSeen};
use crate::driver::roster::{Kind, Row};
use crate::driver::{Failure, View};
use load::{Running, Worker, load};
pub(crate) use time::rfc3339;

/// Dispatched jobs that are listed.
const DISPATCHED_MAX: usize = 500;
/// Pending jobs that are listed.
const PENDING_MAX: usize = 500;
/// Pending jobs whose reason is looked up; the others say what keeps jobs with the same needs, if that is known.
const EXPLAINED_MAX: usize = 50;

fn kind_code(kind: JobKind) -> u8 {
    u8::from(kind == JobKind::Build)
}

fn node_context(seen: &NodeSeen) -> Value {
    json!({
        "architectures": seen.capabilities.architectures, "features": seen.features,
        "fetch": seen.capabilities.fetch, "eval": seen.capabilities.eval, "metrics": seen.metrics,
    })
}

fn job_context(seen: &JobSeen) -> Value {
    let spec = &seen.spec;
    json!({
        "kind": kind_code(spec.kind), "architecture": spec.architecture, "dependents": seen.dependents,
        "direct_inputs": spec.direct_inputs, "queued_at": rfc3339(seen.queued_at), "ready_at": rfc3339(seen.ready_at),
        "missing_inputs": seen.report.and_then(|report| report.missing_inputs),
        "missing_bytes": seen.report.and_then(|report| report.missing_bytes), "tenant_work_share": seen.work_share,
        "rescore_count": seen.rounds, "prefer_local": spec.prefer_local,
        "network_bound": spec.network_bound, "has_fetch_task": spec.fetch_task,
    })
}

fn parent_of(job: &JobId) -> Option<String> {
    crate::driver::jobs::element_of(job.as_str()).map(|(array, _)| array.to_owned())
}

/// An answer of the board.
struct Said(Value);

impl IntoResponse for Said {
    fn into_response(self) -> Response {
        Json(Envelope { error: false, message: self.0 }).into_response()
    }
}

/// What every answer of the board looks like; the payload depends on the route.
#[derive(Debug, Serialize, ToSchema)]
struct Envelope {
    /// Whether it is an error.
    error: bool,
    /// The payload, or what went wrong.
    message: Value,
}

/// Errors of the board.
struct BoardProblems;

impl IntoResponses for BoardProblems {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::response::Response>> {
        super::problem::described::<Envelope>(&[
            ("400", "A parameter is wrong."),
            ("401", "There is no valid token."),
            ("403", "The token may not do this."),
            ("404", "There is no such thing."),
            ("405", "The route does not know the method."),
            ("503", "Too much to do; try again after `Retry-After` seconds."),
            ("507", "It could not be read."),
        ])
    }
}

/// The routes of the board, the same below the version of the API and at the root.
pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(rules))
        .routes(routes!(scores))
        .routes(routes!(pending))
        .routes(routes!(dispatched))
        .routes(routes!(decisions))
        .routes(routes!(one))
        .routes(routes!(workers))
        .routes(routes!(workers_load))
        .route("/board/nodes", get(workers))
        .route("/board/nodes/load", get(workers_load))
        .route("/board/live", get(live::live))
        .layer(axum::middleware::map_response(super::problem::in_board_shape))
}

/// Which rules.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Rules {
    /// Every rule of the catalogue, with class, range and whether it is enabled.
    all: bool,
}

/// The rules of pull pools.
#[utoipa::path(get, path = "/board/scoring/rules", tag = "board", params(Rules),
    responses((status = 200, description = "Rules by name.", body = Envelope), BoardProblems))]
async fn rules(_submitter: Submitter, Params(asked): Params<Rules>) -> Said {
    let rules = catalogue::pull_rules(asked.all);
    let shown = rules.iter().map(|rule| match asked.all {
        true => json!({ "rule": rule.rule, "description": rule.description, "class": rule.class,
            "range": rule.range, "enabled": rule.enabled }),
        false => json!({ "rule": rule.rule, "description": rule.description }),
    });
    Said(shown.collect())
}

/// Which decisions.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Window {
    /// How far back, in hours; 24 if left out.
    #[param(minimum = 1)]
    window_hours: Option<u64>,
    /// How many at most; 2000 if left out.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<usize>,
}

/// Scores of recent decisions in numbers.
#[utoipa::path(get, path = "/board/scoring/summary", tag = "board", params(Window),
    responses((status = 200, description = "Smallest, largest, mean, histogram, rules.", body = Envelope), BoardProblems))]
async fn scores(
    State(app): Shared,
    _submitter: Submitter,
    Params(window): Params<Window>,
) -> Result<Said, Problem> {
    let hours = window.window_hours.unwrap_or(24);
    let most = window.limit.unwrap_or(2000);
    if !(1..=1_000_000).contains(&hours) {
        return Err(Problem::bad("`window_hours` is at least 1", "give more"));
    }
    if !(1..=10_000).contains(&most) {
        return Err(Problem::bad("`limit` is 1 to 10000", "give less"));
    }
    let since = app.handle.now() - Millis::secs(hours * 3600);
    let wanted = Wanted { since: Some(since), scored: true, ..Wanted::default() };
    let read = app.journal.read(move |reader| decisions_before(reader, None, &wanted, most));
    let (decisions, _) = read.await?;
    Ok(Said(serde_json::to_value(summary::summary(&decisions)).unwrap_or_default()))
}

fn sees(principal: &Principal, record: &JobRecord) -> bool {
    principal.sees(record.job.spec.tenant.as_ref().map(TenantId::as_str))
}

/// Jobs that wait, and why.
#[utoipa::path(get, path = "/board/jobs/pending", tag = "board",
    responses((status = 200, description = "`jobs` and `other_pending`.", body = Envelope), BoardProblems))]
async fn pending(State(app): Shared, Submitter(principal): Submitter) -> Result<Said, Problem> {
    let waits =
        |row: &Row| row.kind == Kind::Job && matches!(row.state, JobState::Pending | JobState::Suspended);
    let (ids, others) = chosen(&app, principal, waits, false, PENDING_MAX).await?;
    let answer = app.handle.read(move |view| {
        let mut asked = 0;
        let mut why = |(place, id): (usize, &JobId)| {
            if place < EXPLAINED_MAX {
                return view.engine.explain(id)?.reason.map(|reason| reason.name());
            }
            let record = view.engine.state().job(id).filter(|it| it.is_queued() && it.job.retry_at.is_none())?;
            let (pool, spec) = (record.pool.clone(), record.job.spec.clone());
            view.why_alike(id, &pool, &spec, &mut asked).map(|why| why.reason.name())
        };
        let whys: Vec<Option<&str>> = ids.iter().enumerate().map(&mut why).collect();
        let state = view.engine.state();
        let records = ids.iter().zip(whys).filter_map(|(id, why)| Some((state.job(id)?, why)));
        let jobs = records.map(|(record, why)| {
            let (job, spec) = (&record.job, &record.job.spec);
            json!({
                "kind": kind_code(spec.kind), "tenant": spec.tenant, "job_id": job.id, "parent_id": parent_of(&record.job.id),
                "queued_at": rfc3339(job.queued_at),
                "dependency_count": spec.dependents.max(state.graph.dependents(&job.id)),
                "name": view.jobs.meta(&job.id).and_then(|meta| meta.name.clone()),
                "reason": why.unwrap_or("queued"),
            })
        });
        json!({ "jobs": jobs.collect::<Vec<Value>>(), "other_pending": others })
    });
    Ok(Said(answer.await?))
}

/// The jobs that wait or have nodes longest, or shortest, of those that the asker may see; and how many others there are.
async fn chosen(
    app: &App,
    principal: Principal,
    wanted: impl Fn(&Row) -> bool + Send + 'static,
    newest_first: bool,
    most: usize,
) -> Result<(Vec<JobId>, usize), Problem> {
    let listing = app.listing().await?;
    let chosen = tokio::task::spawn_blocking(move || {
        let rows = listing.rows().filter(|row| wanted(row));
        let (mut own, others): (Vec<&Row>, Vec<&Row>) =
            rows.partition(|row| principal.sees(row.tenant().map(TenantId::as_str)));
        own.sort_unstable_by(|a, b| (a.since, &a.id).cmp(&(b.since, &b.id)));
        if newest_first {
            own.reverse();
        }
        let more = own.len().saturating_sub(most);
        (own.iter().take(most).map(|row| row.id.clone()).collect(), others.len() + more)
    });
    chosen.await.map_err(|_| Failure::Closing.into())
}

/// The newest jobs that have nodes.
#[utoipa::path(get, path = "/board/jobs/dispatched", tag = "board",
    responses((status = 200, description = "`jobs` and `other_running`.", body = Envelope), BoardProblems))]
async fn dispatched(State(app): Shared, Submitter(principal): Submitter) -> Result<Said, Problem> {
    let placed = |row: &Row| row.nodes.is_some();
    let (ids, others) = chosen(&app, principal, placed, true, DISPATCHED_MAX).await?;
    let answer = app.handle.read(move |view| {
        let known = view.rings.winners();
        let state = view.engine.state();
        let placed = ids.iter().filter_map(|id| state.job(id).and_then(|it| Some((it, it.run.as_deref()?))));
        let jobs = placed.map(|(record, run)| {
            let (id, spec) = (&record.job.id, &record.job.spec);
            json!({
                "id": known.get(id).cloned().unwrap_or_else(|| id.to_string()),
                "kind": kind_code(spec.kind), "tenant": spec.tenant,
                "node_id": run.nodes.first().map(|at| at.node.to_string()), "score": run.why.total,
                "dispatched_at": rfc3339(run.committed_at), "job_id": id, "parent_id": parent_of(&record.job.id),
                "name": view.jobs.meta(id).and_then(|meta| meta.name.clone()),
            })
        });
        json!({ "jobs": jobs.collect::<Vec<Value>>(), "other_running": others })
    });
    Ok(Said(answer.await?))
}

/// A candidate as lists show it.
fn candidate(view: &View<'_>, made: &Made, place: usize) -> Value {
    let of = &made.candidates[place];
    let spec = of.seen.as_ref().map(|seen| &seen.spec);
    json!({
        "id": made.id_of(place), "job_id": of.job, "kind": kind_code(made.kind),
        "tenant": spec.and_then(|spec| spec.tenant.as_ref()),
        "name": view.jobs.meta(&of.job).and_then(|meta| meta.name.clone()),
        "score": of.total, "vetoes": of.vetoes, "won": made.winner.as_ref() == Some(&of.job),
    })
}

fn candidates(view: &View<'_>, made: &Made, which: impl Fn(usize) -> bool) -> Vec<Value> {
    let places = (0..made.candidates.len()).filter(|place| which(*place));
    places.map(|place| candidate(view, made, place)).collect()
}

/// The last decisions, newest first; for administrators.
#[utoipa::path(get, path = "/board/jobs/decisions", tag = "board",
    responses((status = 200, description = "Decisions with their candidates.", body = Envelope), BoardProblems))]
async fn decisions(State(app): Shared, _admin: Admin) -> Result<Said, Problem> {
    let answer = app.handle.read(|view| {
        let made = view.rings.newest_first().into_iter().map(|made| {
            json!({ "at": rfc3339(made.at), "node_id": made.node, "kind": kind_code(made.kind), "pool": made.pool,
                "winner": made.winner, "candidates": candidates(view, made, |_| true) })
        });
        made.collect()
    });
    Ok(Said(answer.await?))
}

fn breakdown(candidate: &Candidate) -> Value {
    let rules: BTreeMap<&str, f64> =
        candidate.terms.iter().map(|points| (&*points.term, points.points)).collect();
    let mut breakdown = json!({ "rules": rules, "total": candidate.total });
    if !candidate.vetoes.is_empty() {
        breakdown["vetoes"] = json!(candidate.vetoes);
    }
    breakdown
}

/// One candidate of a decision with its circumstances.
fn one_of(view: &View<'_>, made: &Made, place: usize, admin: bool) -> Value {
    let of = &made.candidates[place];
    let context = of.seen.as_ref().map(job_context);
    let at = |name: &str| context.as_ref().map(|context| context[name].clone());
    let earlier = view.rings.earlier(made);
    let earlier = earlier.iter().map(|made| {
        let score = made.winner_at().and_then(|place| made.candidates[place].total);
        json!({ "id": made.id(), "node_id": made.node, "score": score, "dispatched_at": rfc3339(made.at) })
    });
    let won = made.winner.as_ref() == Some(&of.job);
    let mut shown = candidate(view, made, place);
    let more = json!({
        "parent_id": parent_of(&of.job), "node_id": made.node, "queued_at": at("queued_at"), "ready_at": at("ready_at"),
        "dispatched_at": won.then(|| rfc3339(made.at)), "score_breakdown": breakdown(of),
        "node_context": made.of_node.as_ref().map(node_context), "job_context": context,
        "instance_context": made.instance, "previous_attempts": earlier.collect::<Vec<Value>>(),
        "passed_over": candidates(view, made, |other| made.winner.as_ref() != Some(&made.candidates[other].job)),
    });
    if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
        shown.extend(more);
    }
    if admin {
        shown["candidates"] = json!(candidates(view, made, |_| true));
    }
    shown
}

/// One decision with its circumstances.
#[utoipa::path(get, path = "/board/jobs/{id}", tag = "board", params(("id" = String, Path, description = "Of a candidate, or a job.")),
    responses((status = 200, description = "Breakdown and contexts.", body = Envelope), BoardProblems))]
async fn one(
    State(app): Shared,
    Submitter(principal): Submitter,
    At(id): At<String>,
) -> Result<Said, Problem> {
    let asked = id.clone();
    let found = app.handle.read(move |view| {
        let id = view.resolve(&asked).map_or(asked, |id| id.to_string());
        let admin = principal.role == landfall_api::token::Role::Admin;
        if let Some((made, place)) = view.rings.find(&id) {
            let spec = made.candidates[place].seen.as_ref().map(|seen| &seen.spec);
            let tenant = spec.and_then(|spec| spec.tenant.as_ref()).map(landfall_model::TenantId::as_str);
            let made = made.clone();
            return (spec.is_some() || admin).then_some(()).filter(|()| principal.sees(tenant)).map(|()| {
                let mut shown = one_of(view, &made, place, admin);
                if !principal.sees_all() {
                    // Others see what concerns their own job.
                    shown["passed_over"] = json!([]);
                }
                shown
            });
        }
        let id = landfall_model::JobId::new(&id).ok()?;
        let record = view.engine.state().job(&id).filter(|record| sees(&principal, record))?;
        let run = record.run.as_deref()?;
        let node = run.nodes.first();
        let seen = JobSeen::of(view.engine.state(), &id, None);
        let of_node = node.and_then(|at| view.engine.state().node(&at.node)).map(|(node, _)| NodeSeen::of(node));
        let (total, terms) = (run.why.total, run.why.terms.clone());
        let of = Candidate { job: id.clone(), total, terms, vetoes: Vec::new(), seen };
        Some(json!({
            "id": id, "job_id": id, "node_id": node.map(|at| at.node.to_string()), "score": total,
            "queued_at": rfc3339(record.job.queued_at), "ready_at": rfc3339(record.job.ready_at),
            "dispatched_at": rfc3339(run.committed_at), "score_breakdown": breakdown(&of),
            "node_context": of_node.as_ref().map(node_context), "job_context": of.seen.as_ref().map(job_context),
            "instance_context": Value::Null, "previous_attempts": [], "passed_over": [],
        }))
    });
    found.await?.map(Said).ok_or_else(|| Problem::unknown("job", &id))
}

/// Whether a viewer may see which node this is.
fn knows(principal: &Principal, node: &Node) -> bool {
    let serves = |tenant: &str| node.tenants.is_empty() || node.tenants.contains(tenant);
    principal.sees_all() || principal.tenant.as_deref().is_some_and(serves)
}

/// Nodes as workers; also at `/board/nodes`.
#[utoipa::path(get, path = "/board/workers", tag = "board",
    responses((status = 200, description = "Workers by id.", body = Envelope), BoardProblems))]
async fn workers(State(app): Shared, Submitter(principal): Submitter) -> Result<Said, Problem> {
    let answer = app.handle.read(move |view| {
        let nodes = view.engine.state().pools.values().flat_map(PoolState::present);
        let mut rows: Vec<(&Node, Value)> = nodes
            .map(|node| {
                let capabilities = node.capabilities.clone().unwrap_or_default();
                let mut row = json!({
                    "draining": matches!(node.state, NodeState::Draining | NodeState::Drained),
                    "assigned_jobs": node.placements.len(), "max_concurrent": node.max_concurrent,
                    "eval": capabilities.eval, "fetch": capabilities.fetch, "build": true,
                    "architectures": capabilities.architectures, "state": node.state,
                });
                if knows(&principal, node) {
                    let metrics = node.metrics.unwrap_or_default();
                    row["id"] = json!(node.id);
                    row["tenant"] = json!(node.tenants.iter().next());
                    row["cpu_usage_pct"] = json!(metrics.cpu_usage_pct);
                    row["ram_free_mib"] = json!(metrics.ram_free_mib);
                    row["ram_total_mib"] = json!(node.ram_total);
                }
                (node, row)
            })
            .collect();
        rows.sort_by(|a, b| a.0.id.cmp(&b.0.id));
        rows.into_iter().map(|(_, row)| row).collect()
    });
    Ok(Said(answer.await?))
}

/// How busy workers are, by what they can do.
#[utoipa::path(get, path = "/board/workers/load", tag = "board",
    responses((status = 200, description = "`by_capability`, `by_architecture`, `by_feature`.", body = Envelope), BoardProblems))]
async fn workers_load(State(app): Shared, _submitter: Submitter) -> Result<Said, Problem> {
    let answer = app.handle.read(|view| {
        let state = view.engine.state();
        let there = |node: &&Node| {
            !matches!(
                node.state,
                NodeState::Unknown | NodeState::Down | NodeState::Draining | NodeState::Drained
            )
        };
        let workers: Vec<Worker> = state
            .pools
            .values()
            .flat_map(|pool| &pool.nodes)
            .filter(there)
            .map(|node| {
                let capabilities = node.capabilities.clone().unwrap_or_default();
                Worker {
                    max_concurrent: u64::from(node.max_concurrent),
                    eval: capabilities.eval,
                    fetch: capabilities.fetch,
                    build: true,
                    architectures: capabilities.architectures.iter().map(ToString::to_string).collect(),
                    features: node.features.keys().map(ToString::to_string).collect(),
                }
            })
            .collect();
        let running: Vec<Running> = state
            .jobs
            .values()
            .filter(|record| record.state.is_placed())
            .map(|record| {
                let spec = &record.job.spec;
                let build = spec.kind == JobKind::Build;
                let architecture =
                    Some(spec.architecture.to_string()).filter(|_| build && !spec.is_builtin());
                Running {
                    eval: !build && spec.evaluate_task,
                    fetch: !build && spec.fetch_task,
                    build,
                    architecture,
                    features: spec.features.iter().map(|need| need.name.to_string()).collect(),
                }
            })
            .collect();
        load(&workers, &running)
    });
    Ok(Said(serde_json::to_value(answer.await?).unwrap_or_default()))
}
