//! What all pools together may draw and move.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use landfall_api::fleet::CapsView;
use landfall_engine::Input;
use landfall_engine::state::PoolState;
use landfall_model::{Caps, Time};
use serde_json::{Map, Value};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::{Operator, Submitter};
use super::extract::Body;
use super::plan::typed;
use super::problem::{BodyProblems, Problems, Reply, acted};
use crate::driver::View;

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(caps, set_caps))
}

fn shown(view: &View<'_>) -> CapsView {
    let state = view.engine.state();
    let sum = |of: fn(&PoolState, Time) -> u64| state.pools.values().map(|pool| of(pool, view.now)).sum();
    let (drawn_w, moved_bytes_s) = (sum(PoolState::power_drawn), sum(PoolState::io_moved));
    let Caps { power_w, io_bytes_s } = state.caps;
    CapsView { power_w, io_bytes_s, drawn_w, moved_bytes_s }
}

/// What all pools together may draw and move, and what they do.
#[utoipa::path(get, path = "/caps", tag = "fleet",
    responses((status = 200, description = "The caps, and what is drawn and moved now.", body = CapsView), Problems))]
async fn caps(State(app): Shared, _submitter: Submitter) -> Reply<CapsView> {
    app.ask(|view| Ok(shown(view))).await.map(Json)
}

/// Sets what all pools together may draw and move; what is left out stays as it is, `null` takes a cap away.
#[utoipa::path(put, path = "/caps", tag = "fleet", request_body = inline(Object),
    responses((status = 200, description = "The caps as they are now.", body = CapsView), Problems, BodyProblems))]
async fn set_caps(
    State(app): Shared,
    _operator: Operator,
    Body(said): Body<Map<String, Value>>,
) -> Reply<CapsView> {
    let _one_by_one = app.edits.lock().await;
    let before = app.ask(|view| Ok(view.engine.state().caps)).await?;
    let mut whole = Map::from_iter([
        ("power_w".to_owned(), before.power_w.into()),
        ("io_bytes_s".to_owned(), before.io_bytes_s.into()),
    ]);
    whole.extend(said);
    acted(app.handle.apply(Input::SetCaps(typed(None, whole, "caps")?)).await?)?;
    app.ask(|view| Ok(shown(view))).await.map(Json)
}
