//! The loop that owns the swarm: orders go in, what was heard comes out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::str::FromStr as _;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use landfall_model::NodeId;
use landfall_negotiate::wire::{Channel, Envelope, WireError, decode, encode};
use landfall_negotiate::{Message, Topic};
use libp2p::gossipsub::{self, MessageAcceptance, PublishError};
use libp2p::multiaddr::Protocol;
use libp2p::request_response::{self, OutboundRequestId};
use libp2p::swarm::SwarmEvent;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::{Multiaddr, PeerId, Swarm, SwarmBuilder, identify, noise, ping, tcp, yamux};
use tokio::sync::{mpsc, oneshot};

use crate::behaviour::{Behaviour, BehaviourEvent, topic};
use crate::direct::{Asked, Question, Reply};
use crate::key::{Identity, id_of};
use crate::near::Near;
use crate::others::{LINES_WANTED, Others, is_loopback, is_unspecified, named};
use crate::rate::Rates;
use crate::standing::{IGNORED_BELOW, Standings};

/// How a peer reaches others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    pub listen: Vec<Multiaddr>,
    /// Peers to be in touch with, whatever happens.
    pub bootstrap: Vec<Multiaddr>,
    /// Peers with whom nothing is exchanged.
    pub blocked: Vec<NodeId>,
    /// Say on the networks that it listens on that it is there, and call whoever else says so.
    pub mdns: bool,
}

/// Why there is no network.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("the network of peers cannot be set up: {0}")]
    SetUp(String),
    #[error("peers cannot be listened for on {address}: {why}")]
    Listen { address: Multiaddr, why: String },
}

/// Something to do.
#[derive(Debug)]
pub enum Order {
    Broadcast(Message),
    Send {
        to: NodeId,
        message: Message,
    },
    /// Ask one peer something beside the protocol; no answer means that it could not be had.
    Ask {
        to: NodeId,
        question: Question,
        answer: oneshot::Sender<Reply>,
    },
    /// Keep in touch with a peer at this address.
    Add(Multiaddr),
    Block {
        peer: NodeId,
        blocked: bool,
    },
    /// A peer did something that costs it standing.
    Fault {
        peer: NodeId,
        cost: f64,
    },
    /// Say who is connected, and who has lost standing.
    List(oneshot::Sender<Vec<Standing>>),
}

/// A peer as the network sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    pub peer: NodeId,
    pub connected: bool,
    pub address: Option<Multiaddr>,
    /// Below 0 it has sent or handed on what it should not.
    pub score: f64,
}

/// Something that came.
#[derive(Debug)]
pub enum Heard {
    Message {
        from: NodeId,
        message: Message,
    },
    Rtt {
        peer: NodeId,
        ms: u32,
    },
    /// So many things were dropped, for this reason.
    Dropped {
        from: NodeId,
        reason: &'static str,
        count: u64,
    },
    Asked {
        from: NodeId,
        question: Question,
        reply: oneshot::Sender<Reply>,
    },
    Connected(NodeId),
    Gone(NodeId),
}

/// A broadcast that nobody could hear is tried again for so long.
const BROADCAST_KEPT: Duration = Duration::from_secs(2);
/// Broadcasts kept for that.
const KEPT_MAX: usize = 1024;
/// What is heard and not taken yet; more is dropped, which the protocol bears.
const HEARD_MAX: usize = 8192;
/// How often it is looked whether somebody is missing.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often somebody is asked who else is there.
const WHO_EVERY: Duration = Duration::from_secs(30);
/// A peer that listens everywhere has been told of all its addresses when nothing more comes for so long.
const LISTEN_QUIET: Duration = Duration::from_millis(100);
/// Pauses between two tries to reach somebody.
const REDIAL: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Somebody to be in touch with.
struct Wanted {
    address: Multiaddr,
    /// Who answers there, as the address says or was found out.
    peer: Option<PeerId>,
    pause: Duration,
    next: Instant,
}

