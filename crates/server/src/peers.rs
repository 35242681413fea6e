//! The service beside the driver that makes a server a peer: it owns the network, hands on what is heard, does what the
//! driver wants said, and carries home what hosted jobs write. It decides nothing and keeps nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use landfall_engine::{Answer, Input};
use landfall_model::{Digest, JobId, NodeId, PoolId};
use landfall_negotiate::{self as negotiate, Blob, JobState, RunnerEvent, TrustTable};
use landfall_peer::{Heard, Multiaddr, Network, Order, Question, Reply};
use landfall_store::{Change, Table};
use subtle::ConstantTimeEq as _;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::config::PeerConfig;
use crate::driver::peers::{Hosted, Out, Over, PeerLine, REMARKS, Remark};
use crate::driver::{Failure, Handle};
use crate::error::ServerError;
use crate::logs::{Logs, Piece};

/// Inputs of one commit at most.
const TOGETHER_MAX: usize = 256;
/// A round trip that changed little is told again after so long.
const RTT_EVERY: Duration = Duration::from_secs(60);
/// How long what a job wrote may hold up its result.
const OUTPUT_FIRST: Duration = Duration::from_secs(5);
/// How long somebody is tried to be reached with output after the result.
const OUTPUT_FOR: Duration = Duration::from_secs(3600);
/// Most of one piece of output.
const PIECE_BYTES: usize = 256 << 10;
/// Pauses between two tries.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// A peer that runs, as handlers see it.
#[derive(Debug, Clone)]
pub(crate) struct Peers {
    pub(crate) pool: PoolId,
    pub(crate) id: NodeId,
    /// Where it listens.
    pub(crate) addresses: Vec<Multiaddr>,
    /// Whoever shows it was invited.
    pub(crate) secret: Arc<str>,
    orders: mpsc::UnboundedSender<Order>,
    counted: Arc<crate::http::placement_metrics::Placement>,
    /// What was dropped, by who sent it and why.
    dropped: Arc<Mutex<BTreeMap<NodeId, BTreeMap<String, u64>>>>,
    /// Peers that invited this one, and the secret that shows it.
    invited_by: Arc<Mutex<BTreeMap<NodeId, String>>>,
    /// Changes of the trust table go one after the other.
    edits: Arc<tokio::sync::Mutex<()>>,
}

/// How much somebody is trusted who was invited, or invited this peer: enough to run work and to submit it.
const TRUST_OF_INVITED: f64 = 0.5;
/// What a message that nobody sends who means well costs of standing.
const ABUSE_COST: f64 = 10.0;
/// Peers whose dropped messages are counted one by one.
const DROPPED_MAX: usize = 1000;

impl Peers {
    /// Who is connected.
    pub(crate) async fn connected(&self) -> Vec<landfall_peer::Standing> {
        let (answer, list) = oneshot::channel();
        let _ = self.orders.send(Order::List(answer));
        list.await.unwrap_or_default()
    }

    /// An address with the id of this peer, as others need it.
    pub(crate) fn full(&self, address: &Multiaddr) -> String {
        format!("{address}/p2p/{}", self.id)
    }

    /// What was dropped, by who sent it and why.
    pub(crate) fn dropped_by(&self) -> BTreeMap<NodeId, BTreeMap<String, u64>> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_dropped(&self, from: NodeId, reason: &str, count: u64) {
        self.counted.dropped(reason, count);
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        if dropped.len() < DROPPED_MAX || dropped.contains_key(&from) {
            *dropped.entry(from).or_default().entry(reason.to_owned()).or_default() += count;
        }
    }

    /// Changes the trust table.
    pub(crate) async fn change_trust(
        &self,
        handle: &Handle,
        change: impl FnOnce(TrustTable) -> Result<TrustTable, landfall_negotiate::TrustError>,
    ) -> Result<(), Failure> {
        let _alone = self.edits.lock().await;
        let pool = self.pool.clone();
        let table =
            handle.read(move |view| view.engine.state().peers.get(&pool).map(|peer| peer.trust().clone()));
        let before = table.await?.unwrap_or_default();
        let after = change(before.clone()).map_err(|error| {
            Failure::refused(422, landfall_api::ApiError::new("invalid", error.to_string()))
        })?;
        if after != before {
            let input = Box::new(negotiate::Input::Trust(after));
            handle.apply(Input::Peer { pool: self.pool.clone(), input }).await?;
        }
        Ok(())
    }

