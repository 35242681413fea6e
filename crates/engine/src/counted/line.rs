//! Waiting jobs in an order, in blocks that know their smallest and shortest job.
//!
//! A walk asks for jobs that fit into so many units and end in time; blocks in which none can are passed over, so a walk
//! over thousands of waiting jobs looks at few of them.

use super::planner::Ticket;

/// Most jobs in a block.
const BLOCK: usize = 96;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its place in the order; the ticket decides between equals.
    pub(super) key: i64,
    pub(super) ticket: Ticket,
    pub(super) units: u32,
    /// How long it may hold them, in milliseconds.
    pub(super) duration: i64,
}

impl Entry {
    fn place(&self) -> (i64, Ticket) {
        (self.key, self.ticket)
    }
}

#[derive(Debug, Clone)]
struct Block {
    jobs: Vec<Entry>,
    fewest: u32,
    shortest: i64,
}

impl Block {
    fn of(jobs: Vec<Entry>) -> Self {
        let mut block = Self { jobs, fewest: 0, shortest: 0 };
        block.sum_up();
        block
    }

    fn sum_up(&mut self) {
        self.fewest = self.jobs.iter().map(|job| job.units).min().unwrap_or(u32::MAX);
        self.shortest = self.jobs.iter().map(|job| job.duration).min().unwrap_or(i64::MAX);
    }
}

/// What a job must keep to if it is to start out of turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    pub(super) free: u32,
    /// Units free also when the head starts.
    pub(super) extra: u32,
    /// Time until the head starts, in milliseconds.
    pub(super) room: i64,
}

impl Gap {
    fn admits(self, units: u32, duration: i64) -> bool {
        units <= self.free && (duration <= self.room || units <= self.extra)
    }

    fn take(&mut self, job: &Entry) {
        self.free -= job.units;
        if job.duration > self.room {
            self.extra -= job.units;
        }
    }
}

/// Waiting jobs in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    blocks: Vec<Block>,
}

impl Line {
    pub(super) fn first(&self) -> Option<&Entry> {
        self.blocks.first()?.jobs.first()
    }

    pub(super) fn insert(&mut self, entry: Entry) {
        let last = self.blocks.len().saturating_sub(1);
        let at = self.block_of(entry.place()).min(last);
        let Some(block) = self.blocks.get_mut(at) else {
            self.blocks.push(Block::of(vec![entry]));
            return;
        };
        let place = block.jobs.partition_point(|job| job.place() < entry.place());
        // A full last block is left as it is when jobs only ever join at the end.
        if place == BLOCK && at == last {
            self.blocks.push(Block::of(vec![entry]));
            return;
        }
        block.jobs.insert(place, entry);
        block.fewest = block.fewest.min(entry.units);
        block.shortest = block.shortest.min(entry.duration);
        if block.jobs.len() > BLOCK {
            let rest = block.jobs.split_off(BLOCK / 2);
            block.sum_up();
            self.blocks.insert(at + 1, Block::of(rest));
        }
    }

    pub(super) fn remove(&mut self, key: i64, ticket: Ticket) -> Option<Entry> {
        let at = self.block_of((key, ticket));
        let block = self.blocks.get_mut(at)?;
        let place = block.jobs.binary_search_by_key(&(key, ticket), Entry::place).ok()?;
        Some(self.take(at, place))
    }

    /// Takes out all jobs, in order, that may start out of turn, without the one that `head` names.
    pub(super) fn overtakers(&mut self, head: Ticket, mut gap: Gap, mut found: impl FnMut(Entry)) {
        let mut emptied = false;
        for block in &mut self.blocks {
            if gap.free == 0 {
                break;
            }
            // A block whose fewest units and shortest time fit may still hold no job that fits in both.
            if !gap.admits(block.fewest, block.shortest) {
                continue;
            }
            let before = block.jobs.len();
            block.jobs.retain(|job| {
                let stays = job.ticket == head || !gap.admits(job.units, job.duration);
                if !stays {
                    gap.take(job);
                    found(*job);
                }
                stays
            });
            if block.jobs.len() < before {
                block.sum_up();
                emptied |= block.jobs.is_empty();
            }
        }
        if emptied {
            self.blocks.retain(|block| !block.jobs.is_empty());
        }
    }

    /// Jobs, in order, that are admitted by units and duration. Who is admitted must be so too with fewer units and less
    /// time: then blocks need no look whose fewest units and shortest time are refused.
    pub(super) fn admitted(&self, admits: impl Fn(u32, i64) -> bool + Copy) -> impl Iterator<Item = &Entry> {
        let blocks = self.blocks.iter().filter(move |block| admits(block.fewest, block.shortest));
        blocks.flat_map(|block| &block.jobs).filter(move |job| admits(job.units, job.duration))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.blocks.iter().flat_map(|block| &block.jobs)
    }

    /// The first block whose last job is not before a place.
    fn block_of(&self, place: (i64, Ticket)) -> usize {
        self.blocks.partition_point(|block| block.jobs.last().is_some_and(|last| last.place() < place))
    }

    fn take(&mut self, at: usize, place: usize) -> Entry {
        let block = &mut self.blocks[at];
        let entry = block.jobs.remove(place);
        if block.jobs.is_empty() {
            self.blocks.remove(at);
        } else if entry.units == block.fewest || entry.duration == block.shortest {
            block.sum_up();
        }
        entry
    }
}
