//! Nodes as people see and steer them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use landfall_api::answer::Acted;
use landfall_api::node::{DrainRequest, NodeView};
use landfall_api::token::Role;
use landfall_api::{ApiError, Paged};
use landfall_engine::input::NodeOrder;
use landfall_engine::{Answer, Input};
use landfall_model::{Approval, NodeId, Time};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::{Operator, Principal, Submitter};
use super::extract::{AtNode, OptionalBody, Params};
use super::jobs::limit;
use super::problem::{BodyProblems, Problem, Problems, Reply, acted};
use crate::driver::View;

/// Characters of the reason for taking a node out of service.
const WHY_MAX: usize = 200;

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(one))
        .routes(routes!(drain))
        .routes(routes!(take_back))
        .routes(routes!(leave))
        .routes(routes!(approve))
        .routes(routes!(suspend))
}

/// Which nodes to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Listed {
    /// Only this pool.
    pool: Option<String>,
    /// Only this state.
    state: Option<String>,
    /// How many at most: 1 to 10000, 100 if left out.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<u32>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// Hides which jobs of others run on a node.
pub(crate) fn without_foreign_jobs(view: &View<'_>, principal: &Principal, mut node: NodeView) -> NodeView {
    if principal.sees_all() {
        return node;
    }
    let own = |id: &String| {
        let record = view.engine.state().jobs.get(id.as_str());
        let tenant = record.and_then(|record| record.job.spec.tenant.as_ref());
        principal.sees(tenant.map(landfall_model::TenantId::as_str))
    };
    node.jobs.retain(own);
    for gpu in &mut node.gpus {
        gpu.holder = gpu.holder.take().filter(own);
    }
    node
}

/// Lists nodes by id.
#[utoipa::path(get, path = "/nodes", tag = "nodes", params(Listed),
    responses((status = 200, description = "One page.", body = Paged<NodeView>), Problems))]
async fn list(
    State(app): Shared,
    Submitter(principal): Submitter,
    Params(listed): Params<Listed>,
) -> Reply<Paged<NodeView>> {
    let limit = limit(listed.limit, 10_000)?;
    let page = app.handle.read(move |view| {
        let state = view.engine.state();
        let after = listed.cursor.as_deref();
        let ids = state.places.iter().filter(|(id, (pool, _))| {
            after.is_none_or(|after| id.as_str() > after)
                && listed.pool.as_deref().is_none_or(|wanted| wanted == pool.as_str())
        });
        let views = ids
            .filter_map(|(id, _)| view.node(id))
            .filter(|node| listed.state.as_deref().is_none_or(|wanted| wanted == node.state));
        let mut items: Vec<NodeView> = views.take(limit + 1).collect();
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(|node| node.id.clone());
        let items = items.into_iter().map(|node| without_foreign_jobs(view, &principal, node)).collect();
        Paged { items, next }
    });
    Ok(Json(page.await?))
}

/// Shows a node. An agent may look at its own.
#[utoipa::path(get, path = "/nodes/{id}", tag = "nodes", params(("id" = String, Path, description = "The node.")),
    responses((status = 200, description = "The node.", body = NodeView), Problems))]
async fn one(State(app): Shared, principal: Principal, AtNode(id): AtNode) -> Reply<NodeView> {
    if principal.role == Role::Agent {
        principal.speaks_for(&id)?;
    }
    let answer = app.ask(move |view| {
        let node = view.node(&id).ok_or_else(|| Problem::unknown("node", id.as_str()))?;
        Ok(without_foreign_jobs(view, &principal, node))
    });
    answer.await.map(Json)
}

async fn order(app: &App, node: NodeId, order: NodeOrder) -> Reply<Acted> {
    acted(app.handle.apply(Input::Order { node, order }).await?).map(Json)
}

/// Lets a node finish what it has and take nothing new, now or from an instant on; says why.
#[utoipa::path(post, path = "/nodes/{id}/drain", tag = "nodes", request_body = Option<DrainRequest>,
    params(("id" = String, Path, description = "The node.")),
    responses((status = 200, description = "Done, or ignored for the reason given.", body = Acted),
        Problems, BodyProblems))]
