//! Pools, tenants and blocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use landfall_api::ApiError;
use landfall_api::answer::Acted;
use landfall_api::fleet::{EnergyPrice, PoolRequest, PoolView, Settings, TenantUsage, TenantView};
use landfall_engine::Input;
use landfall_engine::state::PoolState;
use landfall_engine::units::MICRO;
use landfall_model::scenario::closest;
use landfall_model::{Block, Dispatch, HistoryRow, Millis, NodeState, PoolId, Price, TenantId};
use serde_json::{Map, Value};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::{Operator, Principal, Submitter};
use super::extract::{At, Body, check_match, tagged, unless_known};
use super::jobs::json;
use super::plan::{pool as pool_of, tenant as tenant_of, typed};
use super::problem::{BodyProblems, Problem, Problems, Reply, acted};
use super::status::word;
use crate::driver::View;

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(pools))
        .routes(routes!(pool, set_pool, delete_pool))
        .routes(routes!(add_history))
        .routes(routes!(tenants))
        .routes(routes!(tenant, set_tenant, delete_tenant))
        .routes(routes!(usage))
        .routes(routes!(blocks))
        .routes(routes!(set_block))
        .routes(routes!(energy_price, set_energy_price))
}

/// What may be said about a block.
const BLOCK_FIELDS: [&str; 14] = [
    "id",
    "provider",
    "instance_type",
    "tier",
    "status",
    "start_at",
    "start_at_ms",
    "end_at",
    "end_at_ms",
    "ends_in_ms",
    "drain_deadline",
    "drain_deadline_ms",
    "cost_per_hour",
    "preemptible",
];

/// A word that changes whenever the value does.
pub(crate) fn version_of(value: &impl serde::Serialize) -> String {
    use sha2::Digest as _;
    let text = serde_json::to_vec(value).unwrap_or_default();
    sha2::Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn pool_view(view: &mut View<'_>, pool: &PoolState) -> Result<PoolView, Problem> {
    let settings = json(&pool.pool)?;
    let (mut pending, mut running) = (0, 0);
    for ((_, _, state), number) in view.tally().iter().filter(|((of, _, _), _)| *of == pool.pool.id) {
        pending += if *state == landfall_engine::record::JobState::Pending { *number } else { 0 };
        running += if state.is_placed() { *number } else { 0 };
    }
    let folded = view.engine.state().folded.values().filter(|array| array.pool == pool.pool.id);
    pending += folded.map(|array| u64::from(array.tally().folded)).sum::<u64>();
    let policy_text = pool.policy.as_ref().map(|text| text.to_string());
    let policy = pool.pool.policy_name();
    let (in_force, warning) = view.engine.policy_in_force(&pool.pool.id).unwrap_or((policy, None));
    Ok(PoolView {
        id: pool.pool.id.to_string(),
        dispatch: word(&pool.pool.dispatch),
        policy: policy.to_owned(),
        policy_in_force: in_force.to_owned(),
        warnings: warning.into_iter().map(str::to_owned).collect(),
        version: version_of(&(&settings, &policy_text)),
        policy_text,
        pool: settings,
        nodes: pool.present().count() as u64,
        nodes_ready: pool.nodes.iter().filter(|node| node.state == NodeState::Ready).count() as u64,
        pending,
        running,
        surging: pool.world.surging.contains(&pool.pool.id),
        settings_from: None,
        fared: pool.habits.fared(),
    })
}

/// Says of a pool that the settings file names whether it is as the file says.
fn beside_the_file(app: &App, pool: &mut PoolView) {
    let Some(file) = &app.config.pools_from else { return };
    let Some(named) = app.config.pools.iter().find(|named| named.pool.id.as_str() == pool.id) else { return };
    let same = json(&named.pool).is_ok_and(|named| named == pool.pool) && named.policy == pool.policy_text;
    pool.settings_from = Some(if same { Settings::File } else { Settings::Live });
    pool.warnings.extend((!same).then(|| until_restart("pool", &pool.id, file)));
}

/// What there is to know about a live change of something that the settings file names.
fn until_restart(what: &str, id: &str, file: &str) -> String {
    format!(
        "{what} {id} was changed while the server runs, and {file} names it: the file wins at the next start; change it there as well"
    )
}

fn known_pool(view: &mut View<'_>, id: &str) -> Option<Result<PoolView, Problem>> {
    view.engine.state().pools.get(id).map(|pool| pool_view(view, pool))
}

/// Lists pools.
#[utoipa::path(get, path = "/pools", tag = "fleet",
    responses((status = 200, description = "All pools.", body = Vec<PoolView>), Problems))]
