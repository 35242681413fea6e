//! Workloads: named templates of jobs, which nodes could run them, and what a node could run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use landfall_api::answer::Acted;
use landfall_api::job::JobRequest;
use landfall_api::token::Role;
use landfall_api::workload::{Availability, NodeWorkload, NodeWorkloads, WorkloadView};
use landfall_engine::state::PoolState;
use landfall_model::{Job, JobSpec, WorkloadId};
use landfall_policy::rules::service::{at_its_best, is_about_node};
use landfall_policy::verdict::{Direction, Fact, Level, Verdict};
use landfall_policy::view::Pass;
use landfall_policy::{Policy, builtin, policy_file};
use landfall_store::{Change, Table};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared, read_all};
use super::auth::{Operator, Principal, Submitter};
use super::extract::{At, AtNode, Body, check_match, tagged, unless_known};
use super::fleet::version_of;
use super::jobs::json;
use super::problem::{BodyProblems, Problem, Problems, Reply};
use super::status::word;
use crate::driver::View;
use crate::driver::intake::{self, template_of};

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(one, set, delete))
        .routes(routes!(availability))
        .routes(routes!(of_node))
}

fn shown(id: &str, template: JobRequest) -> WorkloadView {
    WorkloadView { id: id.to_owned(), version: version_of(&template), template }
}

fn stored(view: &mut View<'_>, id: &str) -> Result<Option<WorkloadView>, Problem> {
    Ok(view.workload(id)?.map(|template| shown(id, template)))
}

fn known(view: &mut View<'_>, id: &str) -> Result<WorkloadView, Problem> {
    stored(view, id)?.ok_or_else(|| Problem::unknown("workload", id))
}

/// Lists workloads.
#[utoipa::path(get, path = "/workloads", tag = "workloads",
    responses((status = 200, description = "All workloads.", body = Vec<WorkloadView>), Problems))]
async fn list(State(app): Shared, _submitter: Submitter) -> Reply<Vec<WorkloadView>> {
    let all = app.ask(|view| Ok(read_all(view, Table::Workloads)?)).await?;
    let readable = all.into_iter().filter_map(|(id, bytes)| match template_of(&id, &bytes) {
        Ok(template) => Some(shown(&id, template)),
        Err(failure) => {
            tracing::warn!(error = %failure, "a workload is left out");
            None
        }
    });
    Ok(Json(readable.collect()))
}

/// Shows a workload.
#[utoipa::path(get, path = "/workloads/{id}", tag = "workloads", params(("id" = String, Path, description = "The workload."),
        ("If-None-Match" = Option<String>, Header, description = "The ETag that is known already.")),
    responses((status = 200, description = "The workload.", body = WorkloadView,
            headers(("ETag" = String, description = "Changes whenever the template does."))),
        (status = 304, description = "It has not changed."), Problems))]
async fn one(
    State(app): Shared,
    _submitter: Submitter,
    At(id): At<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = app.ask(move |view| known(view, &id)).await?;
    Ok(unless_known(&headers, &found.version, &found))
}

/// Stores a workload.
#[utoipa::path(put, path = "/workloads/{id}", tag = "workloads", request_body = JobRequest,
    params(("id" = String, Path, description = "The workload."),
        ("If-Match" = Option<String>, Header, description = "Change it only if this is its ETag.")),
    responses((status = 200, description = "The workload as it is now.", body = WorkloadView,
        headers(("ETag" = String, description = "Changes whenever the template does."))), Problems, BodyProblems))]
async fn set(
    State(app): Shared,
    _operator: Operator,
    At(id): At<String>,
    headers: HeaderMap,
    Body(template): Body<JobRequest>,
) -> Result<Response, Problem> {
    let _one_by_one = app.edits.lock().await;
    WorkloadId::new(&id).map_err(|error| Problem::bad(error.to_string(), "choose another name"))?;
    let of_another = template.workload.is_some() || template.needs.workload.is_some();
    if of_another || template.array.is_some() || !template.depends_on.is_empty() {
        let message = "a template has no workload, array or dependencies of its own";
        return Err(Problem::invalid("workload", message, "give those when a job is submitted"));
    }
    let (asked, checked) = (id.clone(), template.clone());
    // One that cannot be read is replaced.
    let before = app.ask(move |view| {
        view.check_template(&checked)?;
        Ok(stored(view, &asked).ok().flatten())
    });
    let before = before.await?;
    check_match(&headers, before.as_ref().map(|known| known.version.as_str()))?;
    let bytes = json(&template)?.to_string().into_bytes();
    app.handle.apply_all(Vec::new(), vec![Change::put(Table::Workloads, id.clone(), bytes)]).await?;
    let found = shown(&id, template);
    Ok(tagged(&found.version, &found))
}

