//! The nodes a pool can plan with, sorted into kinds.
//!
//! Planning by node would cost as much as there are nodes, for every job and every instant. Nodes that are alike in all
//! that filters and the choice of sets look at are one *kind*, and time is planned in counts of each kind. A fleet is
//! made when nodes come, go or change, not when work starts or ends, so one fleet serves many cycles.
//!
//! How fine kinds are depends on the policy ([`About`]). The usual filters look at what nodes are made of. Where one looks
//! at what else a node was registered with, that tells kinds apart too; where one looks at the moment, every node is a
//! kind of its own. A kind's filters see a node that has only what tells its kind apart, so they cannot judge two nodes
//! of a kind differently.
//!
//! A [`Slot`] is a node's place in the fleet. Slots are in the order of node ids, so comparing slots compares ids.

use std::collections::BTreeMap;

use landfall_model::{BlockStatus, Gpu, Name, Node, NodeId, NodeState, PoolId, Slices, Time};
use landfall_policy::filter::About;
use serde::{Deserialize, Serialize};

/// A node's place in a fleet; in the order of node ids.
pub type Slot = u32;

/// Names a kind of nodes; the same for the same kind in every cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KindKey(pub u64);

/// Nodes that are alike.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    pub(super) key: KindKey,
    /// All that they have in common, and nothing else.
    pub(super) node: Node,
    /// Whether they are at home in the pool.
    pub(super) own: bool,
    /// Their group, as a place in the sorted list of groups.
    pub(super) group: u32,
    /// Their fingerprint, as a place in the sorted list of fingerprints.
    pub(super) fingerprint: Option<u32>,
    /// They take work from this instant on.
    pub(super) from: Option<Time>,
    /// They take no work beyond this instant.
    pub(super) until: Option<Time>,
    /// Their nodes in the order of ids.
    pub(super) members: Vec<Slot>,
}

impl Kind {
    /// Whether they take work at all.
    pub(super) fn in_service(&self) -> bool {
        let leased = self.node.block.as_ref().is_none_or(|block| block.status == BlockStatus::Active);
        leased && self.node.is_open() && matches!(self.node.state, NodeState::Ready | NodeState::Degraded)
    }

    /// Whether the pool plans with their time; those of others it has only while they are idle.
    pub(super) fn is_planned(&self) -> bool {
        self.own && self.in_service()
    }

    /// Watts one of them draws for a job beyond what it draws when idle; `None` if nothing is known.
    pub(super) fn extra_power(&self, power_w: Option<u64>) -> Option<u64> {
        crate::ledger::known_extra_power(power_w, &self.node)
    }
}

/// The nodes a pool can plan with: its own, and those of pools that may lend.
#[derive(Debug, Clone)]
pub struct Fleet {
    nodes: Vec<NodeId>,
    homes: Vec<Option<PoolId>>,
    /// Kind of each slot, and its place among the members of that kind.
    kind_of: Vec<(u32, u32)>,
    pub(super) kinds: Vec<Kind>,
    by_key: BTreeMap<KindKey, usize>,
    /// Number of groups of the pool's own nodes.
    pub(super) home_groups: u32,
    /// Number of fingerprints in all.
    pub(super) fingerprints: u32,
}

/// Index, model, memory, link group, and whether it is partitioned.
type DeviceTraits = (u16, Option<Name>, Option<u64>, Option<u16>, bool);

/// All that tells kinds apart, in a form that can be sorted and hashed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Traits {
    home: Option<PoolId>,
    group: String,
    fingerprint: Option<Name>,
    drifted: bool,
    /// And whether owner and operator let it take work.
    state: (NodeState, bool),
    amounts: (u64, u64, bool),
    power: Option<(u64, u64)>,
    maintenance: Option<Time>,
    block: Option<(landfall_model::BlockId, bool, Option<Time>, Option<Time>)>,
    features: Vec<(Name, u32)>,
    devices: Vec<DeviceTraits>,
    links: Vec<u32>,
    domains: Vec<(u32, u32)>,
}

