//! Which nodes are alike, so that a class of jobs that is new judges one of each likeness.
//!
//! Groups are brought up to date only when a class is new. All nodes that changed since leave their groups before the first of
//! them is compared with others, so the first member of a group always is as it was when the others joined it. Where hardly
//! any two nodes are alike this costs more than it saves, so it rests for a while then.

use std::collections::BTreeMap;

use landfall_model::{Gpu, Node};
use smallvec::SmallVec;

/// New classes that are judged node by node before nodes are compared again.
const REST: u32 = 64;

#[derive(Debug, Default)]
pub(super) struct Alike {
    /// The group of each node and its place there; nothing until nodes were compared.
    of: Vec<Option<(u32, u32)>>,
    /// Members by group; an empty group may be used again.
    groups: Vec<Vec<u32>>,
    unused: Vec<u32>,
    /// Groups by what is quickly read of their members.
    by_mark: BTreeMap<u64, SmallVec<[u32; 1]>>,
    marks: Vec<u64>,
    /// Whether what each job holds was compared too.
    closely: bool,
    /// New classes for which it still rests.
    rests: u32,
}

impl Alike {
    /// Whether comparing nodes for another class is likely to pay.
    pub(super) fn is_worth_it(&mut self) -> bool {
        self.rests = self.rests.saturating_sub(1);
        self.rests == 0
    }

    /// Knows of no nodes that are alike.
    pub(super) fn forget(&mut self) {
        *self = Self { rests: self.rests, ..Self::default() };
    }

    /// Takes in that nodes changed; `None` if anything may have.
    pub(super) fn update(&mut self, nodes: &[Node], changed: Option<&[u32]>, closely: bool) {
        let all: Vec<u32>;
        let changed = match changed.filter(|_| self.of.len() == nodes.len() && self.closely == closely) {
            Some(changed) => changed,
            None => {
                *self = Self { of: vec![None; nodes.len()], closely, ..Self::default() };
                all = (0..nodes.len() as u32).collect();
                &all
            }
        };
        changed.iter().for_each(|slot| self.leave(*slot));
        changed.iter().for_each(|slot| self.join(*slot, nodes, closely));
        let groups = self.groups.len() - self.unused.len();
        if groups * 4 > nodes.len() * 3 {
            *self = Self { rests: REST, ..Self::default() };
        }
    }

    /// How many groups there may be, and the group of each node, if nodes were compared.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    pub(super) fn group(&self, slot: u32) -> Option<usize> {
        self.of.get(slot as usize).copied().flatten().map(|(group, _)| group as usize)
    }

    fn leave(&mut self, slot: u32) {
        let Some((group, place)) = self.of[slot as usize].take() else { return };
        let members = &mut self.groups[group as usize];
        members.swap_remove(place as usize);
        if let Some(moved) = members.get(place as usize) {
            self.of[*moved as usize] = Some((group, place));
        }
        if members.is_empty() {
            let mark = self.marks[group as usize];
            if let Some(of_mark) = self.by_mark.get_mut(&mark) {
                of_mark.retain(|other| *other != group);
                if of_mark.is_empty() {
                    self.by_mark.remove(&mark);
                }
            }
            self.unused.push(group);
        }
    }

    fn join(&mut self, slot: u32, nodes: &[Node], closely: bool) {
        let node = &nodes[slot as usize];
        if self.of[slot as usize].is_some() {
            return;
        }
        let mark = mark(node);
        let of_mark = self.by_mark.entry(mark).or_default();
        let is_like = |group: &u32| {
            self.groups[*group as usize]
                .first()
                .is_some_and(|first| nodes[*first as usize].is_like(node, closely))
        };
        let group = of_mark.iter().copied().find(is_like).unwrap_or_else(|| {
            let group = self.unused.pop().unwrap_or_else(|| {
                self.groups.push(Vec::new());
                self.marks.push(0);
                self.groups.len() as u32 - 1
            });
            self.marks[group as usize] = mark;
            of_mark.push(group);
            group
        });
        let members = &mut self.groups[group as usize];
        self.of[slot as usize] = Some((group, members.len() as u32));
        members.push(slot);
    }
}

/// A number that nodes which are alike share, and others rarely.
fn mark(node: &Node) -> u64 {
    let mut mark = 0u64;
    let mut add = |word: u64| mark = (mark.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    add(node.cpu_total.get());
    add(node.cpu_committed.get());
    add(node.ram_total.get());
    add(node.ram_committed.get());
    add(node.placements.len() as u64);
    add(node.heartbeat_at.map_or(0, |at| at.as_millis() as u64));
    for gpu in &node.gpus {
        let Gpu { milli_committed, vram_committed, vram_reported, .. } = gpu;
        add(milli_committed.get() ^ vram_committed.get() << 16 ^ vram_reported.get() << 40);
    }
    mark
}

#[cfg(test)]
mod tests {
    use landfall_model::{JobId, JobSpec, Mib, MilliCpu, NodeId, Placement};

    use super::*;

    #[test]
    fn groups_are_those_that_comparing_all_pairs_gives() {
        let mut state = 7u64;
        let mut draw = |most: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % most
        };
        let node = |id: usize| {
            let id = NodeId::new(&format!("n{id}")).unwrap();
            Node::new(id, MilliCpu::cores(8), Mib::gib(16))
        };
        let mut nodes: Vec<Node> = (0..30).map(node).collect();
        let spec = |cores: usize| JobSpec { cpu_milli: MilliCpu::cores(cores as u64), ..JobSpec::empty() };
        for closely in [false, true] {
            let mut alike = Alike::default();
            alike.update(&nodes, None, closely);
            for round in 0..300 {
                let changed: Vec<u32> = (0..draw(6)).map(|_| draw(nodes.len()) as u32).collect();
                for slot in &changed {
                    let node = &mut nodes[*slot as usize];
                    match node.placements.first().map(|placement| placement.job.clone()) {
                        Some(job) if draw(2) == 0 => drop(node.remove(&job)),
                        _ => {
                            let job = JobId::new(&format!("j{round}")).unwrap();
                            let _ = node.place(Placement::of(job, &spec(1 + draw(2)), &[]));
                        }
                    }
                }
                alike.update(&nodes, Some(&changed), closely);
                let known = alike.groups() > 0;
                for (a, b) in (0..30).flat_map(|a| (0..30).map(move |b| (a, b))).filter(|_| known) {
                    let together = alike.group(a) == alike.group(b);
                    assert_eq!(together, nodes[a as usize].is_like(&nodes[b as usize], closely), "{a} {b}");
                }
                if !known {
                    alike.rests = 0;
                    alike.update(&nodes, None, closely);
                }
            }
        }
    }

    #[test]
    fn where_no_two_nodes_are_alike_nothing_is_compared_for_a_while() {
        let node = |cores| {
            Node::new(NodeId::new(&format!("n{cores}")).unwrap(), MilliCpu::cores(cores), Mib::gib(1))
        };
        let nodes: Vec<Node> = (1..20).map(node).collect();
        let mut alike = Alike::default();
        assert!(alike.is_worth_it());
        alike.update(&nodes, None, false);
        assert_eq!((alike.groups(), alike.group(3)), (0, None));
        assert_eq!((0..REST).filter(|_| alike.is_worth_it()).count(), 1, "once they have rested");
    }
}
