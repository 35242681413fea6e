//! What agents say and what they are told.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body as AxumBody, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use futures::Stream;
use landfall_api::agent::{
    Ask, Asked, Command, Fetches, LogPieces, LogsKept, Probed, ReportAnswers, Reports,
};
use landfall_api::answer::Acted;
use landfall_api::node::{Heard, Heartbeat, Registered, Registration};
use landfall_api::{ApiError, JOURNAL};
use landfall_engine::Input;
use landfall_model::{JobId, JobReport, NodeId};
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::{Agent, Principal};
use super::extract::{AtNode, Body, header_text};
use super::problem::{BodyProblems, Problem, Problems, Reply, acted};
use crate::driver::nodes::{Most, Registering};
use crate::logs::{LogError, Piece};

/// From one sign of life on a line to the next.
const PING_EVERY: Duration = Duration::from_secs(10);
const COMMANDS_AT_ONCE: usize = 256;
/// Kinds of media that streams of lines have.
pub(crate) const NDJSON: &str = "application/x-ndjson";

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(register))
        .routes(routes!(heartbeat))
        .routes(routes!(commands))
        .routes(routes!(reports))
        .routes(routes!(ask))
        .routes(routes!(fetches))
        .routes(routes!(logs))
        .routes(routes!(probe))
}

/// What an agent says for its node.
pub(crate) struct Said<T> {
    app: Arc<App>,
    node: NodeId,
    /// The journal that it is about, if it says so.
    journal: Option<String>,
    /// How large its token lets the node be.
    most: Most,
    said: T,
}

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Said<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let Agent(principal) = Agent::from_request_parts(&mut parts, app).await?;
        let AtNode(node) = AtNode::from_request_parts(&mut parts, app).await?;
        let journal = header_text(&parts.headers, JOURNAL).map(str::to_owned);
        let Body(said) = Body::from_request(Request::from_parts(parts, body), app).await?;
        principal.speaks_for(&node)?;
        Ok(Self { app: app.clone(), node, journal, most: principal.most, said })
    }
}

impl<T> Said<T> {
    /// What was said, if it is about the journal of this server.
    fn here(self) -> Result<(Arc<App>, NodeId, T), Problem> {
        self.app.check_journal(self.journal.as_deref())?;
        Ok((self.app, self.node, self.said))
    }
}

/// The header in which an agent names the journal that its memory belongs to, for the OpenAPI document.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "read by hand, written down here")]
struct OfJournal {
    /// The journal that the agent's memory belongs to, as the registration told it. With another one than the server's,
    /// nothing is done and the answer is 409 `other_journal`; a registration is taken, and its answer says which attempts go on.
    #[param(rename = "landfall-journal")]
    landfall_journal: Option<String>,
}

/// Registers a node, or tells everything about it anew.
#[utoipa::path(put, path = "/nodes/{id}/registration", tag = "agents", request_body = Registration,
    params(("id" = String, Path, description = "The node."), OfJournal),
    responses((status = 200, description = "What the node is told.", body = Registered), Problems, BodyProblems))]
async fn register(said: Said<Registration>) -> Reply<Registered> {
    let Said { app, node, journal, most, said: registration } = said;
    if registration.hollow && !app.config.allow_hollow {
        let error =
            ApiError::new("hollow_node", "this server takes no hollow nodes: nothing would run on them")
                .hint("start a server for trying with --allow-hollow and a data directory of its own");
        return Err(Problem::new(StatusCode::FORBIDDEN, error));
    }
    Ok(Json(app.handle.register(Registering { node, registration, journal, most }).await?))
}

/// Takes a heartbeat in. `stale` and `rejoin` are answers, not errors.
#[utoipa::path(post, path = "/nodes/{id}/heartbeat", tag = "agents", request_body = Heartbeat,
    params(("id" = String, Path, description = "The node."), OfJournal),
    responses((status = 200, description = "What became of it.", body = Heard), Problems, BodyProblems))]
pub(crate) async fn heartbeat(said: Said<Heartbeat>) -> Reply<Heard> {
    let most = said.most;
    let (app, node, heartbeat) = said.here()?;
    Ok(Json(app.handle.heartbeat(node, heartbeat, most).await?))
}

