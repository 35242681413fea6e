//! Events and states as CBOR, so that a field that is added later is simply absent in what was written before.
//!
//! Here and not where the bytes are kept, and with one kind of reader and one of writer: the code for each of the hundreds
//! of types in a state is made anew for every kind and in every crate that asks. The store, which asked for four, took longer to
//! build than the policies or the replays.

use std::io::{Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Event, State};

/// Longest text that is read without being put together from pieces.
const SCRATCH: usize = 1 << 16;

/// Writes an event behind others, with the distance of its instant from one that the reader knows.
///
/// # Errors
/// When the writer fails.
pub fn write_event(out: &mut dyn Write, distance: i64, event: &Event) -> Result<(), String> {
    write(out, &(distance, event))
}

/// Reads an event and the distance of its instant. `scratch` may have anything in it.
///
/// # Errors
/// When the bytes are no event.
pub fn read_event(from: &mut dyn Read, scratch: &mut Vec<u8>) -> Result<(i64, Event), String> {
    read(from, scratch)
}

/// Writes a state.
///
/// # Errors
/// When the writer fails.
pub fn write_state(out: &mut dyn Write, state: &State) -> Result<(), String> {
    write(out, state)
}

/// Reads a state.
///
/// # Errors
/// When the bytes are no state.
pub fn read_state(from: &mut dyn Read) -> Result<State, String> {
    read(from, &mut Vec::new())
}

fn write(out: &mut dyn Write, value: &impl Serialize) -> Result<(), String> {
    ciborium::into_writer(value, out).map_err(|error| error.to_string())
}

fn read<T: DeserializeOwned>(from: &mut dyn Read, scratch: &mut Vec<u8>) -> Result<T, String> {
    scratch.resize(SCRATCH, 0);
    ciborium::de::from_reader_with_buffer(from, scratch).map_err(|error| error.to_string())
}
