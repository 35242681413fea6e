//! Published results, reproduced: prints what was published beside what comes out here, and fails on any difference.
//!
//! Needs the traces: `LANDFALL_TRACES`, or `shared/traces` beside the repository. Without them it says so and ends well.
//!
//! `cargo bench -p landfall-replay --bench published [-- logs|reference|sequences|packing|drawn|ours|pack|speed|choose]...`
//!
//! `choose` tries constants for minutes and runs only when it is asked for.

mod choose;
mod expected;
mod logs;
mod ours;
mod packing;
mod sequences;
mod speed;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Differences found so far.
#[derive(Default)]
struct Findings {
    checks: usize,
    differences: usize,
}

impl Findings {
    /// Counts a check and says how it went in one word.
    fn check(&mut self, good: bool) -> &'static str {
        self.checks += 1;
        self.differences += usize::from(!good);
        if good { "same" } else { "DIFFERENT" }
    }
}

fn traces() -> PathBuf {
    let beside = || Path::new("../../../shared/traces").to_owned();
    std::env::var_os("LANDFALL_TRACES").map_or_else(beside, PathBuf::from)
}

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    if let [what, folder] = asked.as_slice()
        && let Some(what) = what.strip_prefix("alone-")
    {
        speed::alone(what, Path::new(folder));
        return ExitCode::SUCCESS;
    }
    let folder = traces();
    if !folder.is_dir() {
        println!("No traces: {} is not there, so nothing was checked.", folder.display());
        println!("Set LANDFALL_TRACES to a folder with swf/ and openb/ as docs/benchmarks.md describes.");
        return ExitCode::SUCCESS;
    }
    if std::env::args().any(|arg| arg == "--short") {
        println!(
            "Traces are there; the full comparison is `cargo bench -p landfall-replay --bench published`."
        );
        return ExitCode::SUCCESS;
    }
    type Part = fn(&Path, &mut Findings);
    let parts: [(&str, Part); 9] = [
        ("logs", logs::published),
        ("reference", logs::reference),
        ("sequences", sequences::published),
        ("packing", packing::published),
        ("drawn", packing::drawn),
        ("ours", ours::batch),
        ("pack", ours::pack),
        ("speed", speed::measured),
        ("choose", choose::left_out),
    ];
    let mut findings = Findings::default();
    for (name, part) in parts {
        if (asked.is_empty() && name != "choose") || asked.iter().any(|asked| asked == name) {
            part(&folder, &mut findings);
            println!();
        }
    }
    println!("{} checks, {} differences", findings.checks, findings.differences);
    if findings.differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
