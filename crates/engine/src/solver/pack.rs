//! How a number of nodes is packed into groups: tightly, spread out, or in any order.
//!
//! Nodes come as [`Offer`]s: so many of a kind, the lowest ids first. A packed set takes a number of each offer, always
//! its first nodes, so counts are enough; ids are looked at only where kinds that are equally liked compete for the
//! last places of a group.

use std::collections::BTreeSet;

use super::fleet::Slot;

/// Usable nodes of one kind, or one node open to sharing.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) kind: usize,
    pub(super) count: u32,
    /// The node, if it is one that is open to sharing.
    pub(super) shared: Option<Slot>,
    pub(super) group: u32,
    pub(super) own: bool,
    pub(super) fingerprint: Option<u32>,
    /// Place in the order of preference; equal for kinds between which only ids decide.
    pub(super) rank: u32,
    /// The same with extra power before all else.
    pub(super) power_rank: u32,
    pub(super) locality: f64,
    pub(super) power: u64,
}

/// How many nodes of which offers, by place in the list of offers, ascending.
pub(super) type Counts = Vec<(usize, u32)>;

/// The nodes of an offer in the order of ids, at least the first `count`.
pub(super) type Ids<'a> = &'a dyn Fn(&Offer, u32) -> Vec<Slot>;

/// What is packed from: some of the offers, and which of the two orders of preference holds.
pub(super) struct From<'a> {
    pub(super) offers: &'a [Offer],
    /// Places of the offers packed from.
    pub(super) of: &'a [usize],
    pub(super) power_first: bool,
    pub(super) ids: Ids<'a>,
}

impl From<'_> {
    fn rank(&self, place: usize) -> u32 {
        let offer = &self.offers[place];
        if self.power_first { offer.power_rank } else { offer.rank }
    }

    /// The first `wanted` nodes in the order of preference among some offers.
    fn first(&self, mut places: Vec<usize>, wanted: u32, into: &mut Counts) {
        places.sort_by_key(|&place| (self.rank(place), place));
        let mut left = wanted;
        let mut rest = places.as_slice();
        while left > 0 && !rest.is_empty() {
            let alike = rest.iter().take_while(|&&place| self.rank(place) == self.rank(rest[0])).count();
            let (run, later) = rest.split_at(alike);
            let total: u32 = run.iter().map(|&place| self.offers[place].count).sum();
            if total <= left || run.len() == 1 {
                for &place in run {
                    let taken = self.offers[place].count.min(left);
                    into.push((place, taken));
                    left -= taken;
                }
            } else {
                let mut ids: Vec<(Slot, usize)> = Vec::new();
                for &place in run {
                    let offer = &self.offers[place];
                    let slots = (self.ids)(offer, offer.count.min(left));
                    ids.extend(slots.into_iter().take(left as usize).map(|slot| (slot, place)));
                }
                ids.sort_unstable();
                ids.truncate(left as usize);
                for &place in run {
                    let taken = ids.iter().filter(|(_, of)| *of == place).count() as u32;
                    if taken > 0 {
                        into.push((place, taken));
                    }
                }
                left = 0;
            }
            rest = later;
        }
    }

    /// Groups in the order of ids, each with its size and its offers.
    fn groups(&self) -> Vec<(u32, u32, Vec<usize>)> {
        let mut sorted: Vec<usize> = self.of.to_vec();
        sorted.sort_by_key(|&place| (self.offers[place].group, place));
        let mut groups: Vec<(u32, u32, Vec<usize>)> = Vec::new();
        for place in sorted {
            let offer = &self.offers[place];
            match groups.last_mut().filter(|last| last.0 == offer.group) {
                Some(last) => {
                    last.1 = last.1.saturating_add(offer.count);
                    last.2.push(place);
                }
                None => groups.push((offer.group, offer.count, vec![place])),
            }
        }
        groups
    }

    fn total(&self) -> u64 {
        self.of.iter().map(|&place| u64::from(self.offers[place].count)).sum()
    }
}

fn finish(mut counts: Counts) -> Counts {
    counts.retain(|&(_, count)| count > 0);
    counts.sort_unstable();
    counts
}

