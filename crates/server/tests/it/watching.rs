//! Events, decisions, logs, the board, metrics, the OpenAPI document.

use crate::common::{Server, registration};
use reqwest::{Method, Response};
use serde_json::{Value, json};

/// Reads server-sent events until there are so many.
async fn events(mut response: Response, count: usize) -> Vec<(u64, String, Value)> {
    let mut text = String::new();
    let mut found = Vec::new();
    while found.len() < count {
        let chunk = tokio::time::timeout(std::time::Duration::from_secs(60), response.chunk()).await;
        let Ok(Ok(Some(chunk))) = chunk else { panic!("the stream ended: {found:?}") };
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        while let Some((event, rest)) = text.split_once("\n\n") {
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            if let (Some(id), Some(kind), Some(data)) = (field("id:"), field("event:"), field("data:")) {
                let (_, number) = id.split_once('-').expect("the journal and a number");
                found.push((number.parse().unwrap(), kind.to_owned(), serde_json::from_str(data).unwrap()));
            }
            text = rest.to_owned();
        }
    }
    found
}

#[tokio::test]
async fn events_are_replayed_and_go_on() {
    let server = Server::start().await;
    let first = server.job(json!({})).await;
    let open = |after: &str| {
        server.request(Method::GET, &format!("/events?kinds=submitted{after}"), &server.admin).send()
    };
    let replayed = open("&after=0").await.unwrap();
    assert_eq!(replayed.headers()["content-type"], "text/event-stream");
    let live = open("").await.unwrap();
    let second = server.job(json!({})).await;
    let third = server.job(json!({})).await;
    let all = events(replayed, 3).await;
    let jobs: Vec<&str> = all.iter().map(|(_, _, data)| data["job"].as_str().unwrap()).collect();
    assert_eq!(jobs, [&first, &second, &third]);
    assert!(all.iter().all(|(id, kind, data)| kind == "submitted" && data["seq"] == json!(id)));
    assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0));
    let live: Vec<u64> = events(live, 2).await.iter().map(|(id, ..)| *id).collect();
    assert_eq!(live, [all[1].0, all[2].0]);
    // Somebody who comes back goes on behind the last event that was seen.
    let (_, status) = server.get("/status").await;
    let journal = status["journal"].as_str().unwrap();
    let back = |id: String| {
        let request = server.request(Method::GET, "/events?kinds=submitted", &server.admin);
        request.header("last-event-id", id).send()
    };
    for id in [all[1].0.to_string(), format!("{journal}-{}", all[1].0)] {
        assert_eq!(events(back(id).await.unwrap(), 1).await[0].0, all[2].0);
    }
    let other = back(format!("0123456789abcdef-{}", all[1].0)).await.unwrap();
    assert_eq!(other.status(), 409);
    assert_eq!(other.json::<Value>().await.unwrap()["code"], "other_journal");
    // Browsers cannot send headers with a stream.
    let with_token =
        format!("{}/api/v1/events?after=0&kinds=submitted&access_token={}", server.url, server.admin);
    let with_token = server.http.get(with_token).send().await.unwrap();
    assert_eq!(events(with_token, 1).await[0].0, all[0].0);
}

#[tokio::test]
async fn decisions_are_kept_with_their_breakdown() {
    let server = Server::start().await;
    server.node("n1").await;
    let id = server.job(json!({ "cpu_milli": 1000 })).await;
    let (status, page) = server.get(&format!("/decisions?job={id}")).await;
    assert_eq!(status, 200, "{page}");
    let decision = &page["items"][0];
    assert_eq!((&decision["job"], &decision["nodes"][0]["node"]), (&json!(id), &json!("n1")), "{page}");
    assert!(decision["terms"].as_array().is_some_and(|terms| !terms.is_empty()), "{page}");
    let (_, explained) = server.get(&format!("/jobs/{id}/explain")).await;
    assert_eq!(explained["state"], "staging", "{explained}");
    let (_, placed) = server.get(&format!("/jobs/{id}/placement")).await;
    assert_eq!(placed["placed"]["nodes"][0]["node"], "n1", "{placed}");
    let (_, planned) = server.post("/placement/dry-run", json!({ "run": { "command": ["true"] } })).await;
    assert_eq!(planned["starts"][0]["job"], "planned", "{planned}");
    let (_, jobs) = server.get("/jobs").await;
    assert_eq!(jobs["items"].as_array().unwrap().len(), 1, "a plan changes nothing");
}