/// Deletes a workload; jobs made from it stay.
#[utoipa::path(delete, path = "/workloads/{id}", tag = "workloads", params(("id" = String, Path, description = "The workload."),
        ("If-Match" = Option<String>, Header, description = "Delete it only if this is its ETag.")),
    responses((status = 200, description = "It is gone.", body = Acted),
        (status = 412, description = "It has changed.", body = landfall_api::ApiError), Problems))]
async fn delete(
    State(app): Shared,
    _operator: Operator,
    At(id): At<String>,
    headers: HeaderMap,
) -> Reply<Acted> {
    let _one_by_one = app.edits.lock().await;
    let asked = id.clone();
    let before = app.ask(move |view| known(view, &asked)).await?;
    check_match(&headers, Some(&before.version))?;
    app.handle.apply_all(Vec::new(), vec![Change::delete(Table::Workloads, id)]).await?;
    Ok(Json(Acted::default()))
}

/// The policy that says how well workloads suit: the pool's own if it has levels, else `fit`.
fn policy_of(pool: &PoolState) -> Result<Policy, Problem> {
    let own = match &pool.policy {
        Some(text) => policy_file::load(text).ok(),
        None => builtin::policy(pool.pool.policy_name()).and_then(Result::ok),
    };
    let usual = || builtin::policy("fit").and_then(Result::ok);
    let policy = own.filter(|policy| {
        policy.spec().name == "fit" || json(policy.spec()).is_ok_and(|spec| spec["levels"] == "fit")
    });
    policy.or_else(usual).ok_or_else(|| Problem::unknown("policy", "fit"))
}

fn estimate(verdict: &Verdict) -> Option<f64> {
    let is_llm = verdict.facts.get("estimate_unit") == Some(&Fact::word("tok/s"));
    match verdict.facts.get("estimate") {
        Some(Fact::Number(number)) if is_llm => Some(rounded(*number)),
        _ => None,
    }
}

/// Six decimals, so that two runs give the same bytes.
fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

/// Which nodes could run a workload now, and how well.
#[utoipa::path(get, path = "/workloads/{id}/availability", tag = "workloads",
    params(("id" = String, Path, description = "The workload.")),
    responses((status = 200, description = "Counts, and the best node's level and score.", body = Availability),
        (status = 422, description = "No job of it could be submitted.", body = landfall_api::ApiError), Problems))]
pub(crate) async fn availability(
    State(app): Shared,
    Submitter(principal): Submitter,
    At(id): At<String>,
) -> Reply<Availability> {
    let answer = app.ask(move |view| {
        known(view, &id)?;
        let mut job = view.job_of_workload(&principal.caller(), &id, None)?;
        // Where a job may run is asked, not where it would rather run.
        Arc::make_mut(&mut job.spec).region = None;
        let pool = job.spec.pool.as_ref().and_then(|pool| view.engine.state().pool(pool));
        let pool = pool.ok_or_else(|| Problem::unknown("pool", ""))?;
        let policy = policy_of(pool)?;
        let pass = Pass::of_parts(view.now, &pool.world, &pool.nodes, Default::default());
        let ranking = policy.rank_nodes_in(&pass, &tie_ranks(pool), &job);
        let mut levels: BTreeMap<String, u64> =
            ["perfect", "good", "marginal", "too_tight"].map(|level| (level.to_owned(), 0)).into();
        let (mut ready, mut filtered) = (0, BTreeMap::new());
        let left: BTreeSet<&str> =
            pool.nodes.iter().filter(|node| node.has_left()).map(|node| node.id.as_str()).collect();
        let there = |verdict: &&Verdict| !left.contains(verdict.candidate.as_str());
        for verdict in ranking.candidates.iter().filter(there) {
            let mut reasons: Vec<&str> =
                verdict.refusals.iter().map(|refused| refused.refusal.reason.name()).collect();
            reasons.sort_unstable();
            reasons.dedup();
            for reason in reasons {
                *filtered.entry(reason.to_owned()).or_insert(0) += 1;
            }
            if let Some(level) = verdict.level.filter(|_| verdict.is_admitted()) {
                *levels.entry(word(&level)).or_insert(0) += 1;
                ready += u64::from(level > Level::TooTight);
            }
        }
        let best = ranking.winner.as_ref();
        let best =
            best.and_then(|winner| ranking.candidates.iter().find(|verdict| verdict.candidate == *winner));
        Ok(Availability {
            workload: id,
            ready,
            best_level: best.and_then(|verdict| verdict.level).map(|level| word(&level)),
            best_score: best.and_then(|verdict| verdict.total).map(rounded),
            estimated_throughput: best.and_then(estimate),
            levels,
            filtered,
        })
    });
    answer.await.map(Json)
}

