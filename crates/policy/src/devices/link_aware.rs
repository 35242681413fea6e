//! Devices that share fast links: fewest link groups touched, fewest devices left over in them, closest together.
//!
//! Where pairwise link bandwidths are known, [`super::link_bandwidth`] decides instead.

use std::collections::{BTreeMap, BTreeSet};

use landfall_model::Node;

use super::{Positions, first_fit, gaps, link_bandwidth};

/// Where bandwidths of pairs are known: above this many qualifying devices not every set is tried.
const EXACT_MAX: usize = 16;
/// Of more groups the largest are tried, but as many as are needed.
const GROUPS_MAX: usize = 16;

pub(super) fn choose(fitting: &[u16], count: usize, node: &Node) -> Positions {
    if let Some(links) = node.links.as_ref().filter(|links| !links.is_empty()) {
        if fitting.len() > EXACT_MAX {
            return smallest_group(fitting, count, node).unwrap_or_else(|| first_fit::choose(fitting, count));
        }
        let indices: Vec<u16> =
            fitting.iter().map(|&position| node.gpus[usize::from(position)].index).collect();
        let chosen = link_bandwidth::choose(&indices, count, links);
        return fitting
            .iter()
            .copied()
            .filter(|&p| chosen.contains(&node.gpus[usize::from(p)].index))
            .collect();
    }
    if count == 0 || count > fitting.len() {
        return first_fit::choose(fitting, count);
    }
    fewest_groups(fitting, count, node)
}

fn group_of(position: u16, node: &Node) -> Option<u16> {
    node.gpus[usize::from(position)].link_group
}

/// Among all sets: fewest groups touched, fewest devices left over in them, closest together, lowest indices.
///
/// As many groups are needed as the largest ones need to have enough devices. So many of them have enough only together, so whatever is
/// chosen from them touches all, and what is left over is what they have beyond `count`. The gaps of a choice add up to its span, so
/// within some groups neighbours are closest. So it is enough to try every set of so many groups.
fn fewest_groups(fitting: &[u16], count: usize, node: &Node) -> Positions {
    let mut by_group: BTreeMap<Option<u16>, Positions> = BTreeMap::new();
    for &position in fitting {
        by_group.entry(group_of(position, node)).or_default().push(position);
    }
    let mut groups: Vec<Positions> = by_group.into_values().collect();
    groups.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    let mut among_largest = groups.iter().scan(0, |devices, group| {
        *devices += group.len();
        Some(*devices)
    });
    let needed = among_largest.position(|devices| devices >= count).map_or(groups.len(), |place| place + 1);
    groups.truncate(GROUPS_MAX.max(needed));
    let numbers: Vec<u16> = (0..).take(groups.len()).collect();
    let mut best: Option<(usize, u64, Positions)> = None;
    for_each_set(&numbers, needed, &mut |set| {
        let among = || set.iter().map(|&number| &groups[usize::from(number)]);
        let available = among().map(|group| group.len()).sum::<usize>();
        if available < count || best.as_ref().is_some_and(|(fewest, ..)| *fewest < available) {
            return;
        }
        let mut devices: Positions = among().flatten().copied().collect();
        devices.sort_unstable();
        let neighbours = devices.windows(count).map(|set| (gaps(set, node), set));
        let Some((gaps, set)) = neighbours.min() else { return };
        let key = (available, gaps, Positions::from(set));
        if best.as_ref().is_none_or(|known| key < *known) {
            best = Some(key);
        }
    });
    best.map(|(_, _, set)| set).unwrap_or_default()
}

/// The first devices of the smallest link group that has enough; `None` if none has.
fn smallest_group(fitting: &[u16], count: usize, node: &Node) -> Option<Positions> {
    let of_group =
        |wanted| fitting.iter().copied().filter(move |&position| group_of(position, node) == wanted);
    let groups: BTreeSet<_> = fitting.iter().map(|&position| group_of(position, node)).collect();
    let sized = groups.into_iter().map(|wanted| (of_group(wanted).count(), wanted));
    let (_, wanted) = sized.filter(|&(size, _)| size >= count).min()?;
    Some(of_group(wanted).take(count).collect())
}

