//! Output of jobs: read from where the keeper lets them write it, sent in pieces, bounded.
//!
//! The files are looked at every quarter of a second at first; a job that writes nothing is looked at less and less often.
//! What a job wrote goes to the server before its end does, so that whoever waits for the end sees all of it. A job
//! without output costs nothing here: the keeper says at the end that there is none.

use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use landfall_api::agent::{LogPiece, LogPieces, ReportItem};
use landfall_api::node::OTHER_JOURNAL;
use landfall_client::ClientError;
use landfall_model::JobId;
use landfall_model::life::Fence;
use tokio::sync::{mpsc, oneshot};

use crate::backoff::Backoff;
use crate::hub::Hub;
use crate::keeper::wire::Request;
use crate::probe::ewma;
use crate::reporter::is_of;

const PIECE_BYTES_MAX: u64 = 256 << 10;
const REQUEST_BYTES_MAX: u64 = 768 << 10;
/// How soon a job that writes is looked at again.
const LOOK_FIRST: Duration = Duration::from_millis(250);
/// How soon one is that somebody is at, always.
const LOOK_ATTENDED: Duration = Duration::from_millis(20);
/// How soon a silent one is.
const LOOK_LAST: Duration = Duration::from_secs(2);
/// Size at which what nobody will read is cut off.
const CUT_BYTES: u64 = 1 << 20;
/// Transfers that tell something about the network.
const SAMPLE_BYTES_MIN: u64 = 64 << 10;
/// How often the server may want the same bytes again before they are given up.
const AGAIN_MAX: u32 = 3;

/// What the log task is told.
#[derive(Debug)]
pub(crate) enum Writing {
    /// A job runs; the server has so much of its output, and somebody may be waiting for every word.
    Track(Fence, (u64, u64), bool),
    /// A job ended: send the rest, then the report.
    Ended(ReportItem, (u64, u64)),
    /// A job ended and everything was sent.
    Forget(Fence),
    /// A job was not started: send a line about it, then the report.
    Refused(ReportItem, String),
    /// The server has another journal. What is not of these attempts is dropped, and it is said when that is done.
    OtherJournal(Vec<Fence>, oneshot::Sender<()>),
}

/// The output of one attempt.
#[derive(Debug)]
struct Tail {
    fence: Fence,
    streams: [Stream; 2],
    /// The report that goes out once everything is sent.
    end: Option<ReportItem>,
    look_at: Instant,
    pause: Duration,
    /// The shortest and the longest pause.
    pauses: (Duration, Duration),
}

#[derive(Debug, Default)]
struct Stream {
    shipped: u64,
    /// Whether the limit was reached and said.
    full: bool,
    /// Text of our own that goes out instead of a file.
    said: Option<Vec<u8>>,
    again: u32,
}

const NAMES: [&str; 2] = ["stdout", "stderr"];

impl Tail {
    fn new(fence: Fence, shipped: (u64, u64), limit: u64, now: Instant) -> Self {
        let stream = |shipped: u64| Stream { shipped, full: shipped >= limit, said: None, again: 0 };
        let streams = [stream(shipped.0), stream(shipped.1)];
        let pauses = (LOOK_FIRST, LOOK_LAST);
        Self { fence, streams, end: None, look_at: now + LOOK_FIRST, pause: LOOK_FIRST, pauses }
    }

    /// One that is looked at again and again.
    fn attended(mut self) -> Self {
        self.pauses = (LOOK_ATTENDED, LOOK_ATTENDED);
        (self.look_at, self.pause) = (Instant::now(), LOOK_ATTENDED);
        self
    }

    fn path(&self, hub: &Hub, stream: usize) -> PathBuf {
        if stream == 0 { hub.layout.stdout(&self.fence) } else { hub.layout.stderr(&self.fence) }
    }
}

type Key = (JobId, u32);

fn key(fence: &Fence) -> Key {
    (fence.job.clone(), fence.attempt)
}

