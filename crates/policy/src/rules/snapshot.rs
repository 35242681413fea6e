//! What a batch queue sees of its pool: utilisation, groups, backlog, and the nodes a class of jobs could use.
//!
//! A pass holds the nodes and jobs of one pool, so "the pool" here is all nodes of the pass.

use std::collections::BTreeMap;

use landfall_model::{Job, Lifecycle, Millis, Name, Node, NodeState, Placement};

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
    #[must_use]
    pub fn of(jobs: &[Job]) -> Self {
        let mut all = Self::default();
        jobs.iter().for_each(|job| all.add(job));
        all
    }

    /// Adds up what runs on nodes: whole requests, not what is left of them.
    #[must_use]
    pub fn running(nodes: &[Node]) -> Self {
        let mut all = Self::default();
        for placement in nodes.iter().flat_map(|node| &node.placements) {
            let ms = u128::from(placement.walltime.unwrap_or(OPEN_ENDED).get());
            all.gpu_ms = all.gpu_ms.saturating_add(placement.devices.len() as u128 * ms);
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
    #[must_use]
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
    #[must_use]
    pub fn of(pass: &Pass<'_>) -> Self {
        if let Some((queued, running)) = pass.world.backlog {
            return Self { queued, running };
        }
        let of_gpus = pass.nodes().iter().any(|node| !node.gpus.is_empty());
        Self { queued: pass.backlog().hours(of_gpus), running: Backlog::running(pass.nodes()).hours(of_gpus) }
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

impl SpecView {
    /// Looks at all nodes once.
    #[must_use]
    pub fn of(view: &View<'_>) -> Self {
        let (spec, pass) = (view.spec, view.pass);
        let on = |node| View { node, ..*view };
        let eligible: Vec<&Node> = pass.nodes().iter().filter(|node| on(node).is_eligible()).collect();
        let free: Vec<&Node> = eligible.iter().copied().filter(|node| on(node).is_free()).collect();
        let asked = u64::from(spec.nodes.min);
        let as_if_idle = (free.len() as u64) < asked;
        let seen = if as_if_idle { eligible } else { free };
        let picture = if as_if_idle { Picture::Idle } else { Picture::Now };
        let sum: f64 =
            seen.iter().map(|node| locality(spec, node, picture).unwrap_or(locality::UNKNOWN)).sum();
        Self {
            nodes_asked: asked,
            nodes_seen: seen.len() as u64,
            as_if_idle,
            fewest_groups: fewest_groups(&seen, asked, has_groups(pass.nodes())),
            mean_locality: if seen.is_empty() { locality::UNKNOWN } else { sum / seen.len() as f64 },
            largest_conformance: largest_conformance(&seen),
        }
    }
}

/// Occupied node units over node units of nodes in service; 0 if none is.
#[must_use]
pub fn utilisation(nodes: &[Node]) -> f64 {
    let in_service =
        || nodes.iter().filter(|node| matches!(node.state, NodeState::Ready | NodeState::Draining));
    let count = in_service().count();
    if count == 0 {
        return 0.0;
    }
    // Shared placements may together claim more than one unit, each by another resource; a node is full at one.
    let occupied =
        |node: &Node| node.placements.iter().fold(0.0, |sum, p| sum + node_units(p, node)).min(1.0);
    in_service().fold(0.0, |sum, node| sum + occupied(node)) / count as f64
}

/// What a placement uses of a node: all of it if exclusive, otherwise its largest part of GPUs, CPU and memory.
#[must_use]
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

/// Number of topology groups: one if no node has a group, otherwise each node without one is a group of its own.
#[must_use]
pub fn groups(nodes: &[Node]) -> u64 {
    let all: Vec<&Node> = nodes.iter().collect();
    (group_sizes(&all, has_groups(nodes)).len() as u64).max(1)
}

fn has_groups(nodes: &[Node]) -> bool {
    nodes.iter().any(|node| node.group.is_some())
}

/// Nodes per group, in no order that matters. `grouped` says whether the pool has groups at all.
fn group_sizes(nodes: &[&Node], grouped: bool) -> Vec<u64> {
    if !grouped {
        return if nodes.is_empty() { Vec::new() } else { vec![nodes.len() as u64] };
    }
    let alone = nodes.iter().filter(|node| node.group.is_none()).map(|_| 1);
    let mut named: BTreeMap<&Name, u64> = BTreeMap::new();
    for group in nodes.iter().filter_map(|node| node.group.as_ref()) {
        *named.entry(group).or_default() += 1;
    }
    named.into_values().chain(alone).collect()
}

/// Fewest groups that together have so many nodes: the largest ones first.
fn fewest_groups(nodes: &[&Node], asked: u64, grouped: bool) -> Option<u64> {
    let mut sizes = group_sizes(nodes, grouped);
    sizes.sort_unstable_by_key(|&size| std::cmp::Reverse(size));
    let mut held = 0;
    let enough = sizes.iter().position(|size| {
        held += size;
        held >= asked
    });
    enough.map(|at| at as u64 + 1)
}

/// Size of the largest set of nodes with one fingerprint; a node with an unknown one is alone.
fn largest_conformance(nodes: &[&Node]) -> u64 {
    let mut alike: BTreeMap<&Name, u64> = BTreeMap::new();
    for fingerprint in nodes.iter().filter_map(|node| node.fingerprint.as_ref()) {
        *alike.entry(fingerprint).or_default() += 1;
    }
    alike.into_values().max().unwrap_or(0).max(u64::from(!nodes.is_empty()))
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
        assert!((utilisation(pool.nodes()) - (1.0 + 0.5 + 0.0 + 1.0) / 4.0).abs() < 1e-12);
        assert_eq!(utilisation(&[]), 0.0);
    }

    #[test]
    fn groups_by_the_three_cases() {
        let count = |text: &str| groups(situation(text).nodes());
        assert_eq!(count(r#"nodes = [{ id = "n", count = 5 }]"#), 1, "no node has a group");
        let some = r#"nodes = [{ id = "a", count = 3, group = "g" }, { id = "b", group = "h" }, { id = "n", count = 2 }]"#;
        assert_eq!(count(some), 4, "nodes without a group are groups of their own");
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
