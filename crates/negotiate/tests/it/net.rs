//! A network of peers in virtual time: every message passes the real encoder, every draw comes from one seed.

use std::collections::{BTreeMap, BTreeSet};

use landfall_model::{Digest, NodeId, Time};
use landfall_negotiate::wire::{self, Channel, Envelope};
use landfall_negotiate::{
    Durable, Effect, Entry, Input, Message, Metric, Peer, Probe, RunnerEvent, Settings, Submission,
    TaskOutcome, TimerId, TrustTable,
};
use landfall_testkit::Rng;
use landfall_testkit::peers::{self, History};

pub(crate) fn id(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

/// How bad the network is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    pub(crate) delay_min: u64,
    pub(crate) delay_spread: u64,
    pub(crate) loss_pct: u64,
    pub(crate) dup_pct: u64,
    pub(crate) garbage_pct: u64,
    /// Awards for which the ledger around the peer has no room when they are taken.
    pub(crate) no_room_pct: u64,
    pub(crate) cut_off: BTreeSet<NodeId>,
}

pub(crate) struct Slot {
    pub(crate) peer: Option<Peer>,
    pub(crate) durable: Durable,
    settings: Settings,
    trust: TrustTable,
    pub(crate) probe: Option<Probe>,
    boot: u64,
    offset: i64,
    /// Parts per million of the virtual clock.
    rate: i64,
    /// Processes: attempt, and whether they are being stopped.
    runs: BTreeMap<(Digest, u32), bool>,
    /// Processes that ended while the peer was down.
    ended: Vec<(Digest, u32)>,
}

impl Slot {
    pub(crate) fn local(&self, at: u64) -> Time {
        Time::from_millis(self.offset + at as i64 * self.rate / 1_000_000)
    }