/// Sends output until the agent is over.
pub(crate) async fn work(hub: Arc<Hub>, mut queue: mpsc::UnboundedReceiver<Writing>) {
    let mut tails: BTreeMap<Key, Tail> = BTreeMap::new();
    let mut backoff = Backoff::new(hub.node());
    // Since when the server has had no place for output.
    let mut refused: Option<Instant> = None;
    let mut cut_at = Instant::now();
    let mut retry: Option<Instant> = None;
    loop {
        let due = |tail: &Tail| if tail.end.is_some() { Instant::now() } else { tail.look_at };
        let next = retry.or_else(|| tails.values().map(due).min());
        let pause = next.map_or(LOOK_LAST, |at| at.saturating_duration_since(Instant::now()));
        match tokio::time::timeout(pause.min(LOOK_LAST), queue.recv()).await {
            Ok(None) => return,
            Ok(Some(writing)) => {
                on_writing(&hub, &mut tails, writing);
                while let Ok(writing) = queue.try_recv() {
                    on_writing(&hub, &mut tails, writing);
                }
            }
            Err(_) => {}
        }
        if cut_at.elapsed() >= LOOK_LAST {
            cut_at = Instant::now();
            tails.values().for_each(|tail| cut(&hub, tail));
        }
        if retry.is_some_and(|at| Instant::now() < at) {
            continue;
        }
        retry = None;
        loop {
            let (pieces, of) = collect(&hub, &mut tails, Instant::now());
            if pieces.is_empty() {
                release(&hub, &mut tails);
                break;
            }
            let bytes: u64 = of.iter().map(|piece| piece.bytes).sum();
            let began = Instant::now();
            match hub.client.ship(hub.node(), &LogPieces { pieces }).await {
                Ok(kept) => {
                    hub.heard();
                    backoff.reset();
                    refused = None;
                    if bytes >= SAMPLE_BYTES_MIN {
                        hub.machine().network.add(ewma::network_mbit_s(bytes, began.elapsed().as_secs_f64()));
                    }
                    let next = kept.map(|kept| kept.next).unwrap_or_default();
                    on_shipped(&hub, &mut tails, &of, &next);
                }
                Err(error) => {
                    let Some(error) = hub.is_fatal(error) else { return };
                    if is_other_journal(&error) {
                        hub.rejoin.notify_one();
                        retry = Some(Instant::now() + backoff.next());
                        break;
                    }
                    if error.status() == Some(409) && go_back(&mut tails, &of) {
                        tracing::info!("the server lost output that it had; it is sent again");
                    } else if is_final(&error) || (cannot_keep(&error) && is_long(&hub, refused)) {
                        tracing::warn!(%error, "the server does not take output; it is dropped");
                        on_shipped(&hub, &mut tails, &of, &[]);
                    } else {
                        refused = refused.or_else(|| cannot_keep(&error).then(Instant::now));
                        retry = Some(Instant::now() + backoff.next());
                        break;
                    }
                }
            }
        }
    }
}

/// Whether the server answers but has no place for output. Then ends of jobs must not wait for it for ever.
fn cannot_keep(error: &ClientError) -> bool {
    matches!(error.status(), Some(500 | 507))
}

/// Whether that has been so for longer than ends wait.
fn is_long(hub: &Hub, since: Option<Instant>) -> bool {
    since.is_some_and(|since| since.elapsed() >= hub.config.log_patience)
}

/// Cuts off what nobody will read of a job that writes without end, also while the server is away.
fn cut(hub: &Hub, tail: &Tail) {
    let keep = hub.config.log_bytes_max.saturating_add(1);
    for (stream, state) in tail.streams.iter().enumerate().filter(|(_, state)| state.said.is_none()) {
        let path = tail.path(hub, stream);
        // Of a stream that is full, nothing more is read; of any other, the server may still want the beginning.
        let keep = if state.full { 0 } else { keep };
        // A file of the job's own is the job's.
        if std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink()) {
            continue;
        }
        if std::fs::metadata(&path).is_ok_and(|meta| meta.len() > keep.saturating_add(CUT_BYTES)) {
            // The job appends, so it does not notice.
            let _ = std::fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(keep));
        }
    }
}

/// Whether the server will say the same the next time.
fn is_final(error: &ClientError) -> bool {
    matches!(error.status(), Some(400 | 404 | 409 | 410 | 413 | 422))
}

/// Whether the agent has to begin anew with another journal; what is about this one is dropped then, and not before.
fn is_other_journal(error: &ClientError) -> bool {
    error.api().is_some_and(|api| api.code == OTHER_JOURNAL)
}

fn on_writing(hub: &Hub, tails: &mut BTreeMap<Key, Tail>, writing: Writing) {
    let (limit, now) = (hub.config.log_bytes_max, Instant::now());
    match writing {
        Writing::Track(fence, shipped, attended) => {
            tails.entry(key(&fence)).or_insert_with(|| {
                let tail = Tail::new(fence, shipped, limit, now);
                if attended { tail.attended() } else { tail }
            });
        }
        Writing::Ended(report, shipped) => {
            let fence = report.fence.clone();
            let tail = tails.entry(key(&fence)).or_insert_with(|| Tail::new(fence, shipped, limit, now));
            tail.end = Some(report);
        }
        Writing::OtherJournal(adopted, done) => {
            let dropped = tails.values().filter(|tail| !is_of(&tail.fence, &adopted));
            let reports = dropped.filter(|tail| tail.end.is_some()).count();
            tails.retain(|_, tail| is_of(&tail.fence, &adopted));
            hub.stored(reports as u64);
            // Nobody waits for it if the agent is over.
            let _ = done.send(());
        }
        Writing::Forget(fence) => {
            tails.remove(&key(&fence));
        }
        Writing::Refused(report, why) => {
            let fence = report.fence.clone();
            let mut tail = Tail::new(fence.clone(), (0, 0), limit, now);
            tail.streams[0].full = true;
            tail.streams[1].said = Some(format!("landfall: not started: {why}\n").into_bytes());
            tail.end = Some(report);
            tails.insert(key(&fence), tail);
        }
    }
}

