//! A node's ledger of its own capacity: what it has, what it has promised, what is free.
//!
//! Every promise is a grant under the job's digest: a soft hold for an offer, or a reservation for an award. A grant is
//! made in one step with the check that it fits, so grants never exceed capacity.

use std::collections::{BTreeMap, BTreeSet};

use landfall_model::{Digest, Name, Scope, Time};
use landfall_policy::rules::offer::capability_reaches;
use serde::{Deserialize, Serialize};

use crate::profile::{Facts, GpuNeed, Profile};

/// One device as probed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbedGpu {
    pub index: u16,
    pub memory_mib: u64,
    /// Its capability, such as `sm_90`.
    #[serde(default)]
    pub capability: Option<Name>,
    /// Whether something that is not a negotiated job uses it.
    #[serde(default)]
    pub busy: bool,
}

/// One machine of several, and what is free on it now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Machine {
    pub cpu_free: u64,
    pub memory_free: u64,
    /// Which of the devices are in it.
    pub gpus: Vec<u16>,
}

/// What the agent found on its machine. Use is measured over everything; `own` is the part of negotiated jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Probe {
    pub cpu_total: u64,
    pub cpu_measured: u64,
    /// CPU in use by negotiated jobs.
    pub cpu_own: u64,
    pub memory_total: u64,
    pub memory_measured: u64,
    /// Memory in use by negotiated jobs.
    pub memory_own: u64,
    /// Disk of the work directory.
    pub storage_total: u64,
    pub storage_measured: u64,
    /// Disk in use by negotiated jobs.
    pub storage_own: u64,
    pub network_mbit_s: u32,
    pub gpus: Vec<ProbedGpu>,
    /// Jobs running here that were not negotiated.
    pub running: u64,
    /// Jobs queued here, by the scope they came from.
    pub queued: BTreeMap<Scope, u64>,
    /// Where the node stands.
    pub region: Option<Name>,
    pub runtimes: BTreeSet<Name>,
    /// Digests of data it holds.
    pub data: BTreeSet<Name>,
    /// The machines, where there are several: a job runs on one of them. None means one that has everything.
    pub machines: Vec<Machine>,
    /// Negotiated jobs that have their place on one of them, so that it is not free any more.
    pub placed: BTreeSet<Digest>,
}

impl Probe {
    pub fn queued_total(&self) -> u64 {
        self.queued.values().fold(0, |sum, queued| sum.saturating_add(*queued))
    }

    /// Jobs queued here for one scope.
    pub fn queued_for(&self, scope: Scope) -> u64 {
        self.queued.get(&scope).copied().unwrap_or(0)
    }

    /// Whether a total differs by a tenth or more.
    pub(super) fn totals_changed(&self, before: &Self) -> bool {
        let changed = |a: u64, b: u64| a.abs_diff(b).saturating_mul(10) >= a.max(b) && a != b;
        changed(self.cpu_total, before.cpu_total)
            || changed(self.memory_total, before.memory_total)
            || changed(self.storage_total, before.storage_total)
            || changed(self.network_mbit_s.into(), before.network_mbit_s.into())
            || changed(self.gpus.len() as u64, before.gpus.len() as u64)
    }
}

/// Whether a promise is for an offer or for an award.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum GrantKind {
    /// For an offer; ends by itself.
    Hold,
    /// For an award.
    Reservation,
}

/// What is promised to one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// For an offer or an award.
    pub kind: GrantKind,
    pub cpu_milli: u64,
    pub memory_mib: u64,
    pub storage_mib: u64,
    pub network_mbit_s: u64,
    pub gpus: Vec<u16>,
}

/// What a node has and has promised.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ledger {
    probe: Option<Probe>,
    probed_at: Time,
    grants: BTreeMap<Digest, Grant>,
}

fn free(total: u64, promised: u64, measured: u64, own: u64) -> u64 {
    total.saturating_sub(promised).saturating_sub(measured.saturating_sub(own))
}