    /// Changes what is kept of a peer beside the engine.
    pub(crate) async fn remark(
        &self,
        handle: &Handle,
        peer: &NodeId,
        change: impl FnOnce(&mut Remark),
    ) -> Result<(), Failure> {
        let _alone = self.edits.lock().await;
        let remarks = handle.read(|view| view.remarks()).await?;
        let mut remarks = remarks.map_err(|error| Failure::Storage(error.to_string()))?;
        change(remarks.entry(peer.to_string()).or_default());
        remarks.retain(|_, remark| Remark { account: remark.account, ..Remark::default() } != *remark);
        let bytes = serde_json::to_vec(&remarks).map_err(|error| Failure::Storage(error.to_string()))?;
        handle.apply_all(Vec::new(), vec![Change::put(Table::Meta, REMARKS, bytes)]).await.map(drop)
    }

    /// Keeps in touch with somebody from now on.
    pub(crate) async fn add(
        &self,
        handle: &Handle,
        address: Multiaddr,
        invitation: Option<String>,
    ) -> Result<(), Failure> {
        if let Some(peer) = landfall_peer::peer_in(&address) {
            let text = address.to_string();
            self.remark(handle, &peer, |remark| remark.address = Some(text)).await?;
            if let Some(secret) = invitation {
                self.invited_by.lock().unwrap_or_else(PoisonError::into_inner).insert(peer, secret);
            }
        }
        self.order(Order::Add(address));
        Ok(())
    }

    /// Shows somebody who invited this peer that it was invited; then both trust each other.
    async fn show_invitation(self, handle: Handle, peer: NodeId) {
        let secret = self.invited_by.lock().unwrap_or_else(PoisonError::into_inner).get(&peer).cloned();
        let Some(secret) = secret else { return };
        let (answer, reply) = oneshot::channel();
        self.order(Order::Ask { to: peer.clone(), question: Question::Invited { secret }, answer });
        match reply.await {
            Ok(Reply::Done) => self.trust_invited(&handle, &peer).await,
            Ok(reply) => tracing::warn!(%peer, ?reply, "the invitation does not count any more"),
            Err(_) => {}
        }
    }

    async fn trust_invited(&self, handle: &Handle, peer: &NodeId) {
        let raised = |table: TrustTable| match table.entry(peer) {
            Some(_) => Ok(table),
            None => table.with(peer.clone(), Some(TRUST_OF_INVITED)),
        };
        if let Err(error) = self.change_trust(handle, raised).await {
            tracing::warn!(%error, %peer, "somebody who was invited is not trusted");
        }
    }

    pub(crate) fn order(&self, order: Order) {
        // The network ends with the server.
        let _ = self.orders.send(order);
    }
}

/// The address at which peers are listened for on a socket.
pub fn peer_address(address: std::net::SocketAddr) -> Option<Multiaddr> {
    let family = if address.is_ipv4() { "ip4" } else { "ip6" };
    format!("/{family}/{}/tcp/{}", address.ip(), address.port()).parse().ok()
}

/// How the address of a peer is written.
pub(crate) const ADDRESS_HINT: &str =
    "write it as /ip4/10.0.0.2/tcp/7879/p2p/12D3KooW…; `landfall peer id` on that machine prints it";

/// Where a peer is to be called, and the secret that an invitation has behind its address.
///
/// # Errors
/// When nobody can be called there, or an invitation does not say whose it is; with what to do.
pub fn peer_called_at(text: &str) -> Result<(Multiaddr, Option<String>), (String, &'static str)> {
    let (address, secret) = match text.split_once('#') {
        Some((address, secret)) => (address, Some(secret.to_owned())),
        None => (text, None),
    };
    let wrong = |why: String| (why, ADDRESS_HINT);
    let address: Multiaddr =
        address.parse().map_err(|error| wrong(format!("`{address}` is no address: {error}")))?;
    if !landfall_peer::is_callable(&address) {
        return Err(wrong(format!(
            "nobody can be called at `{address}`: it has to be an IP address and a port, or a name, a port and an id"
        )));
    }
    if secret.is_some() && landfall_peer::peer_in(&address).is_none() {
        return Err(wrong(format!("`{address}` does not say whose invitation it is")));
    }
    Ok((address, secret))
}