/// A piece that is on its way.
struct Sent {
    at: Key,
    stream: usize,
    offset: u64,
    bytes: u64,
}

/// Gathers new output of all jobs that are due, for one request.
fn collect(hub: &Hub, tails: &mut BTreeMap<Key, Tail>, now: Instant) -> (Vec<LogPiece>, Vec<Sent>) {
    let (mut pieces, mut sent, mut total) = (Vec::new(), Vec::new(), 0);
    for (at, tail) in tails.iter_mut() {
        if tail.end.is_none() && now < tail.look_at {
            continue;
        }
        let mut wrote = false;
        for (stream, name) in NAMES.into_iter().enumerate() {
            let room = REQUEST_BYTES_MAX.saturating_sub(total);
            if room == 0 {
                return (pieces, sent);
            }
            let Some(data) = read(hub, tail, stream, room.min(PIECE_BYTES_MAX)) else { continue };
            let offset = tail.streams[stream].shipped;
            let bytes = data.len() as u64;
            (wrote, total) = (true, total + bytes);
            pieces.push(LogPiece {
                fence: tail.fence.clone(),
                stream: name.to_owned(),
                offset,
                data: base64::engine::general_purpose::STANDARD.encode(&data),
            });
            sent.push(Sent { at: at.clone(), stream, offset, bytes });
        }
        if !wrote && tail.end.is_none() {
            tail.pause = (tail.pause * 2).min(tail.pauses.1);
            tail.look_at = now + tail.pause;
        } else if wrote {
            // It is looked at again after this round; what it writes meanwhile waits a moment for company.
            tail.pause = tail.pauses.0;
        }
    }
    (pieces, sent)
}

/// What is new in a stream; `None` if nothing is.
fn read(hub: &Hub, tail: &mut Tail, stream: usize, room: u64) -> Option<Vec<u8>> {
    let path = tail.path(hub, stream);
    let limit = hub.config.log_bytes_max;
    let state = &mut tail.streams[stream];
    if let Some(said) = &state.said {
        let rest = said.get(usize::try_from(state.shipped).ok()?..)?;
        return (!rest.is_empty()).then(|| rest.to_vec());
    }
    if state.full {
        return None;
    }
    let size = std::fs::metadata(&path).ok()?.len();
    if size <= state.shipped {
        return None;
    }
    if state.shipped >= limit {
        return Some(
            format!("\nlandfall: more than {limit} bytes of output; the rest was dropped\n").into_bytes(),
        );
    }
    let mut file = std::fs::File::open(&path).ok()?;
    file.seek(SeekFrom::Start(state.shipped)).ok()?;
    let mut data = Vec::new();
    file.take(room.min(limit - state.shipped)).read_to_end(&mut data).ok()?;
    (!data.is_empty()).then_some(data)
}

/// Notes what the server has. Where it wants to go on elsewhere, that is followed a few times.
fn on_shipped(hub: &Hub, tails: &mut BTreeMap<Key, Tail>, sent: &[Sent], next: &[u64]) {
    let (limit, now) = (hub.config.log_bytes_max, Instant::now());
    for (index, piece) in sent.iter().enumerate() {
        let Some(tail) = tails.get_mut(&piece.at) else { continue };
        let state = &mut tail.streams[piece.stream];
        let reached = piece.offset + piece.bytes;
        let wanted = next.get(index).copied().unwrap_or(reached);
        let back = wanted < reached && !state.full && state.again < AGAIN_MAX && piece.offset < limit;
        state.again = if back { state.again + 1 } else { 0 };
        state.shipped = if back { wanted } else { wanted.max(reached) };
        state.full |= piece.offset >= limit && state.said.is_none();
        if tail.end.is_none() {
            tail.look_at = now + tail.pauses.0;
            let shipped = (tail.streams[0].shipped, tail.streams[1].shipped);
            hub.keeper(Request::Shipped { fence: tail.fence.clone(), shipped });
        }
    }
}

/// Begins anew with streams of which the server lacks a part. It keeps once what it gets twice. Says whether that is still
/// worth a try.
fn go_back(tails: &mut BTreeMap<Key, Tail>, sent: &[Sent]) -> bool {
    let mut any = false;
    for piece in sent {
        let Some(tail) = tails.get_mut(&piece.at) else { continue };
        let state = &mut tail.streams[piece.stream];
        // What was cut off cannot be sent again.
        if state.said.is_none() && !state.full && state.again < AGAIN_MAX && state.shipped > 0 {
            state.again += 1;
            state.shipped = 0;
            any = true;
        }
    }
    any
}

/// Passes on the reports of jobs whose output was sent completely.
fn release(hub: &Hub, tails: &mut BTreeMap<Key, Tail>) {
    let over: Vec<Key> =
        tails.iter().filter(|(_, tail)| tail.end.is_some()).map(|(at, _)| at.clone()).collect();
    for at in over {
        if let Some(report) = tails.remove(&at).and_then(|tail| tail.end) {
            hub.report(report);
            hub.stored(1);
        }
    }
}
