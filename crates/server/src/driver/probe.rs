//! What the machines of the pool of this peer have: the facts that its offers are made of.
//!
//! *Free* is what is there, less what the ledger gave away, less load that no job here causes. That load is what an agent measures
//! on its whole machine beyond what was given away there, and beyond what the agent does not offer anyway; the mean of a minute
//! counts, in steps of a twentieth of the machine, for every change is an event in the journal.

use std::collections::{BTreeMap, VecDeque};

use landfall_api::node::Heartbeat;
use landfall_engine::record::JobRecord;
use landfall_model::{Approval, JobId, Millis, Name, Node, NodeId, Placement, Scope, Time};
use landfall_negotiate::{self as negotiate, Machine, Probe, ProbedGpu};

use super::core::Core;
use super::peers::Hosted;

/// How often facts are told although nothing changed; a third of the age at which they are stale.
const PROBE_EVERY: Millis = Millis::secs(30);
/// Load is a mean over this long.
const LOAD_MEAN: Millis = Millis::secs(60);
/// Load counts in so many steps of a machine; less than one is what every machine does when it does nothing.
const LOAD_STEPS: u64 = 20;
/// Most names of data that are told.
const DATA_MAX: usize = 4096;

/// Load of machines that no job of this server causes.
#[derive(Debug, Default)]
pub(super) struct Loads(BTreeMap<NodeId, Load>);

/// CPU in milli-cores and memory in MiB.
type Amounts = [u64; 2];

#[derive(Debug, Default)]
struct Load {
    /// The heartbeat that was looked at last: start of the agent, and number.
    seen: Option<(u64, u64)>,
    /// The most that was given away since then.
    given: Amounts,
    samples: VecDeque<(Time, Amounts)>,
}

/// What a machine carries beyond what was given away on it, and beyond what its agent keeps for others.
fn beyond(node: &Node, beat: &Heartbeat, given: Amounts) -> Amounts {
    let offered = [node.cpu_total.get(), node.ram_total.get()];
    let cores: u64 = beat.memory_domains.iter().map(|domain| u64::from(domain.cpus) * 1000).sum();
    let used = beat.memory_used_mb.unwrap_or(0);
    let whole = [cores, beat.ram_free_mib.map_or(0, |free| used.saturating_add(free))];
    let whole = [whole[0].max(offered[0]), whole[1].max(offered[1])];
    let carried = [(beat.cpu_usage_pct.unwrap_or(0.0) / 100.0 * whole[0] as f64).round() as u64, used];
    [0, 1].map(|what| {
        let kept = whole[what].saturating_sub(offered[what]);
        carried[what].saturating_sub(given[what]).saturating_sub(kept)
    })
}

impl Load {
    /// A job may have ended since the last heartbeat and is part of what this one measured, so the most counts that was given away.
    fn look(&mut self, now: Time, node: &Node, beat: &Heartbeat) {
        let given = [node.cpu_committed.get(), node.ram_committed.get()];
        self.given = [self.given[0].max(given[0]), self.given[1].max(given[1])];
        if self.seen.replace((beat.epoch, beat.seq)) == Some((beat.epoch, beat.seq)) {
            return;
        }
        if beat.cpu_usage_pct.is_some() || beat.memory_used_mb.is_some() {
            self.samples.push_back((now, beyond(node, beat, self.given)));
        }
        self.given = given;
        while self.samples.front().is_some_and(|(at, _)| now.since(*at) >= LOAD_MEAN) {
            self.samples.pop_front();
        }
    }

    fn mean(&self, node: &Node) -> Amounts {
        let offered = [node.cpu_total.get(), node.ram_total.get()];
        let count = (self.samples.len() as u64).max(1);
        [0, 1].map(|what| {
            let sum = self.samples.iter().fold(0, |sum: u64, (_, sample)| sum.saturating_add(sample[what]));
            let step = (offered[what] / LOAD_STEPS).max(1);
            (sum / count / step * step).min(offered[what])
        })
    }
}

impl Loads {
    fn of(&self, node: &Node) -> Amounts {
        self.0.get(&node.id).map_or([0, 0], |load| load.mean(node))
    }
}

impl Core {
    /// Tells the peer what its machines have, when that changed or some time has passed.
    pub(super) fn probe_peer(&mut self) {
        self.look_at_loads();
        let Some(probe) = self.probe() else { return };
        let Some(peers) = &mut self.peers else { return };
        let fresh = |(at, known): &(Time, Probe)| *known == probe && self.now.since(*at) < PROBE_EVERY;
        if peers.probed.as_ref().is_some_and(fresh) {
            return;
        }
        peers.probed = Some((self.now, probe.clone()));
        self.tell_peer(negotiate::Input::Capacity(Box::new(probe)));
    }

