//! What happened: decisions with their breakdown, and the stream of events.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use landfall_api::Paged;
use landfall_api::answer::{DecisionView, EventView, Granted};
use landfall_engine::Event;
use landfall_engine::event::Commit;
use landfall_engine::notes::Undecided;
use landfall_model::life::Beside;
use landfall_model::{JobId, Time};
use landfall_store::{Reader, StoreError, Stored};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::{Principal, Submitter, forbidden};
use super::extract::{Params, header_text};
use super::jobs::limit;
use super::problem::{Problem, Problems, Reply};
use super::status::word;

/// Events read at once.
const PAGE: usize = 1000;
/// Events looked at for one page of decisions.
const LOOKED_AT_MAX: u64 = 200_000;
/// Kinds that come all the time and are only told to those who name them.
const QUIET: [&str; 5] = ["heard", "cycled", "round", "undecided", "surge"];

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(decisions)).routes(routes!(events))
}

fn ms(time: Time) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(0)
}

/// A decision as it is told; its pool may be unknown if it is older than this is kept.
pub(crate) fn decision(seq: u64, at: Time, commit: &Commit) -> DecisionView {
    let granted = |grant: &landfall_engine::event::Grant| Granted {
        node: grant.node.to_string(),
        gpus: grant.placement.devices.iter().map(|share| share.index).collect(),
        lender: grant.lender.as_ref().map(ToString::to_string),
    };
    let beside = commit.beside.as_deref().cloned().unwrap_or_default();
    let runner_up = commit.why.runner_up.as_ref().map(ToString::to_string);
    DecisionView {
        job: Some(commit.job.to_string()),
        kind: word(&commit.kind),
        nodes: commit.grants.iter().map(granted).collect(),
        total: commit.why.total,
        terms: commit.why.terms.clone(),
        runner_up: runner_up.or_else(|| beside.runners_up.first().map(|first| first.candidate.to_string())),
        ..of_beside(seq, at, beside)
    }
}

/// A decision that chose nobody.
fn undecided(seq: u64, at: Time, undecided: &Undecided) -> DecisionView {
    DecisionView {
        job: undecided.job.as_ref().map(ToString::to_string),
        asked: undecided.node.as_ref().map(ToString::to_string),
        kind: "none".into(),
        ..of_beside(seq, at, undecided.beside.clone())
    }
}

fn of_beside(seq: u64, at: Time, beside: Beside) -> DecisionView {
    DecisionView {
        seq,
        at_ms: ms(at),
        job: None,
        asked: None,
        pool: beside.pool.map(|pool| pool.to_string()),
        kind: String::new(),
        nodes: Vec::new(),
        total: None,
        terms: Vec::new(),
        runner_up: None,
        looked_at: beside.looked_at,
        runners_up: beside.runners_up,
        against: beside.against,
        facts: beside.facts,
        heard_ms: beside.heard_ms.map(landfall_model::Millis::get),
    }
}

/// Which decisions are wanted.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) job: Option<String>,
    /// Chosen, or asked for work.
    pub(crate) node: Option<String>,
    pub(crate) pool: Option<String>,
    pub(crate) since: Option<Time>,
    pub(crate) until: Option<Time>,
    pub(crate) chose: Chose,
    /// Only those with a total.
    pub(crate) scored: bool,
}

impl Wanted {
    fn admits(&self, decision: &DecisionView) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| Some(wanted) == found)
        };
        let there = |node: &String| {
            decision.asked.as_ref() == Some(node)
                || decision.nodes.iter().any(|granted| granted.node == *node)
        };
        is(&self.job, decision.job.as_deref())
            && is(&self.pool, decision.pool.as_deref())
            && self.node.as_ref().is_none_or(there)
            && match self.chose {
                Chose::Somebody => !decision.nodes.is_empty(),
                Chose::Nobody => decision.nodes.is_empty(),
                Chose::Any => true,
            }
            && (!self.scored || decision.total.is_some())
    }
}

/// Decisions backwards from an event on, newest first, and where to go on.
pub(crate) fn decisions_before(
    reader: &mut dyn Reader,
    before: Option<u64>,
    wanted: &Wanted,
    most: usize,
) -> Result<(Vec<DecisionView>, Option<u64>), StoreError> {
    backwards(reader, before, [wanted.since, wanted.until], most, |stored| {
        let view = match &stored.event {
            Event::Committed(commit) => decision(stored.seq, stored.at, commit),
            Event::Undecided(it) => undecided(stored.seq, stored.at, it),
            _ => return None,
        };
        wanted.admits(&view).then_some(view)
    })
}

