//! Which of so many things are free: one bit each, and their number.

/// A set of small numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Bits {
    words: Vec<u64>,
    count: usize,
}

impl Bits {
    /// All numbers below `len`.
    pub(super) fn full(len: usize) -> Self {
        let mut words = vec![u64::MAX; len.div_ceil(64)];
        if let Some(last) = words.last_mut().filter(|_| !len.is_multiple_of(64)) {
            *last = (1 << (len % 64)) - 1;
        }
        Self { words, count: len }
    }

    /// None of the numbers below `len`.
    pub(super) fn empty(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)], count: 0 }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn contains(&self, number: usize) -> bool {
        self.words.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Puts a number in or takes it out, and says whether that changed anything.
    pub(super) fn set(&mut self, number: usize, present: bool) -> bool {
        if self.contains(number) == present {
            return false;
        }
        let Some(word) = self.words.get_mut(number / 64) else { return false };
        *word ^= 1 << (number % 64);
        self.count = if present { self.count + 1 } else { self.count - 1 };
        true
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(place, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                if left == 0 {
                    return None;
                }
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                Some(place * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_in_and_out() {
        let mut bits = Bits::full(130);
        assert_eq!((bits.count(), bits.iter().count(), bits.contains(130)), (130, 130, false));
        assert!(bits.set(64, false) && !bits.set(64, false) && bits.set(129, false));
        assert_eq!(bits.iter().skip(62).take(3).collect::<Vec<_>>(), [62, 63, 65]);
        assert_eq!(bits.count(), 128);
        let mut none = Bits::empty(3);
        assert!(none.set(2, true));
        assert_eq!(none.iter().collect::<Vec<_>>(), [2]);
    }
}
