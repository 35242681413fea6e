//! Who may do what: every role against every kind of route.

use crate::common::{Server, answer, registration};
use reqwest::Method;
use serde_json::json;

/// Method, path, body, and the statuses for admin, operator, submitter, agent of n1, nobody.
type Case = (&'static str, &'static str, Option<&'static str>, [u16; 5]);

const CASES: &[Case] = &[
    ("GET", "/status", None, [200, 200, 200, 200, 401]),
    ("GET", "/policies", None, [200, 200, 200, 200, 401]),
    ("GET", "/terms", None, [200, 200, 200, 200, 401]),
    ("GET", "/jobs", None, [200, 200, 200, 403, 401]),
    ("POST", "/jobs", Some(r#"{"run": {"command": ["true"]}}"#), [201, 201, 201, 403, 401]),
    ("GET", "/jobs/none", None, [404, 404, 404, 403, 401]),
    ("GET", "/jobs/none/request", None, [404, 404, 404, 403, 401]),
    ("POST", "/jobs/none/cancel", None, [404, 404, 404, 403, 401]),
    ("POST", "/jobs/none/metric", Some(r#"{"value": 1}"#), [404, 404, 404, 403, 401]),
    ("POST", "/jobs/none/input", Some(r#"{"data": "bHMK"}"#), [404, 404, 404, 403, 401]),
    ("POST", "/arrays/none/elements", Some(r#"{"count": 1}"#), [404, 404, 404, 403, 401]),
    ("POST", "/arrays/none/close", None, [404, 404, 404, 403, 401]),
    ("GET", "/dags", None, [200, 200, 200, 403, 401]),
    ("GET", "/dags/none", None, [404, 404, 404, 403, 401]),
    ("POST", "/dags/none/cancel", None, [404, 404, 404, 403, 401]),
    ("GET", "/alarms", None, [200, 200, 403, 403, 401]),
    ("POST", "/alarms/1/acknowledge", None, [404, 404, 403, 403, 401]),
    ("POST", "/pools/default/history", Some("[]"), [422, 422, 403, 403, 401]),
    ("GET", "/caps", None, [200, 200, 200, 403, 401]),
    ("PUT", "/caps", Some(r#"{"power_w": 40000}"#), [200, 200, 403, 403, 401]),
    ("GET", "/decisions", None, [200, 200, 200, 403, 401]),
    ("POST", "/plan", Some("{}"), [200, 200, 200, 403, 401]),
    ("POST", "/plan", Some(r#"{"lose": ["n1"]}"#), [200, 200, 403, 403, 401]),
    ("GET", "/nodes", None, [200, 200, 200, 403, 401]),
    ("GET", "/nodes/n1", None, [200, 200, 200, 200, 401]),
    ("GET", "/nodes/n2", None, [200, 200, 200, 403, 401]),
    ("GET", "/nodes/n1/workloads", None, [200, 200, 200, 200, 401]),
    ("POST", "/nodes/n2/drain", None, [200, 200, 403, 403, 401]),
    ("POST", "/nodes/n2/return", None, [200, 200, 403, 403, 401]),
    ("POST", "/nodes/n1/probe", Some(r#"{"good": true}"#), [200, 200, 403, 200, 401]),
    ("POST", "/nodes/n2/probe", Some(r#"{"good": true}"#), [200, 200, 403, 403, 401]),
    ("POST", "/nodes/n2/reports", Some(r#"{"reports": []}"#), [200, 200, 403, 403, 401]),
    ("GET", "/pools", None, [200, 200, 200, 403, 401]),
    ("PUT", "/pools/default", Some(r#"{"pool": {}}"#), [200, 200, 403, 403, 401]),
    ("PUT", "/pools/default", Some("not json"), [400, 400, 403, 403, 401]),
    ("GET", "/usage", None, [200, 200, 200, 403, 401]),
    ("GET", "/scenario", None, [200, 200, 403, 403, 401]),
    ("DELETE", "/pools/none", None, [404, 404, 403, 403, 401]),
    ("DELETE", "/tenants/none", None, [404, 404, 403, 403, 401]),
    ("GET", "/tenants/other", None, [200, 200, 404, 403, 401]),
    ("PUT", "/tenants/other", Some("{}"), [200, 200, 403, 403, 401]),
    ("GET", "/blocks", None, [200, 200, 200, 403, 401]),
    ("GET", "/providers", None, [200, 200, 200, 403, 401]),
    ("PUT", "/providers/p", Some("{}"), [422, 422, 403, 403, 401]),
    ("DELETE", "/providers/p", None, [404, 404, 403, 403, 401]),
    ("GET", "/workloads", None, [200, 200, 200, 403, 401]),
    ("PUT", "/workloads/w", Some("{}"), [200, 200, 403, 403, 401]),
    ("GET", "/capacity_snapshot", None, [200, 200, 200, 403, 401]),
    ("POST", "/release", Some(r#"{"reservation_id": "1"}"#), [200, 200, 403, 403, 401]),
    ("GET", "/tokens", None, [200, 403, 403, 403, 401]),
    ("POST", "/tokens", Some(r#"{"name": "x", "role": "admin"}"#), [201, 403, 403, 403, 401]),
    ("DELETE", "/tokens/none", None, [404, 403, 403, 403, 401]),
    ("GET", "/overview", None, [200, 200, 200, 403, 401]),
    ("GET", "/map", None, [200, 200, 200, 403, 401]),
    ("GET", "/history", None, [200, 200, 200, 403, 401]),
    ("GET", "/timeline", None, [200, 200, 200, 403, 401]),
    ("GET", "/find?id=n1", None, [200, 200, 200, 403, 401]),
    ("GET", "/loans", None, [200, 200, 200, 403, 401]),
    ("GET", "/nodes/n1/life", None, [200, 200, 200, 403, 401]),
    ("GET", "/nodes/none/life", None, [404, 404, 404, 403, 401]),
    ("GET", "/jobs/none/life", None, [404, 404, 404, 403, 401]),
    ("GET", "/pools/default/policy", None, [200, 200, 200, 403, 401]),
    ("GET", "/session", None, [200; 5]),
    ("POST", "/session/code", None, [200, 200, 200, 403, 401]),
    ("GET", "!/board/jobs/decisions", None, [200, 403, 403, 403, 401]),
    ("GET", "!/board/workers", None, [200, 200, 200, 403, 401]),
    ("GET", "!/capacity_snapshot", None, [200, 200, 200, 403, 401]),
    ("GET", "!/healthz", None, [200; 5]),
    ("GET", "!/readyz", None, [200; 5]),
    ("GET", "!/openapi.json", None, [200; 5]),
    ("GET", "!/metrics", None, [200; 5]),
    ("GET", "!/", None, [200; 5]),
];

#[tokio::test]
async fn every_role_may_do_what_it_should_and_no_more() {
    let server = Server::start().await;
    server.node("n1").await;
    server.node("n2").await;
    server.put("/tenants/other", json!({})).await;
    let tokens = [
        server.admin.clone(),
        server.token(json!({ "name": "op", "role": "operator" })).await,
        server.token(json!({ "name": "sub", "role": "submitter", "tenant": "own" })).await,
        server.token(json!({ "name": "agent", "role": "agent", "node": "n1" })).await,
        "lf_nobody_0000".to_owned(),
    ];
    for (method, path, body, expected) in CASES {
        for (token, expected) in tokens.iter().zip(expected) {
            let method: Method = method.parse().unwrap();
            let mut request = server.request(method.clone(), path, token);
            if let Some(body) = body {
                request = request.header("content-type", "application/json").body(*body);
            }
            let (status, said) = answer(request).await;
            assert_eq!(status.as_u16(), *expected, "{method} {path} with {token}: {said}");
            if status.as_u16() == 403 && !path.starts_with("!/board") {
                assert!(
                    said["message"].as_str().unwrap().contains("role") || said["code"] == "other_node",
                    "{said}"
                );
            }
        }
    }
    // An agent for any node.
    let any = server.token(json!({ "name": "any", "role": "agent", "node": "*" })).await;
    let register = server.request(Method::PUT, "/nodes/n9/registration", &any).json(&registration());
    assert_eq!(answer(register).await.0, 200);
}

#[tokio::test]
async fn tokens_expire_and_can_be_revoked() {
    let server = Server::start().await;
    let no_header = server.http.get(format!("{}/api/v1/status", server.url)).send().await.unwrap();
    assert_eq!(no_header.status(), 401);
    assert!(no_header.headers()["www-authenticate"].to_str().unwrap().starts_with("Bearer"));
    let soon = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    let late = json!({ "name": "late", "role": "operator", "expires_at_ms": 1 });
    assert_eq!(server.post("/tokens", late).await.0, 422);
    let request = json!({ "name": "short", "role": "operator", "expires_at_ms": soon + 600_000 });
    let (_, made) = server.post("/tokens", request).await;
    let secret = made["secret"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("lf_") && secret.len() > 64);
    assert_eq!(answer(server.request(Method::GET, "/status", &secret)).await.0, 200);
    let id = made["id"].as_str().unwrap();
    let (_, list) = server.get("/tokens").await;
    assert!(!list.to_string().contains(&secret));
    let delete = server.request(Method::DELETE, &format!("/tokens/{id}"), &server.admin);
    assert_eq!(answer(delete).await.0, 200);
    assert_eq!(answer(server.request(Method::GET, "/status", &secret)).await.0, 401);
    // The secret is nowhere on disk but in the file of the local token.
    let dir = server.stop().await;
    let server = Server::start_in(dir, |_| {}).await;
    assert_eq!(answer(server.request(Method::GET, "/status", &secret)).await.0, 401);
    assert_eq!(server.get("/status").await.0, 200);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(server.dir.path().join("token")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[tokio::test]
async fn a_submitter_sees_its_own_tenant_only() {
    let server = Server::start().await;
    let own = server.token(json!({ "name": "a", "role": "submitter", "tenant": "a" })).await;
    let theirs = server.job(json!({ "tenant": "b" })).await;
    let run = json!({ "run": { "command": ["true"] } });
    let (status, mine) = answer(server.request(Method::POST, "/jobs", &own).json(&run)).await;
    assert_eq!(status, 201, "{mine}");
    let (_, list) = answer(server.request(Method::GET, "/jobs", &own)).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    assert_eq!(list["items"][0]["tenant"], "a");
    for path in ["", "/explain", "/estimate", "/placement", "/logs"] {
        let (status, _) = answer(server.request(Method::GET, &format!("/jobs/{theirs}{path}"), &own)).await;
        assert_eq!(status, 404, "{path}");
    }
    let cancel = server.request(Method::POST, &format!("/jobs/{theirs}/cancel"), &own);
    assert_eq!(answer(cancel).await.0, 404);
    let other = json!({ "needs": { "tenant": "b" }, "run": { "command": ["true"] } });
    assert_eq!(answer(server.request(Method::POST, "/jobs", &own).json(&other)).await.0, 403);
    let (_, pending) = answer(server.request(Method::GET, "!/board/jobs/pending", &own)).await;
    assert_eq!(pending["message"]["other_pending"], 1, "{pending}");
    assert_eq!(pending["message"]["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_is_not_open_to_others_by_accident() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = crate::common::config(dir.path());
    config.listen = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
    let (ready, _) = tokio::sync::oneshot::channel();
    let refused = landfall_server::serve(config, Default::default(), ready).await;
    assert!(matches!(refused, Err(landfall_server::ServerError::Insecure(_))), "{refused:?}");
}
