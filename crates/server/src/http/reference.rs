//! Generated files: the OpenAPI document and the page of metrics. `cargo xtask generate` writes them, tests compare them.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use landfall_api::token::{Role, TokenRequest};
use landfall_engine::Event;
use landfall_engine::event::Back;
use landfall_engine::record::{Cause, JobState};
use landfall_engine::solver::{MoveCause, Reservation};
use landfall_model::answer::Fared;
use landfall_model::{JobId, NodeId, PoolId, Time};
use landfall_negotiate::{Failure, Metric, Reason, Received};
use landfall_store::Reader as _;
use landfall_store::sqlite::Sqlite;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::app::App;
use super::{auth, tokens};
use crate::config::Config;
use crate::driver::{self, Happened};
use crate::logs::Logs;

#[test]
fn openapi_is_checked_in_and_what_it_breaks_is_listed() {
    let document: Value = serde_json::to_value(super::documented().1).unwrap();
    let (file, notes) = ("docs/reference/openapi.json", "docs/reference/api-changes.md");
    let kept = landfall_xtask::openapi::keep(file, notes, &document, landfall_xtask::writing());
    assert!(kept.is_ok(), "{}", kept.unwrap_err());
}

async fn ask(router: &Router, secret: &str, what: &str, body: Value) -> String {
    let (method, path) = what.split_once(' ').unwrap();
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let request = request.header("authorization", format!("Bearer {secret}"));
    let body = if method == "GET" { Body::empty() } else { Body::from(body.to_string()) };
    let response = router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
    let status = response.status();
    let text = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(matches!(status, StatusCode::OK | StatusCode::CREATED), "{what}: {status} {text}");
    text
}

/// Events that make every counter count that a plain submission does not.
fn rare() -> Vec<Event> {
    let job = || JobId::new("1").unwrap();
    let (pool, node) = (PoolId::new("default").unwrap(), NodeId::new("n1").unwrap());
    let back = Back { cause: Cause::NodeLost, retry_at: None, counts: true, failed: false };
    let reservation = Reservation {
        job: job(),
        start: Time::ZERO,
        end: None,
        kinds: Vec::new(),
        shared: Vec::new(),
        of: Vec::new(),
        devices: Vec::new(),
    };
    vec![
        Event::Saving { job: job(), deadline: Time::ZERO, leaves: Some(Cause::Preempted) },
        Event::Suspended { job: job(), cause: Cause::Preempted },
        Event::Requeued { job: job(), back: Box::new(back) },
        Event::Reserved { pool, reservation: Box::new(reservation), moved: Some(MoveCause::NodeLost) },
        Event::Resized { job: job(), gained: Vec::new(), lost: Vec::new(), units: 0, gpus: 0, power_w: 0 },
        Event::NodeFault { node, start: true, wrong_result: false },
        Event::Ended { job: job(), state: JobState::Completed, cause: Cause::Exit(0) },
    ]
}

