//! Where the server stands, and whether it does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use landfall_api::ApiError;
use landfall_api::answer::{ClockView, StatusView, Unbound};
use landfall_engine::record::JobState;
use landfall_engine::state::PoolState;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::Principal;
use super::problem::{Problem, Problems, Reply};

/// Whoever asks whether the server is ready waits no longer than this.
const READY_WITHIN: Duration = Duration::from_secs(5);

/// The routes of this module below the version of the API.
pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(status))
}

pub(crate) fn root_routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz)).routes(routes!(metrics))
}

/// How a value is called in JSON.
pub(crate) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(Value::Object(map)) => map.keys().next().cloned().unwrap_or_default(),
        _ => String::new(),
    }
}

/// Where the server stands.
#[utoipa::path(get, path = "/status", tag = "server",
    responses((status = 200, description = "Counts and versions.", body = StatusView), Problems))]
async fn status(State(app): Shared, principal: Principal) -> Reply<StatusView> {
    let started = u64::try_from(app.started_at.as_millis()).unwrap_or(0);
    let standing = app.handle.clock().standing();
    let clock = ClockView { ahead_ms: standing.ahead_ms, jumps: standing.jumps, rests: standing.rests };
    let answer = app.ask(move |view| {
        let state = view.engine.state();
        let (mut jobs, mut nodes) = (BTreeMap::new(), BTreeMap::new());
        let counted =
            view.tally().iter().map(|((_, tenant, state), number)| (tenant.as_ref(), *state, *number));
        // Elements that are no jobs yet wait like others.
        let folded = state.folded.values().map(|array| (array, u64::from(array.tally().folded)));
        let folded = folded.filter(|(_, waiting)| *waiting > 0);
        let folded =
            folded.map(|(array, waiting)| (array.job.spec.tenant.as_ref(), JobState::Pending, waiting));
        for (tenant, state, number) in counted.chain(folded) {
            let tenant = tenant.map(landfall_model::TenantId::as_str);
            let seen = principal.sees(tenant) || principal.role == landfall_api::token::Role::Agent;
            let state = if seen { word(&state) } else { "others".to_owned() };
            *jobs.entry(state).or_insert(0) += number;
        }
        for node in state.pools.values().flat_map(PoolState::present) {
            *nodes.entry(word(&node.state)).or_insert(0) += 1;
        }
        let waiting = |pool| view.engine.waiting_in(pool) as u64;
        let pools = state.pools.keys().map(|pool| (pool.to_string(), waiting(pool))).collect();
        let limited = state.pools.iter().filter(|(_, pool)| pool.requeue_limited);
        let limited = limited.map(|(id, _)| (id.to_string(), view.engine.overdue(id))).collect();
        let epoch = state.epoch;
        let unbound = view.nodes.unbound().next().map(|node| Unbound {
            nodes: view.nodes.unbound().count() as u64,
            node: node.to_string(),
            why: view.nodes.facts(node).and_then(|facts| facts.limits.clone()).unwrap_or_default().how,
        });
        Ok(StatusView {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at_ms: started,
            now_ms: u64::try_from(view.now.as_millis()).unwrap_or(0),
            epoch,
            seq: view.seq,
            oldest: view.store.oldest_seq()?,
            journal: view.store.incarnation().to_owned(),
            store_bytes: view.store.size_bytes()?,
            jobs,
            nodes,
            pools,
            agents_connected: view.connections.count() as u64,
            requeue_limited: limited,
            unbound,
            clock,
            token: principal.name,
            role: principal.role,
            tenant: principal.tenant,
        })
    });
    answer.await.map(Json)
}

/// Says that the process lives.
#[utoipa::path(get, path = "/healthz", tag = "server", security(()),
    responses((status = 200, description = "It lives.", body = Value)))]
async fn healthz() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// Says whether requests are answered and can be stored.
#[utoipa::path(get, path = "/readyz", tag = "server", security(()),
    responses((status = 200, description = "It answers, and can store.", body = Value),
        (status = 503, description = "It cannot store, is too busy or going down.", body = landfall_api::ApiError)))]
async fn readyz(State(app): Shared) -> Reply<Value> {
    if app.shutdown.is_cancelled() {
        return Err(crate::driver::Failure::Closing.into());
    }
    let asked = app.handle.read(|view| (view.seq, view.trouble()));
    let Ok(asked) = tokio::time::timeout(READY_WITHIN, asked).await else {
        let message = format!("nothing was stored or answered for {} s", READY_WITHIN.as_secs());
        return Err(not_ready(ApiError::new("busy", message).hint("the disk is slow, or hangs")));
    };
    match asked? {
        (seq, None) => Ok(Json(json!({ "status": "ready", "seq": seq }))),
        (_, Some(trouble)) => {
            let message = format!("nothing can be stored: {}", trouble.message);
            Err(not_ready(ApiError::new("storage", message).hint(trouble.hint)))
        }
    }
}

fn not_ready(error: ApiError) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, error).header(header::RETRY_AFTER, "5")
}

/// Counters for Prometheus. No token is needed on a loopback address; elsewhere any valid one is.
#[utoipa::path(get, path = "/metrics", tag = "server",
    responses((status = 200, description = "Text of OpenMetrics.", body = String,
        content_type = "application/openmetrics-text"), Problems))]
async fn metrics(State(app): Shared, principal: Result<Principal, Problem>) -> Result<Response, Problem> {
    if !app.config.listen.ip().is_loopback() {
        principal?;
    }
    let text = super::metrics::page(&app).await?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, kind)], text).into_response())
}
