//! Jobs that somebody is at (`landfall run`).
//!
//! Such a job is started by a small program of ours that stays beside it: it gives the job a terminal or a pipe, copies what it writes to
//! where output goes, and listens on a socket in the data directory for what is typed. So an agent that is started anew finds it
//! again, the keeper need not know, and whatever bounds the job (its group, its cores, its time) bounds both.
//!
//! Who is at a job says so every few seconds. After a while of silence the job is hung up on: nobody would see what it does.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use landfall_api::job::{RunSpec, Terminal, Typed};
use landfall_model::life::Fence;
use rustix::process::{Pid, Signal};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::{Child, ChildStdin, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::hub::Hub;
use crate::keeper::wire::{Cause, Request};
use crate::keeper::{say, with_short_path};

/// The hidden command that stands beside a job.
pub const ATTEND: &str = "attend";
/// The hidden command that takes a terminal and becomes the job.
pub const IN_TERMINAL: &str = "in-terminal";

/// How long nothing may be heard of whoever is at a job that does not say.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long a job that was hung up on may take to end.
const GRACE: Duration = Duration::from_secs(10);
/// How long the rest of what was written to a terminal is waited for after the job has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long it may take until something listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);
/// Input that waits for a job that does not read it.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Exit code of a program that is not there.
const NOT_FOUND: i32 = 127;
/// Exit code of a program that cannot be executed.
const NOT_EXECUTABLE: i32 = 126;

/// The command that runs another one with somebody at it.
pub(crate) fn command(helper: &Path, socket: &Path, run: &RunSpec, argv: Vec<String>) -> Vec<String> {
    let size = run.terminal.unwrap_or_default();
    let silence = run.hang_up_ms.map_or(SILENCE_MAX, Duration::from_millis);
    let own = [
        helper.display().to_string(),
        ATTEND.to_owned(),
        socket.display().to_string(),
        size.rows.to_string(),
        size.cols.to_string(),
        silence.as_millis().to_string(),
    ];
    own.into_iter().chain(argv).collect()
}

/// What is on its way to jobs of this node.
#[derive(Debug, Default)]
pub(crate) struct Attended {
    lines: Mutex<BTreeMap<PathBuf, Line>>,
}

#[derive(Debug)]
struct Line {
    typed: mpsc::UnboundedSender<String>,
    waiting: Arc<AtomicUsize>,
}

impl Attended {
    fn lines(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes something on to what stands beside a job, in order.
    pub(crate) fn pass_on(&self, hub: &Hub, fence: &Fence, typed: &Typed) {
        let Ok(mut text) = serde_json::to_string(typed) else { return };
        text.push('\n');
        let socket = hub.layout.typed(fence);
        let mut lines = self.lines();
        lines.retain(|_, line| !line.typed.is_closed());
        let line = lines.entry(socket.clone()).or_insert_with(|| {
            let (typed, queue) = mpsc::unbounded_channel();
            let waiting = Arc::new(AtomicUsize::new(0));
            tokio::spawn(feed(socket, queue, Arc::clone(&waiting)));
            Line { typed, waiting }
        });
        let waiting = line.waiting.fetch_add(text.len(), Ordering::Relaxed) + text.len();
        if waiting > WAITING_BYTES_MAX {
            say(&hub.layout, fence, "stopped: it does not read its input, and more and more of that comes");
            hub.keeper(Request::Stop { fence: fence.clone(), grace_ms: 0, cause: Cause::Timeout });
        }
        // One that has just ended needs nothing more.
        let _ = line.typed.send(text);
    }
}

/// Writes lines to a socket until it is closed.
async fn feed(socket: PathBuf, mut queue: mpsc::UnboundedReceiver<String>, waiting: Arc<AtomicUsize>) {
    let Some(mut stream) = connect(&socket).await else { return };
    loop {
        let text = tokio::select! {
            text = queue.recv() => text,
            // Nothing is ever said there: it is closed.
            _ = stream.readable() => None,
        };
        let Some(text) = text else { return };
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
        waiting.fetch_sub(text.len(), Ordering::Relaxed);
    }
}

async fn connect(socket: &Path) -> Option<UnixStream> {
    let until = Instant::now() + LISTENS_WITHIN;
    loop {
        let stream = with_short_path(socket, |path| std::os::unix::net::UnixStream::connect(path));
        match stream
            .and_then(|stream| stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream)))
        {
            Ok(stream) => return Some(stream),
            Err(_) if Instant::now() < until => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(error) => {
                tracing::warn!(%error, socket = %socket.display(), "nothing listens beside a job");
                return None;
            }
        }
    }
}

