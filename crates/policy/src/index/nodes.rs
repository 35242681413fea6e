//! The best node for a job, kept ready per class of jobs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use landfall_model::{Job, JobSpec, Time};

use super::alike::Alike;
use super::bits::Bits;
use super::runs::Runs;
use crate::choice::Key;
use crate::evaluate::Pair;
use crate::policy::Policy;
use crate::rank::{Best, Closed, Looked};
use crate::refusal::Reason;
use crate::rules::supply::{Supply, Weights};
use crate::score::draw;
use crate::view::{AsTheyAre, Pass};

/// Most classes of jobs kept ready; the one unused for longest gives way.
const CLASSES_MAX: usize = 4096;
/// Changes remembered beyond the number of nodes; a class that missed more starts anew.
const LOG_SLACK: usize = 4096;

/// Finds the best of many nodes for a job without looking at all of them.
///
/// The caller keeps the nodes and says which ones changed. One index serves one policy and one set of nodes.
#[derive(Debug, Default)]
pub struct NodeIndex {
    /// Per node, the number of its last change.
    changed_at: Vec<u64>,
    /// Per node, the number of the last change of the node itself, not only of what runs there.
    remade_at: Vec<u64>,
    /// Positions of changed nodes; the first entry is change number `log_start`.
    log: Vec<u32>,
    log_start: u64,
    classes: Vec<Class>,
    /// Classes by the address of their spec.
    by_spec: BTreeMap<usize, usize>,
    asked: u64,
    /// Nodes that keep a device for some job, as of change number `held_seen`.
    held: BTreeSet<u32>,
    held_seen: u64,
    /// GPUs of the nodes as of change number `supply_seen`, for policies that look at them.
    supply: Supply,
    supply_seen: u64,
    /// What that makes the classes of the mix weigh.
    weights: Option<Weights>,
    /// What terms measured of the nodes since they last changed.
    known: AsTheyAre,
    /// Which nodes are alike as of change number `alike_seen`.
    alike: Alike,
    alike_seen: u64,
}

/// What is kept for one class of jobs.
#[derive(Debug)]
struct Class {
    /// Held so that the address in `by_spec` stays this spec's.
    spec: Arc<JobSpec>,
    /// Number of the first change not yet taken in.
    seen: u64,
    used: u64,
    best: Ready,
    /// Nodes that can never run jobs of this class as they are, whatever else runs there.
    closed: Bits,
    /// Nodes to look at again when an instant passes, with the change they were judged at.
    opens: Opens,
    against: Against,
}

/// What stands first against each node, and against how many.
///
/// Nodes that time has closed since they were judged count as open until they come up.
#[derive(Debug, Default)]
struct Against {
    by_slot: Vec<Option<Reason>>,
    counts: BTreeMap<Reason, u32>,
}

impl Against {
    fn set(&mut self, slot: u32, reason: Option<Reason>) {
        let before = std::mem::replace(&mut self.by_slot[slot as usize], reason);
        if before == reason {
            return;
        }
        if let Some(count) = before.and_then(|before| self.counts.get_mut(&before)) {
            *count -= 1;
        }
        if let Some(reason) = reason {
            *self.counts.entry(reason).or_default() += 1;
        }
    }

    fn counted(&self) -> BTreeMap<Reason, u32> {
        self.counts.iter().filter(|(_, count)| **count > 0).map(|(reason, count)| (*reason, *count)).collect()
    }
}

type Opens = BinaryHeap<Reverse<(Time, u32, u64)>>;

/// Candidates in the form the policy picks from.
#[derive(Debug)]
enum Ready {
    /// By key. Entries of changed nodes are left behind and dropped when they surface.
    Keys(Runs<Entry>),
    /// For uniform picks.
    Set(Bits),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    key: Key,
    slot: u32,
    /// The node's last change when the key was made; the low half is enough to tell.
    change: u32,
}

impl NodeIndex {
    /// An index over so many nodes.
    pub fn new(nodes: usize) -> Self {
        Self { changed_at: vec![0; nodes], remade_at: vec![0; nodes], log_start: 1, ..Self::default() }
    }

