//! How a job really ran, from what is said about it between its submission and its end.

use std::collections::BTreeMap;

use landfall_engine::Event;
use landfall_engine::record::{Cause, Phase};
use landfall_model::{JobId, Millis, Time};

use crate::trace::own::Order;
use crate::work::{Attempt, Runs};

/// The attempts of one job so far.
#[derive(Debug, Default)]
pub(super) struct Course {
    runs: Runs,
    /// When the present attempt was decided, ran, and was told to stop.
    committed: Option<Time>,
    started: Option<Time>,
    stopping: Option<Time>,
    /// What checkpoints have kept of earlier runs.
    saved: Millis,
    /// The code with which a node of it ended by itself; the first bad one counts.
    exit: Option<i32>,
    over: bool,
}

impl Course {
    /// A job of which nothing more will be said.
    pub(super) fn over(runs: Runs) -> Self {
        Self { runs, over: true, ..Self::default() }
    }

    /// The job that an event is about, if it is one of those that are read here.
    pub(super) fn job_of(event: &Event) -> Option<&JobId> {
        Some(match event {
            Event::Committed(commit) => &commit.job,
            Event::Started(job) | Event::Saved(job) => job,
            Event::Reported { job, .. }
            | Event::Afresh { job, .. }
            | Event::Stopping { job, .. }
            | Event::Suspended { job, .. }
            | Event::Requeued { job, .. }
            | Event::Ended { job, .. } => job,
            _ => return None,
        })
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn runs(self) -> Runs {
        self.runs
    }

    /// Takes an event in; gives what somebody must have ordered.
    pub(super) fn take(
        &mut self,
        at: Time,
        event: &Event,
        left_out: &mut BTreeMap<String, u64>,
    ) -> Option<Order> {
        match event {
            Event::Committed(_) => (self.committed, self.exit) = (Some(at), None),
            Event::Started(_) => {
                self.started = Some(at);
                let decided = self.committed.unwrap_or(at);
                self.runs.last.start = at.since(decided);
            }
            Event::Reported { phase: Phase::Ended, exit: Some(code), .. } => {
                self.exit = self.exit.filter(|code| *code != 0).or(Some(*code));
            }
            Event::Afresh { .. } => self.saved = Millis::ZERO,
            Event::Saved(_) | Event::Suspended { .. } => {
                self.saved += self.worked(at);
                self.started = matches!(event, Event::Saved(_)).then_some(at);
                self.stopped(at);
            }
            Event::Stopping { cause, .. } => {
                self.stopping = Some(at);
                return (*cause == Cause::User).then_some(Order::Cancel);
            }
            Event::Requeued { back, .. } => {
                match self.exit {
                    Some(exit) if self.stopping.is_none() => {
                        let run = Some(self.saved + self.worked(at));
                        let failed = Attempt { run, exit, ..self.runs.last.clone() };
                        self.runs.retried.push(failed);
                    }
                    _ if matches!(back.cause, Cause::NotStarted | Cause::OfferRejected) => {
                        *left_out
                            .entry("starts that a node refused or did not answer".to_owned())
                            .or_default() += 1;
                    }
                    _ => {}
                }
                self.stopped(at);
                (self.committed, self.started) = (None, None);
            }
            Event::Ended { cause, .. } => {
                self.over = true;
                let ordered = self.stopping.is_none() && *cause == Cause::User;
                // One that ends by itself while it is told to stop has ended by itself.
                let alone = self.stopping.is_none() || matches!(cause, Cause::Exit(_) | Cause::OverWalltime);
                if let Some(exit) = self.exit.filter(|_| alone) {
                    self.runs.last.run = Some(self.saved + self.worked(at));
                    self.runs.last.exit = exit;
                }
                self.stopped(at);
                return ordered.then_some(Order::Cancel);
            }
            _ => {}
        }
        None
    }

    fn worked(&self, at: Time) -> Millis {
        self.started.map_or(Millis::ZERO, |started| at.since(started))
    }

    /// It is gone; how long that took is known if it was told to stop.
    fn stopped(&mut self, at: Time) {
        if let Some(told) = self.stopping.take() {
            self.runs.last.stop = at.since(told);
        }
    }
}
