//! How many GPUs of each model a pool has, and how much that makes each class of the expected mix weigh.
//!
//! A class that accepts few of the pool's GPUs can go nowhere else, so each of those GPUs matters more to it. Only what
//! nodes are made of counts here, never what runs on them: the weights stay as they are while jobs come and go.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_model::{MixShare, Name, Node};
use smallvec::SmallVec;

/// Weight of each class of a mix, in its order; they sum to 1, or are all 0.
pub(crate) type Weights = Arc<[f64]>;

/// GPUs of one node: how many of which model.
type Part = SmallVec<[(Option<Name>, u64); 1]>;

/// GPUs of a pool by model, kept up to date node by node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Supply {
    parts: Vec<Part>,
    by_model: BTreeMap<Option<Name>, u64>,
}

impl Supply {
    pub(crate) fn of(nodes: &[Node]) -> Self {
        let mut supply = Self { parts: nodes.iter().map(part).collect(), by_model: BTreeMap::new() };
        for (model, count) in supply.parts.iter().flatten() {
            *supply.by_model.entry(model.clone()).or_default() += count;
        }
        supply
    }

    /// Counts one node anew and says whether that changed anything.
    pub(crate) fn renew(&mut self, slot: usize, node: &Node) -> bool {
        let new = part(node);
        if self.parts[slot] == new {
            return false;
        }
        for (model, count) in &new {
            *self.by_model.entry(model.clone()).or_default() += count;
        }
        for (model, count) in std::mem::replace(&mut self.parts[slot], new) {
            if let Some(known) = self.by_model.get_mut(&model) {
                *known -= count;
            }
        }
        true
    }

    /// Number of nodes counted.
    pub(crate) fn nodes(&self) -> usize {
        self.parts.len()
    }

    /// What each class of the mix weighs: its share over the part of the pool's GPUs that it accepts.
    pub(crate) fn weights(&self, mix: &[MixShare]) -> Weights {
        let all: u64 = self.by_model.values().sum();
        let raw: Vec<f64> = mix.iter().map(|class| self.raw_weight(class, all)).collect();
        let sum: f64 = raw.iter().sum();
        raw.iter().map(|weight| if sum > 0.0 { weight / sum } else { 0.0 }).collect()
    }

    fn raw_weight(&self, class: &MixShare, all: u64) -> f64 {
        if class.gpu_count == 0 || class.gpu_milli.get() == 0 {
            return 0.0;
        }
        if class.gpu_models.is_empty() {
            return class.share;
        }
        let accepts =
            |model: &Option<Name>| model.as_ref().is_some_and(|name| class.gpu_models.contains(name));
        let accepted: u64 =
            self.by_model.iter().filter(|(model, _)| accepts(model)).map(|(_, count)| count).sum();
        if accepted == 0 { 0.0 } else { class.share * all as f64 / accepted as f64 }
    }
}

fn part(node: &Node) -> Part {
    let mut part = Part::new();
    for gpu in &node.gpus {
        let name = gpu.model.as_ref().map(|model| &model.name);
        match part.iter_mut().find(|(known, _)| known.as_ref() == name) {
            Some((_, count)) => *count += 1,
            None => part.push((name.cloned(), 1)),
        }
    }
    part
}

#[cfg(test)]
mod tests {
    use landfall_model::Situation;
    use landfall_model::scenario::{Format, parse};

    use super::Supply;

    fn situation(nodes: &str) -> Situation {
        let mix = "[[mix]]\nshare=0.6\ngpu_count=1\n[[mix]]\nshare=0.2\ngpu_count=1\ngpu_models=['T4']\n\
            [[mix]]\nshare=0.1\ngpu_count=1\ngpu_models=['P100']\n[[mix]]\nshare=0.1\n";
        parse(&format!("{nodes}{mix}"), Format::Toml).unwrap()
    }

    const NODES: &str =
        "[[nodes]]\nid='a'\ngpus=[{count=6,model='V100'}]\n[[nodes]]\nid='b'\ngpus=[{count=2,model='T4'}]\n";

    #[test]
    fn a_class_weighs_more_the_fewer_gpus_it_accepts() {
        let at = situation(NODES);
        // 0.6, and 0.2 over a quarter of the GPUs; nobody has a P100, and a job without GPU asks for none.
        let weights = Supply::of(at.nodes()).weights(&at.world.mix);
        let sum = 0.6 + 0.8;
        assert_eq!(weights.as_ref(), [0.6 / sum, 0.8 / sum, 0.0, 0.0]);
    }

    #[test]
    fn without_gpus_every_class_that_names_models_weighs_nothing() {
        let at = situation("[[nodes]]\nid='a'\n");
        assert_eq!(Supply::of(at.nodes()).weights(&at.world.mix).as_ref(), [1.0, 0.0, 0.0, 0.0]);
        assert!(Supply::of(&[]).weights(&[]).is_empty());
    }

    #[test]
    fn a_node_counted_anew_leaves_what_counting_all_would() {
        let (before, after) =
            (situation(NODES), situation(&NODES.replace("count=2,model='T4'", "count=3,model='P100'")));
        let mut supply = Supply::of(before.nodes());
        assert!(!supply.renew(0, &after.nodes()[0]));
        assert!(supply.renew(1, &after.nodes()[1]));
        let afresh = Supply::of(after.nodes());
        assert_eq!(supply.weights(&after.world.mix), afresh.weights(&after.world.mix));
        assert_eq!(supply.nodes(), 2);
    }
}
