//! How a result becomes output: a page for people or JSON for programs.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::error::CliError;
use crate::exit::Exit;
use crate::render::style::WARN;
use crate::render::text::clean;

/// What a page may count on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    /// Columns available; `None` where lines may be as long as they like.
    pub(crate) width: Option<usize>,
}

impl Page {
    /// The page of standard output: `COLUMNS` if set, else the terminal's width, else no limit.
    pub(crate) fn of_stdout() -> Self {
        let asked =
            std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).filter(|columns| *columns > 0);
        let measured = || {
            let size = io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
            size.map(|(width, _)| usize::from(width.0)).filter(|columns| *columns > 0)
        };
        Self { width: asked.or_else(measured) }
    }

    /// The width at which sentences are broken.
    pub(crate) fn text_width(self) -> usize {
        /// Longer lines are hard to read, however wide the terminal is.
        const READABLE: usize = 110;
        self.width.unwrap_or(READABLE).clamp(40, READABLE)
    }
}

/// The result of a command.
pub(crate) trait Answer {
    /// How the program ends after showing it.
    fn exit(&self) -> Exit {
        Exit::Done
    }

    /// What looked odd; shown on standard error.
    fn warnings(&self) -> &[String] {
        &[]
    }

    /// Whether everything was said while the command ran.
    fn is_said(&self) -> bool {
        false
    }

    /// The answer for people, with colours that the stream removes where they do not belong.
    fn text(&self, page: Page) -> String;

    fn json(&self, out: &mut dyn Write) -> serde_json::Result<()>;
}

/// Writes an answer and tells how the program ends.
pub(crate) fn show(answer: &dyn Answer, json: bool) -> Result<Exit, CliError> {
    for warning in answer.warnings() {
        warn(warning);
    }
    if answer.is_said() {
        return Ok(answer.exit());
    }
    let written =
        if json { write_json(|out| answer.json(out)) } else { write_text(&answer.text(Page::of_stdout())) };
    written.map(|()| answer.exit())
}

/// Writes an error and tells how the program ends.
pub(crate) fn fail(error: &CliError, json: bool) -> Exit {
    // When even the error cannot be written, the exit code still tells.
    if json && !matches!(error, CliError::Output(_)) {
        let _ = write_json(|out| to_json(out, &error.json()));
    } else {
        let _ = anstream::stderr().write_all(error.text().as_bytes());
    }
    error.exit()
}

/// Says on standard error what looked odd. Nobody listening is no reason to stop.
pub(crate) fn warn(message: &str) {
    let _ = writeln!(anstream::stderr(), "{WARN}warning{WARN:#}: {}", clean(message));
}

/// Writes a value as indented JSON.
pub(crate) fn to_json(out: &mut dyn Write, value: &impl Serialize) -> serde_json::Result<()> {
    serde_json::to_writer_pretty(out, value)
}

fn write_text(text: &str) -> Result<(), CliError> {
    let mut out = anstream::stdout().lock();
    not_gone(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

fn write_json(write: impl FnOnce(&mut dyn Write) -> serde_json::Result<()>) -> Result<(), CliError> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = write(&mut out)
        .map_err(io::Error::from)
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush());
    let outcome = not_gone(written);
    // Dropping the buffer would try once more to write what a closed pipe refused.
    let _ = out.into_parts();
    outcome
}

/// A reader that has seen enough, such as `head`, is no error.
fn not_gone(written: io::Result<()>) -> Result<(), CliError> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Output(error)),
        _ => Ok(()),
    }
}
