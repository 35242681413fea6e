//! A queue ordered by waiting time that can tell the first by tie-break among its longest waiters.
//!
//! Entries lie in chunks sorted by time; each chunk knows its smallest tie-break. Inserting and removing touch one chunk,
//! and the smallest tie-break of a prefix is read from the chunks' summaries.

use landfall_model::JobId;

/// A chunk never grows above this size.
const CHUNK_MAX: usize = 512;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Since when it waits, in ms.
    pub(super) since: i64,
    /// What decides between equal totals, before the id.
    pub(super) tie: i64,
    pub(super) id: JobId,
    /// Where it is stored.
    pub(super) slot: u32,
}

impl Waiting {
    fn order(&self) -> (i64, i64, &JobId) {
        (self.since, self.tie, &self.id)
    }

    fn tie_order(&self) -> (i64, &JobId) {
        (self.tie, &self.id)
    }
}

#[derive(Debug, Default)]
pub(super) struct WaitQueue {
    chunks: Vec<Chunk>,
    len: usize,
}

#[derive(Debug, Default)]
struct Chunk {
    entries: Vec<Waiting>,
    /// Position of the smallest tie-break.
    first: usize,
}

impl Chunk {
    fn of(entries: Vec<Waiting>) -> Self {
        let mut chunk = Self { entries, first: 0 };
        chunk.find_first();
        chunk
    }

    fn find_first(&mut self) {
        self.first = first_by_tie(&self.entries).unwrap_or(0);
    }

    fn insert(&mut self, waiting: Waiting) {
        let at = self.entries.partition_point(|entry| entry.order() < waiting.order());
        if waiting.tie_order() < self.entries[self.first].tie_order() {
            self.first = at;
        } else if at <= self.first {
            self.first += 1;
        }
        self.entries.insert(at, waiting);
    }

    /// Gives away the later half.
    fn split(&mut self) -> Self {
        let rest = Self::of(self.entries.split_off(self.entries.len() / 2));
        self.entries.shrink_to_fit();
        self.find_first();
        rest
    }
}

fn first_by_tie(entries: &[Waiting]) -> Option<usize> {
    (0..entries.len()).min_by(|&a, &b| entries[a].tie_order().cmp(&entries[b].tie_order()))
}

impl WaitQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn head(&self) -> Option<&Waiting> {
        self.chunks.first()?.entries.first()
    }

    /// All waiters, longest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.chunks.iter().flat_map(|chunk| &chunk.entries)
    }

    pub(super) fn insert(&mut self, waiting: Waiting) {
        self.len += 1;
        if self.chunks.is_empty() {
            self.chunks.push(Chunk::of(vec![waiting]));
            return;
        }
        let after = self.chunks.partition_point(|chunk| chunk.entries[0].order() <= waiting.order());
        let mut at_chunk = after.saturating_sub(1);
        if self.chunks[at_chunk].entries.len() == CHUNK_MAX {
            // Jobs mostly come in the order of their times: a full chunk that ends before the new one stays full.
            if self.chunks[at_chunk].entries[CHUNK_MAX - 1].order() < waiting.order() {
                self.chunks.insert(at_chunk + 1, Chunk::of(vec![waiting]));
                return;
            }
            let rest = self.chunks[at_chunk].split();
            let in_rest = rest.entries[0].order() <= waiting.order();
            self.chunks.insert(at_chunk + 1, rest);
            at_chunk += usize::from(in_rest);
        }
        self.chunks[at_chunk].insert(waiting);
    }

    /// Removes an entry; whether it was there.
    pub(super) fn remove(&mut self, waiting: &Waiting) -> bool {
        let after = self.chunks.partition_point(|chunk| chunk.entries[0].order() <= waiting.order());
        let Some(at_chunk) = after.checked_sub(1) else { return false };
        let chunk = &mut self.chunks[at_chunk];
        let Ok(at) = chunk.entries.binary_search_by(|entry| entry.order().cmp(&waiting.order())) else {
            return false;
        };
        chunk.entries.remove(at);
        self.len -= 1;
        if chunk.entries.is_empty() {
            self.chunks.remove(at_chunk);
        } else if at == chunk.first {
            chunk.find_first();
        } else if at < chunk.first {
            chunk.first -= 1;
        }
        true
    }

    /// Of the waiters from the head on for which `equal` holds, the first by tie-break. `equal` holds for a prefix.
    pub(super) fn first_of_prefix(&self, equal: impl Fn(&Waiting) -> bool) -> Option<&Waiting> {
        let touched = self.chunks.partition_point(|chunk| equal(&chunk.entries[0]));
        let (whole, last) = self.chunks[..touched].split_at(touched.checked_sub(1)?);
        let last = &last[0].entries;
        let prefix = &last[..last.partition_point(|entry| equal(entry))];
        let in_whole = whole.iter().map(|chunk| &chunk.entries[chunk.first]);
        let in_last = first_by_tie(prefix).map(|at| &prefix[at]);
        in_whole.chain(in_last).min_by(|a, b| a.tie_order().cmp(&b.tie_order()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changes_keep_order_and_summaries() {
        let mut queue = WaitQueue::default();
        let mut plain: Vec<Waiting> = Vec::new();
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        for step in 0..20_000u32 {
            if next() % 3 != 0 || plain.is_empty() {
                let waiting = Waiting {
                    since: (next() % 50) as i64,
                    tie: (next() % 3) as i64,
                    id: JobId::new(&format!("j{}", next())).unwrap(),
                    slot: step,
                };
                queue.insert(waiting.clone());
                plain.push(waiting);
            } else {
                let gone = plain.swap_remove((next() as usize) % plain.len());
                assert!(queue.remove(&gone));
                assert!(!queue.remove(&gone));
            }
            let until = (next() % 50) as i64;
            if step % 50 == 0 {
                let want = plain
                    .iter()
                    .filter(|w| w.since <= until)
                    .min_by(|a, b| a.tie_order().cmp(&b.tie_order()));
                assert_eq!(queue.first_of_prefix(|w| w.since <= until), want);
                assert_eq!(queue.head(), plain.iter().min_by(|a, b| a.order().cmp(&b.order())));
                assert_eq!(queue.is_empty(), plain.is_empty());
            }
        }
    }
}
