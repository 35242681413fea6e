//! `landfall logs`: what a job wrote.

use std::collections::BTreeMap;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use landfall_api::job::LogChunk;
use landfall_client::{Client, segment, with_query};

use crate::answer::Answer;
use crate::error::CliError;
use crate::exit::Exit;
use crate::reply::Said;
use crate::service::{self, ConnectArgs};

/// Arguments of `logs`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What the job wrote to standard output goes to standard output, what it wrote to standard error to standard error. With \
--json: one object per piece, as it arrives (`stream`, `node`, `attempt`, `offset`, `data` in base64).

Examples:
  landfall logs 12
  landfall logs -f 12                 until it has ended
  landfall logs 12.0007 --stderr --tail 20")]
pub(crate) struct Args {
    /// The job, or the element of an array such as 12.0007.
    #[arg(value_name = "JOB")]
    job: String,
    /// Go on until the job has ended.
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
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Answers `logs`.
pub(crate) fn run(args: &Args, json: bool) -> Result<Box<dyn Answer>, CliError> {
    let client = args.connect.client()?;
    let stream = match (args.stdout, args.stderr) {
        (true, _) => Some("stdout"),
        (_, true) => Some("stderr"),
        _ => None,
    };
    service::block_on(async {
        let mut printer = Printer { json, ..Printer::new(stream) };
        let shown = match args.follow {
            true => printer.follow(&client, &args.job, args.tail).await,
            false => printer.once(&client, &args.job, args.tail).await,
        };
        match shown {
            // A reader that has seen enough, such as `head`, is no error.
            Err(CliError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            shown => shown?,
        }
        Ok(Box::new(Said(Exit::Done)) as Box<dyn Answer>)
    })
}

/// Shows pieces of logs, each byte once.
pub(crate) struct Printer {
    stream: Option<&'static str>,
    json: bool,
    /// How far each stream of each attempt on each node was shown.
    shown: BTreeMap<(String, u32, String), u64>,
}

impl Printer {
    /// Shows one stream or both.
    pub(crate) fn new(stream: Option<&'static str>) -> Self {
        Self { stream, json: false, shown: BTreeMap::new() }
    }

    /// Shows what is there and what comes, until the job has ended.
    pub(crate) async fn follow(
        &mut self,
        client: &Client,
        job: &str,
        tail: Option<u64>,
    ) -> Result<(), CliError> {
        self.read(client, job, true, tail).await
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
        while let Some(line) = lines.next().await? {
            if line.trim().is_empty() {
                continue;
            }
            let chunk: LogChunk =
                serde_json::from_str(&line).map_err(|error| not_ours(client, &error.to_string()))?;
            if self.json {
                write(false, format!("{line}\n").as_bytes())?;
                continue;
            }
            let data = STANDARD.decode(&chunk.data).map_err(|error| not_ours(client, &error.to_string()))?;
            let fresh = self.fresh(&chunk, &data);
            write(chunk.stream == "stderr", fresh)?;
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

fn not_ours(client: &Client, message: &str) -> CliError {
    let url = client.server().to_owned();
    CliError::Service(landfall_client::ClientError::BadAnswer { url, message: message.to_owned() })
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
