//! Runs `landfall` in a directory of its own.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A policy of the one term that needs nothing but reports.
pub(crate) const POLICY: &str = r#"
name = "mine"
description = "Prefers what is already there."
[[terms]]
name = "MissingPathsRule"
weight = 2.0
"#;

/// Two nodes and two jobs; `far` has to fetch more than `near` for `build`.
pub(crate) const SCENARIO: &str = r#"
now_ms = 1000
[[nodes]]
id = "near"
cpu_milli = 4000
ram_mib = "8GiB"
[[nodes]]
id = "far 🚀"
cpu_milli = 4000
ram_mib = "8GiB"
[[jobs]]
id = "build"
cpu_milli = 1000
[[jobs]]
id = "docs"
cpu_milli = 1000
[[reports]]
node = "near"
job = "build"
missing_inputs = 4
[[reports]]
node = "far 🚀"
job = "build"
missing_inputs = 10
"#;

/// A directory that is removed afterwards.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("landfall-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A directory with the scenario and the policy of this module.
    pub(crate) fn with_files() -> Self {
        Self::new().file("s.toml", SCENARIO).file("p.toml", POLICY)
    }

    pub(crate) fn file(self, name: &str, text: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.0.join(name), text).unwrap();
        self
    }

    /// Adds a file to a directory that is in use.
    pub(crate) fn also(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.0.join(name), text).unwrap();
        self
    }

    /// Where a file of the directory is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// What a file of the directory holds.
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join(name)).unwrap()
    }

    /// Names of the files of the directory.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Runs `landfall` with these arguments.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    /// Runs `landfall` with something on standard input.
    pub(crate) fn run_with_stdin(&self, args: &[&str], stdin: &str) -> Ran {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        Ran::of(child.wait_with_output().unwrap())
    }

    /// The command, to be changed before it runs.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_landfall"));
        command.args(args).current_dir(&self.0).stdin(Stdio::null());
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
            command.env_remove(name);
        }
        command
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let ran = Self {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        };
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
        ran
    }

    /// Standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self:?}"))
    }

    /// Checks the exit code and that standard error has all of these.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.stdout, "", "errors go to standard error");
        for part in parts {
            assert!(self.stderr.contains(part), "`{part}` is not in\n{}", self.stderr);
        }
    }
}
