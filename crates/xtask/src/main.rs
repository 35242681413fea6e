//! Everything that CI does, as one program: `cargo xtask ci`.
//!
//! Each step is a function that prints what it does and fails with a message; nothing is installed by hand before it.
#![forbid(unsafe_code)]

mod api;
mod board;
mod build_time;
mod fuzz;
mod licences;
mod package;
mod packages;
mod storm;
mod tidy;
mod wrap;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use landfall_xtask::root;
use wrap::Mode;

/// One step by name: what it is for, and what it runs.
type Step = (&'static str, &'static str, fn(&Path) -> Result<(), String>);

/// Steps of `ci`, cheap ones first.
const STEPS: [Step; 10] = [
    ("packages", "Debian packages that tests need, installed where that may be done", packages::install),
    ("tidy", "file sizes, module docs, left-overs", tidy::check),
    ("fmt", "formatting", |_| cargo(&["fmt", "--all", "--check"])),
    ("licences", "licences of all dependencies", licences::check),
    ("page", "the board's page, where npm is", board::page),
    ("build", "everything, tests included, with warnings of clippy and rustdoc denied", |_| {
        tree("test", &["--no-run", "--all-targets", "--quiet"], &[])
    }),
    ("test", "all tests, and that planted faults are found", |_| tree("test", &["--quiet"], &[])),
    ("api", "the HTTP API against its OpenAPI document", api::check),
    ("board", "every page of the board in Chromium, against a live server", board::walk),
    ("bench", "a short run of each benchmark", bench),
];

fn main() -> ExitCode {
    if let Some(mode) = Mode::of_this_call() {
        return mode.compile();
    }
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let root = root();
    if let Err(message) = wrap::prepare(&target(&root)) {
        eprintln!("xtask: {message}");
        return ExitCode::FAILURE;
    }
    let result = match asked.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["ci"] => STEPS.iter().try_for_each(|step| run(step, &root)),
        ["generate"] => {
            // By the tests that compare them, built as `ci` builds them.
            tree("test", &["--lib", "--bins", "--quiet", "reference::"], &[(landfall_xtask::WRITE, "1")])
        }
        ["screenshots"] => board::screenshots(&root),
        ["build-time"] => build_time::measure(&root),
        ["storm", options @ ..] => storm::blow(options),
        ["simulate", rest @ ..] => {
            // One world is told as the tests build it. Many are run as the benchmarks are built, which takes some minutes and pays from ten
            // thousand worlds on. Nothing is planted.
            let build: &[&str] =
                if rest.contains(&"--seed") { &["--features", "mutations"] } else { &["--profile", "bench"] };
            cargo(&[&["run", "--quiet", "--package", "landfall-simulation"], build, &["--"], rest].concat())
        }
        ["fuzz", args @ ..] => fuzz::run(&root, args),
        ["package", options @ ..] => package::make(&root, options),
        [] | ["help" | "--help"] => {
            println!("cargo xtask ci         all of the steps below, in this order");
            STEPS.iter().for_each(|(name, purpose, _)| println!("cargo xtask {name:<10} {purpose}"));
            println!("cargo xtask generate   writes the generated pages");
            println!("cargo xtask screenshots takes the pictures of the README");
            println!("cargo xtask fuzz       lists what can be fuzzed, or fuzzes one of it");
            println!("cargo xtask build-time measures what `make up` builds, from nothing");
            println!(
                "cargo xtask package    a Debian package, and a directory to build a container from: [deb|container]"
            );
            println!("                       [--binary FILE] [--out DIR]");
            println!("cargo xtask storm      faults of all kinds under load: [--faults N] [--seed S]");
            println!("                       among peers: --peers N [--jobs N] [--faults N] [--seed S]");
            println!("cargo xtask simulate   --minutes M: whole services in virtual time, from new seeds");
            println!("                       --seed S (one world again), --from S --seeds N, --jobs N");
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
    let began = build_time::Clock::start()?;
    step(root).map_err(|message| format!("{name}: {message}"))?;
    println!("   {name} took {}", began.taken()?);
    Ok(())
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |path| root.join(path))
}

fn cargo(args: &[&str]) -> Result<(), String> {
    execute(Command::new(env!("CARGO")).args(args), args)
}

/// Runs cargo on all crates, always with the same features and compiled the same way: others would mean another build of the tree.
fn tree(command: &str, args: &[&str], env: &[(&str, &str)]) -> Result<(), String> {
    let features = "landfall-engine/mutations,landfall-simulation/mutations";
    let args = [&[command, "--workspace", "--features", features], args].concat();
    let mut cargo = Command::new(env!("CARGO"));
    Mode::Linting.set(&mut cargo, &target(&root()));
    execute(cargo.args(&args).envs(env.iter().copied()), &args)
}

/// With the build of the tests: what is shown is that they run, and an optimised build would take minutes.
fn bench(_: &Path) -> Result<(), String> {
    let names = ["decisions", "engine", "published", "store", "service"];
    let chosen: Vec<&str> = names.iter().flat_map(|name| ["--bench", name]).collect();
    tree("bench", &[&["--profile", "dev", "--quiet"], &chosen[..], &["--", "--short"]].concat(), &[])
}

fn execute(command: &mut Command, args: &[&str]) -> Result<(), String> {
    let shown = args.join(" ");
    // A program started by `cargo run` would hand on what was said about its own crate: build scripts that look at it would run
    // again, and all that depends on them would be built anew whenever somebody calls cargo without this program.
    let own = |name: &str| name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_");
    let about_us = std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_str().is_some_and(own));
    about_us.for_each(|name| {
        command.env_remove(name);
    });
    let status = command.current_dir(root()).status();
    let status = status.map_err(|error| format!("cannot run cargo {shown}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {shown} failed ({status})")) }
}
