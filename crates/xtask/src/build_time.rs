//! What a newcomer's first build costs: `make up` without anything built before.

use std::path::Path;
use std::time::Instant;

pub(crate) fn measure(root: &Path) -> Result<(), String> {
    let place = super::target(root).join("build-time");
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    if place.exists() {
        std::fs::remove_dir_all(&place).map_err(failed)?;
    }
    let clock = Clock::start()?;
    let target = place.display().to_string();
    super::cargo(&["build", "--profile", "up", "--package", "landfall-cli", "--target-dir", &target])?;
    let taken = clock.taken()?;
    let bytes = std::fs::metadata(place.join("up/landfall")).map_err(failed)?.len();
    println!("{taken} on {} cores, {} MB", cores(), bytes / 1_000_000);
    std::fs::remove_dir_all(&place).map_err(failed)
}

/// What the programs that were started and have ended since then took.
pub(crate) struct Clock {
    began: Instant,
    before: u64,
}

impl Clock {
    pub(crate) fn start() -> Result<Self, String> {
        Ok(Self { began: Instant::now(), before: children_seconds()? })
    }

    /// In CPU time and on the clock.
    pub(crate) fn taken(&self) -> Result<String, String> {
        let cpu = children_seconds()? - self.before;
        Ok(format!("{cpu} CPU seconds, {} s", self.began.elapsed().as_secs()))
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// CPU time of all processes that were started and have ended.
fn children_seconds() -> Result<u64, String> {
    let text =
        std::fs::read_to_string("/proc/self/stat").map_err(|error| format!("/proc/self/stat: {error}"))?;
    // The name in brackets may hold anything; user and system time of children are 13 fields behind it, in hundredths.
    let fields = text.rsplit_once(')').map_or("", |it| it.1).split_whitespace().skip(13).take(2);
    Ok(fields.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() / 100)
}
