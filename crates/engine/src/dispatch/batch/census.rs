//! What the nodes of a pool add up to for the scores of its queue, counted by kind.
//!
//! Scores look at how many suitable nodes are free and how they lie together. Counting nodes anew for every class of jobs
//! would cost as much as there are nodes, in every cycle; here a node is looked at again when something on it changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use landfall_model::{Job, JobSpec, Node};
use landfall_policy::Policy;
use landfall_policy::filter::About;
use landfall_policy::rules::snapshot::{Alike, Backlog, Pressure, Sight, is_empty};
use landfall_policy::view::Pass;

use crate::solver::Fleet;

/// One node as it was last looked at.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    kind: usize,
    empty: bool,
    /// Neither empty nor one job's own: jobs that share nodes look at it by itself.
    open: bool,
    running: Backlog,
}

/// The nodes of one pool, counted.
#[derive(Debug, Default)]
pub(super) struct Census {
    nodes: Vec<Counted>,
    changed: Vec<usize>,
    /// Empty and open nodes of each kind.
    empty: Vec<u64>,
    open: BTreeSet<usize>,
    running: Backlog,
    of_gpus: bool,
    /// How each kind looks to jobs of a class, by the place of their spec in memory, which the spec kept beside it keeps
    /// taken.
    sights: BTreeMap<usize, (Arc<JobSpec>, Vec<Sight>)>,
}

impl Census {
    pub(super) fn new(fleet: &Fleet, nodes: &[Node]) -> Self {
        let kind_of = |node: &Node| fleet.slot(&node.id).and_then(|slot| fleet.kind_at(slot));
        let mut census = Self {
            nodes: nodes
                .iter()
                .map(|node| Counted { kind: kind_of(node).unwrap_or(0), ..Counted::default() })
                .collect(),
            changed: (0..nodes.len()).collect(),
            empty: vec![0; fleet.kind_count()],
            of_gpus: nodes.iter().any(|node| !node.gpus.is_empty()),
            ..Self::default()
        };
        census.refresh(nodes);
        census
    }

    /// Something on a node changed.
    pub(super) fn touch(&mut self, node: usize) {
        self.changed.push(node);
    }

    /// Looks at the nodes that changed.
    pub(super) fn refresh(&mut self, nodes: &[Node]) {
        for at in std::mem::take(&mut self.changed) {
            let (Some(old), Some(node)) = (self.nodes.get(at).copied(), nodes.get(at)) else { continue };
            let empty = is_empty(node);
            let open = !empty && !node.placements.iter().any(|placement| placement.exclusive_node);
            let new = Counted { empty, open, running: Backlog::on_node(node), ..old };
            self.empty[new.kind] = self.empty[new.kind] + u64::from(new.empty) - u64::from(old.empty);
            if new.open {
                self.open.insert(at);
            } else {
                self.open.remove(&at);
            }
            self.running.gpu_ms = self.running.gpu_ms - old.running.gpu_ms + new.running.gpu_ms;
            self.running.node_ms = self.running.node_ms - old.running.node_ms + new.running.node_ms;
            self.nodes[at] = new;
        }
    }

    /// Tells a pass over the same nodes what they add up to, for jobs like the given ones.
    pub(super) fn tell<'j>(
        &mut self,
        pass: &Pass<'_>,
        policy: &Policy,
        fleet: &Fleet,
        jobs: impl Iterator<Item = &'j Job> + Clone,
    ) {
        if !policy.reads().fleet {
            return;
        }
        pass.know_totals(
            u64::from(fleet.home_groups()),
            Pressure::between(pass, &self.running, self.of_gpus),
        );
        // A filter that looks at the moment may see something else on every node, in every cycle.
        if policy.looks_at() == About::Moment {
            return;
        }
        let specs: BTreeSet<usize> = jobs.clone().map(|job| Arc::as_ptr(&job.spec) as usize).collect();
        self.sights.retain(|place, _| specs.contains(place));
        for job in jobs {
            let alike = self.alike(pass, policy, fleet, job);
            pass.know_alike(policy, job, &alike);
        }
    }

    fn alike(&mut self, pass: &Pass<'_>, policy: &Policy, fleet: &Fleet, job: &Job) -> Vec<Alike> {
        let place = Arc::as_ptr(&job.spec) as usize;
        let sight = |kind: usize| policy.sight(pass, job, fleet.standing_for(kind));
        let (_, sights) = self
            .sights
            .entry(place)
            .or_insert_with(|| (Arc::clone(&job.spec), (0..fleet.kind_count()).map(sight).collect()));
        let mut apart = vec![0; fleet.kind_count()];
        let mut alike: Vec<Alike> = Vec::with_capacity(fleet.kind_count());
        for &at in self.open.iter().filter(|_| !job.spec.exclusive) {
            let kind = self.nodes[at].kind;
            apart[kind] += 1;
            let (group, fingerprint, _) = fleet.counts(kind);
            let sight = policy.sight(pass, job, &pass.nodes()[at]);
            alike.push(Alike { sight, all: 1, empty: 1, group, fingerprint });
        }
        for (kind, seen) in sights.iter().enumerate().filter(|&(kind, _)| fleet.is_own(kind)) {
            let (group, fingerprint, all) = fleet.counts(kind);
            // What is there for a while only may no longer do.
            let sight = if fleet.is_timed(kind) { sight(kind) } else { *seen };
            alike.push(Alike { sight, all: all - apart[kind], empty: self.empty[kind], group, fingerprint });
        }
        alike
    }
}
