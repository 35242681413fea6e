//! A real server on a port of its own, in a directory of its own.

use std::net::SocketAddr;
use std::path::Path;

use landfall_server::{Config, Ready, serve};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// A server that ends with the test.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) admin: String,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) http: reqwest::Client,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<Result<(), landfall_server::ServerError>>,
}

/// A configuration for tests: any free port.
pub(crate) fn config(dir: &Path) -> Config {
    let mut config = Config::new(dir.to_owned());
    config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    config.body_limit = 1 << 20;
    config
}

impl Server {
    /// Starts a server with the usual settings.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts a server with other settings.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self::start_in(dir, change).await
    }

    /// Starts a server on a directory that may have been used before.
    pub(crate) async fn start_in(dir: tempfile::TempDir, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = config(dir.path());
        change(&mut config);
        let stop = CancellationToken::new();
        let (sender, ready) = oneshot::channel::<Ready>();
        let running = tokio::spawn(serve(config, stop.clone(), sender));
        let Ok(ready) = ready.await else { panic!("it did not start: {:?}", running.await) };
        let admin = std::fs::read_to_string(&ready.admin_token_file).unwrap().trim().to_owned();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        Self { url: format!("http://{}", ready.address), admin, dir, http, stop, running }
    }

    /// Ends the server and gives its directory back.
    pub(crate) async fn stop(self) -> tempfile::TempDir {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
        self.dir
    }

    pub(crate) fn request(&self, method: Method, path: &str, token: &str) -> RequestBuilder {
        let path = match path.strip_prefix('!') {
            Some(path) => path.to_owned(),
            None => format!("/api/v1{path}"),
        };
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(token)
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::GET, path, &self.admin)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        answer(self.request(Method::POST, path, &self.admin).json(&body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> (StatusCode, Value) {
        answer(self.request(Method::PUT, path, &self.admin).json(&body)).await
    }

    pub(crate) async fn token(&self, body: Value) -> String {
        self.tenant_of(&body).await;
        let (status, token) = self.post("/tokens", body).await;
        assert_eq!(status, 201, "{token}");
        token["secret"].as_str().unwrap().to_owned()
    }

    /// Makes the tenant that something names.
    async fn tenant_of(&self, named: &Value) {
        if let Some(tenant) = named["tenant"].as_str() {
            let (status, answer) = self.put(&format!("/tenants/{tenant}"), json!({})).await;
            assert_eq!(status, 200, "{answer}");
        }
    }

    /// Registers a node with 8 cores and 16 GiB.
    pub(crate) async fn node(&self, id: &str) {
        let (status, answer) = self.put(&format!("/nodes/{id}/registration"), registration()).await;
        assert_eq!(status, 200, "{answer}");
    }

    /// Submits a job that sleeps.
    pub(crate) async fn job(&self, needs: Value) -> String {
        self.tenant_of(&needs).await;
        let (status, answer) =
            self.post("/jobs", json!({ "needs": needs, "run": { "command": ["sleep", "1"] } })).await;
        assert_eq!(status, 201, "{answer}");
        answer["id"].as_str().unwrap().to_owned()
    }
}

/// A node as an agent registers it.
pub(crate) fn registration() -> Value {
    json!({ "heartbeat": heartbeat(1) })
}

pub(crate) fn heartbeat(seq: u64) -> Value {
    json!({ "epoch": 1, "seq": seq, "agent_version": "1", "platform": "desktop", "accepting": true,
        "cpu_milli": 8000, "ram_mib": 16384,
        "performance_estimates": { "supported_runtimes": ["process"], "max_concurrent_containers": 1,
            "wasm_memory_limit_mb": 0 } })
}

/// Sends a request and reads its answer.
pub(crate) async fn answer(request: RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.unwrap();
    let status = response.status();
    let bytes = response.bytes().await.unwrap();
    let value = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    (status, value)
}
