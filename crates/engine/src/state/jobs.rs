//! How events change jobs, and what placing and leaving nodes does to everything else.

use std::sync::Arc;

use landfall_model::{Dispatch, Job, JobId, JobSpec, Millis, Money, Name, PoolId, TenantId, Time, Warmth};
use smallvec::SmallVec;

use super::arrays::is_fresh;
use super::{State, Touched};
use crate::dag::{Change, EdgeLock, Entry, Known, Submission, TerminalState};
use crate::event::{Back, Commit, Event, Grant};
use crate::quota::{BUDGET_WINDOW, gpu_ms};
use crate::record::{Cause, JobRecord, JobState, Past, Phase, Run, RunNode, Saving, Stop};

impl State {
    pub(super) fn apply_to_job(&mut self, event: &Event, touched: &mut Touched) {
        let at = self.now;
        match event {
            Event::Submitted { job, pool, user_hold } => self.submitted(job, pool, *user_hold, touched),
            Event::ArraySubmitted { job, pool, user_hold, shape, after } => {
                self.array_submitted(job, pool, *user_hold, shape.clone(), after, touched);
            }
            Event::ArrayExtended { array, last } => self.array_extended(array, *last, touched),
            Event::ArrayClosed(array) => self.array_closed(array, touched),
            Event::Unfolded { array, positions } => self.unfolded(array, positions, touched),
            Event::FoldedDropped { array, positions, cause } => {
                self.folded_dropped(array, positions, cause, touched);
            }
            Event::Linked(submission) => self.linked(submission, touched),
            Event::Eligible(id) if self.folded.contains_key(id) => self.array_eligible(id, touched),
            Event::Eligible(id) => {
                let rounds = self.rounds_of(id);
                self.in_job(id, touched, |record| {
                    record.job.waits_for = None;
                    queue_from(&mut record.job, at);
                    record.round_base = rounds;
                });
            }
            Event::UserHold { job, held } if self.folded.contains_key(job) => {
                if let Some(array) = self.folded.get_mut(job) {
                    array.user_hold = *held;
                    touched.arrays.push(job.clone());
                }
            }
            Event::UserHold { job, held } => self.in_job(job, touched, |record| record.user_hold = *held),
            Event::WalltimeSet { job, walltime } => self.in_walltime(job, touched, |record| {
                Arc::make_mut(&mut record.job.spec).walltime_ms = *walltime;
                let limited = record.run.as_mut().filter(|run| run.ends_at.is_some());
                let ends = limited.and_then(|run| {
                    run.ends_at = Some(run.started_at? + *walltime);
                    run.ends_at.zip(run.saved_at)
                });
                if let Some(left) = record.past.as_mut().and_then(|past| past.walltime_left.as_mut()) {
                    *left = ends.map_or(*walltime, |(end, saved)| end.since(saved).max(Millis::new(1)));
                }
            }),
            Event::Committed(commit) => self.committed(commit, touched),
            Event::ReactiveSet { job, reactive } => {
                self.in_run(job, touched, |run| run.reactive = Some(reactive.clone()));
            }
            Event::Staged { job, digest, near } => self.in_job(job, touched, |record| {
                if *near {
                    let spec = Arc::make_mut(&mut record.job.spec);
                    let inputs = spec.inputs.iter_mut().flatten().filter(|input| input.digest == *digest);
                    inputs.for_each(|input| input.tier = Warmth::Hot);
                } else {
                    *past(record).staging_failures.entry(digest.clone()).or_default() += 1;
                }
            }),
            Event::TookRoom(id) => self.take_room(id, touched),
            Event::StartSent(id) => self.in_run(id, touched, |run| run.sends = run.sends.saturating_add(1)),
            Event::Reported { job, node, phase, exit } => self.in_run(job, touched, |run| {
                if let Some(at) = run.nodes.iter_mut().find(|at| at.node == *node) {
                    at.phase = *phase;
                    at.exit = exit.or(at.exit);
                }
            }),
            Event::Afresh { job, .. } => self.in_walltime(job, touched, |record| {
                if let Some(past) = &mut record.past {
                    (past.resumes, past.walltime_left) = (false, None);
                }
                if let Some(run) = &mut record.run {
                    run.afresh = true;
                }
            }),
            Event::Started(id) => self.started(id, touched),
            Event::Saving { job, deadline, leaves } => self.in_job(job, touched, |record| {
                if leaves.is_some() {
                    record.state = JobState::Checkpointing;
                }
                if let Some(run) = &mut record.run {
                    let (deadline, leaves) = (*deadline, leaves.clone());
                    // What was saved before is older than what is asked for now.
                    back_to_started(run);
                    run.saving = Some(Saving { asked_at: at, deadline, extended: false, leaves });
                }
            }),
            Event::SavingExtended { job, deadline } => self.in_run(job, touched, |run| {
                if let Some(saving) = &mut run.saving {
                    (saving.deadline, saving.extended) = (*deadline, true);
                }
            }),
            Event::Saved(id) => self.in_job(id, touched, |record| saved(record, at)),
            Event::SaveFailed(id) => self.in_run(id, touched, |run| {
                run.saving = None;
                back_to_started(run);
            }),
            Event::Stopping { job, cause, kill_at } => self.in_job(job, touched, |record| {
                record.state = JobState::Stopping;
                if let Some(run) = &mut record.run {
                    run.over_walltime |= *cause == Cause::Walltime;
                    run.saving = run.saving.take().filter(|_| *cause == Cause::Walltime);
                    run.stop = Some(Stop { cause: cause.clone(), kill_at: *kill_at });
                }
            }),
            Event::Noticed { job, cause, by } => {
                self.in_run(job, touched, |run| run.notice = Some((cause.clone(), *by)));
            }
            Event::Suspended { job, cause } => {
                self.in_job(job, touched, |record| saved(record, at));
                self.leave_nodes(job, false, touched);
                self.in_job(job, touched, |record| {
                    record.state = JobState::Suspended;
                    let past = past(record);
                    past.resumes = true;
                    past.suspended = Some(cause.clone());
                    note_preemption(record, cause, at);
                });
            }
            Event::Requeued { job, back } => self.requeued(job, back, touched),
            Event::Rejected(id) => self.in_job(id, touched, |record| past(record).rejections += 1),
            Event::Ended { job, state, cause } => {
                let tenant = self.jobs.get(job).and_then(|record| record.job.spec.tenant.clone());
                self.note_actual(job, cause);
                if let Some(tenant) = tenant.and_then(|tenant| self.tenants.get_mut(&tenant)) {
                    tenant.jobs = tenant.jobs.saturating_sub(1);
                }
                self.leave_nodes(job, true, touched);
                for pool in self.pools.values_mut() {
                    pool.world.reports.remove(job);
                }
                self.in_job(job, touched, |record| {
                    record.state = *state;
                    record.user_hold = false;
                    record.ended = Some(Box::new((cause.clone(), at)));
                    if let Some(past) = &mut record.past {
                        past.suspended = None;
                    }
                });
                if let Some(state) = terminal_state(*state, cause) {
                    touched.changes = self.graph.ended(job, state);
                    self.note_unawaited(touched);
                    self.element_ended(job, state, touched);
                }
            }
            Event::Forgotten(id) if self.folded.contains_key(id) => self.array_forgotten(id, touched),
            Event::Forgotten(id) => {
                self.element_forgotten(id);
                let queued = self.jobs.remove(id).is_some_and(|record| record.is_queued());
                self.edge_locks.remove(id);
                self.announced.remove(id);
                touched.job(id.clone(), queued);
            }
            Event::Resized { job, gained, lost, units, gpus, power_w } => {
                self.resized(job, gained, lost, (*units, *gpus, *power_w), touched);
            }
            // The other events are taken in by `State::apply`.
            _ => {}
        }
    }