/// What is wanted of the journal, backwards from an event on and between two instants, newest first, and where to go on.
pub(crate) fn backwards<T>(
    reader: &mut dyn Reader,
    before: Option<u64>,
    [since, until]: [Option<Time>; 2],
    most: usize,
    mut wanted: impl FnMut(&Stored) -> Option<T>,
) -> Result<(Vec<T>, Option<u64>), StoreError> {
    let mut found = Vec::new();
    let oldest = reader.oldest_seq()?;
    let mut end = before.unwrap_or(u64::MAX).min(reader.last_seq()? + 1);
    if let Some(until) = until {
        end = end.min(reader.seq_at(until)? + 1);
    }
    let stop = end.saturating_sub(LOOKED_AT_MAX);
    while end > oldest.max(1) && end > stop {
        let start = end.saturating_sub(PAGE as u64).max(oldest).max(1);
        let count = usize::try_from(end - start).unwrap_or(PAGE);
        for stored in reader.events(start - 1, count)?.iter().rev() {
            if since.is_some_and(|since| stored.at < since) {
                return Ok((found, None));
            }
            let Some(one) = wanted(stored) else { continue };
            found.push(one);
            if found.len() == most {
                return Ok((found, Some(stored.seq).filter(|seq| *seq > oldest)));
            }
        }
        end = start;
    }
    Ok((found, Some(end).filter(|end| *end > oldest.max(1))))
}

/// Which of these jobs somebody may see.
pub(crate) async fn visible(
    app: &App,
    principal: &Principal,
    jobs: BTreeSet<String>,
) -> Result<BTreeMap<String, bool>, Problem> {
    let principal = principal.clone();
    let answer = app.handle.read(move |view| {
        let of = |id: String| {
            let record = view.engine.state().jobs.get(id.as_str());
            let tenant = match record {
                Some(record) => record.job.spec.tenant.as_ref().map(ToString::to_string),
                None => view.archived(&id).and_then(|job| job.tenant),
            };
            let seen = principal.sees(tenant.as_deref());
            (id, seen)
        };
        jobs.into_iter().map(of).collect()
    });
    Ok(answer.await?)
}

/// Whether a decision chose somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Chose {
    #[default]
    Somebody,
    Nobody,
    Any,
}

/// Which decisions.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Only those about this job.
    job: Option<String>,
    /// Only those that chose this node, or that it asked for.
    node: Option<String>,
    /// Only those of this pool.
    pool: Option<String>,
    /// Only those since this instant, in milliseconds since 1970.
    since_ms: Option<u64>,
    /// Only those up to this instant, in milliseconds since 1970.
    until_ms: Option<u64>,
    /// Those that chose somebody, which is what is listed if it is left out, those that chose nobody, or both.
    #[param(inline)]
    chose: Option<Chose>,
    /// How many at most: 1 to 1000, 100 if left out.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// `next` of the page before.
    cursor: Option<u64>,
}

/// Lists decisions with their breakdown and what they looked at, newest first. A page may be shorter than asked for and still have a next.
#[utoipa::path(get, path = "/decisions", tag = "history", params(Which),
    responses((status = 200, description = "One page.", body = Paged<DecisionView>), Problems))]
async fn decisions(
    State(app): Shared,
    Submitter(principal): Submitter,
    Params(which): Params<Which>,
) -> Reply<Paged<DecisionView>> {
    let limit = limit(which.limit, 1000)?;
    let instant = |ms: u64| Time::from_millis(i64::try_from(ms).unwrap_or(i64::MAX));
    let (mut since, mut until) = (which.since_ms.map(instant), which.until_ms.map(instant));
    let job = match &which.job {
        Some(job) => {
            let view = app.job(&principal, job).await?;
            // Nothing was decided about it before it came or after it ended, so the rest need not be looked through.
            since = since.max(Some(instant(view.submitted_at_ms)));
            until = view.ended_at_ms.map(instant).into_iter().chain(until).min();
            Some(view.id)
        }
        None => None,
    };
    let wanted = Wanted {
        job,
        node: which.node,
        pool: which.pool,
        since,
        until,
        chose: which.chose.unwrap_or_default(),
        scored: false,
    };
    let cursor = which.cursor;
    let read = app.journal.read(move |reader| decisions_before(reader, cursor, &wanted, limit));
    let (mut items, next) = read.await?;
    if !principal.sees_all() {
        let jobs = items.iter().filter_map(|decision| decision.job.clone()).collect();
        let seen = visible(&app, &principal, jobs).await?;
        items
            .retain(|decision| decision.job.as_ref().and_then(|job| seen.get(job)).copied().unwrap_or(false));
    }
    Ok(Json(Paged { items, next: next.map(|seq| seq.to_string()) }))
}

