//! Agents that always obey: what they are told is done and reported at the same instant, or as much later as the trace says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use landfall_engine::input::{Report, RunUsage, StartRefusal};
use landfall_engine::{Effect, Fence, Input};
use landfall_model::{JobId, Millis, NodeId, Time};

use crate::work::{Attempt, Runs};

/// How far a job is.
#[derive(Debug, Clone, Default)]
struct Work {
    /// The run that is next or present, and those behind it. Never empty.
    runs: VecDeque<Attempt>,
    /// What a checkpoint has saved.
    saved: Millis,
    /// When its present run began, and which attempt that is.
    running: Option<(Time, u32)>,
    nodes: Vec<NodeId>,
}

impl Work {
    fn run(&self) -> Attempt {
        self.runs.front().cloned().unwrap_or_default()
    }
}

#[derive(Debug, Default)]
pub(super) struct Agents {
    work: BTreeMap<JobId, Work>,
    ends: BinaryHeap<Reverse<(Time, JobId, u32)>>,
    answers: VecDeque<Input>,
    /// Answers that take their time, by when they come and in the order in which they were caused.
    later: BTreeMap<(Time, u64), Input>,
    caused: u64,
}

impl Agents {
    /// A job of the trace that runs like this.
    pub(super) fn knows(&mut self, job: &JobId, runs: Runs) {
        self.work.insert(job.clone(), Work { runs: runs.in_order(), ..Work::default() });
    }

    /// Obeys; answers wait to be given.
    pub(super) fn obey(&mut self, now: Time, effect: Effect) {
        let run = |fence: &Fence| self.work.get(&fence.job).map(Work::run).unwrap_or_default();
        match effect {
            // Nothing is gained by beginning ahead where answers take no time: it is told again when there is room.
            Effect::Start { ahead: true, .. } => {}
            Effect::GiveBack { fence, node } => {
                self.say(now, Millis::ZERO, node, fence, Report::Refused(StartRefusal::Returned));
            }
            Effect::Start { fence, node, .. } => {
                let after = run(&fence).start;
                self.say(now, after, node, fence, Report::Started);
            }
            Effect::Stop { fence, node, grace } => {
                let after = run(&fence).stop.min(grace);
                self.say(now, after, node, fence, Report::Stopped);
            }
            Effect::Checkpoint { fence, node, .. } => {
                self.say(now, Millis::ZERO, node, fence, Report::Checkpointed);
            }
            Effect::Probe(node) => self.answers.push_back(Input::Probe { node, good: true }),
            Effect::Stage { job, inputs } => {
                let near = |digest| Input::Staged { job: job.clone(), digest, near: true };
                self.answers.extend(inputs.into_iter().map(near));
            }
            Effect::Notice { .. } | Effect::AskProvider(_) | Effect::Peer { .. } | Effect::Alert(_) => {}
        }
    }

    fn say(&mut self, now: Time, after: Millis, node: NodeId, fence: Fence, report: Report) {
        let input = Input::Report { node, fence, report };
        if after.is_zero() {
            self.answers.push_back(input);
        } else {
            self.later.insert((now + after, self.caused), input);
            self.caused += 1;
        }
    }

    /// The next thing to tell the engine at this instant.
    pub(super) fn answer(&mut self) -> Option<Input> {
        self.answers.pop_front()
    }

    /// A job runs on all its nodes from now on.
    pub(super) fn started(&mut self, job: &JobId, attempt: u32, nodes: Vec<NodeId>, now: Time) {
        let Some(work) = self.work.get_mut(job) else { return };
        work.running = Some((now, attempt));
        work.nodes = nodes;
        if let Some(needs) = work.run().run {
            let left = Millis::new(needs.get().saturating_sub(work.saved.get()));
            self.ends.push(Reverse((now + left, job.clone(), attempt)));
        }
    }

    /// What a running job has done so far is kept.
    pub(super) fn saved(&mut self, job: &JobId, now: Time) {
        let Some(work) = self.work.get_mut(job) else { return };
        if let Some((since, attempt)) = work.running {
            let done = work.saved.get() + now.since(since).get();
            work.saved = Millis::new(work.run().run.map_or(done, |needs| done.min(needs.get())));
            work.running = Some((now, attempt));
        }
    }

    /// A run is over; gives the time that was worked and is not saved.
    pub(super) fn stopped(&mut self, job: &JobId, now: Time) -> Millis {
        let Some(work) = self.work.get_mut(job) else { return Millis::ZERO };
        work.running.take().map_or(Millis::ZERO, |(since, _)| now.since(since))
    }

    /// When the next job ends by itself, or the next answer comes.
    pub(super) fn next_due(&mut self) -> Option<Time> {
        let answer = self.later.keys().next().map(|(at, _)| *at);
        self.next_end().into_iter().chain(answer).min()
    }

    fn next_end(&mut self) -> Option<Time> {
        while let Some(Reverse((at, job, attempt))) = self.ends.peek() {
            let work = self.work.get(job);
            if work.and_then(|work| work.running).is_some_and(|(_, running)| running == *attempt) {
                return Some(*at);
            }
            self.ends.pop();
        }
        None
    }

    /// Lets what is due happen, one thing at a time: an answer comes, or a job ends and its nodes say so.
    pub(super) fn next(&mut self, epoch: u32) {
        let answer = self.later.keys().next().copied();
        let end = self.next_end();
        match answer {
            Some(key) if end.is_none_or(|end| key.0 <= end) => {
                self.answers.extend(self.later.remove(&key));
            }
            _ => self.end_one(epoch),
        }
    }

    fn end_one(&mut self, epoch: u32) {
        let Some(Reverse((at, job, attempt))) = self.ends.pop() else { return };
        let Some(work) = self.work.get_mut(&job) else { return };
        let code = work.run().exit;
        if work.runs.len() > 1 {
            work.runs.pop_front();
            work.saved = Millis::ZERO;
        }
        for node in std::mem::take(&mut work.nodes) {
            let fence = Fence { job: job.clone(), attempt, epoch };
            let usage = Box::new(RunUsage::default());
            self.say(at, Millis::ZERO, node, fence, Report::Exited { code, failure: None, usage });
        }
    }
}
