//! Does what a plan says: proposals in the order of the walk, then reservations, then what is kept for people.

use std::collections::BTreeMap;

use landfall_model::life::{Beside, Breakdown, RunnerUp};
use landfall_model::reason::Reason;
use landfall_model::verdict::{Fact, Facts};
use landfall_model::{JobId, Name, NodeId, PoolId};
use landfall_policy::view::Pass;

use super::super::Queue;
use crate::effect::Effect;
use crate::engine::Engine;
use crate::event::{Event, Grant};
use crate::ledger::{Proposal, placement};
use crate::notes::Note;
use crate::record::{Cause, JobRecord, StartKind};
use crate::solver::{Looked, Plan, Preempt, SetValue, Start, Step, devices_now};

/// What the next best set is called: nobody chose its nodes, and they have no name together.
const NEXT_SET: &str = "another set";

/// What a cycle looked at for a job, as it is kept.
fn beside(pool: &PoolId, looked: Looked) -> Beside {
    Beside {
        pool: Some(pool.clone()),
        looked_at: looked.nodes,
        against: Beside::counted(looked.against),
        facts: looked.facts,
        ..Beside::default()
    }
}

impl Engine {
    pub(super) fn follow_plan(&mut self, id: &PoolId, plan: Plan) {
        let mut rejected = BTreeMap::new();
        let mut looked: BTreeMap<JobId, Beside> =
            plan.looked.into_iter().map(|looked| (looked.job.clone(), beside(id, looked))).collect();
        for step in plan.steps {
            match step {
                Step::Start(start) => {
                    let job = start.job.clone();
                    let mut beside = looked.remove(&job);
                    if let Some(beside) = &mut beside {
                        beside.heard_ms = start.nodes.iter().filter_map(|node| self.heard_ago(node)).max();
                        let next = start.runner_up.zip(Name::new(NEXT_SET).ok());
                        beside.runners_up.extend(next.map(|(set, candidate)| RunnerUp {
                            candidate,
                            total: set.value,
                            barred: None,
                            vetoes: Vec::new(),
                        }));
                    }
                    let Some(proposal) = self.proposal_of(start) else { continue };
                    match self.propose(proposal) {
                        Ok(_) => self.note_decision(id, &job, beside, true),
                        Err(reasons) => {
                            let reason = reasons.first().copied().unwrap_or(Reason::StaleJob);
                            if let Some(beside) = &mut beside {
                                beside.against = Beside::counted([(reason.by_ledger(), beside.looked_at)]);
                                beside.facts = Facts::default();
                            }
                            self.note_decision(id, &job, beside, false);
                            rejected.insert(job, reason);
                        }
                    }
                }
                Step::Preempt(preempt) => self.make_room(id, preempt),
            }
        }
        for (job, mut beside) in looked {
            let kept = plan.reservations.iter().find(|reservation| reservation.job == job);
            if let Some(reservation) = kept {
                let ahead = reservation.start.since(self.now).as_secs_f64();
                beside.facts.note("reserved_in_s", Fact::Number(ahead));
                beside.facts.note("reserved_nodes", Fact::Count(reservation.node_count()));
            }
            self.note_decision(id, &job, Some(beside), false);
        }
        self.keep_reservations(id, plan.reservations, &plan.moved);
        for job in plan.missed.iter().filter(|job| !rejected.contains_key(*job)) {
            // What is folded behind it was not among those that could have started either.
            let array = self.state.element_of(job).map(|(array, _)| array.job.id.clone());
            if let Some(array) = array {
                self.drop_folded(&array, Cause::ImmediateUnavailable);
            }
            self.end_unplaced(job, Cause::ImmediateUnavailable);
        }
        if let Some(Queue::Batch(queue)) = self.pools.get_mut(id).map(|pool| &mut pool.queue) {
            queue.rejected = rejected;
        }
    }

    /// Tells what was looked at for a job that starts; for one that does not, if that is news for its class.
    fn note_decision(&mut self, id: &PoolId, job: &JobId, beside: Option<Beside>, placed: bool) {
        let Some(beside) = beside else { return };
        let now = self.now;
        let queue = match self.pools.get_mut(id).map(|pool| &mut pool.queue) {
            Some(Queue::Batch(queue)) => queue,
            _ => return,
        };
        let is_news = placed || queue.told(job).is_some_and(|told| told.is_news(now, &beside));
        let (job, candidates) = (Some(job.clone()), Vec::new());
        let note = Note { job, asked: None, placed, is_news, beside, candidates };
        self.notes.iter_mut().for_each(|notes| notes.extend(Some(note.clone()).filter(|note| note.is_news)));
    }

