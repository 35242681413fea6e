//! What changes, told a few times a second to everybody who has the board open. Each message is made once.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use landfall_api::board::{ChangeView, DecisionGlance};
use landfall_engine::Event;
use landfall_model::{JobId, NodeId};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::super::app::{App, Shared};
use super::super::auth::{Principal, Submitter};
use super::super::extract::header_text;
use super::super::history::decision;
use super::super::problem::{Problem, Problems};
use super::locked;
use crate::driver::Happened;

/// Jobs, and nodes, that one message names.
const NAMED_MAX: usize = 200;
/// Decisions that one message tells; with more of them nobody could read them.
const DECISIONS_MAX: usize = 30;
/// A message costs the same for each who listens: for every so many of them it comes one tick later.
const LISTENERS_PER_TICK: usize = 250;
/// How often a stream looks whether its token still stands.
const TOKENS_LOOKED_AT_EVERY: Duration = Duration::from_secs(10);

/// What happened since the last message.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    seq: u64,
    jobs: BTreeSet<JobId>,
    nodes: BTreeSet<NodeId>,
    settings: bool,
    pub(super) more: bool,
    decisions: Vec<DecisionGlance>,
}

impl Gathered {
    /// Takes in what happened.
    pub(super) fn take_in(&mut self, batch: &[Happened]) {
        for happened in batch {
            self.seq = happened.seq;
            self.take_in_one(happened);
        }
    }

    fn job(&mut self, job: &JobId) {
        if self.jobs.len() < NAMED_MAX {
            self.jobs.insert(job.clone());
        } else {
            self.more = true;
        }
    }

    fn node(&mut self, node: &NodeId) {
        if self.nodes.len() < NAMED_MAX {
            self.nodes.insert(node.clone());
        } else {
            self.more = true;
        }
    }

    fn take_in_one(&mut self, happened: &Happened) {
        match &happened.event {
            Event::Submitted { job, .. } | Event::ArraySubmitted { job, .. } => self.job(&job.id),
            Event::Unfolded { array, .. }
            | Event::FoldedDropped { array, .. }
            | Event::ArrayExtended { array, .. }
            | Event::ArrayClosed(array) => self.job(array),
            Event::Eligible(job)
            | Event::Started(job)
            | Event::TookRoom(job)
            | Event::Saved(job)
            | Event::SaveFailed(job)
            | Event::NodesFreed(job)
            | Event::UserHold { job, .. }
            | Event::WalltimeSet { job, .. }
            | Event::Saving { job, .. }
            | Event::Stopping { job, .. }
            | Event::Noticed { job, .. }
            | Event::Suspended { job, .. }
            | Event::Requeued { job, .. }
            | Event::Ended { job, .. }
            | Event::Resized { job, .. }
            | Event::NodesKept { job, .. }
            | Event::Unreserved { job, .. } => self.job(job),
            Event::Reserved { reservation, .. } => self.job(&reservation.job),
            Event::Committed(commit) => {
                self.job(&commit.job);
                commit.grants.iter().for_each(|grant| self.node(&grant.node));
                if self.decisions.len() == DECISIONS_MAX {
                    self.decisions.remove(0);
                    self.more = true;
                }
                let made = decision(happened.seq, happened.at, commit);
                self.decisions.push(DecisionGlance {
                    seq: made.seq,
                    at_ms: made.at_ms,
                    job: made.job.unwrap_or_default(),
                    name: None,
                    pool: String::new(),
                    tenant: None,
                    nodes: made.nodes.into_iter().map(|granted| granted.node).collect(),
                    kind: made.kind,
                    total: made.total,
                    runner_up: made.runner_up,
                });
            }
            Event::NodeJoined { node, .. } => self.node(&node.id),
            Event::NodeMoved { node, .. }
            | Event::NodeFault { node, .. }
            | Event::Maintenance { node, .. }
            | Event::Probed { node, .. }
            | Event::NodeLeft(node) => self.node(node),
            Event::PoolSet { .. } | Event::TenantSet(_) | Event::BlockSet(_) => self.settings = true,
            _ => {}
        }
    }
}

/// A message for everybody.
#[derive(Debug)]
pub(crate) struct Change {
    view: ChangeView,
    /// Whose each job is.
    tenants: BTreeMap<String, Option<String>>,
    /// The message as those see it who may see everything.
    text: Bytes,
    /// The message as each tenant sees it.
    of_tenants: Mutex<BTreeMap<Option<String>, Bytes>>,
}