#[tokio::test]
async fn logs_are_followed_to_the_end_of_the_job() {
    let server = Server::start().await;
    server.node("n1").await;
    let id = server.job(json!({ "cpu_milli": 1000 })).await;
    let (_, placed) = server.get(&format!("/jobs/{id}/placement")).await;
    let fence = placed["placed"]["fence"].clone();
    let report = |report: Value| json!({ "reports": [{ "fence": fence, "report": report }] });
    server.post("/nodes/n1/reports", report(json!("started"))).await;
    let piece = |stream: &str, offset: u64, data: &str| json!({ "pieces": [{ "fence": fence, "stream": stream, "offset": offset, "data": data }] });
    server.post("/nodes/n1/logs", piece("stdout", 0, "YQpiCg==")).await;
    let path = format!("/jobs/{id}/logs?follow=true");
    let follow = server.request(Method::GET, &path, &server.admin).send().await.unwrap();
    let tail =
        server.request(Method::GET, &format!("/jobs/{id}/logs?tail=1"), &server.admin).send().await.unwrap();
    assert_eq!(tail.text().await.unwrap().lines().count(), 1);
    server.post("/nodes/n1/logs", piece("stderr", 0, "Ywo=")).await;
    // An agent sends all that a job wrote before it says that the job ended.
    server.post("/nodes/n1/logs", piece("stdout", 4, "ZAo=")).await;
    let exit = json!({ "exited": { "code": 3, "failure": null, "usage": {} } });
    server.post("/nodes/n1/reports", report(exit)).await;
    let text = follow.text().await.unwrap();
    let chunks: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said: Vec<(&str, &str)> = chunks
        .iter()
        .map(|chunk| (chunk["stream"].as_str().unwrap(), chunk["data"].as_str().unwrap()))
        .collect();
    assert_eq!(said, [("stdout", "YQpiCg=="), ("stderr", "Ywo="), ("stdout", "ZAo=")]);
    let (_, job) = server.get(&format!("/jobs/{id}")).await;
    assert_eq!((&job["state"], &job["exit_code"]), (&json!("failed"), &json!(3)), "{job}");
}

#[tokio::test]
async fn the_board_has_its_own_shapes() {
    let server = Server::start().await;
    server.node("n1").await;
    let id = server.job(json!({ "cpu_milli": 1000 })).await;
    server.job(json!({ "cpu_milli": 900_000 })).await;
    for (path, expected) in [("", 12), ("?all=true", 13)] {
        for prefix in ["!/board", "/board"] {
            let (status, said) = server.get(&format!("{prefix}/scoring/rules{path}")).await;
            assert_eq!((status.as_u16(), &said["error"]), (200, &json!(false)), "{said}");
            let rules = said["message"].as_array().unwrap();
            assert_eq!(rules.len(), expected);
            assert!(rules.windows(2).all(|pair| pair[0]["rule"].as_str() < pair[1]["rule"].as_str()));
        }
    }
    let message = async |path: &str| server.get(&format!("!/board{path}")).await.1["message"].clone();
    let pending = message("/jobs/pending").await;
    assert_eq!(pending["other_pending"], 0);
    for field in ["kind", "tenant", "job_id", "parent_id", "queued_at", "dependency_count", "reason"] {
        assert!(pending["jobs"][0].get(field).is_some(), "{field}: {pending}");
    }
    let dispatched = message("/jobs/dispatched").await;
    let row = &dispatched["jobs"][0];
    assert_eq!((&row["job_id"], &row["node_id"]), (&json!(id), &json!("n1")), "{dispatched}");
    assert!(row["dispatched_at"].as_str().unwrap().ends_with('Z'));
    let one = message(&format!("/jobs/{}", row["id"].as_str().unwrap())).await;
    for field in
        ["score", "score_breakdown", "node_context", "job_context", "previous_attempts", "passed_over"]
    {
        assert!(one.get(field).is_some(), "{field}: {one}");
    }
    let workers = message("/workers").await;
    assert_eq!((&workers[0]["id"], &workers[0]["assigned_jobs"]), (&json!("n1"), &json!(1)), "{workers}");
    assert_eq!(message("/nodes").await, workers);
    let load = message("/workers/load").await;
    let keys: Vec<&str> =
        load["by_capability"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["eval", "fetch", "build"]);
    let summary = message("/scoring/summary").await;
    assert_eq!(
        (summary["sample_size"].as_u64(), summary["histogram"].as_array().unwrap().len()),
        (Some(1), 12)
    );
    let (status, said) = server.get("!/board/jobs/nothing").await;
    assert_eq!((status.as_u16(), &said["error"]), (404, &json!(true)), "{said}");
    assert!(said["message"].is_string());
    assert_eq!(server.get("!/board/scoring/summary?limit=10001").await.0, 400);
    assert_eq!(server.get("!/board/live").await.0, 400);
}

