//! A set of positions from which the k-th can be read: bits with counts over them.

/// A set of positions.
#[derive(Debug, Default)]
pub(super) struct Bits {
    words: Vec<u64>,
    /// Fenwick tree over the number of bits in each word.
    counts: Vec<u32>,
    total: usize,
}

impl Bits {
    pub(super) fn new(len: usize) -> Self {
        let words = len.div_ceil(64);
        Self { words: vec![0; words], counts: vec![0; words + 1], total: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.total
    }

    pub(super) fn has(&self, position: usize) -> bool {
        self.words[position / 64] & (1 << (position % 64)) != 0
    }

    pub(super) fn set(&mut self, position: usize, value: bool) {
        let (word, mask) = (position / 64, 1u64 << (position % 64));
        if (self.words[word] & mask != 0) == value {
            return;
        }
        self.words[word] ^= mask;
        self.total = if value { self.total + 1 } else { self.total - 1 };
        let mut at = word + 1;
        while at < self.counts.len() {
            self.counts[at] = if value { self.counts[at] + 1 } else { self.counts[at] - 1 };
            at += at & at.wrapping_neg();
        }
    }

    /// The position of the k-th member, counted from 0.
    pub(super) fn nth(&self, mut k: usize) -> Option<usize> {
        if k >= self.total {
            return None;
        }
        let mut at = 0;
        let mut step = self.counts.len().next_power_of_two() / 2;
        while step > 0 {
            let next = at + step;
            if next < self.counts.len() && (self.counts[next] as usize) <= k {
                k -= self.counts[next] as usize;
                at = next;
            }
            step /= 2;
        }
        let mut word = self.words[at];
        for _ in 0..k {
            word &= word - 1;
        }
        Some(at * 64 + word.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kth_member_is_found_after_any_changes() {
        let mut bits = Bits::new(1000);
        let mut plain = vec![false; 1000];
        let mut state = 12_345u64;
        for _ in 0..5000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (position, value) = ((state >> 33) as usize % 1000, state >> 63 == 0);
            bits.set(position, value);
            plain[position] = value;
        }
        let members: Vec<usize> = (0..1000).filter(|&position| plain[position]).collect();
        assert_eq!(bits.len(), members.len());
        for (k, &position) in members.iter().enumerate() {
            assert_eq!(bits.nth(k), Some(position));
        }
        assert_eq!(bits.nth(members.len()), None);
    }
}
