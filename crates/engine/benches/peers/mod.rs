//! Many peers in one process: jobs are announced to all, the best offer wins, the work ends at once.

use std::collections::BTreeMap;

use landfall_model::{Millis, NodeId, Time};
use landfall_negotiate::{
    Effect, Input, Message, Peer, Probe, Profile, RunnerEvent, Settings, Submission, TaskOutcome, TimerId,
    TrustTable,
};

/// One-way delay between peers.
const DELAY: Millis = Millis::new(10);

/// What happens to a peer at an instant.
enum Event {
    Hears(NodeId, Message),
    Timer(TimerId),
}

pub(crate) struct Peers {
    peers: Vec<Peer>,
    places: BTreeMap<NodeId, usize>,
    /// What happens when, in order.
    queue: BTreeMap<(Time, u64), (usize, Event)>,
    next: u64,
    nonce: u64,
    now: Time,
    pub(crate) steps: u64,
    pub(crate) placed: u64,
    pub(crate) offers: u64,
}

impl Peers {
    /// The first peer is the arbiter; one in ten of the others has room for the job.
    pub(crate) fn new(count: usize) -> Self {
        let id = |number: usize| NodeId::new(&format!("peer-{number:06}")).expect("a valid id");
        let arbiter = id(0);
        let all: BTreeMap<NodeId, f64> =
            (0..count).map(|number| (id(number), 0.3 + (number % 70) as f64 / 100.0)).collect();
        let mut peers = Vec::with_capacity(count);
        for number in 0..count {
            // Bounds protect a peer from a flood; here one arbiter is the whole world.
            let settings = Settings { early_close: false, ..Settings::default() };
            let mut peer = Peer::new(id(number), settings).expect("usual settings");
            let known = if number == 0 { all.clone() } else { [(arbiter.clone(), 1.0)].into() };
            let table = TrustTable::new(known, BTreeMap::new()).expect("trust in range");
            peer.step(Time::ZERO, Input::Trust(table));
            let cores = if number % 10 == 1 { 16 } else { 1 };
            let probe = Probe {
                cpu_total: 1000 * cores,
                memory_total: 4096 * cores,
                storage_total: 1000,
                ..Probe::default()
            };
            peer.step(Time::ZERO, Input::Capacity(Box::new(probe)));
            peers.push(peer);
        }
        let places = (0..count).map(|number| (id(number), number)).collect();
        let (queue, now) = (BTreeMap::new(), Time::ZERO);
        Self { peers, places, queue, next: 0, nonce: 0, now, steps: 0, placed: 0, offers: 0 }
    }

    fn at(&mut self, at: Time, peer: usize, event: Event) {
        self.next += 1;
        self.queue.insert((at, self.next), (peer, event));
    }

    fn step(&mut self, peer: usize, input: Input) {
        self.steps += 1;
        let effects = self.peers[peer].step(self.now, input);
        let me = self.peers[peer].id().clone();
        for effect in effects {
            match effect {
                Effect::Broadcast { message } => {
                    self.placed += u64::from(matches!(&message, Message::PlacementClosed(_)));
                    for other in (0..self.peers.len()).filter(|other| *other != peer) {
                        self.at(self.now + DELAY, other, Event::Hears(me.clone(), message.clone()));
                    }
                }
                Effect::Send { to, message } => {
                    self.offers += u64::from(matches!(&message, Message::PlacementOffer(_)));
                    if let Some(&other) = self.places.get(&to) {
                        self.at(self.now + DELAY, other, Event::Hears(me.clone(), message));
                    }
                }
                Effect::SetTimer { id, at } => self.at(at, peer, Event::Timer(id)),
                Effect::Start(start) => {
                    let (job, attempt) = (start.job, start.attempt);
                    self.step(peer, Input::Runner { job, attempt, event: RunnerEvent::Started });
                    let event = RunnerEvent::Finished {
                        outcome: TaskOutcome::Success,
                        fuel_used: Some(10),
                        run_ms: 1,
                        output: None,
                    };
                    self.step(peer, Input::Runner { job, attempt, event });
                }
                _ => {}
            }
        }
    }

    /// Submits jobs one after the other and lets each be placed and end.
    pub(crate) fn place(&mut self, jobs: usize) {
        for _ in 0..jobs {
            self.nonce += 1;
            let submitter = self.peers[0].id().clone();
            let profile = Profile { cpu_milli: Some(2000), memory_mib: Some(4096), ..Profile::default() };
            let submission = Submission { profile: Some(profile), ..Submission::new(submitter, self.nonce) };
            self.step(0, Input::Submit(Box::new(submission)));
            let until = self.now + Millis::secs(2);
            while let Some((&(at, number), _)) =
                self.queue.first_key_value().filter(|((at, _), _)| *at <= until)
            {
                let Some((peer, event)) = self.queue.remove(&(at, number)) else { break };
                self.now = at;
                let input = match event {
                    Event::Hears(from, message) => Input::Message { from, message },
                    Event::Timer(id) => Input::Timer { id },
                };
                self.step(peer, input);
            }
            self.now = until;
        }
    }
}