impl Ledger {
    pub const fn probe(&self) -> Option<&Probe> {
        self.probe.as_ref()
    }

    pub const fn grants(&self) -> &BTreeMap<Digest, Grant> {
        &self.grants
    }

    /// Reservations, which is to say negotiated jobs that run or are about to.
    pub fn reservations(&self) -> u64 {
        self.grants.values().filter(|grant| grant.kind == GrantKind::Reservation).count() as u64
    }

    pub(super) fn set_probe(&mut self, probe: Probe, now: Time) {
        self.probe = Some(probe);
        self.probed_at = now;
    }

    /// Age of the last probe.
    pub(super) fn age_ms(&self, now: Time) -> u64 {
        now.since(self.probed_at).get()
    }

    fn promised(&self, amount: impl Fn(&Grant) -> u64) -> u64 {
        self.grants.values().fold(0, |sum, grant| sum.saturating_add(amount(grant)))
    }

    fn free_gpus(&self) -> impl Iterator<Item = &ProbedGpu> {
        let taken = |index| self.grants.values().any(|grant| grant.gpus.contains(&index));
        self.probe.iter().flat_map(|probe| &probe.gpus).filter(move |gpu| !gpu.busy && !taken(gpu.index))
    }

    /// What is free now, as an offer for a job says it; nothing was ever probed: none.
    pub fn facts(&self, now: Time, need: Option<&GpuNeed>, asked: &[Name]) -> Option<Facts> {
        let probe = self.probe.as_ref()?;
        let fitting = self.free_gpus().filter(|gpu| need.is_none_or(|need| will_do(gpu, need))).count();
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Some(Facts {
            cpu_free: free(
                probe.cpu_total,
                self.promised(|g| g.cpu_milli),
                probe.cpu_measured,
                probe.cpu_own,
            ),
            cpu_total: probe.cpu_total,
            memory_free: free(
                probe.memory_total,
                self.promised(|g| g.memory_mib),
                probe.memory_measured,
                probe.memory_own,
            ),
            memory_total: probe.memory_total,
            storage_free: free(
                probe.storage_total,
                self.promised(|g| g.storage_mib),
                probe.storage_measured,
                probe.storage_own,
            ),
            network_mbit_s: u64::from(probe.network_mbit_s)
                .saturating_sub(self.promised(|g| g.network_mbit_s))
                .try_into()
                .unwrap_or(u32::MAX),
            gpus_free: count(self.free_gpus().count()),
            gpus_total: count(probe.gpus.len()),
            gpus_fitting: count(fitting),
            running: probe.running.saturating_add(self.reservations()),
            queued: probe.queued_total(),
            local: count(asked.iter().filter(|digest| probe.data.contains(*digest)).count()),
            region: probe.region.clone(),
            probe_age_ms: self.age_ms(now),
        })
    }

    /// Promises a job what it needs, in one step with the check that it is free. A promise the job already has is
    /// given back first, and kept if the new one does not fit.
    pub(super) fn grant(&mut self, job: Digest, need: &Profile, kind: GrantKind, now: Time) -> bool {
        let before = self.grants.remove(&job);
        match self.fitting_grant(need, kind, now) {
            Some(grant) => {
                self.grants.insert(job, grant);
                true
            }
            None => {
                if let Some(before) = before {
                    self.grants.insert(job, before);
                }
                false
            }
        }
    }

    fn fitting_grant(&self, need: &Profile, kind: GrantKind, now: Time) -> Option<Grant> {
        let facts = self.facts(now, need.gpu.as_ref(), &[])?;
        let grant = Grant {
            kind,
            cpu_milli: need.cpu_milli.unwrap_or(0),
            memory_mib: need.memory_mib.unwrap_or(0),
            storage_mib: need.storage_mib.unwrap_or(0),
            network_mbit_s: need.network_mbit_s.unwrap_or(0).into(),
            gpus: self.choose_gpus(need)?,
        };
        let fits = grant.cpu_milli <= facts.cpu_free
            && grant.memory_mib <= facts.memory_free
            && grant.storage_mib <= facts.storage_free
            && grant.network_mbit_s <= u64::from(facts.network_mbit_s);
        fits.then_some(grant)
    }