/// The id of the peer whose key is in a data directory, if one is.
///
/// # Errors
/// When the key cannot be read.
pub fn peer_id(data_dir: &Path) -> Result<Option<String>, landfall_peer::KeyError> {
    Ok(landfall_peer::Identity::load(data_dir)?.map(|identity| identity.id().to_string()))
}

/// How a peer negotiates, from the settings that differ from the usual ones.
///
/// # Errors
/// When one is unknown or out of range.
pub fn peer_settings(
    given: serde_json::Map<String, serde_json::Value>,
) -> Result<landfall_negotiate::Settings, String> {
    let settings: landfall_negotiate::Settings =
        serde_json::from_value(given.into()).map_err(|error| error.to_string())?;
    settings.validate().map_err(|error| error.to_string())?;
    Ok(settings)
}

struct Service {
    handle: Handle,
    logs: Arc<Logs>,
    peers: Peers,
    foreign: crate::Foreign,
    runs: BTreeMap<JobId, watch::Sender<Option<Over>>>,
    rtts: BTreeMap<NodeId, (u32, Instant)>,
}

/// Starts the network of a peer and the tasks that serve it.
pub(crate) async fn start(
    line: PeerLine,
    config: &PeerConfig,
    data_dir: &Path,
    handle: Handle,
    logs: Arc<Logs>,
    counted: Arc<crate::http::placement_metrics::Placement>,
) -> Result<(Peers, Vec<JoinHandle<()>>), ServerError> {
    let failed = |error: landfall_peer::NetworkError| ServerError::Io {
        what: "cannot be a peer".into(),
        source: std::io::Error::other(error),
    };
    let remarks = handle.read(|view| view.remarks()).await.map_err(|error| ServerError::Io {
        what: "cannot be a peer".into(),
        source: std::io::Error::other(error),
    })??;
    let added = remarks.values().filter_map(|remark| remark.address.as_ref()?.parse().ok());
    let bootstrap: Vec<Multiaddr> = config.bootstrap.iter().cloned().chain(added).collect();
    let blocked = remarks.iter().filter(|(_, remark)| remark.blocked);
    let blocked = blocked.filter_map(|(peer, _)| landfall_peer::peer_id(peer)).collect();
    let inviting = config.invitation.iter().flat_map(|secret| {
        let named = config.bootstrap.iter().filter_map(landfall_peer::peer_in);
        named.map(move |peer| (peer, secret.clone()))
    });
    let inviting: BTreeMap<NodeId, String> = inviting.collect();
    let (listen, mdns) = (config.listen.clone(), config.mdns);
    let settings = landfall_peer::Settings { listen, bootstrap, blocked, mdns };
    let (network, addresses, orders, heard) =
        listening(&line.identity, settings, data_dir).await.map_err(failed)?;
    let peers = Peers {
        pool: line.pool,
        id: line.identity.id().clone(),
        addresses,
        secret: secret(data_dir)?.into(),
        orders,
        counted,
        dropped: Arc::default(),
        invited_by: Arc::new(Mutex::new(inviting)),
        edits: Arc::default(),
    };
    let service = Service {
        handle,
        logs,
        peers: peers.clone(),
        foreign: config.foreign.clone(),
        runs: BTreeMap::new(),
        rtts: BTreeMap::new(),
    };
    let tasks = vec![tokio::spawn(network.run()), tokio::spawn(service.run(line.out, heard))];
    Ok((peers, tasks))
}

type Started = (Network, Vec<Multiaddr>, mpsc::UnboundedSender<Order>, mpsc::Receiver<Heard>);

/// A network that listens where it is told; else on the port of 127.0.0.1 that it had before, or any free one.
async fn listening(
    identity: &landfall_peer::Identity,
    settings: landfall_peer::Settings,
    data_dir: &Path,
) -> Result<Started, landfall_peer::NetworkError> {
    if !settings.listen.is_empty() {
        return Network::start(identity, settings).await;
    }
    let file = data_dir.join("peer.port");
    let on = |port: u16| {
        let listen = format!("/ip4/127.0.0.1/tcp/{port}").parse().into_iter().collect();
        Network::start(identity, landfall_peer::Settings { listen, ..settings.clone() })
    };
    let before = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
    if let Some(port) = before
        && let Ok(started) = on(port).await
    {
        return Ok(started);
    }
    let started = on(0).await?;
    let port = started.1.first().and_then(landfall_peer::port_of);
    if let Some(Err(error)) = port.map(|port| crate::serve::write_file(&file, &port.to_string())) {
        tracing::warn!(%error, "the port is another one after the next start");
    }
    Ok(started)
}

