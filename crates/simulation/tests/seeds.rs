//! Fixed seeds, so that whoever changes something sees at once what it does to a whole service. New ones are drawn by
//! `cargo xtask simulate`.

use landfall_simulation::{Plan, run, shrink};

/// Worlds in the ordinary tests; as many as take about half a minute of one core.
const WORLDS: u64 = 170;

/// Seeds that once found something, with what it was.
const FOUND: [u64; 6] = [8, 10, 45, 77, 3_002_338, 10_004_209];

fn must_hold(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        if let Err(wrong) = run(&Plan::of(seed)) {
            let (small, why) = shrink(&Plan::of(seed));
            panic!("seed {seed}: {wrong}\nsmallest: {why}\n{small:#?}");
        }
    }
}

#[test]
fn fixed_worlds_keep_what_is_promised() {
    must_hold(0..WORLDS);
}

#[test]
fn worlds_that_found_something_stay_mended() {
    must_hold(FOUND.into_iter());
}

#[test]
fn a_seed_is_the_same_world_every_time() {
    for seed in [3, 17, 42] {
        assert_eq!(format!("{:?}", Plan::of(seed)), format!("{:?}", Plan::of(seed)), "seed {seed}");
    }
}