/// An event as the stream tells it.
pub(crate) fn event_view(seq: u64, at: Time, event: &Event) -> EventView {
    let value = serde_json::to_value(event).unwrap_or_default();
    let (kind, payload) = match value {
        Value::String(kind) => (kind, Value::Null),
        Value::Object(map) => map.into_iter().next().unwrap_or_default(),
        other => (String::new(), other),
    };
    let named = |name: &str| match payload.get(name) {
        Some(Value::String(id)) => Some(id.clone()),
        Some(Value::Object(thing)) => thing.get("id").and_then(Value::as_str).map(str::to_owned),
        _ => None,
    };
    let alone = payload.as_str().map(str::to_owned);
    let is_node = kind == "node_left";
    let is_job = matches!(
        kind.as_str(),
        "eligible"
            | "array_closed"
            | "start_sent"
            | "started"
            | "saved"
            | "save_failed"
            | "rejected"
            | "forgotten"
            | "nodes_freed"
    );
    let reserved = payload.get("reservation").and_then(|it| it.get("job")).and_then(Value::as_str);
    let job = if is_job { alone.clone() } else { named("job").or_else(|| reserved.map(str::to_owned)) };
    let node = if is_node { alone } else { named("node") };
    let event = match payload {
        Value::Object(_) => payload,
        Value::Null => Value::Object(Default::default()),
        other => serde_json::json!({ "value": other }),
    };
    EventView { seq, at_ms: at.as_millis(), kind, job, node, event }
}

/// Which events.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Told {
    /// Begin behind this event, a number or an `id` of the stream; from now on if left out. The header `Last-Event-ID` counts
    /// more. An `id` of another journal is refused with 409 `other_journal`.
    after: Option<String>,
    /// Kinds separated by commas; all but `heard`, `cycled`, `round` and `undecided` if left out.
    kinds: Option<String>,
    /// The token, for browsers that cannot send headers with a stream.
    access_token: Option<String>,
    /// `false` ends the stream after what is stored already.
    follow: Option<bool>,
}

/// A stream of events as they are committed.
#[utoipa::path(get, path = "/events", tag = "history", params(Told,
        ("Last-Event-ID" = Option<String>, Header, description = "The last event that was seen.")),
    responses((status = 200, description = "Server-sent events: `id` is the journal and the number, `event` the kind, `data` an EventView.",
            body = EventView, content_type = "text/event-stream"),
        (status = 409, description = "`after` is about another journal.", body = landfall_api::ApiError),
        (status = 410, description = "Events behind `after` are no longer kept.", body = landfall_api::ApiError), Problems))]
