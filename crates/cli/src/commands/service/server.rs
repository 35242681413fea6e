//! `landfall server`: a server on its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use landfall_model::{Bytes, Dispatch, Millis, Name};
use landfall_server::{PoolConfig, Ready, ServerError, Tls};
use landfall_store::StoreError;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::answer::Answer;
use crate::config::{Config, ConfigArgs};
use crate::error::{CliError, broken, usage};
use crate::exit::Exit;
use crate::reply::Said;
use crate::service;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Everything can also be said in the file with settings and in the environment (docs/reference/config.md). The file `token` in the \
data directory has a token that may do everything. Beyond this machine a server wants TLS.

Examples:
  landfall server
  landfall server --listen 0.0.0.0:7878 --tls-cert cert.pem --tls-key key.pem --data-dir /var/lib/landfall
  landfall agent --server https://landfall.lab:7878 --token-file node.token     on each machine")]
pub(crate) struct Args {
    /// Where it listens [default: 127.0.0.1:7878].
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Where it keeps everything [default: $XDG_DATA_HOME/landfall].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Its certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Listen beyond this machine without TLS, for instance behind a proxy that has it.
    #[arg(long)]
    allow_insecure: bool,
    /// Let simulated nodes join, on which nothing runs (`landfall hollow`).
    #[arg(long)]
    allow_hollow: bool,
    /// Write its address into this file once it answers.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
}

impl Args {
    /// What was given, as settings.
    pub(crate) fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        vec![
            ("server.listen", self.listen.clone()),
            ("server.data_dir", path(&self.data_dir)),
            ("server.tls_cert", path(&self.tls_cert)),
            ("server.tls_key", path(&self.tls_key)),
            ("server.allow_insecure", self.allow_insecure.then(|| "true".to_owned())),
            ("server.allow_hollow", self.allow_hollow.then(|| "true".to_owned())),
        ]
    }
}

/// Answers `server`: runs until it is told to end.
pub(crate) fn run(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    let config = server_config(&Config::load(&args.config, &args.flags())?, None)?;
    log_to_stderr(tracing::Level::INFO);
    service::block_on_all_cpus(async {
        let shutdown = CancellationToken::new();
        let (mut server, ready) = start(config, &shutdown).await?;
        let url = url(&ready);
        if let Some(path) = &args.ready_file {
            write_ready(path, &url)?;
        }
        tracing::info!(%url, token_file = %ready.admin_token_file.display(), "the server answers");
        tokio::select! {
            ended = &mut server => return ended_early(ended),
            () = told_to_end() => {}
        }
        tracing::info!("the server ends");
        shutdown.cancel();
        server.await.map_err(broke)?.map_err(failed)
    })?;
    Ok(Box::new(Said(Exit::Done)))
}

