//! What a job wrote, as a stream that can go on while it runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::Response;
use landfall_api::job::LogChunk;
use landfall_model::JobId;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::agents::{line, lines};
use super::app::{App, Shared};
use super::auth::Submitter;
use super::extract::{At, Params};
use super::problem::{Problem, Problems};

/// A follower looks at the job again after this time even if it hears nothing.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// A gang ends with its first failure; what its other members write until they are stopped comes a little later. An agent
/// sends all that a job wrote before it says that the job ended, so for one node there is nothing to wait for.
const LAST_WORDS: Duration = Duration::from_secs(2);

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(logs))
}

/// What to show of a log.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Shown {
    /// Go on until the job has ended.
    follow: bool,
    /// Begin with the last so many lines.
    #[param(maximum = 1000000)]
    tail: Option<u32>,
    /// `stdout` or `stderr`; both if left out.
    stream: Option<String>,
}

/// What a job wrote: lines of JSON in the order in which the pieces arrived.
#[utoipa::path(get, path = "/jobs/{id}/logs", tag = "jobs", params(("id" = String, Path, description = "The job."), Shown),
    responses((status = 200, description = "Lines of JSON.", body = LogChunk, content_type = "application/x-ndjson"),
        Problems))]
async fn logs(
    State(app): Shared,
    Submitter(principal): Submitter,
    At(id): At<String>,
    Params(shown): Params<Shown>,
) -> Result<Response, Problem> {
    if shown.stream.as_deref().is_some_and(|stream| !matches!(stream, "stdout" | "stderr")) {
        return Err(Problem::bad("`stream` is `stdout` or `stderr`", "leave it out for both"));
    }
    let job = app.job(&principal, &id).await?.id;
    let place = app.stream()?;
    let (sender, receiver) = mpsc::channel(16);
    tokio::spawn(async move {
        let _place = place;
        let mut position = 0;
        let mut tail = shown.tail;
        let mut ended: Option<(Instant, Duration)> = None;
        loop {
            let (logs, name, stream, first) =
                (app.logs.clone(), job.clone(), shown.stream.clone(), tail.take());
            let read = tokio::task::spawn_blocking(move || match first {
                Some(lines) => logs.tail(&name, lines as usize, stream.as_deref()),
                None => logs.read(&name, position, stream.as_deref()),
            });
            let Ok((chunks, behind)) = read.await else { break };
            let news = behind > position;
            position = behind;
            for chunk in &chunks {
                if sender.send(Ok(line(chunk))).await.is_err() {
                    return;
                }
            }
            if news {
                continue;
            }
            if !shown.follow || ended.is_some_and(|(at, words)| at.elapsed() >= words) {
                break;
            }
            if ended.is_none() {
                ended = last_words(&app, &job).await.map(|words| (Instant::now(), words));
            }
            let most = ended.map_or(LOOK_AGAIN, |(at, words)| words.saturating_sub(at.elapsed()));
            tokio::select! {
                () = app.shutdown.cancelled() => break,
                () = sender.closed() => break,
                () = app.logs.wait(&job, position, most) => {}
            }
        }
    });
    Ok(lines(ReceiverStream::new(receiver)))
}

/// How long something may still come, if the job has ended.
async fn last_words(app: &App, job: &str) -> Option<Duration> {
    let job = JobId::new(job).ok()?;
    let words = app.handle.read(move |view| {
        let state = view.engine.state();
        let lives = match state.job(&job) {
            Some(record) => !record.state.is_final(),
            None => state.folded_element(&job).is_some(),
        };
        if lives {
            return None;
        }
        let nodes = view.job(&job).map_or(0, |job| job.nodes.len());
        Some(if nodes > 1 { LAST_WORDS } else { Duration::ZERO })
    });
    words.await.unwrap_or(Some(Duration::ZERO))
}
