//! Who used what, summed up over time.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use landfall_api::fleet::{UsageRow, UsageView};
use landfall_api::job::JobView;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::Submitter;
use super::extract::Params;
use super::problem::{Problem, Problems, Reply};
use crate::driver::Taken;

/// Ended jobs looked at before others may ask something.
const JOBS_AT_ONCE: usize = 2000;
const MS_PER_HOUR: f64 = 3_600_000.0;

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(usage))
}

/// What to sum up.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Asked {
    /// From this instant on, in milliseconds since 1970; all that is kept if left out.
    since_ms: Option<u64>,
    /// A row for each `tenant`, `user` or `pool`; `tenant` if left out.
    by: Option<String>,
}

/// Sums up what jobs used; a submitter sees the jobs of its tenant.
#[utoipa::path(get, path = "/usage", tag = "fleet", params(Asked),
    responses((status = 200, description = "A row for each, the largest first.", body = UsageView),
        (status = 422, description = "There is no such way to sum up.", body = landfall_api::ApiError), Problems))]
async fn usage(
    State(app): Shared,
    Submitter(principal): Submitter,
    Params(asked): Params<Asked>,
) -> Reply<UsageView> {
    let by = asked.by.unwrap_or_else(|| "tenant".to_owned());
    let name_of: fn(&JobView) -> Option<&str> = match by.as_str() {
        "tenant" => |job| job.tenant.as_deref(),
        "user" => |job| job.submitter.as_deref(),
        "pool" => |job| Some(&job.pool),
        _ => return Err(Problem::invalid("by", format!("`{by}` is no such thing"), "tenant, user or pool")),
    };
    let now_ms = u64::try_from(app.handle.now().as_millis()).unwrap_or(0);
    let kept_ms = u64::try_from(app.config.retention.as_millis()).unwrap_or(u64::MAX);
    let since_ms = asked.since_ms.unwrap_or(0).max(now_ms.saturating_sub(kept_ms));
    let mut rows: BTreeMap<String, UsageRow> = BTreeMap::new();
    let mut count = |jobs: Vec<JobView>| {
        for job in jobs.iter().filter(|job| principal.sees(job.tenant.as_deref())) {
            let name = name_of(job).unwrap_or_default();
            let row = rows.entry(name.to_owned()).or_insert_with(|| UsageRow::of(name));
            add(row, job, since_ms, now_ms);
        }
    };
    // What is placed comes first, so that a job which ends meanwhile is not left out.
    let listing = Arc::new(app.listing().await?);
    let placed: Vec<_> =
        listing.rows().filter(|row| row.state.is_placed()).map(|row| row.id.clone()).collect();
    let mut running = std::collections::BTreeSet::new();
    for ids in placed.chunks(JOBS_AT_ONCE) {
        let ids = ids.to_vec();
        let taken = app.handle.read(move |view| view.take(&ids)).await?;
        // What ended meanwhile is in the archive.
        let jobs: Vec<JobView> = taken.into_iter().flatten().map(Taken::shown).collect();
        running.extend(jobs.iter().map(|job| job.id.clone()));
        count(jobs);
    }
    let mut after = None;
    loop {
        let rows = listing.clone();
        let page = app.journal.read(move |archive| rows.ended(after.as_deref(), JOBS_AT_ONCE, archive));
        let (mut jobs, next) = page.await?;
        jobs.retain(|job| !running.contains(&job.id));
        count(jobs);
        after = next;
        if after.is_none() {
            break;
        }
    }
    let mut rows: Vec<UsageRow> = rows.into_values().filter(|row| row.jobs > 0).collect();
    let size = |row: &UsageRow| row.gpu_hours.max(row.core_hours);
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.name.cmp(&b.name)));
    Ok(Json(UsageView { by, since_ms, until_ms: now_ms, rows }))
}

/// Adds what a job used between two instants.
fn add(row: &mut UsageRow, job: &JobView, since_ms: u64, now_ms: u64) {
    let ended = job.ended_at_ms.unwrap_or(now_ms);
    // Jobs that never ran, and arrays of which elements were taken back, used nothing.
    let Some(started) = job.started_at_ms.filter(|_| ended >= since_ms && job.elements.is_none()) else {
        return;
    };
    let hours = ended.saturating_sub(started.max(since_ms)) as f64 / MS_PER_HOUR;
    let amount = |name: &str| job.needs.get(name).and_then(serde_json::Value::as_f64).unwrap_or_default();
    let nodes = job.nodes.len().max(1) as f64;
    row.jobs += 1;
    row.price += job.price.unwrap_or_default();
    match job.state.as_str() {
        "completed" => row.completed += 1,
        "failed" => row.failed += 1,
        "cancelled" => row.cancelled += 1,
        _ => row.running += 1,
    }
    row.node_hours += hours * nodes;
    row.core_hours += hours * nodes * amount("cpu_milli") / 1000.0;
    row.gpu_hours += hours * nodes * amount("gpu_count");
    let cpu_ms = job.usage.as_ref().and_then(|usage| usage.cpu_time_ms).unwrap_or_default();
    // What was used before the instant is left out in proportion.
    let whole = ended.saturating_sub(started).max(1) as f64 / MS_PER_HOUR;
    row.cpu_hours_used += cpu_ms as f64 / MS_PER_HOUR * (hours / whole).min(1.0);
    row.waited_hours += started.saturating_sub(job.submitted_at_ms) as f64 / MS_PER_HOUR;
}
