//! DAGs: jobs that depend on each other, submitted, looked at and taken back as one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use landfall_api::Paged;
use landfall_api::job::{CancelledDag, DagJob, DagRequest, DagView, SubmittedDag, UNNEEDED};
use landfall_engine::dag::{DagState, DagTally, EdgeKind, TerminalState};
use landfall_engine::{Answer, Input};
use landfall_model::JobId;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::{Principal, Submitter};
use super::extract::{At, Body, Params};
use super::jobs::{key, limit};
use super::problem::{BodyProblems, Problem, Problems, Reply};
use crate::driver::dags::{self, Member};

/// Jobs looked at before others may ask something.
const JOBS_AT_ONCE: usize = 50;
/// DAGs of one page.
const PAGE_MAX: u32 = 100;

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list, submit)).routes(routes!(one)).routes(routes!(cancel))
}

/// Submits jobs that depend on each other, all or none.
#[utoipa::path(post, path = "/dags", tag = "jobs", request_body = DagRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the submission safe to repeat.")),
    responses((status = 201, description = "Accepted.", body = SubmittedDag),
        (status = 200, description = "Accepted before under the same key.", body = SubmittedDag),
        Problems, BodyProblems))]
async fn submit(
    State(app): Shared,
    Submitter(principal): Submitter,
    headers: HeaderMap,
    Body(dag): Body<DagRequest>,
) -> Result<(StatusCode, Json<SubmittedDag>), Problem> {
    let key = key(&headers)?;
    let submitted = app.handle.submit_dag(principal.caller(), dag, key).await?;
    let status = if submitted.repeated { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(submitted)))
}

/// Which DAGs to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Listed {
    /// How many at most: 1 to 100, 100 if left out.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// Lists DAGs, newest first, without their jobs.
#[utoipa::path(get, path = "/dags", tag = "jobs", params(Listed),
    responses((status = 200, description = "One page.", body = Paged<DagView>), Problems))]
async fn list(
    State(app): Shared,
    Submitter(principal): Submitter,
    Params(listed): Params<Listed>,
) -> Reply<Paged<DagView>> {
    let most = limit(listed.limit, PAGE_MAX)?;
    let behind = listed.cursor.clone();
    let found = app.journal.read(move |reader| dags::newest(reader, behind.as_deref(), most)).await?;
    let next = found.last().filter(|_| found.len() == most).cloned();
    let mut items = Vec::new();
    for id in found {
        // What is somebody else's, or forgotten, is not there.
        if let Some(dag) = whole(&app, &principal, &id).await? {
            items.push(DagView { jobs: Vec::new(), ..dag });
        }
    }
    Ok(Json(Paged { items, next }))
}

/// Shows a DAG: how many of its jobs are where, who waits for whom, what failed.
#[utoipa::path(get, path = "/dags/{id}", tag = "jobs",
    params(("id" = String, Path, description = "The DAG, or a job or an array of it.")),
    responses((status = 200, description = "The DAG with its jobs.", body = DagView), Problems))]
async fn one(State(app): Shared, Submitter(principal): Submitter, At(id): At<String>) -> Reply<DagView> {
    meant(&app, &principal, &id).await.map(Json)
}

/// Takes back all jobs of a DAG that have not ended, in one step: none of them starts because another one is gone.
#[utoipa::path(post, path = "/dags/{id}/cancel", tag = "jobs",
    params(("id" = String, Path, description = "The DAG, or a job or an array of it.")),
    responses((status = 200, description = "How many are taken back.", body = CancelledDag),
        Problems, BodyProblems))]
async fn cancel(
    State(app): Shared,
    Submitter(principal): Submitter,
    At(id): At<String>,
) -> Reply<CancelledDag> {
    let dag = meant(&app, &principal, &id).await?;
    let ids = last_first(&dag.jobs);
    let inputs: Vec<Input> = ids.iter().filter_map(|id| JobId::new(id).ok()).map(Input::Cancel).collect();
    let answers =
        if inputs.is_empty() { Vec::new() } else { app.handle.apply_all(inputs, Vec::new()).await? };
    // Some may have ended since they were looked at.
    let cancelled = answers.iter().filter(|answer| **answer == Answer::Done).count() as u64;
    Ok(Json(CancelledDag { cancelled, ended: dag.total - cancelled }))
}