/// The secret that invitations of this peer carry, made at its first start.
fn secret(data_dir: &Path) -> Result<String, ServerError> {
    let path = data_dir.join("peer.invitation");
    match std::fs::read_to_string(&path) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
        _ => {}
    }
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| ServerError::Io {
        what: "cannot make a secret".into(),
        source: std::io::Error::other(error),
    })?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    crate::serve::write_file(&path, &text)?;
    Ok(text)
}

impl Service {
    async fn run(mut self, mut out: mpsc::UnboundedReceiver<Out>, mut heard: mpsc::Receiver<Heard>) {
        loop {
            tokio::select! {
                biased;
                said = out.recv() => match said {
                    Some(said) => self.carry_out(said),
                    None => return,
                },
                first = heard.recv() => {
                    let Some(first) = first else { return };
                    let mut inputs = Vec::new();
                    inputs.extend(self.take_in(first));
                    while inputs.len() < TOGETHER_MAX && let Ok(next) = heard.try_recv() {
                        inputs.extend(self.take_in(next));
                    }
                    if !inputs.is_empty() {
                        self.tell(inputs);
                    }
                }
            }
        }
    }

    /// Gives the engine what was heard. What cannot be stored was not heard; the protocol bears that.
    fn tell(&self, inputs: Vec<negotiate::Input>) {
        let pool = &self.peers.pool;
        let inputs =
            inputs.into_iter().map(|input| Input::Peer { pool: pool.clone(), input: Box::new(input) });
        let (inputs, handle) = (inputs.collect(), self.handle.clone());
        tokio::spawn(async move {
            if let Err(error) = handle.apply_all(inputs, Vec::new()).await {
                tracing::warn!(%error, "what peers said was not taken in");
            }
        });
    }

    fn carry_out(&mut self, out: Out) {
        match out {
            Out::Order(order) => {
                self.peers.counted.message("sent");
                self.peers.order(order);
            }
            Out::Count(metric) => self.peers.counted.count(&metric),
            Out::Deed { peer, deed } => {
                self.peers.counted.deed(deed);
                if deed.is_abuse() {
                    self.peers.order(Order::Fault { peer, cost: ABUSE_COST });
                }
            }
            Out::Hosted(hosted) => {
                let (over, until) = watch::channel(None);
                self.runs.insert(hosted.id.clone(), over);
                let carrier = Carrier {
                    hosted,
                    peers: self.peers.clone(),
                    handle: self.handle.clone(),
                    logs: self.logs.clone(),
                };
                tokio::spawn(carrier.run(until));
            }
            Out::Over(over) => {
                if let Some(run) = self.runs.remove(&over.id) {
                    // The carrier sees it when it looks next.
                    let _ = run.send(Some(over));
                }
            }
            Out::Dropped(id) => {
                self.runs.remove(&id);
            }
        }
    }

    fn take_in(&mut self, heard: Heard) -> Option<negotiate::Input> {
        match heard {
            Heard::Message { from, message } => {
                self.peers.counted.message("received");
                Some(match message {
                    negotiate::Message::PlacementRequest(request)
                    | negotiate::Message::TaskSubmitted(request)
                        if !self.foreign.against(&request).is_empty() =>
                    {
                        let reasons = self.foreign.against(&request);
                        negotiate::Input::Unwilling { from, request, reasons }
                    }
                    message => negotiate::Input::Message { from, message },
                })
            }
            Heard::Rtt { peer, ms } => {
                let known = self.rtts.get(&peer);
                let near = known.is_some_and(|(before, at)| {
                    before.abs_diff(ms) <= before / 5 + 2 && at.elapsed() < RTT_EVERY
                });
                if near {
                    return None;
                }
                self.rtts.insert(peer.clone(), (ms, Instant::now()));
                Some(negotiate::Input::Rtt { peer, ms })
            }
            Heard::Dropped { from, reason, count } => {
                tracing::debug!(%from, reason, count, "something a peer sent was dropped");
                self.peers.note_dropped(from, reason, count);
                None
            }
            Heard::Asked { from, question, reply } => {
                let (handle, logs, peers) = (self.handle.clone(), self.logs.clone(), self.peers.clone());
                tokio::spawn(async move {
                    let answer = answer(&handle, &logs, &peers, from, question).await;
                    // Whoever asked may be gone.
                    let _ = reply.send(answer);
                });
                None
            }
            Heard::Connected(peer) => {
                tracing::info!(%peer, "in touch with a peer");
                tokio::spawn(self.peers.clone().show_invitation(self.handle.clone(), peer));
                None
            }
            Heard::Gone(peer) => {
                tracing::info!(%peer, "out of touch with a peer");
                None
            }
        }
    }
}

