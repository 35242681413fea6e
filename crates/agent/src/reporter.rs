//! Reports: many at once, again and again until the server has stored them.
//!
//! Ends go out at once, with whatever else waits: a slot is free only when the server knows. Beginnings may wait for two
//! milliseconds, in which short jobs end, so that both go in one request; and ends may wait as well while the next jobs are here
//! already, told ahead. A second request does not wait for the answer to
//! the first, or the end of one job would wait for the disk of the server because of another's; but what is said about one
//! job, or about the elements of one array, is said in order, so what something is under way of waits.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use landfall_api::agent::{ReportAnswers, ReportItem, Reports};
use landfall_client::ClientError;
use landfall_model::life::{Fence, Report};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::hub::Hub;

/// Reports in one request.
const BATCH_MAX: usize = 500;
/// Requests under way. With more of them each would carry less, and the server would sync more often.
const FLIGHTS_MAX: usize = 2;
/// How long beginnings wait for company.
const COMPANY: Duration = Duration::from_millis(2);
/// How long everything does while enough can begin here without the server.
const MUCH_COMPANY: Duration = Duration::from_millis(25);

/// What comes to the reporter.
pub(crate) enum Told {
    Report(ReportItem),
    /// The server has another journal. What is not about these attempts is dropped, and it is said when that is done.
    OtherJournal(Vec<Fence>, oneshot::Sender<()>),
}

/// A request that was answered.
struct Landed {
    reports: Reports,
    answer: Result<ReportAnswers, ClientError>,
}

/// Reports on their way to the server.
struct Reporter {
    hub: Arc<Hub>,
    waiting: VecDeque<ReportItem>,
    /// Jobs and arrays of which something is under way.
    flying: BTreeSet<String>,
    batch_max: usize,
    backoff: Backoff,
    /// Until when beginnings wait for company, and whether ends do.
    company: Option<Instant>,
    patient: bool,
    /// Until when nothing is sent, after a failure.
    retry: Option<Instant>,
    /// What goes on under another journal, once all that is under way is answered.
    other_journal: Option<(Vec<Fence>, oneshot::Sender<()>)>,
}

/// Sends reports until the agent is over.
pub(crate) async fn work(hub: Arc<Hub>, mut queue: mpsc::UnboundedReceiver<Told>) {
    let mut flights = FuturesUnordered::new();
    let mut open = true;
    let mut reporter = Reporter {
        backoff: Backoff::new(hub.node()),
        hub: Arc::clone(&hub),
        waiting: VecDeque::new(),
        flying: BTreeSet::new(),
        batch_max: BATCH_MAX,
        company: None,
        patient: false,
        retry: None,
        other_journal: None,
    };
    while open || !reporter.waiting.is_empty() || !flights.is_empty() {
        tokio::select! {
            item = queue.recv(), if open => match item {
                Some(told) => {
                    reporter.hear(told);
                    while let Ok(told) = queue.try_recv() {
                        reporter.hear(told);
                    }
                }
                None => open = false,
            },
            Some(landed) = flights.next(), if !flights.is_empty() => {
                if !reporter.land(landed) {
                    return;
                }
            }
            () = until(reporter.retry) => reporter.retry = None,
            () = until(reporter.company) => reporter.company = None,
        }
        if flights.is_empty() {
            reporter.change_journal();
        }
        while flights.len() < FLIGHTS_MAX
            && let Some(reports) = reporter.next_batch()
        {
            let hub = Arc::clone(&hub);
            flights.push(async move {
                let answer = hub.client.report(hub.node(), &reports).await;
                Landed { reports, answer }
            });
        }
    }
}

impl Reporter {
    fn hear(&mut self, told: Told) {
        match told {
            Told::Report(item) => self.take(item),
            Told::OtherJournal(adopted, done) => self.other_journal = Some((adopted, done)),
        }
    }

    /// Drops what is about another journal. A request names its journal when it is sent, so none may be under way.
    fn change_journal(&mut self) {
        let Some((adopted, done)) = self.other_journal.take() else { return };
        let before = self.waiting.len();
        self.waiting.retain(|item| is_of(&item.fence, &adopted));
        self.hub.stored((before - self.waiting.len()) as u64);
        // Nobody waits for it if the agent is over.
        let _ = done.send(());
    }