fn named_in(address: &Multiaddr) -> Option<PeerId> {
    address.iter().find_map(|part| match part {
        Protocol::P2p(peer) => Some(peer),
        _ => None,
    })
}

/// The port that an address names, if it names one.
pub fn port_of(address: &Multiaddr) -> Option<u16> {
    address.iter().find_map(|part| match part {
        Protocol::Tcp(port) => Some(port),
        _ => None,
    })
}

/// The host that an address names, and the port there.
fn name_in(address: &Multiaddr) -> Option<(String, u16)> {
    let host = address.iter().find_map(|part| match part {
        Protocol::Dns(host) | Protocol::Dns4(host) | Protocol::Dns6(host) => Some(host.into_owned()),
        _ => None,
    })?;
    Some((host, port_of(address)?))
}

/// Whether a peer can be called at such an address: an IP address, or a name that says who is there, and a port of TCP.
pub fn is_callable(address: &Multiaddr) -> bool {
    let mut parts = address.iter();
    let is_ip = matches!(parts.next(), Some(Protocol::Ip4(_) | Protocol::Ip6(_)));
    let has_port = matches!(parts.next(), Some(Protocol::Tcp(_)));
    let named = parts.next();
    let is_named = matches!(named, Some(Protocol::P2p(_)));
    let is_host = is_ip || (is_named && name_in(address).is_some());
    is_host && has_port && (is_named || named.is_none()) && parts.next().is_none()
}

/// The peer that an address names, if it names one.
pub fn peer_in(address: &Multiaddr) -> Option<NodeId> {
    named_in(address).map(|peer| id_of(&peer))
}

impl Wanted {
    fn new(address: Multiaddr) -> Self {
        let peer = named_in(&address);
        Self { address, peer, pause: REDIAL.0, next: Instant::now() }
    }
}

/// A peer among others.
pub struct Network {
    pub(crate) swarm: Swarm<Behaviour>,
    heard: mpsc::Sender<Heard>,
    orders: mpsc::UnboundedReceiver<Order>,
    connected: BTreeMap<PeerId, Multiaddr>,
    wanted: Vec<Wanted>,
    kept: VecDeque<(Instant, Topic, Vec<u8>)>,
    asked: BTreeMap<OutboundRequestId, oneshot::Sender<Reply>>,
    answers: futures::stream::FuturesUnordered<Answering>,
    names: futures::stream::FuturesUnordered<Naming>,
    rates: Rates,
    standings: Standings,
    blocked: BTreeSet<PeerId>,
    others: Others,
    near: Option<Near>,
    /// Whoever is asked next who else is there comes after this one.
    last_asked: Option<PeerId>,
    ask_again: Instant,
    /// What was dropped and is not told yet.
    dropped: BTreeMap<(PeerId, &'static str), u64>,
    /// What was heard and could not be told.
    untold: u64,
}

type Channel_ = request_response::ResponseChannel<Reply>;
type Answering = futures::future::BoxFuture<'static, (Channel_, Reply)>;
/// An address, and what its name stands for.
type Naming = futures::future::BoxFuture<'static, (Multiaddr, Vec<Multiaddr>)>;

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").field("connected", &self.connected.len()).finish_non_exhaustive()
    }
}

fn peer_of(id: &NodeId) -> Option<PeerId> {
    PeerId::from_str(id.as_str()).ok()
}

