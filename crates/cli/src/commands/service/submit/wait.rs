//! Waits for jobs: shows where they stand and what they write, and tells how they ended.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use landfall_api::Paged;
use landfall_api::job::{ArrayView, JobView, LogChunk, UNNEEDED};
use landfall_client::{Client, ClientError, segment, with_query};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::commands::service::logs::Printer;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::codes;
use crate::render::style::DIM;
use crate::render::text::clean;
use crate::service::Returning;

/// Time between two looks: short at first, as most jobs that are waited for are short.
const LOOKS: (Duration, Duration) = (Duration::from_millis(4), Duration::from_secs(1));

/// How long the last words of a job may take to arrive after it has ended.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Failures that are named one by one at the end.
const FAILURES_SHOWN: usize = 5;
/// Lines of each that are shown.
const LAST_LINES: usize = 5;

#[derive(Debug, Clone)]
pub(crate) enum Target {
    Job(String),
    Array(String),
}

impl Target {
    fn id(&self) -> &str {
        match self {
            Self::Job(id) | Self::Array(id) => id,
        }
    }

    /// Its id, if it is an array.
    pub(super) fn array(&self) -> Option<&str> {
        match self {
            Self::Array(id) => Some(id),
            Self::Job(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// Show what a single job writes.
    pub(crate) output: bool,
    /// Show where the jobs stand.
    pub(crate) progress: bool,
    pub(crate) cancel_on_interrupt: bool,
}

/// How what was waited for ended.
#[derive(Debug, Serialize)]
pub(crate) struct Ended {
    /// Ids of all that was waited for, whether it has ended or not.
    pub(crate) ids: Vec<String>,
    /// Jobs, as they are shown.
    pub(crate) jobs: Vec<JobView>,
    /// Arrays, as they are shown.
    pub(crate) arrays: Vec<ArrayView>,
    /// Whether somebody stopped waiting before all had ended.
    pub(crate) interrupted: bool,
    #[serde(skip)]
    pub(crate) exit: Exit,
}

/// Waits until all have ended, or until Ctrl-C.
pub(crate) async fn wait(
    mut server: Returning,
    targets: Vec<Target>,
    manner: Manner,
) -> Result<Ended, CliError> {
    let ids: Vec<String> = targets.iter().map(|target| target.id().to_owned()).collect();
    let (said, all_said) = oneshot::channel();
    let progress = Progress::new(manner.progress, &targets, manner.output && targets.len() == 1);
    let line = progress.bar.clone();
    let output = match targets.as_slice() {
        [Target::Job(id)] if manner.output => {
            let printer = Printer::beside_a_wait(line.clone());
            Some(tokio::spawn(follow(server.clone(), id.clone(), printer, said)))
        }
        _ => None,
    };
    let shown = output.is_some();
    let abort = output.as_ref().map(tokio::task::JoinHandle::abort_handle);
    let mut interrupted = false;
    let outcome = tokio::select! {
        outcome = until_over(&mut server, targets, progress, all_said) => Some(outcome),
        _ = tokio::signal::ctrl_c() => None,
    };
    // However the wait ended, nothing is drawn over what is said next.
    if let Some(line) = line.filter(|line| !line.is_finished()) {
        line.finish_and_clear();
    }
    let (jobs, arrays) = match outcome {
        Some(over) => {
            let over = over?;
            if let Some(output) = output {
                let in_time = tokio::time::timeout(LAST_WORDS, output).await;
                // A stream that broke has left something out: the rest is asked for once more.
                if let (Ok(Ok((mut printer, false))), [only]) = (in_time, ids.as_slice()) {
                    let _ = printer.rest(server.client(), only).await;
                }
            }
            if manner.progress {
                summary(server.client(), &over.0, &over.1, shown).await;
                left_behind(&over.0);
                if std::io::stderr().is_terminal() {
                    all_well(&over.0, &over.1);
                }
            }
            over
        }
        None => {
            interrupted = true;
            let mut words = format!("the job goes on; `landfall cancel {}` stops it", ids.join(" "));
            if manner.cancel_on_interrupt {
                for id in &ids {
                    let path = format!("/jobs/{}/cancel", segment(id));
                    server.client().order::<serde_json::Value>(&path).await?;
                }
                words = format!("cancelled {}", ids.join(", "));
            }
            anstream::eprintln!("\n{}", clean(&words));
            (Vec::new(), Vec::new())
        }
    };
    if let Some(abort) = abort {
        abort.abort();
    }
    let exit = if interrupted { Exit::Job(130) } else { exit_of(server.client(), &jobs, &arrays).await? };
    Ok(Ended { ids, jobs, arrays, interrupted, exit })
}

/// Shows what a job writes until it has ended; tells whether the stream came to its own end.
async fn follow(
    mut server: Returning,
    id: String,
    mut printer: Printer,
    said: oneshot::Sender<()>,
) -> (Printer, bool) {
    let whole = printer.follow(&mut server, &id, None).await.is_ok();
    // Nobody waits for it if the end was seen before.
    let _ = said.send(());
    (printer, whole)
}

async fn until_over(
    server: &mut Returning,
    targets: Vec<Target>,
    mut progress: Progress,
    all_said: oneshot::Receiver<()>,
) -> Result<(Vec<JobView>, Vec<ArrayView>), CliError> {
    let mut all_said = Some(all_said);
    let (mut jobs, mut arrays) = (Vec::new(), Vec::new());
    let mut open = targets;
    let mut pause = LOOKS.0;
    let mut heard = true;
    loop {
        let mut answers = false;
        let mut rest = Vec::new();
        for target in open {
            let over = match &target {
                Target::Job(id) => {
                    let job: Option<JobView> =
                        look(server.client(), &format!("/jobs/{}", segment(id))).await?;
                    answers |= job.is_some();
                    job.filter(|job| {
                        progress.job(job);
                        is_over(&job.state)
                    })
                    .map(|job| jobs.push(job))
                }
                Target::Array(id) => {
                    let array: Option<ArrayView> =
                        look(server.client(), &format!("/arrays/{}", segment(id))).await?;
                    answers |= array.is_some();
                    array
                        .filter(|array| {
                            progress.array(array);
                            array.is_over()
                        })
                        .map(|array| arrays.push(array))
                }
            };
            if over.is_none() {
                rest.push(target);
            }
        }
        if rest.is_empty() {
            progress.clear();
            return Ok((jobs, arrays));
        }
        if heard != answers {
            let words =
                if answers { "the server answers again" } else { "the server does not answer; trying again" };
            let say = || anstream::eprintln!("{words}");
            progress.bar.as_ref().map_or_else(say, |bar| bar.suspend(say));
        }
        heard = answers;
        if !answers {
            server.look_again();
        }
        open = rest;
        // A job has ended, or is about to, when it has said all.
        let said = async {
            match &mut all_said {
                Some(said) => said.await.is_ok(),
                None => std::future::pending().await,
            }
        };
        if let Ok(ends) = tokio::time::timeout(pause, said).await {
            all_said = None;
            if ends {
                pause = LOOKS.0;
            }
        } else {
            pause = (pause * 3 / 2).min(LOOKS.1);
        }
    }
}

/// A look that a server which is away for a moment does not end.
async fn look<T: serde::de::DeserializeOwned>(client: &Client, path: &str) -> Result<Option<T>, ClientError> {
    match client.get(path).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.may_pass() => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn is_over(state: &str) -> bool {
    matches!(state, "completed" | "failed" | "cancelled")
}

/// Whether a job did not end well. That somebody is not needed is no failure.
fn is_bad(job: &JobView) -> bool {
    job.state != "completed" && job.reason.as_deref() != Some(UNNEEDED)
}

async fn exit_of(client: &Client, jobs: &[JobView], arrays: &[ArrayView]) -> Result<Exit, CliError> {
    if let Some(bad) = jobs.iter().find(|job| is_bad(job)) {
        let own = bad.exit_code.filter(|code| *code != 0);
        return Ok(bad
            .reason
            .as_deref()
            .filter(|_| own.is_none())
            .and_then(Exit::of_negotiation)
            .unwrap_or_else(|| Exit::of_job(own)));
    }
    if let Some(array) = arrays.iter().find(|array| array.failed + array.cancelled > 0) {
        let path = with_query(
            "/jobs",
            &[("array", Some(&array.id)), ("state", Some("failed")), ("limit", Some("1000"))],
        );
        let failed: Paged<JobView> = client.get(&path).await?;
        let index = |job: &&JobView| job.array.as_ref().map(|element| element.index);
        let first = failed.items.iter().min_by_key(index).and_then(|job| job.exit_code);
        return Ok(Exit::of_job(first.filter(|code| *code != 0)));
    }
    Ok(Exit::Done)
}

/// Where things stand: a line that changes on a terminal, a line for each change elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    lines: bool,
    /// Whether what a job writes is shown beside.
    output: bool,
    /// What was last known of each, of what is said.
    last: BTreeMap<String, String>,
    /// Which states several jobs are in.
    states: BTreeMap<String, String>,
}

impl Progress {
    fn new(wanted: bool, targets: &[Target], output: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = (wanted && terminal).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        let states = targets.iter().map(|target| (target.id().to_owned(), "pending".to_owned()));
        let states = if targets.len() > 1 { states.collect() } else { BTreeMap::new() };
        Self { bar, lines: wanted && !terminal, output, last: BTreeMap::new(), states }
    }

    fn job(&mut self, job: &JobView) {
        let on: Vec<&str> = job.nodes.iter().map(|at| at.node.as_str()).collect();
        let more = match (&job.reason, on.is_empty()) {
            (Some(reason), true) => format!(": {}", job.why.clone().unwrap_or_else(|| codes::reason(reason))),
            (_, false) => format!(" on {}", on.join(", ")),
            (None, true) => String::new(),
        };
        // What a running job writes and a line that is drawn again and again would disturb each other.
        let begun = |bar: &mut ProgressBar| job.started_at_ms.is_some() || bar.is_finished();
        if let Some(bar) = self.bar.take_if(|bar| self.output && begun(bar)) {
            bar.finish_and_clear();
        }
        // What is said of a reason may change with every look: how long it still waits, by how many points.
        let change = format!("{} {:?} {on:?}", job.state, job.reason);
        let fails = is_over(&job.state) && is_bad(job);
        self.say(&job.id, (&job.state, fails), change, format!("job {} {}{more}", job.id, job.state));
    }

    fn array(&mut self, array: &ArrayView) {
        let state = match array {
            _ if !array.is_over() && array.running > 0 => "running",
            _ if !array.is_over() => "pending",
            _ if array.failed > 0 => "failed",
            _ if array.cancelled > 0 => "cancelled",
            _ => "completed",
        };
        let fails = matches!(state, "failed" | "cancelled");
        self.say(&array.id, (state, fails), counts(array), counts(array));
    }

    /// Says something of a job, as a line only where that is a change.
    fn say(&mut self, id: &str, (state, fails): (&str, bool), change: String, text: String) {
        let text = clean(&text);
        if let Some(known) = self.states.get_mut(id) {
            state.clone_into(known);
        }
        if let Some(bar) = &self.bar {
            bar.set_message(if self.states.is_empty() { text } else { self.all() });
        } else if fails && self.states.is_empty() {
            // How one that was waited for alone failed is said at the end, and more of it.
        } else if self.lines && self.last.get(id) != Some(&change) {
            anstream::eprintln!("{text}");
            self.last.insert(id.to_owned(), change);
        }
    }

    /// How many of several are in which state.
    fn all(&self) -> String {
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        for state in self.states.values() {
            *numbers.entry(state).or_default() += 1;
        }
        let words: Vec<String> = numbers.iter().map(|(state, number)| format!("{number} {state}")).collect();
        format!("{} of {} ended: {}", self.ended(), self.states.len(), words.join(", "))
    }

    fn ended(&self) -> usize {
        self.states.values().filter(|state| is_over(state)).count()
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// How many elements of an array are where.
fn counts(array: &ArrayView) -> String {
    let ArrayView { pending, running, completed, failed, cancelled, total, .. } = array;
    let mut text = format!("array {}: {completed} of {total} completed", array.id);
    for (number, word) in
        [(running, "running"), (pending, "waiting"), (failed, "failed"), (cancelled, "cancelled")]
    {
        if *number > 0 {
            text += &format!(", {number} {word}");
        }
    }
    text
}

/// Says at the end what did not end well: each with its exit code and the last it wrote.
async fn summary(client: &Client, jobs: &[JobView], arrays: &[ArrayView], shown: bool) {
    let mut bad: Vec<JobView> = jobs.iter().filter(|job| is_bad(job)).cloned().collect();
    for array in arrays.iter().filter(|array| array.failed > 0) {
        let failed = format!("{}", FAILURES_SHOWN);
        let params =
            [("array", Some(array.id.as_str())), ("state", Some("failed")), ("limit", Some(&*failed))];
        let page: Result<Paged<JobView>, _> = client.get(&with_query("/jobs", &params)).await;
        let mut elements = page.map(|page| page.items).unwrap_or_default();
        elements.reverse();
        bad.extend(elements);
    }
    for job in bad.iter().take(FAILURES_SHOWN) {
        let how = match (&job.exit_code, &job.reason) {
            (_, Some(reason)) if reason == "timeout" => codes::reason(reason),
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(reason)) => codes::reason(reason),
            (None, None) => String::new(),
        };
        let name = job.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let how = if how.is_empty() { how } else { format!(": {how}") };
        anstream::eprintln!("{}", clean(&format!("job {}{name} {}{how}", job.id, job.state)));
        // What a single job wrote is on the screen already.
        if shown {
            continue;
        }
        for line in last_lines(client, &job.id).await {
            anstream::eprintln!("  | {}", clean(&line));
        }
    }
    let total = jobs.iter().filter(|job| is_bad(job)).count() as u64
        + arrays.iter().map(|array| array.failed).sum::<u64>();
    if total > FAILURES_SHOWN as u64 {
        anstream::eprintln!("… and {} more that failed", total - FAILURES_SHOWN as u64);
    }
    for array in arrays.iter().filter(|array| array.failed + array.cancelled > 0) {
        let (id, text) = (clean(&array.id), clean(&counts(array)));
        anstream::eprintln!(
            "{text}; `landfall jobs --array {id} --state failed` lists what failed, `landfall retry {id} --failed` runs it again"
        );
    }
}

/// What a line that is gone by now said at last, where nothing else is left to read.
fn all_well(jobs: &[JobView], arrays: &[ArrayView]) {
    for array in arrays.iter().filter(|array| array.completed == array.total) {
        anstream::eprintln!("{DIM}{}{DIM:#}", clean(&counts(array)));
    }
    if jobs.len() > 1 && jobs.iter().all(|job| job.state == "completed") {
        anstream::eprintln!("{DIM}all {} jobs completed{DIM:#}", jobs.len());
    }
}

/// Says where the files are of those that did not run where they were submitted.
fn left_behind(jobs: &[JobView]) {
    let places = jobs.iter().filter_map(|job| Some((job, job.files.as_ref()?)));
    for (job, files) in places.take(FAILURES_SHOWN) {
        let node = job.nodes.first().map(|at| format!(" on node {}", at.node)).unwrap_or_default();
        let words = format!("job {} left files{node}: {files}", job.id);
        anstream::eprintln!("{DIM}{}{DIM:#}", clean(&words));
    }
}

/// The last lines that a job wrote, of both streams.
async fn last_lines(client: &Client, id: &str) -> Vec<String> {
    let mut text = Vec::new();
    let path = format!("/jobs/{}/logs?tail={LAST_LINES}", segment(id));
    if let Ok(mut lines) = client.stream_lines(&path).await {
        while let Ok(Some(line)) = lines.next().await {
            let chunk = serde_json::from_str::<LogChunk>(&line).ok();
            text.extend(chunk.and_then(|chunk| STANDARD.decode(chunk.data).ok()).unwrap_or_default());
        }
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].iter().map(|line| (*line).to_owned()).collect()
}