/// Calls `visit` for every set of `count` entries, in lexicographic order.
pub(super) fn for_each_set(entries: &[u16], count: usize, visit: &mut dyn FnMut(&[u16])) {
    fn extend(entries: &[u16], count: usize, set: &mut Vec<u16>, visit: &mut dyn FnMut(&[u16])) {
        if set.len() == count {
            return visit(set);
        }
        let missing = count - set.len();
        for at in 0..entries.len().saturating_sub(missing - 1) {
            set.push(entries[at]);
            extend(&entries[at + 1..], count, set, visit);
            set.pop();
        }
    }
    if count <= entries.len() {
        extend(entries, count, &mut Vec::with_capacity(count), visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_model::{Gpu, Mib, MilliCpu, NodeId};

    fn with_groups(groups: &[u16]) -> Node {
        let mut node = Node::new(NodeId::new("n").unwrap(), MilliCpu::ZERO, Mib::ZERO);
        node.gpus = (0..groups.len() as u16).map(|index| Gpu::new(index, None, None)).collect();
        node.gpus.iter_mut().zip(groups).for_each(|(gpu, group)| gpu.link_group = Some(*group));
        node
    }

    #[test]
    fn above_sixteen_devices_the_choice_is_as_exact_as_below() {
        let node = with_groups(&[0, 1, 1, 1, 0, 0, 0, 2, 2, 2, 2, 3, 3, 3, 3, 1, 4, 4]);
        let free: Vec<u16> = (0..18).collect();
        assert_eq!(choose(&free, 3, &node).as_slice(), [1, 2, 3]);
        assert_eq!(choose(&free, 6, &node).as_slice(), [11, 12, 13, 14, 16, 17]);
        let node = with_groups(&(0..64).map(|index| index % 16).collect::<Vec<u16>>());
        let free: Vec<u16> = (0..64).collect();
        assert_eq!(choose(&free, 8, &node).as_slice(), [0, 1, 16, 17, 32, 33, 48, 49]);
        let node = with_groups(&(0..64).collect::<Vec<u16>>());
        assert_eq!(choose(&free, 40, &node).as_slice(), &free[..40], "each device alone");
    }

    #[test]
    fn the_choice_is_the_best_of_all_sets() {
        let mut state = 1u64;
        let mut next = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for case in 0..400 {
            let (size, groups) = (1 + next(10), 1 + next(5));
            let node = with_groups(&(0..size).map(|_| next(groups) as u16).collect::<Vec<u16>>());
            let free: Vec<u16> = (0..size as u16).filter(|_| next(4) > 0).collect();
            let count = next(free.len() as u64 + 1) as usize;
            let mut best: Option<(usize, usize, u64, Vec<u16>)> = None;
            for_each_set(&free, count, &mut |set| {
                let touched: BTreeSet<_> = set.iter().map(|&position| group_of(position, &node)).collect();
                let left = free.iter().filter(|&&position| touched.contains(&group_of(position, &node)));
                let key = (touched.len(), left.count() - count, gaps(set, &node), set.to_vec());
                if best.as_ref().is_none_or(|known| key < *known) {
                    best = Some(key);
                }
            });
            let expected = best.map(|(.., set)| set).unwrap_or_default();
            assert_eq!(choose(&free, count, &node).as_slice(), expected, "case {case}: {count} of {free:?}");
        }
    }

    #[test]
    fn b36_one_island_before_two() {
        let mut node = Node::new(NodeId::new("n").unwrap(), MilliCpu::ZERO, Mib::ZERO);
        node.gpus = (0..8).map(|index| Gpu::new(index, None, None)).collect();
        node.gpus.iter_mut().for_each(|gpu| gpu.link_group = Some(gpu.index / 4));
        let free: Vec<u16> = (2..8).collect();
        assert_eq!(choose(&free, 4, &node).as_slice(), [4, 5, 6, 7]);
        assert_eq!(first_fit::choose(&free, 4).as_slice(), [2, 3, 4, 5]);
        for gpu in &mut node.gpus {
            gpu.link_group = None;
        }
        assert_eq!(choose(&free, 4, &node).as_slice(), [2, 3, 4, 5], "no group reported is one group");
    }
}
