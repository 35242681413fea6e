//! Pages, ETags, repeated submissions, and what is said about bad requests.

use crate::common::{Server, answer};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

#[tokio::test]
async fn long_lists_come_in_pages() {
    let server = Server::start().await;
    let mut expected = Vec::new();
    for _ in 0..7 {
        expected.insert(0, server.job(json!({})).await);
    }
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let (status, page) = server.get(&format!("/jobs?limit=3{cursor}")).await;
        assert_eq!(status, 200, "{page}");
        found.extend(
            page["items"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()),
        );
        match page.get("next").and_then(Value::as_str) {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(found, expected);
    for bad in ["limit=0", "limit=1001", "limit=x", "state=lost", "colour=red"] {
        let (status, said) = server.get(&format!("/jobs?{bad}")).await;
        assert_eq!(
            (status, said["code"].as_str()),
            (StatusCode::BAD_REQUEST, Some("bad_request")),
            "{bad} {said}"
        );
    }
    let (_, ended) = server.get("/jobs?state=ended").await;
    assert_eq!(ended["items"], json!([]));
}

#[tokio::test]
async fn a_repeated_submission_is_accepted_once() {
    let server = Server::start().await;
    let job = json!({ "run": { "command": ["true"] } });
    let send = |key: &str, body: &Value| {
        answer(server.request(Method::POST, "/jobs", &server.admin).header("idempotency-key", key).json(body))
    };
    let (first, one) = send("k1", &job).await;
    let (second, two) = send("k1", &job).await;
    assert_eq!((first.as_u16(), second.as_u16()), (201, 200), "{one} {two}");
    assert_eq!((&one["id"], &two["repeated"]), (&two["id"], &json!(true)));
    let (other, _) = send("k1", &json!({ "name": "x", "run": { "command": ["true"] } })).await;
    assert!(other.is_client_error(), "the same key for something else: {other}");
    let (_, list) = server.get("/jobs").await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(send(&"k".repeat(300), &job).await.0, 400);
    let dag = json!({ "jobs": [{ "key": "a", "run": { "command": ["true"] } },
        { "key": "b", "depends_on": [{ "on": "a" }], "run": { "command": ["true"] } }] });
    let (status, made) = server.post("/dags", dag).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["jobs"].as_array().unwrap().len(), 2);
    assert_eq!(server.post("/dags", json!({ "jobs": [] })).await.0, 422);
}

#[tokio::test]
async fn etags_save_answers_and_prevent_lost_changes() {
    let server = Server::start().await;
    let id = server.job(json!({})).await;
    let path = format!("/jobs/{id}");
    let first = server.request(Method::GET, &path, &server.admin).send().await.unwrap();
    let tag = first.headers()["etag"].to_str().unwrap().to_owned();
    let again = server.request(Method::GET, &path, &server.admin).header("if-none-match", &tag);
    let again = again.send().await.unwrap();
    assert_eq!((again.status().as_u16(), again.headers()["etag"].to_str().unwrap()), (304, tag.as_str()));
    let change = |tag: &str| {
        let request = server.request(Method::PATCH, &path, &server.admin).header("if-match", tag);
        answer(request.json(&json!({ "held": true })))
    };
    assert_eq!(change("\"old\"").await.0, 412);
    let (status, held) = change(&tag).await;
    assert_eq!((status.as_u16(), &held["held"]), (200, &json!(true)), "{held}");
    assert_eq!(change(&tag).await.0, 412, "it has changed meanwhile");

    let template = json!({ "needs": { "cpu_milli": 1000 }, "run": { "command": ["true"] } });
    let put = server.request(Method::PUT, "/workloads/w", &server.admin).header("if-none-match", "*");
    assert_eq!(answer(put.json(&template)).await.0, 200);
    let put = server.request(Method::PUT, "/workloads/w", &server.admin).header("if-none-match", "*");
    assert_eq!(answer(put.json(&template)).await.0, 412);
    let (_, submitted) = server.post("/jobs", json!({ "workload": "w" })).await;
    let (_, job) = server.get(&format!("/jobs/{}", submitted["id"].as_str().unwrap())).await;
    assert_eq!(job["needs"]["cpu_milli"], 1000, "{job}");
    let delete = server.request(Method::DELETE, "/workloads/w", &server.admin).header("if-match", "\"old\"");
    assert_eq!(answer(delete).await.0, 412);
    assert_eq!(answer(server.request(Method::DELETE, "/workloads/w", &server.admin)).await.0, 200);
    assert_eq!(server.get("/workloads/w").await.0, 404);

    let pool = server.request(Method::PUT, "/pools/default", &server.admin).header("if-match", "\"old\"");
    assert_eq!(answer(pool.json(&json!({ "pool": {} }))).await.0, 412);
    let (status, said) = server.put("/pools/default", json!({ "pool": { "dispatch": "sideways" } })).await;
    assert_eq!((status.as_u16(), said["field"].as_str()), (422, Some("pool.dispatch")), "{said}");
}

