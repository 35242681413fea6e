//! What can only be seen over time.
//!
//! A watcher is fed every step: the input and what came of it. It takes the events in one by one with a state of its own,
//! so it sees each commit against what was free just before it, and it ends up with the state that the journal gives.

use std::collections::{BTreeMap, BTreeSet};

use landfall_model::{JobId, MilliGpu, Millis, NodeId, NodeState, PoolId, Reservations, Time};

use super::fresh::{self, Held};
use super::{Found, Violation};
use landfall_engine::effect::Effect;
use landfall_engine::event::{Commit, Event};
use landfall_engine::input::{Input, Report};
use landfall_engine::record::{JobRecord, JobState, Phase};
use landfall_engine::solver::MoveCause;
use landfall_engine::state::State;
use landfall_engine::{Engine, Outcome};

/// Follows an engine from its first step.
#[derive(Debug, Default)]
pub struct Watcher {
    state: State,
    /// Last state, attempt and phases of each job.
    seen: BTreeMap<JobId, Seen>,
    /// Attempts told to start on a node and, as far as anybody knows, still there.
    live: BTreeMap<JobId, BTreeMap<NodeId, u32>>,
    /// Whether causes of moved reservations are looked into.
    strict: bool,
    /// Pools that lost a node since their last cycle.
    lost: BTreeSet<PoolId>,
    /// Jobs that were accepted and not forgotten on request.
    accepted: BTreeSet<JobId>,
}

#[derive(Debug, Clone, PartialEq)]
struct Seen {
    state: JobState,
    attempt: u32,
    phases: Vec<(NodeId, Phase)>,
}

impl Seen {
    fn of(record: &JobRecord) -> Self {
        let phases = record.run.iter().flat_map(|run| &run.nodes).map(|at| (at.node.clone(), at.phase));
        Self { state: record.state, attempt: record.attempt, phases: phases.collect() }
    }
}

impl Watcher {
    /// A watcher of an engine that has done nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A watcher that also looks whether the cause of a moved reservation is true, for worlds in which no cap changes and
    /// nothing begins later than it was told to.
    pub fn strict() -> Self {
        Self { strict: true, ..Self::default() }
    }

    /// The state that the events so far give.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Looks at one step.
    pub fn observe(&mut self, engine: &Engine, input: &Input, outcome: &Outcome) -> Found {
        self.heed(input);
        for event in &outcome.events {
            if let Event::Committed(commit) = event {
                self.may_commit(outcome.at, commit)?;
            }
            self.reservation_keeps_its_time(outcome.at, event)?;
            if let Event::NodeMoved { node, .. } | Event::NodeLeft(node) = event {
                self.lost.extend(self.state.places.get(node).map(|(pool, _)| pool.clone()));
            }
            let touched = self.state.apply(outcome.at, event);
            self.note(event);
            for job in &touched.jobs {
                self.only_forwards(job)?;
            }
        }
        self.promises_kept(outcome)?;
        self.one_live_fence(outcome)?;
        self.nobody_lost(engine)?;
        if let Input::Release(id) = input
            && engine.state().holds.contains_key(id)
        {
            return Violation::err("released_holds_end", format!("hold {id} was given back and is there"));
        }
        if self.state == *engine.state() {
            return Ok(());
        }
        Violation::err("events_make_the_state", "the state is not what its events give")
    }

    /// What nodes say about what runs there.
    fn heed(&mut self, input: &Input) {
        match input {
            Input::Join { node, running: Some(running), .. } => {
                let there = |job: &JobId| running.iter().any(|fence| fence.job == *job);
                self.live.iter_mut().filter(|(job, _)| !there(job)).for_each(|(_, on)| {
                    on.remove(&node.id);
                });
            }
            Input::Report { node, fence, report } => {
                if matches!(report, Report::Exited { .. } | Report::Stopped | Report::Refused(_)) {
                    self.gone(&fence.job, node, fence.attempt);
                }
            }
            _ => {}
        }
    }