#[tokio::test]
async fn metrics_are_those_that_are_documented() {
    let server = Server::start().await;
    server.node("n1").await;
    server.job(json!({ "cpu_milli": 1000 })).await;
    let mut page = String::new();
    // What was acknowledged is counted a moment later.
    for _ in 0..500 {
        let answer = server.http.get(format!("{}/metrics", server.url)).send().await.unwrap();
        let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
        assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
        page = answer.text().await.unwrap();
        if page.contains("landfall_starts_total{pool=\"default\",kind=\"start\"} 1") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(page.contains("landfall_nodes{state=\"ready\"} 1"), "{page}");
    assert!(page.contains("landfall_starts_total{pool=\"default\",kind=\"start\"} 1"), "{page}");
    assert!(page.contains("landfall_http_requests_total{route=\"/api/v1/jobs\",status=\"201\"} 1"), "{page}");
    // What a live server serves stands on the page as it is served; `http/reference.rs` makes the page.
    let text = std::fs::read_to_string("../../docs/reference/metrics.md").unwrap();
    for (name, kind) in
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")).filter_map(|line| line.split_once(' '))
    {
        let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
        let row = text.lines().find(|line| {
            line.strip_prefix(&format!("| `{name}")).is_some_and(|rest| rest.starts_with(['`', '{']))
        });
        assert!(row.is_some_and(|row| row.contains(&format!("` | {kind} |"))), "{name} {kind}: {row:?}");
    }
}

#[tokio::test]
async fn the_openapi_document_names_every_route_once() {
    let server = Server::start().await;
    let (status, document) = server.get("!/openapi.json").await;
    assert_eq!(status, 200);
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut ids = std::collections::BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path} has no id"));
            assert!(ids.insert(id.to_owned()), "{id} twice");
            assert!(
                operation["responses"]
                    .as_object()
                    .is_some_and(|all| all.contains_key("200") || all.contains_key("201"))
            );
        }
    }
    assert!(ids.len() > 50, "{}", ids.len());
    // Every reference leads somewhere.
    let text = document.to_string();
    for part in text.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(document["components"]["schemas"].get(name).is_some(), "{name} is not defined");
    }
}

#[tokio::test]
async fn capacity_is_held_and_given_back() {
    let server = Server::start().await;
    let mut node = registration();
    node["heartbeat"]["gpus"] = json!([{ "index": 0, "model": "A100", "vram_mib": 81920 }]);
    assert_eq!(server.put("/nodes/g1/registration", node).await.0, 200);
    let (_, held) = server
        .post(
            "/jobs",
            json!({ "hold": true, "needs": { "gpu_count": 1, "vram_mib": 1000 },
        "run": { "command": ["true"] } }),
        )
        .await;
    let id = held["id"].as_str().unwrap();
    let (_, snapshot) = server.get("!/capacity_snapshot?tier=FAST").await;
    assert_eq!(snapshot["nodes"][0]["gpus"][0]["occupied"], json!(false), "{snapshot}");
    let reserve = |gpus: Value, seconds: u64| {
        server.post(
            "!/reserve",
            json!({ "job_id": id, "node_id": "g1", "gpu_indices": gpus, "expires_in_sec": seconds }),
        )
    };
    for (gpus, seconds, status, code) in [
        (json!([0]), 0, 400, "bad_lifetime"),
        (json!([7]), 60, 400, "bad_index"),
        (json!([]), 60, 400, "bad_count"),
    ] {
        let (found, said) = reserve(gpus, seconds).await;
        assert_eq!((found.as_u16(), said["code"].as_str()), (status, Some(code)), "{said}");
    }
    // Somebody keeps it from starting, so nothing can be kept for it either.
    assert_eq!(reserve(json!([0]), 60).await.1["code"], "stale");
    let (status, said) = server.post("!/release", json!({ "reservation_id": "nothing" })).await;
    assert_eq!((status.as_u16(), &said["status"]), (200, &json!("released")));
}
