//! Why a job is where it is: for every job, at any time.

use landfall_model::answer::{Ended, Explanation, NodeReason, OnNode, Placed, QueuePlace, Why, WhyNot};
use landfall_model::reason::Reason;
use landfall_model::verdict::{Decision, Direction};
use landfall_model::{Dispatch, JobId, JobSpec, Lifecycle, MilliCpu, NodeId, PoolId, Price};
use landfall_policy::view::Pass;

use crate::dispatch::proposal;
use crate::engine::Engine;
use crate::event::Grant;
use crate::ledger::{Counted, Proposal, known_extra_power, whole_node};
use crate::record::{Cause, JobRecord, JobState};
use crate::state::PoolState;

/// What the ways to dispatch find out about a waiting job.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) queue: Option<QueuePlace>,
    pub(super) reasons: Vec<Why>,
    pub(super) nodes: Vec<NodeReason>,
    pub(super) decision: Option<Decision>,
}

/// Remarks about nodes out of service that are told.
const NOTES_MAX: usize = 4;

impl Engine {
    /// Why a job is where it is; `None` if there is no such job. An array, or an element without a record, is answered for
    /// by the element that is next.
    pub fn explain(&self, job: &JobId) -> Option<Explanation> {
        match self.state.job(job) {
            Some(record) => self.explain_record(record),
            None => self.explain_array(job),
        }
    }

    pub(super) fn explain_record(&self, record: &JobRecord) -> Option<Explanation> {
        let pool = self.state.pools.get(&record.pool)?;
        let waiting = match record.state {
            JobState::Pending => self.waiting(record, pool.pool.dispatch),
            JobState::Suspended => Waiting { reasons: vec![suspended(record)], ..Waiting::default() },
            _ => Waiting::default(),
        };
        self.explanation(record, waiting)
    }

    pub(super) fn explanation(&self, record: &JobRecord, waiting: Waiting) -> Option<Explanation> {
        let pool = self.state.pools.get(&record.pool)?;
        let dispatcher = self.pools.get(&record.pool)?;
        let mut help: Vec<String> = Vec::new();
        for text in waiting.reasons.iter().map(|why| why.help.as_ref()).filter(|text| !text.is_empty()) {
            if !help.iter().any(|known| known == text) {
                help.push(text.to_owned());
            }
        }
        Some(Explanation {
            job: record.job.id.clone(),
            stands_for: None,
            never: record.state == JobState::Pending && self.never(&record.job, &record.pool).is_some(),
            array: None,
            now_ms: self.now,
            state: record.state,
            pool: record.pool.clone(),
            dispatch: pool.pool.dispatch,
            policy: dispatcher.policy(record.job.spec.kind).name().to_owned(),
            attempt: record.attempt,
            queue: waiting.queue,
            reason: waiting.reasons.first().map(|why| why.reason),
            reasons: waiting.reasons,
            nodes: waiting.nodes,
            decision: waiting.decision,
            help,
            notes: self.notes(record, pool),
            placed: self.placed(record),
            ended: record.ended.as_ref().map(|ended| Ended { cause: ended.0.clone(), at: ended.1 }),
        })
    }

    /// How long a job may run where time is planned and nobody said how long.
    pub fn usual_walltime(&self, spec: &JobSpec, pool: &PoolId) -> Option<String> {
        let plans = self.state.pools.get(pool).is_some_and(|pool| pool.pool.dispatch == Dispatch::Batch);
        let usual = spec.lifecycle == Lifecycle::Bounded && spec.walltime_ms == JobSpec::empty().walltime_ms;
        (plans && usual).then(|| {
            format!(
                "it may run for {}, then it is stopped: pool `{pool}` plans time, and a job that names no walltime gets that",
                spec.walltime_ms
            )
        })
    }

