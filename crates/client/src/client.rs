//! Requests and answers in JSON.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt as _;
use landfall_api::{API, IDEMPOTENCY_KEY, JOURNAL};
use reqwest::{Method, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::ClientError;
use crate::events::Events;
use crate::lines::Lines;

/// A larger answer is not one of ours.
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// Waits between tries of a request that is safe to repeat.
const TRIES: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_millis(400), Duration::from_secs(1), Duration::from_secs(2)];

/// Where the server is and how to speak to it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its address, such as `http://127.0.0.1:7878`.
    pub server: String,
    pub token: Option<String>,
    /// Certificates of the authorities that are trusted instead of the system's, in PEM.
    pub ca_file: Option<PathBuf>,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// How long an answer may take; streams are not meant.
    pub timeout: Duration,
    pub user_agent: String,
    /// Whether everything goes over one connection, for those who have very much to ask at once.
    pub multiplexed: bool,
}

impl Settings {
    /// A server with the usual settings.
    pub fn new(server: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            token: None,
            ca_file: None,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(60),
            user_agent: concat!("landfall/", env!("CARGO_PKG_VERSION")).to_owned(),
            multiplexed: false,
        }
    }

    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }
}

/// A client of one server. Clones share their connections.
///
/// ```no_run
/// use landfall_client::{Client, Settings};
/// use serde_json::{Value, json};
///
/// # async fn example() -> Result<(), landfall_client::ClientError> {
/// let client = Client::new(&Settings::new("http://127.0.0.1:7878").token("lf_secret"))?;
/// let job = json!({ "needs": { "cpu_milli": 1000 }, "run": { "command": ["make", "test"] } });
/// let submitted: Value = client.post("/jobs", &job).await?;
/// let job: Value = client.get(&format!("/jobs/{}", submitted["id"].as_str().unwrap_or_default())).await?;
/// println!("{}", job["state"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    /// With a path that ends in `/`.
    base: Url,
    token: Option<String>,
    timeout: Duration,
    /// The journal that the memory of an agent belongs to.
    journal: Arc<RwLock<Option<String>>>,
}