/// Tells those who listen what happened.
pub(crate) async fn tell(app: &App) {
    let listeners = app.looks.changes.receiver_count();
    let ticks = 1 + listeners / LISTENERS_PER_TICK;
    if listeners == 0 || !app.looks.ticks.fetch_add(1, Ordering::Relaxed).is_multiple_of(ticks) {
        return;
    }
    let gathered = std::mem::take(&mut *locked(&app.looks.gathered));
    if gathered.seq == 0 && !gathered.more {
        return;
    }
    let Gathered { seq, jobs, nodes, settings, more, mut decisions } = gathered;
    let asked = app.handle.read(move |view| {
        for made in &mut decisions {
            // A job that was over in a moment left its name in the archive.
            let meta = JobId::new(&made.job).ok().and_then(|job| view.jobs.meta(&job));
            made.name = match meta {
                Some(meta) => meta.name.clone(),
                None => view.archived(&made.job).and_then(|job| job.name),
            };
        }
        let state = view.engine.state();
        for made in &mut decisions {
            let Some(record) = state.jobs.get(made.job.as_str()) else { continue };
            made.pool = record.pool.to_string();
            made.tenant = record.job.spec.tenant.as_ref().map(ToString::to_string);
        }
        let tenant = |job: &JobId| {
            let spec = state.job(job).map(|record| &record.job.spec);
            let spec = spec.or_else(|| state.folded.get(job).map(|array| &array.job.spec));
            spec.and_then(|spec| spec.tenant.as_ref()).map(ToString::to_string)
        };
        let tenants: BTreeMap<String, Option<String>> =
            jobs.iter().map(|job| (job.to_string(), tenant(job))).collect();
        (tenants, decisions)
    });
    // A server that is going down tells nothing.
    let Ok((tenants, decisions)) = asked.await else { return };
    let view = ChangeView {
        seq,
        journal: app.incarnation.clone(),
        jobs: tenants.keys().cloned().collect(),
        nodes: nodes.iter().map(ToString::to_string).collect(),
        settings,
        more,
        decisions,
    };
    let text = message(&view);
    // Nobody may be left to hear it.
    let _ = app.looks.changes.send(Arc::new(Change { view, tenants, text, of_tenants: Mutex::default() }));
}

/// A message as it goes over the wire, made once for all who get it.
fn message(view: &ChangeView) -> Bytes {
    let text = serde_json::to_string(view).unwrap_or_default();
    format!("id: {}-{}\ndata: {text}\n\n", view.journal, view.seq).into()
}

impl Change {
    /// The message as somebody may see it.
    fn text_for(&self, principal: &Principal) -> Bytes {
        if principal.sees_all() {
            return self.text.clone();
        }
        let mut made = locked(&self.of_tenants);
        let text = made.entry(principal.tenant.clone()).or_insert_with(|| {
            let sees = |job: &String| principal.sees(self.tenants.get(job).and_then(Option::as_deref));
            let view = ChangeView {
                jobs: self.view.jobs.iter().filter(|job| sees(job)).cloned().collect(),
                decisions: self.view.decisions.iter().filter(|made| sees(&made.job)).cloned().collect(),
                ..self.view.clone()
            };
            message(&view)
        });
        text.clone()
    }
}

/// What changes, as a stream: which jobs and nodes, and the decisions. A message says that more changed than it names where it does; whoever
/// shows something looks again then. A stream that was interrupted begins with a message that says whether anything happened meanwhile.
#[utoipa::path(get, path = "/changes", tag = "board",
    params(("Last-Event-ID" = Option<String>, Header, description = "The last message that was seen.")),
    responses((status = 200, description = "Server-sent events: `id` is the journal and the number, `data` a ChangeView.",
            body = ChangeView, content_type = "text/event-stream"), Problems))]
pub(crate) async fn changes(
    State(app): Shared,
    Submitter(principal): Submitter,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let place = app.stream()?;
    let mut live = app.looks.changes.subscribe();
    let seq = app.handle.read(|view| view.seq).await?;
    let id = |seq: u64| format!("{}-{seq}", app.incarnation);
    let missed = header_text(&headers, "last-event-id").is_some_and(|seen| seen != id(seq));
    let first = ChangeView { seq, journal: app.incarnation.clone(), more: missed, ..ChangeView::default() };
    let (sender, receiver) = mpsc::channel::<Result<Bytes, Infallible>>(8);
    // There is room for the first one.
    let _ = sender.try_send(Ok(message(&first)));
    tokio::spawn(async move {
        let _place = place;
        let mut look = tokio::time::interval(TOKENS_LOOKED_AT_EVERY);
        loop {
            let change = tokio::select! {
                _ = look.tick() => {
                    // Whose token was revoked hears no more.
                    if !app.tokens.still_stands(&principal, app.handle.now()) {
                        return;
                    }
                    // A comment, which shows whoever stands between that the line lives.
                    if sender.send(Ok(Bytes::from_static(b":\n\n"))).await.is_err() {
                        return;
                    }
                    continue;
                }
                () = app.shutdown.cancelled() => return,
                () = sender.closed() => return,
                change = live.recv() => change,
            };
            let text = match change {
                Ok(change) => change.text_for(&principal),
                Err(RecvError::Lagged(_)) => {
                    let Ok(seq) = app.handle.read(|view| view.seq).await else { return };
                    let journal = app.incarnation.clone();
                    message(&ChangeView { seq, journal, more: true, ..ChangeView::default() })
                }
                Err(RecvError::Closed) => return,
            };
            if sender.send(Ok(text)).await.is_err() {
                return;
            }
        }
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    Ok((headers, Body::from_stream(ReceiverStream::new(receiver))).into_response())
}