    /// What is worth knowing beside the reasons: how long it may run, and what operators said about nodes of the pool.
    fn notes(&self, record: &JobRecord, pool: &PoolState) -> Vec<String> {
        if record.state.is_final() {
            return Vec::new();
        }
        let walltime = self.usual_walltime(&record.job.spec, &record.pool);
        if record.state != JobState::Pending {
            return walltime.into_iter().chain(self.power_unknown(record, pool)).collect();
        }
        let mut out: Vec<(String, Vec<&NodeId>)> = Vec::new();
        for (node, kept) in pool.nodes.iter().zip(&pool.records).filter(|(node, _)| !node.has_left()) {
            let said = match (node.maintenance_at.filter(|at| *at > self.now), &kept.why) {
                (Some(at), why) => {
                    let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                    format!("out of service in {}{why}", at.since(self.now))
                }
                (None, Some(why)) => format!("out of service: {why}"),
                (None, None) => continue,
            };
            match out.iter_mut().find(|(text, _)| *text == said) {
                Some((_, nodes)) => nodes.push(&node.id),
                None => out.push((said, vec![&node.id])),
            }
        }
        let notes = out.into_iter().take(NOTES_MAX).map(|(said, nodes)| match nodes.as_slice() {
            [only] => format!("node {only} is {said}"),
            several => format!("{} nodes, such as {}, are {said}", several.len(), several[0]),
        });
        notes.chain(walltime).collect()
    }

    /// That a job counts as drawing nothing under a cap, because nobody says what it or its node draws.
    fn power_unknown(&self, record: &JobRecord, pool: &PoolState) -> Option<String> {
        let cap = pool.pool.batch.power_cap_w.or(self.state.caps.power_w);
        cap.filter(|_| pool.pool.dispatch == Dispatch::Batch)?;
        let mut nodes =
            record.run.iter().flat_map(|run| &run.nodes).filter_map(|at| self.state.node(&at.node));
        let (node, _) = nodes.find(|(node, _)| known_extra_power(record.job.spec.power_w, node).is_none())?;
        Some(format!(
            "power_unknown: node {} does not say what it draws, so under the power cap on pool `{}` the job counts as drawing nothing; set agent.power_idle and agent.power_busy there, or give the job power_w",
            node.id, record.pool
        ))
    }

    fn waiting(&self, record: &JobRecord, dispatch: Dispatch) -> Waiting {
        let mut waiting = match dispatch {
            // Peers place it, and say why not.
            _ if self.state.announced.contains_key(&record.job.id) => Waiting::default(),
            Dispatch::Negotiate if !self.state.peers.contains_key(&record.pool) => Waiting::default(),
            Dispatch::Push | Dispatch::Negotiate => self.push_waiting(record),
            Dispatch::Pull => self.pull_waiting(record),
            Dispatch::Batch => self.batch_waiting(record),
        };
        let gates = self.gates(record);
        waiting.reasons.retain(|why| !gates.iter().any(|gate| gate.reason == why.reason));
        // That a job is not in the queue is what its gates say, in better words.
        waiting.reasons.retain(|why| gates.is_empty() || why.reason != Reason::LedgerStaleJob);
        waiting.reasons.splice(0..0, gates);
        if waiting.reasons.is_empty() {
            waiting.reasons.push(Why::plain(Reason::Negotiating));
        }
        waiting
    }

