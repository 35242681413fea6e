//! Locks and quotas: what stands against a job whatever the nodes, and what a start takes of them.

use landfall_model::{Name, Price, TenantId};

use super::attempt::{Found, Growth};
use super::classes::Class;
use super::open;
use super::problem::Waiting;
use super::reason::{Reason, Refusal};
use super::walk::Walk;

fn gpus(class: &Class<'_>, nodes: u32) -> u64 {
    u64::from(class.spec.gpu_count) * u64::from(nodes)
}

/// CPU that so many nodes of a class ask for, in thousandths.
fn cpu(class: &Class<'_>, nodes: u32) -> u64 {
    class.spec.cpu_milli.get().saturating_mul(u64::from(nodes))
}

impl Walk<'_, '_> {
    /// Locks and quotas that stand against a job.
    pub(super) fn gates(&self, job: usize) -> Vec<Refusal> {
        let (waiting, class) = (&self.waiting[job], &self.classes[self.class_of[job]]);
        let (spec, room) = (class.spec, &self.rooms[self.room_of[&class.spec.tenant]]);
        let mut against = Vec::new();
        if locks_of(waiting).any(|lock| self.locks.contains(&lock)) {
            against.push(Refusal::plain(Reason::Mutex));
        }
        let units = class.usable.unit * f64::from(spec.nodes.min);
        if units > room.node_units + 1e-9 {
            against.push(Refusal::new(Reason::QuotaNodes, units, room.node_units.max(0.0)));
        }
        let gpus = gpus(class, spec.nodes.min);
        if let Some(left) = room.gpus.filter(|&left| gpus > left) {
            against.push(Refusal::new(Reason::QuotaGpus, gpus as f64, left as f64));
        }
        let cpu = cpu(class, spec.nodes.min);
        if let Some(left) = room.cpu_milli.filter(|&left| cpu > left) {
            against.push(Refusal::new(Reason::QuotaCpus, cpu as f64 / 1000.0, left as f64 / 1000.0));
        }
        let hours = class.gpu_hours(spec.nodes.min);
        if let Some(left) = room.gpu_hours.filter(|&left| hours > left + 1e-9) {
            against.push(Refusal::new(Reason::GpuHours, hours, left.max(0.0)));
        }
        // Which of its nodes it gets is not known yet, so what is left has to do for the dearest.
        let price = class.usable.price;
        if let Some(left) = room.money.filter(|&left| price > left) {
            against.push(Refusal::new(Reason::Budget, Price::new(price).as_f64(), Price::new(left).as_f64()));
        }
        against
    }

    /// The most nodes a range job may take.
    pub(super) fn growth(&self, class: &Class<'_>) -> Option<Growth> {
        let spec = class.spec;
        if spec.nodes.max <= spec.nodes.min || spec.lifecycle == landfall_model::Lifecycle::Reactive {
            return None;
        }
        let room = &self.rooms[self.room_of[&spec.tenant]];
        let whole = |amount: f64| if amount >= f64::from(u32::MAX) { u32::MAX } else { amount as u32 };
        let mut most = spec.nodes.max;
        if class.usable.unit > 0.0 {
            most = most.min(whole((room.node_units + 1e-9) / class.usable.unit));
        }
        if let Some(gpus) = room.gpus.filter(|_| spec.gpu_count > 0) {
            most = most.min(u32::try_from(gpus / u64::from(spec.gpu_count)).unwrap_or(u32::MAX));
        }
        if let Some(left) = room.cpu_milli.filter(|_| cpu(class, 1) > 0) {
            most = most.min(u32::try_from(left / cpu(class, 1)).unwrap_or(u32::MAX));
        }
        if let Some(hours) = room.gpu_hours.filter(|_| class.gpu_hours(1) > 0.0) {
            most = most.min(whole((hours + 1e-9) / class.gpu_hours(1)));
        }
        Some(Growth { most })
    }

    /// Node units that a set takes.
    pub(super) fn units(&self, class: usize, found: &Found) -> f64 {
        let spec = self.classes[class].spec;
        if spec.exclusive {
            return found.slots.len() as f64;
        }
        let kinds = found.slots.iter().filter_map(|&slot| self.p.fleet.place(slot));
        kinds.fold(0.0, |sum, (kind, _)| sum + open::units(spec, &self.p.fleet.kinds[kind].node))
    }

    /// Takes quotas and locks.
    pub(super) fn spend(&mut self, job: usize, nodes: u32, units: f64) {
        let class = &self.classes[self.class_of[job]];
        let hours = class.gpu_hours(nodes);
        let (gpus, cpu) = (gpus(class, nodes), cpu(class, nodes));
        let room = &mut self.rooms[self.room_of[&class.spec.tenant]];
        room.node_units -= units;
        room.gpus = room.gpus.map(|left| left.saturating_sub(gpus));
        room.cpu_milli = room.cpu_milli.map(|left| left.saturating_sub(cpu));
        room.gpu_hours = room.gpu_hours.map(|left| left - hours);
        room.money = room.money.map(|left| left.saturating_sub(class.usable.price));
        self.take_locks(job);
    }

    pub(super) fn take_locks(&mut self, job: usize) {
        self.locks.extend(locks_of(&self.waiting[job]));
    }
}

/// The locks that a job takes with it: those it names, within its tenant, and those of its edges.
fn locks_of(waiting: &Waiting<'_>) -> impl Iterator<Item = (Option<TenantId>, Name)> {
    let own = waiting.spec.mutex.iter().map(|name| (waiting.spec.tenant.clone(), name.clone()));
    own.chain(waiting.edge_locks.iter().map(|name| (None, name.clone())))
}
