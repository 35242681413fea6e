//! What somebody means by a word: a job, an array or a node.

use axum::Json;
use axum::extract::State;
use landfall_api::board::FoundView;
use landfall_model::NodeId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::app::{Shared, visible_job};
use super::super::auth::Submitter;
use super::super::extract::Params;
use super::super::problem::{Problems, Reply};

/// What to find.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// An id.
    id: String,
}

/// Says what an id is the id of. That there is nothing is an answer, not an error.
#[utoipa::path(get, path = "/find", tag = "board", params(Wanted),
    responses((status = 200, description = "What it is, if anything.", body = FoundView), Problems))]
pub(crate) async fn find(
    State(app): Shared,
    Submitter(principal): Submitter,
    Params(wanted): Params<Wanted>,
) -> Reply<FoundView> {
    let answer = app.ask(move |view| {
        let array = view.array(&wanted.id).filter(|array| principal.sees(array.tenant.as_deref()));
        let kind = if array.is_some() {
            Some("array")
        } else if visible_job(view, &principal, &wanted.id).is_ok() {
            Some("job")
        } else {
            NodeId::new(&wanted.id).ok().and_then(|node| view.node(&node)).map(|_| "node")
        };
        Ok(FoundView { id: wanted.id, kind: kind.map(str::to_owned) })
    });
    answer.await.map(Json)
}