/// What a server is told, from the settings in force.
pub(crate) fn server_config(
    config: &Config,
    dispatch: Option<Dispatch>,
) -> Result<landfall_server::Config, CliError> {
    let mut server = landfall_server::Config::new(config.data_dir()?);
    let span = |key: &str| config.parsed::<Millis>(key).map(|span| Duration::from_millis(span.get()));
    let size = |key: &str| config.parsed::<Bytes>(key).map(Bytes::get);
    let in_memory = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    server.listen = config.parsed("server.listen").unwrap_or(server.listen);
    server.tls = match (config.path("server.tls_cert"), config.path("server.tls_key")) {
        (Some(cert), Some(key)) => Some(Tls { cert, key }),
        (None, None) => None,
        _ => {
            return Err(usage(
                "a certificate and its key go together",
                "set both server.tls_cert and server.tls_key",
            ));
        }
    };
    server.allow_insecure = config.is_on("server.allow_insecure");
    server.allow_hollow = config.is_on("server.allow_hollow");
    server.board = config.text("server.board") != Some("false");
    server.body_limit = size("server.body_limit").map_or(server.body_limit, in_memory);
    server.queue_limit = config.parsed("server.queue_limit").unwrap_or(server.queue_limit);
    server.ended_in_memory = config.parsed("server.ended_in_memory").unwrap_or(server.ended_in_memory);
    server.retention = span("server.retention").unwrap_or(server.retention);
    server.clean_every = span("server.clean_every").unwrap_or(server.clean_every);
    server.snapshot_every = config.parsed("server.snapshot_every").unwrap_or(server.snapshot_every);
    server.log_limit = size("server.log_limit").unwrap_or(server.log_limit);
    server.shutdown_grace = span("server.shutdown_grace").unwrap_or(server.shutdown_grace);
    let declared = &config.declared;
    if !declared.pools.is_empty() {
        let pools = declared.pools.iter();
        server.pools_from.clone_from(&config.file);
        server.pools =
            pools.map(|row| PoolConfig { pool: row.pool.clone(), policy: row.policy.clone() }).collect();
    } else if let Some(dispatch) = dispatch {
        for pool in &mut server.pools {
            pool.pool.dispatch = dispatch;
        }
    } else if server.data_dir.join("token").exists() {
        // What was set since the first start shall not be undone by what is usual.
        server.pools.clear();
    }
    server.peer = peer_config(config)?;
    server.tenants = declared.tenants.clone();
    server.tenants_from.clone_from(&config.file);
    server.blocks = declared.blocks.clone();
    server.providers = declared.providers.clone();
    server.energy_price_file = config.path("server.energy_price_file");
    if let Some(name) = config.text("server.scoring_policy") {
        let name = Name::new(name).map_err(|error| {
            usage(format!("server.scoring_policy: {error}"), "`landfall policy list` shows all")
        })?;
        let unnamed = server.pools.iter_mut().filter(|row| row.policy.is_none() && row.pool.policy.is_none());
        for row in unnamed.filter(|row| row.pool.dispatch == Dispatch::Pull) {
            row.pool.policy = Some(name.clone());
        }
    }
    Ok(server)
}

/// How a server is a peer, from the settings in force.
fn peer_config(config: &Config) -> Result<landfall_server::PeerConfig, CliError> {
    let mut peer = landfall_server::PeerConfig::default();
    if let Some(address) = config.parsed::<SocketAddr>("peer.listen") {
        peer.listen = landfall_server::peer_address(address).into_iter().collect();
        peer.mdns = !address.ip().is_loopback();
    }
    if config.text("peer.mdns").is_some() {
        peer.mdns = config.is_on("peer.mdns");
    }
    for text in config.list("peer.bootstrap") {
        let (address, secret) = landfall_server::peer_called_at(&text)
            .map_err(|(why, hint)| usage(format!("peer.bootstrap: {why}"), hint))?;
        peer.bootstrap.push(address);
        peer.invitation = peer.invitation.or(secret);
    }
    for text in config.list("peer.trust") {
        let found = text.split_once('=').and_then(|(id, value)| {
            Some((landfall_model::NodeId::new(id.trim()).ok()?, value.trim().parse::<f64>().ok()?))
        });
        let (id, value) = found.filter(|(_, value)| (0.0..=1.0).contains(value)).ok_or_else(|| {
            usage(format!("peer.trust: `{text}` makes no sense"), "write it as ID=0.8, with 0 to 1")
        })?;
        peer.trust.insert(id, value);
    }
    peer.foreign.runtimes = config.list("peer.foreign_runtimes");
    if config.text("peer.foreign_env").is_some() {
        peer.foreign.env = config.list("peer.foreign_env");
    }
    if config.text("peer.foreign_network").is_some() {
        peer.foreign.network = config.is_on("peer.foreign_network");
    }
    peer.ledger_only = config.text("peer.measured_load") == Some("false");
    if let Some(walltime) = config.parsed::<Millis>("peer.foreign_walltime") {
        peer.foreign.walltime = walltime;
    }
    let mut settings = serde_json::Map::new();
    for text in config.list("peer.settings") {
        let (name, value) = super::pools::setting(&text).map_err(|error| {
            usage(format!("peer.settings: {error}"), "write it as NAME=VALUE, with commas between several")
        })?;
        settings.insert(name, value);
    }
    peer.settings = landfall_server::peer_settings(settings)
        .map_err(|error| usage(format!("peer.settings: {error}"), "docs/guides/peers.md lists them"))?;
    Ok(peer)
}

