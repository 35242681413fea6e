//! Draws of tests and benchmarks: a seed means the same world on every machine.

use landfall_replay::trace::random::Random;

/// A stream of draws.
#[derive(Debug, Clone)]
pub struct Rng(Random);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    pub fn word(&mut self) -> u64 {
        self.0.word()
    }

    /// 0 to `bound` - 1. The remainder, not the high half that `Random` takes: seeds of tests are old, and their worlds
    /// stay as they are.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound.max(1)
    }

    /// `from` to `to`, both included.
    pub fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// A place in something so long.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True in so many of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// True in one of `n` cases.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.index(n) == 0
    }

    /// One of several; there must be one.
    pub fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { from.get(self.index(from.len())).cloned() }
    }
}
