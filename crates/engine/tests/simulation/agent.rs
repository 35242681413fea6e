//! Simulated agents: they obey commands, as far as these reach them, and never obey an old fence.

use std::collections::{BTreeMap, VecDeque};

use landfall_engine::Fence;
use landfall_engine::array::parse_element_id;
use landfall_model::{JobId, Node, PoolId, Time};

/// The agent of one machine.
pub(crate) struct Agent {
    pub(crate) node: Node,
    pub(crate) pool: PoolId,
    /// Whether its process runs.
    pub(crate) up: bool,
    /// Whether nothing reaches it and nothing of it reaches anybody.
    pub(crate) cut: bool,
    pub(crate) live: BTreeMap<JobId, Fence>,
    /// Told ahead, and not begun.
    pub(crate) held: VecDeque<Fence>,
    /// The newest attempt of each job that is over here: a command to start it comes too late.
    pub(crate) over: BTreeMap<JobId, u32>,
}

/// What becomes of a command to start.
pub(crate) enum Begin {
    /// It is over here already.
    TooLate,
    /// It runs already.
    Again,
    /// It begins.
    New,
}

impl Agent {
    pub(crate) fn new(pool: PoolId, node: Node) -> Self {
        Self {
            node,
            pool,
            up: true,
            cut: false,
            live: BTreeMap::new(),
            held: VecDeque::new(),
            over: BTreeMap::new(),
        }
    }

    pub(crate) fn hears(&self) -> bool {
        self.up && !self.cut
    }

    pub(crate) fn running(&self) -> Vec<Fence> {
        self.live.values().chain(&self.held).cloned().collect()
    }

    /// Notes an attempt that begins when another element of its array ends.
    pub(crate) fn hold(&mut self, fence: &Fence) {
        let over = self.over.get(&fence.job).is_some_and(|over| *over >= fence.attempt);
        let known = self.live.contains_key(&fence.job) || self.held.iter().any(|held| held.job == fence.job);
        if !over && !known {
            self.held.push_back(fence.clone());
        }
    }

    /// Gives an attempt back that has not begun; whether it did.
    pub(crate) fn give_back(&mut self, fence: &Fence) -> bool {
        let began = self.live.get(&fence.job).is_some_and(|live| live.attempt >= fence.attempt);
        if began || self.over.get(&fence.job).is_some_and(|over| *over >= fence.attempt) {
            return false;
        }
        self.end(fence);
        true
    }

    /// What begins in place of an element that ended.
    pub(crate) fn next_of(&mut self, ended: &JobId) -> Option<Fence> {
        let array = parse_element_id(ended)?.0;
        let of_array = |held: &Fence| parse_element_id(&held.job).is_some_and(|(of, _)| of == array);
        let at = self.held.iter().position(of_array)?;
        self.held.remove(at)
    }

    pub(crate) fn begin(&mut self, fence: &Fence) -> Begin {
        if self.over.get(&fence.job).is_some_and(|over| *over >= fence.attempt) {
            return Begin::TooLate;
        }
        self.held.retain(|held| held.job != fence.job || held.attempt > fence.attempt);
        match self.live.get(&fence.job) {
            Some(live) if live.attempt > fence.attempt => Begin::TooLate,
            Some(live) if live.attempt == fence.attempt => Begin::Again,
            _ => {
                self.live.insert(fence.job.clone(), fence.clone());
                Begin::New
            }
        }
    }

    /// Ends an attempt and all before it; whether it was running.
    pub(crate) fn end(&mut self, fence: &Fence) -> bool {
        let over = self.over.entry(fence.job.clone()).or_default();
        *over = (*over).max(fence.attempt);
        self.held.retain(|held| held.job != fence.job || held.attempt > fence.attempt);
        let runs = self.live.get(&fence.job).is_some_and(|live| live.attempt <= fence.attempt);
        if runs {
            self.live.remove(&fence.job);
        }
        runs
    }

    pub(crate) fn runs(&self, fence: &Fence) -> bool {
        self.live.get(&fence.job).is_some_and(|live| live.attempt == fence.attempt)
    }
}

/// Something that is on its way or will happen.
#[derive(Debug, Clone)]
pub(crate) enum Mail {
    /// A command to an agent.
    Command(landfall_model::NodeId, landfall_engine::Effect),
    /// What an agent says about a job.
    Report(landfall_model::NodeId, Fence, landfall_engine::input::Report),
    /// An agent sends a heartbeat.
    Beat(landfall_model::NodeId),
    /// A pull worker asks.
    Ask(landfall_model::NodeId),
    /// A job ends by itself, with that code.
    Exit(landfall_model::NodeId, Fence, i32),
    /// A job is stopped for good.
    Kill(landfall_model::NodeId, Fence),
    /// A job has saved its work, or failed to, and leaves if it was asked to.
    Saved(landfall_model::NodeId, Fence, bool),
    /// A probe comes to its result.
    Probed(landfall_model::NodeId, bool),
    /// An agent comes back.
    Return(landfall_model::NodeId),
    /// Somebody does something.
    Act,
}

/// Mail by time, then by the order in which it was sent.
pub(crate) type Post = BTreeMap<(Time, u64), Mail>;
