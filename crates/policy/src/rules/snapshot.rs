//! What a batch queue sees of its pool: utilisation, groups, backlog, and the nodes a class of jobs could use.
//!
//! A pass holds the nodes and jobs of one pool, so "the pool" here is all nodes of the pass.

use std::collections::{BTreeMap, BTreeSet};

use landfall_model::{GpuShape, Job, Lifecycle, Millis, Name, Node, NodeState, Placement};

use crate::rules::locality::{self, Picture, locality};
use crate::view::{Pass, View};

/// What work without an end counts for.
pub const OPEN_ENDED: Millis = Millis::secs(86_400);

const MS_PER_HOUR: f64 = 3_600_000.0;

/// Work that waits or runs, in exact integers: GPU-milliseconds and node-milliseconds.
///
/// Integers, so that a sum kept by adding and removing jobs equals one made afresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    pub gpu_ms: u128,
    pub node_ms: u128,
}

impl Backlog {
    /// Adds up waiting jobs.
    pub fn of<'j>(jobs: impl IntoIterator<Item = &'j Job>) -> Self {
        let mut all = Self::default();
        jobs.into_iter().for_each(|job| all.add(job));
        all
    }

    /// Adds up what runs on nodes: whole requests, not what is left of them.
    pub fn running(nodes: &[Node]) -> Self {
        nodes.iter().map(Self::on_node).fold(Self::default(), |all, on| Self {
            gpu_ms: all.gpu_ms.saturating_add(on.gpu_ms),
            node_ms: all.node_ms.saturating_add(on.node_ms),
        })
    }

    /// Adds up what runs on a node.
    pub fn on_node(node: &Node) -> Self {
        let mut all = Self::default();
        for placement in &node.placements {
            let ms = u128::from(placement.walltime.unwrap_or(OPEN_ENDED).get());
            // What was asked for, as for jobs that wait; a job that has a node to itself has all its devices.
            let gpus = match placement.gpu_shape {
                GpuShape::None => 0,
                GpuShape::Whole(gpus) => u128::from(gpus),
                GpuShape::Shared => placement.devices.len() as u128,
            };
            all.gpu_ms = all.gpu_ms.saturating_add(gpus * ms);
            all.node_ms = all.node_ms.saturating_add(ms);
        }
        all
    }

    /// Counts one more waiting job; one that still waits for something is not eligible and counts nothing.
    pub fn add(&mut self, job: &Job) {
        let asked = Self::asked(job);
        self.gpu_ms = self.gpu_ms.saturating_add(asked.gpu_ms);
        self.node_ms = self.node_ms.saturating_add(asked.node_ms);
    }

    /// Counts one waiting job less. It must be as it was when it was added.
    pub fn remove(&mut self, job: &Job) {
        let asked = Self::asked(job);
        self.gpu_ms = self.gpu_ms.saturating_sub(asked.gpu_ms);
        self.node_ms = self.node_ms.saturating_sub(asked.node_ms);
    }

    fn asked(job: &Job) -> Self {
        if job.waits_for.is_some() {
            return Self::default();
        }
        let span = if job.spec.lifecycle == Lifecycle::Bounded { job.spec.walltime_ms } else { OPEN_ENDED };
        let node_ms = u128::from(job.spec.nodes.min) * u128::from(span.get());
        Self { gpu_ms: node_ms * u128::from(job.spec.gpu_count), node_ms }
    }

    /// GPU-hours, or node-hours where there are no GPUs.
    pub fn hours(&self, of_gpus: bool) -> f64 {
        (if of_gpus { self.gpu_ms } else { self.node_ms }) as f64 / MS_PER_HOUR
    }
}

/// Hours that wait against hours that run: GPU-hours, or node-hours in a pool without GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pressure {
    pub queued: f64,
    pub running: f64,
}