impl Client {
    /// A client with these settings. Nothing is sent yet.
    pub fn new(settings: &Settings) -> Result<Self, ClientError> {
        let wrong = |message: String, hint: &str| ClientError::Setup { message, hint: hint.to_owned() };
        let hint = "write it as http://HOST:PORT or https://HOST:PORT";
        let server = settings.server.trim().trim_end_matches('/');
        let base = Url::parse(&format!("{server}/"))
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| wrong(format!("`{server}` is no address of a server"), hint))?;
        // Somebody else of the process may have chosen a provider before; then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .connect_timeout(settings.connect_timeout)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(settings.user_agent.clone());
        if is_loopback(&base) {
            http = http.no_proxy();
        }
        if settings.multiplexed {
            http = http.http2_prior_knowledge();
        }
        if let Some(path) = &settings.ca_file {
            let read = std::fs::read(path);
            let pem = read.map_err(|error| {
                wrong(format!("cannot read {}: {error}", path.display()), "check --ca-file")
            })?;
            let certificates =
                reqwest::Certificate::from_pem_bundle(&pem).ok().filter(|found| !found.is_empty());
            let certificates = certificates.ok_or_else(|| {
                wrong(format!("{} holds no certificate", path.display()), "give a file in PEM")
            })?;
            http = http.tls_certs_only(certificates);
        } else if base.scheme() == "http" {
            // Nothing will be encrypted: looking for the system's authorities would only cost time.
            http = http.tls_certs_only([]);
        }
        let http = http.build().map_err(|error| {
            let message = format!("cannot prepare connections: {}", innermost(&error));
            wrong(message, "does this system have certificates of authorities? --ca-file gives others")
        })?;
        let token = settings.token.as_deref().map(str::trim).filter(|token| !token.is_empty());
        if token.is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            let hint = "a token is one word of letters and digits; is that the right file?";
            return Err(wrong("the token has characters that no token has".into(), hint));
        }
        let token = token.map(str::to_owned);
        Ok(Self { http, base, token, timeout: settings.timeout, journal: Arc::default() })
    }

    /// Names a journal in all requests from now on, also in those of clones: what an agent says is about that one. A server
    /// with another journal refuses them with `other_journal`, but takes a registration.
    pub fn set_journal(&self, journal: Option<String>) {
        *self.journal.write().unwrap_or_else(PoisonError::into_inner) = journal;
    }

    pub fn server(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Asks for something below `/api/v1`, such as `/jobs/12`.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.json(self.request(Method::GET, path)).await
    }

    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &(impl Serialize + ?Sized),
    ) -> Result<T, ClientError> {
        self.json(self.request(Method::POST, path).json(body)).await
    }

    /// Asks for something to be done that needs no further words.
    pub async fn order<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.json(self.request(Method::POST, path)).await
    }

    /// Sends something under a key. As the server accepts it once however often it arrives, it is sent again when the
    /// connection breaks.
    pub async fn post_once<T: DeserializeOwned>(
        &self,
        path: &str,
        key: &str,
        body: &(impl Serialize + ?Sized),
    ) -> Result<T, ClientError> {
        let request = self.request(Method::POST, path).header(IDEMPOTENCY_KEY, key).json(body);
        self.read(&self.repeated(request).await?)
    }

    async fn repeated(&self, request: reqwest::RequestBuilder) -> Result<Vec<u8>, ClientError> {
        let mut waits = TRIES.into_iter();
        // What cannot be copied is a stream, which no request here is.
        while let Some(copy) = request.try_clone() {
            let error = match self.answer(copy).await {
                Err(error) if error.may_pass() => error,
                answer => return answer,
            };
            // A server that nobody ever reached is not there; one that broke off in the middle will come back.
            let retries = !matches!(error, ClientError::Unreachable { maybe_sent: false, .. });
            match waits.next().filter(|_| retries || waits.len() > 2) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(error),
            }
        }
        self.answer(request).await
    }

    pub async fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &(impl Serialize + ?Sized),
    ) -> Result<T, ClientError> {
        self.json(self.request(Method::PUT, path).json(body)).await
    }

    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.json(self.request(Method::DELETE, path)).await
    }

    /// A long answer, line by line.
    pub async fn stream_lines(&self, path: &str) -> Result<Lines, ClientError> {
        self.lines(self.request(Method::GET, path)).await
    }

    /// Sends pieces of lines under a key, each of which is answered with a line while the others are still under way. The server accepts
    /// a line once, however often it comes under this key in this place.
    pub async fn post_lines(
        &self,
        path: &str,
        key: &str,
        pieces: Vec<Vec<u8>>,
    ) -> Result<Lines, ClientError> {
        let pieces = futures::stream::iter(pieces.into_iter().map(Ok::<_, std::convert::Infallible>));
        let request = self.request(Method::POST, path).header(IDEMPOTENCY_KEY, key);
        let request = request.header(reqwest::header::CONTENT_TYPE, "application/x-ndjson");
        self.lines(request.body(reqwest::Body::wrap_stream(pieces))).await
    }

    async fn lines(&self, request: reqwest::RequestBuilder) -> Result<Lines, ClientError> {
        let url = self.server().to_owned();
        let response = tokio::time::timeout(self.timeout, request.send());
        let response = response.await.map_err(|_| late(&url))?;
        let response = response.map_err(|error| ClientError::on_the_way(&url, &error))?;
        let status = response.status().as_u16();
        if status >= 300 {
            let body = self.body(response).await?;
            return Err(ClientError::of_answer(&url, status, &body));
        }
        let at = url.clone();
        let chunks = response.bytes_stream().map(move |chunk| match chunk {
            Ok(bytes) => Ok(bytes.to_vec()),
            Err(error) => Err(ClientError::on_the_way(&at, &error)),
        });
        Ok(Lines::new(url, Box::pin(chunks)))
    }

    pub async fn stream_events(&self, path: &str) -> Result<Events, ClientError> {
        Ok(Events::new(self.stream_lines(path).await?))
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}{API}{path}", self.server());
        let mut request = self.http.request(method, url);
        if let Some(journal) = &*self.journal.read().unwrap_or_else(PoisonError::into_inner) {
            request = request.header(JOURNAL, journal);
        }
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    async fn json<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, ClientError> {
        self.read(&self.answer(request).await?)
    }

    fn read<T: DeserializeOwned>(&self, answer: &[u8]) -> Result<T, ClientError> {
        // No content is as good as nothing said.
        let text: &[u8] = if answer.iter().all(u8::is_ascii_whitespace) { b"null" } else { answer };
        serde_json::from_slice(text).map_err(|error| ClientError::BadAnswer {
            url: self.server().to_owned(),
            message: error.to_string(),
        })
    }

    /// Apart from what reads it: it would be made anew for every type.
    async fn answer(&self, request: reqwest::RequestBuilder) -> Result<Vec<u8>, ClientError> {
        let url = self.server().to_owned();
        let sent = request.timeout(self.timeout).send().await;
        let response = sent.map_err(|error| ClientError::on_the_way(&url, &error))?;
        let status = response.status().as_u16();
        let body = self.body(response).await?;
        if status >= 300 {
            return Err(ClientError::of_answer(&url, status, &body));
        }
        Ok(body)
    }

    async fn body(&self, response: reqwest::Response) -> Result<Vec<u8>, ClientError> {
        let mut body = Vec::new();
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| ClientError::on_the_way(self.server(), &error))?;
            body.extend_from_slice(&chunk);
            if body.len() > ANSWER_BYTES_MAX {
                let message = format!("more than {} MiB", ANSWER_BYTES_MAX >> 20);
                return Err(ClientError::BadAnswer { url: self.server().to_owned(), message });
            }
        }
        Ok(body)
    }
}

