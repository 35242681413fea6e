//! What the board hears while it is open.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use landfall_api::token::Role;
use landfall_engine::Event;
use landfall_model::{JobId, NodeId, NodeState};
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
        let nodes = nodes.filter(|node| is_there(node.state)).count();
        json!({ "type": "queue_depth", "nodes": nodes, "pending": pending, "active": active })
    });
    counts.await.ok()
}

fn is_there(state: NodeState) -> bool {
    !matches!(state, NodeState::Unknown | NodeState::Down)
}

/// The nodes that are in touch.
async fn in_touch(app: &App) -> BTreeSet<NodeId> {
    let there = app.handle.read(|view| {
        let nodes = view.engine.state().pools.values().flat_map(|pool| &pool.nodes);
        nodes.filter(|node| is_there(node.state)).map(|node| node.id.clone()).collect()
    });
    there.await.unwrap_or_default()
}

async fn talk(app: &Arc<App>, principal: &Principal, mut socket: WebSocket) {
    let mut happened = app.handle.listen();
    let mut there = in_touch(app).await;
    let mut count = tokio::time::interval(COUNT_EVERY);
    loop {
        let messages = tokio::select! {
            () = app.shutdown.cancelled() => break,
            _ = count.tick() => queue_depth(app).await.into_iter().collect(),
            batch = happened.recv() => match batch {
                Ok(batch) => news(app, principal, &batch, &mut there).await,
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {
                    there = in_touch(app).await;
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

/// For each job that was placed, its tenant and the id by which `GET /board/jobs/{id}` finds the decision.
async fn placed(app: &App, batch: &[Happened]) -> BTreeMap<JobId, (Option<String>, String)> {
    let jobs: Vec<JobId> = batch
        .iter()
        .filter_map(|happened| match &happened.event {
            Event::Committed(commit) => Some(commit.job.clone()),
            _ => None,
        })
        .collect();
    if jobs.is_empty() {
        return BTreeMap::new();
    }
    let known = app.handle.read(move |view| {
        let mut winners = view.rings.winners();
        let mut known = |job: JobId| {
            let id = winners.remove(&job).unwrap_or_else(|| job.to_string());
            let tenant = tenant_of(view, &job);
            (job, (tenant, id))
        };
        jobs.into_iter().map(&mut known).collect()
    });
    known.await.unwrap_or_default()
}

/// The node that came or went by an event. One that says anew what it is, or falls from silent to down, is where it was.
fn came_or_went<'a>(there: &mut BTreeSet<NodeId>, event: &'a Event) -> Option<(&'a NodeId, bool)> {
    let (node, connected) = match event {
        Event::NodeJoined { node, .. } => (&node.id, true),
        Event::NodeMoved { node, to } => (node, is_there(*to)),
        _ => return None,
    };
    let changed = if connected { there.insert(node.clone()) } else { there.remove(node) };
    changed.then_some((node, connected))
}

async fn news(
    app: &App,
    principal: &Principal,
    batch: &[Happened],
    there: &mut BTreeSet<NodeId>,
) -> Vec<Value> {
    let mut told = Vec::new();
    let placed = placed(app, batch).await;
    for happened in batch {
        let at = super::rfc3339(happened.at);
        if let Event::Committed(commit) = &happened.event {
            let Some((tenant, id)) = placed.get(&commit.job) else { continue };
            if principal.sees(tenant.as_deref()) {
                let node = commit.grants.first().map(|grant| grant.node.to_string());
                told.push(json!({ "type": "job_dispatched", "id": id, "job_id": commit.job.to_string(),
                    "node_id": node, "score": commit.why.total, "dispatched_at": at }));
            }
        } else if let Some((node, connected)) = came_or_went(there, &happened.event)
            && principal.sees_all()
        {
            let what = if connected { "node_connected" } else { "node_disconnected" };
            told.push(json!({ "type": what, "node_id": node.to_string(), "at": at }));
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_model::{Mib, MilliCpu, Node, PoolId};

    #[test]
    fn nodes_come_and_go_once() {
        let id = NodeId::new("n").unwrap();
        let moved = |to| Event::NodeMoved { node: id.clone(), to };
        let node = Box::new(Node::new(id.clone(), MilliCpu::ZERO, Mib::ZERO));
        let joined = Event::NodeJoined { pool: PoolId::new("p").unwrap(), node };
        let mut there = BTreeSet::new();
        for (event, told) in [
            (&joined, Some(true)),
            (&moved(NodeState::Ready), None),
            (&joined, None),
            (&moved(NodeState::Unknown), Some(false)),
            (&moved(NodeState::Ready), Some(true)),
            (&moved(NodeState::Draining), None),
            (&moved(NodeState::Unknown), Some(false)),
            (&moved(NodeState::Down), None),
            (&joined, Some(true)),
        ] {
            let said = came_or_went(&mut there, event).map(|(_, connected)| connected);
            assert_eq!(said, told, "{event:?}");
        }
    }
}
