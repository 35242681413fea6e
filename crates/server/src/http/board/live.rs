//! What the board hears while it is open.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use landfall_api::token::Role;
use landfall_engine::Event;
use landfall_model::NodeState;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::app::{App, Shared};
use super::super::auth::{Principal, forbidden};
use super::super::extract::Params;
use super::super::history::tenant_of;
use super::super::problem::Problem;
use crate::driver::Happened;

/// From one count of the queue to the next.
const COUNT_EVERY: Duration = Duration::from_secs(15);

/// Who listens.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Listening {
    /// The token, for browsers that cannot send headers with a WebSocket.
    access_token: Option<String>,
}

/// Opens the WebSocket.
pub(crate) async fn live(
    State(app): Shared,
    principal: Result<Principal, Problem>,
    Params(listening): Params<Listening>,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let principal = match &listening.access_token {
        Some(secret) => app.tokens.check(secret, app.handle.now())?,
        None => principal?,
    };
    if principal.role == Role::Agent {
        return Err(forbidden(&principal, "submitter"));
    }
    let upgrade =
        upgrade.map_err(|_| Problem::bad("this is a WebSocket", "send the headers of an upgrade"))?;
    let place = app.stream()?;
    Ok(upgrade.on_upgrade(move |socket| async move {
        let _place = place;
        talk(&app, &principal, socket).await;
    }))
}

async fn queue_depth(app: &App) -> Option<Value> {
    let counts = app.handle.read(|view| {
        let state = view.engine.state();
        let pending: usize = state.pools.keys().map(|pool| view.engine.waiting_in(pool)).sum();
        let active = view.tally().iter().filter(|((_, _, state), _)| state.is_placed());
        let active: u64 = active.map(|(_, number)| number).sum();
        let nodes = state.pools.values().flat_map(|pool| &pool.nodes);
        let nodes = nodes.filter(|node| !matches!(node.state, NodeState::Unknown | NodeState::Down)).count();
        json!({ "type": "queue_depth", "nodes": nodes, "pending": pending, "active": active })
    });
    counts.await.ok()
}

async fn talk(app: &Arc<App>, principal: &Principal, mut socket: WebSocket) {
    let mut happened = app.handle.listen();
    let mut count = tokio::time::interval(COUNT_EVERY);
    loop {
        let messages = tokio::select! {
            () = app.shutdown.cancelled() => break,
            _ = count.tick() => queue_depth(app).await.into_iter().collect(),
            batch = happened.recv() => match batch {
                Ok(batch) => news(app, principal, &batch).await,
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {
                    queue_depth(app).await.into_iter().collect()
                }
                Err(tokio::sync::broadcast::error::RecvError::Closed) => break,
            },
            message = socket.recv() => match message {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => Vec::new(),
            },
        };
        for message in messages {
            if socket.send(Message::text(message.to_string())).await.is_err() {
                return;
            }
        }
    }
    // Whoever listens may be gone already.
    let _ = socket.send(Message::Close(None)).await;
}

async fn news(app: &App, principal: &Principal, batch: &[Happened]) -> Vec<Value> {
    let mut told = Vec::new();
    for happened in batch {
        let at = super::rfc3339(happened.at);
        match &happened.event {
            Event::Committed(commit) => {
                let job = commit.job.clone();
                if !principal.sees_all() {
                    let tenant = app.handle.read(move |view| tenant_of(view, &job)).await.ok().flatten();
                    if !principal.sees(tenant.as_deref()) {
                        continue;
                    }
                }
                let node = commit.grants.first().map(|grant| grant.node.to_string());
                told.push(json!({ "type": "job_dispatched", "id": format!("d{}", happened.seq),
                    "job_id": commit.job.to_string(), "node_id": node, "score": commit.why.total,
                    "dispatched_at": at }));
            }
            Event::NodeJoined { node, .. } if principal.sees_all() => {
                told.push(json!({ "type": "node_connected", "node_id": node.id.to_string(), "at": at }));
            }
            Event::NodeMoved { node, to: NodeState::Unknown | NodeState::Down } if principal.sees_all() => {
                told.push(json!({ "type": "node_disconnected", "node_id": node.to_string(), "at": at }));
            }
            _ => {}
        }
    }
    told
}