fn late(url: &str) -> ClientError {
    let message = "it takes too long to answer".into();
    ClientError::Unreachable { url: url.to_owned(), message, maybe_sent: true }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(inner) = error.source() {
        error = inner;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_before_anything_is_sent() {
        for good in ["http://127.0.0.1:7878", "http://localhost:1/", "https://[::1]:8443", "http://h/prefix/"]
        {
            assert!(Client::new(&Settings::new(good)).is_ok(), "{good}");
        }
        for bad in ["", "localhost:7878", "ftp://x", "http://", "/tmp/x"] {
            let error = Client::new(&Settings::new(bad)).unwrap_err();
            assert!(matches!(error, ClientError::Setup { .. }), "{bad}: {error}");
            assert!(error.hint().unwrap().contains("http://"));
        }
    }

    #[test]
    fn tokens_are_words() {
        assert!(Client::new(&Settings::new("http://h").token(" abc\n")).is_ok());
        assert!(Client::new(&Settings::new("http://h").token("a b")).is_err());
    }

    #[test]
    fn loopback_needs_no_proxy() {
        for (url, is) in [
            ("http://127.0.0.1:1", true),
            ("http://[::1]:1", true),
            ("http://localhost", true),
            ("http://example.org", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), is, "{url}");
        }
    }

    #[tokio::test]
    async fn a_closed_port_is_unreachable() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let client = Client::new(&Settings::new(format!("http://{address}"))).unwrap();
        let error = client.get::<serde_json::Value>("/status").await.unwrap_err();
        assert!(matches!(error, ClientError::Unreachable { maybe_sent: false, .. }), "{error:?}");
        assert!(error.hint().unwrap().contains("landfall up"));
    }
}