impl Traits {
    fn of(node: &Node, group: String) -> Self {
        let devices = node.gpus.iter().map(|gpu| {
            let model = gpu.model.as_ref().map(|model| model.name.clone());
            (gpu.index, model, gpu.vram.map(|vram| vram.get()), gpu.link_group, gpu.slices.is_some())
        });
        let mut links = Vec::new();
        if let Some(known) = node.links.as_ref().filter(|links| !links.is_empty()) {
            for (place, a) in node.gpus.iter().enumerate() {
                links.extend(node.gpus[place + 1..].iter().map(|b| known.between(a.index, b.index)));
            }
        }
        Self {
            home: node.pool.clone(),
            group,
            fingerprint: node.fingerprint.clone(),
            drifted: node.drifted,
            state: (node.state, node.is_open()),
            amounts: (node.cpu_total.get(), node.ram_total.get(), node.unified_memory),
            power: node.power.map(|power| (power.idle_w, power.busy_w)),
            maintenance: node.maintenance_at,
            block: node.block.as_ref().map(|block| {
                (block.id.clone(), block.status == BlockStatus::Active, block.start_at, block.ends_at())
            }),
            features: node.features.iter().map(|(name, count)| (name.clone(), *count)).collect(),
            devices: devices.collect(),
            links,
            domains: node.memory_domains.iter().map(|domain| (domain.cpus, domain.gpus)).collect(),
        }
    }

    fn key(&self, closer: &str) -> KindKey {
        let hash = blake3::hash(format!("{self:?}{closer}").as_bytes());
        KindKey(hash.as_bytes().iter().take(8).fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }
}

/// A node with nothing but what tells its kind apart.
fn bare(node: &Node, looks_at: About) -> Node {
    let nobody = NodeId::new("-").unwrap_or_else(|_| unreachable!("a literal id is valid"));
    let mut bare = Node::new(nobody, node.cpu_total, node.ram_total);
    bare.pool = node.pool.clone();
    bare.group = node.group.clone();
    bare.fingerprint = node.fingerprint.clone();
    bare.drifted = node.drifted;
    (bare.state, bare.accepting, bare.approval) = (node.state, node.accepting, node.approval);
    bare.unified_memory = node.unified_memory;
    bare.power = node.power;
    bare.maintenance_at = node.maintenance_at;
    bare.block = node.block.clone();
    bare.features = node.features.clone();
    bare.links = node.links.clone();
    bare.memory_domains = node.memory_domains.clone();
    let gpus = node.gpus.iter().map(|gpu| {
        let mut bare = Gpu::new(gpu.index, gpu.model.clone(), gpu.vram);
        bare.link_group = gpu.link_group;
        bare.slices = gpu.slices.as_ref().map(|_| Box::new(Slices::default()));
        bare
    });
    bare.gpus = gpus.collect();
    if looks_at >= About::Registration {
        bare.region = node.region.clone();
        bare.platform = node.platform;
        bare.runtimes = node.runtimes.clone();
        bare.capabilities = node.capabilities.clone();
        bare.tenants = node.tenants.clone();
        bare.max_concurrent = node.max_concurrent;
    }
    bare
}

impl Fleet {
    /// Sorts nodes into kinds, as finely as the pool's filters look at them. Those whose home is `pool` are its own; the
    /// others may be lent to it.
    pub fn new<'a>(
        pool: Option<&PoolId>,
        looks_at: About,
        nodes: impl IntoIterator<Item = &'a Node>,
    ) -> Self {
        let mut nodes: Vec<&Node> = nodes.into_iter().collect();
        nodes.sort_by(|a, b| a.id.cmp(&b.id));
        let mut grouped: BTreeMap<Option<&PoolId>, bool> = BTreeMap::new();
        for node in &nodes {
            *grouped.entry(node.pool.as_ref()).or_default() |= node.group.is_some();
        }
        // A pool without any group is one; a node without group in a pool that has some is alone. The letter keeps the
        // three from being taken for each other; a named group comes first, by its name.
        let group = |node: &Node| match &node.group {
            Some(name) => format!("g{name}"),
            None if grouped.get(&node.pool.as_ref()) == Some(&true) => format!("n{}", node.id),
            None => format!("p{}", node.pool.as_ref().map_or("", PoolId::as_str)),
        };
        let closer = |node: &Node| match looks_at {
            About::Plan | About::Make => String::new(),
            About::Registration => format!("{:?}", bare(node, looks_at)),
            About::Moment => node.id.to_string(),
        };
        let mut kinds: BTreeMap<(Traits, String), Vec<Slot>> = BTreeMap::new();
        for (slot, node) in (0..).zip(&nodes) {
            kinds.entry((Traits::of(node, group(node)), closer(node))).or_default().push(slot);
        }
        let traits = || kinds.keys().map(|(traits, _)| traits);
        let mut groups: Vec<&String> = traits().map(|traits| &traits.group).collect();
        groups.sort_unstable();
        groups.dedup();
        let mut fingerprints: Vec<&Name> = traits().filter_map(|t| t.fingerprint.as_ref()).collect();
        fingerprints.sort_unstable();
        fingerprints.dedup();
        let is_here = |slot: &Slot| !nodes[*slot as usize].has_left();
        let here = kinds.iter().filter(|(_, members)| members.iter().any(is_here));
        let here = here.map(|((traits, _), _)| traits).filter(|traits| traits.home.as_ref() == pool);
        let mut home: Vec<&String> = here.map(|traits| &traits.group).collect();
        home.sort_unstable();
        home.dedup();
        let place = |at: Result<usize, usize>| at.unwrap_or_default() as u32;
        let mut kind_of = vec![(0, 0); nodes.len()];
        let sorted = kinds.iter().enumerate().map(|(number, ((traits, closer), members))| {
            for (place, &slot) in (0..).zip(members) {
                kind_of[slot as usize] = (number as u32, place);
            }
            let node = nodes[members[0] as usize];
            let block = node.block.as_ref();
            Kind {
                key: traits.key(closer),
                node: bare(node, looks_at),
                own: node.pool.as_ref() == pool,
                group: place(groups.binary_search(&&traits.group)),
                fingerprint: traits.fingerprint.as_ref().map(|name| place(fingerprints.binary_search(&name))),
                from: block.and_then(|block| block.start_at),
                until: [node.maintenance_at, block.and_then(|b| b.ends_at())].into_iter().flatten().min(),
                members: members.clone(),
            }
        });
        let sorted: Vec<Kind> = sorted.collect();
        Self {
            home_groups: (home.len() as u32).max(1),
            fingerprints: fingerprints.len() as u32,
            by_key: sorted.iter().enumerate().map(|(number, kind)| (kind.key, number)).collect(),
            kinds: sorted,
            kind_of,
            homes: nodes.iter().map(|node| node.pool.clone()).collect(),
            nodes: nodes.iter().map(|node| node.id.clone()).collect(),
        }
    }