/// What a router with a driver behind it serves after one job and one of everything rare.
async fn scraped() -> (String, Vec<&'static str>) {
    let dir = tempfile::tempdir().unwrap();
    let config = Config::new(dir.path().to_owned());
    let store = Sqlite::open(dir.path()).unwrap();
    let journal = store.incarnation().to_owned();
    let (handle, stats, thread) = driver::start(&config, Box::new(store)).unwrap();
    let logs = Arc::new(Logs::open(dir.path(), &journal, config.log_limit).unwrap());
    let app = Arc::new(App::new(config, journal, handle.clone(), stats, logs, CancellationToken::new()));
    let request = TokenRequest {
        name: "test".into(),
        role: Role::Admin,
        tenant: None,
        node: None,
        expires_at_ms: None,
        max_cpu_milli: None,
        max_ram_mib: None,
    };
    let (stored, token) = auth::make(request, Time::ZERO).unwrap();
    tokens::store(&app, stored).await.unwrap();
    let router = super::router(app.clone());
    let mut happened = handle.listen();
    ask(&router, &token.secret, "PUT /api/v1/tenants/t", json!({ "budget": { "money": 10 } })).await;
    let surges = json!({ "pool": { "price": { "base": 1.0, "surge": true } } });
    ask(&router, &token.secret, "PUT /api/v1/pools/default", surges).await;
    // A figure that cannot be true is an alarm.
    let heartbeat = json!({ "power_w": -5, "epoch": 1, "seq": 1, "agent_version": "1", "platform": "desktop", "accepting": true,
        "cpu_milli": 8000, "ram_mib": 16384,
        "performance_estimates": { "supported_runtimes": ["process"], "max_concurrent_containers": 1,
            "wasm_memory_limit_mb": 0 } });
    ask(&router, &token.secret, "PUT /api/v1/nodes/n1/registration", json!({ "heartbeat": heartbeat })).await;
    let job = json!({ "needs": { "tenant": "t" }, "run": { "command": ["true"] } });
    ask(&router, &token.secret, "POST /api/v1/jobs", job).await;
    while let Ok(batch) = happened.try_recv() {
        super::count(&app, &batch).await;
    }
    let rare = rare().into_iter().map(|event| Happened { seq: 0, at: Time::ZERO, event });
    app.metrics.follow(&rare.collect::<Vec<_>>(), &|_| "default".to_owned());
    let cycled = Event::Cycled { pool: PoolId::new("default").unwrap(), next: Time::ZERO };
    app.stats.cycles.note(&[cycled], std::time::Duration::ZERO);
    app.metrics.tell_fared("default", &Fared { low: 0.5, middle: 1.0, high: 1.1, ratios: Vec::new() });
    for metric in [
        Metric::OfferReceived(Received::Accepted),
        Metric::Score { role: landfall_negotiate::Role::Arbiter, score: 0.5 },
        Metric::Declined(Reason::DoesNotFit),
        Metric::Failed(Failure::NoOffers),
        Metric::MessageRejected(Reason::Forged),
    ] {
        app.metrics.placement.count(&metric);
    }
    app.metrics.placement.message("sent");
    app.metrics.placement.deed(landfall_negotiate::Deed::Kept);
    let page = ask(&router, &token.secret, "GET /metrics", Value::Null).await;
    handle.close().await;
    thread.join().unwrap().unwrap();
    (page, app.metrics.names.clone())
}

#[tokio::test]
async fn every_metric_is_served_and_on_the_page() {
    let (page, names) = scraped().await;
    let of = |line: &str, what: &str| {
        let rest = line.strip_prefix(what)?.split_once(' ')?;
        Some((rest.0.to_owned(), rest.1.to_owned()))
    };
    let mut rows = String::from("| metric | kind | meaning |\n|---|---|---|\n");
    for name in names {
        let name = format!("landfall_{name}");
        let told = |what: &str| page.lines().filter_map(|line| of(line, what)).find(|(of, _)| *of == name);
        let (_, kind) = told("# TYPE ").unwrap_or_else(|| panic!("{name} is not served:\n{page}"));
        let (_, help) = told("# HELP ").unwrap();
        let shown = if kind == "counter" { format!("{name}_total") } else { name.clone() };
        let sample = page.lines().find(|line| line.starts_with(&name)).unwrap();
        let labels = sample.split_once('{').map_or("", |(_, rest)| rest.rsplit_once('}').unwrap().0);
        let labels = labels.split("\",").filter_map(|label| label.split_once('=')).map(|(name, _)| name);
        let labels = labels.filter(|name| *name != "le").collect::<Vec<_>>().join(",");
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        rows += &format!("| `{shown}{labels}` | {kind} | {} |\n", help.trim_end_matches('.'));
    }
    let kept = landfall_xtask::parts("docs/reference/metrics.md", &[("metrics", rows)]);
    assert!(kept.is_ok(), "{}", kept.unwrap_err());
}
