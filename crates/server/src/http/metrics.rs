//! Counters.

use std::sync::Arc;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use super::app::App;
use super::problem::Problem;

/// Counters.
#[derive(Debug)]
pub(crate) struct Metrics {}

impl Metrics {
    pub(crate) fn new() -> Self { Self {} }
}

pub(crate) async fn measure(State(_app): State<Arc<App>>, request: Request, next: Next) -> Response {
    next.run(request).await
}

pub(crate) async fn page(_app: &App) -> Result<String, Problem> { Ok("# EOF\n".into()) }