/// The hidden command `attend SOCKET ROWS COLS SILENCE PROGRAM ARGUMENT...`: runs a program with somebody at it; gives its exit code.
pub fn attend(mut args: impl Iterator<Item = OsString>) -> i32 {
    let socket = args.next().map(PathBuf::from);
    let mut number = || args.next()?.to_str()?.parse::<u64>().ok();
    let mut side = || u16::try_from(number()?).ok();
    let (Some(socket), Some(rows), Some(cols), Some(silence)) = (socket, side(), side(), number()) else {
        eprintln!("landfall: {ATTEND}: agents start this");
        return 2;
    };
    let argv: Vec<OsString> = args.collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.and_then(|runtime| {
        let ended =
            runtime.block_on(beside(&socket, Terminal { rows, cols }, Duration::from_millis(silence), &argv));
        // Whoever still types must not keep it.
        runtime.shutdown_background();
        ended
    });
    let _ = std::fs::remove_file(&socket);
    ended.unwrap_or_else(|error| not_run(argv.first(), &error))
}

/// The hidden command `in-terminal TERMINAL PROGRAM ARGUMENT...`: makes a terminal its own and becomes the program.
pub fn in_terminal(mut args: impl Iterator<Item = OsString>) -> i32 {
    let (Some(terminal), Some(program)) = (args.next(), args.next()) else {
        eprintln!("landfall: {IN_TERMINAL}: agents start this");
        return 2;
    };
    let error = match take(&terminal) {
        Ok(()) => std::process::Command::new(&program).args(args).exec(),
        Err(error) => error,
    };
    not_run(Some(&program), &error)
}

/// Says why a program does not run.
fn not_run(program: Option<&OsString>, error: &io::Error) -> i32 {
    let program = program.map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
    match error.kind() {
        io::ErrorKind::NotFound => {
            eprintln!("landfall: {program}: command not found");
            NOT_FOUND
        }
        _ => {
            eprintln!("landfall: {program}: {error}");
            NOT_EXECUTABLE
        }
    }
}

/// Begins a session with a terminal, which is then where standard input and output are.
fn take(terminal: &OsStr) -> io::Result<()> {
    rustix::process::setsid()?;
    let terminal = File::options().read(true).write(true).open(terminal)?;
    rustix::process::ioctl_tiocsctty(&terminal)?;
    rustix::stdio::dup2_stdin(&terminal)?;
    rustix::stdio::dup2_stdout(&terminal)?;
    rustix::stdio::dup2_stderr(&terminal)?;
    Ok(())
}

/// Where what is typed goes.
enum Input {
    Terminal(Arc<File>),
    Pipe(Option<ChildStdin>),
}

impl Input {
    async fn take(&mut self, typed: &Typed) -> io::Result<()> {
        let bytes = STANDARD.decode(&typed.data).unwrap_or_default();
        match self {
            Self::Terminal(master) => {
                if let Some(size) = typed.size {
                    rustix::termios::tcsetwinsize(&**master, winsize(size))?;
                }
                let master = Arc::clone(master);
                tokio::task::spawn_blocking(move || (&*master).write_all(&bytes)).await??;
            }
            Self::Pipe(pipe) => {
                if let Some(pipe) = pipe {
                    pipe.write_all(&bytes).await?;
                    pipe.flush().await?;
                }
                if typed.end {
                    *pipe = None;
                }
            }
        }
        Ok(())
    }
}

fn winsize(size: Terminal) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 }
}

/// When something was last heard; nothing while something is being passed on, which a job that does not read may hold up.
type Heard = Arc<Mutex<Option<Instant>>>;

fn set(heard: &Heard, at: Option<Instant>) {
    *heard.lock().unwrap_or_else(PoisonError::into_inner) = at;
}