    pub(super) fn in_job(&mut self, id: &JobId, touched: &mut Touched, change: impl FnOnce(&mut JobRecord)) {
        let Some(record) = self.jobs.get_mut(id) else { return };
        let (before, queued) = (is_fresh(record), record.is_queued());
        change(record);
        let after = is_fresh(record);
        touched.job(id.clone(), queued || record.is_queued());
        if before != after {
            self.note_fresh(id, after, touched);
        }
    }

    /// Changes how long a job may run, and with it what its tenant is promised.
    fn in_walltime(&mut self, id: &JobId, touched: &mut Touched, change: impl FnOnce(&mut JobRecord)) {
        let (mut was, mut tenant) = (0, None);
        self.in_job(id, touched, |record| {
            (was, tenant) = (record.promised_gpu_ms(), record.job.spec.tenant.clone());
            change(record);
            let left = record.walltime();
            record.run.iter_mut().for_each(|run| run.promised = left);
        });
        let is = self.jobs.get(id).map_or(0, |record| record.promised_gpu_ms());
        if let Some(tenant) = tenant.and_then(|tenant| self.tenants.get_mut(&tenant)) {
            tenant.gpu_ms_promised = (tenant.gpu_ms_promised + is).saturating_sub(was);
        }
    }

    fn in_run(&mut self, id: &JobId, touched: &mut Touched, change: impl FnOnce(&mut Run)) {
        self.in_job(id, touched, |record| {
            if let Some(run) = &mut record.run {
                change(run);
            }
        });
    }

