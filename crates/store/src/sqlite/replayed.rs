//! The journal against its snapshots: applying the events again has to give the states that were stored.

use std::ops::ControlFlow;
use std::path::Path;

use landfall_engine::State;

use super::head::Head;
use super::reader::Reading;
use super::{Sqlite, directory, explain, journal, snapshots, wal};
use crate::error::StoreError;

/// What came of applying a journal's events again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Number of the last event in the state that it began with; 0 is nothing at all.
    pub from: u64,
    /// Number of the last event.
    pub to: u64,
    /// Snapshots on the way by the number of their last event, and whether they are what the events give.
    pub snapshots: Vec<(u64, bool)>,
    /// Digest of the state at the end.
    pub hash: [u8; 32],
}

impl Verified {
    pub fn is_good(&self) -> bool {
        self.snapshots.iter().all(|(_, same)| *same)
    }
}

impl Sqlite {
    /// Applies the events of a data directory again, from the first if it is still kept, else from the oldest snapshot, and
    /// compares every later snapshot with what they give. A server may run on it.
    ///
    /// # Errors
    /// When it cannot be read, or is damaged.
    pub fn verify(dir: &Path) -> Result<Verified, StoreError> {
        let path = dir.join(directory::DATABASE);
        wal::sound(&path)?;
        let Reading { mut conn, .. } = Reading::open(&path)?;
        // One transaction: what a server adds or drops meanwhile is not seen.
        let tx = conn.transaction().map_err(explain(&path))?;
        let mut stored = snapshots::all(&tx, &path)?.into_iter().peekable();
        let whole = journal::oldest(&tx).map_err(explain(&path))? <= 1;
        let (mut state, from) = match stored.peek() {
            Some(_) if !whole => stored.next().unwrap_or_default(),
            _ => (State::default(), 0),
        };
        let mut compared = Vec::new();
        let to = journal::walk(&tx, &path, from, |event| {
            state.apply(event.at, &event.event);
            if let Some((snapshot, seq)) = stored.next_if(|(_, seq)| *seq == event.seq) {
                compared.push((seq, snapshot.hash() == state.hash()));
            }
            ControlFlow::Continue(())
        })?;
        let last = Head::read(&tx, &path)?.last_seq;
        let cut = |seq: u64, why: String| {
            Err(StoreError::Damaged { what: "the journal".into(), seq: Some(seq), why })
        };
        if to != last {
            return cut(to.min(last) + 1, format!("it ends at event {to}; {last} was stored"));
        }
        if let Some((_, seq)) = stored.peek() {
            return cut(
                to + 1,
                format!("it ends at event {to}, and no event leads to the snapshot of event {seq}"),
            );
        }
        Ok(Verified { from, to, snapshots: compared, hash: state.hash() })
    }
}