async fn drain(
    State(app): Shared,
    Operator(operator): Operator,
    AtNode(id): AtNode,
    OptionalBody(asked): OptionalBody<DrainRequest>,
) -> Reply<Acted> {
    if asked
        .why
        .as_ref()
        .is_some_and(|why| why.chars().count() > WHY_MAX || why.chars().any(char::is_control))
    {
        let message = format!("a reason has up to {WHY_MAX} printable characters");
        return Err(Problem::invalid("why", message, "say it shorter"));
    }
    tracing::info!(by = %operator.name, node = %id, why = asked.why, at_ms = asked.at_ms, "a node is drained");
    if let Some(at) = asked.at_ms {
        let at = Some(Time::from_millis(i64::try_from(at).unwrap_or(i64::MAX)));
        return acted(app.handle.apply(Input::Maintain { node: id, at, why: asked.why }).await?).map(Json);
    }
    let order = Input::Order { node: id.clone(), order: NodeOrder::Drain };
    let note = asked.why.map(|why| Input::Maintain { node: id, at: None, why: Some(why) });
    let answers = app.handle.apply_all([order].into_iter().chain(note).collect(), Vec::new()).await?;
    // With a reason something changed, also where the node drains already.
    let ignored = answers.iter().all(|answer| matches!(answer, Answer::Ignored(_)));
    let told = answers.into_iter().find(|answer| matches!(answer, Answer::Ignored(_)) == ignored);
    acted(told.unwrap_or(Answer::Done)).map(Json)
}

/// Takes a node out, unless its agent is there: that would register it again in a moment.
async fn take_out(app: &App, node: NodeId, leave: NodeOrder) -> Reply<Acted> {
    if app.handle.connections().is_open(&node) {
        let message = format!("the agent of node `{node}` is connected and would bring it straight back");
        let hint = "stop the agent first, or drain the node; to keep an agent out for good, revoke its token";
        return Err(Problem::new(StatusCode::CONFLICT, ApiError::new("agent_connected", message).hint(hint)));
    }
    order(app, node, leave).await
}

/// Lets people decide whether a node takes part.
async fn set_approval(app: &App, id: NodeId, approval: Approval) -> Reply<Acted> {
    let _one_by_one = app.edits.lock().await;
    let found = app.ask(move |view| {
        let state = view.engine.state();
        let place = state.places.get(&id).map(|(pool, _)| pool.clone());
        let node = state.node(&id).map(|(node, _)| node.clone());
        match (place, node) {
            (Some(pool), Some(node)) => Ok((pool, node)),
            _ => Err(Problem::unknown("node", id.as_str())),
        }
    });
    let (pool, mut node) = found.await?;
    if node.approval == approval {
        return Ok(Json(Acted { ignored: Some("so already".into()) }));
    }
    node.approval = approval;
    acted(app.handle.apply(Input::Join { pool, node: Box::new(node), running: None }).await?).map(Json)
}

macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident, $path:literal, $how:ident, $what:expr;)*) => {$(
        $(#[$doc])*
        #[utoipa::path(post, path = $path, tag = "nodes", params(("id" = String, Path, description = "The node.")),
            responses((status = 200, description = "Done, or ignored for the reason given.", body = Acted),
                Problems, BodyProblems))]
        async fn $name(
            State(app): Shared,
            Operator(operator): Operator,
            AtNode(id): AtNode,
        ) -> Reply<Acted> {
            tracing::info!(by = %operator.name, node = %id, order = stringify!($name), "a node is steered");
            $how(&app, id, $what).await
        }
    )*};
}

orders! {
    /// Lets a node take work again.
    take_back, "/nodes/{id}/return", order, NodeOrder::Return;
    /// Takes a node out for good, once its agent is gone.
    leave, "/nodes/{id}/leave", take_out, NodeOrder::Leave;
    /// Lets a node take part.
    approve, "/nodes/{id}/approve", set_approval, Approval::Approved;
    /// Keeps a node from taking part.
    suspend, "/nodes/{id}/suspend", set_approval, Approval::Suspended;
}