/// The DAG that somebody means by its id or that of one of its jobs.
async fn meant(app: &App, principal: &Principal, id: &str) -> Result<DagView, Problem> {
    let unknown = || {
        let mut problem = Problem::unknown("dag", id);
        problem.error.hint = Some("`landfall dags` lists what was submitted together".into());
        problem
    };
    let (asks, text) = (principal.clone(), id.to_owned());
    let named = app.ask(move |view| {
        Ok(view.member(&text).filter(|member| asks.sees(member.tenant.as_deref())).map(Member::dag))
    });
    // The job that it is named after may be forgotten, while others are not.
    let named = named.await?.unwrap_or_else(|| id.to_owned());
    whole(app, principal, &named).await?.ok_or_else(unknown)
}

/// A DAG with those of its jobs that the asker may see.
async fn whole(app: &App, principal: &Principal, id: &str) -> Result<Option<DagView>, Problem> {
    let named = id.to_owned();
    let members = app.journal.read(move |reader| dags::members(reader, &named)).await?;
    let mut found: Vec<Member> = Vec::new();
    for some in members.chunks(JOBS_AT_ONCE) {
        let (some, asks) = (some.to_vec(), principal.clone());
        let seen = app.ask(move |view| {
            let seen = some.iter().filter_map(|member| view.member(member));
            Ok(seen.filter(|member| asks.sees(member.tenant.as_deref())).collect::<Vec<_>>())
        });
        found.extend(seen.await?);
    }
    let Some(first) = found.first() else { return Ok(None) };
    let (id, tenant, submitted_at_ms) = (id.to_owned(), first.tenant.clone(), first.submitted_at_ms);
    let dag = DagView { id, tenant, submitted_at_ms, ..DagView::default() };
    Ok(Some(summed(dag, found.into_iter().map(|member| member.job).collect())))
}

/// How a job ended, as those that depend on it see it.
fn end_of<'a>(
    id: &'a str,
    jobs: &BTreeMap<&'a str, &'a DagJob>,
    known: &mut BTreeMap<&'a str, Option<TerminalState>>,
) -> Option<TerminalState> {
    if let Some(end) = known.get(id) {
        return *end;
    }
    let job = jobs.get(id)?;
    let end = match job.state.as_str() {
        "completed" => Some(TerminalState::Completed),
        "failed" => Some(TerminalState::Failed),
        "cancelled" if job.reason.as_deref() == Some(UNNEEDED) => Some(TerminalState::Unneeded),
        "cancelled" if job.reason.as_deref() == Some("dependency_unsatisfiable") => {
            let mut broken =
                job.depends_on.iter().filter_map(|edge| match (edge.kind, end_of(&edge.on, jobs, known)?) {
                    (EdgeKind::Any | EdgeKind::Mutex, _)
                    | (EdgeKind::Success | EdgeKind::Corresponding, TerminalState::Completed)
                    | (EdgeKind::Failure, TerminalState::Failed) => None,
                    (EdgeKind::Failure, _) => Some(true),
                    (_, end) => Some(end == TerminalState::Unneeded),
                });
            // Whoever waits for a failure that did not happen is not needed, nor is whoever waits for that.
            let unneeded = broken.next().is_some_and(|first| first && broken.all(|unneeded| unneeded));
            Some(if unneeded { TerminalState::Unneeded } else { TerminalState::Cancelled })
        }
        "cancelled" => Some(TerminalState::Cancelled),
        _ => None,
    };
    known.insert(id, end);
    end
}

/// A DAG with what its jobs add up to.
fn summed(mut dag: DagView, mut jobs: Vec<DagJob>) -> DagView {
    let mut tally = DagTally::new(u32::try_from(jobs.len()).unwrap_or(u32::MAX));
    let by_id: BTreeMap<&str, &DagJob> = jobs.iter().map(|job| (job.id.as_str(), job)).collect();
    let mut known = BTreeMap::new();
    let ends: Vec<Option<TerminalState>> =
        jobs.iter().map(|job| end_of(&job.id, &by_id, &mut known)).collect();
    for (job, end) in jobs.iter_mut().zip(&ends) {
        let sum = match end {
            None if job.state == "pending" => &mut dag.pending,
            None => &mut dag.running,
            Some(TerminalState::Completed) => &mut dag.completed,
            Some(TerminalState::Failed) => &mut dag.failed,
            Some(TerminalState::Cancelled) => &mut dag.cancelled,
            Some(TerminalState::Unneeded) => {
                job.state = UNNEEDED.into();
                &mut dag.unneeded
            }
        };
        *sum += 1;
        if job.started_at_ms.is_some() || !["pending", "cancelled", "unneeded"].contains(&job.state.as_str())
        {
            tally.started();
        }
        end.iter().for_each(|end| tally.ended(*end));
    }
    let over = ends.iter().all(Option::is_some);
    dag.total = jobs.len() as u64;
    dag.started_at_ms = jobs.iter().filter_map(|job| job.started_at_ms).min();
    dag.ended_at_ms = jobs.iter().filter_map(|job| job.ended_at_ms).max().filter(|_| over);
    (dag.state, dag.failing) = match tally.state() {
        DagState::Pending { failing } => ("pending".into(), failing),
        DagState::Running { failing } => ("running".into(), failing),
        DagState::Completed => ("completed".into(), false),
        DagState::Failed => ("failed".into(), false),
    };
    dag.jobs = jobs;
    dag
}