async fn events(
    State(app): Shared,
    headers: HeaderMap,
    principal: Result<Principal, Problem>,
    Params(told): Params<Told>,
) -> Result<Response, Problem> {
    let principal = match &told.access_token {
        Some(secret) => app.tokens.check(secret, app.handle.now())?,
        None => principal?,
    };
    if principal.role == landfall_api::token::Role::Agent {
        return Err(forbidden(&principal, "submitter"));
    }
    let seen = match header_text(&headers, "last-event-id") {
        Some(text) => Some(position(&app, text, "Last-Event-ID")?),
        None => told.after.as_deref().map(|text| position(&app, text, "`after`")).transpose()?,
    };
    let place = app.stream()?;
    let mut live = app.handle.listen();
    let newest = app.handle.read(|view| view.seq).await?;
    if let Some(after) = seen {
        // Somebody who is too late hears it before the stream begins.
        app.journal.read(move |reader| reader.events(after.min(newest), 1).map(|_| ())).await?;
    }
    let kinds: Option<BTreeSet<String>> =
        told.kinds.map(|kinds| kinds.split(',').map(|kind| kind.trim().to_owned()).collect());
    let (sender, receiver) = mpsc::channel::<Result<Sent, Infallible>>(256);
    let mut teller =
        Teller { app: app.clone(), principal, kinds, sender, last: seen.unwrap_or(newest).min(newest) };
    tokio::spawn(async move {
        let _place = place;
        if teller.replay().await.is_err() {
            return;
        }
        if !told.follow.unwrap_or(true) {
            return;
        }
        let mut look = tokio::time::interval(TOKENS_LOOKED_AT_EVERY);
        loop {
            let batch = tokio::select! {
                _ = look.tick() => {
                    // Whose token was revoked hears no more.
                    if !teller.app.tokens.still_stands(&teller.principal, teller.app.handle.now()) {
                        return;
                    }
                    continue;
                }
                () = teller.app.shutdown.cancelled() => return,
                () = teller.sender.closed() => return,
                batch = live.recv() => batch,
            };
            let told = match batch {
                Ok(batch) => {
                    let new = batch.iter().filter(|happened| happened.seq > teller.last);
                    let views =
                        new.map(|happened| event_view(happened.seq, happened.at, &happened.event)).collect();
                    teller.tell(views).await
                }
                Err(RecvError::Lagged(_)) => teller.replay().await,
                Err(RecvError::Closed) => return,
            };
            if told.is_err() {
                return;
            }
        }
    });
    let stream = Sse::new(ReceiverStream::new(receiver));
    Ok(stream.keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response())
}

/// The number of an event from a place in the stream: a number, or the journal and a number.
fn position(app: &App, text: &str, what: &str) -> Result<u64, Problem> {
    let (journal, number) = match text.split_once('-') {
        Some((journal, number)) => (Some(journal), number),
        None => (None, text),
    };
    let number = number.parse().map_err(|_| {
        Problem::bad(
            format!("{what} is not the number of an event"),
            "leave it out, or give an `id` of the stream",
        )
    })?;
    app.check_journal(journal)?;
    Ok(number)
}

/// How often a stream looks whether its token still stands.
const TOKENS_LOOKED_AT_EVERY: Duration = Duration::from_secs(10);

/// Tells events to one listener.
struct Teller {
    app: Arc<App>,
    principal: Principal,
    kinds: Option<BTreeSet<String>>,
    sender: mpsc::Sender<Result<Sent, Infallible>>,
    last: u64,
}

impl Teller {
    fn wants(&self, view: &EventView) -> bool {
        match &self.kinds {
            Some(kinds) => kinds.contains(&view.kind),
            None => !QUIET.contains(&view.kind.as_str()),
        }
    }

    /// Reads the journal from the last event on that was told.
    async fn replay(&mut self) -> Result<(), ()> {
        loop {
            let last = self.last;
            let read = self.app.journal.read(move |reader| reader.events(last, PAGE)).await;
            let Ok(page) = read else { return Err(()) };
            if page.is_empty() {
                return Ok(());
            }
            let views = page.iter().map(|stored| event_view(stored.seq, stored.at, &stored.event)).collect();
            self.tell(views).await?;
        }
    }

    async fn tell(&mut self, views: Vec<EventView>) -> Result<(), ()> {
        let Some(newest) = views.last().map(|view| view.seq) else { return Ok(()) };
        let mut views: Vec<EventView> = views.into_iter().filter(|view| self.wants(view)).collect();
        if !self.principal.sees_all() {
            let jobs: BTreeSet<String> = views.iter().filter_map(|view| view.job.clone()).collect();
            let Ok(seen) = visible(&self.app, &self.principal, jobs).await else { return Err(()) };
            views.retain(|view| match &view.job {
                Some(job) => seen.get(job).copied().unwrap_or(false),
                None => view.kind == "node_moved",
            });
        }
        for view in views {
            let data = serde_json::to_string(&view).unwrap_or_default();
            let sent = Sent::default()
                .id(format!("{}-{}", self.app.incarnation, view.seq))
                .event(view.kind)
                .data(data);
            self.sender.send(Ok(sent)).await.map_err(|_| ())?;
        }
        self.last = newest;
        Ok(())
    }
}

/// The tenant of a job, for those who filter by it.
pub(crate) fn tenant_of(view: &crate::driver::View<'_>, job: &JobId) -> Option<String> {
    let record = view.engine.state().job(job)?;
    record.job.spec.tenant.as_ref().map(ToString::to_string)
}
