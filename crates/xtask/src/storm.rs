//! `cargo xtask storm`: the storm of the end-to-end tests, longer than there.

use std::time::{SystemTime, UNIX_EPOCH};

/// Runs so many faults with a seed, or with a new one that it prints.
pub(crate) fn blow(options: &[&str]) -> Result<(), String> {
    let drawn = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    let (mut faults, mut seed) = ("200".to_owned(), drawn.to_string());
    for option in options.chunks(2) {
        match option {
            ["--faults", number] => faults = (*number).to_owned(),
            ["--seed", number] => seed = (*number).to_owned(),
            _ => return Err(format!("`{}` makes no sense: [--faults N] [--seed S]", option.join(" "))),
        }
    }
    for (name, number) in [("--faults", &faults), ("--seed", &seed)] {
        number.parse::<u64>().map_err(|_| format!("{name} wants a number, not `{number}`"))?;
    }
    let env = [("LANDFALL_FAULTS", faults.as_str()), ("LANDFALL_SEED", seed.as_str())];
    super::tree("test", &["--test", "service", "--quiet", "--", "storm::", "--nocapture"], &env)
}