impl Network {
    /// Sets a peer up and says where it listens. Nothing happens before it runs.
    pub async fn start(
        identity: &Identity,
        settings: Settings,
    ) -> Result<(Self, Vec<Multiaddr>, mpsc::UnboundedSender<Order>, mpsc::Receiver<Heard>), NetworkError>
    {
        let set_up = |error: &dyn std::fmt::Display| NetworkError::SetUp(error.to_string());
        let mut swarm = SwarmBuilder::with_existing_identity(identity.key.clone())
            .with_tokio()
            .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)
            .map_err(|error| set_up(&error))?
            .with_behaviour(|key| Behaviour::new(key).map_err(Into::into))
            .map_err(|error| set_up(&error))?
            // Peers stay in touch; `ping` finds out who is gone.
            .with_swarm_config(|config| config.with_idle_connection_timeout(Duration::from_secs(3600)))
            .build();
        for peer in settings.blocked.iter().filter_map(peer_of) {
            swarm.behaviour_mut().blocked.block_peer(peer);
        }
        let (give, orders) = mpsc::unbounded_channel();
        let (heard, hear) = mpsc::channel(HEARD_MAX);
        let mut network = Self {
            swarm,
            heard,
            orders,
            connected: BTreeMap::new(),
            wanted: settings.bootstrap.into_iter().map(Wanted::new).collect(),
            kept: VecDeque::new(),
            asked: BTreeMap::new(),
            answers: futures::stream::FuturesUnordered::new(),
            names: futures::stream::FuturesUnordered::new(),
            rates: Rates::default(),
            standings: Standings::default(),
            blocked: settings.blocked.iter().filter_map(peer_of).collect(),
            others: Others::default(),
            near: None,
            last_asked: None,
            ask_again: Instant::now(),
            dropped: BTreeMap::new(),
            untold: 0,
        };
        let mut addresses = Vec::new();
        for address in &settings.listen {
            addresses.extend(network.listen(address).await?);
        }
        // What others reach comes first.
        addresses.sort_by_key(is_loopback);
        if settings.mdns {
            let port = addresses.iter().find_map(port_of).unwrap_or(0);
            match Near::start(*network.swarm.local_peer_id(), &settings.listen, port) {
                Ok(near) => network.near = Some(near),
                Err(error) => tracing::warn!(%error, "peers of this network are not looked for"),
            }
        }
        Ok((network, addresses, give, hear))
    }

    /// Listens at an address, and says where that is: whoever listens everywhere has as many places as the machine has addresses.
    async fn listen(&mut self, address: &Multiaddr) -> Result<Vec<Multiaddr>, NetworkError> {
        let failed = |why: &dyn std::fmt::Display| NetworkError::Listen {
            address: address.clone(),
            why: why.to_string(),
        };
        let listener = self.swarm.listen_on(address.clone()).map_err(|error| failed(&error))?;
        let mut places = Vec::new();
        loop {
            let event = match places.is_empty() {
                true => self.swarm.select_next_some().await,
                false if !is_unspecified(address) => return Ok(places),
                false => match tokio::time::timeout(LISTEN_QUIET, self.swarm.select_next_some()).await {
                    Ok(event) => event,
                    Err(_) => return Ok(places),
                },
            };
            match event {
                SwarmEvent::NewListenAddr { listener_id, address } if listener_id == listener => {
                    places.push(address);
                }
                SwarmEvent::ListenerClosed { listener_id, reason, .. } if listener_id == listener => {
                    return Err(match reason {
                        Err(error) => failed(&error),
                        Ok(()) => failed(&"it was closed"),
                    });
                }
                event => self.on_event(event),
            }
        }
    }

    /// Carries on until nobody gives orders any more.
    pub async fn run(mut self) {
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = self.swarm.select_next_some() => self.on_event(event),
                order = self.orders.recv() => match order {
                    Some(order) => self.carry_out(order),
                    None => return,
                },
                Some((channel, reply)) = self.answers.next(), if !self.answers.is_empty() => {
                    // Whoever asked may be gone.
                    let _ = self.swarm.behaviour_mut().direct.send_response(channel, reply);
                }
                Some((address, places)) = self.names.next(), if !self.names.is_empty() => {
                    if places.is_empty() {
                        tracing::debug!(%address, "the name of a peer stands for no address");
                    }
                    places.into_iter().for_each(|place| self.dial(named_in(&address), place));
                }
                _ = look.tick() => {
                    self.settle_standings();
                    self.look_around();
                    if let Some(near) = &mut self.near {
                        let found = near.look(Instant::now());
                        self.call(found);
                    }
                    self.look_after();
                }
            }
        }
    }

    fn tell(&mut self, heard: Heard) {
        if self.heard.try_send(heard).is_err() {
            self.untold += 1;
        }
    }

    /// Counts what is dropped; it is told together, so that a flood of it stays small.
    fn drop_from(&mut self, peer: PeerId, reason: &'static str) {
        let cost = match reason {
            BLOCKED | LOW => 0.0,
            FLOOD => FLOOD_COST,
            _ => DROPPED_COST,
        };
        self.fall(peer, cost);
        if self.dropped.len() < KEPT_MAX || self.dropped.contains_key(&(peer, reason)) {
            *self.dropped.entry((peer, reason)).or_default() += 1;
        }
    }

    fn fall(&mut self, peer: PeerId, cost: f64) {
        if cost > 0.0 {
            let now = Instant::now();
            self.standings.fall(peer, cost, now);
            let score = self.standings.of(&peer, now);
            self.swarm.behaviour_mut().gossip.set_application_score(&peer, score);
        }
    }

    /// Tells what was dropped, and lets time heal.
    fn settle_standings(&mut self) {
        for ((peer, reason), count) in std::mem::take(&mut self.dropped) {
            self.tell(Heard::Dropped { from: id_of(&peer), reason, count });
        }
        for (peer, score) in self.standings.all(Instant::now()) {
            self.swarm.behaviour_mut().gossip.set_application_score(&peer, score);
        }
        if self.untold > 0 {
            tracing::warn!(messages = self.untold, "more is heard from peers than can be taken in");
            self.untold = 0;
        }
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Broadcast(message) => {
                let of = message.topic();
                self.publish(of, &Envelope::to_all(message));
            }
            Order::Send { to, message } => self.send(&to, message),
            Order::Ask { to, question, answer } => {
                // Dropping the answer says that there is none.
                if let Some(peer) = peer_of(&to) {
                    let id = self.swarm.behaviour_mut().direct.send_request(&peer, Asked::Aside(question));
                    self.asked.insert(id, answer);
                }
            }
            Order::Add(address) => {
                self.wanted.retain(|wanted| wanted.address != address);
                self.wanted.push(Wanted::new(address));
                self.look_after();
            }
            Order::Block { peer, blocked } => {
                let Some(peer) = peer_of(&peer) else { return };
                let list = &mut self.swarm.behaviour_mut().blocked;
                if blocked {
                    self.blocked.insert(peer);
                    list.block_peer(peer);
                } else {
                    self.blocked.remove(&peer);
                    list.unblock_peer(peer);
                }
            }
            Order::Fault { peer, cost } => {
                if let Some(peer) = peer_of(&peer) {
                    self.fall(peer, cost);
                }
            }
            Order::List(answer) => {
                let gossip = &self.swarm.behaviour().gossip;
                let connected = self.connected.iter().map(|(peer, address)| Standing {
                    peer: id_of(peer),
                    connected: true,
                    address: Some(address.clone()),
                    score: gossip.peer_score(peer).unwrap_or(0.0),
                });
                let mut all: Vec<Standing> = connected.collect();
                let lost = self.standings.all(Instant::now()).into_iter();
                all.extend(lost.filter(|(peer, _)| !self.connected.contains_key(peer)).map(
                    |(peer, score)| Standing { peer: id_of(&peer), connected: false, address: None, score },
                ));
                let _ = answer.send(all);
            }
        }
    }

    fn send(&mut self, to: &NodeId, message: Message) {
        let Some(peer) = peer_of(to) else { return };
        let envelope = Envelope::to_one(to.clone(), message);
        let direct_only = matches!(envelope.message, Message::Body { .. } | Message::BodyRequest { .. });
        if self.swarm.is_connected(&peer) || direct_only {
            match encode(&envelope, Channel::Direct) {
                Ok(bytes) => {
                    self.swarm.behaviour_mut().direct.send_request(&peer, Asked::Message(bytes));
                }
                Err(error) => tracing::warn!(%to, %error, "a message to a peer cannot be written"),
            }
        } else {
            self.publish(Topic::Placement, &envelope);
        }
    }

    fn publish(&mut self, of: Topic, envelope: &Envelope) {
        match encode(envelope, Channel::Gossip) {
            Ok(bytes) => self.publish_bytes(of, bytes, Instant::now() + BROADCAST_KEPT),
            Err(error) => tracing::warn!(%error, "a message to all peers cannot be written"),
        }
    }

    fn publish_bytes(&mut self, of: Topic, bytes: Vec<u8>, until: Instant) {
        match self.swarm.behaviour_mut().gossip.publish(topic(of), bytes.clone()) {
            Ok(_) => {}
            Err(PublishError::NoPeersSubscribedToTopic) => {
                if self.kept.len() < KEPT_MAX {
                    self.kept.push_back((until, of, bytes));
                }
            }
            Err(error) => tracing::warn!(%error, "a message to all peers was not sent"),
        }
    }

    /// Asks one after the other who else is there.
    fn look_around(&mut self) {
        let now = Instant::now();
        if now < self.ask_again || self.connected.len() >= LINES_WANTED {
            return;
        }
        let after = self.connected.keys().find(|peer| self.last_asked.is_none_or(|last| **peer > last));
        if let Some(peer) = after.or_else(|| self.connected.keys().next()).copied() {
            self.ask_again = now + WHO_EVERY;
            self.last_asked = Some(peer);
            self.swarm.behaviour_mut().direct.send_request(&peer, Asked::Who);
        }
    }

    /// Gets in touch with others whose places are known.
    fn call(&mut self, others: BTreeMap<PeerId, BTreeSet<Multiaddr>>) {
        let me = *self.swarm.local_peer_id();
        for (peer, places) in others {
            let known = peer == me || self.connected.contains_key(&peer) || self.blocked.contains(&peer);
            if known || self.connected.len() >= LINES_WANTED || self.is_ignored(&peer) {
                continue;
            }
            let options = DialOpts::peer_id(peer)
                .condition(PeerCondition::DisconnectedAndNotDialing)
                .addresses(places.into_iter().collect())
                .build();
            if let Err(error) = self.swarm.dial(options) {
                tracing::debug!(%peer, %error, "a peer that was found was not called");
            }
        }
    }

    /// Says again what nobody could hear, and calls whoever is missing.
    fn look_after(&mut self) {
        let now = Instant::now();
        for (until, of, bytes) in std::mem::take(&mut self.kept) {
            if until > now {
                self.publish_bytes(of, bytes, until);
            }
        }
        let me = *self.swarm.local_peer_id();
        for place in 0..self.wanted.len() {
            let wanted = &mut self.wanted[place];
            let there = wanted.peer.is_some_and(|peer| peer == me || self.connected.contains_key(&peer));
            if there {
                (wanted.pause, wanted.next) = (REDIAL.0, now + REDIAL.0);
                continue;
            }
            if wanted.next > now {
                continue;
            }
            wanted.next = now + wanted.pause;
            wanted.pause = (wanted.pause * 2).min(REDIAL.1);
            let address = wanted.address.clone();
            match name_in(&address) {
                Some((host, port)) => self.names.push(Box::pin(async move {
                    let found = tokio::net::lookup_host((host, port)).await;
                    let places = found.into_iter().flatten();
                    (
                        address,
                        places.map(|place| Multiaddr::from(place.ip()).with(Protocol::Tcp(port))).collect(),
                    )
                })),
                None => self.dial(named_in(&address), address),
            }
        }
    }

    fn dial(&mut self, peer: Option<PeerId>, address: Multiaddr) {
        let options = match peer {
            Some(peer) => DialOpts::peer_id(peer)
                .condition(PeerCondition::DisconnectedAndNotDialing)
                .addresses(vec![address.clone()])
                .build(),
            None => DialOpts::unknown_peer_id().address(address.clone()).build(),
        };
        if let Err(error) = self.swarm.dial(options) {
            tracing::debug!(%address, %error, "a peer was not called");
        }
    }

    fn on_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::Behaviour(BehaviourEvent::Gossip(event)) => self.on_gossip(event),
            SwarmEvent::Behaviour(BehaviourEvent::Direct(event)) => self.on_direct(event),
            SwarmEvent::Behaviour(BehaviourEvent::Ping(ping::Event { peer, result: Ok(took), .. })) => {
                // A round trip below a millisecond is still one.
                let ms = u32::try_from(took.as_millis()).unwrap_or(u32::MAX).max(1);
                self.tell(Heard::Rtt { peer: id_of(&peer), ms });
            }
            // Whoever does not answer is gone, though nobody said so: a line that is cut, a machine without power.
            SwarmEvent::Behaviour(BehaviourEvent::Ping(ping::Event {
                peer,
                connection,
                result: Err(error),
            })) if !matches!(error, ping::Failure::Unsupported) => {
                tracing::debug!(%peer, %error, "a line is dead");
                self.swarm.close_connection(connection);
            }
            SwarmEvent::Behaviour(BehaviourEvent::Identify(identify::Event::Received {
                peer_id,
                info,
                ..
            })) => {
                if let Some(address) = info.listen_addrs.first().cloned() {
                    self.connected.entry(peer_id).and_modify(|known| *known = address);
                    self.others.learn(peer_id, info.listen_addrs);
                    // Who is new may know others.
                    self.swarm.behaviour_mut().direct.send_request(&peer_id, Asked::Who);
                }
            }
            SwarmEvent::ConnectionEstablished { peer_id, endpoint, num_established, .. } => {
                let address = endpoint.get_remote_address();
                self.connected.entry(peer_id).or_insert_with(|| address.clone());
                for wanted in &mut self.wanted {
                    if endpoint.is_dialer() && same_place(address, &wanted.address) {
                        wanted.peer = Some(peer_id);
                    }
                }
                if num_established.get() == 1 {
                    self.tell(Heard::Connected(id_of(&peer_id)));
                }
            }
            SwarmEvent::ConnectionClosed { peer_id, num_established: 0, .. } => {
                self.connected.remove(&peer_id);
                self.others.forget(&peer_id);
                self.tell(Heard::Gone(id_of(&peer_id)));
            }
            SwarmEvent::OutgoingConnectionError { error, .. } => {
                tracing::debug!(%error, "a peer could not be reached");
            }
            _ => {}
        }
    }

    fn on_gossip(&mut self, event: gossipsub::Event) {
        match event {
            gossipsub::Event::Message { propagation_source, message_id, message } => {
                let Some(author) = message.source else { return };
                let acceptance = match self.take_in(author, &message.data, Channel::Gossip) {
                    Ok(()) => MessageAcceptance::Accept,
                    // Too much may be the author's fault and not that of whoever handed it on.
                    Err(FLOOD | BLOCKED | LOW) => MessageAcceptance::Ignore,
                    Err(_) => MessageAcceptance::Reject,
                };
                let gossip = &mut self.swarm.behaviour_mut().gossip;
                gossip.report_message_validation_result(&message_id, &propagation_source, acceptance);
            }
            gossipsub::Event::Subscribed { .. } => self.look_after(),
            _ => {}
        }
    }

    fn is_ignored(&self, peer: &PeerId) -> bool {
        self.standings.of(peer, Instant::now()) < IGNORED_BELOW
    }

    /// Hands on what is a message for this peer; says why it was dropped otherwise.
    fn take_in(&mut self, author: PeerId, bytes: &[u8], channel: Channel) -> Result<(), &'static str> {
        let from = id_of(&author);
        let now = Instant::now();
        let read = if self.blocked.contains(&author) {
            Err(BLOCKED)
        } else if !self.rates.admits(author, now) {
            // Also of somebody who is not listened to: whoever goes on falls deeper.
            Err(FLOOD)
        } else if self.is_ignored(&author) {
            Err(LOW)
        } else {
            decode(bytes, channel).map_err(reason_of)
        };
        match read {
            Ok(Envelope { to, message, .. }) => {
                if to.is_none_or(|to| Some(*self.swarm.local_peer_id()) == peer_of(&to)) {
                    self.tell(Heard::Message { from, message });
                }
                Ok(())
            }
            Err(reason) => {
                self.drop_from(author, reason);
                Err(reason)
            }
        }
    }

    fn on_direct(&mut self, event: request_response::Event<Asked, Reply>) {
        match event {
            request_response::Event::Message { peer, message, .. } => match message {
                request_response::Message::Request { request, channel, .. } => match request {
                    Asked::Message(bytes) => {
                        let reply = match self.take_in(peer, &bytes, Channel::Direct) {
                            Ok(()) => Reply::Done,
                            Err(reason) => Reply::Refused(reason.to_owned()),
                        };
                        let _ = self.swarm.behaviour_mut().direct.send_response(channel, reply);
                    }
                    Asked::Who => {
                        let told = self.others.told_to(&peer, self.connected.get(&peer));
                        let _ = self.swarm.behaviour_mut().direct.send_response(channel, Reply::Peers(told));
                    }
                    Asked::Aside(_) if self.is_ignored(&peer) => {
                        let reply = Reply::Refused(LOW.to_owned());
                        let _ = self.swarm.behaviour_mut().direct.send_response(channel, reply);
                    }
                    Asked::Aside(question) => {
                        let (reply, answer) = oneshot::channel();
                        self.tell(Heard::Asked { from: id_of(&peer), question, reply });
                        self.answers.push(Box::pin(async move {
                            let reply = answer.await.unwrap_or_else(|_| Reply::Refused("busy".to_owned()));
                            (channel, reply)
                        }));
                    }
                },
                request_response::Message::Response { request_id, response } => {
                    if let Reply::Peers(told) = &response {
                        self.call(named(told));
                    }
                    if let Some(answer) = self.asked.remove(&request_id) {
                        // Whoever wanted to know may have gone away.
                        let _ = answer.send(response);
                    }
                }
            },
            request_response::Event::OutboundFailure { request_id, error, peer, .. } => {
                self.asked.remove(&request_id);
                tracing::debug!(%peer, %error, "a peer did not answer");
            }
            request_response::Event::InboundFailure { peer, error, .. } => {
                // A line that breaks is nobody's fault.
                let bad = |error: &std::io::Error| error.kind() == std::io::ErrorKind::InvalidData;
                if matches!(&error, request_response::InboundFailure::Io(error) if bad(error)) {
                    self.drop_from(peer, MALFORMED);
                }
            }
            request_response::Event::ResponseSent { .. } => {}
        }
    }
}

const FLOOD: &str = "flood";
const BLOCKED: &str = "blocked";
/// Of somebody who is not listened to any more.
const LOW: &str = "low_standing";
const MALFORMED: &str = "malformed";
/// What one message too many costs of standing, and what one costs that should never have been sent.
const FLOOD_COST: f64 = 0.2;
const DROPPED_COST: f64 = 10.0;

const fn reason_of(error: WireError) -> &'static str {
    match error {
        WireError::Oversize => "oversize",
        WireError::UnknownVersion => "unknown_version",
        WireError::Malformed => MALFORMED,
        WireError::NotDirect => "not_direct",
    }
}

/// Whether two addresses are one, whoever answers there.
fn same_place(one: &Multiaddr, other: &Multiaddr) -> bool {
    let place = |address: &Multiaddr| -> Multiaddr {
        address.iter().filter(|part| !matches!(part, Protocol::P2p(_))).collect()
    };
    place(one) == place(other)
}
