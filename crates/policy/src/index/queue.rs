//! A queue ordered by waiting time that can tell the first by tie-break among its longest waiters.
//!
//! Entries lie in chunks sorted by time; each chunk knows its smallest tie-break. Inserting and removing touch one chunk,
//! and the smallest tie-break of a prefix is read from the chunks' summaries.
//!
//! Ids are mostly given in the order in which jobs come. So chunks and queue count where a later waiter goes before an
//! earlier one by tie-break; while that is nowhere, the first by tie-break is the head, and no entry has to be looked at.

use std::collections::VecDeque;

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

    pub(super) fn tie_order(&self) -> (i64, &JobId) {
        (self.tie, &self.id)
    }
}

/// 1 if the second goes before the first by tie-break, though it came later.
fn falls(earlier: Option<&Waiting>, later: Option<&Waiting>) -> usize {
    let fall = earlier.zip(later).is_some_and(|(earlier, later)| later.tie_order() < earlier.tie_order());
    usize::from(fall)
}

#[derive(Debug, Default)]
pub(super) struct WaitQueue {
    chunks: Vec<Chunk>,
    len: usize,
    /// Neighbours of all chunks, one after the other, of which the later goes first by tie-break.
    falls: usize,
}

#[derive(Debug, Default)]
struct Chunk {
    entries: VecDeque<Waiting>,
    /// Position of the smallest tie-break.
    first: usize,
    /// Neighbours in here of which the later goes first by tie-break.
    falls: usize,
}

impl Chunk {
    fn of(entries: VecDeque<Waiting>) -> Self {
        let mut chunk = Self { entries, first: 0, falls: 0 };
        chunk.count();
        chunk
    }

    fn count(&mut self) {
        let later = self.entries.iter().skip(1);
        self.falls = self.entries.iter().zip(later).map(|(a, b)| falls(Some(a), Some(b))).sum();
        self.find_first();
    }

    fn find_first(&mut self) {
        self.first = if self.falls == 0 { 0 } else { first_by_tie(self.entries.iter()).unwrap_or(0) };
    }

    fn neighbours(&self, at: usize) -> (Option<&Waiting>, Option<&Waiting>) {
        (at.checked_sub(1).and_then(|before| self.entries.get(before)), self.entries.get(at))
    }

    fn insert(&mut self, at: usize, waiting: Waiting) {
        let (before, after) = self.neighbours(at);
        let more = falls(before, Some(&waiting)) + falls(Some(&waiting), after);
        self.falls = self.falls + more - falls(before, after);
        if waiting.tie_order() < self.entries[self.first].tie_order() {
            self.first = at;
        } else if at <= self.first {
            self.first += 1;
        }
        self.entries.insert(at, waiting);
    }

    fn remove(&mut self, at: usize) -> Option<Waiting> {
        let gone = self.entries.remove(at)?;
        let (before, after) = self.neighbours(at);
        let fewer = falls(before, Some(&gone)) + falls(Some(&gone), after);
        self.falls = self.falls + falls(before, after) - fewer;
        if at == self.first {
            self.find_first();
        } else if at < self.first {
            self.first -= 1;
        }
        Some(gone)
    }

    /// Gives away the later half.
    fn split(&mut self) -> Self {
        let rest = Self::of(self.entries.split_off(self.entries.len() / 2));
        self.entries.shrink_to_fit();
        self.count();
        rest
    }

    /// The first by tie-break of so many entries from the head on, but for one that is left out.
    fn first_of(&self, prefix: usize, without: Option<u32>) -> Option<&Waiting> {
        let first = self.entries.get(self.first).filter(|first| Some(first.slot) != without);
        if let Some(first) = first.filter(|_| self.first < prefix) {
            return Some(first);
        }
        let others = self.entries.range(..prefix).filter(|entry| Some(entry.slot) != without);
        others.min_by(|a, b| a.tie_order().cmp(&b.tie_order()))
    }
}

fn first_by_tie<'a>(entries: impl Iterator<Item = &'a Waiting>) -> Option<usize> {
    entries.enumerate().min_by(|(_, a), (_, b)| a.tie_order().cmp(&b.tie_order())).map(|(at, _)| at)
}

