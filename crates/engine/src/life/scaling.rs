//! Services that grow and shrink with demand: one node more or fewer at a time, always by a proposal.

use std::collections::BTreeSet;

use landfall_model::{JobId, Lifecycle, Millis, Node, NodeId, NodeState};

use super::{refused, unknown};
use crate::effect::{Alert, Answer, Effect};
use crate::engine::Engine;
use crate::event::{Event, Grant};
use crate::ledger::{Counted, extra_power, is_idle, placement};
use crate::quota::at_commit;
use crate::record::{JobRecord, JobState};
use crate::solver::devices_now;
use crate::units::{MICRO, node_units};
use landfall_capacity::reactive::{
    Bounds, Direction, HeldNode, Reactive, ReactiveSettings, Sample, ScaleRule, Step, node_to_give_up,
};

impl Engine {
    /// Takes in a measurement of a reactive job and moves by one node if it is time to.
    pub(crate) fn metric(&mut self, job: &JobId, sample: Sample) -> Answer {
        let Some(record) = self.state.job(job) else { return Answer::Refused(unknown("job", job.as_str())) };
        if record.job.spec.lifecycle != Lifecycle::Reactive {
            let message = format!("job `{job}` does not scale");
            return refused("not_reactive", message, "submit it with lifecycle = \"reactive\"");
        }
        if record.state != JobState::Running {
            return Answer::Ignored("not_running".into());
        }
        let target = record.job.spec.scale_target_milli;
        let rule = target.map_or(ScaleRule::Utilisation, |milli| ScaleRule::Target(milli as f64 / 1000.0));
        let Some(pool) = self.state.pools.get(&record.pool) else { return Answer::Ignored("no_pool".into()) };
        let batch = &pool.pool.batch;
        let settings = ReactiveSettings {
            rule,
            interval_ms: batch.scale_interval_ms,
            window_up_ms: batch.scale_up_after_ms,
            window_down_ms: batch.scale_down_after_ms,
            cooldown_up_ms: batch.scale_cooldown_ms,
            cooldown_down_ms: batch.scale_cooldown_ms,
        };
        let mut reactive = self.reactive_of(record);
        let (step, alert) = reactive.sample(&settings, sample, self.bounds(record), self.now);
        self.alert(job, alert);
        if let Step::Move(direction) = step {
            self.scale(job, &mut reactive, direction);
        }
        self.emit(Event::ReactiveSet { job: job.clone(), reactive: Box::new(reactive) });
        Answer::Done
    }

    /// Gives services that run on fewer nodes than they need a chance at every cycle.
    pub(crate) fn raise_to_min(&mut self, jobs: &[JobId]) {
        for job in jobs {
            let Some(record) = self.state.job(job) else { continue };
            if record.job.spec.lifecycle != Lifecycle::Reactive || record.state != JobState::Running {
                continue;
            }
            let before = self.reactive_of(record);
            let mut reactive = before.clone();
            let (direction, alert) = reactive.cycle(self.bounds(record));
            self.alert(job, alert);
            if let Some(direction) = direction {
                self.scale(job, &mut reactive, direction);
            }
            if reactive != before {
                self.emit(Event::ReactiveSet { job: job.clone(), reactive: Box::new(reactive) });
            }
        }
    }

    fn reactive_of(&self, record: &JobRecord) -> Reactive {
        record.run.as_ref().and_then(|run| run.reactive.as_deref()).cloned().unwrap_or_default()
    }

    fn alert(&mut self, job: &JobId, alert: Option<landfall_capacity::reactive::ScaleAlert>) {
        if let Some(alert) = alert {
            self.want(Effect::Alert(Alert::Scaling { job: job.clone(), alert }));
        }
    }

    fn bounds(&self, record: &JobRecord) -> Bounds {
        let spec = &record.job.spec;
        let nodes = record.run.as_ref().map_or(0, |run| run.nodes.len()) as u32;
        let tenant = spec.tenant.as_ref().and_then(|id| self.state.tenants.get(id));
        // Of a node that it shares it may have a part, which is known when the node is.
        let headroom = tenant.filter(|_| spec.exclusive).map_or(u32::MAX, |tenant| {
            let most = tenant.tenant.quota.max_nodes.unwrap_or(f64::INFINITY);
            let units = tenant.units + self.state.kept_of(&tenant.tenant.id, None).units;
            let left = most - units as f64 / MICRO as f64;
            left.max(0.0) as u32
        });
        Bounds { nodes, min: spec.nodes.min, max: spec.nodes.max, headroom }
    }

    fn scale(&mut self, job: &JobId, reactive: &mut Reactive, direction: Direction) {
        let moved = match direction {
            Direction::Up => self.one_node_more(job),
            Direction::Down => self.one_node_fewer(job),
        };
        if moved {
            let alert = reactive.committed(direction, self.now);
            self.alert(job, alert);
        } else {
            reactive.rejected(direction, self.now);
        }
    }

