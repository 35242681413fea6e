//! `landfall logs`: what a job wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use indicatif::ProgressBar;
use landfall_api::job::{ArrayView, JobView, LogChunk};
use landfall_client::{Client, ClientError, segment, with_query};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::again::elements;
use super::submit::is_over;
use crate::answer::Answer;
use crate::error::CliError;
use crate::exit::Exit;
use crate::reply::Said;
use crate::service::{self, ConnectArgs, Returning};

/// Time between two tries to reach a server that is away.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// Time between two looks at which elements of an array have started, at least.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// Elements of an array that are followed at once.
const FOLLOWED_MAX: usize = 64;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
What the job wrote to standard output goes to standard output, what it wrote to standard error to standard error. With \
--json: one object per piece, as it arrives (`stream`, `node`, `attempt`, `offset`, `data` in base64; of an array also `job`). With -f a server that \
goes away is waited for. Of an array all elements are shown one after the other, with -f as they write, each line behind the name of its \
element; --out puts each into files of its own.

Examples:
  landfall logs 12
  landfall logs -f 9                  until it has ended
  landfall logs -f 8                  all of array 8, as its elements write
  landfall logs 12.0007 --stderr --tail 20
  landfall logs 8 --out results       8.001.out, 8.001.err and so on of array 8")]
