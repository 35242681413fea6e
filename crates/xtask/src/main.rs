//! Everything that CI does, as one program: `cargo xtask ci`.
//!
//! Each step is a function that prints what it does and fails with a message; nothing is installed by hand before it.
#![forbid(unsafe_code)]

mod api;
mod licences;
mod reference;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// One step by name: what it is for, and what it runs.
type Step = (&'static str, &'static str, fn(&Path) -> Result<(), String>);

/// Steps of `ci`, cheap ones first.
const STEPS: [Step; 9] = [
    ("tidy", "file sizes, module docs, left-overs", tidy::check),
    ("fmt", "formatting", |_| cargo(&["fmt", "--all", "--check"])),
    ("licences", "licences of all dependencies", licences::check),
    ("reference", "generated pages are up to date", reference::check),
    ("lint", "clippy with warnings denied", |_| {
        cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"])
    }),
    ("docs", "documentation builds without warnings", docs),
    ("test", "all tests, and that planted faults are found", |_| {
        cargo(&["test", "--workspace", "--quiet", "--features", "landfall-engine/mutations"])
    }),
    ("api", "the HTTP API against its OpenAPI document", api::check),
    ("bench", "a short run of each benchmark", bench),
];

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let root = root();
    let result = match asked.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["ci"] => STEPS.iter().try_for_each(|step| run(step, &root)),
        ["generate"] => reference::write(&root),
        [] | ["help" | "--help"] => {
            println!("cargo xtask ci         all of the steps below, in this order");
            STEPS.iter().for_each(|(name, purpose, _)| println!("cargo xtask {name:<10} {purpose}"));
            println!("cargo xtask generate   writes the generated pages");
            Ok(())
        }
        names => names.iter().try_for_each(|name| match STEPS.iter().find(|step| step.0 == *name) {
            Some(step) => run(step, &root),
            None => Err(format!("there is no step `{name}`; `cargo xtask help` lists them")),
        }),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run((name, purpose, step): &Step, root: &Path) -> Result<(), String> {
    println!("== {name}: {purpose}");
    step(root).map_err(|message| format!("{name}: {message}"))
}

/// The workspace root, two levels above this crate.
fn root() -> PathBuf {
    // Asked for when it runs: clones that share a build directory may share this program, built in another of them.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let here = Path::new(&here);
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |path| root.join(path))
}

fn cargo(args: &[&str]) -> Result<(), String> {
    execute(Command::new(env!("CARGO")).args(args), args)
}

fn docs(_: &Path) -> Result<(), String> {
    let args = ["doc", "--workspace", "--no-deps", "--quiet"];
    execute(Command::new(env!("CARGO")).args(args).env("RUSTDOCFLAGS", "--deny warnings"), &args)
}

fn bench(_: &Path) -> Result<(), String> {
    for (package, name) in
        [("landfall-policy", "decisions"), ("landfall-engine", "engine"), ("landfall-replay", "published")]
    {
        cargo(&["bench", "--package", package, "--bench", name, "--quiet", "--", "--short"])?;
    }
    // With the build of the tests: what is shown is that they run, and a second build would take minutes.
    let tested = ["--workspace", "--features", "landfall-engine/mutations", "--profile", "dev"];
    let parts = ["--bench", "store", "--bench", "service", "--quiet", "--", "--short"];
    cargo(&[&["bench"], &tested[..], &parts[..]].concat())
}

fn execute(command: &mut Command, args: &[&str]) -> Result<(), String> {
    let shown = args.join(" ");
    // A program started by `cargo run` would hand these on and confuse the inner cargo's choice of toolchain.
    let status = command.current_dir(root()).env_remove("CARGO_MANIFEST_DIR").status();
    let status = status.map_err(|error| format!("cannot run cargo {shown}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {shown} failed ({status})")) }
}
