//! Starts a server and ends it.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use landfall_api::token::{Role, TokenRequest};
use landfall_store::Reader as _;
use landfall_store::sqlite::Sqlite;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Tls};
use crate::driver::peers::PeerLine;
use crate::driver::{self, Driver, Failure, Started};
use crate::error::ServerError;
use crate::http::app::App;
use crate::http::{self, auth, tokens};
use crate::logs::Logs;
use crate::peers;

/// Time to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// Requests that may be open at once on one connection. Agents have one each; `landfall hollow` has many nodes on one.
const REQUESTS_PER_CONNECTION: u32 = 4096;

/// Time for answers to leave after the driver has ended by itself.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What a server that answers tells whoever started it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    pub address: SocketAddr,
    /// The file with a token that may do everything.
    pub admin_token_file: PathBuf,
}

fn check_address(config: &Config) -> Result<(), ServerError> {
    if !config.listen.ip().is_loopback() && config.tls.is_none() && !config.allow_insecure {
        return Err(ServerError::Insecure(config.listen));
    }
    Ok(())
}

/// Says what would keep a server with these settings from starting, as far as that can be told without its journal, and what is odd.
///
/// # Errors
/// When the address, the certificate, a pool or a tenant cannot be used.
pub async fn check(config: &Config) -> Result<Vec<String>, ServerError> {
    check_address(config)?;
    if let Some(tls) = &config.tls {
        certificate(tls).await?;
    }
    driver::check_named(config)
}

/// Runs a server until `shutdown` is cancelled.
///
/// # Errors
/// When it cannot start: the data directory, the address, or the certificate cannot be used.
pub async fn serve(
    config: Config,
    shutdown: CancellationToken,
    ready: oneshot::Sender<Ready>,
) -> Result<(), ServerError> {
    check_address(&config)?;
    let (store_dir, tls) = (config.data_dir.clone(), config.tls.clone());
    let store = blocking("cannot open the journal", move || Sqlite::open(&store_dir)).await??;
    let tls = match &tls {
        Some(tls) => Some(certificate(tls).await?),
        None => None,
    };
    let bound = |source| ServerError::Listen { address: config.listen, source };
    let listener = TcpListener::bind(config.listen).map_err(bound)?;
    listener.set_nonblocking(true).map_err(bound)?;
    let address = listener.local_addr().map_err(bound)?;
    let grace = config.shutdown_grace;
    let streams_end = CancellationToken::new();
    let (app, thread, line) = open_app(config, store, streams_end.clone()).await?;
    let handle = app.handle.clone();
    let token_file = admin_token(&app).await?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    write_file(&app.config.data_dir.join("url"), &format!("{scheme}://{address}\n"))?;
    let chores = http::chores(app.clone());
    let mut of_peers = Vec::new();
    if let Some(line) = line {
        let (handle, logs, counted) = (app.handle.clone(), app.logs.clone(), app.metrics.placement.clone());
        let (peers, tasks) =
            peers::start(line, &app.config.peer, &app.config.data_dir, handle, logs, counted).await?;
        for address in &peers.addresses {
            tracing::info!(address = %peers.full(address), "peers reach this server here");
        }
        of_peers = tasks;
        // It is set once.
        let _ = app.peers.set(peers);
    }

    let server_handle = axum_server::Handle::new();
    let ending = {
        let (server_handle, shutdown, handle) = (server_handle.clone(), shutdown.clone(), handle.clone());
        tokio::spawn(async move {
            let grace = tokio::select! {
                () = shutdown.cancelled() => grace,
                // Without a driver nobody is answered any more.
                () = handle.ended() => grace.min(LAST_ANSWERS),
            };
            // Long answers would never end by themselves.
            streams_end.cancel();
            server_handle.graceful_shutdown(Some(grace));
        })
    };
    let service = http::router(app.clone()).into_make_service();
    // Whoever started it may not want to know.
    let _ = ready.send(Ready { address, admin_token_file: token_file });
    let from_tcp = |source| ServerError::Listen { address, source };
    let mut server = axum_server::from_tcp(listener).map_err(from_tcp)?.handle(server_handle);
    limit_heads(server.http_builder());
    // A command for an agent must not wait until the one before it was acknowledged: that takes up to 40 ms.
    let at_once = NoDelayAcceptor::new();
    let served = match tls {
        Some(tls) => server.acceptor(RustlsAcceptor::new(tls).acceptor(at_once)).serve(service).await,
        None => server.acceptor(at_once).serve(service).await,
    };
    ending.abort();
    app.shutdown.cancel();
    chores.abort();
    of_peers.iter().for_each(JoinHandle::abort);
    handle.connections().close();
    handle.close().await;
    let joined = tokio::task::spawn_blocking(move || thread.join()).await;
    match joined {
        Ok(Ok(driven)) => driven?,
        _ => tracing::error!("the driver did not end well"),
    }
    served.map_err(|source| ServerError::Io { what: "the server stopped".into(), source })
}

