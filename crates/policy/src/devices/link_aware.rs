//! Devices that share fast links: fewest link groups touched, fewest devices left over in them, closest together.
//!
//! Where pairwise link bandwidths are known, [`super::link_bandwidth`] decides instead.

use std::collections::BTreeSet;

use landfall_model::Node;

use super::{Positions, first_fit, gaps, link_bandwidth};

/// Above this many qualifying devices not every set is tried.
const EXACT_MAX: usize = 16;

pub(super) fn choose(fitting: &[u16], count: usize, node: &Node) -> Positions {
    if fitting.len() > EXACT_MAX {
        return smallest_group(fitting, count, node).unwrap_or_else(|| first_fit::choose(fitting, count));
    }
    if let Some(links) = node.links.as_ref().filter(|links| !links.is_empty()) {
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
    let group = |position: u16| node.gpus[usize::from(position)].link_group;
    let mut best: Option<((usize, usize, u64, Positions), Positions)> = None;
    for_each_set(fitting, count, &mut |set| {
        let groups: BTreeSet<_> = set.iter().map(|&position| group(position)).collect();
        let available = fitting.iter().filter(|&&position| groups.contains(&group(position))).count();
        let set: Positions = set.iter().copied().collect();
        let key = (groups.len(), available - count, gaps(&set, node), set.clone());
        if best.as_ref().is_none_or(|(known, _)| key < *known) {
            best = Some((key, set));
        }
    });
    best.map(|(_, set)| set).unwrap_or_default()
}

/// The first devices of the smallest link group that has enough; `None` if none has.
fn smallest_group(fitting: &[u16], count: usize, node: &Node) -> Option<Positions> {
    let group = |position: u16| node.gpus[usize::from(position)].link_group;
    let of_group = |wanted| fitting.iter().copied().filter(move |&position| group(position) == wanted);
    let groups: BTreeSet<_> = fitting.iter().map(|&position| group(position)).collect();
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

    #[test]
    fn above_sixteen_devices_the_smallest_group_that_fits_is_taken() {
        let mut node = Node::new(NodeId::new("n").unwrap(), MilliCpu::ZERO, Mib::ZERO);
        let group = |index| Some(u16::from((1..=8).contains(&index)));
        node.gpus = (0..20).map(|index| Gpu::new(index, None, None)).collect();
        node.gpus.iter_mut().for_each(|gpu| gpu.link_group = group(gpu.index));
        let free: Vec<u16> = (0..20).collect();
        assert_eq!(choose(&free, 8, &node).as_slice(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(choose(&free, 13, &node).as_slice(), first_fit::choose(&free, 13).as_slice());
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
