//! Agents that always obey: what they are told is done and reported at the same instant.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use landfall_engine::input::{Report, RunUsage};
use landfall_engine::{Effect, Fence, Input};
use landfall_model::{JobId, Millis, NodeId, Time};

/// How far a job is.
#[derive(Debug, Clone, Default)]
struct Work {
    /// How long it takes in all; `None` if it runs until it is stopped.
    needs: Option<Millis>,
    /// What a checkpoint has saved.
    saved: Millis,
    /// When its present run began, and which attempt that is.
    running: Option<(Time, u32)>,
    nodes: Vec<NodeId>,
}

#[derive(Debug, Default)]
pub(super) struct Agents {
    work: BTreeMap<JobId, Work>,
    ends: BinaryHeap<Reverse<(Time, JobId, u32)>>,
    answers: VecDeque<Input>,
}

impl Agents {
    /// A job of the trace that takes so long.
    pub(super) fn knows(&mut self, job: &JobId, run: Option<Millis>) {
        self.work.insert(job.clone(), Work { needs: run, ..Work::default() });
    }

    /// Obeys; answers wait to be given.
    pub(super) fn obey(&mut self, effect: Effect) {
        match effect {
            Effect::Start { fence, node, .. } => self.say(node, fence, Report::Started),
            Effect::Stop { fence, node, .. } => self.say(node, fence, Report::Stopped),
            Effect::Checkpoint { fence, node, .. } => self.say(node, fence, Report::Checkpointed),
            Effect::Probe(node) => self.answers.push_back(Input::Probe { node, good: true }),
            Effect::Stage { job, inputs } => {
                let near = |digest| Input::Staged { job: job.clone(), digest, near: true };
                self.answers.extend(inputs.into_iter().map(near));
            }
            Effect::Notice { .. } | Effect::AskProvider(_) | Effect::Peer { .. } | Effect::Alert(_) => {}
        }
    }

    fn say(&mut self, node: NodeId, fence: Fence, report: Report) {
        self.answers.push_back(Input::Report { node, fence, report });
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
        if let Some(needs) = work.needs {
            let left = Millis::new(needs.get().saturating_sub(work.saved.get()));
            self.ends.push(Reverse((now + left, job.clone(), attempt)));
        }
    }

    /// What a running job has done so far is kept.
    pub(super) fn saved(&mut self, job: &JobId, now: Time) {
        let Some(work) = self.work.get_mut(job) else { return };
        if let Some((since, attempt)) = work.running {
            let done = work.saved.get() + now.since(since).get();
            work.saved = Millis::new(work.needs.map_or(done, |needs| done.min(needs.get())));
            work.running = Some((now, attempt));
        }
    }

    /// A run is over; gives the time that was worked and is not saved.
    pub(super) fn stopped(&mut self, job: &JobId, now: Time) -> Millis {
        let Some(work) = self.work.get_mut(job) else { return Millis::ZERO };
        work.running.take().map_or(Millis::ZERO, |(since, _)| now.since(since))
    }

    /// When the next job ends by itself.
    pub(super) fn next_end(&mut self) -> Option<Time> {
        while let Some(Reverse((at, job, attempt))) = self.ends.peek() {
            let work = self.work.get(job);
            if work.and_then(|work| work.running).is_some_and(|(_, running)| running == *attempt) {
                return Some(*at);
            }
            self.ends.pop();
        }
        None
    }

    /// Lets the job end that is due; its nodes say so.
    pub(super) fn end_one(&mut self, epoch: u32) {
        let Some(Reverse((_, job, attempt))) = self.ends.pop() else { return };
        let Some(work) = self.work.get_mut(&job) else { return };
        for node in std::mem::take(&mut work.nodes) {
            let fence = Fence { job: job.clone(), attempt, epoch };
            let usage = Box::new(RunUsage::default());
            self.say(node, fence, Report::Exited { code: 0, failure: None, usage });
        }
    }
}