    /// What keeps a job from being placed wherever that would be.
    pub(super) fn gates(&self, record: &JobRecord) -> Vec<Why> {
        let mut gates = Vec::new();
        let job = &record.job;
        if let Some(name) = &job.waits_for {
            let edges = self.state.graph.open_edges(&job.id);
            let (jobs, any) = match edges {
                Some((join, edges)) => {
                    (edges.map(|edge| edge.on.clone()).collect(), join == crate::dag::Join::Any)
                }
                None => (Vec::new(), false),
            };
            let which = if jobs.is_empty() { name.to_string() } else { named(&jobs) };
            let detail = match jobs.len() {
                0 | 1 => format!("{which} has not ended"),
                _ if any => format!("none of {which} has ended"),
                _ => format!("{which} have not ended"),
            };
            gates.push(Why::new(Reason::Dependency, detail).jobs(jobs));
        }
        let holders = self.state.lock_holders(record);
        if !holders.is_empty() {
            let detail = holders.iter().map(|(lock, job)| format!("{job} has the lock {lock}"));
            let detail = detail.collect::<Vec<_>>().join("; ");
            gates.push(
                Why::new(Reason::Mutex, detail).jobs(holders.into_iter().map(|(_, job)| job).collect()),
            );
        }
        if record.user_hold {
            let help = format!("release it: `landfall release {}`", job.id);
            gates.push(Why::plain(Reason::UserHold).help(help));
        }
        if let Some(at) = job.retry_at.filter(|at| *at > self.now) {
            let span = at.since(self.now);
            gates.push(Why::new(Reason::NotBefore, format!("its time comes in {span}")).until(Some(at)));
        }
        gates.extend(self.quota_gates(record));
        if let Some(hold) = self.state.holds.values().find(|hold| hold.job == job.id) {
            let detail = format!("hold {} keeps node {} for it; its maker places it", hold.id, hold.node);
            let help = "wait for the maker of the hold, or release the hold";
            gates.push(Why::new(Reason::Held, detail).until(Some(hold.expires_at)).help(help));
        }
        gates
    }

    /// Quotas that rule the job out wherever it would be placed.
    fn quota_gates(&self, record: &JobRecord) -> Vec<Why> {
        let spec = &record.job.spec;
        let Some(tenant) = spec.tenant.as_ref().and_then(|id| self.state.tenants.get(id)) else {
            return Vec::new();
        };
        let batch =
            self.state.pools.get(&record.pool).is_some_and(|pool| pool.pool.dispatch == Dispatch::Batch);
        let nodes = u64::from(spec.nodes.min);
        let least = Counted {
            // What a job takes of a node it shares is known when the node is.
            units: if batch && spec.exclusive { nodes * crate::units::MICRO } else { 0 },
            gpus: nodes * u64::from(spec.gpu_count),
            cpu_milli: nodes * spec.cpu_milli.get(),
            power_w: 0,
            price: self.state.least_price(spec, &record.pool),
        };
        let kept = self.state.kept_of(&tenant.tenant.id, Some(&record.job.id));
        let reasons = crate::quota::at_commit(tenant, &kept, &least, record.walltime(), self.now);
        reasons.into_iter().map(|reason| self.quota_reason(record, reason)).collect()
    }

    /// What the ledger says against a proposal, as reasons.
    pub(super) fn ledger_reasons(&self, record: &JobRecord, proposal: &Proposal) -> Vec<Why> {
        let Err(reasons) = self.state.check(self.now, proposal) else { return Vec::new() };
        let kept =
            || proposal.grants.iter().find_map(|grant| self.state.node(&grant.node)?.1.kept_for.clone());
        reasons
            .into_iter()
            .map(|reason| match reason {
                Reason::QuotaNodes
                | Reason::QuotaGpus
                | Reason::QuotaCpus
                | Reason::GpuHours
                | Reason::Budget => self.quota_reason(record, reason),
                Reason::Mutex => {
                    let jobs: Vec<JobId> =
                        self.state.lock_holders(record).into_iter().map(|(_, job)| job).collect();
                    Why::new(Reason::Mutex, format!("{} has a lock it needs", named(&jobs))).jobs(jobs)
                }
                Reason::NodeTaken => match kept() {
                    Some(job) => {
                        Why::new(Reason::Held, format!("the node is kept for {job}")).jobs(vec![job])
                    }
                    None => Why::new(Reason::Conflict, self.what_is_taken(proposal)),
                },
                other => Why::plain(other.by_ledger()),
            })
            .collect()
    }