/// Those that have not ended, each before what it depends on: whoever goes first must not let another one start.
fn last_first(jobs: &[DagJob]) -> Vec<String> {
    let mut left: BTreeMap<&str, &DagJob> = (jobs.iter())
        .filter(|job| !["completed", "failed", "cancelled", "unneeded"].contains(&job.state.as_str()))
        .map(|job| (job.id.as_str(), job))
        .collect();
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let needed: BTreeSet<&str> =
            left.values().flat_map(|job| &job.depends_on).map(|edge| edge.on.as_str()).collect();
        let mut next: Vec<&str> = left.keys().copied().filter(|id| !needed.contains(id)).collect();
        if next.is_empty() {
            // There are no circles; were there one, its jobs would go all the same.
            next = left.keys().copied().collect();
        }
        for id in next {
            left.remove(id);
            order.push(id.to_owned());
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use landfall_api::job::DependsOn;

    use super::*;

    fn job(id: &str, state: &str, on: &[(&str, EdgeKind)]) -> DagJob {
        let depends_on =
            on.iter().map(|(on, kind)| DependsOn { on: (*on).to_owned(), kind: *kind }).collect();
        let reason = (state == "unsatisfiable").then(|| "dependency_unsatisfiable".to_owned());
        let state = if state == "unsatisfiable" { "cancelled" } else { state };
        DagJob { id: id.into(), state: state.into(), reason, depends_on, ..DagJob::default() }
    }

    #[test]
    fn a_dag_stands_where_its_jobs_stand() {
        use EdgeKind::{Any, Failure, Success};
        let first = |state| job("1", state, &[]);
        for (jobs, state, failing, counts) in [
            (
                vec![first("pending"), job("2", "pending", &[("1", Success)])],
                "pending",
                false,
                [2, 0, 0, 0, 0, 0],
            ),
            (
                vec![first("running"), job("2", "pending", &[("1", Success)])],
                "running",
                false,
                [1, 1, 0, 0, 0, 0],
            ),
            (vec![first("failed"), job("2", "running", &[("1", Any)])], "running", true, [0, 1, 0, 1, 0, 0]),
            (
                vec![first("failed"), job("2", "unsatisfiable", &[("1", Success)])],
                "failed",
                false,
                [0, 0, 0, 1, 1, 0],
            ),
            (
                vec![
                    first("completed"),
                    job("2", "unsatisfiable", &[("1", Failure)]),
                    job("3", "unsatisfiable", &[("2", Success)]),
                ],
                "completed",
                false,
                [0, 0, 1, 0, 0, 2],
            ),
            (vec![first("completed"), job("2", "cancelled", &[])], "failed", false, [0, 0, 1, 0, 1, 0]),
        ] {
            let dag = summed(DagView::default(), jobs);
            let found = [dag.pending, dag.running, dag.completed, dag.failed, dag.cancelled, dag.unneeded];
            assert_eq!((dag.state.as_str(), dag.failing, found), (state, failing, counts), "{:?}", dag.jobs);
        }
    }

    #[test]
    fn who_depends_on_others_is_taken_back_first() {
        use EdgeKind::{Any, Success};
        let jobs = [
            job("1", "completed", &[]),
            job("2", "running", &[("1", Success)]),
            job("3", "pending", &[("2", Any)]),
            job("4", "pending", &[("2", Success), ("3", Success)]),
        ];
        assert_eq!(last_first(&jobs), ["4", "3", "2"]);
    }
}