/// In few groups: the fewest that hold the nodes; all but the last one whole.
pub(super) fn tight(from: &From<'_>, wanted: u32) -> Option<Counts> {
    if from.total() < u64::from(wanted) {
        return None;
    }
    let groups = from.groups();
    let mut counts = Counts::new();
    // One group will do: the smallest of those.
    if let Some(one) = groups.iter().filter(|group| group.1 >= wanted).min_by_key(|group| (group.1, group.0))
    {
        from.first(one.2.clone(), wanted, &mut counts);
        return Some(finish(counts));
    }
    let mut sizes: Vec<u32> = groups.iter().map(|group| group.1).collect();
    sizes.sort_unstable_by_key(|&size| std::cmp::Reverse(size));
    let mut held = 0u64;
    let fewest = sizes.iter().take_while(|&&size| {
        let short = held < u64::from(wanted);
        held += u64::from(size);
        short
    });
    let whole = fewest.count() - 1;
    let mut taken: BTreeSet<u32> = BTreeSet::new();
    let is_near = |taken: &BTreeSet<u32>, group: u32| {
        taken.contains(&(group + 1)) || group.checked_sub(1).is_some_and(|below| taken.contains(&below))
    };
    // The largest ones whole. Those above the last size are all taken; of that size, neighbours of what is taken first.
    let last_size = sizes[whole - 1];
    let mut left = wanted;
    let mut take = |place: usize, taken: &mut BTreeSet<u32>, counts: &mut Counts| {
        let group = &groups[place];
        counts.extend(group.2.iter().map(|&offer| (offer, from.offers[offer].count)));
        left -= group.1;
        taken.insert(group.0);
    };
    let mut used = vec![false; groups.len()];
    for place in 0..groups.len() {
        if groups[place].1 > last_size {
            take(place, &mut taken, &mut counts);
            used[place] = true;
        }
    }
    let mut same: BTreeSet<(u32, usize)> = BTreeSet::new();
    let mut near: BTreeSet<(u32, usize)> = BTreeSet::new();
    for (place, group) in groups.iter().enumerate().filter(|(_, group)| group.1 == last_size) {
        same.insert((group.0, place));
        if is_near(&taken, group.0) {
            near.insert((group.0, place));
        }
    }
    while taken.len() < whole {
        let Some(&(group, place)) = near.first().or(same.first()) else { break };
        near.remove(&(group, place));
        same.remove(&(group, place));
        take(place, &mut taken, &mut counts);
        used[place] = true;
        let beside = [place.checked_sub(1), Some(place + 1)].into_iter().flatten();
        for next in beside.filter(|&next| next < groups.len()) {
            let entry = (groups[next].0, next);
            if groups[next].0.abs_diff(group) == 1 && same.contains(&entry) {
                near.insert(entry);
            }
        }
    }
    let rest = groups.iter().enumerate().filter(|(place, group)| !used[*place] && group.1 >= left);
    let (_, last) = rest.min_by_key(|(_, group)| (group.1, !is_near(&taken, group.0), group.0))?;
    from.first(last.2.clone(), left, &mut counts);
    Some(finish(counts))
}

/// In many groups: one node at a time to the group with the fewest.
pub(super) fn spread(from: &From<'_>, wanted: u32) -> Option<Counts> {
    if from.total() < u64::from(wanted) {
        return None;
    }
    let groups = from.groups();
    // All groups are filled to the same level as far as they go; the rest goes to the first that have more.
    let filled = |level: u32| groups.iter().map(|group| u64::from(group.1.min(level))).sum::<u64>();
    let (mut low, mut high) = (0, wanted);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if filled(middle) <= u64::from(wanted) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    let mut rest = u64::from(wanted).saturating_sub(filled(low));
    let mut counts = Counts::new();
    for group in &groups {
        let more = rest > 0 && group.1 > low;
        rest -= u64::from(more);
        from.first(group.2.clone(), group.1.min(low) + u32::from(more), &mut counts);
    }
    Some(finish(counts))
}

/// The first nodes in the order of preference, wherever they lie.
pub(super) fn any(from: &From<'_>, wanted: u32) -> Option<Counts> {
    if from.total() < u64::from(wanted) {
        return None;
    }
    let mut counts = Counts::new();
    from.first(from.of.to_vec(), wanted, &mut counts);
    Some(finish(counts))
}
