//! The board as browsers meet it: sessions by cookie, and what people look at.

use crate::common::{Server, answer};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

/// Asks with a cookie instead of a token.
fn with(server: &Server, cookie: &str, method: Method, path: &str) -> RequestBuilder {
    server.http.request(method, format!("{}/api/v1{path}", server.url)).header("cookie", cookie)
}

/// Signs in; gives the cookie as a browser would send it, and what the server said of it.
async fn sign_in(server: &Server, by: Value) -> Result<(String, String), (StatusCode, Value)> {
    let request = server.http.post(format!("{}/api/v1/session", server.url)).json(&by);
    let response = request.send().await.unwrap();
    if response.status() != 200 {
        return Err((response.status(), response.json().await.unwrap()));
    }
    let set = response.headers()["set-cookie"].to_str().unwrap().to_owned();
    Ok((set.split(';').next().unwrap().to_owned(), set))
}

/// What people look at is made at most once a second: asks until it is as it has to become.
async fn until(server: &Server, path: &str, is: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for _ in 0..600 {
        (_, last) = server.get(path).await;
        if is(&last) {
            return last;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{path} stays {last}");
}

#[tokio::test]
async fn a_code_becomes_a_session_once_and_a_session_ends_with_its_token() {
    let server = Server::start().await;
    let (_, made) = server.post("/session/code", json!({})).await;
    let code = made["code"].as_str().unwrap();
    assert_eq!(made["path"], format!("/#/sign-in/{code}"));
    let (cookie, set) = sign_in(&server, json!({ "code": code })).await.unwrap();
    assert!(
        set.contains("; HttpOnly") && set.contains("; SameSite=Strict") && !set.contains("Secure"),
        "{set}"
    );
    let (status, who) = answer(with(&server, &cookie, Method::GET, "/session")).await;
    assert_eq!((status.as_u16(), &who["role"]), (200, &json!("admin")));
    let (status, again) = sign_in(&server, json!({ "code": code })).await.unwrap_err();
    assert_eq!((status.as_u16(), &again["code"]), (401, &json!("bad_code")), "{again}");

    let secret = server.token(json!({ "name": "op", "role": "operator" })).await;
    let (other, _) = sign_in(&server, json!({ "token": secret })).await.unwrap();
    assert_eq!(answer(with(&server, &other, Method::GET, "/jobs")).await.0, 200);
    let id = secret.split('_').nth(1).unwrap();
    answer(server.request(Method::DELETE, &format!("/tokens/{id}"), &server.admin)).await;
    assert_eq!(answer(with(&server, &other, Method::GET, "/jobs")).await.0, 401);

    let out = with(&server, &cookie, Method::DELETE, "/session").header("landfall-board", "1");
    assert_eq!(answer(out).await.0, 200);
    assert_eq!(answer(with(&server, &cookie, Method::GET, "/jobs")).await.0, 401);
    let agent = server.token(json!({ "name": "agent", "role": "agent", "node": "n" })).await;
    assert_eq!(sign_in(&server, json!({ "token": agent })).await.unwrap_err().0, 403);
}

#[tokio::test]
async fn a_cookie_alone_changes_nothing_and_pages_of_other_origins_see_nothing() {
    let server = Server::start().await;
    let (cookie, _) = sign_in(&server, json!({ "token": server.admin })).await.unwrap();
    let host = server.url.strip_prefix("http://").unwrap();
    let own = format!("http://{host}");
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], u16);
    let rows: &[Row<'_>] = &[
        ("GET", &[], 200),
        ("GET", &[("sec-fetch-site", "same-origin")], 200),
        ("GET", &[("sec-fetch-site", "none")], 200),
        ("GET", &[("sec-fetch-site", "same-site")], 403),
        ("GET", &[("sec-fetch-site", "cross-site")], 403),
        ("GET", &[("origin", "http://elsewhere.example")], 403),
        ("POST", &[], 403),
        ("POST", &[("origin", &own)], 403),
        ("POST", &[("landfall-board", "1"), ("origin", &own)], 200),
        ("POST", &[("landfall-board", "1"), ("origin", "null")], 403),
        ("POST", &[("landfall-board", "1"), ("sec-fetch-site", "same-site"), ("origin", &own)], 403),
        ("POST", &[("landfall-board", "1"), ("sec-fetch-site", "same-origin")], 200),
    ];
    for (method, headers, expected) in rows {
        let path = if *method == "GET" { "/jobs" } else { "/session/code" };
        let mut request = with(&server, &cookie, method.parse().unwrap(), path);
        for (name, value) in *headers {
            request = request.header(*name, *value);
        }
        let (status, said) = answer(request).await;
        assert_eq!(status.as_u16(), *expected, "{method} {headers:?}: {said}");
    }
}

#[tokio::test]
async fn the_page_comes_with_a_policy_that_keeps_everything_else_out_and_can_be_turned_off() {
    let server = Server::start().await;
    let page = server.http.get(format!("{}/", server.url)).send().await.unwrap();
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe"));
    assert!(page.text().await.unwrap().contains("<title>Landfall</title>"));
    let (status, said) = server.get("!/assets/none.js").await;
    assert_eq!((status.as_u16(), &said["code"]), (404, &json!("no_route")));
    let off = Server::start_with(|config| config.board = false).await;
    assert_eq!(off.get("!/").await.0, 404);
    assert_eq!(off.post("/session/code", json!({})).await.1["code"], "no_board");
}

