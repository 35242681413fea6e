//! How many GPUs of each model a pool has, on which nodes, and how much that makes each class of the expected mix weigh.
//!
//! A class that accepts few of the pool's GPUs can go nowhere else, so each of those GPUs matters more to it. Only what
//! nodes are made of counts here, never what runs on them: the weights stay as they are while jobs come and go.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_model::{MixShare, Name, Node};
use smallvec::SmallVec;

use super::room::power;

/// What the classes of a mix weigh, in its order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Weights {
    /// In the room of a node; they sum to 1, or are all 0.
    pub(crate) room: Arc<[f64]>,
    /// What a place for one job is worth beside that, in milli-GPU.
    pub(crate) spare: Arc<[f64]>,
}

/// What a place for a job that fits nowhere else is worth, of the GPUs it asks for.
const SPARED: f64 = 0.3;
/// From which part of these GPUs on they are wanted enough to be spared; below, others would be kept away for nobody.
const WANTED_MIN: f64 = 0.135;
/// How fast that falls with the part of the GPUs on which the class fits.
const NARROW: u32 = 8;

/// What a node is made of: cores, and how many GPUs of which model.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    cpu_milli: u64,
    gpus: SmallVec<[(Option<Name>, u64); 1]>,
}

impl Shape {
    fn of(node: &Node) -> Self {
        let mut shape = Self { cpu_milli: node.cpu_total.get(), gpus: SmallVec::new() };
        for gpu in &node.gpus {
            let name = gpu.model.as_ref().map(|model| &model.name);
            match shape.gpus.iter_mut().find(|(known, _)| known.as_ref() == name) {
                Some((_, count)) => *count += 1,
                None => shape.gpus.push((name.cloned(), 1)),
            }
        }
        shape
    }

    /// GPUs of the models that a class accepts.
    fn accepted(&self, class: &MixShare) -> u64 {
        let accepts = |model: &Option<Name>| {
            class.gpu_models.is_empty() || model.as_ref().is_some_and(|name| class.gpu_models.contains(name))
        };
        self.gpus.iter().filter(|(model, _)| accepts(model)).map(|(_, count)| count).sum()
    }

    /// Whether an empty node of the shape could run a job of the class.
    fn holds(&self, class: &MixShare) -> bool {
        self.cpu_milli >= class.cpu_milli.get() && self.accepted(class) >= u64::from(class.gpu_count)
    }
}

/// What the nodes of a pool are made of, kept up to date node by node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Supply {
    of_nodes: Vec<Shape>,
    /// How many nodes there are of each shape.
    shapes: BTreeMap<Shape, u64>,
}

impl Supply {
    pub(crate) fn of(nodes: &[Node]) -> Self {
        let mut supply = Self { of_nodes: nodes.iter().map(Shape::of).collect(), shapes: BTreeMap::new() };
        for shape in &supply.of_nodes {
            *supply.shapes.entry(shape.clone()).or_default() += 1;
        }
        supply
    }

    /// Counts one node anew and says whether that changed anything.
    pub(crate) fn renew(&mut self, slot: usize, node: &Node) -> bool {
        let new = Shape::of(node);
        if self.of_nodes[slot] == new {
            return false;
        }
        *self.shapes.entry(new.clone()).or_default() += 1;
        let old = std::mem::replace(&mut self.of_nodes[slot], new);
        if let Some(known) = self.shapes.get_mut(&old) {
            *known -= 1;
        }
        self.shapes.retain(|_, count| *count > 0);
        true
    }

    /// Number of nodes counted.
    pub(crate) fn nodes(&self) -> usize {
        self.of_nodes.len()
    }

    /// GPUs of shapes that count, as far as a class accepts them.
    fn gpus(&self, class: &MixShare, counts: impl Fn(&Shape) -> bool) -> f64 {
        let of = |(shape, nodes): (&Shape, &u64)| shape.accepted(class) * nodes;
        self.shapes.iter().filter(|(shape, _)| counts(shape)).map(of).sum::<u64>() as f64
    }

    fn all_gpus(&self) -> f64 {
        let of =
            |(shape, nodes): (&Shape, &u64)| shape.gpus.iter().map(|(_, gpus)| gpus).sum::<u64>() * nodes;
        self.shapes.iter().map(of).sum::<u64>() as f64
    }

