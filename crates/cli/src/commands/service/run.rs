//! `landfall run`: something to be at, on a node, within a job's limits.
//!
//! A job like any other, but for who is at its standard input. What is typed goes through the server to the agent of the node; what the
//! job writes comes back as its log does, and is in its log afterwards.

use std::io::{IsTerminal as _, Read as _};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use landfall_api::job::{JobRequest, JobView, RunSpec, Submitted, Terminal, Typed};
use landfall_client::{Client, segment};
use landfall_model::Requeue;
use ratatui::crossterm::terminal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::logs::Printer;
use super::submit::args::{JobArgs, millis};
use super::submit::request::{Asked, asked};
use super::submit::{is_over, made_up_key};
use crate::answer::{Answer, warn};
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::render::codes;
use crate::render::style::DIM;
use crate::render::text::clean;
use crate::reply::Said;
use crate::service::{ConnectArgs, Returning};

/// How often the server hears that somebody is still there, at least.
const STILL_THERE: Duration = Duration::from_secs(10);
/// Bytes that are read at once.
const PIECE_BYTES: usize = 32 << 10;
/// Time between two looks at a job that waits, at most.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long the server and the agent may be away before typing is given up.
const AWAY_MAX: Duration = Duration::from_secs(60);
/// The best shell there is.
const SHELL: &str = "if command -v bash >/dev/null 2>&1; then exec bash; else exec sh; fi";

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Runs a command where there is room for what it needs, with you at it: a shell if you name none. In a terminal the job has one, too, as \
large as yours, and Ctrl-C is for the job; without one, what you pipe in is its standard input, and what it writes goes where it belongs. \
Ends with the exit code of the job. The job ends when you go: at once when the program is stopped, else a minute after it was last \
heard of, or what --hang-up says. What it wrote is in its log (`landfall logs`).

Examples:
  landfall run                                   a shell on some node
  landfall run --cpu 2 --memory 1GiB -- ./explore
  landfall run -- ./clean < data.csv > clean.csv")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// End it when nothing is heard of you for this long [default: 1min].
    #[arg(long, value_name = "SPAN", value_parser = millis)]
    hang_up: Option<u64>,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) fn run(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    let request = request(args)?;
    args.connect.ask(async |client| {
        let key = made_up_key()?;
        let submitted: Submitted = client.post_once("/jobs", &key, &request).await?;
        submitted.warnings.iter().for_each(|warning| warn(warning));
        let server = Returning::new(client.clone(), &args.connect);
        let id = submitted.id;
        let mut stops = Stops::new()?;
        let ended = tokio::select! {
            ended = at(server, &id, &request.run) => ended,
            code = stops.any() => {
                let _ = terminal::disable_raw_mode();
                let _ = client.order::<serde_json::Value>(&format!("/jobs/{}/cancel", segment(&id))).await;
                anstream::eprintln!("cancelled job {}", clean(&id));
                return Ok(Box::new(Said(Exit::Job(code))) as Box<dyn Answer>);
            }
        };
        Ok(Box::new(Said(ended?)) as Box<dyn Answer>)
    })
}

/// The job: one, that is not begun anew where nobody would be at it.
fn request(run: &Args) -> Result<JobRequest, CliError> {
    let mut args = run.job.clone();
    if args.command.is_empty() && args.read.is_none() && args.file.is_none() && args.workload.is_none() {
        args.command = ["sh", "-c", SHELL].map(str::to_owned).to_vec();
    }
    let Asked::One(mut request) = asked(&args, || run.connect.now())? else {
        return Err(usage(
            "nobody can be at several jobs at once",
            "name one; `landfall submit` takes several",
        ));
    };
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    request.run.hang_up_ms = run.hang_up;
    request.run.terminal = Some(if is_terminal { size() } else { Terminal::default() });
    if let Some(term) = std::env::var("TERM").ok().filter(|_| is_terminal) {
        request.run.env.entry("TERM".to_owned()).or_insert(term);
    }
    request.needs.requeue.get_or_insert(Requeue::Never);
    Ok(*request)
}

/// How large the terminal is.
fn size() -> Terminal {
    let (cols, rows) = terminal::size().unwrap_or((80, 24));
    Terminal { rows: rows.max(1), cols: cols.max(1) }
}

/// Signals that end this program. In a terminal Ctrl-C is none: it is typed.
struct Stops {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl Stops {
    fn new() -> Result<Self, CliError> {
        let on = |kind| signal(kind).map_err(CliError::Output);
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hang_up: on(SignalKind::hangup())?,
        })
    }

    /// Waits for one of them; gives the exit code that goes with it.
    async fn any(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
            _ = self.hang_up.recv() => 129,
        }
    }
}

