//! What people should look at.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use landfall_api::Paged;
use landfall_api::alarm::AlarmView;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::Operator;
use super::extract::At;
use super::problem::{Problem, Problems, Reply};

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(acknowledge))
}

/// Lists what people should look at, oldest first. An alarm is listed until what it is about is over.
#[utoipa::path(get, path = "/alarms", tag = "fleet",
    responses((status = 200, description = "All of them.", body = Paged<AlarmView>), Problems))]
async fn list(State(app): Shared, _operator: Operator) -> Reply<Paged<AlarmView>> {
    let items = app.handle.read(|view| view.alarms.to_vec()).await?;
    Ok(Json(Paged { items, next: None }))
}

/// Says that somebody has seen an alarm. It stays in the list; if it comes again, it wants to be seen again.
#[utoipa::path(post, path = "/alarms/{id}/acknowledge", tag = "fleet",
    params(("id" = String, Path, description = "The number of the alarm.")),
    responses((status = 200, description = "The alarm.", body = AlarmView), Problems))]
async fn acknowledge(
    State(app): Shared,
    Operator(principal): Operator,
    At(id): At<String>,
) -> Reply<AlarmView> {
    let number = id.parse().map_err(|_| Problem::unknown("alarm", &id))?;
    Ok(Json(app.handle.acknowledge(number, principal.name).await?))
}
