//! Waits for jobs: shows where they stand and what they write, and tells how they ended.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use landfall_api::Paged;
use landfall_api::job::{ArrayView, JobView};
use landfall_client::{Client, ClientError, segment, with_query};
use serde::Serialize;

use crate::commands::service::logs::Printer;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::codes;
use crate::render::text::clean;
use crate::service::Returning;

/// Time between two looks: short at first, as most jobs that are waited for are short.
const LOOKS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// How long the last words of a job may take to arrive after it has ended.
const LAST_WORDS: Duration = Duration::from_secs(5);

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
    let output = match targets.as_slice() {
        [Target::Job(id)] if manner.output => Some(tokio::spawn(follow(server.clone(), id.clone()))),
        _ => None,
    };
    let abort = output.as_ref().map(tokio::task::JoinHandle::abort_handle);
    let mut interrupted = false;
    let outcome = tokio::select! {
        outcome = until_over(&mut server, targets, manner) => Some(outcome),
        _ = tokio::signal::ctrl_c() => None,
    };
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
async fn follow(mut server: Returning, id: String) -> (Printer, bool) {
    let mut printer = Printer::beside_a_wait();
    let whole = printer.follow(&mut server, &id, None).await.is_ok();
    (printer, whole)
}

async fn until_over(
    server: &mut Returning,
    targets: Vec<Target>,
    manner: Manner,
) -> Result<(Vec<JobView>, Vec<ArrayView>), CliError> {
    let mut progress = Progress::new(manner.progress);
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
            anstream::eprintln!("{words}");
        }
        heard = answers;
        if !answers {
            server.look_again();
        }
        open = rest;
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(LOOKS.1);
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

async fn exit_of(client: &Client, jobs: &[JobView], arrays: &[ArrayView]) -> Result<Exit, CliError> {
    if let Some(bad) = jobs.iter().find(|job| job.state != "completed") {
        return Ok(Exit::of_job(bad.exit_code.filter(|code| *code != 0)));
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
    last: String,
}

impl Progress {
    fn new(wanted: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = (wanted && terminal).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Self { bar, lines: wanted && !terminal, last: String::new() }
    }

    fn job(&mut self, job: &JobView) {
        let on: Vec<&str> = job.nodes.iter().map(|at| at.node.as_str()).collect();
        let more = match (&job.reason, on.is_empty()) {
            (Some(reason), true) => format!(": {}", codes::reason(reason)),
            (_, false) => format!(" on {}", on.join(", ")),
            (None, true) => String::new(),
        };
        // What a running job writes and a line that is drawn again and again would disturb each other.
        if let Some(bar) = &self.bar
            && (job.started_at_ms.is_some() || is_over(&job.state))
        {
            bar.finish_and_clear();
            self.bar = None;
        }
        self.say(format!("job {} {}{more}", job.id, job.state));
    }

    fn array(&mut self, array: &ArrayView) {
        let ArrayView { pending, running, completed, failed, cancelled, total, .. } = array;
        let mut text = format!(
            "array {}: {completed} of {total} completed, {running} running, {pending} waiting",
            array.id
        );
        if failed + cancelled > 0 {
            text += &format!(", {failed} failed, {cancelled} cancelled");
        }
        self.say(text);
    }

    fn say(&mut self, text: String) {
        let text = clean(&text);
        if let Some(bar) = &self.bar {
            bar.set_message(text);
        } else if self.lines && text != self.last {
            anstream::eprintln!("{text}");
            self.last = text;
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