/// Starts the driver of a journal and puts together what handlers share.
pub(crate) async fn open_app(
    config: Config,
    store: Sqlite,
    streams_end: CancellationToken,
) -> Result<(Arc<App>, Driver, Option<PeerLine>), ServerError> {
    let incarnation = store.incarnation().to_owned();
    let start = config.clone();
    let Started { handle, stats, thread, peer } =
        blocking("cannot start the driver", move || driver::start_peer(&start, Box::new(store))).await??;
    let logs = Logs::open(&config.data_dir, &incarnation, config.log_limit)
        .map_err(|source| ServerError::Io { what: "cannot use the logs of jobs".into(), source })?;
    let app = Arc::new(App::new(config, incarnation, handle, stats, Arc::new(logs), streams_end));
    app.load_tokens().await.map_err(stopped)?;
    Ok((app, thread, peer))
}

fn limit_heads(builder: &mut hyper_util::server::conn::auto::Builder<hyper_util::rt::TokioExecutor>) {
    let timer = hyper_util::rt::TokioTimer::new();
    builder.http1().timer(timer.clone()).header_read_timeout(HEAD_TIMEOUT);
    builder
        .http2()
        .timer(timer)
        .keep_alive_interval(Some(Duration::from_secs(20)))
        .max_concurrent_streams(REQUESTS_PER_CONNECTION);
}

pub(crate) async fn blocking<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ServerError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| ServerError::Io { what: what.to_owned(), source: std::io::Error::other(error) })
}

async fn certificate(tls: &Tls) -> Result<RustlsConfig, ServerError> {
    // Somebody else of the process may have chosen a provider before; then that one is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let loaded = RustlsConfig::from_pem_file(&tls.cert, &tls.key).await;
    loaded.map_err(|error| ServerError::File { path: tls.cert.clone(), message: error.to_string() })
}

fn stopped(failure: Failure) -> ServerError {
    ServerError::Io { what: "cannot set up tokens".into(), source: std::io::Error::other(failure) }
}

/// Makes sure that the file `token` has a token that may do everything.
pub(crate) async fn admin_token(app: &App) -> Result<PathBuf, ServerError> {
    let path = app.config.data_dir.join("token");
    if let Ok(text) = std::fs::read_to_string(&path)
        && app
            .tokens
            .check(text.trim(), app.handle.now())
            .is_ok_and(|principal| principal.role == Role::Admin)
    {
        return Ok(path);
    }
    let request = TokenRequest {
        name: "local".into(),
        role: Role::Admin,
        tenant: None,
        node: None,
        expires_at_ms: None,
        max_cpu_milli: None,
        max_ram_mib: None,
    };
    let (stored, new) = auth::make(request, app.handle.now()).map_err(stopped)?;
    tokens::store(app, stored).await.map_err(stopped)?;
    write_file(&path, &format!("{}\n", new.secret))?;
    Ok(path)
}

/// Writes a file that only its owner can read, as a whole or not at all.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<(), ServerError> {
    landfall_peer::write_private(path, text.as_bytes())
        .map_err(|error| ServerError::File { path: path.to_owned(), message: error.to_string() })
}
