//! One hollow node: what commands and time make of its jobs. No clock and no connection in here.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use landfall_api::agent::{Command, ReportItem};
use landfall_engine::array::parse_element_id;
use landfall_model::life::{Failure, Fence, Report, RunUsage, StartRefusal};
use landfall_model::{JobId, Millis};
use landfall_replay::trace::random::Random;

/// Attempts that are over and still known, for commands that come late.
const RECENT_MAX: usize = 256;
/// How a process ends that is asked to, because its time is up.
const TIMED_OUT: i32 = 143;

/// What becomes of jobs on hollow nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fate {
    /// The shortest and the longest time that a job takes.
    pub(super) takes: (Duration, Duration),
    /// How likely it fails.
    pub(super) fails: f64,
}

/// What a node counted since it was last asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) began: u64,
    pub(super) ended: u64,
    pub(super) failed: u64,
    pub(super) stopped: u64,
}

#[derive(Debug)]
pub(super) struct Node {
    fate: Fate,
    random: Random,
    /// Jobs at once in a pull pool; `None` elsewhere.
    pub(super) slots: Option<u32>,
    running: BTreeMap<JobId, Fence>,
    /// Attempts that begin when another element of their array ends, in order, and how long each may run.
    ahead: VecDeque<(Fence, Option<Duration>)>,
    /// When jobs end, and whether that is because they may not run any longer.
    ends: BinaryHeap<Reverse<(Instant, JobId, u32, bool)>>,
    recent: VecDeque<(JobId, u32)>,
    /// What the server has not stored yet, in order.
    pub(super) reports: Vec<ReportItem>,
    /// Jobs that were granted and have not come.
    expected: u32,
    counted: Counted,
}

impl Node {
    pub(super) fn new(fate: Fate, random: Random) -> Self {
        Self {
            fate,
            random,
            slots: None,
            running: BTreeMap::new(),
            ahead: VecDeque::new(),
            ends: BinaryHeap::new(),
            recent: VecDeque::new(),
            reports: Vec::new(),
            expected: 0,
            counted: Counted::default(),
        }
    }

    /// Every attempt that the server must not take for lost.
    pub(super) fn named(&self) -> Vec<Fence> {
        let told = self.reports.iter().map(|item| &item.fence);
        let told = told.filter(|fence| !self.running.contains_key(&fence.job));
        let ahead = self.ahead.iter().map(|(fence, _)| fence);
        self.running.values().chain(ahead).chain(told).cloned().collect()
    }

    pub(super) fn active(&self) -> u64 {
        self.running.len() as u64
    }

    /// As after a loss of power, or when the server has another journal: nothing of before is known.
    pub(super) fn forget(&mut self) {
        self.running.clear();
        self.ahead.clear();
        self.ends.clear();
        self.recent.clear();
        self.reports.clear();
        self.expected = 0;
    }

    pub(super) fn on_command(&mut self, command: Command, now: Instant) {
        match command {
            Command::Start(start) => {
                // Only the node knows of this limit, so it has to keep it.
                let limit = start.run.timeout_ms.map(Duration::from_millis);
                match start.ahead {
                    true => self.hold(start.fence, limit),
                    false => self.start(start.fence, limit, now),
                }
            }
            Command::GiveBack { fence } => self.give_back(fence),
            Command::Stop { fence, .. } => self.stop(&fence),
            Command::Checkpoint { fence, .. } => self.tell(fence, Report::CheckpointFailed),
            Command::Notice { .. }
            | Command::Input { .. }
            | Command::Probe
            | Command::Work
            | Command::Offer { .. }
            | Command::Ping => {}
        }
    }

    fn start(&mut self, fence: Fence, limit: Option<Duration>, now: Instant) {
        self.expected = self.expected.saturating_sub(1);
        match self.running.get(&fence.job) {
            Some(known) if known.attempt == fence.attempt => return self.tell(fence, Report::Started),
            Some(known) if known.attempt > fence.attempt => return,
            Some(known) => {
                let old = known.clone();
                self.stop(&old);
                return self.tell(fence, Report::Refused(StartRefusal::Busy));
            }
            None => {}
        }
        if self.is_over(&fence) {
            return;
        }
        self.ahead.retain(|(held, _)| held.job != fence.job);
        self.begin(fence, limit, now);
    }

    fn is_over(&self, fence: &Fence) -> bool {
        self.recent.iter().any(|(job, attempt)| *job == fence.job && *attempt >= fence.attempt)
    }