    /// What of a proposal is no longer there.
    fn what_is_taken(&self, proposal: &Proposal) -> String {
        let taken = proposal.grants.iter().find_map(|grant| {
            let error = self.state.node(&grant.node)?.0.clone().place(grant.placement.clone()).err()?;
            Some(format!("the policy would take node {}, and the ledger says: {error}", grant.node))
        });
        taken.unwrap_or_else(|| "a node it would get is used by another job alone".to_owned())
    }

    fn quota_reason(&self, record: &JobRecord, reason: Reason) -> Why {
        let tenant = record.job.spec.tenant.as_ref().and_then(|id| self.state.tenants.get(id));
        let Some(tenant) = tenant else {
            return Why::plain(reason);
        };
        let (id, quota) = (&tenant.tenant.id, &tenant.tenant.quota);
        let detail = match reason {
            Reason::QuotaGpus => {
                let most = quota.max_gpus.unwrap_or_default();
                let asked = u64::from(record.job.spec.gpu_count) * u64::from(record.job.spec.nodes.min);
                format!("tenant {id} holds {} of {most} GPUs, and this job needs {asked}", tenant.gpus)
            }
            Reason::QuotaCpus => {
                let cores = |milli: u64| milli as f64 / 1000.0;
                let most = cores(quota.max_cpu_milli.map_or(0, MilliCpu::get));
                let asked = cores(record.job.spec.cpu_milli.get() * u64::from(record.job.spec.nodes.min));
                let held = cores(tenant.cpu_milli);
                format!("tenant {id} holds {held} of {most} cores, and this job needs {asked}")
            }
            Reason::GpuHours => {
                let left = tenant.gpu_hours_left(self.now).unwrap_or_default().max(0.0);
                format!("tenant {id} has {left:.1} GPU-hours left")
            }
            Reason::Budget => {
                let least = self.state.least_price(&record.job.spec, &record.pool).unwrap_or_default();
                let detail = format!(
                    "{}, and this job costs {} or more",
                    crate::quota::spent(tenant, self.now),
                    Price::new(least)
                );
                return Why::new(reason, detail).help(crate::quota::budget_help(id));
            }
            _ => {
                let held = tenant.units as f64 / crate::units::MICRO as f64;
                let asked = record.job.spec.nodes.min;
                let most = quota.max_nodes.unwrap_or_default();
                format!("tenant {id} holds {held} of {most} nodes, and this job needs {asked}")
            }
        };
        Why::new(reason, detail)
    }

    fn placed(&self, record: &JobRecord) -> Option<Placed> {
        let run = record.run.as_ref()?;
        let on = |at: &crate::record::RunNode| {
            let placement = self.state.node(&at.node).and_then(|(node, _)| {
                node.placements.iter().find(|placement| placement.job == record.job.id)
            });
            let gpus = placement.map_or_else(Vec::new, |placement| {
                placement.devices.iter().map(|share| share.index).collect()
            });
            OnNode { node: at.node.clone(), phase: at.phase, gpus, lender: at.lender.clone() }
        };
        let stop = run.stop.as_ref().map(|stop| stop.cause.clone());
        let saving = run.saving.as_ref().and_then(|saving| saving.leaves.clone());
        let notice = run.notice.as_ref().map(|(cause, _)| cause.clone());
        Some(Placed {
            fence: self.state.fence(record),
            kind: run.kind,
            nodes: run.nodes.iter().map(on).collect(),
            committed_at: run.committed_at,
            started_at: run.started_at,
            ends_at: run.ends_at,
            leaves: stop.or(saving).or(notice),
            checkpoint_left_on: record.left_behind().to_vec(),
            price: record.past.as_ref().and_then(|past| past.price).map(|price| Price::new(price).as_f64()),
            why: run.why.clone(),
        })
    }