    fn gone(&mut self, job: &JobId, node: &NodeId, attempt: u32) {
        if let Some(on) = self.live.get_mut(job)
            && on.get(node).is_some_and(|live| *live <= attempt)
        {
            on.remove(node);
        }
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::Submitted { job, .. } => {
                self.accepted.insert(job.id.clone());
            }
            Event::Unfolded { array, positions } => {
                if let Some(array) = self.state.folded.get(array) {
                    self.accepted.extend(positions.iter().map(|position| array.element(position)));
                }
            }
            Event::Forgotten(job) => {
                if !self.accepted.remove(job) {
                    // An array goes with what is left of its elements.
                    let of_array = |id: &JobId| {
                        landfall_engine::array::parse_element_id(id)
                            .is_some_and(|(array, _)| array == job.as_str())
                    };
                    let known = &self.state.jobs;
                    self.accepted.retain(|id| known.contains_key(id) || !of_array(id));
                }
                self.live.remove(job);
            }
            Event::NodeMoved { node, to: NodeState::Down } | Event::NodeLeft(node) => {
                self.live.values_mut().for_each(|on| {
                    on.remove(node);
                });
            }
            _ => {}
        }
    }

    /// The ledger commits only what is there for the taking, by the sums of this moment.
    fn may_commit(&self, now: Time, commit: &Commit) -> Found {
        let state = &self.state;
        let job = &commit.job;
        let no = |name, detail: String| Violation::err(name, format!("{job}: {detail}"));
        let Some(record) = state.job(job).filter(|record| record.is_queued()) else {
            return no("no_job_placed_twice", "it does not wait".to_owned());
        };
        let nodes: BTreeSet<&NodeId> = commit.grants.iter().map(|grant| &grant.node).collect();
        let wanted = record.job.spec.nodes;
        if nodes.len() != commit.grants.len()
            || nodes.len() < wanted.min as usize
            || nodes.len() > wanted.max as usize
        {
            return no("gang_all_or_nothing", format!("on {nodes:?}"));
        }
        let (mut units, mut gpus) = (0, 0);
        for grant in &commit.grants {
            let Some((node, kept)) = state.node(&grant.node) else {
                return no("commit_on_nodes_in_service", format!("{} is not known", grant.node));
            };
            let degraded = node.state == NodeState::Degraded && record.job.spec.allow_degraded;
            if (node.state != NodeState::Ready && !degraded) || !node.accepting {
                return no("commit_on_nodes_in_service", format!("{} is {:?}", node.id, node.state));
            }
            if kept.kept_for.as_ref().is_some_and(|other| other != job) {
                return no("kept_nodes", format!("{} is kept for {:?}", node.id, kept.kept_for));
            }
            let holds: Vec<_> =
                state.holds.values().filter(|hold| hold.node == node.id && hold.job != *job).collect();
            let mut sums = fresh::sums_on(node, &holds);
            let whole = |index: u16| {
                let of_holds = holds.iter().map(|hold| &hold.placement);
                let mut all = node.placements.iter().chain(of_holds).flat_map(|other| &other.devices);
                all.any(|share| share.index == index && share.milli == MilliGpu::WHOLE)
            };
            if let Some(share) = grant.placement.devices.iter().find(|share| whole(share.index)) {
                return no(
                    "no_device_given_twice",
                    format!("device {} of {} is taken", share.index, node.id),
                );
            }
            let alone = grant.placement.exclusive_node && !(node.placements.is_empty() && holds.is_empty());
            if alone || node.placements.iter().any(|other| other.exclusive_node) {
                return no("exclusive_nodes_alone", format!("{} is taken", node.id));
            }
            if commit.ahead {
                // It gets the room of another one; that there is room then is checked then.
                continue;
            }
            sums.add(&grant.placement);
            let over = sums.devices.iter().any(|(index, (vram, milli))| {
                node.gpu(*index)
                    .is_none_or(|gpu| *vram > gpu.vram_total().get() || *milli > MilliGpu::WHOLE.get())
            });
            if over || sums.cpu > node.cpu_total.get() || sums.ram > node.ram_total.get() {
                return no("use_within_capacity", format!("{} would give {sums:?}", node.id));
            }
            units += fresh::part_of(node, &grant.placement);
            gpus += u64::from(record.job.spec.gpu_count);
        }
        if commit.ahead {
            return Ok(());
        }
        if (units, gpus) != (commit.units, commit.gpus) {
            return no(
                "commit_counts",
                format!("{units} and {gpus}, not {} and {}", commit.units, commit.gpus),
            );
        }
        self.within_limits(now, commit, record)
    }

    fn within_limits(&self, now: Time, commit: &Commit, record: &JobRecord) -> Found {
        let state = &self.state;
        let job = &commit.job;
        let no = |name, detail: String| Violation::err(name, format!("{job}: {detail}"));
        let tenant = record.job.spec.tenant.as_ref();
        if let Some(limits) = tenant.and_then(|id| state.tenants.get(id)) {
            let mut held = Held::default();
            let theirs = state.jobs.values().filter(|other| other.job.spec.tenant.as_ref() == tenant);
            theirs.for_each(|other| held.add(other));
            let quota = &limits.tenant.quota;
            let units = (held.units + commit.units) as f64 / 1e6;
            let gpus = held.gpus + commit.gpus;
            let cpu = held.cpu_milli + record.job.spec.cpu_milli.get() * commit.grants.len() as u64;
            if quota.max_cpu_milli.is_some_and(|most| cpu > most.get()) {
                return no("quota", format!("{cpu} thousandths of a core, may hold {quota:?}"));
            }
            if quota.max_nodes.is_some_and(|most| units > most + 1e-9)
                || quota.max_gpus.is_some_and(|most| gpus > most)
            {
                return no("quota", format!("{units} units and {gpus} GPUs, may hold {quota:?}"));
            }
            let money = limits.tenant.budget.money_used.get() + limits.spending.cost(now) + held.price;
            let price = commit.price.unwrap_or_default();
            let budget = limits.tenant.budget.money.map(landfall_model::Price::get);
            if budget.is_some_and(|budget| !price.is_zero() && money + price > budget) {
                return no("budget", format!("{money} is spent of {budget:?}, and it costs {price}"));
            }
            let ms = held.gpu_ms + fresh::may_use(record.walltime(), commit.gpus);
            let hours = limits.spending.hours(now).0 + ms as f64 / 3_600_000.0;
            if quota.gpu_hours_cap.is_some_and(|cap| hours > cap + 1e-9) {
                return no("quota", format!("{hours} GPU-hours, may use {quota:?}"));
            }
        }
        let most = record.job.spec.max_price.map(landfall_model::Price::get);
        if commit.price.zip(most).is_some_and(|(price, most)| price > most) {
            return no("max_price", format!("costs {:?}, may cost {most:?}", commit.price));
        }
        if let Some(pool) =
            state.pools.get(&record.pool).filter(|pool| pool.pool.dispatch == landfall_model::Dispatch::Batch)
        {
            let runs = state.jobs.values().filter(|other| other.pool == record.pool && other.run.is_some());
            let (mut watts, mut bytes) = (commit.power_w, record.job.spec.io_bytes_s.get());
            for other in runs {
                watts += other.run.as_ref().map_or(0, |run| run.power_w);
                bytes += other.job.spec.io_bytes_s.get();
            }
            let up = pool.nodes.iter().filter(|node| node.state != NodeState::Down);
            watts += up.filter_map(|node| node.power).map(|power| power.idle_w).sum::<u64>();
            if commit.power_w > 0 && pool.pool.batch.power_cap_w.is_some_and(|cap| watts > cap) {
                return no("power_cap", format!("{watts} W, cap {:?}", pool.pool.batch.power_cap_w));
            }
            let placed = state.jobs.values().filter_map(|other| other.run.as_ref()).map(|run| run.power_w);
            let up = state
                .pools
                .values()
                .flat_map(|pool| &pool.nodes)
                .filter(|node| node.state != NodeState::Down);
            let idle = up.filter_map(|node| node.power).map(|power| power.idle_w);
            let all = commit.power_w + placed.sum::<u64>() + idle.sum::<u64>();
            if commit.power_w > 0 && state.caps.power_w.is_some_and(|cap| all > cap) {
                return no("cluster_power_cap", format!("{all} W, cap {:?}", state.caps.power_w));
            }
            let moves = !record.job.spec.io_bytes_s.is_zero();
            if moves && pool.pool.batch.io_cap.is_some_and(|cap| bytes > cap.get()) {
                return no("io_cap", format!("{bytes} bytes/s, cap {:?}", pool.pool.batch.io_cap));
            }
        }
        let taken = |key| state.locks.get(&key).is_some_and(|holder| holder != job);
        if fresh::locks_of(state, record).into_iter().any(taken) {
            return no("locks_held_by_placed_jobs", "somebody else has its lock".to_owned());
        }
        self.within_loans(commit, record)
    }

    fn within_loans(&self, commit: &Commit, record: &JobRecord) -> Found {
        let mut asked: BTreeMap<&PoolId, u64> = BTreeMap::new();
        for grant in &commit.grants {
            let home = self.state.places.get(&grant.node).map(|(pool, _)| pool);
            if home == Some(&record.pool) && grant.lender.is_none() {
                continue;
            }
            match home.filter(|home| grant.lender.as_ref() == Some(home)) {
                Some(home) => *asked.entry(home).or_default() += 1,
                None => {
                    return Violation::err(
                        "loan_rules",
                        format!("{}: {} is not its own", commit.job, grant.node),
                    );
                }
            }
        }
        for (lender, count) in asked {
            let Some(pool) = self.state.pools.get(lender) else { continue };
            let lent = pool.nodes.iter().filter(|node| node.lent_to.is_some()).count() as u64;
            let most = (pool.nodes.len() as f64 * pool.pool.loans.lend_max_fraction).floor() as u64;
            if !pool.pool.loans.lend || lent + count > most || record.job.spec.sensitive {
                let detail = format!("{}: {lender} lends {most}, has lent {lent}, asked {count}", commit.job);
                return Violation::err("loan_rules", detail);
            }
        }
        Ok(())
    }

    /// States move as the table of states says, attempts and phases only forwards, and an end is an end.
    fn only_forwards(&mut self, job: &JobId) -> Found {
        let Some(record) = self.state.job(job) else {
            self.seen.remove(job);
            return Ok(());
        };
        let next = Seen::of(record);
        let before = self.seen.insert(job.clone(), next.clone());
        let Some(before) = before else { return Ok(()) };
        if before.state.is_final() && before != next {
            return Violation::err("an_end_is_final", format!("{job} went from {before:?} to {next:?}"));
        }
        if before.state != next.state && !leads_to(before.state, next.state) {
            return Violation::err(
                "states_follow_the_table",
                format!("{job}: {:?} to {:?}", before.state, next.state),
            );
        }
        let returned = before.state != JobState::Pending && next.state == JobState::Pending;
        if next.attempt != before.attempt + u32::from(returned) {
            let detail =
                format!("{job} went from {} to {} as {:?}", before.attempt, next.attempt, next.state);
            return Violation::err("attempts_only_forwards", detail);
        }
        let back = next.phases.iter().any(|(node, phase)| {
            let was = before.phases.iter().find(|(other, _)| other == node).map(|(_, phase)| *phase);
            // A node that saved its part and goes on runs again.
            was.is_some_and(|was| *phase < was && (was, *phase) != (Phase::Checkpointed, Phase::Started))
        });
        if back && before.attempt == next.attempt {
            return Violation::err(
                "phases_only_forwards",
                format!("{job}: {:?} to {:?}", before.phases, next.phases),
            );
        }
        Ok(())
    }

    /// A standing reservation moves later only for a cause that is written down.
    fn reservation_keeps_its_time(&self, at: Time, event: &Event) -> Found {
        let Event::Reserved { pool: id, reservation, moved } = event else { return Ok(()) };
        let Some(pool) = self.state.pools.get(id) else { return Ok(()) };
        let known = pool.reservations.get(&reservation.job).map(|known| known.start);
        let standing = pool.pool.batch.reservations == Reservations::Standing;
        if standing && moved.is_none() && known.is_some_and(|known| known < reservation.start) {
            let detail = format!("{} moved from {known:?} to {}", reservation.job, reservation.start);
            return Violation::err("reservation_not_delayed", detail);
        }
        // A cause must be more than a word.
        if let Some(cause) = moved.filter(|cause| self.strict && !self.is_true(*cause, id, at)) {
            let later = known.map_or(Millis::ZERO, |known| reservation.start.since(known));
            let detail = format!("{} moved by {later} for {cause:?}, which is not so", reservation.job);
            return Violation::err("reservation_not_delayed", detail);
        }
        Ok(())
    }

    /// Whether a cause can be true where no cap changes and nothing begins late.
    fn is_true(&self, cause: MoveCause, pool: &PoolId, at: Time) -> bool {
        match cause {
            MoveCause::NodeLost => self.lost.contains(pool),
            MoveCause::CapLowered | MoveCause::Late => false,
            MoveCause::Overrun => self.state.jobs.values().any(|record| {
                let ends = record.run.as_ref().and_then(|run| run.ends_at);
                record.pool == *pool && ends.is_some_and(|end| end <= at)
            }),
            MoveCause::Outlived => self.state.jobs.values().any(|record| {
                let run = record.run.as_ref().filter(|_| record.pool == *pool);
                run.is_some_and(|run| {
                    run.started_at.zip(run.expected).is_some_and(|(from, span)| from + span <= at)
                })
            }),
            MoveCause::Surge => {
                self.state.pools.get(pool).is_some_and(|own| own.world.surging.contains(pool))
            }
            MoveCause::Quota | MoveCause::Gate | MoveCause::HigherClass => true,
        }
    }

    /// A reserved job starts in the first cycle at or after its time, or its reservation moved for a cause.
    fn promises_kept(&mut self, outcome: &Outcome) -> Found {
        for event in &outcome.events {
            let Event::Cycled { pool: id, .. } = event else { continue };
            self.lost.remove(id);
            let Some(pool) = self.state.pools.get(id) else { continue };
            let cycle = pool.pool.batch.cycle_ms;
            let late = |start: Time| start + cycle + cycle < outcome.at;
            let standing = pool.pool.batch.reservations == Reservations::Standing;
            if let Some(missed) = pool.reservations.values().find(|kept| standing && late(kept.start)) {
                return Violation::err(
                    "reservation_not_delayed",
                    format!("{missed:?} is past at {}", outcome.at),
                );
            }
        }
        Ok(())
    }

    /// No two attempts of a job are on nodes at once, unless the earlier one was told to stop or its node is gone.
    fn one_live_fence(&mut self, outcome: &Outcome) -> Found {
        for effect in &outcome.effects {
            match effect {
                Effect::Start { fence, node, .. } => {
                    let on = self.live.entry(fence.job.clone()).or_default();
                    if let Some((other, attempt)) = on.iter().find(|(_, attempt)| **attempt != fence.attempt)
                    {
                        let detail =
                            format!("{fence} starts on {node} while attempt {attempt} is on {other}");
                        return Violation::err("one_live_fence", detail);
                    }
                    on.insert(node.clone(), fence.attempt);
                }
                Effect::Stop { fence, node, .. } => self.gone(&fence.job, node, fence.attempt),
                _ => {}
            }
        }
        Ok(())
    }

    /// Every accepted job is there until it ended and was forgotten on request.
    fn nobody_lost(&self, engine: &Engine) -> Found {
        let known = &engine.state().jobs;
        match self.accepted.iter().find(|job| !known.contains_key(*job)) {
            Some(job) => Violation::err("no_job_lost", format!("{job} is gone")),
            None if known.len() > self.accepted.len() => {
                Violation::err("no_job_lost", "a job came from nowhere")
            }
            None => Ok(()),
        }
    }
}

/// Whether a job may go from one state to the other.
fn leads_to(from: JobState, to: JobState) -> bool {
    use JobState::{
        Cancelled, Checkpointing, Completed, Failed, Pending, Running, Staging, Stopping, Suspended,
    };
    match from {
        Pending => matches!(to, Staging | Cancelled),
        Staging => matches!(to, Running | Pending | Failed | Stopping | Cancelled),
        Running => matches!(to, Completed | Failed | Pending | Checkpointing | Stopping | Suspended),
        Checkpointing => matches!(to, Suspended | Stopping | Completed | Failed | Pending),
        Stopping => matches!(to, Cancelled | Failed | Pending | Completed | Suspended),
        Suspended => matches!(to, Pending | Cancelled | Failed),
        Completed | Failed | Cancelled => false,
    }
}