    /// What each class of the mix weighs.
    ///
    /// *In the room of a node*: its share, over the part of the pool's GPUs whose models it accepts.
    ///
    /// *A place for it.* Let A be the nodes that could run a class when they are empty, and g(A) their GPUs of models it accepts.
    /// Classes that fit within A and nowhere else ask for d GPUs of a pool that is filled with the mix. A job that takes a place in A
    /// and could have gone elsewhere costs such a class its place with a chance that grows with d / g(A). The places are
    /// worth sparing if A is a small part of all: otherwise others cannot keep away from it. So a place is worth
    /// SPARED · (GPUs of the job) · min(d / g(A), 1)² · (1 − g(A) / g(all))^NARROW, and nothing if d / g(A) is below WANTED_MIN.
    pub(crate) fn weights(&self, mix: &[MixShare]) -> Weights {
        let raw: Vec<f64> = mix.iter().map(|class| self.raw_weight(class)).collect();
        let sum: f64 = raw.iter().sum();
        let room = raw.iter().map(|weight| if sum > 0.0 { weight / sum } else { 0.0 }).collect();
        Weights { room, spare: self.spare(mix) }
    }

    fn raw_weight(&self, class: &MixShare) -> f64 {
        if class.rare || asked(class) == 0.0 {
            return 0.0;
        }
        if class.gpu_models.is_empty() {
            return class.share;
        }
        let any = self.all_gpus();
        let accepted = self.gpus(class, |_| true);
        if accepted == 0.0 { 0.0 } else { class.share * any / accepted }
    }

    fn spare(&self, mix: &[MixShare]) -> Arc<[f64]> {
        let any = self.all_gpus();
        let volume: f64 = mix.iter().map(|class| class.share * asked(class)).sum();
        let spare = |class: &MixShare| {
            let (held, all) = (self.gpus(class, |shape| shape.holds(class)), self.gpus(class, |_| true));
            if held == 0.0 || asked(class) == 0.0 {
                return 0.0;
            }
            let narrow = power(1.0 - held / all, NARROW);
            if narrow < 0.01 {
                return 0.0;
            }
            let within = |other: &&MixShare| {
                let mut holding = self.shapes.keys().filter(|shape| shape.holds(other)).peekable();
                holding.peek().is_some() && holding.all(|shape| shape.holds(class))
            };
            let captive: f64 = mix.iter().filter(within).map(|other| other.share * asked(other)).sum();
            let wanted = (captive / volume * any / held).min(1.0);
            if wanted < WANTED_MIN {
                return 0.0;
            }
            SPARED * 1000.0 * asked(class) * wanted * wanted * narrow
        };
        mix.iter().map(spare).collect()
    }
}

/// GPUs that a job of the class asks for.
fn asked(class: &MixShare) -> f64 {
    f64::from(class.gpu_count) * class.gpu_milli.get() as f64 / 1000.0
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
        assert_eq!(weights.room.as_ref(), [0.6 / sum, 0.8 / sum, 0.0, 0.0]);
        assert_eq!(weights.spare.as_ref(), [0.0; 4], "every class fits wherever it has its model");
    }

    #[test]
    fn a_place_is_worth_more_the_fewer_there_are_for_those_who_need_it() {
        let at = |rare: f64| {
            let mix = format!(
                "[[mix]]\nshare=1\ngpu_count=1\n\
                 [[mix]]\nshare={rare}\nrare=true\ngpu_count=8\ncpu_milli='120 cores'\n"
            );
            let big = "[[nodes]]\nid='big'\ncpu_milli='128 cores'\ngpus=[{count=8}]\n".to_owned();
            let nodes = (0..19).fold(big, |nodes, n| {
                format!("{nodes}[[nodes]]\nid='a{n}'\ncpu_milli='96 cores'\ngpus=[{{count=8}}]\n")
            });
            let at = parse(&format!("{nodes}{mix}"), Format::Toml).unwrap();
            Supply::of(at.nodes()).weights(&at.world.mix)
        };
        let narrow = 0.95f64.powi(8);
        // Of 160 GPUs a twenty-fifth is asked for by jobs that fit on the 8 of one node alone: 6.15 of them, or all.
        let (some, many) = (at(0.005), at(0.1));
        assert_eq!(some.room.as_ref(), [1.0, 0.0], "what is rare is no part of the mix");
        let wanted = 0.04 / 1.04 * 160.0 / 8.0;
        assert!((some.spare[1] - 300.0 * 8.0 * wanted * wanted * narrow).abs() < 1e-6, "{some:?}");
        assert!((many.spare[1] - 300.0 * 8.0 * narrow).abs() < 1e-6, "{many:?}");
        assert_eq!((some.spare[0], many.spare[0]), (0.0, 0.0));
    }

    #[test]
    fn without_gpus_every_class_that_names_models_weighs_nothing() {
        let at = situation("[[nodes]]\nid='a'\n");
        assert_eq!(Supply::of(at.nodes()).weights(&at.world.mix).room.as_ref(), [1.0, 0.0, 0.0, 0.0]);
        assert!(Supply::of(&[]).weights(&[]).room.is_empty());
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
