//! Policies that come with the server, those that pools have of their own, and the rules they are made of.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use landfall_api::fleet::{PolicyView, RuleView, TermView};
use landfall_policy::spec::{PolicySpec, TermUse, Weight};
use landfall_policy::{builtin, catalogue, policy_file};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::{Principal, Submitter};
use super::extract::At;
use super::problem::{Problem, Problems, Reply};
use super::status::word;

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(one))
        .routes(routes!(of_pool))
        .routes(routes!(terms))
}

async fn policy(app: &App, name: &'static str, with_text: bool) -> Result<PolicyView, Problem> {
    let pools = app.handle.read(move |view| {
        let pools = view.engine.state().pools.values();
        let using = pools.filter(|pool| pool.policy.is_none() && pool.pool.policy_name() == name);
        using.map(|pool| pool.pool.id.to_string()).collect()
    });
    let spec = builtin::spec(name).and_then(Result::ok);
    Ok(PolicyView {
        name: name.to_owned(),
        description: spec.as_ref().map(|spec| spec.description.clone()).unwrap_or_default(),
        text: builtin::text(name).filter(|_| with_text).map(str::to_owned),
        pools: pools.await?,
        rules: spec.as_ref().filter(|_| with_text).map(rules).unwrap_or_default(),
    })
}

/// What a policy is made of, with what the catalogue says about each.
fn rules(spec: &PolicySpec) -> Vec<RuleView> {
    let filters = spec.filters.iter().map(|used| RuleView {
        name: used.name.clone(),
        description: catalogue::filter(&used.name).map_or("", |info| info.description).to_owned(),
        class: "filter".to_owned(),
        weight: None,
        min: None,
        max: None,
        enabled: true,
    });
    let terms = spec.terms.iter().map(|used| (used, None));
    let terms = terms.chain(spec.multipliers.iter().map(|used| (used, Some("multiplier"))));
    filters.chain(terms.map(|(used, class)| term_rule(spec, used, class))).collect()
}

fn term_rule(spec: &PolicySpec, used: &TermUse, class: Option<&str>) -> RuleView {
    let info = catalogue::term(&used.name);
    let number = |weight: f64| format!("{weight}");
    let mut weight = match &used.weight {
        Weight::Number(weight) => number(*weight),
        Weight::Param(name) => match spec.params.get(name) {
            Some(value) => value.to_string(),
            None => name.clone(),
        },
    };
    let others =
        used.weight_by_runtime.iter().map(|(runtime, weight)| format!(", {} for {runtime}", number(*weight)));
    weight.extend(others);
    RuleView {
        name: used.name.clone(),
        description: info.map_or("", |info| info.description).to_owned(),
        class: class.map_or_else(|| info.map(|info| word(&info.class)).unwrap_or_default(), str::to_owned),
        weight: Some(weight),
        min: info.map(|info| info.range.0),
        max: info.and_then(|info| info.range.1),
        enabled: used.enabled,
    }
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

/// Shows the policy that is in force in a pool, its own or one that comes with the server.
#[utoipa::path(get, path = "/pools/{id}/policy", tag = "policies", params(("id" = String, Path, description = "The pool.")),
    responses((status = 200, description = "The policy.", body = PolicyView), Problems))]
async fn of_pool(State(app): Shared, _submitter: Submitter, At(id): At<String>) -> Reply<PolicyView> {
    let asked = id.clone();
    let known = app.handle.read(move |view| {
        let (pool, state) = view.engine.state().pools.get_key_value(asked.as_str())?;
        let (in_force, _) = view.engine.policy_in_force(pool)?;
        Some((state.policy.clone(), in_force.to_owned()))
    });
    let (own, in_force) = known.await?.ok_or_else(|| Problem::unknown("pool", &id))?;
    // A text of its own that could not be read is not in force.
    if let Some(spec) =
        own.as_deref().and_then(|text| policy_file::parse(text).ok()).filter(|it| it.name == in_force)
    {
        let (rules, text) = (rules(&spec), own.as_deref().map(str::to_owned));
        let PolicySpec { name, description, .. } = spec;
        return Ok(Json(PolicyView { name, description, text, pools: vec![id], rules }));
    }
    let known = builtin::ALL.iter().find(|(known, _)| *known == in_force);
    let Some((name, _)) = known else { return Err(Problem::unknown("policy", &in_force)) };
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
