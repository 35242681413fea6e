//! A peer that does what a test says, good or bad, over the real network and through the real encoder.

use std::time::Duration;

use landfall_model::{Digest, Name, NodeId, Scope};
use landfall_negotiate::{
    AwardAck, Blob, BodyRef, Closing, Facts, Fence, Message, PlacementOffer, PlacementRequest, Profile,
    TaskClaimed, TaskOutcome, TaskResult,
};
use landfall_peer::{Heard, Identity, Multiaddr, Network, Order, Question, Reply, Settings};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use crate::stand::Stand;

/// Long enough for a slow machine; only a broken program reaches it.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) struct Puppet {
    runtime: Runtime,
    orders: mpsc::UnboundedSender<Order>,
    heard: mpsc::Receiver<Heard>,
    pub(crate) id: NodeId,
    /// The server that invited it.
    pub(crate) host: NodeId,
    _dir: TempDir,
}

fn address_of(stand: &Stand) -> (Multiaddr, String) {
    let shown = stand.json(&["peer", "id"]);
    let (address, secret) = shown["invitation"].as_str().unwrap().split_once('#').unwrap();
    (address.parse().unwrap(), secret.to_owned())
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

impl Puppet {
    /// A peer that a server invited, so that both trust each other.
    pub(crate) fn invited_by(stand: &Stand) -> Self {
        let (address, secret) = address_of(stand);
        let host = landfall_peer::peer_in(&address).unwrap();
        let dir = TempDir::new().unwrap();
        let identity = Identity::load_or_make(dir.path()).unwrap();
        let runtime = runtime();
        let settings = Settings { bootstrap: vec![address], ..Settings::default() };
        let (network, _, orders, heard) = runtime.block_on(Network::start(&identity, settings)).unwrap();
        runtime.spawn(network.run());
        let id = identity.id().clone();
        let mut puppet = Self { runtime, orders, heard, id, host: host.clone(), _dir: dir };
        puppet.hear_any("to be connected", |heard| match heard {
            Heard::Connected(peer) if *peer == host => Some(()),
            _ => None,
        });
        let (answer, reply) = oneshot::channel();
        puppet.order(Order::Ask { to: host, question: Question::Invited { secret }, answer });
        assert_eq!(puppet.runtime.block_on(reply).unwrap(), Reply::Done);
        puppet
    }

    fn order(&self, order: Order) {
        self.orders.send(order).unwrap();
    }

    pub(crate) fn say_all(&self, message: Message) {
        self.order(Order::Broadcast(message));
    }

    /// Says something to the server that invited it.
    pub(crate) fn say(&self, message: Message) {
        self.order(Order::Send { to: self.host.clone(), message });
    }

    fn hear_any<T>(&mut self, what: &str, mut wanted: impl FnMut(&Heard) -> Option<T>) -> T {
        let heard = &mut self.heard;
        let listening = async {
            loop {
                let one = heard.recv().await.expect("the network goes on");
                if let Some(found) = wanted(&one) {
                    return found;
                }
            }
        };
        let found = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, listening).await });
        found.unwrap_or_else(|_| panic!("it never heard what it waited for: {what}"))
    }

    /// Waits for a message, whatever else is said meanwhile.
    pub(crate) fn hear<T>(&mut self, what: &str, mut wanted: impl FnMut(&Message) -> Option<T>) -> T {
        self.hear_any(what, |heard| match heard {
            Heard::Message { message, .. } => wanted(message),
            _ => None,
        })
    }

    /// Waits for the next request.
    pub(crate) fn asked(&mut self) -> PlacementRequest {
        self.hear("a request", |message| match message {
            Message::PlacementRequest(request) | Message::TaskSubmitted(request) => Some((**request).clone()),
            _ => None,
        })
    }

    /// An offer that is hard to beat.
    pub(crate) fn offer(&self, request: &PlacementRequest) -> PlacementOffer {
        PlacementOffer {
            job: request.job,
            epoch: request.epoch,
            round: request.round,
            node: self.id.clone(),
            facts: Facts {
                cpu_free: 64_000,
                cpu_total: 64_000,
                memory_free: 1 << 20,
                memory_total: 1 << 20,
                storage_free: 1 << 20,
                network_mbit_s: 1000,
                gpus_free: 0,
                gpus_total: 0,
                gpus_fitting: 0,
                running: 0,
                queued: 0,
                local: 0,
                region: None,
                probe_age_ms: 0,
            },
            cost: 1,
            start_delay_ms: 0,
            hold_ttl_ms: 3000,
            score: 0.5,
            offered_at: None,
        }
    }

    /// Offers, and waits until the job is awarded to it.
    pub(crate) fn win(&mut self, request: &PlacementRequest) -> Fence {
        self.say(Message::PlacementOffer(Box::new(self.offer(request))));
        let (own, job) = (self.id.clone(), request.job);
        self.hear("an award", |message| match message {
            Message::TaskClaimed(claim) if claim.job == job && claim.node == own => Some(claim.fence),
            _ => None,
        })
    }

    pub(crate) fn ack(&self, job: Digest, fence: Fence) {
        self.say(Message::AwardAck(AwardAck { job, fence, node: self.id.clone() }));
    }

    /// Waits until the whole network knows that the job is its own.
    pub(crate) fn placed(&mut self, job: Digest) {
        let own = self.id.clone();
        self.hear("that it is placed", |message| match message {
            Message::PlacementClosed(closed) if closed.job == job && closed.outcome == Closing::Placed => {
                (closed.winner.as_ref() == Some(&own)).then_some(())
            }
            _ => None,
        });
    }

    /// A good result for a job.
    pub(crate) fn result(&self, job: Digest, fence: Fence) -> TaskResult {
        TaskResult {
            job,
            fence,
            node: self.id.clone(),
            outcome: TaskOutcome::Success,
            reason: None,
            fuel_used: 5000,
            run_ms: 5,
            output: None,
        }
    }

    /// Sends a result and says whether it was accepted.
    pub(crate) fn report(&mut self, result: TaskResult) -> bool {
        let job = result.job;
        self.say(Message::TaskResult(result));
        self.hear("an answer to a result", |message| match message {
            Message::ResultAck(ack) if ack.job == job => Some(ack.accepted),
            _ => None,
        })
    }

    /// A request of its own, as an arbiter sends it.
    pub(crate) fn request(&self, number: u8, body: &serde_json::Value) -> PlacementRequest {
        let body = Blob::new(serde_json::to_vec(body).unwrap());
        PlacementRequest {
            job: Digest([number; 32]),
            epoch: 1,
            round: 1,
            submitter: self.id.clone(),
            profile: Some(Profile { cpu_milli: Some(100), ..Profile::default() }),
            runtimes: vec![Name::new("process").unwrap()],
            hints: Default::default(),
            max_cost: None,
            fuel_limit: 10_000,
            class: 5,
            deadline_ms: None,
            deliberation_ms: 0,
            lease_ms: 15_000,
            max_scope: Scope::Commons,
            allowed_scopes: Vec::new(),
            body: BodyRef { digest: body.digest(), bytes: body.len() as u64, inline: Some(body) },
            dry_run: false,
            want_declines: true,
            requested_at: None,
        }
    }

    /// The award of a job of its own.
    pub(crate) fn claim(&self, job: Digest, node: &NodeId) -> TaskClaimed {
        let fence = Fence { epoch: 1, attempt: 1 };
        TaskClaimed { job, fence, node: node.clone(), price: 10, lease_ms: 15_000 }
    }
}