    fn look_at_loads(&mut self) {
        let Some(peers) = &mut self.peers else { return };
        let (Some(loads), Some(pool)) = (&mut peers.loads, self.engine.state().pools.get(&peers.pool)) else {
            return;
        };
        if loads.0.len() > pool.nodes.len() {
            loads.0.retain(|id, _| pool.nodes.iter().any(|node| node.id == *id));
        }
        for node in pool.nodes.iter().filter(|node| !node.has_left()) {
            if let Some(facts) = self.nodes.facts(&node.id) {
                loads.0.entry(node.id.clone()).or_default().look(self.now, node, &facts.heartbeat);
            }
        }
    }

    /// What the machines of the pool have together, as far as the ledger would give it away. What is not this peer's own doing
    /// counts as used by others.
    fn probe(&self) -> Option<Probe> {
        let peers = self.peers.as_ref()?;
        let pool = self.engine.state().pools.get(&peers.pool)?;
        let mut probe = Probe::default();
        let hosted = self.hosted_jobs();
        let awards = || self.engine.state().holds.values().filter(|hold| hold.award.is_some());
        let takes = |node: &&Node| {
            node.takes_work()
                && node.approval == Approval::Approved
                && node.cooldown_until.is_none_or(|until| until <= self.now)
        };
        for node in pool.nodes.iter().filter(takes) {
            probe.cpu_total += node.cpu_total.get();
            probe.memory_total += node.ram_total.get();
            let [cpu_load, memory_load] = peers.loads.as_ref().map_or([0, 0], |loads| loads.of(node));
            probe.cpu_measured += cpu_load;
            probe.memory_measured += memory_load;
            let first = u16::try_from(probe.gpus.len()).unwrap_or(u16::MAX);
            let last = first.saturating_add(u16::try_from(node.gpus.len()).unwrap_or(u16::MAX));
            probe.machines.push(Machine {
                cpu_free: node.cpu_free().get().saturating_sub(cpu_load),
                memory_free: node.ram_free().get().saturating_sub(memory_load),
                gpus: (first..last).collect(),
            });
            let is_here = |id: &JobId| node.placements.iter().any(|placement| placement.job == *id);
            probe.placed.extend(hosted.iter().filter(|hosted| is_here(&hosted.id)).map(|hosted| hosted.job));
            probe.placed.extend(awards().filter(|hold| hold.node == node.id).filter_map(|hold| hold.award));
            let kept = awards().filter(|hold| hold.node == node.id).map(|hold| &hold.placement);
            let own: Vec<&Placement> = node
                .placements
                .iter()
                .filter(|placement| self.is_hosted(&placement.job))
                .chain(kept)
                .collect();
            let (cpu, ram) =
                own.iter().fold((0, 0), |(cpu, ram), own| (cpu + own.cpu.get(), ram + own.ram.get()));
            probe.cpu_measured += node.cpu_committed.get().saturating_sub(cpu);
            probe.memory_measured += node.ram_committed.get().saturating_sub(ram);
            probe.running +=
                node.placements.iter().filter(|placement| !self.is_hosted(&placement.job)).count() as u64;
            for gpu in &node.gpus {
                let shares = own.iter().flat_map(|own| &own.devices).filter(|share| share.index == gpu.index);
                let shared = gpu.milli_committed.get() > shares.map(|share| share.milli.get()).sum::<u64>();
                let kept = gpu.hold().is_some_and(|job| !own.iter().any(|own| own.job == *job));
                probe.gpus.push(ProbedGpu {
                    index: u16::try_from(probe.gpus.len()).unwrap_or(u16::MAX),
                    memory_mib: gpu.vram_total().get(),
                    capability: gpu.capability.as_deref().cloned(),
                    // Requests are for whole devices, and one that is given out in slices is none.
                    busy: shared || kept || gpu.slices.is_some(),
                });
            }
            probe.runtimes.extend(node.runtimes.iter().cloned());
            probe.data.extend(warm(node).take(DATA_MAX.saturating_sub(probe.data.len())));
            probe.region = probe.region.take().or_else(|| node.region.clone());
            let mbit_s = node.metrics.and_then(|metrics| metrics.network_mbit_s).unwrap_or(0.0);
            probe.network_mbit_s = probe.network_mbit_s.max(mbit_s as u32);
        }
        if probe.cpu_total == 0 {
            return Some(probe).filter(|_| peers.probed.is_some());
        }
        probe.storage_total = free_disk_mib(&peers.data_dir);
        let waits = |hosted: &&Hosted| self.engine.state().job(&hosted.id).is_some_and(JobRecord::is_queued);
        let scope =
            |hosted: &Hosted| self.peer().map_or(Scope::Commons, |peer| peer.scope_of(&hosted.arbiter));
        let queued = self.engine.queue_len(&peers.pool).unwrap_or(0) as u64;
        probe.queued = by_scope(queued, hosted.iter().filter(waits).map(scope));
        Some(probe)
    }
}