pub(crate) struct Args {
    /// The job, the array, or the element of an array such as 12.0007.
    #[arg(value_name = "JOB")]
    job: String,
    /// Go on until the job, or all of the array, has ended.
    #[arg(long, short)]
    follow: bool,
    /// Only what it wrote to standard output.
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,
    /// Only what it wrote to standard error.
    #[arg(long)]
    stderr: bool,
    /// Only so many of the last lines.
    #[arg(long, value_name = "LINES")]
    tail: Option<u64>,
    /// Put what each job wrote into files of this directory: ID.out and ID.err.
    #[arg(long, value_name = "DIR", conflicts_with = "follow")]
    out: Option<PathBuf>,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) fn run(args: &Args, json: bool) -> Result<Box<dyn Answer>, CliError> {
    let client = args.connect.client()?;
    let stream = match (args.stdout, args.stderr) {
        (true, _) => Some("stdout"),
        (_, true) => Some("stderr"),
        _ => None,
    };
    service::block_on(async {
        let mut printer = Printer { json, ..Printer::new(stream) };
        let mut server = Returning::new(client, &args.connect);
        if let Some(dir) = &args.out {
            std::fs::create_dir_all(dir)
                .map_err(|source| CliError::Write { file: dir.display().to_string(), source })?;
            printer.to = To::Files(dir.clone());
        }
        let shown = match args.follow {
            true => printer.follow(&mut server, &args.job, args.tail).await,
            false => printer.once(server.client(), &args.job, args.tail).await,
        };
        match shown {
            // A reader that has seen enough, such as `head`, is no error.
            Err(CliError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            Err(CliError::Service(error)) if error.status() == Some(404) => {
                let array = client_array(server.client(), &args.job).await;
                let array = array.ok_or_else(|| CliError::from(error))?;
                match args.follow {
                    true => follow_array(server, array, args.tail, &printer).await?,
                    false => of_array(server.client(), args, &mut printer, &array).await?,
                }
            }
            shown => shown?,
        }
        Ok(Box::new(Said(Exit::Done)) as Box<dyn Answer>)
    })
}

async fn client_array(client: &Client, id: &str) -> Option<ArrayView> {
    client.get(&format!("/arrays/{}", segment(id))).await.ok()
}

/// The elements of an array that are jobs by now, in order.
async fn in_order(client: &Client, array: &ArrayView) -> Result<Vec<JobView>, ClientError> {
    let mut all = elements(client, &array.id, None, usize::MAX).await?;
    all.sort_by_key(|job| job.array.as_ref().map(|element| element.index));
    Ok(all)
}

/// Shows what the elements of an array write as they write it, until all have ended.
async fn follow_array(
    mut server: Returning,
    mut array: ArrayView,
    tail: Option<u64>,
    printer: &Printer,
) -> Result<(), CliError> {
    let at_once = Arc::new(Semaphore::new(FOLLOWED_MAX));
    let (mut known, mut tasks) = (BTreeSet::new(), JoinSet::new());
    loop {
        let began = Instant::now();
        let started = match in_order(server.client(), &array).await {
            Err(error) if error.may_pass() => {
                server.look_again();
                Vec::new()
            }
            started => started?,
        };
        for job in started.into_iter().filter(|job| job.started_at_ms.is_some()) {
            if !known.insert(job.id.clone()) {
                continue;
            }
            let (mut server, at_once) = (server.clone(), at_once.clone());
            let mut printer = Printer {
                json: printer.json,
                beside: true,
                to: To::Named(job.id.clone()),
                ..Printer::new(printer.stream)
            };
            tasks.spawn(async move {
                let _turn = at_once.acquire_owned().await;
                printer.follow(&mut server, &job.id, tail).await?;
                printer.end_lines()
            });
        }
        while let Some(done) = tasks.try_join_next() {
            if enough(done)? {
                return Ok(());
            }
        }
        if array.is_over() {
            break;
        }
        // Looking at a long array takes longer, and is done less often.
        tokio::time::sleep(LOOK_AGAIN.max(began.elapsed() * 4)).await;
        array = client_array(server.client(), &array.id).await.unwrap_or(array);
    }
    while let Some(done) = tasks.join_next().await {
        if enough(done)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether nobody reads any more: a reader that has seen enough, such as `head`, is no error.
fn enough(done: Result<Result<(), CliError>, tokio::task::JoinError>) -> Result<bool, CliError> {
    match done {
        Ok(Err(CliError::Output(error))) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(true),
        Ok(shown) => shown.map(|()| false),
        Err(_) => Ok(false),
    }
}

/// Shows what all elements of an array wrote, one after the other.
async fn of_array(
    client: &Client,
    args: &Args,
    printer: &mut Printer,
    array: &ArrayView,
) -> Result<(), CliError> {
    for job in in_order(client, array).await? {
        printer.shown.clear();
        if !matches!(printer.to, To::Files(_)) {
            printer.to = To::Named(job.id.clone());
        }
        let shown = printer.once(client, &job.id, args.tail).await;
        if enough(Ok(shown.and_then(|()| printer.end_lines())))? {
            return Ok(());
        }
    }
    Ok(())
}

/// Where what was written goes.
enum To {
    /// Where it went when it was written.
    Streams,
    /// There, each line behind this name.
    Named(String),
    /// Into files of this directory.
    Files(PathBuf),
}

/// Shows pieces of logs, each byte once.
pub(crate) struct Printer {
    stream: Option<&'static str>,
    to: To,
    json: bool,
    /// Somebody else says when the server is away, and knows that it was there.
    beside: bool,
    /// A line that is drawn again and again, and goes when there is something to show.
    line: Option<ProgressBar>,
    /// Whether the server has answered yet.
    answered: bool,
    /// Whether people were told that the server is away.
    away: bool,
    /// How far each stream of each attempt on each node was shown.
    shown: BTreeMap<(String, u32, String), u64>,
    /// Beginnings of lines of standard output and of standard error whose ends are still to come, where a name stands before each line.
    begun: [Vec<u8>; 2],
    /// Files that were begun anew.
    files: BTreeSet<PathBuf>,
}

impl Printer {
    /// Shows one stream or both.
    pub(crate) fn new(stream: Option<&'static str>) -> Self {
        Self {
            stream,
            to: To::Streams,
            json: false,
            beside: false,
            line: None,
            answered: false,
            away: false,
            shown: BTreeMap::new(),
            begun: Default::default(),
            files: BTreeSet::new(),
        }
    }

    /// Shows both streams beside somebody who waits for the job, and leaves talking about the server to them. Their line is gone before the first
    /// word of the job.
    pub(crate) fn beside_a_wait(line: Option<ProgressBar>) -> Self {
        Self { beside: true, line, ..Self::new(None) }
    }

    /// Shows what is there and what comes, until the job has ended. A server that goes away meanwhile is waited for.
    pub(crate) async fn follow(
        &mut self,
        server: &mut Returning,
        job: &str,
        tail: Option<u64>,
    ) -> Result<(), CliError> {
        loop {
            // What was shown is not shown again, so after a break everything is asked for.
            let tail = tail.filter(|_| self.shown.is_empty());
            let error = match self.read(server.client(), job, true, tail).await {
                // A server that stops ends its streams, too.
                Ok(()) => match has_ended(server.client(), job).await {
                    Ok(true) => return Ok(()),
                    Ok(false) => None,
                    Err(error) => Some(error),
                },
                Err(CliError::Service(error)) => Some(error),
                Err(error) => return Err(error),
            };
            match error {
                Some(error) if !error.may_pass() || !(self.answered || self.beside) => {
                    return Err(error.into());
                }
                Some(_) => {
                    if !self.away && !self.beside {
                        anstream::eprintln!("the server does not answer; trying again");
                    }
                    self.away = true;
                    server.look_again();
                }
                None => {}
            }
            tokio::time::sleep(TRY_AGAIN).await;
        }
    }

    /// Shows what is there.
    pub(crate) async fn once(
        &mut self,
        client: &Client,
        job: &str,
        tail: Option<u64>,
    ) -> Result<(), CliError> {
        self.read(client, job, false, tail).await
    }

    /// Shows what was not shown before.
    pub(crate) async fn rest(&mut self, client: &Client, job: &str) -> Result<(), CliError> {
        self.read(client, job, false, None).await
    }

    async fn read(
        &mut self,
        client: &Client,
        job: &str,
        follow: bool,
        tail: Option<u64>,
    ) -> Result<(), CliError> {
        let tail = tail.map(|lines| lines.to_string());
        let params =
            [("stream", self.stream), ("follow", follow.then_some("true")), ("tail", tail.as_deref())];
        let path = with_query(&format!("/jobs/{}/logs", segment(job)), &params);
        let mut lines = client.stream_lines(&path).await?;
        self.answered = true;
        if std::mem::take(&mut self.away) && !self.beside {
            anstream::eprintln!("the server answers again");
        }
        while let Some(line) = lines.next().await? {
            if line.trim().is_empty() {
                continue;
            }
            let chunk: LogChunk =
                serde_json::from_str(&line).map_err(|error| not_ours(client, &error.to_string()))?;
            let data = STANDARD.decode(&chunk.data).map_err(|error| not_ours(client, &error.to_string()))?;
            let fresh = self.fresh(&chunk, &data);
            let as_json = self.json && !matches!(self.to, To::Files(_));
            match (as_json, fresh.len()) {
                (_, 0) => {}
                (true, some) => {
                    let offset = chunk.offset + (data.len() - some) as u64;
                    let rest = LogChunk { offset, data: STANDARD.encode(fresh), ..chunk };
                    let mut line = serde_json::json!(rest);
                    // Of an array, which element it is from.
                    if let To::Named(id) = &self.to {
                        line["job"] = id.as_str().into();
                    }
                    write(false, format!("{line}\n").as_bytes())?;
                }
                (false, _) => self.put(job, &chunk.stream, fresh)?,
            }
        }
        Ok(())
    }

    fn put(&mut self, job: &str, stream: &str, bytes: &[u8]) -> Result<(), CliError> {
        let to_stderr = stream == "stderr";
        if let Some(line) = self.line.take() {
            line.finish_and_clear();
        }
        match &self.to {
            To::Streams => write(to_stderr, bytes),
            To::Named(name) => {
                // A piece may end within a line.
                let begun = &mut self.begun[usize::from(to_stderr)];
                begun.extend(bytes);
                let whole = begun.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                let lines: Vec<u8> = begun.drain(..whole).collect();
                let lines = lines.split_inclusive(|byte| *byte == b'\n');
                let text: Vec<u8> = lines.flat_map(|line| [name.as_bytes(), b": ", line].concat()).collect();
                write(to_stderr, &text)
            }
            To::Files(dir) => {
                let path = dir.join(format!("{job}.{}", if to_stderr { "err" } else { "out" }));
                // What an earlier call wrote there is written over.
                let mut options = std::fs::File::options();
                match self.files.insert(path.clone()) {
                    true => options.write(true).truncate(true),
                    false => options.append(true),
                };
                let file = options.create(true).open(&path);
                file.and_then(|mut file| file.write_all(bytes))
                    .map_err(|source| CliError::Write { file: path.display().to_string(), source })
            }
        }
    }

    /// Shows what the last lines begin with though they have no end.
    fn end_lines(&mut self) -> Result<(), CliError> {
        let To::Named(name) = &self.to else { return Ok(()) };
        for (stream, begun) in self.begun.iter_mut().enumerate().filter(|(_, begun)| !begun.is_empty()) {
            let line = [name.as_bytes(), b": ", &std::mem::take(begun), b"\n"].concat();
            write(stream == 1, &line)?;
        }
        Ok(())
    }

    /// The part of a piece that was not shown before.
    fn fresh<'d>(&mut self, chunk: &LogChunk, data: &'d [u8]) -> &'d [u8] {
        let key = (chunk.node.clone(), chunk.attempt, chunk.stream.clone());
        let shown = self.shown.entry(key).or_default();
        let known = shown.saturating_sub(chunk.offset);
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(data.len());
        *shown = (*shown).max(chunk.offset.saturating_add(data.len() as u64));
        &data[known..]
    }
}

async fn has_ended(client: &Client, job: &str) -> Result<bool, ClientError> {
    let job: JobView = client.get(&format!("/jobs/{}", segment(job))).await?;
    Ok(is_over(&job.state))
}

fn not_ours(client: &Client, message: &str) -> CliError {
    let url = client.server().to_owned();
    CliError::Service(ClientError::BadAnswer { url, message: message.to_owned() })
}

/// Writes bytes as they are: what a job writes is its own business, colours included.
fn write(to_stderr: bool, bytes: &[u8]) -> Result<(), CliError> {
    let written = if to_stderr {
        let mut out = std::io::stderr().lock();
        out.write_all(bytes).and_then(|()| out.flush())
    } else {
        let mut out = std::io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush())
    };
    written.map_err(CliError::Output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_shown_once() {
        let mut printer = Printer::new(None);
        let chunk = |offset, attempt| LogChunk {
            stream: "stdout".into(),
            node: "n".into(),
            attempt,
            offset,
            data: String::new(),
        };
        assert_eq!(printer.fresh(&chunk(0, 1), b"hello"), b"hello");
        assert_eq!(printer.fresh(&chunk(0, 1), b"hello"), b"");
        assert_eq!(printer.fresh(&chunk(3, 1), b"lo world"), b" world");
        assert_eq!(printer.fresh(&chunk(20, 1), b"later"), b"later");
        assert_eq!(printer.fresh(&chunk(0, 2), b"again"), b"again");
    }
}