    fn proposal_of(&self, start: Start) -> Option<Proposal> {
        let record = self.state.job(&start.job)?;
        let grants = start.nodes.iter().enumerate().map(|(position, node)| {
            let devices = start.devices.get(position).map(Vec::as_slice).unwrap_or_default();
            let lender =
                start.loans.iter().find(|loan| loan.nodes.contains(node)).map(|loan| loan.lender.clone());
            let placement = placement(record, self.state.node(node)?.0, devices);
            Some(Grant { node: node.clone(), placement, lender })
        });
        Some(Proposal {
            job: start.job.clone(),
            attempt: record.attempt,
            grants: grants.collect::<Option<_>>()?,
            kind: if start.backfill { StartKind::Backfill } else { StartKind::Start },
            why: start.why,
        })
    }

    /// Keeps nodes for a job and asks those who are on them to leave.
    fn make_room(&mut self, id: &PoolId, preempt: Preempt) {
        let Some(state) = self.state.pools.get(id) else { return };
        let notice = state.pool.loans.return_grace_ms;
        let until = self.now + crate::preempt::kept_for(state.pool.batch.cycle_ms);
        let (job, nodes, victims) = (preempt.job, preempt.nodes, preempt.victims.clone());
        self.emit(Event::NodesKept { job, nodes, until, victims });
        for shrink in preempt.shrinks {
            self.give_nodes_back(&shrink.job, &shrink.nodes);
        }
        for victim in preempt.victims {
            if preempt.reclaim && !notice.is_zero() {
                let by = self.now + notice;
                if let Some(fence) = self.fence_of(&victim) {
                    self.want(Effect::Notice { fence, by });
                }
                self.emit(Event::Noticed { job: victim, cause: Cause::Reclaimed, by });
            } else {
                let cause = if preempt.reclaim { Cause::Reclaimed } else { Cause::Preempted };
                self.evict(&victim, cause);
            }
        }
    }

    fn keep_reservations(
        &mut self,
        id: &PoolId,
        reservations: Vec<crate::solver::Reservation>,
        moved: &[crate::solver::Moved],
    ) {
        let Some(state) = self.state.pools.get(id) else { return };
        let gone: Vec<JobId> = state
            .reservations
            .keys()
            .filter(|job| !reservations.iter().any(|reservation| reservation.job == **job))
            .cloned()
            .collect();
        for job in gone {
            self.emit(Event::Unreserved { pool: id.clone(), job });
        }
        for reservation in reservations {
            let known = self.state.pools.get(id).and_then(|state| state.reservations.get(&reservation.job));
            let waits = self.state.job(&reservation.job).is_some_and(JobRecord::is_queued);
            if known == Some(&reservation) || !waits {
                continue;
            }
            let moved = moved.iter().find(|moved| moved.job == reservation.job).map(|moved| moved.cause);
            self.emit(Event::Reserved { pool: id.clone(), reservation: Box::new(reservation), moved });
        }
    }

    /// Starts jobs whose kept nodes are free by now.
    pub(crate) fn start_kept(&mut self) {
        let ready: Vec<(JobId, Vec<NodeId>)> = self
            .state
            .pools
            .values()
            .flat_map(|pool| &pool.kept)
            .filter(|(job, kept)| {
                let record = self.state.job(job);
                kept.nodes.iter().all(|node| {
                    record.is_some_and(|r| self.kept_devices(r, node).is_some() && self.admits_kept(r, node))
                })
            })
            .map(|(job, kept)| (job.clone(), kept.nodes.clone()))
            .collect();
        for (job, nodes) in ready {
            let Some(record) = self.state.job(&job) else { continue };
            let grants = nodes.iter().map(|node| {
                let devices = self.kept_devices(record, node)?;
                let placement = placement(record, self.state.node(node)?.0, &devices);
                Some(Grant { node: node.clone(), placement, lender: None })
            });
            let proposal = Proposal {
                job: job.clone(),
                attempt: record.attempt,
                grants: grants.collect::<Option<_>>().unwrap_or_default(),
                kind: StartKind::Preempt,
                why: self.why_kept(record),
            };
            if self.propose(proposal).is_err() {
                // Whatever is in the way now, keeping the nodes any longer helps nobody.
                self.emit(Event::NodesFreed(job));
            }
        }
    }

    /// What speaks for a job whose nodes were kept: its place in the queue as it is now.
    fn why_kept(&self, record: &JobRecord) -> Breakdown {
        let pool = self.state.pools.get(&record.pool).zip(self.pools.get(&record.pool));
        let Some((state, dispatcher)) = pool else { return Breakdown::default() };
        let pass = Pass::of_parts(self.now, &state.world, &state.nodes, dispatcher.backlog());
        let Queue::Batch(queue) = &dispatcher.queue else { return Breakdown::default() };
        let mut why = self.why(&dispatcher.policy, &pass, &record.job.id, &self.order_of(state, queue));
        SetValue::default().tell(&mut why, self.staging_gate(record).flag());
        why
    }

    /// The devices of a node that was kept for a job and has room for it by now.
    fn kept_devices(&self, record: &JobRecord, node: &NodeId) -> Option<Vec<u16>> {
        devices_now(&record.job.spec, self.state.node(node)?.0)
    }
}