/// How many jobs wait, by the scope of whoever wants them; whatever no other peer wants is local.
fn by_scope(queued: u64, hosted: impl Iterator<Item = Scope>) -> BTreeMap<Scope, u64> {
    let mut scopes = BTreeMap::from([(Scope::Local, queued)]);
    for scope in hosted.filter(|scope| *scope != Scope::Local) {
        *scopes.entry(scope).or_default() += 1;
        scopes.entry(Scope::Local).and_modify(|local| *local = local.saturating_sub(1));
    }
    scopes.retain(|_, jobs| *jobs > 0);
    scopes
}

/// What a machine has ready that a job may name: workloads, images, and the digests of images that are named by one.
fn warm(node: &Node) -> impl Iterator<Item = Name> {
    let workloads = node.cache.iter().filter_map(|id| Name::new(id.as_str()).ok());
    let digests = node.images.iter().filter_map(|image| Name::new(image.as_str().split_once('@')?.1).ok());
    workloads.chain(node.images.iter().cloned()).chain(digests)
}

/// What is free where this server keeps its data, in steps that do not change with every write.
fn free_disk_mib(dir: &std::path::Path) -> u64 {
    const STEP_MIB: u64 = 1024;
    let free = rustix::fs::statvfs(dir).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize) >> 20);
    if free > STEP_MIB { free / STEP_MIB * STEP_MIB } else { free }
}

#[cfg(test)]
mod tests {
    use landfall_api::node::DomainFacts;
    use landfall_model::{Mib, MilliCpu};

    use super::*;

    fn node(cores: u64, ram: u64) -> Node {
        let id = NodeId::new("n").unwrap_or_else(|_| unreachable!());
        Node::new(id, MilliCpu::new(cores * 1000), Mib::new(ram))
    }

    fn beat(seq: u64, pct: f64, used: u64) -> Heartbeat {
        Heartbeat { seq, cpu_usage_pct: Some(pct), memory_used_mb: Some(used), ..Heartbeat::default() }
    }

    #[test]
    fn load_is_what_was_measured_beyond_what_was_given_away() {
        let mut node = node(8, 8000);
        (node.cpu_committed, node.ram_committed) = (MilliCpu::new(2500), Mib::new(1000));
        let mut load = Load::default();
        // As in case N6, where 700 are in use that nobody was given; a step is 400.
        load.look(Time::ZERO, &node, &beat(1, 40.0, 1700));
        assert_eq!((load.samples[0].1, load.mean(&node)), ([700, 700], [400, 400]));
        // The same heartbeat is one sample, and the next ones make a mean over a minute.
        load.look(Time::ZERO, &node, &beat(1, 40.0, 1700));
        load.look(Time::from_millis(59_999), &node, &beat(2, 80.0, 0));
        assert_eq!((load.samples.len(), load.mean(&node)), (2, [2000, 0]));
        load.look(Time::from_millis(60_000), &node, &beat(3, 80.0, 0));
        assert_eq!(load.mean(&node), [3600, 0]);
    }

    #[test]
    fn a_job_that_has_ended_is_not_load_of_others() {
        let mut machine = node(4, 4000);
        machine.cpu_committed = MilliCpu::new(4000);
        let mut load = Load::default();
        load.look(Time::ZERO, &machine, &beat(1, 100.0, 0));
        machine.cpu_committed = MilliCpu::ZERO;
        load.look(Time::ZERO, &machine, &beat(2, 100.0, 0));
        assert_eq!(load.mean(&machine), [0, 0]);
        load.look(Time::ZERO, &machine, &beat(3, 99.0, 0));
        assert_eq!(load.mean(&machine), [1200, 0]);
    }

    #[test]
    fn jobs_of_others_wait_under_their_scope() {
        let of = |queued, hosted: &[Scope]| by_scope(queued, hosted.iter().copied());
        assert_eq!(of(0, &[]), BTreeMap::new());
        assert_eq!(of(3, &[Scope::Local]), BTreeMap::from([(Scope::Local, 3)]));
        let mixed = of(3, &[Scope::Cell, Scope::Cell, Scope::Local]);
        assert_eq!(mixed, BTreeMap::from([(Scope::Local, 1), (Scope::Cell, 2)]));
        assert_eq!(of(1, &[Scope::Commons]), BTreeMap::from([(Scope::Commons, 1)]));
    }

    #[test]
    fn what_an_agent_does_not_offer_is_there_for_others() {
        let domains = vec![DomainFacts { cpus: 8, gpus: 0 }];
        let offered = node(2, 1000);
        let said = |pct, used| Heartbeat {
            memory_domains: domains.clone(),
            ram_free_mib: Some(4000 - used),
            ..beat(1, pct, used)
        };
        assert_eq!(beyond(&offered, &said(75.0, 3000), [0, 0]), [0, 0]);
        assert_eq!(beyond(&offered, &said(100.0, 3500), [0, 0]), [2000, 500]);
    }
}
