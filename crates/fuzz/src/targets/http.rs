//! Requests to the routes of a real server: driver, journal and all.
//!
//! An input is a list of requests, one a line: `METHOD PATH BODY`. Paths that begin with `!` are not under the version of the API.
//!
//! A server takes many inputs before another one is made, because making it costs a hundred times what a request does, and because
//! requests meet more where others were before. What it was sent is in the file `requests` beside its journal, which is left
//! behind when something is wrong, and which is an input itself.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use landfall_api::{API, ApiError};
use landfall_server::{Config, Embedded};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

/// A server takes so many inputs.
const INPUTS_MAX: u32 = 300;
/// A larger answer to so little would be a fault.
const ANSWER_BYTES_MAX: usize = 8 << 20;

struct Target {
    server: Embedded,
    runtime: Runtime,
    requests: File,
    inputs: u32,
    dir: TempDir,
}

thread_local! {
    static SERVER: RefCell<Option<Target>> = const { RefCell::new(None) };
}

pub(crate) fn run(input: &[u8]) {
    SERVER.with_borrow_mut(|server| {
        let target = server.get_or_insert_with(begin);
        target.inputs += 1;
        let _ = target.requests.write_all(input).and_then(|()| target.requests.write_all(b"\n"));
        target.runtime.block_on(send_all(&target.server, input));
        if target.inputs == INPUTS_MAX
            && let Some(target) = server.take()
        {
            end(target);
        }
    });
}

fn begin() -> Target {
    let dir = tempfile::tempdir_in(super::memory()).expect("a directory");
    let path = dir.path().join("requests");
    let requests = File::create(&path).expect("a file");
    eprintln!("a new server; what it is sent is in {}", path.display());
    let (runtime, server) = start(dir.path());
    Target { server, runtime, requests, inputs: 0, dir }
}

fn end(target: Target) {
    target.runtime.block_on(target.server.end());
    drop(target.dir);
}

fn start(data_dir: &Path) -> (Runtime, Embedded) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut config = Config::new(data_dir.to_owned());
    config.body_limit = 1 << 20;
    let server = runtime.block_on(Embedded::start(config)).expect("a fresh server starts");
    (runtime, server)
}

/// Sends the requests of an input to a server on a data directory of its own.
pub fn send_to(data_dir: &Path, input: &[u8]) {
    let (runtime, server) = start(data_dir);
    runtime.block_on(send_all(&server, input));
    runtime.block_on(server.end());
}

async fn send_all(server: &Embedded, input: &[u8]) {
    for line in String::from_utf8_lossy(input).lines() {
        if let Some(request) = request(line) {
            send(server, line, request).await;
        }
    }
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
