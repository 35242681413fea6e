//! Entries in order of their keys: few sorted runs and a small heap of recent ones.
//!
//! An index gets new entries all the time and loses the best ones, and of the many in between it hardly ever needs any. A
//! single heap of all nodes would touch cold memory at every level for each of these. Here the best of a run is its last
//! entry, so taking it is free; new entries go to a small heap that becomes a run when it is full, and runs of similar
//! size are merged, which drops entries that no longer stand for anything. Everything large is read in sequence.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Recent entries kept in the heap.
const RECENT_MAX: usize = 1024;
/// A run is merged with the one before unless that is so many times as long.
const RATIO: usize = 4;

/// Entries whose smallest can be read and taken.
#[derive(Debug)]
pub(super) struct Runs<T> {
    recent: BinaryHeap<Reverse<T>>,
    /// Each with its smallest entry last; longer runs before shorter ones.
    sorted: Vec<Vec<T>>,
}

/// Where the smallest entry lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Recent,
    Run(usize),
}

impl<T: Ord + Copy> Runs<T> {
    pub(super) fn new() -> Self {
        Self { recent: BinaryHeap::new(), sorted: Vec::new() }
    }

    pub(super) fn reset(&mut self, mut entries: Vec<T>) {
        entries.sort_unstable_by(|a, b| b.cmp(a));
        self.recent.clear();
        self.sorted = vec![entries];
    }

    pub(super) fn push(&mut self, entry: T) {
        self.recent.push(Reverse(entry));
    }

    pub(super) fn first(&self) -> Option<T> {
        self.place().map(|(entry, _)| entry)
    }

    /// Takes the smallest entry out.
    pub(super) fn take_first(&mut self) {
        match self.place() {
            Some((_, Place::Recent)) => {
                self.recent.pop();
            }
            Some((_, Place::Run(at))) => {
                self.sorted[at].pop();
            }
            None => {}
        }
    }

    fn place(&self) -> Option<(T, Place)> {
        let recent = self.recent.peek().map(|Reverse(entry)| (*entry, Place::Recent));
        let runs =
            self.sorted.iter().enumerate().filter_map(|(at, run)| Some((*run.last()?, Place::Run(at))));
        runs.chain(recent).min_by(|a, b| a.0.cmp(&b.0))
    }

    /// Turns a full heap into a run and merges runs of similar size; entries that are not `current` are dropped.
    pub(super) fn tidy(&mut self, current: impl Fn(&T) -> bool) {
        if self.recent.len() <= RECENT_MAX {
            return;
        }
        let mut run: Vec<T> =
            self.recent.drain().map(|Reverse(entry)| entry).filter(|entry| current(entry)).collect();
        run.sort_unstable_by(|a, b| b.cmp(a));
        while let Some(before) = self.sorted.pop_if(|before| before.len() < RATIO * run.len()) {
            run = merge(&before, &run, &current);
        }
        self.sorted.push(run);
    }
}

/// Merges two runs, largest entries first.
fn merge<T: Ord + Copy>(a: &[T], b: &[T], current: impl Fn(&T) -> bool) -> Vec<T> {
    let mut merged = Vec::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    loop {
        let next = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) if x >= y => a.next(),
            (_, Some(_)) => b.next(),
            (Some(_), None) => a.next(),
            (None, None) => return merged,
        };
        merged.extend(next.copied().filter(|entry| current(entry)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_entry_is_found_after_any_changes() {
        let mut runs = Runs::new();
        runs.reset((0..5000).map(|x| (x * 7919) % 100_003).collect());
        let mut plain: std::collections::BTreeSet<u64> = (0..5000).map(|x| (x * 7919) % 100_003).collect();
        let mut state = 9u64;
        for step in 0..40_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if state >> 62 == 0 {
                runs.take_first();
                plain.pop_first();
            } else {
                let value = (state >> 20) * 50_000 + step;
                runs.push(value);
                plain.insert(value);
            }
            runs.tidy(|_| true);
            assert_eq!(runs.first(), plain.first().copied());
        }
        assert!(runs.sorted.len() <= 6, "{}", runs.sorted.len());
    }

    #[test]
    fn entries_that_stand_for_nothing_are_dropped_when_runs_merge() {
        let mut runs = Runs::new();
        runs.reset((0..100).collect());
        for value in 0..2 * RECENT_MAX as u64 {
            runs.push(value);
            runs.tidy(|value| value % 2 == 0);
        }
        let kept: usize = runs.sorted.iter().map(Vec::len).sum();
        assert!(kept <= 50 + RECENT_MAX, "{kept}");
    }
}
