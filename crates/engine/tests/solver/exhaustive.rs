//! Small worlds in full: the solver against plain enumerations of what the rules admit.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use landfall_engine::solver::{Estimates, SetWeights};
use landfall_model::{JobSpec, Millis, Node, NodeCount, NodePower, SetHint};
use landfall_policy::q;

use super::properties::draws;
use super::support::{Setting, balanced, name, node, nodes_of, spec, starts};

/// Preference between two nodes, the smaller first.
fn preference(node: &Node, all: &[Node], power_first: bool) -> impl Ord + use<> {
    let alike = |other: &&Node| other.fingerprint == node.fingerprint;
    let population = if node.fingerprint.is_some() { all.iter().filter(alike).count() } else { 1 };
    let fingerprint = node.fingerprint.as_ref().map(ToString::to_string);
    let key = (
        node.drifted,
        Reverse(population),
        fingerprint.is_none(),
        fingerprint,
        extra(node),
        node.id.to_string(),
    );
    (if power_first { extra(node) } else { 0 }, key)
}

fn extra(node: &Node) -> u64 {
    node.power.map_or(0, |power| power.busy_w - power.idle_w)
}

fn by_group(nodes: &[Node]) -> BTreeMap<String, Vec<Node>> {
    let mut groups: BTreeMap<String, Vec<Node>> = BTreeMap::new();
    for node in nodes {
        groups.entry(node.group.as_ref().unwrap().to_string()).or_default().push(node.clone());
    }
    groups
}

/// Whether a group's letter is next to one of those taken, among the groups of the pool.
fn near(group: &str, taken: &BTreeSet<String>, letters: &[String]) -> bool {
    let at = letters.iter().position(|letter| letter == group).unwrap();
    let beside = [at.checked_sub(1), Some(at + 1)].into_iter().flatten();
    beside.filter_map(|at| letters.get(at)).any(|letter| taken.contains(letter))
}

/// The rule of tight packing, node by node.
fn tight(from: &[Node], all: &[Node], wanted: usize, power_first: bool, letters: &[String]) -> Vec<Node> {
    let mut groups = by_group(from);
    for nodes in groups.values_mut() {
        nodes.sort_by_key(|node| preference(node, all, power_first));
    }
    let mut sizes: Vec<usize> = groups.values().map(Vec::len).collect();
    sizes.sort_unstable_by_key(|&size| Reverse(size));
    let fewest = (1..=sizes.len()).find(|&count| sizes[..count].iter().sum::<usize>() >= wanted).unwrap();
    let (mut chosen, mut taken): (Vec<Node>, BTreeSet<String>) = (Vec::new(), BTreeSet::new());
    for _ in 1..fewest {
        let rank = |(group, nodes): &(&String, &Vec<Node>)| {
            (Reverse(nodes.len()), !near(group, &taken, letters), (*group).clone())
        };
        let largest = groups.iter().min_by_key(rank).unwrap().0.clone();
        chosen.extend(groups.remove(&largest).unwrap());
        taken.insert(largest);
    }
    let rest = wanted - chosen.len();
    let rank = |(group, nodes): &(&String, &Vec<Node>)| {
        (nodes.len(), fewest > 1 && !near(group, &taken, letters), (*group).clone())
    };
    let last = groups.iter().filter(|(_, nodes)| nodes.len() >= rest).min_by_key(rank).unwrap().1;
    chosen.extend(last[..rest].to_vec());
    chosen
}

/// The rule of spreading, node by node.
fn spread(from: &[Node], all: &[Node], wanted: usize, power_first: bool) -> Vec<Node> {
    let mut groups = by_group(from);
    for nodes in groups.values_mut() {
        nodes.sort_by_key(|node| Reverse(preference(node, all, power_first)));
    }
    let mut taken: BTreeMap<String, usize> = groups.keys().map(|group| (group.clone(), 0)).collect();
    let mut chosen = Vec::new();
    while chosen.len() < wanted {
        let open = taken.iter().filter(|(group, _)| !groups[*group].is_empty());
        let group = open.min_by_key(|(group, count)| (**count, (*group).clone())).unwrap().0.clone();
        chosen.push(groups.get_mut(&group).unwrap().pop().unwrap());
        *taken.get_mut(&group).unwrap() += 1;
    }
    chosen
}

