//! This program in the place of rustc: cargo asks it to compile our crates, and it does more than that (`RUSTC_WORKSPACE_WRAPPER`).
//!
//! Cargo asks it for our own crates only, so all others are shared between its modes and with plain builds. The mode is the name it is called by: a copy
//! of it lies beside the build under each name, because cargo tells builds apart by the path of who compiles them.
//!
//! - `linting` compiles with clippy and documents what was compiled, both with warnings denied. Cargo would build the tree three times for that: clippy
//!   and rustdoc each want their own form of every dependency, which cost a quarter of a cold run of all tests.
//! - `fuzzing` adds the counters that lead the fuzzer.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Linting,
    Fuzzing,
}

/// Counters of branches and comparisons, as libFuzzer reads them.
const COVERAGE: [&str; 5] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// What rustdoc is told of what rustc was told. Each has a value, behind `=` or in the next word.
const FOR_RUSTDOC: [&str; 8] =
    ["--crate-name", "--crate-type", "--edition", "--cfg", "--check-cfg", "--extern", "-L", "--cap-lints"];

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Linting => "landfall-linting",
            Self::Fuzzing => "landfall-fuzzing",
        }
    }

    /// The mode that this program was called in, if cargo called it.
    pub(crate) fn of_this_call() -> Option<Self> {
        let called = std::env::args_os().next()?;
        let name = Path::new(&called).file_name()?.to_owned();
        [Self::Linting, Self::Fuzzing].into_iter().find(|mode| name == mode.name())
    }

    fn copy(self, target: &Path) -> PathBuf {
        target.join("xtask").join(self.name())
    }

    /// Tells cargo to compile through this program.
    pub(crate) fn set(self, cargo: &mut Command, target: &Path) {
        // clippy tells cargo that what it makes rests on this variable, so cargo has to have it as well.
        cargo.env("RUSTC_WORKSPACE_WRAPPER", self.copy(target)).env("CLIPPY_ARGS", DENY);
    }

    /// Compiles one crate. Cargo gives the path of rustc and its arguments.
    pub(crate) fn compile(self) -> ExitCode {
        let mut args = std::env::args_os().skip(1);
        let Some(rustc) = args.next() else { return ExitCode::FAILURE };
        let args: Vec<OsString> = args.collect();
        // Cargo also asks for facts about the compiler, and those are rustc's own.
        if std::env::var_os("CARGO_CRATE_NAME").is_none() {
            return ended(Command::new(rustc).args(args));
        }
        match self {
            Self::Fuzzing => ended(Command::new(rustc).args(args).args(COVERAGE)),
            Self::Linting => {
                let linted = ended(Command::new(tool(&rustc, "clippy-driver")).arg(&rustc).args(&args));
                match documentation(&rustc, &args) {
                    Some(mut rustdoc) if linted == ExitCode::SUCCESS => ended(&mut rustdoc),
                    _ => linted,
                }
            }
        }
    }
}

/// As `cargo clippy -- --deny warnings` would say it.
const DENY: &str = "--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// A program of the toolchain that rustc belongs to.
fn tool(rustc: &OsStr, name: &str) -> PathBuf {
    Path::new(rustc).with_file_name(name)
}

/// rustdoc for what was just compiled; nothing for tests and build scripts, nor for a program whose library has its pages.
fn documentation(rustc: &OsStr, args: &[OsString]) -> Option<Command> {
    let text: Vec<&str> = args.iter().map(|arg| arg.to_str()).collect::<Option<_>>()?;
    let out = text.windows(2).find(|pair| pair[0] == "--out-dir").map(|pair| Path::new(pair[1]))?;
    let source = text.iter().find(|arg| arg.ends_with(".rs"))?;
    let program = text.windows(2).any(|pair| pair == ["--crate-type", "bin"]);
    let library = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR")?).join("src/lib.rs").exists();
    if text.contains(&"--test")
        || source.ends_with("build.rs")
        || !source.contains("src")
        || (program && library)
    {
        return None;
    }
    let mut rustdoc = Command::new(tool(rustc, "rustdoc"));
    rustdoc.arg(source).args(["--deny", "warnings", "--out-dir"]).arg(out.with_file_name("doc"));
    if program {
        // As cargo documents programs: nobody reads their pages without the private items.
        rustdoc.args(["--document-private-items", "--allow", "rustdoc::private-intra-doc-links"]);
    }
    for (at, arg) in text.iter().enumerate() {
        match arg.split_once('=') {
            Some((name, _)) if FOR_RUSTDOC.contains(&name) => drop(rustdoc.arg(arg)),
            None if FOR_RUSTDOC.contains(arg) => drop(rustdoc.arg(arg).arg(text.get(at + 1)?)),
            _ => {}
        }
    }
    Some(rustdoc)
}

/// Puts the copies of this program where cargo will look for them. That has to be done first: cargo builds this program, too, and then it is no longer where
/// it was.
pub(crate) fn prepare(target: &Path) -> Result<(), String> {
    let made = || {
        let this = std::env::current_exe()?;
        [Mode::Linting, Mode::Fuzzing].into_iter().try_for_each(|mode| copied(&this, &mode.copy(target)))
    };
    made()
        .map_err(|error: std::io::Error| format!("cannot copy this program to {}: {error}", target.display()))
}

/// Puts a copy there, unless it is there. Whoever runs the old one keeps it.
fn copied(this: &Path, copy: &Path) -> std::io::Result<()> {
    let content = std::fs::read(this)?;
    if std::fs::read(copy).is_ok_and(|there| there == content) {
        return Ok(());
    }
    let (dir, new) = (copy.parent().unwrap_or(Path::new(".")), copy.with_extension("new"));
    std::fs::create_dir_all(dir)?;
    std::fs::copy(this, &new)?;
    std::fs::rename(new, copy)
}

fn ended(command: &mut Command) -> ExitCode {
    match command.status() {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(error) => {
            eprintln!("xtask: cannot run {}: {error}", OsStr::display(command.get_program()));
            ExitCode::FAILURE
        }
    }
}
