//! Trace files: opened by what they say, written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use landfall_model::scenario::ScenarioError;
use landfall_replay::trace::{self, Kind, Source, TraceError};

use crate::error::CliError;
use crate::input::is_stdin;

/// Names of all kinds, for help and errors.
pub(crate) fn kinds() -> String {
    Kind::ALL.map(|(name, _)| name).join(", ")
}

pub(super) fn kind(text: &str) -> Result<Kind, String> {
    Kind::by_name(text).ok_or_else(|| format!("the kinds are {}", kinds()))
}

pub(crate) struct Opened {
    pub(crate) file: String,
    pub(crate) source: Source,
    pub(crate) kind: Kind,
}

impl Opened {
    /// Opens a trace; `kind` says what it is where people know better.
    pub(crate) fn open(path: &Path, kind: Option<Kind>) -> Result<Self, CliError> {
        let file = path.display().to_string();
        let read = |source| CliError::Read { file: file.clone(), source };
        if path.is_dir() {
            return Err(read(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory")));
        }
        let opened = if is_stdin(path) { Source::new(io::stdin()) } else { trace::open(path) };
        let mut source = opened.map_err(read)?;
        let found = trace::recognise(&mut source).map_err(read)?;
        let Some(kind) = kind.or(found) else {
            let error = ScenarioError::at("", "this is no trace of a known kind").hint(format!(
                "known kinds: {}; `trace info` and `trace convert` take --from where people know better",
                kinds()
            ));
            return Err(CliError::Invalid { file, error });
        };
        Ok(Self { file, source, kind })
    }

    /// Turns a failure to read this file into an answer.
    pub(crate) fn failed(&self) -> impl Fn(TraceError) -> CliError + use<> {
        failed(&self.file)
    }
}

/// Turns a failure to read a file into an answer.
fn failed(file: &str) -> impl Fn(TraceError) -> CliError + use<> {
    let file = file.to_owned();
    move |error| match error {
        TraceError::Read(source) => CliError::Read { file: file.clone(), source },
        TraceError::Invalid(error) => CliError::Invalid { file: file.clone(), error: *error },
    }
}

/// Writes a file beside its final place and moves it there when it is complete. A name that ends in `.gz` is compressed.
pub(crate) fn write_file<T>(
    path: &Path,
    force: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> Result<T, CliError> {
    let file = path.display().to_string();
    if !force && path.symlink_metadata().is_ok() {
        return Err(CliError::Exists { file });
    }
    let failed = |source| CliError::Write { file: file.clone(), source };
    // A link stays a link, and a device or pipe is written to as it is: only files are replaced.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let path = target.as_path();
    if path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        let there = OpenOptions::new().write(true).open(path).map_err(&failed)?;
        let mut out = BufWriter::new(there);
        return write(&mut out).and_then(|value| out.flush().map(|()| value)).map_err(failed);
    }
    let beside = beside(path);
    let created = OpenOptions::new().write(true).create_new(true).open(&beside).map_err(&failed)?;
    let outcome = fill(path, created, write).and_then(|value| {
        fs::rename(&beside, path)?;
        Ok(value)
    });
    if outcome.is_err() {
        // The error is what people should see; the remains are only litter.
        let _ = fs::remove_file(&beside);
    }
    outcome.map_err(failed)
}

fn fill<T>(path: &Path, file: File, write: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> io::Result<T> {
    let mut out = BufWriter::new(file);
    let value = if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz")) {
        let mut packed = GzEncoder::new(&mut out, Compression::default());
        let value = write(&mut packed)?;
        packed.finish()?;
        value
    } else {
        write(&mut out)?
    };
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    Ok(value)
}

/// A name in the same directory that two runs at once do not share.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.part", std::process::id()))
}
