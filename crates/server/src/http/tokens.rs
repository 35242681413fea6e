//! Tokens: make, list, revoke.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use landfall_api::answer::Acted;
use landfall_api::token::{NewToken, Role, TokenRequest, TokenView};
use landfall_store::{Change, Table};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::{Admin, StoredToken, make};
use super::extract::{At, Body};
use super::problem::{BodyProblems, Problem, Problems, Reply};
use crate::driver::Failure;

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(revoke))
}

/// Stores a token and lets it work from now on.
pub(crate) async fn store(app: &App, token: StoredToken) -> Result<(), Failure> {
    let bytes = serde_json::to_vec(&token).map_err(|error| Failure::Storage(error.to_string()))?;
    let change = Change::put(Table::Tokens, token.view.id.clone(), bytes);
    app.handle.apply_all(Vec::new(), vec![change]).await?;
    app.tokens.insert(token);
    Ok(())
}

/// Lists tokens, never their secrets.
#[utoipa::path(get, path = "/tokens", tag = "tokens",
    responses((status = 200, description = "All tokens.", body = Vec<TokenView>), Problems))]
async fn list(State(app): Shared, _admin: Admin) -> Json<Vec<TokenView>> {
    Json(app.tokens.all())
}

/// Makes a token. Its secret is shown this once.
#[utoipa::path(post, path = "/tokens", tag = "tokens", request_body = TokenRequest,
    responses((status = 201, description = "The token with its secret.", body = NewToken), Problems, BodyProblems))]
async fn create(
    State(app): Shared,
    _admin: Admin,
    Body(request): Body<TokenRequest>,
) -> Result<(StatusCode, Json<NewToken>), Problem> {
    let name = request.name.chars().count();
    if !(1..=64).contains(&name) || request.name.chars().any(char::is_control) {
        return Err(Problem::invalid("name", "a name has 1 to 64 printable characters", "choose another"));
    }
    match request.role {
        Role::Submitter if request.tenant.is_none() => {
            return Err(Problem::invalid("tenant", "a submitter belongs to a tenant", "name one"));
        }
        Role::Agent if request.node.is_none() => {
            let hint = "name its node, or `*` for any node";
            return Err(Problem::invalid("node", "an agent speaks for a node", hint));
        }
        _ => {}
    }
    if request.role != Role::Submitter && request.tenant.is_some() {
        return Err(Problem::invalid("tenant", "only submitters belong to a tenant", "leave it out"));
    }
    if request.role != Role::Agent && request.node.is_some() {
        return Err(Problem::invalid("node", "only agents speak for a node", "leave it out"));
    }
    for (field, most) in [("max_cpu_milli", request.max_cpu_milli), ("max_ram_mib", request.max_ram_mib)] {
        if most.is_some() && request.role != Role::Agent {
            return Err(Problem::invalid(field, "only the node of an agent has a size", "leave it out"));
        }
        if most == Some(0) {
            return Err(Problem::invalid(field, "a node without any would run nothing", "give more than 0"));
        }
    }
    let bad = |field: &str, error: landfall_model::IdError| {
        Problem::invalid(field, error.to_string(), "choose another")
    };
    request.tenant.as_deref().map(landfall_model::TenantId::new).transpose().map_err(|e| bad("tenant", e))?;
    request.node.as_deref().map(landfall_model::NodeId::new).transpose().map_err(|e| bad("node", e))?;
    if let Some(tenant) = request.tenant.clone() {
        let unknown = app.ask(move |view| Ok(view.no_such_tenant(&tenant))).await?;
        if let Some(hint) = unknown {
            let message = format!("there is no tenant `{}`", request.tenant.as_deref().unwrap_or_default());
            return Err(Problem::invalid("tenant", message, &hint));
        }
    }
    let now = app.handle.now();
    if request.expires_at_ms.is_some_and(|at| i64::try_from(at).unwrap_or(i64::MAX) <= now.as_millis()) {
        return Err(Problem::invalid("expires_at_ms", "that instant is over", "give a later one"));
    }
    let (stored, new) = make(request, now)?;
    store(&app, stored).await?;
    Ok((StatusCode::CREATED, Json(new)))
}

/// Revokes a token at once.
#[utoipa::path(delete, path = "/tokens/{id}", tag = "tokens", params(("id" = String, Path, description = "The token's id.")),
    responses((status = 200, description = "It no longer works.", body = Acted),
        (status = 409, description = "It is the token that asks.", body = landfall_api::ApiError), Problems))]
async fn revoke(State(app): Shared, Admin(principal): Admin, At(id): At<String>) -> Reply<Acted> {
    if app.tokens.get(&id).is_none() {
        return Err(Problem::unknown("token", &id));
    }
    if principal.token == id {
        let error = landfall_api::ApiError::new("own_token", "a token cannot revoke itself");
        return Err(Problem::new(StatusCode::CONFLICT, error.hint("use another admin's token")));
    }
    app.handle.apply_all(Vec::new(), vec![Change::delete(Table::Tokens, id.clone())]).await?;
    app.tokens.remove(&id);
    Ok(Json(Acted::default()))
}