/// The best of all candidate sets, as one line of ids.
fn brute_force(nodes: &[Node], hint: SetHint, wanted: usize) -> String {
    if nodes.len() < wanted {
        return String::new();
    }
    let mut letters: Vec<String> = by_group(nodes).into_keys().collect();
    letters.sort();
    let mut sources: Vec<Vec<Node>> = vec![nodes.to_vec()];
    let known: BTreeSet<_> = nodes.iter().filter_map(|node| node.fingerprint.clone()).collect();
    for fingerprint in known {
        let alike: Vec<Node> =
            nodes.iter().filter(|node| node.fingerprint.as_ref() == Some(&fingerprint)).cloned().collect();
        if alike.len() >= wanted {
            sources.push(alike);
        }
    }
    let weights = SetWeights::of(balanced());
    let mut rated = Vec::new();
    for source in &sources {
        for power_first in [false, true] {
            let set = match hint {
                SetHint::Spread => spread(source, nodes, wanted, power_first),
                _ => tight(source, nodes, wanted, power_first, &letters),
            };
            let groups = by_group(&set);
            let mut alike: BTreeMap<_, usize> = BTreeMap::new();
            let unknown = set.iter().filter(|node| node.fingerprint.is_none()).count();
            for fingerprint in set.iter().filter_map(|node| node.fingerprint.clone()) {
                *alike.entry(fingerprint).or_default() += 1;
            }
            let largest = alike.values().copied().max().unwrap_or(0).max(usize::from(unknown > 0));
            let conformance = largest as f64 / wanted as f64;
            let outside = if wanted == 1 { 0.3 } else { 0.7 };
            let between = 1.0 - groups.len() as f64 / letters.len() as f64;
            let topology = outside * between + (1.0 - outside) * 0.5;
            let value = weights.topology * topology + weights.conformance * conformance;
            let leftover =
                nodes.iter().filter(|n| groups.contains_key(n.group.as_ref().unwrap().as_str())).count();
            let power: u64 = set.iter().map(extra).sum();
            let mut ids: Vec<String> = set.iter().map(|node| node.id.to_string()).collect();
            ids.sort();
            let most = groups.values().map(Vec::len).max().unwrap() as i64;
            let key: [i64; 5] = match hint {
                SetHint::Spread => [most, -q(weights.conformance * conformance), power as i64, 0, 0],
                _ => {
                    let kinds = (alike.len() + unknown) as i64;
                    [-q(value), groups.len() as i64, kinds, leftover as i64, power as i64]
                }
            };
            rated.push((key, ids));
        }
    }
    rated.into_iter().min().unwrap().1.join(" ")
}

fn compare(nodes: Vec<Node>, note: &str) {
    for wanted in 1..=nodes.len() {
        for hint in [SetHint::Tight, SetHint::Spread] {
            let mut setting = Setting::new(nodes.clone());
            setting.estimates = Estimates::Skip;
            setting.wait("j", JobSpec { hint: Some(hint), ..spec(wanted as u32, 1) });
            let want = brute_force(&nodes, hint, wanted);
            assert_eq!(nodes_of(&setting.plan(), "j"), want, "{note}: {wanted} nodes, {hint:?}");
        }
    }
}

/// A node of group, fingerprint and power by number.
fn marked(at: usize, group: u64, fingerprint: u64, power: u64) -> Node {
    let letter = ["a", "b", "c", "d"][group as usize];
    let mut node = node(&format!("{letter}{at}"));
    node.fingerprint = ["P", "Q"].get(fingerprint as usize).map(|text| name(text));
    node.power = Some(NodePower { idle_w: 0, busy_w: 100 * power });
    node
}

#[test]
fn the_greedy_set_equals_the_brute_force_best_set() {
    for count in 1..=3u32 {
        for code in 0..18u64.pow(count) {
            let one = |at: u32| code / 18u64.pow(at) % 18;
            let nodes = (0..count).map(|at| marked(at as usize, one(at) % 3, one(at) / 3 % 3, one(at) / 9));
            compare(nodes.collect(), &format!("world {count}/{code}"));
        }
    }
}