/// The record of a job that a peer runs for this server, if that is so: its id and attempt.
async fn run_of(
    handle: &Handle,
    pool: &PoolId,
    from: &NodeId,
    job: Digest,
    attempt: u32,
) -> Option<(JobId, u32)> {
    let (pool, from) = (pool.clone(), from.clone());
    let found = handle.read(move |view| {
        let state = view.engine.state();
        let known = state.peers.get(&pool)?.jobs().get(&job)?;
        let progress = &known.progress;
        let wrote = matches!(progress.state, JobState::Running | JobState::Completed | JobState::Failed(_));
        let won = progress.award.as_ref().is_some_and(|award| award.node == from);
        let (id, _) = state.announced.iter().find(|(_, digest)| **digest == job)?;
        let record = state.job(id)?;
        (wrote && won && progress.attempt == attempt).then(|| (id.clone(), record.attempt))
    });
    found.await.ok().flatten()
}

async fn answer(handle: &Handle, logs: &Arc<Logs>, peers: &Peers, from: NodeId, question: Question) -> Reply {
    let pool = &peers.pool;
    let stale = || Reply::Refused("stale_fence".to_owned());
    match question {
        Question::Output { job, attempt, stream, offset, bytes } => {
            let Some((id, attempt)) = run_of(handle, pool, &from, job, attempt).await else { return stale() };
            if !matches!(stream.as_str(), "stdout" | "stderr") {
                return Reply::Refused("unknown_stream".to_owned());
            }
            let logs = logs.clone();
            let kept = tokio::task::spawn_blocking(move || {
                let (job, node) = (id.as_str(), from.as_str());
                logs.keep(&Piece { job, node, attempt, stream: &stream, offset }, bytes.as_slice())
            });
            match kept.await {
                Ok(Ok(next)) => Reply::Next(next),
                Ok(Err(crate::logs::LogError::Gap { expected, .. })) => Reply::Next(expected),
                _ => Reply::Refused("not_kept".to_owned()),
            }
        }
        Question::Exit { job, attempt, code } => {
            let Some((id, attempt)) = run_of(handle, pool, &from, job, attempt).await else { return stale() };
            match handle.apply(Input::PeerExit { job: id, attempt, code }).await {
                Ok(Answer::Refused(_)) | Err(_) => stale(),
                Ok(_) => Reply::Done,
            }
        }
        Question::Invited { secret } => {
            if !bool::from(secret.as_bytes().ct_eq(peers.secret.as_bytes())) {
                peers.note_dropped(from, "not_invited", 1);
                return Reply::Refused("not_invited".to_owned());
            }
            peers.trust_invited(handle, &from).await;
            Reply::Done
        }
    }
}

/// Carries home what one hosted job writes, then its exit code, then lets its result go.
struct Carrier {
    hosted: Hosted,
    peers: Peers,
    handle: Handle,
    logs: Arc<Logs>,
}

/// What became of a try to hand something over.
enum Handed {
    Taken,
    /// The arbiter does not want it any more.
    Unwanted,
    Late,
}

impl Carrier {
    async fn run(self, mut over: watch::Receiver<Option<Over>>) {
        let mut position = 0;
        // When nobody waits any more: then the server ends, or the award is void.
        while let Some(end) = self.output(&mut position, &mut over).await {
            let Some(end) = end else { continue };
            let until = Instant::now() + OUTPUT_FIRST;
            let rest = self.rest(&mut position, until).await;
            let exit = Question::Exit { job: self.hosted.job, attempt: self.hosted.attempt, code: end.code };
            if matches!(rest, Handed::Taken) {
                self.hand_over(exit.clone(), until).await;
            }
            self.finish(&end).await;
            if matches!(rest, Handed::Late) {
                let until = Instant::now() + OUTPUT_FOR;
                if matches!(self.rest(&mut position, until).await, Handed::Taken) {
                    self.hand_over(exit, until).await;
                }
            }
            return;
        }
    }