pub(crate) fn lines(pieces: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response {
    let body = AxumBody::from_stream(pieces);
    ([(header::CONTENT_TYPE, NDJSON), (header::CACHE_CONTROL, "no-store")], body).into_response()
}

pub(crate) fn line(value: &impl serde::Serialize) -> Bytes {
    let mut text = serde_json::to_vec(value).unwrap_or_default();
    text.push(b'\n');
    text.into()
}

/// Commands for a node, one line of JSON each, until the agent hangs up. A newer line of the same node ends this one.
#[utoipa::path(get, path = "/nodes/{id}/commands", tag = "agents", params(("id" = String, Path, description = "The node."), OfJournal),
    responses((status = 200, description = "Lines of JSON; a `ping` at least every 10 s.", body = Command,
        content_type = "application/x-ndjson"),
        (status = 409, description = "The agent's memory is of another journal.", body = ApiError), Problems))]
async fn commands(
    State(app): Shared,
    Agent(principal): Agent,
    AtNode(node): AtNode,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    principal.speaks_for(&node)?;
    app.check_journal(header_text(&headers, JOURNAL))?;
    let place = app.line()?;
    let commands = app.handle.connections().open(node);
    let line = Line { commands, beat: tokio::time::interval(PING_EVERY), _place: place, principal, app };
    let pieces = futures::stream::unfold(line, |mut line| async {
        let piece = line.next().await?;
        Some((Ok::<_, Infallible>(piece), line))
    });
    Ok(lines(pieces))
}

/// A line on which an agent is told things.
struct Line {
    app: Arc<App>,
    principal: Principal,
    commands: mpsc::Receiver<Command>,
    beat: tokio::time::Interval,
    _place: OwnedSemaphorePermit,
}

impl Line {
    /// What is to be sent next, all commands that wait in one piece; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        let mut commands = Vec::new();
        tokio::select! {
            () = self.app.shutdown.cancelled() => return None,
            count = self.commands.recv_many(&mut commands, COMMANDS_AT_ONCE) => {
                if count == 0 {
                    return None;
                }
            }
            _ = self.beat.tick() => {
                // Whose token was revoked hears no more.
                if !self.app.tokens.still_stands(&self.principal, self.app.handle.now()) {
                    return None;
                }
                commands.push(Command::Ping);
            }
        }
        let mut text = Vec::new();
        commands.iter().for_each(|command| text.extend_from_slice(&line(command)));
        Some(text.into())
    }
}

/// Takes reports in. The answer comes when they are stored.
#[utoipa::path(post, path = "/nodes/{id}/reports", tag = "agents", request_body = Reports,
    params(("id" = String, Path, description = "The node."), OfJournal),
    responses((status = 200, description = "What became of each.", body = ReportAnswers), Problems, BodyProblems))]
async fn reports(said: Said<Reports>) -> Reply<ReportAnswers> {
    let (app, node, reports) = said.here()?;
    Ok(Json(app.handle.reports(node, reports).await?))
}

/// Gives work to a worker of a pull pool.
#[utoipa::path(post, path = "/nodes/{id}/ask", tag = "agents", request_body = Ask,
    params(("id" = String, Path, description = "The node."), OfJournal),
    responses((status = 200, description = "What it gets.", body = Asked), Problems, BodyProblems))]
async fn ask(said: Said<Ask>) -> Reply<Asked> {
    let (app, node, ask) = said.here()?;
    if !(1..=1000).contains(&ask.slots) {
        return Err(Problem::invalid("slots", "a worker asks for 1 to 1000 jobs", "ask again for more"));
    }
    Ok(Json(app.handle.ask_for_work(node, ask).await?))
}

/// Takes in what a worker would have to fetch for jobs.
#[utoipa::path(post, path = "/nodes/{id}/fetches", tag = "agents", request_body = Fetches,
    params(("id" = String, Path, description = "The node."), OfJournal),
    responses((status = 200, description = "Taken in.", body = Acted), Problems, BodyProblems))]
async fn fetches(said: Said<Fetches>) -> Reply<Acted> {
    let (app, node, fetches) = said.here()?;
    let mut entries = Vec::with_capacity(fetches.entries.len());
    for (place, entry) in fetches.entries.iter().enumerate() {
        let field = |name: &str| format!("entries[{place}].{name}");
        let job = JobId::new(&entry.job)
            .map_err(|error| Problem::invalid(&field("job"), error.to_string(), "give the id of a job"))?;
        let report = entry
            .missing_inputs
            .map(|missing| JobReport { missing_inputs: Some(missing), missing_bytes: entry.missing_bytes });
        entries.push((job, report));
    }
    acted(app.handle.apply(Input::Fetches { node, entries }).await?).map(Json)
}

