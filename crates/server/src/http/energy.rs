//! The price of energy that somebody else keeps: a file, or an address that is asked over HTTP.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::app::App;
use super::fleet;

/// How often it is read.
pub(super) const EVERY: Duration = Duration::from_secs(60);
/// How long an answer may take: less than that, so that no two are under way.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// A longer answer is no number.
const ANSWER_BYTES_MAX: usize = 1024;
/// How much of what was there instead is repeated.
const SHOWN: usize = 60;

/// Reads the price of energy. One that cannot be read is unknown once the last one is too old.
pub(super) async fn read(app: Arc<App>) {
    let Some(from) = &app.config.energy_price_file else { return };
    let price = tokio::select! {
        () = app.shutdown.cancelled() => return,
        text = text(from, ANSWER_WITHIN) => text.and_then(|text| price(&text)),
    };
    match price {
        Ok(price) => drop(app.handle.apply(landfall_engine::Input::EnergyPrice(Some(price))).await),
        Err(error) => {
            let from = shown(from);
            tracing::warn!(%from, %error, "the price of energy cannot be read: it is a number of 0 or more");
        }
    }
}

fn price(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let said = || format!("it says `{}`", text.chars().take(SHOWN).collect::<String>());
    fleet::price(text.parse().unwrap_or(f64::NAN)).map_err(|_| said())
}

/// The address, where it is one and no file.
fn address(from: &Path) -> Option<&str> {
    let web = |text: &&str| text.starts_with("http://") || text.starts_with("https://");
    from.to_str().filter(web)
}

/// Where it is, without what may be a secret in an address.
fn shown(from: &Path) -> String {
    let Some(mut url) = address(from).and_then(|text| reqwest::Url::parse(text).ok()) else {
        return from.display().to_string();
    };
    url.set_query(None);
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    url.into()
}

async fn text(from: &Path, within: Duration) -> Result<String, String> {
    match address(from) {
        Some(url) => match tokio::time::timeout(within, fetch(url)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {} s", within.as_secs_f64())),
        },
        None => tokio::fs::read_to_string(from).await.map_err(|error| error.to_string()),
    }
}

async fn fetch(url: &str) -> Result<String, String> {
    let failed = |error: reqwest::Error| innermost(&error.without_url());
    let url = reqwest::Url::parse(url).map_err(|error| format!("it is no address: {error}"))?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let here = host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
    // Somebody else of the process may have chosen a provider before; then that one is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut http = reqwest::Client::builder()
        .user_agent(concat!("landfall/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none());
    if here {
        http = http.no_proxy();
    }
    if url.scheme() == "http" {
        // Nothing will be encrypted: looking for the system's authorities would only cost time.
        http = http.tls_certs_only([]);
    }
    let mut answer = http.build().map_err(failed)?.get(url).send().await.map_err(failed)?;
    if !answer.status().is_success() {
        return Err(format!("it answers {}", answer.status()));
    }
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(failed)? {
        body.extend_from_slice(&part);
        if body.len() > ANSWER_BYTES_MAX {
            return Err("it says more than a number".to_owned());
        }
    }
    String::from_utf8(body).map_err(|_| "it says no text".to_owned())
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Somebody who answers once, with whatever the test says, or never.
    async fn answers(with: &str) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/price?key=secret", listener.local_addr().unwrap());
        let with = with.to_owned();
        tokio::spawn(async move {
            let (mut peer, _) = listener.accept().await.unwrap();
            let _ = peer.read(&mut [0; 4096]).await;
            if with.is_empty() {
                std::future::pending::<()>().await;
            }
            let _ = peer.write_all(format!("HTTP/1.1 {with}").as_bytes()).await;
        });
        url
    }

    #[tokio::test]
    async fn whoever_asks_for_the_price_in_vain_is_told_why() {
        let long = format!("200 OK\r\nContent-Length: 5000\r\n\r\n{}", "1".repeat(5000));
        for (answer, said) in [
            ("200 OK\r\nContent-Length: 5\r\n\r\n0.35\n", Ok(0.35)),
            ("200 OK\r\nContent-Length: 2\r\n\r\n-1", Err("it says `-1`")),
            ("200 OK\r\nContent-Length: 0\r\n\r\n", Err("it says ``")),
            ("404 Not Found\r\nContent-Length: 1\r\n\r\n1", Err("it answers 404 Not Found")),
            ("302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", Err("it answers 302 Found")),
            (long.as_str(), Err("it says more than a number")),
            ("", Err("no answer within 0.5 s")),
        ] {
            let url = answers(answer).await;
            let read = text(Path::new(&url), Duration::from_millis(500)).await;
            assert_eq!(read.and_then(|text| price(&text)), said.map_err(str::to_owned), "{answer}");
            assert_eq!(shown(Path::new(&url)), url.replace("?key=secret", ""));
        }
        let missing = text(Path::new("/no/such/price"), ANSWER_WITHIN).await;
        assert!(missing.is_err_and(|error| error.contains("No such file")));
        let closed = text(Path::new("http://127.0.0.1:1/"), ANSWER_WITHIN).await;
        assert!(closed.is_err_and(|error| error.contains("refused")));
    }
}
