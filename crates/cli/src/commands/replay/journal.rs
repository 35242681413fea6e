//! `landfall replay --journal DIR --verify`: a server's own events, applied again.

use std::path::Path;

use landfall_store::sqlite::Sqlite;
use serde::Serialize;

use crate::answer::{Answer, Page};
use crate::error::{CliError, broken, stored};
use crate::reply::Reply;

#[derive(Serialize)]
struct Verified {
    /// Number of the last event in the state that it began with.
    from: u64,
    to: u64,
    /// Numbers of the last events of the snapshots that were compared.
    snapshots: Vec<u64>,
    hash: String,
}

/// Applies the events again and compares what comes of them with the snapshots.
pub(super) fn verify(dir: &Path) -> Result<Box<dyn Answer>, CliError> {
    let verified = Sqlite::verify(dir).map_err(|error| stored(&error))?;
    if let Some((seq, _)) = verified.snapshots.iter().find(|(_, same)| !same) {
        return Err(broken(
            format!("the events up to {seq} do not give the snapshot of event {seq}"),
            "if an older version wrote that snapshot, compare again after the next one; else please report this",
        ));
    }
    let data = Verified {
        from: verified.from,
        to: verified.to,
        snapshots: verified.snapshots.iter().map(|(seq, _)| *seq).collect(),
        hash: verified.hash.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let unproved = data.snapshots.is_empty();
    let reply = Reply::new("landfall.replay-journal/1", data, page);
    let warning =
        "there is no snapshot behind the first event that is kept, so there was nothing to compare with";
    Ok(if unproved { reply.warn(warning).boxed() } else { reply.boxed() })
}

fn page(verified: &Verified, _: Page) -> String {
    let Verified { from, to, snapshots, hash } = verified;
    let same = |at: &u64| format!("  what comes of the first {at} is the snapshot of event {at}\n");
    let same: String = snapshots.iter().map(same).collect();
    let first = from + 1;
    format!("events {first} to {to} applied again\n{same}  state: {hash}\n")
}