    /// What stands between a job and a node; `None` if one of them does not exist.
    pub fn why_not(&self, job: &JobId, node: &NodeId) -> Option<WhyNot> {
        let standing;
        let record = match self.state.job(job) {
            Some(record) => record,
            None => {
                standing = self.record_standing_for(job)?;
                &standing
            }
        };
        let (at, kept) = self.state.node(node)?;
        let state = self.state.pools.get(&record.pool)?;
        let dispatcher = self.pools.get(&record.pool)?;
        let policy = dispatcher.policy(record.job.spec.kind);
        let mut pass = Pass::of_parts(self.now, &state.world, &state.nodes, dispatcher.backlog());
        let direction = match state.pool.dispatch {
            Dispatch::Pull => Direction::JobsForNode,
            _ => Direction::NodesForJob,
        };
        pass.lender = at.pool.clone().filter(|home| self.may_borrow(record, home));
        // As it is looked at when a worker asks, with those that wait for it.
        let for_workers = (direction == Direction::JobsForNode).then(|| self.state.job_for_workers(record));
        let seen = for_workers.as_ref().unwrap_or(&record.job);
        let verdict = policy.pair_verdict(&pass, seen, at, direction);
        let mut asked = proposal(record, at, &verdict, None);
        let whole = state.pool.dispatch == Dispatch::Batch && record.job.spec.exclusive;
        if whole {
            let placement = whole_node(record, at);
            asked.grants = [Grant { node: node.clone(), placement, lender: None }].into_iter().collect();
        }
        let home = self.state.places.get(node).map(|(pool, _)| pool);
        for grant in &mut asked.grants {
            grant.lender = home.filter(|home| **home != record.pool).cloned();
        }
        Some(WhyNot {
            job: job.clone(),
            node: node.clone(),
            placed_here: at.placements.iter().any(|placement| placement.job == *job),
            node_state: at.state,
            ledger: match verdict.is_admitted() || whole {
                true => self.state.check(self.now, &asked).err().unwrap_or_default(),
                false => Vec::new(),
            },
            verdict,
            occupants: at.placements.iter().map(|placement| placement.job.clone()).collect(),
            kept_for: kept.kept_for.clone(),
        })
    }

    /// The place of a job among the waiting ones of its pool, in the order of a key.
    pub(super) fn place_by<K: Ord>(
        &self,
        record: &JobRecord,
        counts: impl Fn(&JobRecord) -> bool,
        key: impl Fn(&JobRecord) -> K,
    ) -> Option<QueuePlace> {
        if !record.is_queued() {
            return None;
        }
        let mine = (key(record), &record.job.id);
        let (mut of, mut position) = (0, 1);
        let mut ahead: Option<(K, &JobId)> = None;
        let others = self.state.jobs.values().filter(|other| other.pool == record.pool && other.is_queued());
        for other in others.filter(|other| counts(other)) {
            of += 1;
            let theirs = (key(other), &other.job.id);
            if theirs < mine {
                position += 1;
                if ahead.as_ref().is_none_or(|ahead| *ahead < theirs) {
                    ahead = Some(theirs);
                }
            }
        }
        let (folded, before) = self.folded_places(record, &counts, &key);
        (of, position) = (of + folded, position + before);
        Some(QueuePlace { position, of, ahead: ahead.map(|(_, job)| job.clone()) })
    }
}

fn suspended(record: &JobRecord) -> Why {
    match record.past().suspended {
        Some(Cause::User) => Why::new(Reason::Suspended, "somebody suspended it").help("resume it"),
        Some(Cause::Walltime) => Why::new(Reason::Suspended, "it saved its work when its walltime was over")
            .help("resume it with more time"),
        _ => Why::new(Reason::Suspended, "it made room for other work and comes back with the next cycle"),
    }
}

/// Ids in a sentence.
pub(super) fn named(jobs: &[JobId]) -> String {
    const MOST: usize = 3;
    let mut text = jobs.iter().take(MOST).map(JobId::as_str).collect::<Vec<_>>().join(", ");
    if jobs.len() > MOST {
        text += &format!(" and {} more", jobs.len() - MOST);
    }
    text
}
