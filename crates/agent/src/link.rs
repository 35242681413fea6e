//! The agent's side of the socket to the keeper.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use crate::error::AgentError;
use crate::keeper::wire::{Event, Hello, Request};
use crate::keeper::with_short_path;
use crate::layout::Layout;
use crate::runtime::env;

/// How long a keeper may take to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);
/// How often it is tried meanwhile.
const TRY_EVERY: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Link {
    /// What it said first.
    pub(crate) hello: Hello,
    /// Where requests go in.
    pub(crate) requests: mpsc::UnboundedSender<Request>,
    /// Where events come out; it ends with the connection.
    pub(crate) events: mpsc::UnboundedReceiver<Event>,
}

/// Connects to the keeper of a data directory, and starts one if there is none.
pub(crate) async fn connect(layout: &Layout, helper: &Path) -> Result<Link, AgentError> {
    let failed = |message: String| AgentError::Keeper { dir: layout.root().to_owned(), message };
    let stream = match open(layout) {
        Ok(stream) => stream,
        Err(_) => start(layout, helper).await.map_err(failed)?,
    };
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::with_capacity(1 << 16, read).lines();
    let first = tokio::time::timeout(LISTENS_WITHIN, lines.next_line()).await;
    let first = first.map_err(|_| failed("it says nothing".to_owned()))?;
    let first = first.map_err(|error| failed(error.to_string()))?.unwrap_or_default();
    let hello = match serde_json::from_str(&first) {
        Ok(Event::Hello(hello)) => *hello,
        _ => return Err(failed("it does not speak as expected; is it of another version?".to_owned())),
    };
    let (requests, mut to_send) = mpsc::unbounded_channel::<Request>();
    let (told, events) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut batch = Vec::new();
        let mut text = Vec::new();
        while to_send.recv_many(&mut batch, 1000).await > 0 {
            text.clear();
            for request in batch.drain(..) {
                if serde_json::to_writer(&mut text, &request).is_ok() {
                    text.push(b'\n');
                }
            }
            if write.write_all(&text).await.is_err() {
                return;
            }
        }
        let _ = write.shutdown().await;
    });
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            let Ok(event) = serde_json::from_str(&line) else {
                tracing::error!("the keeper says something that makes no sense; is it of another version?");
                return;
            };
            if told.send(event).is_err() {
                return;
            }
        }
    });
    Ok(Link { hello, requests, events })
}

fn open(layout: &Layout) -> std::io::Result<UnixStream> {
    let stream = with_short_path(&layout.socket(), |path| std::os::unix::net::UnixStream::connect(path))?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

async fn start(layout: &Layout, helper: &Path) -> Result<UnixStream, String> {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(layout.file("keeper.log"));
    let log = log.map_err(|error| format!("cannot write keeper.log: {error}"))?;
    let mut command = tokio::process::Command::new(helper);
    command.arg("keeper").arg("--dir").arg(layout.root());
    // The keeper gets no more of our environment than jobs do: no token may be found there.
    command.env_clear().envs(env::allowed(&[], std::env::vars_os()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).current_dir("/");
    let mut child = command.spawn().map_err(|error| format!("cannot run {}: {error}", helper.display()))?;
    let until = tokio::time::Instant::now() + LISTENS_WITHIN;
    while tokio::time::Instant::now() < until {
        if let Ok(stream) = open(layout) {
            // Dropping the handle does not end the keeper; the runtime waits for it once it ends.
            return Ok(stream);
        }
        tokio::time::sleep(TRY_EVERY).await;
        // It gives up at once if another one holds the directory; then that one will listen in a moment.
        if let Ok(Some(status)) = child.try_wait()
            && !status.success()
            && let Err(error) = open(layout)
        {
            tokio::time::sleep(Duration::from_millis(200)).await;
            return open(layout).map_err(|_| format!("it ended with {status} ({error})"));
        }
    }
    Err("it does not listen".to_owned())
}