#[test]
fn the_greedy_set_equals_the_brute_force_best_set_in_larger_worlds() {
    for seed in 0..400 {
        let mut draws = draws(seed);
        let count = 4 + draws.below(6) as usize;
        let nodes = (0..count).map(|at| marked(at, draws.below(4), draws.below(3), draws.below(2)));
        compare(nodes.collect(), &format!("seed {seed}"));
    }
}

/// When a job of so many nodes and units of time starts at the earliest beside what is in use at each unit.
fn earliest(used: &[u32], all: u32, nodes: u32, span: usize) -> usize {
    let fits = |at: usize| used[at..at + span].iter().all(|&used| used + nodes <= all);
    (0..used.len() - span).find(|&at| fits(at)).unwrap()
}

/// The starts that textbook backfilling allows, from all 16 decisions: everything fits, the first job left waiting could
/// not start sooner without those behind it, and earlier jobs come first.
fn allowed(busy: &[usize], all: u32, jobs: &[(u32, usize); 4]) -> Vec<bool> {
    let mut running = vec![0u32; 24];
    for &until in busy {
        running[..until].iter_mut().for_each(|used| *used += 1);
    }
    let mut best: Option<Vec<bool>> = None;
    for decision in 0..16u32 {
        let starts: Vec<bool> = (0..4).map(|at| decision >> at & 1 == 1).collect();
        let with = |jobs_in: &dyn Fn(usize) -> bool| {
            let mut used = running.clone();
            for (at, &(nodes, span)) in jobs.iter().enumerate() {
                if starts[at] && jobs_in(at) {
                    used[..span].iter_mut().for_each(|used| *used += nodes);
                }
            }
            used
        };
        let together = with(&|_| true);
        let fits = together.iter().all(|&used| used <= all);
        let kept = starts.iter().position(|&start| !start).is_none_or(|first| {
            let (nodes, span) = jobs[first];
            let alone = earliest(&with(&|at| at < first), all, nodes, span);
            alone > 0 && earliest(&together, all, nodes, span) == alone
        });
        if fits && kept && best.as_ref().is_none_or(|best| starts > *best) {
            best = Some(starts);
        }
    }
    best.unwrap()
}

#[test]
fn backfill_equals_the_best_of_all_start_decisions() {
    let busy_sets: [&[usize]; 10] =
        [&[], &[1], &[2], &[1, 1], &[1, 2], &[2, 2], &[1, 1, 1], &[1, 1, 2], &[1, 2, 2], &[2, 2, 2]];
    let nodes: Vec<Node> = (1..=3).map(|at| node(&format!("a{at}"))).collect();
    for busy in busy_sets {
        // Every seventh of all worlds, at another place for each set of busy nodes, keeps this short.
        for code in (busy.len()..9usize.pow(4)).step_by(7) {
            let one = |at: u32| code / 9usize.pow(at) % 9;
            let jobs: [(u32, usize); 4] = [0, 1, 2, 3].map(|at| (1 + (one(at) % 3) as u32, 1 + one(at) / 3));
            let mut setting = Setting::new(nodes.clone());
            setting.estimates = Estimates::Skip;
            for (at, &until) in busy.iter().enumerate() {
                setting.run(&format!("x{at}"), spec(1, 9), &[&format!("a{}", at + 1)], Some(until as i64));
            }
            for (at, &(count, span)) in jobs.iter().enumerate() {
                let asked = JobSpec {
                    nodes: NodeCount { min: count, max: count },
                    walltime_ms: Millis::secs(span as u64),
                    ..JobSpec::empty()
                };
                setting.wait(&format!("j{at}"), asked);
            }
            let plan = setting.plan();
            let got: Vec<bool> =
                (0..4).map(|at| starts(&plan).iter().any(|s| s.job.as_str() == format!("j{at}"))).collect();
            assert_eq!(got, allowed(busy, 3, &jobs), "busy {busy:?}, jobs {jobs:?}");
        }
    }
}