async fn pools(State(app): Shared, _submitter: Submitter) -> Reply<Vec<PoolView>> {
    let all = app.ask(|view| {
        view.engine.state().pools.values().map(|pool| pool_view(view, pool)).collect::<Result<Vec<_>, _>>()
    });
    let mut all = all.await?;
    all.iter_mut().for_each(|pool| beside_the_file(&app, pool));
    Ok(Json(all))
}

/// Shows a pool.
#[utoipa::path(get, path = "/pools/{id}", tag = "fleet", params(("id" = String, Path, description = "The pool."),
        ("If-None-Match" = Option<String>, Header, description = "The ETag that is known already.")),
    responses((status = 200, description = "The pool.", body = PoolView,
            headers(("ETag" = String, description = "Changes whenever the settings do."))),
        (status = 304, description = "It has not changed."), Problems))]
async fn pool(
    State(app): Shared,
    _submitter: Submitter,
    At(id): At<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let pool =
        app.ask(move |view| known_pool(view, &id).unwrap_or_else(|| Err(Problem::unknown("pool", &id))));
    let mut pool = pool.await?;
    beside_the_file(&app, &mut pool);
    Ok(unless_known(&headers, &pool.version, &pool))
}

/// Adds a pool or changes its settings.
#[utoipa::path(put, path = "/pools/{id}", tag = "fleet", request_body = PoolRequest,
    params(("id" = String, Path, description = "The pool."),
        ("If-Match" = Option<String>, Header, description = "Change it only if this is its ETag.")),
    responses((status = 200, description = "The pool as it is now.", body = PoolView,
            headers(("ETag" = String, description = "Changes whenever the settings do."))), Problems, BodyProblems))]
async fn set_pool(
    State(app): Shared,
    _operator: Operator,
    At(id): At<String>,
    headers: HeaderMap,
    Body(request): Body<PoolRequest>,
) -> Result<Response, Problem> {
    let _one_by_one = app.edits.lock().await;
    let pool = pool_of(Some(&id), request.pool)?;
    let asked = id.clone();
    let known = app.ask(move |view| known_pool(view, &asked).transpose()).await?;
    check_match(&headers, known.as_ref().map(|pool| pool.version.as_str()))?;
    let policy = request.policy_text.map(Arc::from);
    acted(app.handle.apply(Input::SetPool { pool: Box::new(pool), policy }).await?)?;
    let pool =
        app.ask(move |view| known_pool(view, &id).unwrap_or_else(|| Err(Problem::unknown("pool", &id))));
    let mut pool = pool.await?;
    beside_the_file(&app, &mut pool);
    for warning in &pool.warnings {
        tracing::warn!(pool = %pool.id, "{warning}");
    }
    Ok(tagged(&pool.version, &pool))
}

/// Says that something cannot be deleted while a file names it.
pub(super) fn unless_named(
    what: &str,
    id: &str,
    is_named: bool,
    file: Option<&String>,
) -> Result<(), Problem> {
    let Some(file) = file.filter(|_| is_named) else { return Ok(()) };
    let message = format!("{file} names {what} `{id}`, so it would be back at the next start");
    let hint = format!("take it out of the file, start the server anew, then delete the {what}");
    Err(Problem::new(StatusCode::CONFLICT, ApiError::new("named_in_settings", message).hint(hint)))
}

/// Deletes a pool that has neither nodes nor jobs that wait or run.
#[utoipa::path(delete, path = "/pools/{id}", tag = "fleet", params(("id" = String, Path, description = "The pool.")),
    responses((status = 200, description = "It is gone.", body = Acted),
        (status = 409, description = "It has jobs or nodes, is the only pool, or the settings file names it.", body = ApiError), Problems))]
async fn delete_pool(State(app): Shared, _operator: Operator, At(id): At<String>) -> Reply<Acted> {
    let _one_by_one = app.edits.lock().await;
    let pool = PoolId::new(&id).map_err(|_| Problem::unknown("pool", &id))?;
    let is_named = app.config.pools.iter().any(|named| named.pool.id == pool);
    unless_named("pool", &id, is_named, app.config.pools_from.as_ref())?;
    acted(app.handle.apply(Input::DeletePool(pool)).await?).map(Json)
}

fn tenant_view(view: &View<'_>, id: &str) -> Option<Result<TenantView, Problem>> {
    let state = view.engine.state().tenants.get(id)?;
    let tenant = json(&state.tenant);
    Some(tenant.map(|tenant| TenantView {
        id: id.to_owned(),
        version: version_of(&tenant),
        tenant,
        settings_from: None,
        warnings: Vec::new(),
        usage: usage_of(view, id),
    }))
}