    /// Carries what was written until there is a pause; `None` when nobody wants it any more, the end if it has come.
    async fn output(
        &self,
        position: &mut u64,
        over: &mut watch::Receiver<Option<Over>>,
    ) -> Option<Option<Over>> {
        if let Some(end) = over.borrow_and_update().clone() {
            return Some(Some(end));
        }
        let news = async {
            self.logs.wait(self.hosted.id.as_str(), *position, Duration::from_secs(1)).await;
        };
        tokio::select! {
            changed = over.changed() => return changed.ok().map(|()| over.borrow().clone()),
            () = news => {}
        }
        let until = Instant::now() + OUTPUT_FOR;
        let pieces = self.logs.read(self.hosted.id.as_str(), *position, None);
        tokio::select! {
            changed = over.changed() => changed.ok().map(|()| over.borrow().clone()),
            handed = self.pieces(pieces.0, until) => match handed {
                Handed::Taken => { *position = pieces.1; Some(None) }
                // It will be stopped before long.
                Handed::Unwanted => { tokio::time::sleep(RETRY.1).await; Some(None) }
                Handed::Late => Some(None),
            },
        }
    }

    async fn rest(&self, position: &mut u64, until: Instant) -> Handed {
        loop {
            let (pieces, next) = self.logs.read(self.hosted.id.as_str(), *position, None);
            if pieces.is_empty() {
                return Handed::Taken;
            }
            match self.pieces(pieces, until).await {
                Handed::Taken => *position = next,
                other => return other,
            }
        }
    }

    async fn pieces(&self, pieces: Vec<landfall_api::job::LogChunk>, until: Instant) -> Handed {
        for piece in pieces {
            let data = base64::engine::general_purpose::STANDARD.decode(&piece.data).unwrap_or_default();
            let mut at = 0;
            while at < data.len() {
                let end = (at + PIECE_BYTES).min(data.len());
                let question = Question::Output {
                    job: self.hosted.job,
                    attempt: self.hosted.attempt,
                    stream: piece.stream.clone(),
                    offset: piece.offset + at as u64,
                    bytes: Blob::new(data[at..end].to_vec()),
                };
                match self.hand_over(question, until).await {
                    Handed::Taken => at = end,
                    other => return other,
                }
            }
        }
        Handed::Taken
    }

    /// The arbiter may be this very server: the network does not speak to itself.
    async fn ask_arbiter(&self, question: Question) -> Option<Reply> {
        let to = self.hosted.arbiter.clone();
        if to == self.peers.id {
            return Some(answer(&self.handle, &self.logs, &self.peers, to, question).await);
        }
        let (answer, reply) = oneshot::channel();
        self.peers.order(Order::Ask { to, question, answer });
        reply.await.ok()
    }

    async fn hand_over(&self, question: Question, until: Instant) -> Handed {
        let mut pause = RETRY.0;
        loop {
            match self.ask_arbiter(question.clone()).await {
                Some(Reply::Done | Reply::Next(_)) => return Handed::Taken,
                Some(Reply::Refused(why)) if why == "stale_fence" => return Handed::Unwanted,
                Some(Reply::Refused(_) | Reply::Peers(_)) | None => {}
            }
            if Instant::now() + pause > until {
                return Handed::Late;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY.1);
        }
    }

    async fn finish(&self, end: &Over) {
        let output = self.digest();
        let event =
            RunnerEvent::Finished { outcome: end.outcome, fuel_used: None, run_ms: end.run_ms, output };
        let (job, attempt) = (self.hosted.job, self.hosted.attempt);
        let input = Box::new(negotiate::Input::Runner { job, attempt, event });
        let pool = self.peers.pool.clone();
        if let Err(error) = self.handle.apply(Input::Peer { pool, input }).await {
            tracing::warn!(%error, job = %self.hosted.id, "the result of a hosted job was not taken in");
        }
    }

    /// What names all that it wrote.
    fn digest(&self) -> Option<Digest> {
        let (mut position, mut bytes) = (0, Vec::new());
        loop {
            let (pieces, next) = self.logs.read(self.hosted.id.as_str(), position, None);
            if pieces.is_empty() {
                return (!bytes.is_empty()).then(|| Blob::new(bytes).digest());
            }
            for piece in pieces {
                bytes.extend(
                    base64::engine::general_purpose::STANDARD.decode(&piece.data).unwrap_or_default(),
                );
            }
            position = next;
        }
    }
}
