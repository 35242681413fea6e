//! Nodes and what is on them over time: what runs, what is kept, what is promised.

use axum::Json;
use axum::extract::State;
use landfall_api::board::{TimelineBar, TimelineRow, TimelineView};
use landfall_engine::state::PoolState;
use landfall_model::{JobId, Node, Time};
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::app::Shared;
use super::super::auth::{Principal, Submitter};
use super::super::extract::Params;
use super::super::jobs::limit;
use super::super::problem::{Problems, Reply};
use super::super::status::word;
use crate::driver::View;

/// Promises of a pool that are shown.
const PROMISES_MAX: usize = 100;

fn ms(time: Time) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(0)
}

/// Which nodes.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Only this pool.
    pool: Option<String>,
    /// How many nodes at most: 1 to 500, 100 if left out.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// Makes bars, and hides whose they are from those who may not know.
struct Maker<'a> {
    view: &'a View<'a>,
    principal: &'a Principal,
}

impl Maker<'_> {
    fn bar(&self, job: &JobId, kind: &str, start: Time, end: Option<Time>, width: usize) -> TimelineBar {
        let record = self.view.engine.state().job(job);
        let tenant = record.and_then(|record| record.job.spec.tenant.as_ref()).map(ToString::to_string);
        let seen = self.principal.sees(tenant.as_deref());
        let name = self.view.jobs.meta(job).and_then(|meta| meta.name.clone());
        TimelineBar {
            job: seen.then(|| job.to_string()),
            name: name.filter(|_| seen),
            tenant: tenant.filter(|_| seen),
            kind: kind.to_owned(),
            start_ms: ms(start),
            end_ms: end.map(ms),
            expected_end_ms: None,
            width: u32::try_from(width).unwrap_or(u32::MAX),
        }
    }

    fn running(&self, job: &JobId) -> Option<TimelineBar> {
        let record = self.view.engine.state().job(job)?;
        let run = record.run.as_deref()?;
        let start = run.started_at.unwrap_or(run.committed_at);
        let end = run.ends_at.or_else(|| record.walltime().map(|walltime| start + walltime));
        let mut bar = self.bar(job, "running", start, end, run.nodes.len());
        bar.expected_end_ms = run.expected.map(|expected| ms(start + expected));
        Some(bar)
    }

    fn node(&self, pool: &PoolState, node: &Node) -> TimelineRow {
        let mut bars: Vec<TimelineBar> =
            node.placements.iter().filter_map(|placed| self.running(&placed.job)).collect();
        let now = self.view.now;
        let kept = pool.kept.iter().filter(|(_, kept)| kept.nodes.contains(&node.id));
        bars.extend(kept.map(|(job, kept)| self.bar(job, "kept", now, Some(kept.until), kept.nodes.len())));
        let shared = pool.reservations.values().filter(|it| it.shared.contains(&node.id));
        bars.extend(shared.map(|it| self.bar(&it.job, "reserved", it.start, it.end, it.shared.len())));
        let lease = node.block.as_ref().and_then(|block| block.ends_at());
        TimelineRow {
            node: Some(node.id.to_string()),
            pool: pool.pool.id.to_string(),
            state: word(&node.state),
            until_ms: [lease, node.maintenance_at].into_iter().flatten().min().map(ms),
            bars,
        }
    }

    fn promises(&self, pool: &PoolState) -> Option<TimelineRow> {
        let whole = pool.reservations.values().filter(|it| it.shared.is_empty());
        let mut bars: Vec<TimelineBar> = whole
            .map(|it| {
                let width: u32 = it.kinds.iter().map(|(_, number)| number).sum();
                self.bar(&it.job, "reserved", it.start, it.end, width as usize)
            })
            .collect();
        bars.sort_by_key(|bar| bar.start_ms);
        bars.truncate(PROMISES_MAX);
        let (pool, state) = (pool.pool.id.to_string(), String::new());
        (!bars.is_empty()).then_some(TimelineRow { node: None, pool, state, until_ms: None, bars })
    }
}

/// Nodes by id and what is on them over time, promises of their pools first.
#[utoipa::path(get, path = "/timeline", tag = "board", params(Which),
    responses((status = 200, description = "One page.", body = TimelineView), Problems))]
pub(crate) async fn timeline(
    State(app): Shared,
    Submitter(principal): Submitter,
    Params(which): Params<Which>,
) -> Reply<TimelineView> {
    let limit = limit(which.limit, 500)?;
    let answer = app.handle.read(move |view| {
        let maker = Maker { view, principal: &principal };
        let state = view.engine.state();
        let wanted = |pool: &str| which.pool.as_deref().is_none_or(|wanted| wanted == pool);
        let first = which.cursor.is_none();
        let pools = state.pools.values().filter(|pool| first && wanted(pool.pool.id.as_str()));
        let mut rows: Vec<TimelineRow> = pools.filter_map(|pool| maker.promises(pool)).collect();
        let promises = rows.len();
        let after = which.cursor.as_deref();
        let places = state
            .places
            .iter()
            .filter(|(id, (pool, _))| after.is_none_or(|after| id.as_str() > after) && wanted(pool.as_str()));
        let nodes = places.filter_map(|(id, (pool, _))| {
            let (node, _) = state.node(id).filter(|(node, _)| !node.has_left())?;
            Some(maker.node(state.pool(pool)?, node))
        });
        rows.extend(nodes.take(limit + 1));
        let more = rows.len() > promises + limit;
        rows.truncate(promises + limit);
        let next = rows.last().filter(|_| more).and_then(|row| row.node.clone());
        TimelineView { now_ms: ms(view.now), rows, next }
    });
    Ok(Json(answer.await?))
}