    pub fn slot(&self, node: &NodeId) -> Option<Slot> {
        self.nodes.binary_search(node).ok().map(|place| place as Slot)
    }

    /// The node at a place.
    pub fn node(&self, slot: Slot) -> Option<&NodeId> {
        self.nodes.get(slot as usize)
    }

    /// The home pool of the node at a place.
    pub fn home(&self, slot: Slot) -> Option<&PoolId> {
        self.homes.get(slot as usize)?.as_ref()
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Nodes of each kind among the given ones.
    pub fn count(&self, slots: &[Slot]) -> Vec<(KindKey, u32)> {
        let mut counts: BTreeMap<KindKey, u32> = BTreeMap::new();
        for &(kind, _) in slots.iter().filter_map(|&slot| self.kind_of.get(slot as usize)) {
            *counts.entry(self.kinds[kind as usize].key).or_default() += 1;
        }
        counts.into_iter().collect()
    }

    /// Number of groups of the pool's own nodes.
    pub(crate) fn home_groups(&self) -> u32 {
        self.home_groups
    }

    pub(crate) fn kind_count(&self) -> usize {
        self.kinds.len()
    }

    /// The kind of the node at a place.
    pub(crate) fn kind_at(&self, slot: Slot) -> Option<usize> {
        self.place(slot).map(|(kind, _)| kind)
    }

    /// A node that has all that those of a kind have in common, and nothing else.
    pub(crate) fn standing_for(&self, kind: usize) -> &Node {
        &self.kinds[kind].node
    }

    pub(crate) fn is_own(&self, kind: usize) -> bool {
        self.kinds[kind].own
    }

    /// Group, fingerprint and number of the nodes of a kind.
    pub(crate) fn counts(&self, kind: usize) -> (u32, Option<u32>, u64) {
        let kind = &self.kinds[kind];
        (kind.group, kind.fingerprint, kind.members.len() as u64)
    }

    /// Whether the nodes of a kind take work for a while only.
    pub(crate) fn is_timed(&self, kind: usize) -> bool {
        self.kinds[kind].from.is_some() || self.kinds[kind].until.is_some()
    }

    /// Kind of a slot and its place there.
    pub(super) fn place(&self, slot: Slot) -> Option<(usize, usize)> {
        self.kind_of.get(slot as usize).map(|&(kind, place)| (kind as usize, place as usize))
    }

    /// The ids of some nodes.
    pub(super) fn ids(&self, slots: &[Slot]) -> Vec<NodeId> {
        slots.iter().filter_map(|&slot| self.node(slot).cloned()).collect()
    }

    pub(super) fn kind(&self, key: KindKey) -> Option<usize> {
        self.by_key.get(&key).copied()
    }
}
