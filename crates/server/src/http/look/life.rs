//! What happened to one job or one node, from the journal.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use landfall_api::Paged;
use landfall_api::board::LifeStep;
use landfall_engine::Event;
use landfall_model::life::{Cause, JobState, StartKind};
use landfall_model::{JobId, NodeId, Time};
use landfall_store::Stored;
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::app::Shared;
use super::super::auth::Submitter;
use super::super::extract::{At, AtNode, Params};
use super::super::history::{backwards, visible};
use super::super::jobs::limit;
use super::super::problem::{Problem, Problems, Reply};
use super::super::status::word;

/// Which steps.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// How many at most: 1 to 500, 100 if left out.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// `next` of the page before.
    cursor: Option<u64>,
}

/// What happened to a job, newest first: its attempts, and how each ended. A page may be shorter than asked for and still have a next.
#[utoipa::path(get, path = "/jobs/{id}/life", tag = "board",
    params(Which, ("id" = String, Path, description = "The job.")),
    responses((status = 200, description = "One page.", body = Paged<LifeStep>), Problems))]
pub(crate) async fn of_job(
    State(app): Shared,
    Submitter(principal): Submitter,
    At(id): At<String>,
    Params(which): Params<Which>,
) -> Reply<Paged<LifeStep>> {
    let (most, cursor) = (limit(which.limit, 500)?, which.cursor);
    let job = app.job(&principal, &id).await?;
    let instant = |ms: u64| Time::from_millis(i64::try_from(ms).unwrap_or(i64::MAX));
    // Nothing happened to it before it came or after it ended, so the rest need not be looked through.
    let within = [Some(instant(job.submitted_at_ms)), job.ended_at_ms.map(instant)];
    let id = JobId::new(&job.id).map_err(|_| Problem::unknown("job", &id))?;
    let found = app
        .journal
        .read(move |reader| backwards(reader, cursor, within, most, |stored| step_of_job(&id, stored)));
    let (items, next) = found.await?;
    Ok(Json(Paged { items, next: next.map(|seq| seq.to_string()) }))
}

/// What happened to a node, newest first, beside the jobs that it got. A page may be shorter than asked for and still have a next.
#[utoipa::path(get, path = "/nodes/{id}/life", tag = "board",
    params(Which, ("id" = String, Path, description = "The node.")),
    responses((status = 200, description = "One page.", body = Paged<LifeStep>), Problems))]
pub(crate) async fn of_node(
    State(app): Shared,
    Submitter(principal): Submitter,
    AtNode(id): AtNode,
    Params(which): Params<Which>,
) -> Reply<Paged<LifeStep>> {
    let (most, cursor) = (limit(which.limit, 500)?, which.cursor);
    let node = id.clone();
    app.ask(move |view| view.node(&node).map(drop).ok_or_else(|| Problem::unknown("node", node.as_str())))
        .await?;
    let found = app
        .journal
        .read(move |reader| backwards(reader, cursor, [None; 2], most, |stored| step_of_node(&id, stored)));
    let (mut items, next) = found.await?;
    if !principal.sees_all() {
        let jobs: BTreeSet<String> = items.iter().filter_map(|step| step.job.clone()).collect();
        let seen = visible(&app, &principal, jobs).await?;
        for step in &mut items {
            step.job = step.job.take().filter(|job| seen.get(job).copied().unwrap_or(false));
        }
    }
    Ok(Json(Paged { items, next: next.map(|seq| seq.to_string()) }))
}

fn step(stored: &Stored, text: String) -> LifeStep {
    let kind = word(&stored.event);
    let at_ms = u64::try_from(stored.at.as_millis()).unwrap_or(0);
    LifeStep { seq: stored.seq, at_ms, kind, text, job: None, nodes: Vec::new() }
}

