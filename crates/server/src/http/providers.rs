//! Who sells blocks of capacity, and how.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use landfall_api::ApiError;
use landfall_api::answer::Acted;
use landfall_engine::Input;
use landfall_model::{Name, Provider};
use serde_json::{Map, Value};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::{Operator, Submitter};
use super::extract::{At, Body};
use super::fleet::unless_named;
use super::jobs::json;
use super::plan::typed;
use super::problem::{BodyProblems, Problem, Problems, Reply, acted};

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(providers)).routes(routes!(set_provider, delete_provider))
}

async fn known(app: &App) -> Result<BTreeMap<Name, Provider>, Problem> {
    let all = app.ask(|view| Ok(view.engine.state().providers().to_vec())).await?;
    Ok(all.into_iter().map(|provider| (provider.name.clone(), provider)).collect())
}

async fn set(app: &App, all: BTreeMap<Name, Provider>) -> Result<Acted, Problem> {
    acted(app.handle.apply(Input::SetProviders(all.into_values().collect())).await?)
}

/// Lists who sells blocks of capacity; empty while nobody was named.
#[utoipa::path(get, path = "/providers", tag = "fleet",
    responses((status = 200, description = "Providers with their fields.", body = Vec<Value>), Problems))]
async fn providers(State(app): Shared, _submitter: Submitter) -> Reply<Vec<Value>> {
    known(&app).await?.values().map(json).collect::<Result<_, _>>().map(Json)
}

/// Adds a provider or changes it; fields that are left out stay as they are.
#[utoipa::path(put, path = "/providers/{name}", tag = "fleet", request_body = inline(Object),
    params(("name" = String, Path, description = "The provider.")),
    responses((status = 200, description = "The provider as it is now.", body = Value), Problems, BodyProblems))]
async fn set_provider(
    State(app): Shared,
    _operator: Operator,
    At(name): At<String>,
    Body(fields): Body<Map<String, Value>>,
) -> Reply<Value> {
    let _one_by_one = app.edits.lock().await;
    let mut all = known(&app).await?;
    let mut whole = match all.get(name.as_str()).map(json).transpose()? {
        Some(Value::Object(known)) => known,
        _ => Map::new(),
    };
    for (field, value) in fields {
        match (whole.get_mut(&field), value) {
            (Some(Value::Object(known)), Value::Object(said)) => known.extend(said),
            (_, value) => drop(whole.insert(field, value)),
        }
    }
    if whole.insert("name".to_owned(), Value::from(&*name)).is_some_and(|said| said != *name) {
        let hint = "leave it out; the path names it";
        return Err(Problem::invalid("provider.name", "the path names another one", hint));
    }
    let provider: Provider = typed(None, whole, "provider")?;
    let shown = json(&provider)?;
    all.insert(provider.name.clone(), provider);
    set(&app, all).await?;
    Ok(Json(shown))
}

/// Forgets a provider.
#[utoipa::path(delete, path = "/providers/{name}", tag = "fleet",
    params(("name" = String, Path, description = "The provider.")),
    responses((status = 200, description = "It is gone.", body = Acted),
        (status = 409, description = "The settings file names it.", body = ApiError), Problems))]
async fn delete_provider(State(app): Shared, _operator: Operator, At(name): At<String>) -> Reply<Acted> {
    let _one_by_one = app.edits.lock().await;
    let mut all = known(&app).await?;
    if all.remove(name.as_str()).is_none() {
        return Err(Problem::unknown("provider", &name));
    }
    let is_named = app.config.providers.iter().any(|named| named.name.as_str() == name);
    unless_named("provider", &name, is_named, app.config.tenants_from.as_ref())?;
    set(&app, all).await.map(Json)
}