    fn rounds_of(&self, id: &JobId) -> i64 {
        let pool = self.jobs.get(id).and_then(|record| self.pools.get(&record.pool));
        pool.map_or(0, |pool| pool.rounds as i64)
    }

    fn submitted(&mut self, job: &Job, pool: &PoolId, user_hold: bool, touched: &mut Touched) {
        let rounds = self.pools.get(pool).map_or(0, |pool| pool.rounds as i64);
        if let Some(tenant) = job.spec.tenant.as_ref().and_then(|id| self.tenants.get_mut(id)) {
            tenant.jobs += 1;
        }
        let round_base = rounds - i64::from(job.rescore_count);
        let record = JobRecord::new(job.clone(), pool.clone(), user_hold, round_base);
        touched.job(job.id.clone(), true);
        self.jobs.insert(job.id.clone(), Box::new(record));
    }

    /// A waiting job as workers of its pull pool see it: after so many rounds, with those
    /// that wait for it, and as what it would go out as.
    pub fn job_for_workers(&self, record: &JobRecord) -> Job {
        let mut job = record.job.clone();
        job.rescore_count = self.rounds(record);
        let dependents = self.graph.dependents(&job.id);
        if dependents > job.spec.dependents {
            Arc::make_mut(&mut job.spec).dependents = dependents;
        }
        self.narrow(record, &mut job);
        job
    }

    fn is_pulled(&self, id: &JobId) -> bool {
        let pool = self.jobs.get(id).and_then(|record| self.pools.get(&record.pool));
        pool.is_some_and(|pool| pool.pool.dispatch == Dispatch::Pull)
    }

    /// Whoever is waited for by fewer is worth less to workers.
    pub(super) fn note_unawaited(&mut self, touched: &mut Touched) {
        let unawaited = self.graph.take_unawaited();
        touched.jobs.extend(unawaited.into_iter().filter(|id| self.is_pulled(id)));
    }

    fn linked(&mut self, submission: &Submission, touched: &mut Touched) {
        // Whoever is waited for by more is worth more to workers.
        let waited_for = submission.jobs.iter().flat_map(|new| &new.edges).map(|edge| &edge.on);
        touched.jobs.extend(waited_for.filter(|id| self.is_pulled(id)).cloned());
        for new in &submission.jobs {
            if let Some(element) = &new.element {
                self.arrays.entry(element.array.clone()).or_default().push(new.id.clone());
            }
        }
        let mut graph = std::mem::take(&mut self.graph);
        let verdicts = graph.submit(submission, |id| self.known(id, submission));
        self.graph = graph;
        self.note_unawaited(touched);
        debug_assert!(verdicts.is_ok(), "whoever made the event checked it: {verdicts:?}");
        for verdict in verdicts.into_iter().flatten() {
            for lock in verdict.locks {
                for job in [&lock.first, &lock.second] {
                    // A job that is placed already has the lock from now on.
                    if self.jobs.get(job).is_some_and(|record| record.state.is_placed()) {
                        self.locks.insert((None, lock.name()), job.clone());
                    }
                    touched.job(job.clone(), true);
                    let locks = self.edge_locks.entry(job.clone()).or_default();
                    if !locks.contains(&lock) {
                        locks.push(lock.clone());
                    }
                }
            }
            match verdict.entry {
                Entry::Waiting => {}
                Entry::Released => touched.changes.push(Change::Released(verdict.job)),
                Entry::Cancelled { edge, as_state } => {
                    touched.changes.push(Change::Cancelled { job: verdict.job, edge, as_state });
                }
            }
        }
    }

