//! Hard limits of tenants, and what counts against them.
//!
//! Limits never stop running work. At submission a job is refused only if it could never run under them (or if the pool
//! says so); at commit the ledger refuses whatever would exceed them.

use std::collections::VecDeque;

use landfall_model::{JobSpec, Lifecycle, Millis, Money, Price, Quota, QuotaOnSubmit, TenantId, Time};
use landfall_policy::rules::usage::Decayed;
use serde::{Deserialize, Serialize};

use crate::effect::Refused;
use crate::ledger::{Counted, Reason};
use crate::state::TenantState;
use crate::units::MICRO;

/// What work without an end counts for.
const OPEN_ENDED: Millis = Millis::secs(86_400);
/// How far back budgets look.
pub const BUDGET_WINDOW: Millis = Millis::secs(90 * 86_400);

const MS_PER_HOUR: f64 = 3_600_000.0;

/// Which limits would be exceeded by holding so much.
fn over(quota: &Quota, [units, gpus, cpu_milli]: [u64; 3]) -> Vec<Reason> {
    let units = quota.max_nodes.is_some_and(|most| units > (most * MICRO as f64) as u64);
    let gpus = quota.max_gpus.is_some_and(|most| gpus > most);
    let cpus = quota.max_cpu_milli.is_some_and(|most| cpu_milli > most.get());
    let reasons = [(units, Reason::QuotaNodes), (gpus, Reason::QuotaGpus), (cpus, Reason::QuotaCpus)];
    reasons.into_iter().filter(|(over, _)| *over).map(|(_, reason)| reason).collect()
}

fn cores(milli: u64) -> f64 {
    milli as f64 / 1000.0
}

/// Refuses at submission what the limits of its tenant rule out: so many jobs of one kind, of which each costs at least so much
/// at this instant.
pub(crate) fn at_submission(
    tenant: &TenantState,
    spec: &JobSpec,
    count: u64,
    on_submit: QuotaOnSubmit,
    budget: (Time, Option<Money>),
    kept: &Counted,
) -> Result<(), Refused> {
    let quota = &tenant.tenant.quota;
    let id = &tenant.tenant.id;
    if let Some(most) = quota.max_jobs.filter(|most| tenant.jobs.saturating_add(count) > *most) {
        let more = if count == 1 { String::new() } else { format!("; {count} more are too many") };
        let message = format!("tenant `{id}` has {} jobs and may have {most}{more}", tenant.jobs);
        return Err(Refused::new("max_jobs", message, "wait for a job to end"));
    }
    let (now, least) = budget;
    if let Some(least) = least.filter(|least| tenant.money_left(now).is_some_and(|left| *least > left)) {
        let message = format!("{}, and this job costs {} at least", spent(tenant, now), Price::new(least));
        return Err(Refused::new("budget", message, budget_help(id)));
    }
    let counted = |nodes: u32| Counted {
        units: if spec.exclusive { u64::from(nodes) * MICRO } else { 0 },
        gpus: u64::from(nodes) * u64::from(spec.gpu_count),
        cpu_milli: spec.cpu_milli.get().saturating_mul(nodes.into()),
        ..Counted::default()
    };
    let walltime = (spec.lifecycle == Lifecycle::Bounded).then_some(spec.walltime_ms);
    // What a limit is about, how much it is, and how much of it would be taken.
    let of = |reason: Reason, taken: &Counted| match reason {
        Reason::QuotaNodes => {
            ("nodes", quota.max_nodes.unwrap_or_default(), taken.units as f64 / MICRO as f64)
        }
        Reason::QuotaGpus => ("GPUs", quota.max_gpus.unwrap_or_default() as f64, taken.gpus as f64),
        Reason::GpuHours => {
            ("GPU-hours", quota.gpu_hours_cap.unwrap_or_default(), hours(gpu_ms(walltime, taken.gpus)))
        }
        _ => ("cores", cores(quota.max_cpu_milli.unwrap_or_default().get()), cores(taken.cpu_milli)),
    };
    let (least, most) = (counted(spec.nodes.min), counted(spec.nodes.max));
    if let Some(&reason) = over(quota, [least.units, least.gpus, least.cpu_milli]).first() {
        let (what, may, needs) = of(reason, &least);
        let message = format!("tenant `{id}` may hold {may} {what}, and this job needs {needs}");
        return Err(Refused::new(reason.name(), message, format!("ask for fewer {what}")));
    }
    let too_many = || at_commit(tenant, kept, &most, walltime, now).first().copied();
    if let Some(reason) = (on_submit == QuotaOnSubmit::Reject).then(too_many).flatten() {
        let (what, may, takes) = of(reason, &most);
        let message = format!("tenant `{id}` may have {may} {what}, and has too few left for {takes} more");
        return Err(Refused::new(reason.name(), message, "wait for its jobs to end, or ask for less"));
    }
    Ok(())
}

