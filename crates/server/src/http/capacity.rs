//! Capacity for placers outside the server: a snapshot, and holds.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use landfall_api::fleet::{
    CapacityGpu, CapacityNode, CapacitySnapshot, HoldView, ReleaseRequest, Released, ReserveRequest,
};
use landfall_api::node::FenceView;
use landfall_engine::event::Hold;
use landfall_engine::{Answer, Fence, Input};
use landfall_model::{JobId, Millis, Node, NodeId, Tier};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::{Operator, Principal, Submitter};
use super::extract::{Body, Params};
use super::problem::{BodyProblems, Problem, Problems, Reply, acted};
use super::status::word;
use crate::driver::View;

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(snapshot))
        .routes(routes!(reserve))
        .routes(routes!(place))
        .routes(routes!(release))
}

/// Which capacity.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// `FAST` or `FLEX`; all if left out.
    tier: Option<String>,
}

/// What is free: nodes of usable blocks and nodes without block. Live holds show as occupied.
#[utoipa::path(get, path = "/capacity_snapshot", tag = "capacity", params(Which),
    responses((status = 200, description = "The snapshot.", body = CapacitySnapshot), Problems))]
pub(crate) async fn snapshot(
    State(app): Shared,
    Submitter(principal): Submitter,
    Params(which): Params<Which>,
) -> Reply<CapacitySnapshot> {
    let tier = match which.tier.as_deref() {
        None => None,
        Some("FAST") => Some(Tier::Fast),
        Some("FLEX") => Some(Tier::Flex),
        Some(_) => return Err(Problem::bad("`tier` is `FAST` or `FLEX`", "leave it out for all")),
    };
    let answer = app.handle.read(move |view| {
        let state = view.engine.state();
        let nodes = state.pools.iter().flat_map(|(pool, of)| of.nodes.iter().map(move |node| (pool, node)));
        let usable = nodes.filter(|(_, node)| {
            node.block.as_ref().is_none_or(|block| block.usable_at(view.now))
                && tier.is_none_or(|tier| node.tier() == tier)
        });
        let mut nodes: Vec<CapacityNode> =
            usable.map(|(pool, node)| capacity(view, &principal, pool.as_str(), node)).collect();
        nodes.sort_by(|a, b| a.id.cmp(&b.id));
        CapacitySnapshot { nodes, timestamp: view.now.as_millis(), version: state.version }
    });
    Ok(Json(answer.await?))
}

fn capacity(view: &View<'_>, principal: &Principal, pool: &str, node: &Node) -> CapacityNode {
    let sees = |job: &JobId| {
        let record = view.engine.state().job(job);
        let tenant = record.and_then(|record| record.job.spec.tenant.as_ref());
        principal.sees(tenant.map(landfall_model::TenantId::as_str))
    };
    let gpus = node.gpus.iter().map(|gpu| {
        let job = gpu.holder.as_ref().or(gpu.hold());
        CapacityGpu {
            index: gpu.index,
            model: gpu.model.as_ref().map(|model| model.name.to_string()),
            vram_mib: gpu.vram_total().get(),
            vram_free_mib: gpu.vram_free().get(),
            milli_free: gpu.milli_free().get(),
            occupied: gpu.is_closed(),
            job: job.filter(|job| sees(job)).map(ToString::to_string),
        }
    });
    CapacityNode {
        id: node.id.to_string(),
        pool: pool.to_owned(),
        tier: word(&node.tier()),
        state: word(&node.state),
        block: node.block.as_ref().map(|block| block.id.to_string()),
        cpu_milli: node.cpu_total.get(),
        cpu_free_milli: node.cpu_free().get(),
        ram_mib: node.ram_total.get(),
        ram_free_mib: node.ram_free().get(),
        gpus: gpus.collect(),
    }
}

fn hold_view(hold: &Hold) -> HoldView {
    HoldView {
        id: hold.id.to_string(),
        job_id: hold.job.to_string(),
        node_id: hold.node.to_string(),
        gpu_indices: hold.placement.devices.iter().map(|share| share.index).collect(),
        expires_at: hold.expires_at.as_millis(),
        created_at: hold.created_at.as_millis(),
    }
}

/// Keeps devices, and the CPU, RAM and memory that a job needs, for a placement that is being prepared.
#[utoipa::path(post, path = "/reserve", tag = "capacity", request_body = ReserveRequest,
    responses((status = 200, description = "The hold, or the same one again.", body = HoldView), Problems, BodyProblems))]
pub(crate) async fn reserve(
    State(app): Shared,
    _operator: Operator,
    Body(request): Body<ReserveRequest>,
) -> Reply<HoldView> {
    let node = NodeId::new(&request.node_id).map_err(|_| Problem::unknown("node", &request.node_id))?;
    let asked = request.job_id.clone();
    let job = app
        .ask(move |view| {
            let job = view.resolve(&asked).filter(|job| view.engine.state().job(job).is_some());
            job.ok_or_else(|| Problem::unknown("job", &asked))
        })
        .await?;
    let fence = request.fence.map(|fence| {
        JobId::new(&fence.job)
            .map(|job| Fence { job, attempt: fence.attempt, epoch: fence.epoch })
            .map_err(|error| Problem::invalid("fence.job", error.to_string(), "give the id of a job"))
    });
    let fence = fence.transpose()?;
    // Beyond what a time can be, the engine says what is wrong with it.
    let lifetime = Millis::new(request.expires_in_sec.min(1 << 32).saturating_mul(1000));
    let input = Input::Hold { job, node, gpus: request.gpu_indices, lifetime: Some(lifetime), fence };
    match app.handle.apply(input).await? {
        Answer::Held { id, .. } => {
            let hold = app.ask(move |view| {
                let hold = view.engine.state().holds.get(&id);
                hold.map(hold_view).ok_or_else(|| Problem::unknown("hold", &id.to_string()))
            });
            hold.await.map(Json)
        }
        other => {
            acted(other)?;
            Err(Problem::unknown("hold", "made"))
        }
    }
}

/// Turns a hold into a placement: the job starts there.
#[utoipa::path(post, path = "/place", tag = "capacity", request_body = ReleaseRequest,
    responses((status = 200, description = "The attempt that starts.", body = FenceView), Problems, BodyProblems))]
pub(crate) async fn place(
    State(app): Shared,
    _operator: Operator,
    Body(request): Body<ReleaseRequest>,
) -> Reply<FenceView> {
    let unknown = || Problem::unknown("hold", &request.reservation_id);
    let id = request.reservation_id.parse().map_err(|_| unknown())?;
    match app.handle.apply(Input::Place(id)).await? {
        Answer::Work(Fence { job, attempt, epoch }) => {
            Ok(Json(FenceView { job: job.to_string(), attempt, epoch }))
        }
        other => {
            acted(other)?;
            Err(unknown())
        }
    }
}

/// Gives a hold back. One that is unknown or over gets the same answer.
#[utoipa::path(post, path = "/release", tag = "capacity", request_body = ReleaseRequest,
    responses((status = 200, description = "It is no longer held.", body = Released), Problems, BodyProblems))]
pub(crate) async fn release(
    State(app): Shared,
    _operator: Operator,
    Body(request): Body<ReleaseRequest>,
) -> Reply<Released> {
    if let Ok(id) = request.reservation_id.parse() {
        acted(app.handle.apply(Input::Release(id)).await?)?;
    }
    Ok(Json(Released { status: "released".into() }))
}