    /// What the graph may know of a job that was submitted before.
    pub(crate) fn known(&self, id: &JobId, submission: &Submission) -> Option<Known> {
        let is_new = |id: &JobId| submission.jobs.iter().any(|new| new.id == *id);
        if let Some(record) = self.jobs.get(id).filter(|_| !is_new(id)) {
            let ended = record.ended.as_ref().and_then(|ended| terminal_state(record.state, &ended.0));
            return Some(Known::Job { tenant: record.job.spec.tenant.clone(), ended });
        }
        if let Some(array) = self.folded.get(id).filter(|_| !is_new(id)) {
            let tenant = array.job.spec.tenant.clone();
            return Some(Known::Counted { tenant, left: array.left(), ended: array.worst() });
        }
        if let Some((array, position)) = self.element_of(id) {
            let tenant = array.job.spec.tenant.clone();
            return Some(Known::Job { tenant, ended: array.end_of(position) });
        }
        let elements = self.arrays.get(id)?;
        let first = elements.iter().find(|id| !is_new(id)).and_then(|id| self.jobs.get(id))?;
        Some(Known::Array { tenant: first.job.spec.tenant.clone(), elements: elements.clone() })
    }

    /// How a job or an array ended, if all of it has.
    pub fn ended_as(&self, id: &JobId) -> Option<TerminalState> {
        match self.known(id, &Submission { tenant: None, jobs: Vec::new() })? {
            Known::Job { ended, .. } => ended,
            Known::Counted { left: 0, ended, .. } => Some(ended),
            Known::Counted { .. } | Known::Array { .. } => None,
        }
    }

    /// Names of the locks that a job shares because of `mutex` edges.
    pub(crate) fn edge_locks_of(&self, id: &JobId) -> Vec<Name> {
        let locks = self.edge_locks.get(id).map_or(&[][..], Vec::as_slice);
        locks.iter().map(EdgeLock::name).collect()
    }

    fn committed(&mut self, commit: &Commit, touched: &mut Touched) {
        let at = self.now;
        // A hold of the job becomes the placement in the same step.
        let holds: Vec<u64> =
            self.holds.values().filter(|hold| hold.job == commit.job).map(|hold| hold.id).collect();
        for id in holds {
            self.hold_ended(id, touched);
        }
        self.nodes_freed(&commit.job, touched);
        let Some(record) = self.jobs.get(&commit.job) else { return };
        let (rounds, walltime) = (self.rounds(record), record.walltime());
        let (pool, spec) = (record.pool.clone(), record.job.spec.clone());
        if commit.ahead {
            self.tell_ahead(&commit.job, &commit.grants);
        } else {
            self.hold(&commit.job, &commit.grants, [commit.units, commit.gpus, commit.power_w], touched);
        }
        if let Some(tenant) = spec.tenant.as_ref().and_then(|id| self.tenants.get_mut(id)) {
            tenant.price_promised += commit.price.unwrap_or_default();
        }
        for name in &spec.mutex {
            self.locks.insert((spec.tenant.clone(), name.clone()), commit.job.clone());
        }
        for name in self.edge_locks_of(&commit.job) {
            self.locks.insert((None, name), commit.job.clone());
        }
        if let Some(state) = self.pools.get_mut(&pool) {
            state.reservations.remove(&commit.job);
            // What nodes said they would have to fetch was about a waiting job.
            state.world.reports.remove(&commit.job);
        }
        let expected = self.expected(&commit.job);
        self.in_job(&commit.job, touched, |record| {
            record.state = JobState::Staging;
            record.job.rescore_count = rounds;
            record.job.retry_at = None;
            if let Some(past) = &mut record.past {
                past.rejections = 0;
            }
            if commit.price.is_some() || record.past.is_some() {
                past(record).price = commit.price;
            }
            let nodes = commit.grants.iter().map(|grant| RunNode {
                node: grant.node.clone(),
                phase: Phase::Assigned,
                exit: None,
                lender: grant.lender.clone(),
            });
            record.run = Some(Box::new(Run {
                nodes: nodes.collect(),
                committed_at: at,
                grown_at: None,
                promised: walltime,
                started_at: None,
                ends_at: None,
                kind: commit.kind,
                sends: 1,
                units: commit.units,
                gpus: commit.gpus,
                power_w: commit.power_w,
                notice: None,
                reactive: None,
                stop: None,
                saving: None,
                saved_at: None,
                expected,
                over_walltime: false,
                afresh: false,
                ahead: commit.ahead,
                task: commit.task,
                why: commit.why.clone(),
            }));
        });
    }