    /// The machine that has room for a job beside all that is promised and has no place yet. What is promised takes the
    /// first machine with room for it, the largest promise first.
    fn machine_for(&self, need: &Profile) -> Option<usize> {
        let probe = self.probe.as_ref()?;
        let mut left: Vec<(u64, u64, &[u16])> =
            probe.machines.iter().map(|has| (has.cpu_free, has.memory_free, has.gpus.as_slice())).collect();
        let mut promised: Vec<&Grant> = self
            .grants
            .iter()
            .filter(|(job, _)| !probe.placed.contains(*job))
            .map(|(_, grant)| grant)
            .collect();
        promised.sort_by_key(|grant| std::cmp::Reverse((grant.cpu_milli, grant.memory_mib)));
        for grant in promised {
            let fits = |(cpu, memory, gpus): &&mut (u64, u64, &[u16])| {
                *cpu >= grant.cpu_milli
                    && *memory >= grant.memory_mib
                    && grant.gpus.iter().all(|index| gpus.contains(index))
            };
            let (cpu, memory, _) = left.iter_mut().find(fits)?;
            *cpu -= grant.cpu_milli;
            *memory -= grant.memory_mib;
        }
        let (cpu, memory) = (need.cpu_milli.unwrap_or(0), need.memory_mib.unwrap_or(0));
        left.iter().position(|(has_cpu, has_memory, gpus)| {
            *has_cpu >= cpu
                && *has_memory >= memory
                && self.choose_among(need.gpu.as_ref(), Some(gpus)).is_some()
        })
    }

    /// Whether one machine has room for a job.
    pub(super) fn has_machine_for(&self, need: &Profile) -> bool {
        self.probe.as_ref().is_some_and(|probe| probe.machines.is_empty()) || self.machine_for(need).is_some()
    }

    fn choose_gpus(&self, need: &Profile) -> Option<Vec<u16>> {
        let machines = self.probe.as_ref().map_or(&[][..], |probe| &probe.machines);
        let among =
            if machines.is_empty() { None } else { Some(machines[self.machine_for(need)?].gpus.as_slice()) };
        self.choose_among(need.gpu.as_ref(), among)
    }

    /// The smallest devices that will do, so that large ones stay for those who need them.
    fn choose_among(&self, need: Option<&GpuNeed>, among: Option<&[u16]>) -> Option<Vec<u16>> {
        let Some(need) = need else { return Some(Vec::new()) };
        let there = |gpu: &&ProbedGpu| among.is_none_or(|indices| indices.contains(&gpu.index));
        let free = self.free_gpus().filter(there);
        let mut fitting: Vec<&ProbedGpu> = free.filter(|gpu| will_do(gpu, need)).collect();
        fitting.sort_by_key(|gpu| (gpu.memory_mib, gpu.index));
        let chosen: Vec<u16> = fitting.iter().take(need.count as usize).map(|gpu| gpu.index).collect();
        (chosen.len() == need.count as usize).then_some(chosen)
    }

    pub(super) fn restore(&mut self, job: Digest, grant: Grant) {
        self.grants.insert(job, grant);
    }

    pub(super) fn release(&mut self, job: &Digest) {
        self.grants.remove(job);
    }
}