/// The same of a tenant.
fn tenant_beside_the_file(app: &App, tenant: &mut TenantView) {
    let Some(file) = &app.config.tenants_from else { return };
    let Some(named) = app.config.tenants.iter().find(|named| named.id.as_str() == tenant.id) else { return };
    let same = json(named).is_ok_and(|named| named == tenant.tenant);
    tenant.settings_from = Some(if same { Settings::File } else { Settings::Live });
    tenant.warnings.extend((!same).then(|| until_restart("tenant", &tenant.id, file)));
}

/// Whether somebody may look at a tenant.
fn sees_tenant(principal: &Principal, id: &str) -> Result<(), Problem> {
    if principal.sees(Some(id)) { Ok(()) } else { Err(Problem::unknown("tenant", id)) }
}

/// Lists tenants; a submitter sees its own.
#[utoipa::path(get, path = "/tenants", tag = "fleet",
    responses((status = 200, description = "Tenants.", body = Vec<TenantView>), Problems))]
async fn tenants(State(app): Shared, Submitter(principal): Submitter) -> Reply<Vec<TenantView>> {
    let all = app.ask(move |view| {
        let ids = view.engine.state().tenants.keys().filter(|id| principal.sees(Some(id.as_str())));
        ids.filter_map(|id| tenant_view(view, id.as_str())).collect::<Result<Vec<_>, _>>()
    });
    let mut all = all.await?;
    all.iter_mut().for_each(|tenant| tenant_beside_the_file(&app, tenant));
    Ok(Json(all))
}

/// Shows a tenant.
#[utoipa::path(get, path = "/tenants/{id}", tag = "fleet", params(("id" = String, Path, description = "The tenant.")),
    responses((status = 200, description = "The tenant.", body = TenantView,
        headers(("ETag" = String, description = "Changes whenever the settings do."))), Problems))]
async fn tenant(
    State(app): Shared,
    Submitter(principal): Submitter,
    At(id): At<String>,
) -> Result<Response, Problem> {
    sees_tenant(&principal, &id)?;
    let tenant =
        app.ask(move |view| tenant_view(view, &id).unwrap_or_else(|| Err(Problem::unknown("tenant", &id))));
    let mut tenant = tenant.await?;
    tenant_beside_the_file(&app, &mut tenant);
    Ok(tagged(&tenant.version, &tenant))
}

/// Adds a tenant or changes its settings; fields that are left out stay as they are.
#[utoipa::path(put, path = "/tenants/{id}", tag = "fleet", request_body = inline(Object),
    params(("id" = String, Path, description = "The tenant."),
        ("If-Match" = Option<String>, Header, description = "Change it only if this is its ETag.")),
    responses((status = 200, description = "The tenant as it is now.", body = TenantView,
        headers(("ETag" = String, description = "Changes whenever the settings do."))), Problems, BodyProblems))]
async fn set_tenant(
    State(app): Shared,
    _operator: Operator,
    At(id): At<String>,
    headers: HeaderMap,
    Body(fields): Body<Map<String, Value>>,
) -> Result<Response, Problem> {
    let _one_by_one = app.edits.lock().await;
    let asked = id.clone();
    let (known, tenant) = app
        .ask(move |view| {
            let known = tenant_view(view, &asked).transpose()?;
            Ok((known, tenant_of(view, Some(&asked), fields)?))
        })
        .await?;
    check_match(&headers, known.as_ref().map(|tenant| tenant.version.as_str()))?;
    acted(app.handle.apply(Input::SetTenant(Box::new(tenant))).await?)?;
    let tenant =
        app.ask(move |view| tenant_view(view, &id).unwrap_or_else(|| Err(Problem::unknown("tenant", &id))));
    let mut tenant = tenant.await?;
    tenant_beside_the_file(&app, &mut tenant);
    let shares =
        app.ask(|view| Ok(view.engine.state().tenants.values().map(|state| state.tenant.share).sum::<f64>()));
    let shares = shares.await?;
    let more = format!("the shares of the tenants add up to {shares:.2}, more than there is");
    tenant.warnings.extend((shares > 1.0 + 1e-9).then_some(more));
    Ok(tagged(&tenant.version, &tenant))
}