    /// Gives a job what it gets on its nodes, and counts it: node units, GPUs, watts.
    pub(super) fn hold(
        &mut self,
        id: &JobId,
        grants: &[Grant],
        [units, gpus, power_w]: [u64; 3],
        touched: &mut Touched,
    ) {
        let Some(record) = self.jobs.get(id) else { return };
        let (pool, spec, walltime) = (record.pool.clone(), record.job.spec.clone(), record.walltime());
        for grant in grants {
            self.place(grant, &pool, touched);
        }
        let cpu = cpu_of(&spec, grants.len());
        self.count_held(&pool, spec.tenant.as_ref(), [0, units], [0, gpus], [0, cpu]);
        if let Some(tenant) = spec.tenant.as_ref().and_then(|id| self.tenants.get_mut(id)) {
            tenant.gpu_ms_promised += gpu_ms(walltime, gpus);
        }
        if let Some(state) = self.pools.get_mut(&pool) {
            state.power_w += power_w;
            state.io_bytes_s += spec.io_bytes_s.get();
        }
    }

    fn place(&mut self, grant: &Grant, pool: &PoolId, touched: &mut Touched) {
        let Some((home, slot, state)) = self.node_mut(&grant.node) else { return };
        let node = &mut state.nodes[slot as usize];
        let placed = node.place(grant.placement.clone());
        let checked = placed.is_ok() || cfg!(feature = "mutations");
        debug_assert!(checked, "the ledger checked {grant:?}: {placed:?}");
        if grant.lender.is_some() {
            node.lent_to = Some(pool.clone());
        }
        touched.loads.push((home.clone(), slot));
    }

    fn started(&mut self, id: &JobId, touched: &mut Touched) {
        let at = self.now;
        let bounded = self
            .jobs
            .get(id)
            .is_some_and(|record| record.job.spec.lifecycle == landfall_model::Lifecycle::Bounded);
        let limited = bounded && self.is_batch(id);
        self.in_job(id, touched, |record| {
            (record.state, record.user_hold) = (JobState::Running, false);
            let whole = record.job.spec.walltime_ms;
            let past = past(record);
            past.first_started_at.get_or_insert(at);
            let left = past.walltime_left.unwrap_or(whole);
            if let Some(run) = &mut record.run {
                run.started_at = Some(at);
                run.ends_at = limited.then(|| at + left);
            }
        });
        self.images_came(id, touched);
    }

    /// Where a job runs, its image is from now on; the node need not say so first.
    fn images_came(&mut self, id: &JobId, touched: &mut Touched) {
        let Some(record) = self.jobs.get(id) else { return };
        let (Some(image), Some(run)) = (record.job.spec.image.clone(), &record.run) else { return };
        for node in run.nodes.iter().map(|at| at.node.clone()).collect::<Vec<_>>() {
            let Some((pool, slot, state)) = self.node_mut(&node) else { continue };
            let images = &mut state.nodes[slot as usize].images;
            if images.len() < landfall_model::IMAGES_MAX && images.insert(image.clone()) {
                touched.nodes.push((pool.clone(), slot));
            }
        }
    }