/// Runs a program and stays beside it until it has ended.
async fn beside(socket: &Path, size: Terminal, silence: Duration, argv: &[OsString]) -> io::Result<i32> {
    let _ = std::fs::remove_file(socket);
    let listener = with_short_path(socket, |path| std::os::unix::net::UnixListener::bind(path))?;
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    let mut stops = signal(SignalKind::terminate())?;
    let has_terminal = size.rows > 0 && size.cols > 0;
    let (mut child, mut input, output) =
        if has_terminal { with_terminal(size, argv)? } else { with_pipes(argv)? };
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let heard: Heard = Arc::new(Mutex::new(Some(Instant::now())));
    let (typed, mut queue) = mpsc::channel::<Typed>(16);
    // Beside everything else: a job need not read what it gets.
    tokio::spawn(async move {
        while let Some(typed) = queue.recv().await {
            if input.take(&typed).await.is_err() {
                // It no longer reads; what comes is dropped, so that nobody waits for it.
                input = Input::Pipe(None);
            }
        }
    });
    let mut kill_at: Option<Instant> = None;
    let status = loop {
        let last = *heard.lock().unwrap_or_else(PoisonError::into_inner);
        let silent_at = last.unwrap_or_else(Instant::now) + silence;
        tokio::select! {
            status = child.wait() => break status?,
            Ok((stream, _)) = listener.accept() => {
                tokio::spawn(hear(stream, typed.clone(), Arc::clone(&heard)));
            }
            _ = stops.recv() => {
                // Where there is no terminal the signal was for all of this group.
                if has_terminal {
                    hang_up(pid);
                }
            }
            () = tokio::time::sleep_until(kill_at.unwrap_or(silent_at)) => match kill_at {
                Some(_) => drop(child.start_kill()),
                None if *heard.lock().unwrap_or_else(PoisonError::into_inner) == last && last.is_some() => {
                    eprintln!("landfall: hung up: nothing was heard for {} s of who ran it", silence.as_secs());
                    if has_terminal {
                        hang_up(pid);
                    } else if let Some(pid) = pid {
                        let _ = rustix::process::kill_process(pid, Signal::TERM);
                    }
                    kill_at = Some(Instant::now() + GRACE);
                }
                None => {}
            },
        }
    };
    if let Some(output) = output {
        let _ = tokio::time::timeout(LAST_WORDS, output).await;
    }
    Ok(status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1))
}

/// Asks everything in a session to end.
fn hang_up(session: Option<Pid>) {
    let Some(session) = session else { return };
    for signal in [Signal::HUP, Signal::TERM, Signal::CONT] {
        let _ = rustix::process::kill_process_group(session, signal);
    }
}

/// Reads lines from a connection.
async fn hear(stream: UnixStream, typed: mpsc::Sender<Typed>, heard: Heard) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(said) = serde_json::from_str::<Typed>(&line) else { continue };
        set(&heard, None);
        let passed_on = typed.send(said).await;
        set(&heard, Some(Instant::now()));
        if passed_on.is_err() {
            return;
        }
    }
}

type Started = (Child, Input, Option<JoinHandle<()>>);

fn with_pipes(argv: &[OsString]) -> io::Result<Started> {
    let [program, args @ ..] = argv else { return Err(io::ErrorKind::NotFound.into()) };
    let mut child = Command::new(program).args(args).stdin(Stdio::piped()).spawn()?;
    let stdin = child.stdin.take();
    Ok((child, Input::Pipe(stdin), None))
}

fn with_terminal(size: Terminal, argv: &[OsString]) -> io::Result<Started> {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let terminal = rustix::pty::ptsname(&master, Vec::new())?;
    rustix::termios::tcsetwinsize(&master, winsize(size))?;
    // The program that this is, also where an update has put another one in its place.
    let child = Command::new("/proc/self/exe")
        .arg(IN_TERMINAL)
        .arg(OsStr::from_bytes(terminal.as_bytes()))
        .args(argv)
        .spawn()?;
    let master = Arc::new(File::from(master));
    let reads = Arc::clone(&master);
    let output = tokio::task::spawn_blocking(move || copy(&reads));
    Ok((child, Input::Terminal(master), Some(output)))
}

/// Copies what is written to a terminal to standard output, until nobody has the terminal any more.
fn copy(mut master: &File) {
    let mut buffer = vec![0_u8; 16 << 10];
    while let Ok(read) = master.read(&mut buffer)
        && read > 0
    {
        let mut out = io::stdout().lock();
        if out.write_all(&buffer[..read]).and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}
