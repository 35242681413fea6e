//! Who waits for whom, around one job.

use std::collections::{BTreeSet, VecDeque};

use axum::Json;
use axum::extract::State;
use landfall_api::board::{GraphEdge, GraphJob, GraphView};
use landfall_model::{JobId, TenantId};

use super::super::app::{Shared, visible_job};
use super::super::auth::{Principal, Submitter};
use super::super::extract::At;
use super::super::problem::{Problem, Problems, Reply};
use super::super::status::word;
use crate::driver::View;

/// Jobs of a graph that are shown.
const JOBS_MAX: usize = 100;
/// Edges of one job that are followed.
const EDGES_MAX: usize = 200;

/// Shows who waits for whom around a job or an array, as far as it has not come true yet.
#[utoipa::path(get, path = "/jobs/{id}/graph", tag = "board", params(("id" = String, Path, description = "The job or array.")),
    responses((status = 200, description = "Jobs and who waits for whom.", body = GraphView), Problems))]
pub(crate) async fn graph(
    State(app): Shared,
    Submitter(principal): Submitter,
    At(id): At<String>,
) -> Reply<GraphView> {
    let answer = app.ask(move |view| {
        let job = match view.array(&id).filter(|array| principal.sees(array.tenant.as_deref())) {
            Some(array) => array.id,
            None => visible_job(view, &principal, &id)?.id,
        };
        let job = JobId::new(&job).map_err(|_| Problem::unknown("job", &id))?;
        Ok(around(view, &principal, job))
    });
    answer.await.map(Json)
}

fn around(view: &mut View<'_>, principal: &Principal, job: JobId) -> GraphView {
    let graph = &view.engine.state().graph;
    let mut found = GraphView::default();
    let mut edges = BTreeSet::new();
    let (mut seen, mut next) = (BTreeSet::from([job.clone()]), VecDeque::from([job]));
    while let Some(id) = next.pop_front() {
        let Some(shown) = shown(view, principal, &id) else { continue };
        found.jobs.push(shown);
        let on = graph.open_edges(&id).into_iter().flat_map(|(_, edges)| edges);
        let on = on.map(|edge| (edge.on.clone(), id.clone()));
        let by = graph.awaiting(&id).map(|other| (id.clone(), other.clone()));
        for (on, by) in on.chain(by).take(EDGES_MAX) {
            for other in [&on, &by] {
                if seen.contains(other) {
                    continue;
                }
                if seen.len() == JOBS_MAX {
                    found.more = true;
                    continue;
                }
                seen.insert(other.clone());
                next.push_back(other.clone());
            }
            edges.insert((on, by));
        }
    }
    let shown: BTreeSet<&str> = found.jobs.iter().map(|job| job.id.as_str()).collect();
    for (on, by) in edges.iter().filter(|(on, by)| shown.contains(on.as_str()) && shown.contains(by.as_str()))
    {
        let open = graph.open_edges(by).into_iter().flat_map(|(_, edges)| edges);
        let kind = open.filter(|edge| edge.on == *on).map(|edge| word(&edge.kind)).next();
        let (on, job, kind) = (on.to_string(), by.to_string(), kind.unwrap_or_default());
        found.edges.push(GraphEdge { on, job, kind });
    }
    found
}

/// What is shown of a job; nothing if it is somebody else's.
fn shown(view: &mut View<'_>, principal: &Principal, id: &JobId) -> Option<GraphJob> {
    let state = view.engine.state();
    let name = view.jobs.meta(id).and_then(|meta| meta.name.clone());
    let spec = state.job(id).map(|record| (&record.job.spec, word(&record.state)));
    let spec = spec.or_else(|| {
        let array = state.folded.get(id)?;
        let standing = if array.is_over() {
            "completed"
        } else if array.records > 0 {
            "running"
        } else {
            "pending"
        };
        Some((&array.job.spec, standing.to_owned()))
    });
    if let Some((spec, state)) = spec {
        let seen = principal.sees(spec.tenant.as_ref().map(TenantId::as_str));
        return seen.then(|| GraphJob { id: id.to_string(), name, state });
    }
    let ended = view.archived(id.as_str()).filter(|job| principal.sees(job.tenant.as_deref()))?;
    Some(GraphJob { id: ended.id, name: ended.name, state: ended.state })
}