/// Gives the terminal back whatever happens.
struct Raw;

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = terminal::disable_raw_mode();
    }
}

/// Waits until a job runs, is at it until it has ended, and says how it did.
async fn at(mut server: Returning, id: &str, run: &RunSpec) -> Result<Exit, CliError> {
    if !begins(server.client(), id).await? {
        return exit_of(server.client(), id).await;
    }
    let begun = run.terminal.unwrap_or_default();
    let has_terminal = begun.rows > 0;
    let _raw = match has_terminal {
        true => {
            terminal::enable_raw_mode().map_err(CliError::Output)?;
            Some(Raw)
        }
        false => None,
    };
    let typing = tokio::spawn(type_in(server.client().clone(), id.to_owned(), begun, run.hang_up_ms));
    let mut printer = Printer::beside_a_wait(None);
    let shown = printer.follow(&mut server, id, None).await;
    typing.abort();
    shown?;
    exit_of(server.client(), id).await
}

/// Waits until a job runs, and says why it does not; whether it came to that.
async fn begins(client: &Client, id: &str) -> Result<bool, CliError> {
    let mut said = None;
    // Most begin at once.
    let mut pause = LOOK_EVERY / 40;
    loop {
        let job: JobView = client.get(&format!("/jobs/{}", segment(id))).await?;
        match job.state.as_str() {
            "running" => return Ok(true),
            state if is_over(state) => return Ok(false),
            _ => {}
        }
        let why = job.why.or_else(|| job.reason.as_deref().map(codes::reason)).unwrap_or_default();
        // Once for each reason; its words may change with every look.
        if !why.is_empty() && job.reason != said {
            anstream::eprintln!("{DIM}job {} waits: {}{DIM:#}", clean(id), clean(&why));
            said = job.reason;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(LOOK_EVERY);
    }
}

async fn exit_of(client: &Client, id: &str) -> Result<Exit, CliError> {
    let job: JobView = client.get(&format!("/jobs/{}", segment(id))).await?;
    let code = job.exit_code.filter(|code| *code != 0);
    if job.state == "completed" {
        return Ok(Exit::Done);
    }
    if code.is_none() {
        let why = job.why.or_else(|| job.reason.as_deref().map(codes::reason)).unwrap_or_default();
        anstream::eprintln!("job {} {}: {}", clean(id), clean(&job.state), clean(&why));
    }
    Ok(Exit::of_job(code))
}

/// Passes on what is typed, how large the terminal is, and that somebody is still there.
async fn type_in(client: Client, id: String, mut size_then: Terminal, hang_up_ms: Option<u64>) {
    let still_there = hang_up_ms.map_or(STILL_THERE, |ms| STILL_THERE.min(Duration::from_millis(ms / 4)));
    let path = format!("/jobs/{}/input", segment(&id));
    let mut pieces = read_input();
    let mut open = true;
    let has_terminal = size_then.rows > 0;
    let Ok(mut resized) = signal(SignalKind::window_change()) else { return };
    loop {
        let typed = tokio::select! {
            piece = pieces.recv(), if open => match piece {
                Some(piece) => Typed { data: STANDARD.encode(piece), ..Typed::default() },
                None => {
                    open = false;
                    Typed { end: true, ..Typed::default() }
                }
            },
            _ = resized.recv(), if has_terminal => {
                let now = size();
                if now == size_then {
                    continue;
                }
                size_then = now;
                Typed { size: Some(now), ..Typed::default() }
            }
            () = tokio::time::sleep(still_there) => Typed::default(),
        };
        if !say(&client, &path, &typed).await {
            return;
        }
    }
}

/// Says something to a job, again where nobody is there for a moment; whether it goes on.
async fn say(client: &Client, path: &str, typed: &Typed) -> bool {
    let until = tokio::time::Instant::now() + AWAY_MAX;
    loop {
        match client.post::<serde_json::Value>(path, typed).await {
            Ok(_) => return true,
            Err(error) if error.may_pass() && tokio::time::Instant::now() < until => {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            // It has ended, or nobody can be at it any more; its output says so.
            Err(_) => return false,
        }
    }
}

/// Standard input in pieces, from a thread of its own: reading cannot be given up.
fn read_input() -> mpsc::Receiver<Vec<u8>> {
    let (send, pieces) = mpsc::channel(4);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut buffer = vec![0_u8; PIECE_BYTES];
        loop {
            match input.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(read) => {
                    if send.blocking_send(buffer[..read].to_vec()).is_err() {
                        return;
                    }
                }
            }
        }
    });
    pieces
}