fn will_do(gpu: &ProbedGpu, need: &GpuNeed) -> bool {
    need.memory_mib.is_none_or(|memory| gpu.memory_mib >= memory)
        && need.capability.as_ref().is_none_or(|needs| {
            gpu.capability.as_ref().is_some_and(|has| capability_reaches(has.as_str(), needs.as_str()))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(cpu: u64) -> Profile {
        Profile { cpu_milli: Some(cpu), ..Profile::default() }
    }

    #[test]
    fn n6_foreign_use_counts() {
        let mut ledger = Ledger::default();
        let probe = Probe { cpu_total: 8000, cpu_measured: 3200, cpu_own: 2500, ..Probe::default() };
        ledger.set_probe(probe, Time::ZERO);
        assert!(ledger.grant(Digest([1; 32]), &need(2500), GrantKind::Reservation, Time::ZERO));
        assert!(ledger.grant(Digest([2; 32]), &need(1000), GrantKind::Hold, Time::ZERO));
        assert_eq!(ledger.facts(Time::ZERO, None, &[]).unwrap().cpu_free, 3800);
        assert!(!ledger.grant(Digest([3; 32]), &need(3801), GrantKind::Hold, Time::ZERO));
        assert!(ledger.grant(Digest([3; 32]), &need(3800), GrantKind::Hold, Time::ZERO));
    }

    #[test]
    fn the_smallest_devices_that_will_do() {
        let gpu = |index, memory_mib| ProbedGpu { index, memory_mib, capability: None, busy: index == 3 };
        let mut ledger = Ledger::default();
        let gpus = vec![gpu(0, 80), gpu(1, 24), gpu(2, 40), gpu(3, 24)];
        ledger.set_probe(Probe { gpus, ..Probe::default() }, Time::ZERO);
        let need = |count, memory| Profile {
            gpu: Some(GpuNeed { count, memory_mib: Some(memory), capability: None }),
            ..Profile::default()
        };
        assert!(ledger.grant(Digest([1; 32]), &need(2, 20), GrantKind::Hold, Time::ZERO));
        assert_eq!(ledger.grants()[&Digest([1; 32])].gpus, [1, 2]);
        assert!(!ledger.grant(Digest([2; 32]), &need(2, 20), GrantKind::Hold, Time::ZERO));
        assert!(ledger.grant(Digest([2; 32]), &need(1, 20), GrantKind::Hold, Time::ZERO));
        ledger.release(&Digest([1; 32]));
        let facts = ledger.facts(Time::ZERO, need(1, 30).gpu.as_ref(), &[]).unwrap();
        assert_eq!((facts.gpus_free, facts.gpus_total, facts.gpus_fitting), (2, 4, 1));
    }

    #[test]
    fn a_job_runs_on_one_machine_whatever_all_have_together() {
        let machine = |cpu_free| Machine { cpu_free, memory_free: 1000, gpus: Vec::new() };
        let machines = vec![machine(2000), machine(3000)];
        let probe = Probe { cpu_total: 5000, memory_total: 2000, machines, ..Probe::default() };
        let mut ledger = Ledger::default();
        ledger.set_probe(probe.clone(), Time::ZERO);
        let job = |byte| Digest([byte; 32]);
        assert!(!ledger.has_machine_for(&need(3001)) && ledger.has_machine_for(&need(3000)));
        assert!(ledger.grant(job(1), &need(3000), GrantKind::Hold, Time::ZERO));
        assert!(!ledger.has_machine_for(&need(2001)), "the larger one is promised");
        assert!(ledger.grant(job(2), &need(2000), GrantKind::Reservation, Time::ZERO));
        assert!(!ledger.grant(job(3), &need(1), GrantKind::Hold, Time::ZERO));
        // What has its place is in what the machines say, and is not counted twice.
        ledger.release(&job(1));
        let placed = [job(2)].into();
        let machines = vec![machine(0), machine(3000)];
        ledger.set_probe(Probe { machines, placed, ..probe }, Time::ZERO);
        assert!(ledger.grant(job(3), &need(3000), GrantKind::Hold, Time::ZERO));
    }

    #[test]
    fn a_tenth_of_a_total_is_news() {
        let probe = |cpu_total| Probe { cpu_total, ..Probe::default() };
        assert!(!probe(1000).totals_changed(&probe(1000)));
        assert!(!probe(1000).totals_changed(&probe(901)));
        assert!(probe(1000).totals_changed(&probe(900)));
        assert!(!Probe::default().totals_changed(&Probe::default()));
    }
}
