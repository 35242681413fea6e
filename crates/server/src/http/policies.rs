//! Policies that come with the server, and the terms they are made of.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use landfall_api::fleet::{PolicyView, TermView};
use landfall_policy::{builtin, catalogue};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::Principal;
use super::extract::At;
use super::problem::{Problem, Problems, Reply};
use super::status::word;

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(one)).routes(routes!(terms))
}

async fn policy(app: &App, name: &'static str, with_text: bool) -> Result<PolicyView, Problem> {
    let pools = app.handle.read(move |view| {
        let pools = view.engine.state().pools.values();
        let using = pools.filter(|pool| pool.policy.is_none() && pool.pool.policy_name() == name);
        using.map(|pool| pool.pool.id.to_string()).collect()
    });
    let description = builtin::spec(name).and_then(Result::ok).map(|spec| spec.description);
    Ok(PolicyView {
        name: name.to_owned(),
        description: description.unwrap_or_default(),
        text: builtin::text(name).filter(|_| with_text).map(str::to_owned),
        pools: pools.await?,
    })
}

/// Lists the policies that come with the server.
#[utoipa::path(get, path = "/policies", tag = "policies",
    responses((status = 200, description = "Policies without their text.", body = Vec<PolicyView>), Problems))]
async fn list(State(app): Shared, _anyone: Principal) -> Reply<Vec<PolicyView>> {
    let mut all = Vec::with_capacity(builtin::ALL.len());
    for (name, _) in builtin::ALL {
        all.push(policy(&app, name, false).await?);
    }
    Ok(Json(all))
}

/// Shows a policy with its text.
#[utoipa::path(get, path = "/policies/{name}", tag = "policies", params(("name" = String, Path, description = "The policy.")),
    responses((status = 200, description = "The policy.", body = PolicyView), Problems))]
async fn one(State(app): Shared, _anyone: Principal, At(name): At<String>) -> Reply<PolicyView> {
    let known = builtin::ALL.iter().find(|(known, _)| *known == name);
    let Some((name, _)) = known else { return Err(Problem::unknown("policy", &name)) };
    policy(&app, name, true).await.map(Json)
}

/// Lists the terms that policies are made of.
#[utoipa::path(get, path = "/terms", tag = "policies",
    responses((status = 200, description = "The catalogue.", body = Vec<TermView>), Problems))]
async fn terms(_anyone: Principal) -> Json<Vec<TermView>> {
    let view = |info: &landfall_policy::term::TermInfo| TermView {
        name: info.name.to_owned(),
        description: info.description.to_owned(),
        class: word(&info.class),
        min: info.range.0,
        max: info.range.1,
    };
    Json(catalogue::terms().map(view).collect())
}