impl Pressure {
    /// What the pass says outright, or else what its jobs and nodes add up to.
    pub fn of(pass: &Pass<'_>) -> Self {
        let of_gpus = pass.nodes().iter().any(|node| !node.gpus.is_empty());
        Self::between(pass, &Backlog::running(pass.nodes()), of_gpus)
    }

    /// The same by one who keeps up what runs.
    pub fn between(pass: &Pass<'_>, running: &Backlog, of_gpus: bool) -> Self {
        match pass.world.backlog {
            Some((queued, running)) => Self { queued, running },
            None => Self { queued: pass.backlog().hours(of_gpus), running: running.hours(of_gpus) },
        }
    }
}

/// The nodes of a pass as jobs of one class see them.
///
/// Looked at are the eligible nodes that are free now; if those are too few, all eligible nodes as if idle, so that a
/// job is not marked down for having to wait.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SpecView {
    pub nodes_asked: u64,
    pub nodes_seen: u64,
    /// Whether they were looked at as if idle.
    pub as_if_idle: bool,
    /// Fewest groups that hold the nodes asked for; `None` if there are too few nodes.
    pub fewest_groups: Option<u64>,
    /// Mean locality of the nodes looked at; the value of an unknown node if there is none.
    pub mean_locality: f64,
    /// Size of the largest conformance group among them.
    pub largest_conformance: u64,
}

/// A node, or all nodes of a kind, as jobs of one class see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sight {
    /// Whether one of them could use it some day.
    pub eligible: bool,
    /// Whether nothing is in its way now.
    pub free: bool,
    /// Its locality as if idle, and as it is.
    pub near: (f64, f64),
}

impl Sight {
    fn of(view: &View<'_>) -> Self {
        let eligible = view.is_eligible();
        let near = |picture| locality(view.spec, view.node, picture).unwrap_or(locality::UNKNOWN);
        Self { eligible, free: eligible && view.is_free(), near: (near(Picture::Idle), near(Picture::Now)) }
    }
}

/// Nodes that jobs of a class cannot tell apart.
#[derive(Debug, Clone, Copy)]
pub struct Alike {
    pub sight: Sight,
    pub all: u64,
    /// How many of them have nothing on them that counts.
    pub empty: u64,
    /// Their group and their fingerprint, as numbers; an unknown fingerprint is nobody else's.
    pub group: u32,
    pub fingerprint: Option<u32>,
}

impl SpecView {
    /// Looks at all nodes once.
    pub fn of(view: &View<'_>) -> Self {
        let nodes = view.pass.nodes();
        let groups = group_numbers(nodes);
        let mut names: BTreeMap<&Name, u32> = BTreeMap::new();
        let alike: Vec<Alike> = (nodes.iter().zip(groups))
            .map(|(node, group)| {
                let next = names.len() as u32;
                let fingerprint = node.fingerprint.as_ref().map(|name| *names.entry(name).or_insert(next));
                Alike { sight: Sight::of(&View { node, ..*view }), all: 1, empty: 1, group, fingerprint }
            })
            .collect();
        Self::sum_up(view.spec.nodes.min, &alike)
    }

