//! Sets of positions as ranges: what is folded, what completed, what failed.

use serde::{Deserialize, Serialize};

/// A set of positions. Ranges are half-open, ascending and never touch, so equal sets are equal bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(u32, u32)>", into = "Vec<(u32, u32)>")]
pub struct Ranges {
    parts: Vec<(u32, u32)>,
    count: u32,
}

impl From<Vec<(u32, u32)>> for Ranges {
    fn from(parts: Vec<(u32, u32)>) -> Self {
        let mut ranges = Self::default();
        parts.into_iter().for_each(|(from, to)| ranges.insert(from, to));
        ranges
    }
}

impl From<Ranges> for Vec<(u32, u32)> {
    fn from(ranges: Ranges) -> Self {
        ranges.parts
    }
}

impl Ranges {
    /// The positions from `from` up to, but without, `to`.
    pub fn new(from: u32, to: u32) -> Self {
        let mut ranges = Self::default();
        ranges.insert(from, to);
        ranges
    }

    pub fn one(position: u32) -> Self {
        Self::new(position, position.saturating_add(1))
    }

    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The ranges in order.
    pub fn parts(&self) -> &[(u32, u32)] {
        &self.parts
    }

    pub fn first(&self) -> Option<u32> {
        self.parts.first().map(|(from, _)| *from)
    }

    /// All positions in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.parts.iter().flat_map(|&(from, to)| from..to)
    }

    /// Whether a position is among them.
    pub fn contains(&self, position: u32) -> bool {
        let at = self.parts.partition_point(|&(_, to)| to <= position);
        self.parts.get(at).is_some_and(|&(from, _)| from <= position)
    }

    /// How many positions lie before one.
    pub fn before(&self, position: u32) -> u32 {
        let parts = self.parts.iter().take_while(|(from, _)| *from < position);
        parts.map(|&(from, to)| to.min(position) - from).sum()
    }

    pub fn insert(&mut self, from: u32, to: u32) {
        if from >= to {
            return;
        }
        // Everything that overlaps the new range or touches it becomes one with it.
        let first = self.parts.partition_point(|&(_, end)| end < from);
        let last = self.parts.partition_point(|&(start, _)| start <= to);
        let (mut low, mut high) = (from, to);
        if let (Some(head), Some(tail)) =
            (self.parts.get(first), last.checked_sub(1).map(|at| self.parts[at]))
            && first < last
        {
            (low, high) = (low.min(head.0), high.max(tail.1));
        }
        let taken: u32 = self.parts[first..last].iter().map(|(start, end)| end - start).sum();
        self.parts.splice(first..last, [(low, high)]);
        self.count = self.count - taken + (high - low);
    }

    /// Adds all of another set.
    pub fn extend(&mut self, other: &Self) {
        other.parts.iter().for_each(|&(from, to)| self.insert(from, to));
    }

    /// Takes a range out.
    pub fn remove(&mut self, from: u32, to: u32) {
        let first = self.parts.partition_point(|&(_, end)| end <= from);
        let last = self.parts.partition_point(|&(start, _)| start < to);
        if from >= to || first >= last {
            return;
        }
        let taken: u32 =
            self.parts[first..last].iter().map(|&(start, end)| end.min(to) - start.max(from)).sum();
        let (head, tail) = (self.parts[first], self.parts[last - 1]);
        let left = (head.0 < from).then_some((head.0, from));
        let right = (tail.1 > to).then_some((to, tail.1));
        self.parts.splice(first..last, left.into_iter().chain(right));
        self.count -= taken;
    }

    /// Takes all of another set out.
    pub fn subtract(&mut self, other: &Self) {
        other.parts.iter().for_each(|&(from, to)| self.remove(from, to));
    }

    /// The first positions, at most so many.
    pub fn head(&self, most: u32) -> Self {
        let mut head = Self::default();
        for &(from, to) in &self.parts {
            let room = most - head.count;
            if room == 0 {
                break;
            }
            head.insert(from, to.min(from.saturating_add(room)));
        }
        head
    }

    /// What both sets have.
    pub fn both(&self, other: &Self) -> Self {
        let mut both = Self::default();
        for &(from, to) in &self.parts {
            let start = other.parts.partition_point(|&(_, end)| end <= from);
            for &(begin, end) in other.parts[start..].iter().take_while(|(begin, _)| *begin < to) {
                both.insert(begin.max(from), end.min(to));
            }
        }
        both
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(ranges: &Ranges) -> BTreeSet<u32> {
        ranges.iter().collect()
    }

    proptest! {
        #[test]
        fn ranges_are_sets(steps in prop::collection::vec((any::<bool>(), 0u32..40, 0u32..12), 0..40)) {
            let (mut ranges, mut plain) = (Ranges::default(), BTreeSet::new());
            for (adds, from, length) in steps {
                if adds {
                    ranges.insert(from, from + length);
                    plain.extend(from..from + length);
                } else {
                    ranges.remove(from, from + length);
                    plain.retain(|at| !(from..from + length).contains(at));
                }
                prop_assert_eq!(&set(&ranges), &plain);
                prop_assert_eq!(ranges.len() as usize, plain.len());
                prop_assert!(ranges.parts().windows(2).all(|pair| pair[0].1 < pair[1].0));
                for at in 0..60 {
                    prop_assert_eq!(ranges.contains(at), plain.contains(&at));
                    prop_assert_eq!(ranges.before(at) as usize, plain.range(..at).count());
                }
                prop_assert_eq!(set(&ranges.head(5)), plain.iter().copied().take(5).collect::<BTreeSet<_>>());
                prop_assert_eq!(&Ranges::from(Vec::from(ranges.clone())), &ranges);
            }
        }

        #[test]
        fn both_is_the_intersection(
            a in prop::collection::vec((0u32..40, 0u32..8), 0..8),
            b in prop::collection::vec((0u32..40, 0u32..8), 0..8),
        ) {
            let of = |parts: Vec<(u32, u32)>| Ranges::from(
                parts.into_iter().map(|(from, length)| (from, from + length)).collect::<Vec<_>>());
            let (a, b) = (of(a), of(b));
            prop_assert_eq!(set(&a.both(&b)), set(&a).intersection(&set(&b)).copied().collect::<BTreeSet<_>>());
        }
    }
}
