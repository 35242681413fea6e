//! `cargo xtask storm`: the storms of the end-to-end tests, longer than there. With `--peers` it is the one among peers.

use std::time::{SystemTime, UNIX_EPOCH};

/// Options, the variable that the test reads, and what it is usually for a storm among peers.
const OPTIONS: [(&str, &str, &str); 3] = [
    ("--peers", "LANDFALL_PEERS", "20"),
    ("--jobs", "LANDFALL_JOBS", "500"),
    ("--faults", "LANDFALL_FAULTS", "120"),
];

/// Runs so many faults with a seed, or with a new one that it prints.
pub(crate) fn blow(options: &[&str]) -> Result<(), String> {
    let drawn = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs()).to_string();
    let mut given = Vec::new();
    for option in options.chunks(2) {
        match option {
            [name, number] if *name == "--seed" || OPTIONS.iter().any(|(known, ..)| known == name) => {
                number.parse::<u64>().map_err(|_| format!("{name} wants a number, not `{number}`"))?;
                given.push((*name, *number));
            }
            _ => {
                let all = "[--faults N] [--seed S], among peers with --peers N [--jobs N]";
                return Err(format!("`{}` makes no sense: {all}", option.join(" ")));
            }
        }
    }
    let value = |name: &str| given.iter().rev().find(|(known, _)| *known == name).map(|(_, number)| *number);
    let mut env = vec![("LANDFALL_SEED", value("--seed").unwrap_or(&drawn))];
    let among_peers = value("--peers").is_some() || value("--jobs").is_some();
    if among_peers {
        env.extend(OPTIONS.map(|(name, variable, usual)| (variable, value(name).unwrap_or(usual))));
    } else {
        env.push(("LANDFALL_FAULTS", value("--faults").unwrap_or("200")));
    }
    let which = if among_peers { "peer_storm::" } else { "storm::whatever_goes_wrong" };
    super::tree("test", &["--test", "service", "--quiet", "--", which, "--nocapture"], &env)
}
