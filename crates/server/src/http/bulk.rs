//! Many submissions in one request: a line of JSON each, answered in order while they come.
//!
//! Each line is a submission of its own. The lines of one request are handed over in their order and then under way at the same time, so
//! many of them share one write to the journal, and an answer is still given only for what is stored. A line that is wrong is answered with what is wrong and
//! stops none of the others.

use std::io;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use landfall_api::ApiError;
use landfall_api::job::{JobRequest, SubmittedLine};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Decoder, FramedRead, LinesCodec, LinesCodecError};
use tokio_util::io::StreamReader;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::agents::{NDJSON, line, lines};
use super::app::{App, Shared};
use super::auth::{Principal, Submitter};
use super::extract::parse;
use super::jobs::key;
use super::problem::{BodyProblems, Problem, Problems};

/// Submissions of one request that are under way at once.
const AT_ONCE: usize = 512;

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(submit_many))
}

/// Submits many jobs and arrays, one line of JSON each. Every line is answered, in order; those that are refused stop none of the others.
#[utoipa::path(post, path = "/jobs/stream", tag = "jobs",
    request_body(content = JobRequest, content_type = "application/x-ndjson"),
    params(("Idempotency-Key" = Option<String>, Header,
        description = "Makes the request safe to repeat: with the number of a line it is the key of that line.")),
    responses((status = 200, description = "Lines of JSON, as they are stored.", body = SubmittedLine,
        content_type = "application/x-ndjson"), Problems, BodyProblems))]
async fn submit_many(
    State(app): Shared,
    Submitter(principal): Submitter,
    request: Request,
) -> Result<Response, Problem> {
    let declared = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if declared.and_then(|kind| kind.split(';').next()).map(str::trim) != Some(NDJSON) {
        let error = ApiError::new("not_ndjson", "the body is not declared as lines of JSON");
        let error = error.hint("send the header `Content-Type: application/x-ndjson`");
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error));
    }
    let key = key(request.headers())?;
    let place = app.stream()?;
    let limit = app.config.body_limit;
    let bytes = request.into_body().into_data_stream().map_err(io::Error::other);
    let submissions =
        FramedRead::new(StreamReader::new(bytes), Lines(LinesCodec::new_with_max_length(limit)));
    // Whoever sends all before reading anything must not be stopped by answers that nobody reads.
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let _place = place;
        let (mut submissions, mut number, mut is_over) = (std::pin::pin!(submissions), 0, false);
        let mut under_way = FuturesOrdered::new();
        while !(is_over && under_way.is_empty()) {
            tokio::select! {
                text = submissions.next(), if !is_over && under_way.len() < AT_ONCE => match text {
                    Some(text) => {
                        number += 1;
                        under_way.push_back(begin(&app, &principal, number, text, key.as_deref()).await);
                    }
                    None => is_over = true,
                },
                Some(answer) = under_way.next() => {
                    if answer.is_some_and(|answer| sender.send(Ok(line(&answer))).is_err()) {
                        return;
                    }
                }
            }
        }
    });
    Ok(lines(UnboundedReceiverStream::new(receiver)))
}

/// Lines of a body. One that cannot be read is an item like the others: an error of the decoder would end all of it.
struct Lines(LinesCodec);

impl Decoder for Lines {
    type Item = Result<String, LinesCodecError>;
    type Error = io::Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> io::Result<Option<Self::Item>> {
        Ok(self.0.decode(bytes).transpose())
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> io::Result<Option<Self::Item>> {
        Ok(self.0.decode_eof(bytes).transpose())
    }
}

/// Hands one line over. What comes of it is told later; `None` if there is nothing in it.
async fn begin(
    app: &App,
    principal: &Principal,
    number: u64,
    text: io::Result<Result<String, LinesCodecError>>,
    key: Option<&str>,
) -> BoxFuture<'static, Option<SubmittedLine>> {
    let answer = move |submitted, error| Some(SubmittedLine { line: number, submitted, error });
    let known = |error: Problem| std::future::ready(answer(None, Some(*error.error))).boxed();
    let asked = match text {
        Ok(Ok(text)) if text.trim().is_empty() => return std::future::ready(None).boxed(),
        Ok(Ok(text)) => parse::<JobRequest>(text.as_bytes()),
        Ok(Err(LinesCodecError::MaxLineLengthExceeded)) => {
            let message = format!("the line has more than {} bytes", app.config.body_limit);
            Err(Problem::bad(message, "send one job per line"))
        }
        // Nothing is read here, so this is about what the bytes mean.
        Ok(Err(LinesCodecError::Io(_))) => Err(Problem::bad("the line is not UTF-8", "write JSON in UTF-8")),
        Err(error) => Err(Problem::bad(format!("the body broke off: {error}"), "send the rest of it again")),
    };
    let job = match asked {
        Ok(job) => job,
        Err(problem) => return known(problem),
    };
    let key = key.map(|key| format!("{key}:{number}"));
    let under_way = match app.handle.begin_submit(principal.caller(), job, key).await {
        Ok(under_way) => under_way,
        Err(failure) => return known(failure.into()),
    };
    let later = async move {
        match under_way.await {
            Ok(submitted) => answer(Some(submitted), None),
            Err(failure) => answer(None, Some(*Problem::from(failure).error)),
        }
    };
    later.boxed()
}
