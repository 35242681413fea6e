//! Random worlds with trouble of all kinds, checked after every step, then healed.
//!
//! A failing world prints its seed and how to run it alone. `LANDFALL_SEEDS` sets how many small worlds are run.
#![expect(clippy::disallowed_methods, reason = "which worlds are run is set from outside")]

mod actions;
mod agent;
mod fleet;
mod heal;
#[cfg(feature = "mutations")]
mod mutations;
mod work;
mod world;

use std::collections::BTreeMap;

use landfall_testkit::invariants::Violation;

use world::{Size, World};

const TINY: Size = Size { nodes: (1, 3), actions: 14, rebuilds: false, prompt: false };
const SMALL: Size = Size { nodes: (1, 6), actions: 60, rebuilds: false, prompt: false };
const CLOSE: Size = Size { nodes: (1, 4), actions: 40, rebuilds: true, prompt: false };
const LARGE: Size = Size { nodes: (10, 40), actions: 700, rebuilds: false, prompt: false };
const PROMPT: Size = Size { nodes: (2, 5), actions: 40, rebuilds: false, prompt: true };

/// Worlds that may fail before the rest is left alone.
const FAILURES_MAX: u64 = 40;

fn command(kind: &str, seed: u64) -> String {
    format!("LANDFALL_SEED={seed} cargo test -p landfall-engine --test simulation {kind} -- --nocapture")
}

fn run(size: Size, seed: u64) -> Result<u64, Violation> {
    let mut world = World::new(seed, size)?;
    world.live()?;
    world.heal()?;
    Ok(world.steps)
}

fn run_all(kind: &'static str, size: Size, usual: u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match (number("LANDFALL_SEED"), number("LANDFALL_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(most)) => 0..usual.min(most).max(most * usual / 10_000),
        (None, None) => 0..usual,
    };
    let (mut worlds, mut steps) = (0u64, 0);
    // One seed of each kind of failure says more than the first failure alone.
    let mut failures: BTreeMap<String, (u64, u64, String)> = BTreeMap::new();
    for seed in seeds {
        worlds += 1;
        let found = match std::panic::catch_unwind(|| run(size, seed)) {
            Ok(Ok(more)) => {
                steps += more;
                continue;
            }
            Ok(Err(found)) => (found.name.to_owned(), found.detail),
            Err(_) => ("panic".to_owned(), "see above".to_owned()),
        };
        failures.entry(found.0).or_insert((0, seed, found.1)).0 += 1;
        if failures.values().map(|(count, ..)| count).sum::<u64>() >= FAILURES_MAX {
            break;
        }
    }
    println!("{kind}: {worlds} seeds, {steps} steps");
    for (name, (count, seed, detail)) in &failures {
        eprintln!("{name} in {count} worlds, first with\n    {}\n{detail}\n", command(kind, *seed));
    }
    assert!(failures.is_empty(), "{} kinds of failure in {worlds} {kind} worlds", failures.len());
}

#[test]
fn tiny() {
    run_all("tiny", TINY, 10_000);
}

#[test]
fn small() {
    run_all("small", SMALL, 600);
}

/// Hashes at every step, and the state rebuilt from all events.
#[test]
fn close() {
    run_all("close", CLOSE, 80);
}

#[test]
fn large() {
    run_all("large", LARGE, 3);
}

/// Nothing fails and nothing is late, so what a batch pool promises must come true.
#[test]
fn prompt() {
    run_all("prompt", PROMPT, 300);
}
