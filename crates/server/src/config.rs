//! What a server is told when it starts.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use landfall_model::{Block, Dispatch, NodeId, Pool, PoolId, Provider, Tenant};

/// Certificate and key, both PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// A pool that is there from the start.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolConfig {
    pub pool: Pool,
    /// The text of its policy file, if it has one of its own.
    pub policy: Option<String>,
}

/// How a server whose pool negotiates is a peer of others.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PeerConfig {
    /// Where it listens for peers; empty means any free port of 127.0.0.1.
    pub listen: Vec<landfall_peer::Multiaddr>,
    /// Say so on the networks that it listens on, and look for others there.
    pub mdns: bool,
    /// Peers to be in touch with.
    pub bootstrap: Vec<landfall_peer::Multiaddr>,
    /// Shown to the peers named there, who may have given it out.
    pub invitation: Option<String>,
    /// How it negotiates.
    pub settings: landfall_negotiate::Settings,
    /// What jobs of other peers may do here.
    pub foreign: crate::Foreign,
    /// Whether only what the ledger gave away counts as used, and not the load that agents measure.
    pub ledger_only: bool,
    /// Whom it trusts, and how much, from the start.
    pub trust: BTreeMap<NodeId, f64>,
}

/// How a server runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub listen: SocketAddr,
    /// Where it keeps everything.
    pub data_dir: PathBuf,
    /// TLS, if it speaks that.
    pub tls: Option<Tls>,
    /// Listen on other addresses than loopback although TLS is missing.
    pub allow_insecure: bool,
    /// Let simulated nodes join, on which nothing runs.
    pub allow_hollow: bool,
    /// Serve the board at `/`.
    pub board: bool,
    /// Pools to have. One that is there already gets these settings.
    pub pools: Vec<PoolConfig>,
    /// Tenants to have. One that is there already gets these settings.
    pub tenants: Vec<Tenant>,
    /// The file that names those pools, if one does.
    pub pools_from: Option<String>,
    /// The file that names those tenants, if one does.
    pub tenants_from: Option<String>,
    /// Blocks to have. One that is there already gets these settings.
    pub blocks: Vec<Block>,
    /// Providers of blocks to know. One that is known already gets these settings.
    pub providers: Vec<Provider>,
    /// A file with the price of energy, or an `http://` or `https://` address that answers with it, read again and again.
    pub energy_price_file: Option<PathBuf>,
    /// Largest request body in bytes.
    pub body_limit: usize,
    /// Requests that may wait for the engine at once; more are turned away with 503.
    pub queue_limit: usize,
    /// Ended jobs that are kept in memory; older ones are answered from disk.
    pub ended_in_memory: usize,
    /// How long ended jobs, their logs and the journal are kept on disk.
    pub retention: Duration,
    /// How often what is older than that is dropped.
    pub clean_every: Duration,
    /// A snapshot is made after so many events.
    pub snapshot_every: u64,
    /// Most bytes kept of what one attempt writes to one stream.
    pub log_limit: u64,
    /// Time that running requests get at the end.
    pub shutdown_grace: Duration,
    /// How it is a peer, if one of its pools negotiates.
    pub peer: PeerConfig,
}

impl Config {
    /// A server with the usual settings and one pool `default`.
    pub fn new(data_dir: PathBuf) -> Self {
        let pool = PoolId::new("default").unwrap_or_else(|_| unreachable!("a literal id is valid"));
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, landfall_api::PORT)),
            data_dir,
            tls: None,
            allow_insecure: false,
            allow_hollow: false,
            board: true,
            pools: vec![PoolConfig { pool: Pool::new(pool, Dispatch::Push), policy: None }],
            tenants: Vec::new(),
            pools_from: None,
            tenants_from: None,
            blocks: Vec::new(),
            providers: Vec::new(),
            energy_price_file: None,
            body_limit: 16 << 20,
            queue_limit: 4096,
            ended_in_memory: 10_000,
            retention: Duration::from_secs(30 * 86_400),
            clean_every: Duration::from_secs(60),
            snapshot_every: 500_000,
            log_limit: 16 << 20,
            shutdown_grace: Duration::from_secs(5),
            peer: PeerConfig::default(),
        }
    }
}