/// How much of its budget a tenant has spent, for people.
pub(crate) fn spent(tenant: &TenantState, now: Time) -> String {
    let (id, of) = (&tenant.tenant.id, tenant.tenant.budget.money.unwrap_or_default());
    format!("tenant `{id}` has spent {} of its budget of {of} in the last 90 days", tenant.spent(now))
}

/// What helps against a budget that is spent.
pub(crate) fn budget_help(id: &TenantId) -> String {
    format!(
        "raise it (`landfall tenants set {id} --budget AMOUNT`), name cheaper hardware, or wait until earlier runs no longer count"
    )
}

/// What of a commit exceeds the limits of its tenant.
///
/// What is kept for other jobs of the tenant counts like what they hold; the job may run for so long.
pub(crate) fn at_commit(
    tenant: &TenantState,
    kept: &Counted,
    counted: &Counted,
    walltime: Option<Millis>,
    now: Time,
) -> Vec<Reason> {
    let quota = &tenant.tenant.quota;
    let units = tenant.units.saturating_add(kept.units + counted.units);
    let (gpus, cpu) = (tenant.gpus + kept.gpus, tenant.cpu_milli + kept.cpu_milli);
    let mut reasons = over(quota, [units, gpus + counted.gpus, cpu + counted.cpu_milli]);
    let left = tenant.money_left(now).zip(counted.price);
    if left.is_some_and(|(left, price)| price > left) {
        reasons.push(Reason::Budget);
    }
    let asked = hours(gpu_ms(walltime, counted.gpus));
    if tenant.gpu_hours_left(now).is_some_and(|left| asked > left + 1e-9) {
        reasons.push(Reason::GpuHours);
    }
    reasons
}

/// GPU-milliseconds that a job may use up: its devices for as long as it may run, if that has an end.
pub fn gpu_ms(walltime: Option<Millis>, gpus: u64) -> u128 {
    u128::from(gpus) * u128::from(walltime.unwrap_or(OPEN_ENDED).get())
}

/// Milliseconds of devices or nodes as hours.
pub fn hours(ms: u128) -> f64 {
    ms as f64 / MS_PER_HOUR
}

/// Use of one tenant in one pool that fades with time, against what the pool had.
///
/// What is held stays the same between changes, so only changes and questions cost anything.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct UsageMeter {
    tenant: Decayed,
    pool: Decayed,
    since: Time,
    held: f64,
    units: f64,
}

impl UsageMeter {
    /// A meter that starts now.
    pub fn new(at: Time, held: f64, units: f64) -> Self {
        Self { since: at, held, units, ..Self::default() }
    }

    /// Notes what the pool has from now on.
    pub fn resize(&mut self, at: Time, units: f64, half_life: Millis) {
        self.set(at, self.held, units, half_life);
    }

    /// Notes what the tenant holds and what the pool has from now on, in node units.
    pub fn set(&mut self, at: Time, held: f64, units: f64, half_life: Millis) {
        let span = at.since(self.since);
        self.tenant = self.tenant.after(span, self.held, half_life);
        self.pool = self.pool.after(span, self.units, half_life);
        (self.since, self.held, self.units) = (at, held, units);
    }

    /// The tenant's share of what the pool had.
    pub fn share(&self, at: Time, half_life: Millis) -> f64 {
        let mut until = *self;
        until.set(at, self.held, self.units, half_life);
        until.tenant.share_of(until.pool)
    }
}

/// One finished run as a budget counts it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Spent {
    from: Time,
    to: Time,
    gpus: u64,
    nodes: u64,
    #[serde(default)]
    price: Money,
}