    /// Whether walltimes are enforced: in batch pools, where time is planned with them.
    fn is_batch(&self, id: &JobId) -> bool {
        let pool = self.jobs.get(id).and_then(|record| self.pools.get(&record.pool));
        pool.is_some_and(|pool| pool.pool.dispatch == Dispatch::Batch)
    }

    fn requeued(&mut self, id: &JobId, back: &Back, touched: &mut Touched) {
        let at = self.now;
        self.leave_nodes(id, false, touched);
        let rounds = self.rounds_of(id);
        self.in_job(id, touched, |record| {
            record.state = JobState::Pending;
            record.attempt += 1;
            let starts = back.cause == Cause::NotStarted;
            *(if starts { &mut record.start_failures } else { &mut record.failures }) +=
                u32::from(back.failed);
            record.requeues += u32::from(back.counts);
            record.job.retry_at = back.retry_at;
            record.round_base = rounds - i64::from(record.job.rescore_count);
            let suspended = record.past.as_mut().and_then(|past| past.suspended.take());
            if suspended.is_none() {
                note_preemption(record, &back.cause, at);
            }
            let resumes = record.past.as_ref().is_some_and(|past| past.resumes);
            if back.cause == Cause::FetchMiss {
                past(record).fetch_misses += 1;
            }
            if back.cause == Cause::Fetched {
                past(record).fetched = true;
            }
            if let Some(past) = record.past.as_mut().filter(|_| !resumes) {
                // Starting over: the whole walltime is there again.
                past.walltime_left = None;
            }
        });
    }

    /// Takes a job off all its nodes and gives back what it held. One that will run again pays then.
    fn leave_nodes(&mut self, id: &JobId, ends: bool, touched: &mut Touched) {
        let Some(record) = self.jobs.get_mut(id) else { return };
        let (promised, gpu_ms) = (price_of(record), record.promised_gpu_ms());
        let pays = ends && record.run.as_ref().is_some_and(|run| run.started_at.is_some());
        if let Some(past) = record.past.as_mut().filter(|_| !pays) {
            past.price = None;
        }
        if let Some(tenant) = record.job.spec.tenant.as_ref().and_then(|id| self.tenants.get_mut(id)) {
            tenant.price_promised = tenant.price_promised.saturating_sub(promised);
        }
        let price = if pays { promised } else { Money::ZERO };
        let holds: Vec<u64> =
            self.holds.values().filter(|hold| hold.job == *id).map(|hold| hold.id).collect();
        let run = record.run.take();
        let (pool, spec) = (record.pool.clone(), record.job.spec.clone());
        for id in holds {
            self.hold_ended(id, touched);
        }
        self.nodes_freed(id, touched);
        if let Some(state) = self.pools.get_mut(&pool) {
            state.reservations.remove(id);
        }
        let Some(run) = run else { return };
        for name in &spec.mutex {
            self.locks.remove(&(spec.tenant.clone(), name.clone()));
        }
        for name in self.edge_locks_of(id) {
            self.locks.remove(&(None, name));
        }
        if run.ahead {
            self.leave_ahead(id, &run, price, touched);
            return;
        }
        for at in &run.nodes {
            self.remove_from(id, at, touched);
        }
        let cpu = cpu_of(&spec, run.nodes.len());
        self.count_held(&pool, spec.tenant.as_ref(), [run.units, 0], [run.gpus, 0], [cpu, 0]);
        self.spend(spec.tenant.as_ref(), &run, gpu_ms, price);
        if let Some(state) = self.pools.get_mut(&pool) {
            state.freed_early |= run.ends_at.is_none_or(|end| end > self.now);
            state.power_w = state.power_w.saturating_sub(run.power_w);
            state.io_bytes_s = state.io_bytes_s.saturating_sub(spec.io_bytes_s.get());
        }
        for at in &run.nodes {
            self.pass_room_on(&at.node, touched);
        }
    }