    /// The same from counts of nodes that are alike.
    pub fn sum_up(nodes_asked: u32, nodes: &[Alike]) -> Self {
        let nodes_asked = u64::from(nodes_asked);
        let free = |alike: &Alike| if alike.sight.free { alike.empty } else { 0 };
        let as_if_idle = nodes.iter().map(free).sum::<u64>() < nodes_asked;
        let count = |alike: &Alike| match as_if_idle {
            true if alike.sight.eligible => alike.all,
            true => 0,
            false => free(alike),
        };
        let counted = || nodes.iter().map(|alike| (alike, count(alike))).filter(|(_, count)| *count > 0);
        let mut groups: Vec<u64> = Vec::new();
        let mut fingerprints: Vec<u64> = Vec::new();
        // The mean is the same whatever the order of nodes and however they are put together.
        let mut near: BTreeMap<u64, u64> = BTreeMap::new();
        let add = |sizes: &mut Vec<u64>, number: u32, count: u64| {
            let number = number as usize;
            sizes.resize(sizes.len().max(number + 1), 0);
            sizes[number] += count;
        };
        for (alike, count) in counted() {
            add(&mut groups, alike.group, count);
            if let Some(fingerprint) = alike.fingerprint {
                add(&mut fingerprints, fingerprint, count);
            }
            let (idle, now) = alike.sight.near;
            *near.entry((if as_if_idle { idle } else { now }).to_bits()).or_default() += count;
        }
        let nodes_seen: u64 = counted().map(|(_, count)| count).sum();
        let sum: f64 = near.iter().map(|(&near, &count)| f64::from_bits(near) * count as f64).sum();
        Self {
            nodes_asked,
            nodes_seen,
            as_if_idle,
            fewest_groups: fewest_groups(groups, nodes_asked),
            mean_locality: if nodes_seen == 0 { locality::UNKNOWN } else { sum / nodes_seen as f64 },
            largest_conformance: fingerprints.into_iter().max().unwrap_or(0).max(u64::from(nodes_seen > 0)),
        }
    }
}

impl crate::Policy {
    /// A node as jobs of a class see it.
    pub fn sight(&self, pass: &Pass<'_>, job: &Job, node: &Node) -> Sight {
        self.on_queue(pass, job, |view| Sight::of(&View { node, ..*view }))
    }
}

impl Pass<'_> {
    /// Tells the pass what its nodes look like to jobs of a class, by one who keeps count of those that are alike.
    pub fn know_alike(&self, policy: &crate::Policy, job: &Job, nodes: &[Alike]) {
        let found = SpecView::sum_up(job.spec.nodes.min, nodes);
        debug_assert_eq!(found, policy.on_queue(self, job, SpecView::of), "counts are kept up to date");
        self.know_spec_view(&job.spec, found);
    }
}

/// Occupied node units over node units of nodes in service; 0 if none is.
pub fn utilisation(nodes: &[Node]) -> f64 {
    let in_service =
        || nodes.iter().filter(|node| matches!(node.state, NodeState::Ready | NodeState::Draining));
    let count = in_service().count();
    if count == 0 {
        return 0.0;
    }
    // Jobs that share a node, each by another resource, may be more than one unit together; so they count for tenants.
    let occupied = |node: &Node| node.placements.iter().fold(0.0, |sum, p| sum + node_units(p, node));
    in_service().fold(0.0, |sum, node| sum + occupied(node)) / count as f64
}

/// What a placement uses of a node: all of it if exclusive, otherwise its largest part of GPUs, CPU and memory.
pub fn node_units(placement: &Placement, node: &Node) -> f64 {
    if placement.exclusive_node {
        return 1.0;
    }
    let part = |held: f64, all: f64| if all > 0.0 { held / all } else { 0.0 };
    let gpu_milli: u64 = placement.devices.iter().map(|share| share.milli.get()).sum();
    part(gpu_milli as f64, 1000.0 * node.gpus.len() as f64)
        .max(part(placement.cpu.as_f64(), node.cpu_total.as_f64()))
        .max(part(placement.ram.as_f64(), node.ram_total.as_f64()))
}

/// Whether nothing runs on a node and nothing is held there.
pub fn is_empty(node: &Node) -> bool {
    node.placements.is_empty()
        && node.cpu_committed.is_zero()
        && node.ram_committed.is_zero()
        && node
            .gpus
            .iter()
            .all(|gpu| !gpu.is_closed() && gpu.milli_committed.is_zero() && gpu.vram_committed.is_zero())
}

/// Names of the jobs on the node.
/// Number of topology groups: one if no node has a group, otherwise each node without one is a group of its own.
pub fn groups(nodes: &[Node]) -> u64 {
    // One that has left keeps its place in the list, and is in no group any more.
    let here = group_numbers(nodes).into_iter().zip(nodes).filter(|(_, node)| !node.has_left());
    (here.map(|(group, _)| group).collect::<BTreeSet<_>>().len() as u64).max(1)
}