impl WaitQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn head(&self) -> Option<&Waiting> {
        self.chunks.first()?.entries.front()
    }

    /// The head, and who waits longest behind it.
    fn heads(&self) -> impl Iterator<Item = &Waiting> {
        self.chunks.iter().take(2).flat_map(|chunk| chunk.entries.iter().take(2)).take(2)
    }

    /// Who waits longest, but for one that is left out.
    pub(super) fn head_without(&self, without: u32) -> Option<&Waiting> {
        self.heads().find(|waiting| waiting.slot != without)
    }

    /// All waiters, longest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.chunks.iter().flat_map(|chunk| &chunk.entries)
    }

    /// The chunk in which an entry is or would be, unless it comes before all.
    fn chunk_of(&self, waiting: &Waiting) -> Option<usize> {
        self.chunks.partition_point(|chunk| chunk.entries[0].order() <= waiting.order()).checked_sub(1)
    }

    /// The entries on both sides of a position.
    fn neighbours(&self, at_chunk: usize, at: usize) -> (Option<&Waiting>, Option<&Waiting>) {
        let (before, after) = self.chunks[at_chunk].neighbours(at);
        let chunk = |number: Option<usize>| self.chunks.get(number?);
        let before = before.or_else(|| chunk(at_chunk.checked_sub(1))?.entries.back());
        (before, after.or_else(|| chunk(at_chunk.checked_add(1))?.entries.front()))
    }

    pub(super) fn insert(&mut self, waiting: Waiting) {
        self.len += 1;
        let Some(mut at_chunk) = self.chunk_of(&waiting).or((!self.chunks.is_empty()).then_some(0)) else {
            self.chunks.push(Chunk::of([waiting].into()));
            return;
        };
        let mut at = self.chunks[at_chunk].entries.partition_point(|entry| entry.order() < waiting.order());
        let (before, after) = self.neighbours(at_chunk, at);
        let more = falls(before, Some(&waiting)) + falls(Some(&waiting), after);
        self.falls = self.falls + more - falls(before, after);
        if self.chunks[at_chunk].entries.len() == CHUNK_MAX {
            // Jobs mostly come in the order of their times: a full chunk that ends before the new one stays full.
            if at == CHUNK_MAX {
                self.chunks.insert(at_chunk + 1, Chunk::of([waiting].into()));
                return;
            }
            let rest = self.chunks[at_chunk].split();
            self.chunks.insert(at_chunk + 1, rest);
            let half = self.chunks[at_chunk].entries.len();
            if at > half {
                (at_chunk, at) = (at_chunk + 1, at - half);
            }
        }
        self.chunks[at_chunk].insert(at, waiting);
    }

    /// Removes an entry; whether it was there.
    pub(super) fn remove(&mut self, waiting: &Waiting) -> bool {
        let Some(at_chunk) = self.chunk_of(waiting) else { return false };
        let chunk = &mut self.chunks[at_chunk];
        let Ok(at) = chunk.entries.binary_search_by(|entry| entry.order().cmp(&waiting.order())) else {
            return false;
        };
        let Some(gone) = chunk.remove(at) else { return false };
        self.len -= 1;
        let (before, after) = self.neighbours(at_chunk, at);
        let fewer = falls(before, Some(&gone)) + falls(Some(&gone), after);
        self.falls = self.falls + falls(before, after) - fewer;
        if self.chunks[at_chunk].entries.is_empty() {
            self.chunks.remove(at_chunk);
        }
        true
    }

    /// Of the waiters from the head on for which `equal` holds, the first by tie-break, but for one that is left out.
    /// `equal` holds for a prefix of the others.
    pub(super) fn first_of_prefix(
        &self,
        without: Option<u32>,
        equal: impl Fn(&Waiting) -> bool,
    ) -> Option<&Waiting> {
        if self.falls == 0 {
            return self.heads().find(|waiting| Some(waiting.slot) != without).filter(|first| equal(first));
        }
        let in_prefix = |waiting: &Waiting| Some(waiting.slot) == without || equal(waiting);
        let touched = self.chunks.partition_point(|chunk| in_prefix(&chunk.entries[0]));
        let (whole, last) = self.chunks[..touched].split_at(touched.checked_sub(1)?);
        let prefix = last[0].entries.partition_point(in_prefix);
        let in_whole = whole.iter().filter_map(|chunk| chunk.first_of(chunk.entries.len(), without));
        in_whole.chain(last[0].first_of(prefix, without)).min_by(|a, b| a.tie_order().cmp(&b.tie_order()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries come and go; ids and times are drawn, or rise as on a server with few exceptions.
    fn any_changes(one_drawn_in: u64) {
        let mut queue = WaitQueue::default();
        let mut plain: Vec<Waiting> = Vec::new();
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let mut ordered = 0;
        for step in 0..20_000u32 {
            if next() % 3 != 0 || plain.is_empty() {
                let rises = next() % one_drawn_in != 0;
                let waiting = Waiting {
                    since: if rises { i64::from(step / 400) } else { (next() % 50) as i64 },
                    tie: if rises { 0 } else { (next() % 3) as i64 },
                    id: JobId::new(&format!("j{:012}", if rises { u64::from(step) } else { next() }))
                        .unwrap(),
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
                let first_but = |without: Option<u32>| {
                    let others = plain.iter().filter(|w| w.since <= until && Some(w.slot) != without);
                    others.min_by(|a, b| a.tie_order().cmp(&b.tie_order()))
                };
                let first = queue.first_of_prefix(None, |w| w.since <= until);
                assert_eq!(first, first_but(None));
                let without = first.map(|first| first.slot);
                assert_eq!(queue.first_of_prefix(without, |w| w.since <= until), first_but(without));
                let head = plain.iter().min_by(|a, b| a.order().cmp(&b.order()));
                assert_eq!(queue.head(), head);
                let without = head.map(|head| head.slot);
                let behind_head = |w: &Waiting| w.since <= until && Some(w.slot) != without;
                assert_eq!(queue.first_of_prefix(without, behind_head), first_but(without));
                let behind = |slot| plain.iter().filter(move |w| w.slot != slot);
                let next = |slot| behind(slot).min_by(|a, b| a.order().cmp(&b.order()));
                assert_eq!(
                    head.and_then(|head| queue.head_without(head.slot)),
                    head.and_then(|head| next(head.slot))
                );
                assert_eq!(queue.is_empty(), plain.is_empty());
                let falls = queue.iter().zip(queue.iter().skip(1));
                assert_eq!(queue.falls, falls.map(|(a, b)| super::falls(Some(a), Some(b))).sum::<usize>());
                ordered += usize::from(queue.falls == 0);
            }
        }
        assert_eq!(one_drawn_in == u64::MAX, ordered > 390, "{ordered} of 400");
    }

    #[test]
    fn any_changes_keep_order_and_summaries() {
        any_changes(1);
        any_changes(1000);
        any_changes(u64::MAX);
    }
}