pub(crate) type Running = tokio::task::JoinHandle<Result<(), ServerError>>;

/// Starts a server and waits until it answers.
pub(crate) async fn start(
    config: landfall_server::Config,
    shutdown: &CancellationToken,
) -> Result<(Running, Ready), CliError> {
    let data_dir = config.data_dir.clone();
    make_private(&data_dir)?;
    let (tell, told) = oneshot::channel();
    let server = tokio::spawn(landfall_server::serve(config, shutdown.clone(), tell));
    match told.await {
        Ok(ready) => Ok((server, ready)),
        Err(_) => Err(match server.await.map_err(broke)? {
            Err(error) => failed(error),
            Ok(()) => broken("the server ended at once", ""),
        }),
    }
}

/// A directory that only its owner may look into, made if it is not there.
pub(crate) fn make_private(dir: &Path) -> Result<(), CliError> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|source| CliError::Write { file: dir.display().to_string(), source })
}

/// Where a server is that says it is ready.
pub(crate) fn url(ready: &Ready) -> String {
    // The server wrote it beside the token; whether there is TLS stands there.
    let file = ready.admin_token_file.with_file_name("url");
    let written = std::fs::read_to_string(file).map(|text| text.trim().to_owned());
    written.unwrap_or_else(|_| format!("http://{}", ready.address))
}

/// Writes an address for scripts that wait for it, as a whole or not at all.
pub(crate) fn write_ready(path: &Path, url: &str) -> Result<(), CliError> {
    let failed = |source| CliError::Write { file: path.display().to_string(), source };
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let beside = PathBuf::from(name);
    std::fs::write(&beside, format!("{url}\n")).map_err(failed)?;
    std::fs::rename(&beside, path).map_err(failed)
}

/// Waits for Ctrl-C or a polite kill.
pub(crate) async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        }
        Err(_) => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}

/// What it means that a server stopped which nobody told to.
pub(crate) fn ended_early(
    ended: Result<Result<(), ServerError>, tokio::task::JoinError>,
) -> Result<(), CliError> {
    match ended.map_err(broke)? {
        Ok(()) => Err(broken("the server stopped by itself", "its log says more")),
        Err(error) => Err(failed(error)),
    }
}

/// A task that did not come to its end.
pub(crate) fn broke(error: tokio::task::JoinError) -> CliError {
    broken(format!("a part stopped working: {error}"), "please report this")
}

/// Why a server does not start, in the words of the command line.
pub(crate) fn failed(error: ServerError) -> CliError {
    if let ServerError::Listen { address, source } = &error
        && source.kind() == std::io::ErrorKind::AddrInUse
    {
        return broken(
            format!("port {} is taken", address.port()),
            "is a server up already? `landfall status` asks; --port or --listen chooses another, port 0 any free one",
        );
    }
    let hint = match &error {
        ServerError::Insecure(_) => {
            "give --tls-cert and --tls-key, listen on 127.0.0.1, or say --allow-insecure \
                                     (server.allow_insecure), for instance behind a proxy that has TLS"
                .into()
        }
        error => error.hint(),
    };
    match error {
        ServerError::Store(StoreError::Fenced { .. }) => {
            CliError::Fenced { message: format!("the server ends: {error}"), hint }
        }
        error => broken(error.to_string(), hint),
    }
}

/// Sends what the parts say to standard error; LANDFALL_LOG says how much.
pub(crate) fn log_to_stderr(usual: tracing::Level) {
    use std::io::IsTerminal as _;
    use tracing_subscriber::filter::Targets;
    use tracing_subscriber::prelude::*;
    let asked = std::env::var("LANDFALL_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    // What gossip warns of is the business of those who know it; the standing of peers is told elsewhere.
    let plain = || Targets::new().with_default(usual).with_target("libp2p_gossipsub", tracing::Level::ERROR);
    let filter = asked.unwrap_or_else(plain);
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // A second call, as in tests, changes nothing.
    let lines = tracing_subscriber::fmt::layer().with_ansi(colour).with_writer(std::io::stderr);
    let _ = tracing_subscriber::registry().with(lines).with(filter).try_init();
}