fn step_of_job(id: &JobId, stored: &Stored) -> Option<LifeStep> {
    let mut nodes: Vec<&NodeId> = Vec::new();
    let text = match &stored.event {
        Event::Submitted { job, .. } if job.id == *id => "it was submitted".to_owned(),
        Event::Eligible(job) if job == id => "what it waited for is over".to_owned(),
        Event::UserHold { job, held } if job == id => match held {
            true => "it is held back".to_owned(),
            false => "it was released".to_owned(),
        },
        Event::WalltimeSet { job, walltime } if job == id => format!("it may run for {walltime} now"),
        Event::Committed(commit) if commit.job == *id => {
            nodes.extend(commit.grants.iter().map(|grant| &grant.node));
            match commit.kind {
                StartKind::Start => "it was placed".to_owned(),
                StartKind::Backfill => "it was placed ahead of others, whom it does not delay".to_owned(),
                StartKind::Preempt => "it was placed where others made room".to_owned(),
            }
        }
        Event::Afresh { job, node } if job == id => {
            nodes.push(node);
            "it began anew: its checkpoint is not there".to_owned()
        }
        Event::Reported { job, node, exit: Some(code), .. } if job == id && *code != 0 => {
            nodes.push(node);
            format!("it exited with {code}")
        }
        Event::Started(job) if job == id => "it runs on all its nodes".to_owned(),
        Event::Saving { job, leaves, .. } if job == id => match leaves {
            Some(cause) => format!("it saves its work and then leaves: {}", cause.said()),
            None => "it saves its work".to_owned(),
        },
        Event::Saved(job) if job == id => "it has saved its work and goes on".to_owned(),
        Event::SaveFailed(job) if job == id => "it could not save its work and goes on".to_owned(),
        Event::Stopping { job, cause, .. } if job == id => format!("it was told to stop: {}", cause.said()),
        Event::Noticed { job, cause, .. } if job == id => {
            format!("it was told that it will have to leave: {}", cause.said())
        }
        Event::Suspended { job, cause } if job == id => {
            format!("it saved its work and left its nodes: {}", cause.said())
        }
        Event::Requeued { job, back } if job == id => {
            format!("it went back to the queue: {}", back.cause.said())
        }
        Event::Resized { job, gained, lost, .. } if job == id => {
            nodes.extend(gained.iter().map(|grant| &grant.node).chain(lost));
            format!("it got {} more nodes and gave {} back", gained.len(), lost.len())
        }
        Event::Ended { job, state, cause } if job == id => match (state, cause) {
            (JobState::Completed, Cause::Exit(0)) => "it ended well".to_owned(),
            (JobState::Completed, cause) => format!("it ended well: {}", cause.said()),
            (JobState::Cancelled, cause) => format!("it was taken back: {}", cause.said()),
            (_, cause) => format!("it failed: {}", cause.said()),
        },
        _ => return None,
    };
    let nodes = nodes.into_iter().map(ToString::to_string).collect();
    Some(LifeStep { nodes, ..step(stored, text) })
}

fn step_of_node(id: &NodeId, stored: &Stored) -> Option<LifeStep> {
    let text = match &stored.event {
        Event::NodeJoined { pool, node } if node.id == *id => {
            format!("it registered with pool {pool}")
        }
        Event::NodeMoved { node, to } if node == id => format!("it is {} from then on", word(to)),
        Event::Maintenance { node, at, why } if node == id => {
            let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            match at {
                Some(_) => format!("it was planned to take it out of service{why}"),
                None if why.is_empty() => "nothing keeps it out of service any more".to_owned(),
                None => format!("it was taken out of service{why}"),
            }
        }
        Event::NodeFault { node, wrong_result, .. } if node == id => match wrong_result {
            true => "a result of it was proven wrong".to_owned(),
            false => "it did not start a job".to_owned(),
        },
        Event::Probed { node, good } if node == id => match good {
            true => "a probe found it well".to_owned(),
            false => "a probe found it not well".to_owned(),
        },
        Event::NodeLeft(node) if node == id => "it left".to_owned(),
        Event::Committed(commit) => {
            let grant = commit.grants.iter().find(|grant| grant.node == *id)?;
            let lender = grant.lender.as_ref()?;
            let mut lent = step(stored, format!("pool {lender} lent it to another one"));
            lent.kind = "lent".to_owned();
            lent.job = Some(commit.job.to_string());
            return Some(lent);
        }
        _ => return None,
    };
    Some(step(stored, text))
}
