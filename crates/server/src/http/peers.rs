//! The peer that this server is, the others it knows, and what became of negotiations.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use landfall_api::ApiError;
use landfall_api::peer::{AddPeer, OwnPeer, PeerFacts, PeerRequest, PeerView};
use landfall_model::{NodeId, Scope};
use landfall_negotiate::{Facts, Member};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::{Operator, Submitter};
use super::extract::{At, Body};
use super::problem::{BodyProblems, Problem, Problems, Reply};
use super::status::word;
use crate::driver::peers::Remark;
use crate::peers::Peers;

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(own)).routes(routes!(list, add)).routes(routes!(show, change))
}

fn peers_of(app: &App) -> Result<&Peers, Problem> {
    app.peers.get().ok_or_else(|| {
        let error = ApiError::new("no_peer", "this server is no peer: none of its pools negotiates");
        Problem::new(
            StatusCode::CONFLICT,
            error.hint("`landfall up --peer`, or a pool with dispatch = \"negotiate\""),
        )
    })
}

/// Says who this server is among peers.
#[utoipa::path(get, path = "/peer", tag = "peers",
    responses((status = 200, description = "This peer.", body = OwnPeer), 
        (status = 409, description = "This server is no peer.", body = landfall_api::ApiError), Problems))]
async fn own(State(app): Shared, Submitter(principal): Submitter) -> Reply<OwnPeer> {
    let peers = peers_of(&app)?;
    let pool = peers.pool.clone();
    let epoch = app.ask(move |view| {
        Ok::<u64, Problem>(view.engine.state().peers.get(&pool).map_or(0, landfall_negotiate::Peer::epoch))
    });
    let addresses: Vec<String> = peers.addresses.iter().map(|address| peers.full(address)).collect();
    let manages =
        matches!(principal.role, landfall_api::token::Role::Admin | landfall_api::token::Role::Operator);
    let invitation =
        addresses.first().filter(|_| manages).map(|address| format!("{address}#{}", peers.secret));
    Ok(Json(OwnPeer {
        id: peers.id.to_string(),
        pool: peers.pool.to_string(),
        addresses,
        invitation,
        epoch: epoch.await?,
    }))
}

pub(crate) fn facts(facts: &Facts) -> PeerFacts {
    PeerFacts {
        cpu_free_milli: facts.cpu_free,
        cpu_milli: facts.cpu_total,
        ram_free_mib: facts.memory_free,
        ram_mib: facts.memory_total,
        gpus_free: facts.gpus_free,
        gpus: facts.gpus_total,
        running: facts.running,
        queued: facts.queued,
        region: facts.region.as_ref().map(ToString::to_string),
    }
}

async fn known(app: &App) -> Result<BTreeMap<String, PeerView>, Problem> {
    let peers = peers_of(app)?;
    let pool = peers.pool.clone();
    let mut all: BTreeMap<String, PeerView> = app
        .ask(move |view| {
            let remarks = view.remarks()?;
            let mut all: BTreeMap<String, PeerView> = BTreeMap::new();
            let Some(peer) = view.engine.state().peers.get(&pool) else { return Ok::<_, Problem>(all) };
            let mut of = |id: &NodeId| {
                let view = PeerView {
                    id: id.to_string(),
                    trust: peer.trust().entry(id),
                    scope: word(&peer.trust().scope(id)),
                    ..PeerView::default()
                };
                all.entry(id.to_string()).or_insert(view);
                id.to_string()
            };
            for (id, _) in peer.trust().entries() {
                of(id);
            }
            peer.conduct().keys().for_each(|id| drop(of(id)));
            let told: Vec<(String, PeerFacts, Option<f64>)> = peer
                .known_now(view.now)
                .map(|(id, announce)| (of(id), facts(&announce.capacity), peer.rtt_to(id, view.now)))
                .collect();
            for (id, said, rtt) in told {
                if let Some(view) = all.get_mut(&id) {
                    (view.facts, view.rtt_ms) = (Some(said), rtt);
                }
            }
            for (id, conduct) in peer.conduct() {
                let Some(view) = all.get_mut(id.as_str()) else { continue };
                view.deeds =
                    conduct.deeds.iter().map(|(deed, times)| (deed.as_str().to_owned(), *times)).collect();
                let moved = view.trust.map(|set| peer.trust_in(id) - set);
                view.trust_moved = moved.filter(|moved| moved.abs() > 1e-9);
            }
            for (id, remark) in remarks {
                let view = all.entry(id.clone()).or_insert_with(|| PeerView {
                    id,
                    scope: word(&Scope::Commons),
                    ..PeerView::default()
                });
                (view.note, view.blocked, view.account) = (remark.note, remark.blocked, remark.account);
            }
            Ok(all)
        })
        .await?;
    for standing in peers.connected().await {
        let id = standing.peer.to_string();
        let view = all.entry(id.clone()).or_insert_with(|| PeerView {
            id,
            scope: word(&Scope::Commons),
            ..PeerView::default()
        });
        view.connected = standing.connected;
        view.address = standing.address.map(|address| address.to_string());
        view.standing = Some(standing.score);
    }
    for (id, dropped) in peers.dropped_by() {
        let id = id.to_string();
        let unknown = || PeerView { id: id.clone(), scope: word(&Scope::Commons), ..PeerView::default() };
        all.entry(id.clone()).or_insert_with(unknown).dropped = dropped;
    }
    Ok(all)
}