    /// Moves what a run was promised to what it used, and notes what it costs.
    pub(super) fn spend(&mut self, tenant: Option<&TenantId>, run: &Run, promised: u128, price: Money) {
        let at = self.now;
        let Some(tenant) = tenant.and_then(|id| self.tenants.get_mut(id)) else { return };
        tenant.gpu_ms_promised = tenant.gpu_ms_promised.saturating_sub(promised);
        if let Some(started) = run.started_at {
            tenant.spending.forget_before(at - BUDGET_WINDOW);
            tenant.spending.add(started, at, run.gpus, run.nodes.len() as u64, price);
        }
    }

    /// Remembers how long a job that ends ran, against how long it might have.
    fn note_actual(&mut self, id: &JobId, cause: &Cause) {
        let at = self.now;
        let Some(record) = self.jobs.get(id) else { return };
        let Some(run) = record.run.as_ref().filter(|run| run.ends_at.is_some()) else { return };
        let Some(started) = run.started_at else { return };
        let ratio = at.since(started).as_secs_f64() / record.job.spec.walltime_ms.as_secs_f64();
        if let Some(tenant) = record.job.spec.tenant.as_ref().and_then(|id| self.tenants.get_mut(id)) {
            tenant.note_ratio(ratio);
        }
        // One that went on from a checkpoint, or that somebody stopped, says little about jobs like it.
        let whole = record.past.as_ref().is_none_or(|past| past.walltime_left.is_none());
        if whole
            && matches!(cause, Cause::Exit(_) | Cause::OverWalltime | Cause::Walltime)
            && let Some(pool) = self.pools.get_mut(&record.pool)
        {
            pool.habits.learn(&record.job.spec, at.since(started), run.expected, at);
        }
    }

    /// How long a job is expected to run, where time is planned.
    pub fn expected(&self, id: &JobId) -> Option<Millis> {
        let record = self.jobs.get(id)?;
        let pool = self.pools.get(&record.pool).filter(|pool| pool.pool.dispatch == Dispatch::Batch)?;
        Some(pool.habits.expect(&record.job.spec, record.walltime()?))
    }

    fn remove_from(&mut self, id: &JobId, at: &RunNode, touched: &mut Touched) {
        let vacated = self.now;
        let Some((home, slot, state)) = self.node_mut(&at.node) else { return };
        let node = &mut state.nodes[slot as usize];
        node.remove(id);
        state.records[slot as usize].vacated_at = Some(vacated);
        let node = &mut state.nodes[slot as usize];
        if at.lender.is_some() {
            node.lent_to = None;
        }
        touched.loads.push((home.clone(), slot));
    }

    /// Moves what a tenant holds from the first to the second value.
    fn count_held(
        &mut self,
        pool: &PoolId,
        tenant: Option<&TenantId>,
        units: [u64; 2],
        gpus: [u64; 2],
        cpu: [u64; 2],
    ) {
        let at = self.now;
        let moved = |value: u64, [from, to]: [u64; 2]| (value + to).saturating_sub(from);
        if let Some(state) = tenant.and_then(|id| self.tenants.get_mut(id)) {
            state.units = moved(state.units, units);
            state.gpus = moved(state.gpus, gpus);
            state.cpu_milli = moved(state.cpu_milli, cpu);
        }
        let Some(state) = self.pools.get_mut(pool) else { return };
        state.hold_units(at, tenant, |held| moved(held, units));
    }