    fn hold(&mut self, fence: Fence, limit: Option<Duration>) {
        let known =
            self.running.contains_key(&fence.job) || self.ahead.iter().any(|(held, _)| *held == fence);
        if !known && !self.is_over(&fence) {
            self.ahead.push_back((fence, limit));
        }
    }

    fn give_back(&mut self, fence: Fence) {
        if self.running.contains_key(&fence.job) || self.is_over(&fence) {
            return;
        }
        self.ahead.retain(|(held, _)| held.job != fence.job);
        self.remember(&fence);
        self.tell(fence, Report::Refused(StartRefusal::Returned));
    }

    fn begin(&mut self, fence: Fence, limit: Option<Duration>, now: Instant) {
        self.counted.began += 1;
        self.tell(fence.clone(), Report::Started);
        let (least, most) = self.fate.takes;
        let spread = u64::try_from((most - least).as_nanos()).unwrap_or(u64::MAX);
        let takes = least + Duration::from_nanos(self.random.below(spread.saturating_add(1)));
        let too_long = limit.is_some_and(|limit| takes > limit);
        let takes = limit.map_or(takes, |limit| takes.min(limit));
        if takes.is_zero() {
            return self.end(fence, too_long, now);
        }
        self.ends.push(Reverse((now + takes, fence.job.clone(), fence.attempt, too_long)));
        self.running.insert(fence.job.clone(), fence);
    }

    fn stop(&mut self, fence: &Fence) {
        self.ahead.retain(|(held, _)| held.job != fence.job);
        let known = self.running.get(&fence.job).is_some_and(|known| known.attempt == fence.attempt);
        if known {
            self.running.remove(&fence.job);
            self.counted.stopped += 1;
        }
        // What never came here does not run either; should its start come late, it is over.
        self.remember(fence);
        self.tell(fence.clone(), Report::Stopped);
    }

    fn end(&mut self, fence: Fence, too_long: bool, now: Instant) {
        // The next one is said to begin before this one is said to end: it takes its room.
        let array = |fence: &Fence| parse_element_id(&fence.job).map(|(array, _)| array.to_owned());
        let of_array = |(held, _): &(Fence, _)| array(held).is_some() && array(held) == array(&fence);
        let next = self.ahead.iter().position(of_array).and_then(|at| self.ahead.remove(at));
        if let Some((next, limit)) = next {
            self.begin(next, limit, now);
        }
        let failed = self.random.chance(self.fate.fails) || too_long;
        self.counted.ended += 1;
        self.counted.failed += u64::from(failed);
        self.remember(&fence);
        let usage = Box::new(RunUsage { cpu_time: Some(Millis::ZERO), ..RunUsage::default() });
        let (code, failure) =
            if too_long { (TIMED_OUT, Some(Failure::Timeout)) } else { (i32::from(failed), None) };
        self.tell(fence, Report::Exited { code, failure, usage });
    }

    fn tell(&mut self, fence: Fence, report: Report) {
        self.reports.push(ReportItem::new(fence, report));
    }

    fn remember(&mut self, fence: &Fence) {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((fence.job.clone(), fence.attempt));
    }

    /// When the next job ends by itself.
    pub(super) fn next(&self) -> Option<Instant> {
        self.ends.peek().map(|Reverse((at, ..))| *at)
    }

    /// Ends what is over by now.
    pub(super) fn on_time(&mut self, now: Instant) {
        while self.next().is_some_and(|at| at <= now) {
            let Some(Reverse((_, job, attempt, too_long))) = self.ends.pop() else { return };
            // It may have been stopped, and even started again, meanwhile.
            let ends = self.running.get(&job).is_some_and(|fence| fence.attempt == attempt);
            if let Some(fence) = ends.then(|| self.running.remove(&job)).flatten() {
                self.end(fence, too_long, now);
            }
        }
    }

    /// How many jobs to ask for, in a pull pool; the answer must be told with [`Node::on_granted`].
    pub(super) fn take_ask(&mut self) -> u32 {
        let taken = u32::try_from(self.running.len()).unwrap_or(u32::MAX).saturating_add(self.expected);
        let free = self.slots.unwrap_or(0).saturating_sub(taken).min(1000);
        self.expected += free;
        free
    }

    pub(super) fn on_granted(&mut self, asked: u32, granted: u32) {
        self.expected = self.expected.saturating_sub(asked.saturating_sub(granted));
    }

    /// At a heartbeat: what did not come until now does not come, or comes again by itself.
    pub(super) fn forget_expected(&mut self) {
        self.expected = 0;
    }