/// Deletes a tenant that has no jobs that wait or run, and no tokens.
#[utoipa::path(delete, path = "/tenants/{id}", tag = "fleet", params(("id" = String, Path, description = "The tenant.")),
    responses((status = 200, description = "It is gone.", body = Acted),
        (status = 409, description = "It has jobs or tokens, or the settings file names it.", body = ApiError), Problems))]
async fn delete_tenant(State(app): Shared, _operator: Operator, At(id): At<String>) -> Reply<Acted> {
    let _one_by_one = app.edits.lock().await;
    let tenant = TenantId::new(&id).map_err(|_| Problem::unknown("tenant", &id))?;
    let asked = id.clone();
    let known = app.ask(move |view| Ok(view.engine.state().tenants.contains_key(asked.as_str()))).await?;
    if !known {
        return Err(Problem::unknown("tenant", &id));
    }
    let is_named = app.config.tenants.iter().any(|named| named.id == tenant);
    unless_named("tenant", &id, is_named, app.config.tenants_from.as_ref())?;
    let tokens = app.tokens.all().into_iter().filter(|token| token.tenant.as_deref() == Some(id.as_str()));
    let tokens: Vec<String> = tokens.map(|token| token.id).collect();
    if let Some(first) = tokens.first() {
        let message = format!("tenant `{id}` has tokens: {}", tokens.join(", "));
        let hint = format!("revoke them first: `landfall token revoke {first}`");
        return Err(Problem::new(
            StatusCode::CONFLICT,
            ApiError::new("tenant_has_tokens", message).hint(hint),
        ));
    }
    acted(app.handle.apply(Input::DeleteTenant(tenant)).await?).map(Json)
}

/// What a tenant uses.
#[utoipa::path(get, path = "/tenants/{id}/usage", tag = "fleet", params(("id" = String, Path, description = "The tenant.")),
    responses((status = 200, description = "What it holds and has used.", body = TenantUsage), Problems))]
async fn usage(
    State(app): Shared,
    Submitter(principal): Submitter,
    At(id): At<String>,
) -> Reply<TenantUsage> {
    sees_tenant(&principal, &id)?;
    let answer = app.ask(move |view| usage_of(view, &id).ok_or_else(|| Problem::unknown("tenant", &id)));
    answer.await.map(Json)
}

fn usage_of(view: &View<'_>, id: &str) -> Option<TenantUsage> {
    let state = view.engine.state();
    let tenant = state.tenants.get(id)?;
    let (gpu_hours_used, node_hours_used) = tenant.spending.hours(view.now);
    let share = |pool: &PoolState| pool.world.tenants.get(id).map_or(0.0, |tenant| tenant.usage);
    let shares: BTreeMap<String, f64> =
        state.pools.iter().map(|(pool, state)| (pool.to_string(), share(state))).collect();
    Some(TenantUsage {
        id: id.to_owned(),
        nodes: tenant.units as f64 / MICRO as f64,
        gpus: tenant.gpus,
        cpu_milli: tenant.cpu_milli,
        jobs: tenant.jobs,
        gpu_hours_used,
        node_hours_used,
        gpu_hours_left: tenant.gpu_hours_left(view.now),
        spent: tenant.spent(view.now).as_f64(),
        budget: tenant.tenant.budget.money.map(Price::as_f64),
        shares,
    })
}

/// Lists blocks of leased capacity.
#[utoipa::path(get, path = "/blocks", tag = "fleet",
    responses((status = 200, description = "Blocks with their fields.", body = Vec<Value>), Problems))]
async fn blocks(State(app): Shared, _submitter: Submitter) -> Reply<Vec<Value>> {
    let all = app.ask(|view| {
        let pools = view.engine.state().pools.values();
        let blocks: BTreeMap<_, _> = pools.flat_map(|pool| &pool.world.blocks).collect();
        blocks.into_values().map(|block| json(&**block)).collect::<Result<_, _>>()
    });
    all.await.map(Json)
}

/// Adds a block or changes it.
#[utoipa::path(put, path = "/blocks/{id}", tag = "fleet", request_body = inline(Object),
    params(("id" = String, Path, description = "The block.")),
    responses((status = 200, description = "The block as it is now.", body = Value), Problems, BodyProblems))]