    fn resized(
        &mut self,
        id: &JobId,
        gained: &[Grant],
        lost: &[landfall_model::NodeId],
        (units, gpus, power_w): (u64, u64, u64),
        touched: &mut Touched,
    ) {
        let Some(record) = self.jobs.get_mut(id) else { return };
        let (pool, spec, was) = (record.pool.clone(), record.job.spec.clone(), record.promised_gpu_ms());
        let Some(run) = &mut record.run else { return };
        let before = (run.units, run.gpus, run.power_w);
        if !gained.is_empty() {
            (run.grown_at, run.sends) = (Some(self.now), 1);
        }
        let had = run.nodes.len();
        (run.units, run.gpus, run.power_w) = (units, gpus, power_w);
        let (gone, stays): (SmallVec<[RunNode; 1]>, SmallVec<[RunNode; 1]>) =
            run.nodes.drain(..).partition(|at| lost.contains(&at.node));
        run.nodes = stays;
        run.nodes.extend(gained.iter().map(|grant| RunNode {
            node: grant.node.clone(),
            phase: Phase::Assigned,
            exit: None,
            lender: grant.lender.clone(),
        }));
        run.nodes.sort_by(|a, b| a.node.cmp(&b.node));
        let cpu = [cpu_of(&spec, had), cpu_of(&spec, run.nodes.len())];
        let is = record.promised_gpu_ms();
        for at in &gone {
            self.remove_from(id, at, touched);
        }
        for grant in gained {
            self.place(grant, &pool, touched);
        }
        self.count_held(&pool, spec.tenant.as_ref(), [before.0, units], [before.1, gpus], cpu);
        if let Some(tenant) = spec.tenant.as_ref().and_then(|id| self.tenants.get_mut(id)) {
            tenant.gpu_ms_promised = (tenant.gpu_ms_promised + is).saturating_sub(was);
        }
        if let Some(state) = self.pools.get_mut(&pool) {
            state.power_w = (state.power_w + power_w).saturating_sub(before.2);
        }
        touched.job(id.clone(), true);
    }
}

/// What the placement of a job costs.
pub(super) fn price_of(record: &JobRecord) -> Money {
    let past = record.past.as_ref().filter(|_| record.run.is_some());
    past.and_then(|past| past.price).unwrap_or_default()
}

/// CPU that a job asks for on so many nodes.
pub(super) fn cpu_of(spec: &JobSpec, nodes: usize) -> u64 {
    spec.cpu_milli.get().saturating_mul(nodes as u64)
}

/// How an end counts for jobs that wait for it.
pub(super) fn terminal_state(state: JobState, cause: &Cause) -> Option<TerminalState> {
    match (state, cause) {
        (JobState::Completed, _) => Some(TerminalState::Completed),
        (JobState::Failed, _) => Some(TerminalState::Failed),
        (JobState::Cancelled, Cause::DependencyUnsatisfiable { on_failure: true, .. }) => {
            Some(TerminalState::Unneeded)
        }
        (JobState::Cancelled, _) => Some(TerminalState::Cancelled),
        _ => None,
    }
}

/// What a job waited for is over, and waiting for that is not waiting: queue time and readiness begin now, or when its own
/// time comes if that is later.
pub(super) fn queue_from(job: &mut Job, at: Time) {
    let at = job.retry_at.map_or(at, |opens| opens.max(at));
    (job.queued_at, job.ready_at) = (at, at);
}

fn past(record: &mut JobRecord) -> &mut Past {
    record.past.get_or_insert_default()
}

/// A checkpoint came to an end: what is left of the walltime is what was left when it did.
fn saved(record: &mut JobRecord, at: Time) {
    let Some(run) = &mut record.run else { return };
    let left = run.ends_at.map(|end| end.since(at));
    let took = run.saving.take().map(|saving| at.since(saving.asked_at));
    run.saved_at = Some(at);
    back_to_started(run);
    let nodes = run.nodes.iter().map(|at| at.node.clone()).collect();
    let past = past(record);
    past.saved_on = nodes;
    past.walltime_left = left.map(|left| left.max(Millis::new(1)));
    past.checkpoint_took = took.or(past.checkpoint_took);
    past.resumes = true;
    record.job.checkpoint_took = past.checkpoint_took;
}

/// Nodes that saved their part go on running.
fn back_to_started(run: &mut Run) {
    for at in run.nodes.iter_mut().filter(|at| at.phase == Phase::Checkpointed) {
        at.phase = Phase::Started;
    }
}

fn note_preemption(record: &mut JobRecord, cause: &Cause, at: Time) {
    if *cause == Cause::Preempted {
        past(record).preempted.note(at);
    }
}
