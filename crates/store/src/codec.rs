//! Events and states as bytes on disk: what the engine writes of them, packed, with checksums.

use std::io::Write as _;

use landfall_engine::{Event, State, codec};
use landfall_model::Time;

use crate::error::StoreError;
use crate::frame::{self, Broken, Sealing};

/// What a snapshot's checksum is bound to.
const STATE: &[u8] = b"landfall state";

/// The bytes of a snapshot, with a checksum.
///
/// The state is packed while it is written, so only the packed form is held in memory beside it.
pub fn encode_state(state: &State) -> Vec<u8> {
    let mut sealing = Sealing::new();
    let mut buffered = std::io::BufWriter::with_capacity(1 << 16, &mut sealing);
    let written = codec::write_state(&mut buffered, state)
        .and_then(|()| buffered.flush().map_err(|error| error.to_string()));
    drop(buffered);
    match written.and_then(|()| sealing.finish(STATE).map_err(|error| error.to_string())) {
        Ok(bytes) => bytes,
        Err(error) => unreachable!("every part of the state can be written into memory: {error}"),
    }
}

/// The state of a snapshot.
///
/// # Errors
/// When the bytes are damaged, or were written by a version whose states this one cannot read.
pub fn decode_state(bytes: &[u8]) -> Result<State, StoreError> {
    let mut payload = frame::open(STATE, bytes).map_err(|broken| match broken {
        Broken::Kind => StoreError::Unreadable { what: "the snapshot".into(), why: broken.to_string() },
        Broken::Short | Broken::Checksum => StoreError::damaged("the snapshot", broken.to_string()),
    })?;
    codec::read_state(&mut payload).map_err(|why| StoreError::Unreadable { what: "the snapshot".into(), why })
}

/// Writes one event behind others; the instant is told as the distance from that of the row.
pub(crate) fn write_event(out: &mut Vec<u8>, base: Time, at: Time, event: &Event) -> Result<(), StoreError> {
    let distance = at.as_millis().wrapping_sub(base.as_millis());
    codec::write_event(out, distance, event)
        .map_err(|why| StoreError::Unreadable { what: "an event".into(), why })
}

/// Reads the events of a row one after the other.
pub(crate) struct EventReader<'a> {
    bytes: &'a [u8],
    base: Time,
    scratch: &'a mut Vec<u8>,
}

impl<'a> EventReader<'a> {
    /// `scratch` may have anything in it.
    pub(crate) fn new(bytes: &'a [u8], base: Time, scratch: &'a mut Vec<u8>) -> Self {
        Self { bytes, base, scratch }
    }

    /// The next event; `None` behind the last one.
    pub(crate) fn next(&mut self) -> Result<Option<(Time, Event)>, String> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let (distance, event) = codec::read_event(&mut self.bytes, self.scratch)?;
        let at = Time::from_millis(self.base.as_millis().wrapping_add(distance));
        Ok(Some((at, event)))
    }
}