/// The group of each node as a number, in no order that matters.
fn group_numbers(nodes: &[Node]) -> Vec<u32> {
    let mut named: BTreeMap<&Name, u32> = BTreeMap::new();
    let grouped = nodes.iter().any(|node| node.group.is_some());
    let mut next = 0;
    let mut new = || {
        next += 1;
        next - 1
    };
    let mut numbers = Vec::with_capacity(nodes.len());
    for node in nodes {
        numbers.push(match (&node.group, grouped) {
            (_, false) => 0,
            (Some(group), true) => *named.entry(group).or_insert_with(&mut new),
            (None, true) => new(),
        });
    }
    numbers
}

/// Fewest groups that together have so many nodes: the largest ones first.
fn fewest_groups(mut sizes: Vec<u64>, asked: u64) -> Option<u64> {
    sizes.sort_unstable_by_key(|&size| std::cmp::Reverse(size));
    let mut held = 0;
    let enough = sizes.iter().position(|size| {
        held += size;
        held >= asked
    });
    enough.map(|at| at as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_model::Situation;
    use landfall_model::scenario::{Format, parse};

    fn situation(text: &str) -> Situation {
        parse(text, Format::Toml).unwrap()
    }

    #[test]
    fn adding_and_removing_equals_summing_afresh() {
        let all = situation(
            r#"
            jobs = [
                { id = "a", nodes = { min = 2, max = 9 }, gpu_count = 4, walltime_ms = "30min" },
                { id = "b", lifecycle = "reactive", nodes = { min = 3, max = 5 }, gpu_count = 1 },
                { id = "c", lifecycle = "unbounded" },
                { id = "d", gpu_count = 8, waits_for = "a" },
            ]"#,
        );
        let jobs = all.jobs();
        let hours = |backlog: Backlog| (backlog.hours(true), backlog.hours(false));
        assert_eq!(hours(Backlog::of(jobs)), (4.0 + 72.0, 1.0 + 72.0 + 24.0), "d is not eligible yet");
        let mut kept = Backlog::of(jobs);
        kept.remove(&jobs[1]);
        kept.add(&jobs[1]);
        assert_eq!(kept, Backlog::of(jobs));
        jobs.iter().for_each(|job| kept.remove(job));
        assert_eq!(kept, Backlog::default());
    }

    #[test]
    fn what_runs_counts_whole_requests() {
        let nodes = situation(
            r#"
            [[nodes]]
            id = "n"
            gpus = [{ count = 4 }]
            placements = [{ job = "x", gpus = [0, 1], walltime_ms = "8h" }, { job = "y", gpus = [2] }]"#,
        );
        let running = Backlog::running(nodes.nodes());
        assert_eq!((running.hours(true), running.hours(false)), (2.0 * 8.0 + 24.0, 8.0 + 24.0));
    }

    #[test]
    fn a_job_on_a_whole_node_counts_the_gpus_it_asked_for() {
        let pool = situation(
            r#"
            nodes = [{ id = "n", gpus = [{ count = 4 }] }]
            jobs = [{ id = "c", walltime_ms = "2h" }, { id = "g", gpu_count = 1, walltime_ms = "2h" }]"#,
        );
        let running = |job: &Job| {
            let mut node = pool.nodes()[0].clone();
            let mut placement = Placement::of(job.id.clone(), &job.spec, &[0, 1, 2, 3]);
            placement.exclusive_node = true;
            node.placements = vec![placement];
            Backlog::running(&[node])
        };
        let hours: Vec<f64> = pool.jobs().iter().map(|job| running(job).hours(true)).collect();
        assert_eq!(hours, [0.0, 2.0]);
        assert!(pool.jobs().iter().all(|job| running(job) == Backlog::of([job])), "as while it waited");
    }

    #[test]
    fn a_pool_without_gpus_counts_node_hours_and_a_given_backlog_stands() {
        let text = r#"
            nodes = [{ id = "n", placements = [{ job = "x", walltime_ms = "4h" }] }]
            jobs = [{ id = "j", nodes = 2, gpu_count = 4, walltime_ms = "1h" }]"#;
        let pool = situation(text);
        assert_eq!(Pressure::of(&Pass::new(&pool)), Pressure { queued: 2.0, running: 4.0 });
        let given =
            situation(&format!("{text}\nbacklog = {{ queued_gpu_hours = 7, running_gpu_hours = 9 }}"));
        assert_eq!(Pressure::of(&Pass::new(&given)), Pressure { queued: 7.0, running: 9.0 });
    }

    #[test]
    fn utilisation_counts_nodes_in_service() {
        let pool = situation(
            r#"
            nodes = [
                { id = "a", placements = [{ job = "x", exclusive = true }] },
                { id = "b", state = "draining", cpu_milli = 8000, ram_mib = 100, gpus = [{ count = 4 }],
                  placements = [{ job = "y", cpu_milli = 2000, ram_mib = 10, gpus = [0, 1] }] },
                { id = "c" },
                { id = "d", state = "down", placements = [{ job = "z", exclusive = true }] },
                { id = "e", cpu_milli = 1000, ram_mib = 100,
                  placements = [{ job = "v", cpu_milli = 900 }, { job = "w", ram_mib = 90 }] },
            ]"#,
        );
        assert!((utilisation(pool.nodes()) - (1.0 + 0.5 + 0.0 + 1.8) / 4.0).abs() < 1e-12);
        assert_eq!(utilisation(&[]), 0.0);
    }

    #[test]
    fn groups_by_the_three_cases() {
        let count = |text: &str| groups(situation(text).nodes());
        assert_eq!(count(r#"nodes = [{ id = "n", count = 5 }]"#), 1, "no node has a group");
        let some = r#"nodes = [{ id = "a", count = 3, group = "g" }, { id = "b", group = "h" }, { id = "n", count = 2 }]"#;
        assert_eq!(count(some), 4, "nodes without a group are groups of their own");
        let mut nodes = situation(some).nodes().to_vec();
        for node in &mut nodes[3..5] {
            *node = Node::new(node.id.clone(), landfall_model::MilliCpu::ZERO, landfall_model::Mib::ZERO);
            (node.state, node.accepting) = (landfall_model::NodeState::Down, false);
        }
        assert_eq!(groups(&nodes), 2, "nodes that have left are in none");
        assert_eq!(count(""), 1);
    }

    #[test]
    fn a_class_sees_free_nodes_or_the_idle_picture() {
        let view = |nodes: u32| {
            let pool = situation(&format!(
                r#"
                nodes = [
                    {{ id = "a", count = 2, group = "a", fingerprint = "P" }},
                    {{ id = "b", count = 3, group = "b", fingerprint = "Q", placements = [{{ job = "x", exclusive = true }}] }},
                    {{ id = "c", count = 2, group = "c" }},
                    {{ id = "d", count = 9, group = "d", state = "down" }},
                ]
                jobs = [{{ id = "j", nodes = {nodes} }}]"#
            ));
            let policy = crate::builtin::policy("balanced").unwrap().unwrap();
            let (pass, devices) = (Pass::new(&pool), Default::default());
            let pair = crate::evaluate::Pair {
                pass: &pass,
                job: &pool.jobs()[0],
                node: &pool.nodes()[0],
                ranks_nodes: false,
            };
            SpecView::of(&pair.view(&policy.filters, &devices))
        };
        let seen = |nodes| {
            let view = view(nodes);
            (view.nodes_seen, view.as_if_idle, view.fewest_groups, view.largest_conformance)
        };
        assert_eq!(seen(2), (4, false, Some(1), 2));
        assert_eq!(seen(3), (4, false, Some(2), 2));
        assert_eq!(seen(5), (7, true, Some(2), 3));
        assert_eq!(seen(8), (7, true, None, 3));
        assert_eq!(view(2).mean_locality, 0.5);
    }
}