    fn take(&mut self, item: ReportItem) {
        if self.waiting.is_empty() {
            let ahead = self.hub.jobs().is_ahead();
            let wait = if ahead { Some(MUCH_COMPANY) } else { (!is_end(&item)).then_some(COMPANY) };
            self.company = wait.map(|wait| Instant::now() + wait);
            self.patient = ahead;
        }
        self.waiting.push_back(item);
    }

    /// What goes out now, if anything does.
    fn next_batch(&mut self) -> Option<Reports> {
        let urgent = |item: &ReportItem| !self.patient && is_end(item) && !self.flying.contains(series(item));
        let for_company =
            self.company.is_some() && self.waiting.len() < self.batch_max && !self.waiting.iter().any(urgent);
        if self.retry.is_some() || self.other_journal.is_some() || for_company {
            return None;
        }
        let mut reports = Vec::new();
        let mut rest = VecDeque::new();
        for item in self.waiting.drain(..) {
            // What follows on something that stays has to stay as well.
            let goes = reports.len() < self.batch_max && !self.flying.contains(series(&item));
            if goes { reports.push(item) } else { rest.push_back(item) }
        }
        self.waiting = rest;
        if reports.is_empty() {
            return None;
        }
        self.flying.extend(reports.iter().map(|item| series(item).to_owned()));
        let ask = if reports.iter().any(is_end) { self.hub.jobs().take_ask() } else { 0 };
        self.company = None;
        Some(Reports { reports, ask })
    }

    /// Takes note of an answer; whether the agent goes on.
    fn land(&mut self, landed: Landed) -> bool {
        let Landed { reports: Reports { reports, ask }, answer } = landed;
        self.hub.jobs().on_granted(ask, answer.as_ref().map_or(0, |answer| answer.granted));
        for item in &reports {
            self.flying.remove(series(item));
        }
        match answer {
            Ok(answer) => {
                self.hub.heard();
                self.backoff.reset();
                self.batch_max = BATCH_MAX;
                for (item, word) in reports.iter().zip(&answer.answers).filter(|(_, word)| *word != "done") {
                    tracing::debug!(fence = %item.fence, word, "the server did not use a report");
                }
                self.done(&reports);
            }
            Err(error) => {
                let Some(error) = self.hub.is_fatal(error) else { return false };
                match error.status() {
                    // The server will never take this one, so it must not hold up the others.
                    Some(400 | 413 | 422) if reports.len() == 1 => {
                        tracing::error!(%error, fence = %reports[0].fence, "the server refuses a report");
                        self.done(&reports);
                        return true;
                    }
                    Some(400 | 413 | 422) => self.batch_max = (reports.len() / 2).max(1),
                    status => {
                        tracing::debug!(%error, "reports wait");
                        if matches!(status, Some(404 | 409 | 410 | 412)) {
                            self.hub.rejoin.notify_one();
                        }
                        self.retry = Some(Instant::now() + self.backoff.next());
                    }
                }
                reports.into_iter().rev().for_each(|item| self.waiting.push_front(item));
            }
        }
        true
    }

    fn done(&self, stored: &[ReportItem]) {
        self.hub.on_stored(stored);
        self.hub.stored(stored.len() as u64);
    }
}

/// Waits until an instant; for ever if there is none.
async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// What is told in order: a job, or an array with all its elements, which take over from each other.
fn series(item: &ReportItem) -> &str {
    let job = item.fence.job.as_str();
    job.rsplit_once('.').map_or(job, |(array, _)| array)
}

/// Whether an attempt is over with this.
fn is_end(item: &ReportItem) -> bool {
    match item.report {
        Report::Exited { .. } | Report::Stopped | Report::Refused(_) | Report::Checkpointed => true,
        Report::Started | Report::StartedAfresh | Report::CheckpointProgress | Report::CheckpointFailed => {
            false
        }
    }
}

/// Whether an attempt is one of these, under whatever epoch.
pub(crate) fn is_of(fence: &Fence, fences: &[Fence]) -> bool {
    fences.iter().any(|other| other.job == fence.job && other.attempt == fence.attempt)
}
