//! Requests to the routes of a real server: driver, journal and all.
//!
//! An input is a list of requests, one a line: `METHOD PATH BODY`. They go to one server, which is made anew for every input, so a
//! finding needs nothing but its file. Paths that begin with `!` are not under the version of the API.

use std::path::Path;

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use landfall_api::{API, ApiError};
use landfall_server::{Config, Embedded};
use tower::ServiceExt as _;

/// Requests of an input that are sent.
const REQUESTS_MAX: usize = 12;
/// A larger answer to so little would be a fault.
const ANSWER_BYTES_MAX: usize = 8 << 20;

pub(crate) fn run(input: &[u8]) {
    let dir = tempfile::tempdir_in(super::memory()).expect("a directory");
    send_to(dir.path(), input);
}

/// Sends the requests of an input to a server on a data directory.
pub fn send_to(data_dir: &Path, input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let requests: Vec<(String, Request<Body>)> =
        text.lines().filter_map(|line| Some((line.to_owned(), request(line)?))).take(REQUESTS_MAX).collect();
    if requests.is_empty() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut config = Config::new(data_dir.to_owned());
        config.body_limit = 1 << 20;
        let server = Embedded::start(config).await.expect("a fresh server starts");
        for (line, request) in requests {
            send(&server, &line, request).await;
        }
        server.end().await;
    });
}

/// The request of a line; `None` if no client could send it.
fn request(line: &str) -> Option<Request<Body>> {
    let (method, rest) = line.split_once(' ')?;
    let (path, body) = rest.split_once(' ').unwrap_or((rest, ""));
    let path = path.strip_prefix('!').map_or_else(|| format!("{API}{path}"), str::to_owned);
    let request =
        Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
    request.body(Body::from(body.to_owned())).ok()
}

async fn send(server: &Embedded, line: &str, mut request: Request<Body>) {
    let token = format!("Bearer {}", server.admin_token());
    request.headers_mut().insert(header::AUTHORIZATION, token.parse().expect("a token is a header"));
    let response = server.router().oneshot(request).await.unwrap_or_else(|never| match never {});
    let status = response.status();
    assert!(
        !status.is_server_error() || status == StatusCode::NOT_IMPLEMENTED,
        "{status} is a fault of the server: {line}"
    );
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    // Streams do not end; that they begin is enough here.
    if kind != Some("application/json") {
        return;
    }
    let bytes = axum::body::to_bytes(response.into_body(), ANSWER_BYTES_MAX).await;
    let bytes = bytes.unwrap_or_else(|error| panic!("the answer cannot be had: {error}: {line}"));
    let answer: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON is JSON");
    if status.is_client_error() && !line.contains("/board/") {
        let error: ApiError = serde_json::from_value(answer).expect("errors have one shape");
        assert!(!error.code.is_empty() && !error.message.is_empty(), "{status} says nothing: {line}");
    }
}