/// What a tenant used over the budget window: finished runs with the part inside the window.
///
/// Runs that lie inside are summed up once; only the few that the edge of the window cuts are looked at again.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Spending {
    runs: VecDeque<Spent>,
    gpu_ms: u128,
    node_ms: u128,
    #[serde(default)]
    price: Money,
}

impl Spending {
    pub fn add(&mut self, from: Time, to: Time, gpus: u64, nodes: u64, price: Money) {
        let run = Spent { from, to, gpus, nodes, price };
        let ms = u128::from(to.since(from).get());
        self.gpu_ms += ms * u128::from(gpus);
        self.node_ms += ms * u128::from(nodes);
        self.price += price;
        let at = self.runs.partition_point(|other| other.to <= to);
        self.runs.insert(at, run);
    }

    /// Drops what the window has left behind.
    pub fn forget_before(&mut self, edge: Time) {
        while let Some(run) = self.runs.front().filter(|run| run.to <= edge) {
            let ms = u128::from(run.to.since(run.from).get());
            self.gpu_ms = self.gpu_ms.saturating_sub(ms * u128::from(run.gpus));
            self.node_ms = self.node_ms.saturating_sub(ms * u128::from(run.nodes));
            self.price = self.price.saturating_sub(run.price);
            self.runs.pop_front();
        }
    }

    /// What runs cost in the window that ends now; of one that the edge of the window cuts, the part inside.
    pub fn cost(&self, now: Time) -> Money {
        let edge = now - BUDGET_WINDOW;
        let outside = |run: &Spent| {
            let (before, whole) = (run.to.min(edge).since(run.from).get(), run.to.since(run.from).get());
            let part = u128::from(run.price.get()) * u128::from(before) / u128::from(whole.max(1));
            if run.to <= edge { run.price } else { Money::new(part as u64) }
        };
        // Runs are in the order of their ends, and the first that began inside need not be the last.
        let cut = self.runs.iter().filter(|run| run.from < edge && !run.price.is_zero());
        self.price.saturating_sub(cut.map(outside).sum())
    }

    /// GPU-hours and node-hours used in the window that ends now.
    pub fn hours(&self, now: Time) -> (f64, f64) {
        let edge = now - BUDGET_WINDOW;
        let (mut gpu_ms, mut node_ms) = (self.gpu_ms, self.node_ms);
        for run in self.runs.iter().filter(|run| run.from < edge) {
            let outside = u128::from(run.to.min(edge).since(run.from).get());
            gpu_ms = gpu_ms.saturating_sub(outside * u128::from(run.gpus));
            node_ms = node_ms.saturating_sub(outside * u128::from(run.nodes));
        }
        (hours(gpu_ms), hours(node_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b4_use_fades_by_half_each_half_life() {
        let week = Millis::secs(7 * 86_400);
        let at = |weeks: u64| Time::ZERO + Millis::new(week.get() * weeks);
        let mut meter = UsageMeter::new(at(0), 10.0, 20.0);
        meter.set(at(1), 0.0, 20.0, week);
        assert!((meter.share(at(2), week) - 0.166_667).abs() < 1e-6);
    }

    #[test]
    fn b38_budgets_count_gpu_hours_and_node_hours() {
        let mut spending = Spending::default();
        spending.add(Time::ZERO, Time::from_secs(36_000), 8, 2, Money::ZERO);
        assert_eq!(spending.hours(Time::from_secs(36_000)), (80.0, 20.0));
    }

    #[test]
    fn only_the_part_inside_the_window_counts() {
        let mut spending = Spending::default();
        spending.add(Time::ZERO, Time::from_secs(7200), 1, 1, Money::new(100));
        assert_eq!(spending.cost(Time::from_secs(7200)).get(), 100);
        let later = Time::from_secs(3600) + BUDGET_WINDOW;
        assert_eq!((spending.hours(later), spending.cost(later).get()), ((1.0, 1.0), 50));
        assert_eq!(spending.cost(Time::from_secs(7200) + BUDGET_WINDOW), Money::ZERO);
        spending.forget_before(Time::from_secs(7200));
        assert_eq!(spending, Spending::default());
    }
}