    /// Whether the policy's choices can be kept ready; otherwise every question is answered by the plain scorer.
    pub fn covers(policy: &Policy) -> bool {
        let reads = policy.reads();
        let steady = !(reads.ready_wait || reads.queue_wait || reads.report || reads.identity || reads.fleet);
        let filters_know_only_the_class = policy.filters.iter().all(|(info, _)| !info.job_identity);
        // A clock term may only rise, so its part of the total may only fall if it is weighed negatively.
        let only_worsens =
            policy.terms.iter().all(|bound| !bound.info.reads.clock || bound.weight_max() <= 0.0)
                && policy.multipliers.iter().all(|bound| !bound.info.reads.clock);
        let picks = if policy.picks_uniformly() { !policy.reads_clock() } else { !policy.devices.draws() };
        steady
            && filters_know_only_the_class
            && only_worsens
            && picks
            && policy.choice.candidate_limit.is_none()
    }

    /// Says that a node changed: what it is, what it reported, its lease, anything.
    pub fn node_changed(&mut self, slot: usize) {
        self.remember(slot, true);
    }

    /// Says that jobs were placed on a node or ended there, and nothing else changed.
    pub fn load_changed(&mut self, slot: usize) {
        self.remember(slot, false);
    }

    fn remember(&mut self, slot: usize, itself: bool) {
        let number = self.log_start + self.log.len() as u64;
        self.known.forget(slot);
        self.changed_at[slot] = number;
        if itself {
            self.remade_at[slot] = number;
        }
        self.log.push(slot as u32);
        let limit = self.changed_at.len() + LOG_SLACK;
        if self.log.len() > 2 * limit {
            self.log.drain(..limit);
            self.log_start += limit as u64;
        }
    }

    /// Says that something changed that is neither node nor job: the mix, regions, providers, tenants.
    pub fn world_changed(&mut self) {
        self.forget_classes();
        self.weights = None;
    }

    fn forget_classes(&mut self) {
        self.known.forget_all();
        self.classes.clear();
        self.by_spec.clear();
    }

    /// The best node for a job and the runner-up; the same as [`Policy::best_node`] finds.
    pub fn best(&mut self, policy: &Policy, pass: &Pass<'_>, tie_ranks: &[u32], job: &Job) -> Option<Best> {
        // A job sees what is kept for it, unlike others of its class.
        if !Self::covers(policy) || self.is_kept_for(pass, job) {
            return policy.best_node(pass, tie_ranks, job);
        }
        if policy.reads().supply {
            self.know_supply(pass);
        }
        let has_clock = policy.reads_clock();
        let ask = Ask { policy, pass, tie_ranks, job, has_clock };
        pass.lend(Some(std::mem::take(&mut self.known)));
        let found = self.find(&ask);
        self.known = pass.lend(None).unwrap_or_default();
        found
    }

    fn find(&mut self, ask: &Ask<'_>) -> Option<Best> {
        let class = self.class(ask);
        self.catch_up(ask, class);
        let class = &mut self.classes[class];
        class.take_opened(ask, &self.changed_at);
        let (slot, runner_up) = class.pick(ask, &self.changed_at)?;
        Some(Best { slot, verdict: ask.policy.verdict(ask.pair(slot)).1, runner_up })
    }

    /// What stands beside the best node for a job, asked right after [`NodeIndex::best`]: up to so many runners-up, and what
    /// stands against the nodes that may not be chosen.
    pub fn looked_at(
        &mut self,
        policy: &Policy,
        pass: &Pass<'_>,
        tie_ranks: &[u32],
        job: &Job,
        most: usize,
    ) -> Looked {
        if !Self::covers(policy) || self.is_kept_for(pass, job) {
            return policy.looked_at(pass, tie_ranks, job, most);
        }
        if policy.reads().supply {
            self.know_supply(pass);
        }
        let ask = Ask { policy, pass, tie_ranks, job, has_clock: policy.reads_clock() };
        pass.lend(Some(std::mem::take(&mut self.known)));
        let class = self.class(&ask);
        self.catch_up(&ask, class);
        let class = &mut self.classes[class];
        class.take_opened(&ask, &self.changed_at);
        let runners_up = class.behind_first(&ask, &self.changed_at, most);
        let looked = Looked { runners_up, against: class.against.counted() };
        self.known = pass.lend(None).unwrap_or_default();
        looked
    }

