//! Reports: in order, many at once, again and again until the server has stored them.
//!
//! Ends go out at once, with whatever else waits: a slot is free only when the server knows. Beginnings may wait for two
//! milliseconds, in which short jobs end, so that both go in one request.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use landfall_api::agent::{ReportItem, Reports};
use landfall_engine::input::Report;
use tokio::sync::mpsc;

use crate::backoff::Backoff;
use crate::hub::Hub;

/// Reports in one request.
const BATCH_MAX: usize = 500;
/// How long beginnings wait for company.
const COMPANY: Duration = Duration::from_millis(2);

/// Sends reports until the agent is over.
pub(crate) async fn work(hub: Arc<Hub>, mut queue: mpsc::UnboundedReceiver<ReportItem>) {
    let mut waiting: VecDeque<ReportItem> = VecDeque::new();
    let mut backoff = Backoff::new(hub.node());
    let mut batch_max = BATCH_MAX;
    loop {
        if waiting.is_empty() {
            match queue.recv().await {
                Some(item) => waiting.push_back(item),
                None => return,
            }
        }
        take(&mut queue, &mut waiting);
        if waiting.len() < batch_max && !waiting.iter().any(is_end) {
            let _ = tokio::time::timeout(COMPANY, async {
                while let Some(item) = queue.recv().await {
                    let end = is_end(&item);
                    waiting.push_back(item);
                    if end {
                        return;
                    }
                }
            })
            .await;
            take(&mut queue, &mut waiting);
        }
        let count = waiting.len().min(batch_max);
        let batch: Vec<ReportItem> = waiting.iter().take(count).cloned().collect();
        let ask = if batch.iter().any(is_end) { hub.jobs().take_ask() } else { 0 };
        let reports = Reports { reports: batch, ask };
        let answer = hub.client.report(hub.node(), &reports).await;
        hub.jobs().on_granted(ask, answer.as_ref().map_or(0, |answer| answer.granted));
        match answer {
            Ok(answer) => {
                hub.heard();
                backoff.reset();
                batch_max = BATCH_MAX;
                for (item, word) in
                    reports.reports.iter().zip(&answer.answers).filter(|(_, word)| *word != "done")
                {
                    tracing::debug!(fence = %item.fence, word, "the server did not use a report");
                }
                done(&hub, &mut waiting, count);
            }
            Err(error) => {
                let Some(error) = hub.is_fatal(error) else { return };
                match error.status() {
                    // The server will never take this one, so it must not hold up the others.
                    Some(400 | 413 | 422) if count == 1 => {
                        tracing::error!(%error, fence = %waiting[0].fence, "the server refuses a report");
                        done(&hub, &mut waiting, 1);
                    }
                    Some(400 | 413 | 422) => batch_max = (count / 2).max(1),
                    status => {
                        tracing::debug!(%error, "reports wait");
                        if matches!(status, Some(404 | 409 | 410 | 412)) {
                            hub.rejoin.notify_one();
                        }
                        tokio::time::sleep(backoff.next()).await;
                    }
                }
            }
        }
    }
}

fn take(queue: &mut mpsc::UnboundedReceiver<ReportItem>, waiting: &mut VecDeque<ReportItem>) {
    while let Ok(item) = queue.try_recv() {
        waiting.push_back(item);
    }
}

fn done(hub: &Arc<Hub>, waiting: &mut VecDeque<ReportItem>, count: usize) {
    let stored: Vec<ReportItem> = waiting.drain(..count).collect();
    hub.on_stored(&stored);
    hub.stored(stored.len() as u64);
}

/// Whether an attempt is over with this.
fn is_end(item: &ReportItem) -> bool {
    match item.report {
        Report::Exited { .. } | Report::Stopped | Report::Refused(_) | Report::Checkpointed => true,
        Report::Started | Report::CheckpointProgress | Report::CheckpointFailed => false,
    }
}
