//! Events and states as bytes: CBOR, so that a field that is added later is simply absent in what was written before.

use std::io::Read;

use landfall_engine::{Event, State};
use landfall_model::Time;

use crate::error::StoreError;
use crate::frame::{self, Broken, Sealing};

/// What a snapshot's checksum is bound to.
const STATE: &[u8] = b"landfall state";

/// The bytes of a snapshot, with a checksum.
///
/// The state is packed while it is written, so only the packed form is held in memory beside it.
#[must_use]
pub fn encode_state(state: &State) -> Vec<u8> {
    let mut sealing = Sealing::new();
    let buffered = std::io::BufWriter::with_capacity(1 << 16, &mut sealing);
    let written = ciborium::into_writer(state, buffered);
    match written
        .map_err(|error| error.to_string())
        .and_then(|()| sealing.finish(STATE).map_err(|e| e.to_string()))
    {
        Ok(bytes) => bytes,
        Err(error) => unreachable!("every part of the state can be written into memory: {error}"),
    }
}

/// The state of a snapshot.
///
/// # Errors
/// When the bytes are damaged, or were written by a version whose states this one cannot read.
pub fn decode_state(bytes: &[u8]) -> Result<State, StoreError> {
    let payload = frame::open(STATE, bytes).map_err(|broken| match broken {
        Broken::Kind => StoreError::Unreadable { what: "the snapshot".into(), why: broken.to_string() },
        Broken::Short | Broken::Checksum => StoreError::damaged("the snapshot", broken.to_string()),
    })?;
    read(payload).map_err(|why| StoreError::Unreadable { what: "the snapshot".into(), why })
}

/// Writes one event behind others; the instant is told as the distance from that of the row.
pub(crate) fn write_event(out: &mut Vec<u8>, base: Time, at: Time, event: &Event) -> Result<(), StoreError> {
    let distance = at.as_millis().wrapping_sub(base.as_millis());
    ciborium::into_writer(&(distance, event), out)
        .map_err(|error| StoreError::Unreadable { what: "an event".into(), why: error.to_string() })
}

/// Reads the events of a row one after the other.
pub(crate) struct EventReader<'a> {
    bytes: &'a [u8],
    base: Time,
    scratch: &'a mut Vec<u8>,
}

/// Longest text that is read without being put together from pieces.
const SCRATCH: usize = 1 << 16;

impl<'a> EventReader<'a> {
    /// `scratch` may have anything in it.
    pub(crate) fn new(bytes: &'a [u8], base: Time, scratch: &'a mut Vec<u8>) -> Self {
        scratch.resize(SCRATCH, 0);
        Self { bytes, base, scratch }
    }

    /// The next event; `None` behind the last one.
    pub(crate) fn next(&mut self) -> Result<Option<(Time, Event)>, String> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let (distance, event): (i64, Event) =
            ciborium::de::from_reader_with_buffer(&mut self.bytes, self.scratch)
                .map_err(|error| error.to_string())?;
        let at = Time::from_millis(self.base.as_millis().wrapping_add(distance));
        Ok(Some((at, event)))
    }
}

fn read<T: serde::de::DeserializeOwned>(from: impl Read) -> Result<T, String> {
    let mut scratch = vec![0; SCRATCH];
    ciborium::de::from_reader_with_buffer(from, &mut scratch).map_err(|error| error.to_string())
}