    fn virtual_at(&self, at: Time) -> u64 {
        let local = (at.as_millis() - self.offset).max(0);
        let mut v = local * 1_000_000 / self.rate;
        while self.local(v as u64) < at {
            v += 1;
        }
        v as u64
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Event {
    Deliver { to: NodeId, from: NodeId, bytes: Vec<u8>, channel: Channel },
    Timer { peer: NodeId, id: TimerId },
    Finished { peer: NodeId, job: Digest, attempt: u32 },
    Gone { peer: NodeId, job: Digest, attempt: u32 },
    Watchdog { peer: NodeId, job: Digest, attempt: u32 },
    Probe { peer: NodeId },
    Submit { peer: NodeId, submission: Box<Submission> },
    Cancel { peer: NodeId, job: Digest },
    Inject { from: NodeId, to: NodeId, message: Box<Message> },
    Crash { peer: NodeId },
    Restart { peer: NodeId, reboot: bool },
    CutOff { peers: BTreeSet<NodeId> },
    Calm { faults: Faults },
}

pub(crate) struct Net {
    pub(crate) now: u64,
    pub(crate) slots: BTreeMap<NodeId, Slot>,
    queue: BTreeMap<(u64, u64), Event>,
    seq: u64,
    pub(crate) rng: Rng,
    pub(crate) faults: Faults,
    pub(crate) history: History,
    /// Every effect, if kept.
    pub(crate) log: Vec<(u64, NodeId, Effect)>,
    pub(crate) keep_log: bool,
    pub(crate) check: bool,
    /// How long a run takes.
    pub(crate) run_ms: u64,
    pub(crate) stop_spread: u64,
    pub(crate) probe_every: u64,
    /// Messages of these peers are lost from an instant on.
    pub(crate) mute: BTreeMap<NodeId, u64>,
    /// Whether claims reach only whom they name; then nobody can notice that there were two.
    pub(crate) private_claims: bool,
    pub(crate) steps: u64,
    pub(crate) undecodable: u64,
    /// Runs started, stopped, results accepted, leases lost.
    pub(crate) tally: [u64; 4],
    pub(crate) broken: Option<(&'static str, String)>,
}

impl Net {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        Self {
            now: 0,
            slots: BTreeMap::new(),
            queue: BTreeMap::new(),
            seq: 0,
            rng: Rng::new(seed),
            faults,
            history: History::default(),
            log: Vec::new(),
            keep_log: true,
            check: true,
            run_ms: 3_600_000,
            stop_spread: 0,
            probe_every: 30_000,
            mute: BTreeMap::new(),
            private_claims: false,
            steps: 0,
            undecodable: 0,
            tally: [0; 4],
            broken: None,
        }
    }

    pub(crate) fn add(&mut self, name: &str, settings: Settings, trust: TrustTable, probe: Option<Probe>) {
        self.add_with_clock(name, settings, trust, probe, 0, 1_000_000);
    }

    pub(crate) fn add_with_clock(
        &mut self,
        name: &str,
        settings: Settings,
        trust: TrustTable,
        probe: Option<Probe>,
        offset: i64,
        rate: i64,
    ) {
        let mut peer = Peer::new(id(name), settings.clone()).unwrap();
        peer.step(Time::ZERO, Input::Trust(trust.clone()));
        let durable = Durable { epoch: peer.epoch(), ..Durable::default() };
        let has_probe = probe.is_some();
        let slot = Slot {
            peer: Some(peer),
            durable,
            settings,
            trust,
            probe,
            boot: 0,
            offset,
            rate,
            runs: BTreeMap::new(),
            ended: Vec::new(),
        };
        self.slots.insert(id(name), slot);
        if has_probe {
            self.probe(&id(name));
        }
    }

    pub(crate) fn peer(&self, name: &str) -> &Peer {
        self.slots[&id(name)].peer.as_ref().unwrap()
    }

    pub(crate) fn at(&mut self, at: u64, event: Event) {
        self.seq += 1;
        self.queue.insert((at.max(self.now), self.seq), event);
    }

    pub(crate) fn submit(&mut self, name: &str, submission: &Submission) -> Digest {
        self.at(self.now, Event::Submit { peer: id(name), submission: Box::new(submission.clone()) });
        submission.digest().unwrap()
    }

    /// Runs everything due up to an instant.
    pub(crate) fn run_until(&mut self, end: u64) {
        while self.broken.is_none() {
            let Some((&(at, seq), _)) = self.queue.iter().next() else { break };
            if at > end {
                break;
            }
            let Some(event) = self.queue.remove(&(at, seq)) else { break };
            self.now = at;
            self.handle(event);
            if self.check {
                let peers: Vec<&Peer> = self.slots.values().filter_map(|slot| slot.peer.as_ref()).collect();
                if let Err(broken) = peers::all(&peers, &mut self.history) {
                    self.broken = Some(broken);
                }
            }
        }
        if self.broken.is_none() {
            self.now = self.now.max(end);
        }
    }

    fn step(&mut self, peer: &NodeId, input: Input) {
        let now = self.now;
        let Some(slot) = self.slots.get_mut(peer) else { return };
        let local = slot.local(now);
        let Some(machine) = slot.peer.as_mut() else { return };
        self.steps += 1;
        let effects = machine.step(local, input);
        self.carry_out(peer, effects);
    }

    fn probe(&mut self, peer: &NodeId) {
        if let Some(probe) = self.slots[peer].probe.clone() {
            self.step(peer, Input::Capacity(Box::new(probe)));
            if self.probe_every > 0 {
                self.at(self.now + self.probe_every, Event::Probe { peer: peer.clone() });
            }
        }
    }

    fn carry_out(&mut self, peer: &NodeId, effects: Vec<Effect>) {
        self.history.observe(&effects);
        let mut no_room = Vec::new();
        for effect in effects {
            match &effect {
                // Nothing is drawn where it cannot happen: the other draws of a seed stay what they were.
                Effect::Journal(Entry::Taken { job, .. })
                    if self.faults.no_room_pct > 0 && self.rng.chance(self.faults.no_room_pct) =>
                {
                    no_room.push(*job);
                }
                Effect::Send { message: Message::AwardAck(ack), .. } if no_room.contains(&ack.job) => {
                    continue;
                }
                Effect::Start(_) => self.tally[0] += 1,
                Effect::Stop { .. } => self.tally[1] += 1,
                Effect::Journal(Entry::Accepted { .. }) => self.tally[2] += 1,
                Effect::Metric(Metric::LeaseLost) => self.tally[3] += 1,
                _ => {}
            }
            if self.keep_log {
                self.log.push((self.now, peer.clone(), effect.clone()));
            }
            match effect {
                Effect::Broadcast { message } => {
                    let only = match &message {
                        Message::TaskClaimed(claim) if self.private_claims => Some(claim.node.clone()),
                        _ => None,
                    };
                    let bytes = wire::encode(&Envelope::to_all(message), Channel::Gossip).unwrap();
                    let others: Vec<NodeId> = self.slots.keys().filter(|to| *to != peer).cloned().collect();
                    let others = others.into_iter().filter(|to| only.as_ref().is_none_or(|only| only == to));
                    let others: Vec<NodeId> = others.collect();
                    others.into_iter().for_each(|to| self.post(peer, to, bytes.clone(), Channel::Gossip));
                }
                Effect::Send { to, message } => {
                    let envelope = Envelope::to_one(to.clone(), message);
                    let bytes = wire::encode(&envelope, Channel::Direct).unwrap();
                    self.post(peer, to, bytes, Channel::Direct);
                }
                Effect::SetTimer { id, at } => {
                    let at = self.slots[peer].virtual_at(at);
                    self.at(at, Event::Timer { peer: peer.clone(), id });
                }
                Effect::ClearTimer { .. } | Effect::Metric(_) => {}
                Effect::Journal(entry) => {
                    self.slots.get_mut(peer).unwrap().durable.apply(entry);
                }
                Effect::Start(start) => {
                    let (job, attempt) = (start.job, start.attempt);
                    self.history.began(job, peer.clone(), attempt);
                    self.slots.get_mut(peer).unwrap().runs.insert((job, attempt), false);
                    let at = self.now + self.run_ms / 2 + self.rng.below(self.run_ms);
                    self.at(at, Event::Finished { peer: peer.clone(), job, attempt });
                    self.step(peer, Input::Runner { job, attempt, event: RunnerEvent::Started });
                }
                Effect::Stop { job, attempt } => {
                    if let Some(stopping) = self.slots.get_mut(peer).unwrap().runs.get_mut(&(job, attempt)) {
                        *stopping = true;
                        let spread = self.rng.below(self.stop_spread + 1);
                        self.at(self.now + spread, Event::Gone { peer: peer.clone(), job, attempt });
                    }
                }
            }
        }
        no_room.into_iter().for_each(|job| self.step(peer, Input::NoRoom { job }));
    }

    fn post(&mut self, from: &NodeId, to: NodeId, bytes: Vec<u8>, channel: Channel) {
        let cut = |peer: &NodeId| self.faults.cut_off.contains(peer);
        if cut(from) != cut(&to) || self.mute.get(from).is_some_and(|since| self.now >= *since) {
            return;
        }
        if self.rng.chance(self.faults.loss_pct) {
            return;
        }
        let copies = if self.rng.chance(self.faults.dup_pct) { 2 } else { 1 };
        for _ in 0..copies {
            let mut at = self.now + self.faults.delay_min + self.rng.below(self.faults.delay_spread + 1);
            if self.faults.dup_pct > 0 && self.rng.chance(2) {
                at += self.rng.below(20_000);
            }
            self.at(at, Event::Deliver { to: to.clone(), from: from.clone(), bytes: bytes.clone(), channel });
        }
        if self.rng.chance(self.faults.garbage_pct) {
            self.post_garbage(from, &to, &bytes, channel);
        }
    }

    /// Bytes that are damaged, and the same words in another peer's mouth.
    fn post_garbage(&mut self, from: &NodeId, to: &NodeId, bytes: &[u8], channel: Channel) {
        let mut damaged = bytes.to_vec();
        let position = self.rng.below(damaged.len() as u64) as usize;
        damaged[position] ^= 1 << self.rng.below(8);
        damaged.truncate(damaged.len() - self.rng.below(2) as usize);
        let names: Vec<NodeId> = self.slots.keys().cloned().collect();
        let liar = names[self.rng.below(names.len() as u64) as usize].clone();
        let at = self.now + self.rng.below(500);
        // A damaged message would not pass its signature: only its decoding is tried.
        if wire::decode(&damaged, channel).is_err() {
            self.undecodable += 1;
        }
        if liar != *from && liar != *to {
            self.at(at, Event::Deliver { to: to.clone(), from: liar, bytes: bytes.to_vec(), channel });
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Deliver { to, from, bytes, channel } => match wire::decode(&bytes, channel) {
                Ok(envelope) if envelope.to.as_ref().is_none_or(|addressed| *addressed == to) => {
                    self.step(&to, Input::Message { from, message: envelope.message });
                }
                Ok(_) => {}
                Err(_) => self.undecodable += 1,
            },
            Event::Timer { peer, id } => self.step(&peer, Input::Timer { id }),
            Event::Probe { peer } => self.probe(&peer),
            Event::Submit { peer, submission } => self.step(&peer, Input::Submit(submission)),
            Event::Cancel { peer, job } => self.step(&peer, Input::Cancel { job }),
            Event::Inject { from, to, message } => self.step(&to, Input::Message { from, message: *message }),
            Event::Finished { peer, job, attempt } => self.finished(&peer, job, attempt),
            Event::Gone { peer, job, attempt } => {
                self.slots.get_mut(&peer).unwrap().runs.remove(&(job, attempt));
                self.history.ended(job, peer, attempt);
            }
            Event::Watchdog { peer, job, attempt } => {
                let slot = self.slots.get_mut(&peer).unwrap();
                let run = slot.durable.runs.get(&job);
                let over = run.is_some_and(|run| run.self_stop_at <= slot.local(self.now));
                if slot.peer.is_none() && over && slot.runs.remove(&(job, attempt)).is_some() {
                    self.history.ended(job, peer, attempt);
                }
            }
            Event::Crash { peer } => self.crash(&peer),
            Event::Restart { peer, reboot } => self.restart(&peer, reboot),
            Event::CutOff { peers } => self.faults.cut_off = peers,
            Event::Calm { faults } => {
                self.faults = faults;
                let down: Vec<NodeId> =
                    self.slots.iter().filter(|(_, s)| s.peer.is_none()).map(|(id, _)| id.clone()).collect();
                down.iter().for_each(|peer| self.restart(peer, false));
            }
        }
    }

    fn finished(&mut self, peer: &NodeId, job: Digest, attempt: u32) {
        let slot = self.slots.get_mut(peer).unwrap();
        if slot.runs.get(&(job, attempt)) != Some(&false) {
            return;
        }
        slot.runs.remove(&(job, attempt));
        self.history.ended(job, peer.clone(), attempt);
        if slot.peer.is_none() {
            slot.ended.push((job, attempt));
            return;
        }
        self.tell_finished(peer, job, attempt);
    }

    fn tell_finished(&mut self, peer: &NodeId, job: Digest, attempt: u32) {
        let event = RunnerEvent::Finished {
            outcome: TaskOutcome::Success,
            fuel_used: Some(1000),
            run_ms: self.run_ms,
            output: None,
        };
        self.step(peer, Input::Runner { job, attempt, event });
    }

    fn crash(&mut self, peer: &NodeId) {
        let slot = self.slots.get_mut(peer).unwrap();
        slot.peer = None;
        let runs: Vec<(Digest, u32, Time)> = slot
            .runs
            .keys()
            .filter_map(|(job, attempt)| {
                Some((*job, *attempt, slot.durable.runs.get(job).map(|run| run.self_stop_at)?))
            })
            .collect();
        for (job, attempt, at) in runs {
            // While the peer is down, the runner keeps to the journalled self-stop time.
            let at = self.slots[peer].virtual_at(at);
            self.at(at + self.stop_spread, Event::Watchdog { peer: peer.clone(), job, attempt });
        }
    }

    fn restart(&mut self, peer: &NodeId, reboot: bool) {
        let now = self.now;
        let slot = self.slots.get_mut(peer).unwrap();
        if slot.peer.is_some() {
            return;
        }
        if reboot {
            slot.boot += 1;
            slot.offset -= slot.local(now).as_millis();
            for (job, attempt) in std::mem::take(&mut slot.runs).into_keys() {
                self.history.ended(job, peer.clone(), attempt);
            }
        }
        let (settings, trust) = (slot.settings.clone(), slot.trust.clone());
        let (machine, effects) =
            Peer::restart(peer.clone(), settings, trust, slot.durable.clone(), slot.local(now), slot.boot)
                .unwrap();
        slot.peer = Some(machine);
        let ended = std::mem::take(&mut slot.ended);
        self.carry_out(peer, effects);
        if let Some(probe) = self.slots[peer].probe.clone() {
            self.step(peer, Input::Capacity(Box::new(probe)));
        }
        ended.into_iter().for_each(|(job, attempt)| self.tell_finished(peer, job, attempt));
    }

    pub(crate) fn metrics(&self, name: &str, wanted: impl Fn(&Metric) -> bool) -> usize {
        let found = self.log.iter().filter(|(_, by, effect)| {
            (name.is_empty() || by.as_str() == name)
                && matches!(effect, Effect::Metric(metric) if wanted(metric))
        });
        found.count()
    }

    /// Instants at which a peer sent messages of a kind.
    pub(crate) fn sent(&self, name: &str, wanted: impl Fn(&Message) -> bool) -> Vec<u64> {
        let by = id(name);
        let said = |effect: &Effect| match effect {
            Effect::Broadcast { message } | Effect::Send { message, .. } => wanted(message),
            _ => false,
        };
        self.log.iter().filter(|(_, peer, effect)| *peer == by && said(effect)).map(|(at, ..)| *at).collect()
    }

    /// Instants at which a peer did something.
    pub(crate) fn did(&self, name: &str, wanted: impl Fn(&Effect) -> bool) -> Vec<u64> {
        let by = id(name);
        self.log
            .iter()
            .filter(|(_, peer, effect)| *peer == by && wanted(effect))
            .map(|(at, ..)| *at)
            .collect()
    }
}
