//! The life of a job over HTTP.

use crate::common::{Server, answer, heartbeat};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn a_job_runs_from_submission_to_its_end() {
    let server = Server::start().await;
    let (status, ready) = server.get("!/readyz").await;
    assert_eq!((status.as_u16(), &ready["status"]), (200, &json!("ready")));
    server.node("n1").await;

    let mut lines = server.request(Method::GET, "/nodes/n1/commands", &server.admin).send().await.unwrap();
    assert_eq!(lines.headers()["content-type"], "application/x-ndjson");
    let id = server.job(json!({ "cpu_milli": 1000 })).await;

    let mut text = String::new();
    let start: Value = loop {
        let chunk = lines.chunk().await.unwrap().expect("a line");
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        let found = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        if let Some(start) = found.into_iter().find(|line| line.get("start").is_some()) {
            break start;
        }
    };
    let fence = start["start"]["fence"].clone();
    assert_eq!(fence["job"], json!(id));

    let (status, heard) = server.post("/nodes/n1/heartbeat", heartbeat(2)).await;
    assert_eq!((status.as_u16(), &heard["status"]), (200, &json!("ok")), "{heard}");
    let (status, heard) = server.post("/nodes/n1/heartbeat", heartbeat(2)).await;
    assert_eq!((status.as_u16(), &heard["status"]), (200, &json!("stale")), "{heard}");

    let report = |report: Value| json!({ "reports": [{ "fence": fence, "report": report }] });
    let (status, done) = server.post("/nodes/n1/reports", report(json!("started"))).await;
    assert_eq!((status.as_u16(), &done["answers"]), (200, &json!(["done"])), "{done}");
    let (_, job) = server.get(&format!("/jobs/{id}")).await;
    assert_eq!(job["state"], "running", "{job}");

    let piece = |offset: u64, data: &str| json!({ "pieces": [{ "fence": fence, "stream": "stdout", "offset": offset, "data": data }] });
    let (status, kept) = server.post("/nodes/n1/logs", piece(0, "aGkK")).await;
    assert_eq!((status.as_u16(), &kept["next"]), (200, &json!([3])), "{kept}");
    let (status, gap) = server.post("/nodes/n1/logs", piece(9, "aGkK")).await;
    assert_eq!((status.as_u16(), gap["code"].as_str()), (409, Some("log_gap")), "{gap}");

    let exit = json!({ "exited": { "code": 0, "failure": null, "usage": {} } });
    let (_, done) = server.post("/nodes/n1/reports", report(exit)).await;
    assert_eq!(done["answers"], json!(["done"]));
    let (_, job) = server.get(&format!("/jobs/{id}")).await;
    assert_eq!((&job["state"], &job["exit_code"]), (&json!("completed"), &json!(0)), "{job}");
    drop(lines);

    // What was acknowledged is there after a restart.
    let dir = server.stop().await;
    let server = Server::start_in(dir, |_| {}).await;
    let (status, job) = server.get(&format!("/jobs/{id}")).await;
    assert_eq!((status.as_u16(), &job["state"]), (200, &json!("completed")), "{job}");
    let (status, _) = answer(server.request(Method::GET, "/status", "lf_no_such")).await;
    assert_eq!(status, 401);
}