async fn set_block(
    State(app): Shared,
    _operator: Operator,
    At(id): At<String>,
    Body(mut fields): Body<Map<String, Value>>,
) -> Reply<Value> {
    if let Some(name) = fields.keys().find(|name| !BLOCK_FIELDS.contains(&name.as_str())) {
        let hint = match closest(name, BLOCK_FIELDS) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("a block has {}", BLOCK_FIELDS.join(", ")),
        };
        return Err(Problem::invalid(&format!("block.{name}"), format!("there is no field `{name}`"), &hint));
    }
    // As in a scenario: instants may say their unit, and an end may be a span from now.
    for name in ["start_at", "end_at", "drain_deadline"] {
        if let Some(value) = fields.remove(&format!("{name}_ms"))
            && fields.insert(name.to_owned(), value).is_some()
        {
            let message = format!("`{name}` and `{name}_ms` say the same");
            return Err(Problem::invalid(&format!("block.{name}"), message, "give one of the two"));
        }
    }
    if let Some(span) = fields.remove("ends_in_ms") {
        let span = span.as_u64().ok_or_else(|| {
            Problem::invalid("block.ends_in_ms", "it is no number of milliseconds", "such as 3600000")
        })?;
        let end = app.handle.now() + Millis::new(span);
        if fields.insert("end_at".to_owned(), json(&end)?).is_some() {
            let message = "an end and a span contradict each other";
            return Err(Problem::invalid("block.ends_in_ms", message, "give one of the two"));
        }
    }
    for (name, value) in [("provider", "sfcompute"), ("tier", "FAST"), ("status", "active")] {
        fields.entry(name).or_insert(Value::String(value.into()));
    }
    fields.entry("preemptible").or_insert(Value::Bool(false));
    fields.entry("cost_per_hour").or_insert(Value::from(0));
    let block: Block = typed(Some(&id), fields, "block")?;
    if let (Some(start), Some(end)) = (block.start_at, block.end_at)
        && end < start
    {
        let hint = "give an end after the start, or none";
        return Err(Problem::invalid("block.end_at", "the block ends before it starts", hint));
    }
    let shown = json(&block)?;
    acted(app.handle.apply(Input::SetBlock(Arc::new(block))).await?)?;
    Ok(Json(shown))
}

/// Adds finished runs from before, oldest first: what a pool of workers predicts memory and time from.
#[utoipa::path(post, path = "/pools/{id}/history", tag = "fleet", request_body = Vec<HistoryRow>,
    params(("id" = String, Path, description = "The pool.")),
    responses((status = 200, description = "Taken in.", body = Acted), Problems, BodyProblems))]
async fn add_history(
    State(app): Shared,
    _operator: Operator,
    At(id): At<String>,
    Body(rows): Body<Vec<HistoryRow>>,
) -> Reply<Acted> {
    let pool = PoolId::new(&id).map_err(|_| Problem::unknown("pool", &id))?;
    let named = pool.clone();
    let dispatch = app.ask(move |view| {
        let pool = view.engine.state().pool(&named).map(|state| state.pool.dispatch);
        pool.ok_or_else(|| Problem::unknown("pool", named.as_str()))
    });
    if dispatch.await? != Dispatch::Pull {
        let message = format!("pool `{id}` does not predict from a history: it is no pull pool");
        return Err(Problem::invalid(
            "id",
            message,
            "batch pools learn by `batch.learn`, from jobs that ran there",
        ));
    }
    acted(app.handle.apply(Input::AddHistory { pool, rows }).await?).map(Json)
}

/// A price of energy that can be true.
pub(crate) fn price(price: f64) -> Result<f64, Problem> {
    if price.is_finite() && price >= 0.0 {
        return Ok(price);
    }
    let hint = "1 and more is dear, 0 is free; leave it out if nobody knows";
    Err(Problem::invalid("price", "the price of energy is a number of 0 or more", hint))
}

/// The price of energy that policies reckon with.
#[utoipa::path(get, path = "/energy-price", tag = "fleet",
    responses((status = 200, description = "The price, if it is known.", body = EnergyPrice), Problems))]
async fn energy_price(State(app): Shared, _submitter: Submitter) -> Reply<EnergyPrice> {
    let price =
        app.ask(|view| Ok(view.engine.state().pools.values().find_map(|pool| pool.world.energy_price)));
    Ok(Json(EnergyPrice { price: price.await? }))
}

/// Says what energy costs from now on. Whoever knows says so again within the hour, or it is unknown.
#[utoipa::path(put, path = "/energy-price", tag = "fleet", request_body = EnergyPrice,
    responses((status = 200, description = "Taken in.", body = EnergyPrice), Problems, BodyProblems))]
async fn set_energy_price(
    State(app): Shared,
    _operator: Operator,
    Body(said): Body<EnergyPrice>,
) -> Reply<EnergyPrice> {
    let known = said.price.map(price).transpose()?;
    acted(app.handle.apply(Input::EnergyPrice(known)).await?)?;
    Ok(Json(said))
}