/// The order of nodes that are otherwise equal: by id.
fn tie_ranks(pool: &PoolState) -> Vec<u32> {
    let mut by_id: Vec<usize> = (0..pool.nodes.len()).collect();
    by_id.sort_by(|a, b| pool.nodes[*a].id.cmp(&pool.nodes[*b].id));
    let mut ranks = vec![0; by_id.len()];
    for (rank, slot) in (0..).zip(by_id) {
        ranks[slot] = rank;
    }
    ranks
}

/// Which workloads a node could run, best first.
#[utoipa::path(get, path = "/nodes/{id}/workloads", tag = "workloads", params(("id" = String, Path, description = "The node.")),
    responses((status = 200, description = "Compatible workloads.", body = NodeWorkloads), Problems))]
pub(crate) async fn of_node(
    State(app): Shared,
    principal: Principal,
    AtNode(id): AtNode,
) -> Reply<NodeWorkloads> {
    if principal.role == Role::Agent {
        principal.speaks_for(&id)?;
    }
    let answer = app.ask(move |view| {
        let names: Vec<String> =
            read_all(view, Table::Workloads)?.into_iter().map(|(name, _)| name).collect();
        let pool = view.engine.state().places.get(&id).map(|(pool, _)| pool.clone());
        let mut jobs = Vec::with_capacity(names.len());
        for name in names {
            // The node works for its own pool, whatever pool the workload prefers.
            if let Ok(job) = view.job_of_workload(&principal.caller(), &name, pool.as_ref()) {
                jobs.push((name, job));
            }
        }
        let state = view.engine.state();
        let unknown = || Problem::unknown("node", id.as_str());
        let (node, _) = state.node(&id).filter(|(node, _)| !node.has_left()).ok_or_else(unknown)?;
        let pool = state.places.get(&id).and_then(|(pool, _)| state.pools.get(pool)).ok_or_else(unknown)?;
        let policy = policy_of(pool)?;
        let pass = Pass::of_parts(view.now, &pool.world, &pool.nodes, Default::default());
        // Whether a node takes work does not keep its owner from seeing what it is good for.
        let well = at_its_best(node, view.now);
        let mut reasons: Vec<String> = Vec::new();
        let mut workloads = Vec::new();
        let probe = Job::new(intake::planned()?, Arc::new(JobSpec::empty()), view.now);
        let verdict = policy.pair_verdict(&pass, &probe, node, Direction::NodesForJob);
        for refused in verdict.refusals.iter().filter(|refused| is_about_node(&refused.filter)) {
            let reason = refused.refusal.reason.to_string();
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        for (name, job) in &jobs {
            let verdict = policy.pair_verdict(&pass, job, &well, Direction::NodesForJob);
            let level = verdict.level.filter(|level| *level > Level::TooTight);
            let (Some(level), Some(total)) = (level, verdict.total) else { continue };
            let points = |term: &str| rounded(verdict.term(term).map_or(0.0, |score| score.raw));
            workloads.push(NodeWorkload {
                workload: name.clone(),
                level: word(&level),
                composite: rounded(total),
                speed: points("speed"),
                fit: points("fit"),
                headroom: points("headroom"),
                estimate: estimate(&verdict),
            });
        }
        workloads
            .sort_by(|a, b| b.composite.total_cmp(&a.composite).then_with(|| a.workload.cmp(&b.workload)));
        Ok(NodeWorkloads { node: id.to_string(), dispatchable: reasons.is_empty(), reasons, workloads })
    });
    answer.await.map(Json)
}