    /// Counts the GPUs of nodes that changed. If that moves the weights of the mix, every key is a new one.
    fn know_supply(&mut self, pass: &Pass<'_>) {
        let nodes = pass.nodes();
        let end = self.log_start + self.log.len() as u64;
        let mut moved = false;
        if self.supply_seen < self.log_start || self.supply.nodes() != nodes.len() {
            self.supply = Supply::of(nodes);
            moved = true;
        } else {
            for number in self.supply_seen..end {
                let slot = self.log[(number - self.log_start) as usize] as usize;
                if self.remade_at[slot] >= self.supply_seen {
                    moved |= self.supply.renew(slot, &nodes[slot]);
                }
            }
        }
        self.supply_seen = end;
        if moved || self.weights.is_none() {
            let weights = self.supply.weights(&pass.world.mix);
            if self.weights.replace(weights.clone()).is_some_and(|before| before != weights) {
                self.forget_classes();
            }
        }
        if let Some(weights) = &self.weights {
            pass.know_mix_weights(weights);
        }
    }

    /// Whether some node keeps a device for this very job.
    fn is_kept_for(&mut self, pass: &Pass<'_>, job: &Job) -> bool {
        let nodes = pass.nodes();
        let end = self.log_start + self.log.len() as u64;
        if self.held_seen < self.log_start {
            self.held =
                (0u32..).zip(nodes).filter(|(_, node)| node.has_holds()).map(|(slot, _)| slot).collect();
        } else {
            for number in self.held_seen..end {
                let slot = self.log[(number - self.log_start) as usize];
                if nodes[slot as usize].has_holds() {
                    self.held.insert(slot);
                } else {
                    self.held.remove(&slot);
                }
            }
        }
        self.held_seen = end;
        self.held.iter().any(|&slot| nodes[slot as usize].holds_for(&job.id))
    }

    /// The class of the job, made if it is new.
    fn class(&mut self, ask: &Ask<'_>) -> usize {
        self.asked += 1;
        let address = address_of(&ask.job.spec);
        if let Some(&at) = self.by_spec.get(&address) {
            self.classes[at].used = self.asked;
            return at;
        }
        // Equal specs at another address are one class all the same.
        if let Some(at) = self.classes.iter().position(|class| class.spec == ask.job.spec) {
            self.classes[at].used = self.asked;
            return at;
        }
        let mut class = Class::empty(ask, self.changed_at.len());
        class.used = self.asked;
        self.compare_nodes(ask);
        class.rebuild(ask, &self.changed_at, &self.alike);
        class.seen = self.log_start + self.log.len() as u64;
        let at = if self.classes.len() < CLASSES_MAX {
            self.classes.push(class);
            self.classes.len() - 1
        } else {
            let oldest = (0..self.classes.len()).min_by_key(|&at| self.classes[at].used).unwrap_or(0);
            self.by_spec.remove(&address_of(&self.classes[oldest].spec));
            self.classes[oldest] = class;
            oldest
        };
        self.by_spec.insert(address, at);
        at
    }

    /// Finds out which nodes are alike, if one may be judged for another.
    fn compare_nodes(&mut self, ask: &Ask<'_>) {
        // Who names nodes or jobs in its hints asks for one of those that are alike.
        if ask.job.spec.hints.name_somebody() || !self.alike.is_worth_it() {
            self.alike.forget();
            return;
        }
        let end = self.log_start + self.log.len() as u64;
        let changed = (self.alike_seen >= self.log_start)
            .then(|| &self.log[(self.alike_seen - self.log_start) as usize..]);
        self.alike.update(ask.pass.nodes(), changed, ask.policy.reads().placements);
        self.alike_seen = end;
    }

