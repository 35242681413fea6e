//! Faults planted on purpose are found, each within a bounded number of worlds.
#![cfg(feature = "mutations")]

use landfall_simulation::mutation::{Mutation, plant};
use landfall_simulation::{Plan, run};

/// The worlds in which a planted fault has to show.
const WORLDS: u64 = 400;

fn is_found(mutation: Mutation) {
    is_found_from(0, mutation);
}

fn is_found_from(first: u64, mutation: Mutation) {
    plant(Some(mutation));
    let found = (first..first + WORLDS).find_map(|seed| Some((seed, run(&Plan::of(seed)).err()?)));
    plant(None);
    let (seed, wrong) = found.unwrap_or_else(|| panic!("{mutation:?} was not found in {WORLDS} worlds"));
    println!("{mutation:?}: seed {seed}: {wrong}");
    assert_eq!(run(&Plan::of(seed)), Ok(()), "without {mutation:?} nothing is wrong with seed {seed}");
}

#[test]
fn an_answer_before_the_sync_is_found() {
    is_found(Mutation::AnswerBeforeSync);
}

#[test]
fn an_ignored_incarnation_is_found() {
    // It takes a restore at the right moment: in the 400 worlds before this one nothing shows.
    is_found_from(10_200, Mutation::IncarnationIgnored);
}

#[test]
fn silence_counted_from_before_the_start_is_found() {
    is_found(Mutation::SilenceFromBefore);
}

#[test]
fn skipped_checksums_are_found() {
    is_found(Mutation::ChecksumSkipped);
}

#[test]
fn stale_reports_repeated_are_found() {
    // It shows in few worlds; those before this one do not show it and take more than a minute.
    is_found_from(300, Mutation::StaleReportRepeated);
}