#[tokio::test]
async fn every_error_has_one_shape() {
    let server = Server::start().await;
    let raw = |method: Method, path: &str, kind: &str, body: &str| {
        let request = server.request(method, path, &server.admin).header("content-type", kind);
        answer(request.body(body.to_owned()))
    };
    let json = "application/json";
    for (sent, status, code, field) in [
        (raw(Method::POST, "/jobs", json, "{").await, 400, "malformed_json", None),
        (
            raw(Method::POST, "/jobs", json, r#"{"run": {"command": "x"}}"#).await,
            400,
            "invalid_json",
            Some("run.command"),
        ),
        (raw(Method::POST, "/jobs", json, r#"{"colour": 1}"#).await, 400, "invalid_json", Some("colour")),
        (raw(Method::POST, "/jobs", json, "{} {}").await, 400, "malformed_json", None),
        (raw(Method::POST, "/jobs", "text/plain", "{}").await, 415, "not_json", None),
        (raw(Method::DELETE, "/jobs", json, "").await, 405, "no_method", None),
        (raw(Method::GET, "/nothing", json, "").await, 404, "no_route", None),
        (raw(Method::GET, "!/nothing", json, "").await, 404, "no_route", None),
        (raw(Method::GET, "/jobs/%ff", json, "").await, 400, "bad_request", None),
        (raw(Method::POST, "/jobs/7/cancel", json, "").await, 404, "unknown_job", None),
        (
            raw(Method::POST, "/jobs", json, &format!("\"{}\"", "x".repeat(2 << 20))).await,
            413,
            "too_large",
            None,
        ),
        (
            raw(Method::PUT, "/nodes/n/registration", json, r#"{"heartbeat": {"cpu_milli": -1}}"#).await,
            400,
            "out_of_range",
            Some("heartbeat.cpu_milli"),
        ),
        (
            raw(Method::POST, "/nodes/n/heartbeat", json, r#"{"disk_mb_s": 1e999}"#).await,
            400,
            "malformed_json",
            None,
        ),
        (
            raw(Method::POST, "/reserve", json, r#"{"job_id": "7", "node_id": "n"}"#).await,
            404,
            "unknown_job",
            None,
        ),
    ] {
        let (found, said) = sent;
        assert_eq!((found.as_u16(), said["code"].as_str()), (status, Some(code)), "{said}");
        assert!(said["message"].as_str().is_some_and(|text| !text.is_empty()), "{said}");
        if field.is_some() {
            assert_eq!(said["field"].as_str(), field, "{said}");
        }
    }
    // A body that does not say how long it is is cut off as well.
    let chunks = futures::stream::iter((0..64).map(|_| Ok::<_, std::io::Error>(vec![b' '; 64 << 10])));
    let request = server.request(Method::POST, "/jobs", &server.admin).header("content-type", json);
    let (status, said) = answer(request.body(reqwest::Body::wrap_stream(chunks))).await;
    assert_eq!((status.as_u16(), said["code"].as_str()), (413, Some("too_large")), "{said}");
}

#[tokio::test]
async fn random_bodies_never_bring_it_down() {
    let server = Server::start().await;
    server.node("n1").await;
    let mut seed = 0x5eed_u64;
    let mut next = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    fn value(next: &mut dyn FnMut(u64) -> u64, depth: u32) -> Value {
        const KEYS: [&str; 24] = [
            "needs",
            "run",
            "command",
            "array",
            "first",
            "last",
            "step",
            "depends_on",
            "on",
            "kind",
            "jobs",
            "pool",
            "heartbeat",
            "gpus",
            "index",
            "vram_mib",
            "cpu_milli",
            "fence",
            "job",
            "reports",
            "report",
            "name",
            "expires_in_sec",
            "gpu_indices",
        ];
        match next(if depth > 4 { 7 } else { 10 }) {
            0 => Value::Null,
            1 => json!(next(2) == 0),
            2 => json!(next(100) as i64 - 50),
            3 => json!(u64::MAX - next(3)),
            4 => json!(1e300 * (next(3) as f64 - 1.0)),
            5 => json!(["", "a", "\u{0}", "🚀", "../..", "n1", "success", "started"][next(8) as usize]),
            6 => json!("x".repeat(next(5000) as usize)),
            7 => (0..next(4)).map(|_| value(next, depth + 1)).collect(),
            _ => {
                let fields = (0..next(5))
                    .map(|_| (KEYS[next(KEYS.len() as u64) as usize].to_owned(), value(next, depth + 1)));
                Value::Object(fields.collect::<Vec<_>>().into_iter().collect())
            }
        }
    }
    let routes = [
        (Method::POST, "/jobs"),
        (Method::POST, "/dags"),
        (Method::POST, "/plan"),
        (Method::PUT, "/nodes/n1/registration"),
        (Method::POST, "/nodes/n1/heartbeat"),
        (Method::POST, "/nodes/n1/reports"),
        (Method::POST, "/nodes/n1/logs"),
        (Method::POST, "/nodes/n1/fetches"),
        (Method::PUT, "/pools/default"),
        (Method::PUT, "/tenants/t"),
        (Method::PUT, "/blocks/b"),
        (Method::PUT, "/providers/p"),
        (Method::PUT, "/workloads/w"),
        (Method::POST, "/reserve"),
        (Method::POST, "/release"),
        (Method::POST, "/tokens"),
    ];
    for round in 0..600 {
        let (method, path) = &routes[round % routes.len()];
        let body = value(&mut next, 0);
        let (status, said) = answer(server.request(method.clone(), path, &server.admin).json(&body)).await;
        assert!(!status.is_server_error(), "{method} {path} {body}: {status} {said}");
        if status.is_client_error() {
            assert!(said["code"].is_string() && said["message"].is_string(), "{said}");
        }
    }
    assert_eq!(server.get("/status").await.0, 200);
}

#[tokio::test]
async fn a_change_that_is_refused_changes_nothing() {
    let server = Server::start().await;
    let job = server.job(json!({ "cpu_milli": 1000 })).await;
    let path = format!("/jobs/{job}");
    let both = json!({ "walltime_ms": 0, "held": true });
    let (status, said) = answer(server.request(Method::PATCH, &path, &server.admin).json(&both)).await;
    assert!(status.is_client_error(), "{status} {said}");
    let before = server.get(&path).await.1;
    assert_ne!(before["held"], true, "{before}");
    let (status, said) =
        answer(server.request(Method::PATCH, &path, &server.admin).json(&json!({ "held": true }))).await;
    assert_eq!(status, 200, "{said}");
    assert_eq!(said["held"], true, "{said}");
}

#[tokio::test]
async fn a_field_that_a_body_does_not_have_is_refused_wherever_it_stands() {
    let server = Server::start().await;
    server.node("n1").await;
    let (_, document) = server.get("!/openapi.json").await;
    let mut asked = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            // What a newer agent says in a heartbeat must not keep an older server from hearing the rest.
            let heartbeat = path.ends_with("/heartbeat") || path.ends_with("/registration");
            if schema.is_null() || heartbeat {
                continue;
            }
            let body = json!({ "colour": 1 });
            let body = if schema["type"] == "array" { json!([body]) } else { body };
            let method: Method = method.to_uppercase().parse().unwrap();
            let path = path.replace("{id}", "n1").replace("{name}", "n1");
            let (status, said) = answer(
                server
                    .http
                    .request(method.clone(), format!("{}{path}", server.url))
                    .bearer_auth(&server.admin)
                    .json(&body),
            )
            .await;
            assert!(status.is_client_error(), "{method} {path}: {status} {said}");
            let told = said.to_string();
            assert!(told.contains("colour"), "{method} {path}: {told}");
            assert!(said["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{method} {path}: {told}");
            asked += 1;
        }
    }
    assert!(asked > 30, "{asked}");
    let fence = json!({ "job": "1", "attempt": 1, "epoch": 1 });
    for (path, field, body) in [
        (
            "reports",
            "reports[0].colour",
            json!({ "reports": [{ "fence": fence, "report": "started", "colour": 1 }] }),
        ),
        ("fetches", "entries[0].colour", json!({ "entries": [{ "job": "1", "colour": 1 }] })),
        (
            "logs",
            "pieces[0].colour",
            json!({ "pieces": [{ "fence": fence, "stream": "stdout", "offset": 0, "data": "", "colour": 1 }] }),
        ),
    ] {
        let (status, said) = server.post(&format!("/nodes/n1/{path}"), body).await;
        assert_eq!((status.as_u16(), &said["field"]), (400, &json!(field)), "{said}");
    }
    let mut beat = crate::common::heartbeat(2);
    beat["colour"] = json!(1);
    assert_eq!(server.post("/nodes/n1/heartbeat", beat).await.0, 200);
}

#[tokio::test]
async fn a_line_that_cannot_be_read_stops_none_of_those_behind_it() {
    let server = Server::start().await;
    let job = json!({ "run": { "command": ["true"] } }).to_string();
    let mut body = Vec::new();
    let long = vec![b' '; (1 << 20) + 10];
    for line in [job.as_bytes(), b"{ \"name\": \"\xff\" }", job.as_bytes(), &long, job.as_bytes(), b"\xfe"] {
        body.extend_from_slice(line);
        body.push(b'\n');
    }
    // The last line need not end.
    body.extend_from_slice(job.as_bytes());
    let request = server.request(Method::POST, "/jobs/stream", &server.admin);
    let said = request.header("content-type", "application/x-ndjson").body(body).send().await.unwrap();
    assert_eq!(said.status(), StatusCode::OK);
    let said = said.text().await.unwrap();
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let what = |line: &Value| line["error"]["message"].as_str().unwrap_or("accepted").to_owned();
    let (accepted, no_text) = ("accepted", "the line is not UTF-8");
    let expected =
        [accepted, no_text, accepted, "the line has more than 1048576 bytes", accepted, no_text, accepted];
    assert_eq!(lines.iter().map(what).collect::<Vec<_>>(), expected, "{said}");
    let numbers: Vec<u64> = lines.iter().filter_map(|line| line["line"].as_u64()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(server.get("/jobs").await.1["items"].as_array().unwrap().len(), 4);
}
