//! The HTTP layer: requests in, answers out. It decides nothing; the engine answers.
//!
//! Every handler says by its extractors who may use it (`auth`), takes its body and parameters through `extract`, asks the
//! driver, and answers in the types of `landfall-api`. Whatever goes wrong leaves as one shape (`problem`). The OpenAPI
//! document is made from the handlers.

mod agents;
mod alarms;
pub(crate) mod app;
pub(crate) mod auth;
mod board;
mod bulk;
mod capacity;
mod caps;
mod dags;
mod energy;
mod extract;
mod fleet;
mod follow;
mod history;
mod jobs;
mod look;
pub(crate) mod metrics;
mod nodes;
mod openapi;
mod page;
mod peers;
pub(crate) mod placement_metrics;
mod plan;
mod policies;
mod problem;
mod providers;
#[cfg(test)]
mod reference;
mod replays;
mod sessions;
mod status;
pub(crate) mod tokens;
mod usage;
mod workloads;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;

use app::App;
pub(crate) use peers::facts as peer_facts;
use problem::{after_panic, no_method, no_route};

/// Everything that is answered.
pub(crate) fn router(app: Arc<App>) -> Router {
    // The document takes longer to make than all the rest of a start; who starts several servers makes it once.
    static MADE: OnceLock<Router<Arc<App>>> = OnceLock::new();
    let routes = MADE.get_or_init(|| {
        let (routes, document) = documented();
        let document: Arc<str> = document.to_json().unwrap_or_default().into();
        let openapi = get(move || async move { openapi::serve(&document) });
        routes
            .route("/openapi.json", openapi)
            .merge(short_paths())
            .merge(board::routes().split_for_parts().0)
            .merge(page::routes())
            .fallback(no_route)
            .method_not_allowed_fallback(no_method)
    });
    routes
        .clone()
        .layer(CatchPanicLayer::custom(after_panic))
        .layer(middleware::from_fn_with_state(app.clone(), metrics::measure))
        .with_state(app)
}

/// The routes of the API, and the document made from them.
fn documented() -> (Router<Arc<App>>, utoipa::openapi::OpenApi) {
    let api = OpenApiRouter::new()
        .merge(jobs::routes())
        .merge(dags::routes())
        .merge(bulk::routes())
        .merge(nodes::routes())
        .merge(agents::routes())
        .merge(tokens::routes())
        .merge(follow::routes())
        .merge(plan::routes())
        .merge(fleet::routes())
        .merge(providers::routes())
        .merge(alarms::routes())
        .merge(usage::routes())
        .merge(capacity::routes())
        .merge(caps::routes())
        .merge(peers::routes())
        .merge(policies::routes())
        .merge(workloads::routes())
        .merge(history::routes())
        .merge(board::routes())
        .merge(look::routes())
        .merge(sessions::routes())
        .merge(replays::routes())
        .merge(status::routes());
    let (routes, mut document) = OpenApiRouter::with_openapi(openapi::Document::openapi())
        .merge(status::root_routes())
        .nest(landfall_api::API, api)
        .split_for_parts();
    openapi::name_operations(&mut document);
    (routes, document)
}

/// Paths that are documented without the version of the API.
fn short_paths() -> Router<Arc<App>> {
    Router::new()
        .route("/capacity_snapshot", get(capacity::snapshot))
        .route("/reserve", post(capacity::reserve))
        .route("/release", post(capacity::release))
        .route("/place", post(capacity::place))
        .route("/nodes/{id}/heartbeat", post(agents::heartbeat))
        .route("/nodes/{id}/workloads", get(workloads::of_node))
        .route("/workloads/{id}/availability", get(workloads::availability))
}

/// What goes on beside requests: old logs go, followers of logs hear that jobs ended.
pub(crate) fn chores(app: Arc<App>) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let mut happened = app.handle.listen();
        if app.config.board {
            look::remember(&app).await;
        }
        let mut cleaning = tokio::time::interval(Duration::from_secs(3600));
        let mut prices = tokio::time::interval(energy::EVERY);
        let mut telling = tokio::time::interval(look::TOLD_EVERY);
        telling.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut sampling = tokio::time::interval(look::SAMPLED_EVERY);
        loop {
            tokio::select! {
                () = app.shutdown.cancelled() => return,
                batch = happened.recv() => match batch {
                    Ok(batch) => {
                        count(&app, &batch).await;
                        app.looks.note(&batch);
                        for happened in batch.iter() {
                            if let landfall_engine::Event::Ended { job, .. } = &happened.event {
                                app.logs.wake(job.as_str());
                            }
                        }
                    }
                    Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => app.looks.missed(),
                    Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
                },
                _ = telling.tick() => look::tell(&app).await,
                _ = sampling.tick(), if app.config.board => {
                    tokio::spawn(look::sample(app.clone()));
                }
                _ = cleaning.tick() => clean_logs(&app).await,
                _ = prices.tick(), if app.config.energy_price_file.is_some() => {
                    tokio::spawn(energy::read(app.clone()));
                }
            }
        }
    })
}

async fn clean_logs(app: &Arc<App>) {
    let Ok(listing) = app.listing().await else { return };
    let Some(past) = app.handle.clock().surely_past() else { return };
    let past = Duration::from_millis(u64::try_from(past.as_millis()).unwrap_or(0));
    let since = UNIX_EPOCH + past.saturating_sub(app.config.retention);
    let logs = app.logs.clone();
    let lives = move |job: &str| listing.row(job).is_some_and(|row| !row.state.is_final());
    let cleaned = tokio::task::spawn_blocking(move || logs.clean(since, lives)).await;
    if let Ok(gone @ 1..) = cleaned {
        tracing::info!(jobs = gone, "old logs deleted");
    }
}

/// Counts what happened, by pool.
async fn count(app: &Arc<App>, batch: &Arc<[crate::driver::Happened]>) {
    let (asked, metrics) = (batch.clone(), app.metrics.clone());
    // A server that is going down counts no more.
    let _ = app
        .handle
        .read(move |view| {
            let state = view.engine.state();
            let pool_of = |job: &landfall_model::JobId| {
                state.job(job).map_or_else(String::new, |record| record.pool.to_string())
            };
            metrics.follow(&asked, &pool_of);
        })
        .await;
}
