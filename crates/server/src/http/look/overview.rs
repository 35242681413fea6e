//! The cluster at a glance.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use landfall_api::board::{Alarm, OverviewView, PoolGlance};

use super::super::app::{App, Shared};
use super::super::auth::{Principal, Submitter};
use super::super::problem::{Problems, Reply};
use super::census::{self, Census};
use super::fleet::{Fleet, fleet};

/// The cluster at a glance: pools, why jobs wait, what wants attention. It is made at most once a second for everybody.
#[utoipa::path(get, path = "/overview", tag = "board",
    responses((status = 200, description = "Pools, reasons, alarms.", body = OverviewView), Problems))]
pub(crate) async fn overview(State(app): Shared, Submitter(principal): Submitter) -> Reply<OverviewView> {
    app.looks.somebody_looks(&app);
    let fleet = fleet(&app).await?;
    // A quick count is waited for; where it takes long, everybody but the first has the last one while the next is taken.
    if !app.looks.census().will_do() {
        census::count(&app).await?;
    } else {
        let counting = app.clone();
        tokio::spawn(async move { census::count(&counting).await });
    }
    let census = app.looks.census();
    let pools = fleet.pools.iter().map(|pool| {
        let (reasons, unexplained) = census.reasons(&pool.id, &principal);
        PoolGlance {
            id: pool.id.clone(),
            dispatch: pool.dispatch.clone(),
            policy: pool.policy.clone(),
            nodes: pool.nodes,
            ready: pool.ready,
            gpu_milli: pool.gpu_milli,
            cpu_milli: pool.cpu_milli,
            ram_mib: pool.ram_mib,
            waiting: census.waiting(&pool.id),
            running: census.running(&pool.id),
            reasons,
            unexplained,
        }
    });
    let ms = |time: landfall_model::Time| u64::try_from(time.as_millis()).unwrap_or(0);
    Ok(Json(OverviewView {
        at_ms: ms(fleet.at),
        seq: fleet.seq,
        reasons_at_ms: census.at.map(ms),
        nodes: fleet.states.clone(),
        agents_connected: fleet.agents,
        pools: pools.collect(),
        alarms: alarms(&app, &fleet, &census, &principal),
    }))
}

fn jobs(number: u64) -> String {
    if number == 1 { "1 job".to_owned() } else { format!("{number} jobs") }
}

fn nodes(number: u64) -> String {
    if number == 1 { "1 node is".to_owned() } else { format!("{number} nodes are") }
}

/// What wants attention, worst first.
fn alarms(app: &Arc<App>, fleet: &Fleet, census: &Census, principal: &Principal) -> Vec<Alarm> {
    let mut all = Vec::new();
    let mut tell = |level: &str, text: String, hint: &str, page: Option<&str>| {
        let (level, hint, page) = (level.to_owned(), hint.to_owned(), page.map(str::to_owned));
        all.push(Alarm { level, text, hint, page });
    };
    if let Some((message, hint)) = &fleet.trouble {
        tell("bad", format!("nothing can be stored: {message}"), hint, None);
    }
    let count = |state: &str| fleet.states.get(state).copied().unwrap_or(0);
    for (state, level, words, hint) in [
        ("down", "bad", "down", "look at the machine and its agent; jobs that may be started again are"),
        ("unknown", "warn", "silent", "its agent has not been heard for a moment"),
        ("degraded", "warn", "degraded", "it failed too often; drain it, or return it once it is mended"),
    ] {
        if count(state) > 0 {
            let page = format!("/nodes?state={state}");
            tell(level, format!("{} {words}", nodes(count(state))), hint, Some(&page));
        }
    }
    for pool in &fleet.pools {
        if pool.silent > 0 {
            let text = format!(
                "{} nodes of pool {} fell silent at once and keep their jobs for now",
                pool.silent, pool.id
            );
            tell(
                "bad",
                text,
                "look at the network before jobs are started elsewhere",
                Some("/nodes?state=unknown"),
            );
        }
        if let Some(warning) = &pool.warning {
            tell("warn", format!("pool {}: {warning}", pool.id), "see its policy", Some("/policies"));
        }
        if pool.nodes > 0 && pool.ready == 0 && pool.waiting > 0 {
            let text = format!("no node of pool {} takes work, and {} wait", pool.id, jobs(pool.waiting));
            tell("bad", text, "return drained nodes, or start agents", Some("/nodes"));
        }
        if pool.nodes == 0 && pool.waiting > 0 {
            let text = format!("pool {} has no nodes, and {} wait", pool.id, jobs(pool.waiting));
            tell("bad", text, "`landfall agent` on a machine adds it as a node", Some("/nodes"));
        }
        if pool.drifted > 0 {
            let text =
                format!("{} configured differently from what pool {} expects", nodes(pool.drifted), pool.id);
            tell("warn", text, "`landfall return NODE` takes the configuration as right", Some("/nodes"));
        }
    }
    // Every pool knows all blocks.
    if let Some(pool) = fleet.pools.first() {
        for (block, end) in &pool.ending {
            let minutes = end.since(fleet.at).get() / 60_000;
            tell(
                "warn",
                format!("block {block} ends in {minutes} min"),
                "jobs on its nodes have to end before",
                Some("/capacity"),
            );
        }
    }
    let never = census.never(principal);
    if never > 0 {
        let text = format!(
            "{} can never start: no node could ever run {}",
            jobs(never),
            if never == 1 { "it" } else { "them" }
        );
        tell("warn", text, "the reasons say what is missing", Some("/jobs?state=pending"));
    }
    let standing = app.handle.clock().standing();
    if standing.rests || standing.ahead_ms.unsigned_abs() > 2000 {
        let text = format!("the wall clock is {} ms ahead of the server's time", standing.ahead_ms);
        tell("warn", text, "somebody set the clock; the server follows slowly", None);
    }
    all.sort_by_key(|alarm| alarm.level != "bad");
    all
}