/// Says whether a node that was probed is well.
#[utoipa::path(post, path = "/nodes/{id}/probe", tag = "agents", request_body = Probed,
    params(("id" = String, Path, description = "The node."), OfJournal),
    responses((status = 200, description = "Taken in.", body = Acted), Problems, BodyProblems))]
async fn probe(said: Said<Probed>) -> Reply<Acted> {
    let (app, node, probed) = said.here()?;
    acted(app.handle.apply(Input::Probe { node, good: probed.good }).await?).map(Json)
}

/// Keeps what jobs wrote. A piece that was sent before is kept once; a gap is answered with 409 `log_gap`.
#[utoipa::path(post, path = "/nodes/{id}/logs", tag = "agents", request_body = LogPieces,
    params(("id" = String, Path, description = "The node."), OfJournal),
    responses((status = 200, description = "Kept.", body = LogsKept), Problems, BodyProblems))]
async fn logs(said: Said<LogPieces>) -> Reply<LogsKept> {
    let (app, node, pieces) = said.here()?;
    let mut decoded = Vec::with_capacity(pieces.pieces.len());
    for (place, piece) in pieces.pieces.into_iter().enumerate() {
        let bad = |field: &str, message: &str, hint: &str| {
            Problem::invalid(&format!("pieces[{place}].{field}"), message, hint)
        };
        if !matches!(piece.stream.as_str(), "stdout" | "stderr") {
            return Err(bad("stream", "a stream is `stdout` or `stderr`", "name one of them"));
        }
        let data = base64::engine::general_purpose::STANDARD.decode(&piece.data);
        let data = data.map_err(|_| bad("data", "the bytes are not base64", "encode them with padding"))?;
        decoded.push((piece.fence, piece.stream, piece.offset, data));
    }
    let fences: Vec<_> = decoded.iter().map(|(fence, ..)| fence.clone()).collect();
    let by = node.clone();
    let ran_here = app.handle.read(move |view| {
        let ran = |fence: &landfall_engine::Fence, view: &mut crate::driver::View<'_>| {
            if let Some(record) = view.engine.state().job(&fence.job)
                && !record.state.is_final()
            {
                let here = record.run.iter().flat_map(|run| &run.nodes).any(|at| at.node == by);
                // Of earlier attempts it is no longer known where they ran.
                return fence.attempt < record.attempt || (fence.attempt == record.attempt && here);
            }
            let ended = view.archived(fence.job.as_str());
            ended.is_some_and(|job| {
                let here = job.nodes.iter().any(|at| at.node == by.as_str());
                fence.attempt < job.attempt || (fence.attempt == job.attempt && here)
            })
        };
        fences.iter().map(|fence| ran(fence, view)).collect::<Vec<bool>>()
    });
    let ran_here = ran_here.await?;
    let logs = app.logs.clone();
    let node = node.to_string();
    let keep = tokio::task::spawn_blocking(move || {
        let mut next = Vec::with_capacity(decoded.len());
        for ((place, (fence, stream, offset, data)), ran) in decoded.into_iter().enumerate().zip(ran_here) {
            // Of what never ran here nothing is kept, and nothing has to be sent again.
            if !ran {
                next.push(offset.saturating_add(data.len() as u64));
                continue;
            }
            let piece = Piece {
                job: fence.job.as_str(),
                node: &node,
                attempt: fence.attempt,
                stream: &stream,
                offset,
            };
            next.push(logs.keep(&piece, &data).map_err(|error| (place, error))?);
        }
        Ok(next)
    });
    match keep.await {
        Ok(Ok(next)) => Ok(Json(LogsKept { next })),
        Ok(Err((place, error))) => Err(log_problem(place, &error)),
        Err(_) => Err(crate::driver::Failure::Closing.into()),
    }
}

fn log_problem(place: usize, error: &LogError) -> Problem {
    let message = error.to_string();
    match error {
        LogError::Gap { expected, .. } => {
            let error = ApiError::new("log_gap", message).hint(format!("send from offset {expected}"));
            Problem::new(StatusCode::CONFLICT, error.field(format!("pieces[{place}].offset")))
        }
        LogError::Io { .. } => {
            let error = ApiError::new("storage", message).hint("look at the disk of the server");
            Problem::new(StatusCode::INSUFFICIENT_STORAGE, error)
        }
    }
}