    /// Judges the nodes that changed since the class was last asked.
    fn catch_up(&mut self, ask: &Ask<'_>, class: usize) {
        let end = self.log_start + self.log.len() as u64;
        if self.classes[class].seen < self.log_start {
            self.compare_nodes(ask);
        }
        let class = &mut self.classes[class];
        if class.seen < self.log_start {
            class.rebuild(ask, &self.changed_at, &self.alike);
        } else {
            for number in class.seen..end {
                let slot = self.log[(number - self.log_start) as usize];
                // Only the last change of a node counts, and a node that can never do is not asked again for its load.
                let closed = class.closed.has(slot as usize) && self.remade_at[slot as usize] < class.seen;
                if self.changed_at[slot as usize] == number && !closed {
                    class.judge(ask, slot, number);
                }
            }
            class.tidy(&self.changed_at);
        }
        class.seen = end;
    }
}

/// Tells specs apart without comparing them; an address is only ever compared.
fn address_of(spec: &Arc<JobSpec>) -> usize {
    Arc::as_ptr(spec).addr()
}

struct Ask<'a> {
    policy: &'a Policy,
    pass: &'a Pass<'a>,
    tie_ranks: &'a [u32],
    job: &'a Job,
    /// Whether keys may get worse as time passes.
    has_clock: bool,
}

impl<'a> Ask<'a> {
    fn pair(&self, slot: usize) -> Pair<'a> {
        Pair { pass: self.pass, job: self.job, node: &self.pass.nodes()[slot], ranks_nodes: true }
    }

    fn key(&self, slot: u32) -> Result<Key, (Closed, Reason)> {
        self.policy.node_key(self.pair(slot as usize), self.tie_ranks[slot as usize])
    }

    /// The key of a node that is like the one whose key is given.
    fn ranked(&self, key: Key, slot: u32) -> Key {
        Key { rank: self.tie_ranks[slot as usize], ..key }
    }

    /// Brings an entry up to the present instant.
    fn renew(&self, entry: Entry, changed_at: &[u64]) -> Renewed {
        let change = changed_at[entry.slot as usize];
        if change as u32 != entry.change {
            return Renewed::Stale;
        }
        if !self.has_clock {
            return Renewed::Same;
        }
        match self.key(entry.slot) {
            Ok(key) if key == entry.key => Renewed::Same,
            Ok(key) => Renewed::Worse(Entry { key, ..entry }),
            Err((closed, reason)) => Renewed::Closed(closed, change, reason),
        }
    }
}

impl Class {
    fn empty(ask: &Ask<'_>, nodes: usize) -> Self {
        let best = if ask.policy.picks_uniformly() {
            Ready::Set(Bits::new(nodes))
        } else {
            Ready::Keys(Runs::new())
        };
        let closed = Bits::new(nodes);
        let against = Against { by_slot: vec![None; nodes], counts: BTreeMap::new() };
        let spec = ask.job.spec.clone();
        Self { spec, seen: 0, used: 0, best, closed, opens: BinaryHeap::new(), against }
    }

    fn rebuild(&mut self, ask: &Ask<'_>, changed_at: &[u64], alike: &Alike) {
        self.opens.clear();
        let mut entries = Vec::with_capacity(changed_at.len());
        let mut judged = vec![None; alike.groups()];
        for (slot, &change) in (0u32..).zip(changed_at) {
            let key = match alike.group(slot) {
                Some(group) => {
                    judged[group].get_or_insert_with(|| ask.key(slot)).map(|key| ask.ranked(key, slot))
                }
                None => ask.key(slot),
            };
            entries.extend(self.note(key, slot, change));
        }
        if let Ready::Keys(runs) = &mut self.best {
            runs.reset(entries);
        }
    }

