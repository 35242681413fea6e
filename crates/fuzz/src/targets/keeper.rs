//! Between an agent and its keeper: lines over the socket, and the journal that outlives both.

use landfall_agent::keeper::journal::Journal;
use landfall_agent::keeper::wire::{Event, Request};

use crate::again;

/// Every line both as what an agent and as what a keeper could say.
pub(crate) fn lines(input: &[u8]) {
    for line in String::from_utf8_lossy(input).lines() {
        again::json::<Request>(line);
        again::json::<Event>(line);
    }
}

/// A journal is opened twice: the second keeper finds all that the first one found.
pub(crate) fn journal(input: &[u8]) {
    let dir = tempfile::tempdir_in(crate::targets::memory()).expect("a directory");
    let path = dir.path().join("journal");
    std::fs::write(&path, input).expect("it can be written");
    let (first, mut found) = Journal::open(&path, "boot").expect("whatever it says, it opens");
    drop(first);
    let (_, again) = Journal::open(&path, "boot").expect("it opens again");
    assert!(again.whole, "it was written by this boot");
    found.whole = true;
    assert_eq!(again, found);
    let keys: Vec<_> = found.left.iter().map(|left| (&left.fence.job, left.fence.attempt)).collect();
    let over = |fence: &landfall_model::life::Fence| keys.contains(&(&fence.job, fence.attempt));
    assert!(!found.ended.iter().any(|ended| over(&ended.fence)), "nothing is both over and left");
}