    pub(super) fn take_counted(&mut self) -> Counted {
        std::mem::take(&mut self.counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(takes_ms: u64, fails: f64) -> Node {
        let takes = (Duration::from_millis(takes_ms), Duration::from_millis(takes_ms));
        Node::new(Fate { takes, fails }, Random::new(7))
    }

    fn fence(job: &str, attempt: u32) -> Fence {
        Fence { job: JobId::new(job).unwrap(), attempt, epoch: 1 }
    }

    fn words(node: &mut Node) -> Vec<String> {
        let word = |item: &ReportItem| match &item.report {
            Report::Exited { code, .. } => format!("{}: exited {code}", item.fence.attempt),
            other => format!("{}: {other:?}", item.fence.attempt),
        };
        std::mem::take(&mut node.reports).iter().map(word).collect()
    }

    #[test]
    fn a_job_is_said_to_begin_and_to_end_after_its_time() {
        let (mut node, now) = (node(10, 0.0), Instant::now());
        node.start(fence("1", 1), None, now);
        assert_eq!((words(&mut node), node.named()), (vec!["1: Started".to_owned()], vec![fence("1", 1)]));
        node.on_time(now + Duration::from_millis(9));
        assert_eq!(words(&mut node), [""; 0]);
        node.start(fence("1", 1), None, now);
        assert_eq!(words(&mut node), ["1: Started"], "told again, not begun again");
        node.on_time(now + Duration::from_millis(10));
        assert_eq!(node.named(), [fence("1", 1)], "until the server has stored it");
        assert_eq!(words(&mut node), ["1: exited 0"]);
        node.start(fence("1", 1), None, now);
        assert_eq!((words(&mut node), node.next()), (vec![], None), "a late word begins nothing");
        assert_eq!(node.take_counted(), Counted { began: 1, ended: 1, ..Counted::default() });
    }

    #[test]
    fn a_job_without_time_begins_and_ends_in_one_breath_and_fails_when_drawn() {
        let mut node = node(0, 1.0);
        node.start(fence("1", 1), None, Instant::now());
        assert_eq!(words(&mut node), ["1: Started", "1: exited 1"]);
        assert_eq!(node.take_counted().failed, 1);
    }

    #[test]
    fn a_job_that_takes_longer_than_it_may_is_ended_by_its_node() {
        let (mut node, now) = (node(1000, 0.0), Instant::now());
        let limit = Some(Duration::from_millis(20));
        node.start(fence("7.1", 1), limit, now);
        node.hold(fence("7.2", 1), limit);
        node.start(fence("8", 1), Some(Duration::from_secs(2)), now);
        node.on_time(now + Duration::from_millis(20));
        assert_eq!(words(&mut node), ["1: Started", "1: Started", "1: Started", "1: exited 143"]);
        node.on_time(now + Duration::from_millis(40));
        assert_eq!(words(&mut node), ["1: exited 143"], "one that was told ahead has the same limit");
        node.on_time(now + Duration::from_secs(1));
        assert_eq!(words(&mut node), ["1: exited 0"]);
        assert_eq!(node.take_counted().failed, 2);
    }

    #[test]
    fn a_stopped_attempt_is_gone_and_its_time_ends_nothing_of_the_next() {
        let (mut node, now) = (node(10, 0.0), Instant::now());
        node.start(fence("1", 1), None, now);
        node.start(fence("1", 2), None, now);
        assert_eq!(words(&mut node), ["1: Started", "1: Stopped", "2: Refused(Busy)"]);
        node.start(fence("1", 2), None, now + Duration::from_millis(5));
        node.on_time(now + Duration::from_millis(10));
        assert_eq!(words(&mut node), ["2: Started"]);
        node.stop(&fence("9", 1));
        node.start(fence("9", 1), None, now);
        assert_eq!(words(&mut node), ["1: Stopped"], "its start came after its end");
    }

    #[test]
    fn a_node_of_a_pull_pool_never_asks_for_more_than_it_has_room_for() {
        let (mut node, now) = (node(10, 0.0), Instant::now());
        assert_eq!(node.take_ask(), 0, "nobody asks in a push pool");
        node.slots = Some(3);
        assert_eq!((node.take_ask(), node.take_ask()), (3, 0));
        node.on_granted(3, 2);
        assert_eq!(node.take_ask(), 1);
        node.on_granted(1, 0);
        node.start(fence("1", 1), None, now);
        node.start(fence("2", 1), None, now);
        assert_eq!(node.take_ask(), 1);
    }
}