    /// Adds the node that keeps the set closest and most alike; reserved capacity is left alone.
    fn one_node_more(&mut self, job: &JobId) -> bool {
        let Some(record) = self.state.job(job) else { return false };
        let (Some(pool), Some(run)) = (self.state.pools.get(&record.pool), &record.run) else { return false };
        let held: Vec<_> =
            run.nodes.iter().filter_map(|at| self.state.node(&at.node)).map(|(node, _)| node).collect();
        let reserved: u64 = pool.reservations.values().map(crate::solver::Reservation::node_count).sum();
        let grouped = pool.present().any(|node| node.group.is_some());
        let group =
            |node: &Node| (node.group.clone(), (grouped && node.group.is_none()).then(|| node.id.clone()));
        let groups: BTreeSet<_> = held.iter().map(|node| group(node)).collect();
        let spec = &record.job.spec;
        let most = [spec.max_span, pool.pool.batch.max_span].into_iter().flatten().min();
        let may_spread = most.is_none_or(|most| groups.len() < most as usize);
        let could: Vec<_> = (pool.nodes.iter().zip(&pool.records))
            .filter(|(node, kept)| {
                // Who shares takes a part of a node beside others, where nobody was promised one.
                let beside = !spec.exclusive && reserved == 0 && kept.kept_for.is_none();
                let takes = is_idle(node, kept) || (beside && node.state == NodeState::Ready);
                takes && node.lent_to.is_none() && held.iter().all(|other| other.id != node.id)
            })
            .filter(|(node, _)| self.admits_idle(record, node))
            .collect();
        if reserved > 0 && could.len() as u64 <= reserved {
            return false;
        }
        let new_group = |node: &Node| !groups.contains(&group(node));
        let unlike = |node: &Node| held.iter().all(|other| other.fingerprint != node.fingerprint);
        let could = could.into_iter().map(|(node, _)| node).filter(|node| may_spread || !new_group(node));
        let best = could.min_by_key(|node| (node.drifted, new_group(node), unlike(node), &node.id));
        let placed = best.and_then(|node| {
            let placement = placement(record, node, &devices_now(spec, node)?);
            node.fits(&placement).is_ok().then_some((node, placement))
        });
        let Some((node, placement)) = placed else { return false };
        let grant = Grant { node: node.id.clone(), placement, lender: None };
        let (units, gpus) = (node_units(node, &grant.placement), u64::from(record.job.spec.gpu_count));
        let power_w = extra_power(record.job.spec.power_w, node);
        let tenant = record.job.spec.tenant.as_ref().and_then(|id| self.state.tenants.get(id));
        let cpu_milli = record.job.spec.cpu_milli.get();
        let adds = Counted { units, gpus, cpu_milli, power_w, price: None };
        let over_quota = tenant.is_some_and(|tenant| {
            let kept = self.state.kept_of(&tenant.tenant.id, None);
            !at_commit(tenant, &kept, &adds, record.walltime(), self.now).is_empty()
        });
        let left = self.state.caps_left(pool, self.now).power_w;
        if over_quota || left.is_some_and(|left| power_w > left) {
            return false;
        }
        let (units, gpus, power_w) = (run.units + units, run.gpus + gpus, run.power_w + power_w);
        self.emit(Event::Resized {
            job: job.clone(),
            gained: vec![grant],
            lost: Vec::new(),
            units,
            gpus,
            power_w,
        });
        self.send_start(job);
        true
    }

    fn one_node_fewer(&mut self, job: &JobId) -> bool {
        let Some(run) = self.run_of(job) else { return false };
        let mut groups = Vec::new();
        let held: Vec<HeldNode<'_>> = run
            .nodes
            .iter()
            .map(|at| {
                let group = self.state.node(&at.node).and_then(|(node, _)| node.group.clone());
                let number = groups.iter().position(|known| *known == group).unwrap_or_else(|| {
                    groups.push(group);
                    groups.len() - 1
                });
                HeldNode { id: &at.node, borrowed: at.lender.is_some(), group: number as u32 }
            })
            .collect();
        let Some(node) = node_to_give_up(&held).cloned() else { return false };
        self.give_nodes_back(job, std::slice::from_ref(&node));
        true
    }

    /// Nodes that a service was given did not begin: it goes on without them, and the step counts as rejected.
    pub(crate) fn grown_in_vain(&mut self, job: &JobId, nodes: &[NodeId]) {
        self.give_nodes_back(job, nodes);
        let Some(mut reactive) = self.state.job(job).map(|record| self.reactive_of(record)) else { return };
        reactive.undone(self.now);
        self.emit(Event::ReactiveSet { job: job.clone(), reactive: Box::new(reactive) });
    }

    /// Takes nodes from a job that goes on with the rest.
    pub(crate) fn give_nodes_back(&mut self, job: &JobId, nodes: &[NodeId]) {
        let Some(record) = self.state.job(job) else { return };
        let Some(run) = &record.run else { return };
        let fence = self.state.fence(record);
        let stays: Vec<&NodeId> =
            run.nodes.iter().map(|at| &at.node).filter(|node| !nodes.contains(node)).collect();
        let (units, gpus, power_w) = self.counts_for(record, &stays);
        for node in nodes {
            self.want(Effect::Stop { fence: fence.clone(), node: node.clone(), grace: Millis::ZERO });
        }
        let (job, lost) = (job.clone(), nodes.to_vec());
        self.emit(Event::Resized { job, gained: Vec::new(), lost, units, gpus, power_w });
    }

    /// Node units, GPUs and watts that a job counts for on the given nodes.
    fn counts_for(&self, record: &JobRecord, nodes: &[&NodeId]) -> (u64, u64, u64) {
        let mut sums = (0, 0, 0);
        for id in nodes {
            let Some((node, _)) = self.state.node(id) else { continue };
            let Some(placement) = node.placements.iter().find(|placement| placement.job == record.job.id)
            else {
                continue;
            };
            sums.0 += node_units(node, placement);
            sums.1 += u64::from(record.job.spec.gpu_count);
            sums.2 += extra_power(record.job.spec.power_w, node);
        }
        sums
    }
}
