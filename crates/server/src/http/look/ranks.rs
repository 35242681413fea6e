//! The present queue under two policies: who would start sooner, and who later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use landfall_api::board::{RankedJob, RanksView, Standing};
use landfall_engine::answers::misfit;
use landfall_engine::{Answer, Engine, Event, Input};
use landfall_model::life::Refused;
use landfall_model::{JobId, Name, PoolId, TenantId, Time};
use landfall_policy::builtin;
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::app::Shared;
use super::super::auth::Submitter;
use super::super::extract::{At, Params};
use super::super::problem::{Problem, Problems, Reply};
use crate::driver::Failure;

/// Jobs that are shown.
const SHOWN_MAX: usize = 500;

/// Which policies.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// The first policy; the one in force if left out.
    one: Option<String>,
    /// The second policy; the one in force if left out.
    other: Option<String>,
}

/// Shows in which order waiting jobs of a pool would start under two policies. Nothing is changed.
#[utoipa::path(get, path = "/pools/{id}/ranks", tag = "board",
    params(Which, ("id" = String, Path, description = "The pool.")),
    responses((status = 200, description = "Places under both.", body = RanksView),
        (status = 422, description = "A policy does not suit the pool.", body = landfall_api::ApiError), Problems))]
pub(crate) async fn ranks(
    State(app): Shared,
    Submitter(principal): Submitter,
    At(id): At<String>,
    Params(which): Params<Which>,
) -> Reply<RanksView> {
    let _place = super::super::plan::LOOKING_AHEAD.acquire().await.map_err(|_| Failure::Closing)?;
    let pool = PoolId::new(&id).map_err(|_| Problem::unknown("pool", &id))?;
    let (state, now) = app.copy().await?;
    let looked = tokio::task::spawn_blocking(move || {
        let engine = Engine::of(state).at(now);
        let in_force = engine.policy_in_force(&pool).map(|(name, _)| name.to_owned());
        let in_force = in_force.ok_or_else(|| Problem::unknown("pool", pool.as_str()))?;
        let [one, other] = [which.one, which.other].map(|name| name.unwrap_or_else(|| in_force.clone()));
        let starts = starts(&engine, &pool, &one, &in_force, now)?;
        let others =
            if one == other { starts.clone() } else { self::starts(&engine, &pool, &other, &in_force, now)? };
        let (first, second) = (places(&starts), places(&others));
        let mut view =
            RanksView { pool: pool.to_string(), one, other, waiting: 0, moved: 0, jobs: Vec::new() };
        let both: BTreeSet<&JobId> = first.keys().chain(second.keys()).copied().collect();
        for job in both {
            // Who starts at once under one of them only waits in the other.
            let (Some(one), Some(other)) = (first.get(job).copied(), second.get(job).copied()) else {
                continue;
            };
            view.waiting += 1;
            view.moved += u64::from(one.rank != other.rank);
            let tenant = engine.state().job(job).and_then(|record| record.job.spec.tenant.clone());
            if principal.sees(tenant.as_ref().map(TenantId::as_str)) {
                let tenant = tenant.map(|tenant| tenant.to_string());
                view.jobs.push(RankedJob { job: job.to_string(), name: None, tenant, one, other });
            }
        }
        view.jobs.sort_by_key(|job| (std::cmp::Reverse(job.one.rank.abs_diff(job.other.rank)), job.one.rank));
        view.jobs.truncate(SHOWN_MAX);
        Ok::<_, Problem>(view)
    });
    let mut view = looked.await.map_err(|_| Failure::Closing)??;
    let jobs: Vec<String> = view.jobs.iter().map(|job| job.job.clone()).collect();
    let names = app.handle.read(move |view| {
        let name = |job: &String| view.jobs.meta(&JobId::new(job).ok()?)?.name.clone();
        jobs.iter().map(name).collect::<Vec<_>>()
    });
    for (job, name) in view.jobs.iter_mut().zip(names.await?) {
        job.name = name;
    }
    Ok(Json(view))
}

type Starts = BTreeMap<JobId, Option<Time>>;

/// When each waiting job of a pool would start under a policy.
fn starts(engine: &Engine, id: &PoolId, policy: &str, in_force: &str, now: Time) -> Result<Starts, Problem> {
    let known = engine.state().pool(id).ok_or_else(|| Problem::unknown("pool", id.as_str()))?;
    let (mut pool, mut text) = (known.pool.clone(), known.policy.clone());
    if policy != in_force {
        if builtin::spec(policy).is_none() {
            return Err(Problem::unknown("policy", policy));
        }
        pool.policy = Name::new(policy).ok();
        text = None::<Arc<str>>;
    }
    if let Some(message) = misfit(&pool, text.as_deref()) {
        return Err(
            Refused::new("policy_family", message, "`landfall policy list` shows what each is for").into()
        );
    }
    let waiting: Vec<JobId> = engine.estimates_of(id).into_keys().collect();
    let mut copy = Engine::of(engine.state().clone()).at(now);
    let outcome = copy.step(now, Input::SetPool { pool: Box::new(pool), policy: text });
    if let Answer::Refused(refused) = outcome.answer {
        return Err(refused.into());
    }
    let at_once = outcome.events.iter().filter_map(|event| match event {
        Event::Committed(commit) => Some(commit.job.clone()),
        _ => None,
    });
    let at_once: BTreeSet<JobId> = at_once.collect();
    let estimates = copy.estimates_of(id);
    let start = |job: &JobId| match at_once.contains(job) {
        true => Some(now),
        false => estimates.get(job).and_then(|estimate| estimate.likely_start.or(estimate.planned_start)),
    };
    Ok(waiting.into_iter().map(|job| (job.clone(), start(&job))).collect())
}

/// Places from 1 on: by start, and those of which none can be told last.
fn places(starts: &Starts) -> BTreeMap<&JobId, Standing> {
    let mut order: Vec<(&JobId, Option<Time>)> = starts.iter().map(|(job, start)| (job, *start)).collect();
    order.sort_by_key(|(job, start)| (start.is_none(), *start, job.as_str().len(), *job));
    let standing = |(rank, (job, start)): (u32, (_, Option<Time>))| {
        (job, Standing { rank, start_ms: start.map(|at| u64::try_from(at.as_millis()).unwrap_or(0)) })
    };
    (1..).zip(order).map(standing).collect()
}
