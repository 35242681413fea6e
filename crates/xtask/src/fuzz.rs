//! `cargo xtask fuzz`: builds the targets of `landfall-fuzz` with libFuzzer and runs one of them.
//!
//! No nightly compiler and no tool is needed beside a C++ compiler, which builds libFuzzer. What leads the fuzzer are counters on every branch and comparison of
//! our own crates, which the compiler adds when it is told so by plain `-C` flags ([`Mode::Fuzzing`]).
//!
//! A run goes on from what runs before it found (`fuzz/TARGET` of the build directory) and from the corpus of the repository. A finding is saved in
//! `fuzz/findings`; once mended it goes to `crates/fuzz/findings`, where the ordinary tests run it for ever.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::wrap::Mode;

const USAGE: &str =
    "cargo xtask fuzz TARGET [--minutes M]   or, to repeat one input:   cargo xtask fuzz TARGET FILE";
/// Memory of the fuzzer above which an input counts as a finding.
const MEMORY_MIB: u32 = 1500;
/// Seconds above which an input counts as a finding; generous, because the machine may be busy.
const SECONDS_MAX: u32 = 20;
/// Longest input that is drawn.
const INPUT_BYTES_MAX: u32 = 16 << 10;

/// Lists the targets, or runs one.
pub(crate) fn run(root: &Path, args: &[&str]) -> Result<(), String> {
    let targets = targets(root)?;
    let (name, minutes, file) = match args {
        [] => {
            println!("{USAGE}\n");
            targets.iter().for_each(|(name, about)| println!("{name:<16} {about}"));
            return Ok(());
        }
        [name] => (*name, 10.0, None),
        [name, "--minutes", minutes] => {
            let minutes: f64 = minutes.parse().map_err(|_| format!("`{minutes}` is no number of minutes"))?;
            (*name, minutes, None)
        }
        [name, file] => (*name, 0.0, Some(*file)),
        _ => return Err(USAGE.to_owned()),
    };
    if !targets.iter().any(|(known, _)| known == name) {
        return Err(format!("there is no target `{name}`; `cargo xtask fuzz` lists them"));
    }
    let mut command = Command::new(build(root, name)?);
    match file {
        Some(file) => repeat(command.arg(root.join(file)), file),
        None => draw(root, name, minutes, command),
    }
}

/// Names and descriptions, read from the list in the source: listing them should not need a build of everything.
fn targets(root: &Path) -> Result<Vec<(String, String)>, String> {
    let path = root.join("crates/fuzz/src/lib.rs");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let quoted = |text: &str, field: &str| {
        let rest = text.split_once(&format!("{field}: \""))?.1;
        Some(rest.split_once('"')?.0.to_owned())
    };
    Ok(text
        .split("Target {")
        .filter_map(|part| Some((quoted(part, "name")?, quoted(part, "about")?)))
        .collect())
}

/// Builds the program that runs a target.
fn build(root: &Path, name: &str) -> Result<PathBuf, String> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let there = Command::new(&compiler).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        return Err(format!(
            "libFuzzer is written in C++, and `{compiler}` cannot be run; on Debian: apt-get install g++, elsewhere set CXX"
        ));
    }
    let args = ["build", "--package", "landfall-fuzz", "--features", "libfuzzer,landfall-engine/mutations"];
    let mut cargo = Command::new(env!("CARGO"));
    Mode::Fuzzing.set(&mut cargo, &super::target(root));
    cargo.args(args).env("LANDFALL_FUZZ_TARGET", name);
    println!("building; the first time takes some minutes");
    super::execute(&mut cargo, &args)?;
    // Set apart, so that another target can be built while this one runs.
    let (built, apart) = (
        super::target(root).join("debug").join("landfall-fuzz"),
        place(root)?.join(format!("{name}.program")),
    );
    let copied = std::fs::remove_file(&apart).or(Ok(())).and_then(|()| std::fs::copy(&built, &apart));
    copied.map_err(|error: std::io::Error| format!("cannot copy {}: {error}", built.display()))?;
    Ok(apart)
}

/// Where programs, what they learned and what they found are kept between runs.
fn place(root: &Path) -> Result<PathBuf, String> {
    let place = super::target(root).join("fuzz");
    std::fs::create_dir_all(&place).map_err(|error| format!("cannot make {}: {error}", place.display()))?;
    Ok(place)
}

/// Runs one input, once.
fn repeat(command: &mut Command, file: &str) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run the fuzzer: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{file} still fails ({status})")) }
}

/// Lets the fuzzer draw inputs for some time.
fn draw(root: &Path, name: &str, minutes: f64, mut command: Command) -> Result<(), String> {
    let (corpus, findings) = (place(root)?.join(name), place(root)?.join("findings"));
    for dir in [&corpus, &findings] {
        std::fs::create_dir_all(dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    }
    let prefix = format!("{}/{name}-", findings.display());
    command
        .arg(format!("-max_total_time={}", (minutes * 60.0).max(1.0) as u64))
        .arg(format!("-artifact_prefix={prefix}"))
        .args([format!("-rss_limit_mb={MEMORY_MIB}"), format!("-timeout={SECONDS_MAX}")])
        .args([format!("-max_len={INPUT_BYTES_MAX}"), "-print_final_stats=1".to_owned()])
        // To weigh inputs by how rare what they reach is costs more than to run them, where they reach very much.
        .arg("-entropic=0")
        .arg(&corpus);
    for dir in ["corpus", "findings"].map(|kind| root.join("crates/fuzz").join(kind).join(name)) {
        if dir.is_dir() {
            command.arg(dir);
        }
    }
    println!("{name}: {minutes} minutes; what it learns is kept in {}", corpus.display());
    let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| format!("cannot run the fuzzer: {error}"))?;
    let said = child.stderr.take().ok_or("the fuzzer says nothing")?;
    let (mut executions, mut saved) = (0_u64, None);
    for line in BufReader::new(said).lines().map_while(Result::ok) {
        eprintln!("{line}");
        if let Some(count) = line.strip_prefix("stat::number_of_executed_units:") {
            executions = count.trim().parse().unwrap_or(0);
        }
        if let Some((_, path)) = line.split_once("Test unit written to ") {
            saved = Some(path.to_owned());
        }
    }
    let status = child.wait().map_err(|error| format!("the fuzzer cannot be waited for: {error}"))?;
    match (status.success(), saved) {
        (true, _) => {
            println!("{name}: {executions} executions in {minutes} minutes, nothing found");
            Ok(())
        }
        (false, Some(path)) => Err(format!(
            "{name}: found something after {executions} executions, saved as {path}\n  \
             to repeat it: cargo xtask fuzz {name} {path}\n  \
             to keep it: mend the fault and copy the file to crates/fuzz/findings/{name}"
        )),
        (false, None) => Err(format!("{name}: the fuzzer ended with {status}")),
    }
}