    /// Notes what there is to say about a node, and gives what it is ranked by.
    fn note(&mut self, key: Result<Key, (Closed, Reason)>, slot: u32, change: u64) -> Option<Entry> {
        self.against.set(slot, key.err().map(|(_, reason)| reason));
        if let Err((Closed::Until(opens), _)) = key {
            self.opens.push(Reverse((opens, slot, change)));
        }
        match &mut self.best {
            Ready::Keys(_) => self.closed.set(slot as usize, matches!(key, Err((Closed::ToThisClass, _)))),
            Ready::Set(bits) => bits.set(slot as usize, key.is_ok()),
        }
        key.ok().map(|key| Entry { key, slot, change: change as u32 })
    }

    /// Judges one node as of its last change.
    fn judge(&mut self, ask: &Ask<'_>, slot: u32, change: u64) {
        let entry = self.note(ask.key(slot), slot, change);
        if let (Ready::Keys(runs), Some(entry)) = (&mut self.best, entry) {
            runs.push(entry);
        }
    }

    /// Judges nodes again whose instant has come.
    fn take_opened(&mut self, ask: &Ask<'_>, changed_at: &[u64]) {
        while let Some(&Reverse((opens, slot, change))) = self.opens.peek() {
            if opens > ask.pass.now {
                return;
            }
            self.opens.pop();
            if changed_at[slot as usize] == change {
                self.judge(ask, slot, change);
            }
        }
    }

    /// Drops left-behind entries now and then.
    fn tidy(&mut self, changed_at: &[u64]) {
        if let Ready::Keys(runs) = &mut self.best {
            runs.tidy(|entry| changed_at[entry.slot as usize] as u32 == entry.change);
        }
    }

    /// The chosen node and the next best.
    fn pick(&mut self, ask: &Ask<'_>, changed_at: &[u64]) -> Option<(usize, Option<usize>)> {
        let runs = match &mut self.best {
            Ready::Set(bits) => {
                let slot = bits.nth(draw(ask.policy.draw_for(ask.job), bits.len()))?;
                return Some((slot, None));
            }
            Ready::Keys(runs) => runs,
        };
        let first = settle(runs, &mut self.opens, &mut self.against, ask, changed_at)?;
        runs.take_first();
        let second = settle(runs, &mut self.opens, &mut self.against, ask, changed_at);
        runs.push(first);
        Some((first.slot as usize, second.map(|entry| entry.slot as usize)))
    }

    /// Those that come behind the best, best first.
    fn behind_first(&mut self, ask: &Ask<'_>, changed_at: &[u64], most: usize) -> Vec<usize> {
        let Ready::Keys(runs) = &mut self.best else { return Vec::new() };
        let mut taken = Vec::with_capacity(most + 1);
        while taken.len() <= most
            && let Some(entry) = settle(runs, &mut self.opens, &mut self.against, ask, changed_at)
        {
            runs.take_first();
            taken.push(entry);
        }
        taken.iter().for_each(|entry| runs.push(*entry));
        taken.iter().skip(1).map(|entry| entry.slot as usize).collect()
    }
}

/// What became of an entry.
enum Renewed {
    /// Its key is exact now.
    Same,
    /// Time has made its key worse.
    Worse(Entry),
    /// Time has closed the node, which last changed at the given number.
    Closed(Closed, u64, Reason),
    /// The node changed; another entry stands for it, if any.
    Stale,
}

/// Makes the first entry exact at the present instant and returns it.
fn settle(
    runs: &mut Runs<Entry>,
    opens: &mut Opens,
    against: &mut Against,
    ask: &Ask<'_>,
    changed_at: &[u64],
) -> Option<Entry> {
    loop {
        let entry = runs.first()?;
        match ask.renew(entry, changed_at) {
            Renewed::Same => return Some(entry),
            Renewed::Worse(worse) => {
                debug_assert!(worse.key > entry.key, "a key may only get worse as time passes");
                runs.take_first();
                runs.push(worse);
            }
            Renewed::Closed(closed, change, reason) => {
                runs.take_first();
                against.set(entry.slot, Some(reason));
                if let Closed::Until(at) = closed {
                    opens.push(Reverse((at, entry.slot, change)));
                }
            }
            Renewed::Stale => runs.take_first(),
        }
    }
}