#[tokio::test]
async fn the_map_tells_what_changed_and_hides_what_is_not_ones_own() {
    let server = Server::start().await;
    server.node("n1").await;
    server.node("n2").await;
    let job = server.job(json!({ "tenant": "own", "cpu_milli": 4000 })).await;
    let whole =
        until(&server, "/map", |map| map["nodes"].to_string().contains(&format!("[\"{job}\"]"))).await;
    assert_eq!((&whole["whole"], whole["nodes"].as_array().unwrap().len()), (&json!(true), 2));
    let on: Vec<&Value> =
        whole["nodes"].as_array().unwrap().iter().filter(|node| node["jobs"] != json!([])).collect();
    assert_eq!((on.len(), &on[0]["jobs"], &on[0]["cpu"]), (1, &json!([job]), &json!(50)));
    let (_, nothing) = server.get(&format!("/map?since={}", whole["version"])).await;
    assert_eq!((&nothing["whole"], &nothing["nodes"]), (&json!(false), &json!([])));
    let other = server.token(json!({ "name": "other", "role": "submitter", "tenant": "other" })).await;
    let (_, hidden) = answer(server.request(Method::GET, "/map", &other)).await;
    let jobs: Vec<&Value> = hidden["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|node| node["jobs"].as_array().unwrap())
        .collect();
    assert_eq!((jobs, &hidden["tenants"]), (vec![&json!("")], &json!([])));

    answer(server.request(Method::POST, "/nodes/n2/drain", &server.admin)).await;
    let since = format!("/map?since={}", whole["version"]);
    let changed = until(&server, &since, |map| map["nodes"] != json!([])).await;
    let ids: Vec<&Value> = changed["nodes"].as_array().unwrap().iter().map(|node| &node["id"]).collect();
    assert_eq!((ids, &changed["states"]), (vec![&json!("n2")], &json!(["drained"])));
}

#[tokio::test]
async fn waiting_jobs_are_counted_by_reason_and_other_tenants_only_as_a_number() {
    let server = Server::start().await;
    server.node("n1").await;
    for _ in 0..3 {
        server.job(json!({ "tenant": "own", "gpu_count": 2 })).await;
    }
    server.job(json!({ "tenant": "other", "gpu_count": 4 })).await;
    let all = until(&server, "/overview", |all| all["pools"][0]["waiting"] == json!(4)).await;
    let pool = &all["pools"][0];
    assert_eq!((&pool["waiting"], &pool["unexplained"]), (&json!(4), &json!(0)), "{pool}");
    let counts: Vec<(&Value, &Value)> = pool["reasons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|reason| (&reason["jobs"], &reason["never"]))
        .collect();
    assert_eq!(counts, [(&json!(3), &json!(true)), (&json!(1), &json!(true))]);
    assert!(all["alarms"][0]["text"].as_str().unwrap().starts_with("4 jobs can never start"), "{all}");
    let own = server.token(json!({ "name": "own", "role": "submitter", "tenant": "own" })).await;
    let (_, seen) = answer(server.request(Method::GET, "/overview", &own)).await;
    let pool = &seen["pools"][0];
    assert_eq!((pool["reasons"].as_array().unwrap().len(), &pool["unexplained"]), (1, &json!(1)), "{pool}");
    let (_, found) = server.get("/jobs?search=2").await;
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_changes_is_told_once_for_everybody_and_hidden_from_other_tenants() {
    let server = Server::start().await;
    let other = server.token(json!({ "name": "other", "role": "submitter", "tenant": "other" })).await;
    let mut streams = Vec::new();
    for token in [&server.admin, &other] {
        let mut stream = server.request(Method::GET, "/changes", token).send().await.unwrap();
        next(&mut stream, |first| assert_eq!((&first["jobs"], &first["more"]), (&json!([]), &json!(false))))
            .await;
        streams.push(stream);
    }
    let job = server.job(json!({ "tenant": "own" })).await;
    let told = |change: &Value| change["jobs"].as_array().unwrap().contains(&json!(job));
    loop {
        let mut found = false;
        next(&mut streams[0], |change| found = told(change)).await;
        if found {
            break;
        }
    }
    let mut hidden = Value::Null;
    next(&mut streams[1], |change| hidden = change.clone()).await;
    assert!(!told(&hidden), "{hidden}");
    let late = server.request(Method::GET, "/changes", &server.admin).header("last-event-id", "another-1");
    next(&mut late.send().await.unwrap(), |first| assert_eq!(first["more"], json!(true))).await;
}

/// Reads the next message of a stream.
async fn next(stream: &mut reqwest::Response, mut look: impl FnMut(&Value)) {
    let mut text = String::new();
    loop {
        text += &String::from_utf8_lossy(&stream.chunk().await.unwrap().unwrap());
        if let Some(data) = text.split("\n\n").find_map(|message| {
            message.lines().find_map(|line| line.strip_prefix("data: ")).filter(|_| text.contains("\n\n"))
        }) {
            look(&serde_json::from_str(data).unwrap());
            return;
        }
    }
}
