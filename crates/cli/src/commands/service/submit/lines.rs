//! A file with a job in JSON on each line: many submissions in one request.
//!
//! All lines are read before anything is sent, so a file that is wrong submits nothing. The server answers line by line. If the connection
//! breaks, all lines are sent again under their key; what was accepted is answered as before.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use landfall_api::job::{JobRequest, SubmittedKey, SubmittedLine};
use landfall_client::{Client, ClientError};
use landfall_model::scenario::{Format, Position, decode};
use serde::de::IgnoredAny;

use super::{Accepted, Target};
use crate::answer::warn;
use crate::error::{CliError, broken};
use crate::input::Input;

/// Lines that are sent as one piece.
const PIECE: usize = 256;
/// How often all of it is sent again, and the pause before each.
const PAUSES_MS: [u64; 4] = [100, 1000, 3000, 10_000];

#[derive(Debug)]
pub(crate) struct Lines {
    file: String,
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    /// Where it stands in the file, from 1.
    number: usize,
    request: Vec<u8>,
    key: Option<String>,
    is_array: bool,
}

fn filled(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty())
}

/// Whether a file has a job on each line: the first line is an object by itself, and others follow.
pub(super) fn are_in(input: &Input) -> bool {
    let mut filled = filled(&input.text);
    let first = filled.next().filter(|(_, line)| line.trim_start().starts_with('{'));
    first.is_some_and(|(_, line)| serde_json::from_str::<IgnoredAny>(line).is_ok()) && filled.next().is_some()
}

/// Reads all lines; `made` makes what is sent of what a line says.
pub(super) fn read(
    input: &Input,
    made: impl Fn(JobRequest) -> Result<JobRequest, CliError>,
) -> Result<Lines, CliError> {
    let mut lines = Vec::new();
    for (number, line) in filled(&input.text) {
        let file = input.file.clone();
        let request = decode::<JobRequest>(line, Format::Json).map_err(|error| {
            let mut error = error.located(line, Format::Json);
            let column = error.position.map_or(1, |position| position.column);
            error.position = Some(Position { line: number, column });
            CliError::Invalid { file: file.clone(), error }
        })?;
        let job = made(request).map_err(|source| {
            let position = Some(Position { line: number, column: 1 });
            CliError::Asked { file, position, job: None, source: Box::new(source) }
        })?;
        let mut request = serde_json::to_vec(&job).unwrap_or_default();
        request.push(b'\n');
        let is_array = job.array.is_some() || !job.entries.is_empty();
        lines.push(Line { number, request, key: job.key, is_array });
    }
    Ok(Lines { file: input.file.clone(), lines })
}

/// Submits all lines. Those that are refused are told while the others go on.
pub(super) async fn send(
    client: &Client,
    key: &str,
    lines: Lines,
    quiet: bool,
) -> Result<(Accepted, Vec<Target>), CliError> {
    let mut sent = Sent { accepted: Accepted::nothing(quiet), targets: Vec::new(), answered: 0, bar: None };
    if !quiet && std::io::stderr().is_terminal() {
        let bar = ProgressBar::with_draw_target(
            Some(lines.lines.len() as u64),
            ProgressDrawTarget::stderr_with_hz(8),
        );
        if let Ok(style) = ProgressStyle::with_template("submitted {pos} of {len} ({elapsed})") {
            bar.set_style(style);
        }
        sent.bar = Some(bar);
    }
    let mut waits = PAUSES_MS.into_iter().map(Duration::from_millis);
    loop {
        match sent.all(client, key, &lines).await {
            Ok(()) => break,
            Err(error) if error.may_pass() => match waits.next() {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(bar) = sent.bar {
        bar.finish_and_clear();
    }
    if sent.answered < lines.lines.len() {
        let message = format!("the server answered {} of {} lines", sent.answered, lines.lines.len());
        return Err(broken(message, format!("say it again with --idempotency-key {key}")));
    }
    Ok((sent.accepted, sent.targets))
}

struct Sent {
    accepted: Accepted,
    targets: Vec<Target>,
    /// Lines whose answer is there.
    answered: usize,
    bar: Option<ProgressBar>,
}

impl Sent {
    /// Sends all lines once and takes in those answers that are not there yet.
    async fn all(&mut self, client: &Client, key: &str, lines: &Lines) -> Result<(), ClientError> {
        let pieces = lines.lines.chunks(PIECE);
        let pieces = pieces.map(|piece| piece.iter().flat_map(|line| line.request.iter().copied()).collect());
        let mut answers = client.post_lines("/jobs/stream", key, pieces.collect()).await?;
        while let Some(answer) = answers.next().await? {
            let answer: SubmittedLine = serde_json::from_str(&answer).map_err(|error| {
                ClientError::BadAnswer { url: client.server().to_owned(), message: error.to_string() }
            })?;
            // What is sent has no empty lines, so its lines are numbered as they stand here.
            let place = (answer.line as usize).saturating_sub(1);
            if let Some(line) = lines.lines.get(place).filter(|_| place == self.answered) {
                self.take(&lines.file, line, answer);
            }
        }
        Ok(())
    }

    fn take(&mut self, file: &str, line: &Line, answer: SubmittedLine) {
        self.answered += 1;
        if let Some(bar) = &self.bar {
            bar.set_position(self.answered as u64);
        }
        if let Some(error) = &answer.error {
            let hint = error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            let told = || warn(&format!("{file}:{}: refused: {}{hint}", line.number, error.message));
            match &self.bar {
                Some(bar) => bar.suspend(told),
                None => told(),
            }
            self.accepted.refused.push(SubmittedLine { line: line.number as u64, ..answer });
            return;
        }
        let Some(submitted) = answer.submitted else { return };
        self.accepted.count += submitted.count;
        self.accepted.repeated |= submitted.repeated;
        for warning in submitted.warnings {
            let warning = format!("{file}:{}: {warning}", line.number);
            if !self.accepted.warnings.contains(&warning) {
                self.accepted.warnings.push(warning);
            }
        }
        let id = submitted.id;
        self.targets.push(if line.is_array { Target::Array(id.clone()) } else { Target::Job(id.clone()) });
        self.accepted.jobs.push(SubmittedKey { key: line.key.clone(), id });
    }
}