/// Lists the peers that are trusted, connected, known or noted.
#[utoipa::path(get, path = "/peers", tag = "peers",
    responses((status = 200, description = "All of them, by id.", body = Vec<PeerView>), 
        (status = 409, description = "This server is no peer.", body = landfall_api::ApiError), Problems))]
async fn list(State(app): Shared, _submitter: Submitter) -> Reply<Vec<PeerView>> {
    Ok(Json(known(&app).await?.into_values().collect()))
}

/// Shows a peer.
#[utoipa::path(get, path = "/peers/{id}", tag = "peers", params(("id" = String, Path, description = "The peer.")),
    responses((status = 200, description = "The peer.", body = PeerView), 
        (status = 409, description = "This server is no peer.", body = landfall_api::ApiError), Problems))]
async fn show(State(app): Shared, _submitter: Submitter, At(id): At<String>) -> Reply<PeerView> {
    let found = known(&app).await?.remove(&id);
    found.map(Json).ok_or_else(|| Problem::unknown("peer", &id))
}

/// Keeps in touch with a peer from now on, also after a restart.
#[utoipa::path(post, path = "/peers", tag = "peers", request_body = AddPeer,
    responses((status = 200, description = "This peer.", body = OwnPeer), Problems, BodyProblems))]
async fn add(State(app): Shared, operator: Operator, Body(asked): Body<AddPeer>) -> Reply<OwnPeer> {
    let peers = peers_of(&app)?;
    let wrong = |why: String, hint| Problem::invalid("address", why, hint);
    let (address, invitation) =
        crate::peers::peer_called_at(&asked.address).map_err(|(why, hint)| wrong(why, hint))?;
    if landfall_peer::peer_in(&address).is_none() {
        // Who is to be called again after a restart is known by its id.
        return Err(wrong(format!("`{address}` does not say who is there"), crate::peers::ADDRESS_HINT));
    }
    peers.add(&app.handle, address, invitation).await?;
    own(State(app.clone()), Submitter(operator.0)).await
}

/// Changes what is thought of a peer: trust, how near it is, a note, whether it is blocked.
#[utoipa::path(put, path = "/peers/{id}", tag = "peers", request_body = PeerRequest,
    params(("id" = String, Path, description = "The peer.")),
    responses((status = 200, description = "The peer.", body = PeerView), Problems, BodyProblems))]
async fn change(
    State(app): Shared,
    operator: Operator,
    At(id): At<String>,
    Body(asked): Body<PeerRequest>,
) -> Reply<PeerView> {
    let peers = peers_of(&app)?;
    let peer = landfall_peer::peer_id(&id).ok_or_else(|| {
        Problem::invalid(
            "id",
            format!("`{}` is no id of a peer", super::problem::shortened(&id)),
            "`landfall peer id` on that machine prints it",
        )
    })?;
    if asked.trust.is_some_and(|trust| !(0.0..=1.0).contains(&trust)) {
        return Err(Problem::invalid("trust", "trust is a number from 0 to 1", "0.8, for instance"));
    }
    let scope: Option<Scope> = match asked.scope.as_deref() {
        Some(text) => Some(serde_json::from_value(serde_json::Value::from(text)).map_err(|_| {
            Problem::invalid("scope", format!("`{text}` is no scope"), "cell, org, federation or commons")
        })?),
        None => None,
    };
    peers
        .change_trust(&app.handle, |mut table| {
            if let Some(scope) = scope {
                let cell = table.cell(&peer).cloned();
                table = table.with_member(peer.clone(), Some(Member { scope, cell }));
            }
            match asked.trust {
                Some(trust) => table.with(peer.clone(), Some(trust)),
                None => Ok(table),
            }
        })
        .await?;
    if asked.note.is_some() || asked.blocked.is_some() {
        let note = asked.note.clone();
        peers
            .remark(&app.handle, &peer, move |remark: &mut Remark| {
                remark.note = note.or(remark.note.take()).filter(|note| !note.is_empty());
                remark.blocked = asked.blocked.unwrap_or(remark.blocked);
            })
            .await?;
    }
    if let Some(blocked) = asked.blocked {
        peers.order(landfall_peer::Order::Block { peer, blocked });
    }
    let mut all = known(&app).await?;
    let _ = operator;
    all.remove(&id).map(Json).ok_or_else(|| Problem::unknown("peer", &id))
}
