//! What a server reads back from its disk. Checksums keep accidents away from these readers; they must not be what the readers'
//! safety rests on, because backups come from elsewhere.

use landfall_engine::{Event, State, codec};
use landfall_store::{StoreError, decode_state, encode_state};

/// A row of the journal: one event behind the other.
pub(crate) fn events(input: &[u8]) {
    let (mut rest, mut scratch) = (input, Vec::new());
    while !rest.is_empty() {
        let (distance, event) = match codec::read_event(&mut rest, &mut scratch) {
            Ok(read) => read,
            Err(why) => return assert!(!why.is_empty(), "a refusal says why"),
        };
        let once = written(distance, &event);
        let (distance, event) =
            codec::read_event(&mut once.as_slice(), &mut scratch).expect("what was written can be read");
        assert_eq!(written(distance, &event), once);
        // The event stream shows it as JSON; a number that JSON does not have is refused there, not here.
        let _ = serde_json::to_string(&event);
    }
}

fn written(distance: i64, event: &Event) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::write_event(&mut bytes, distance, event).expect("what was read can be written");
    bytes
}

/// A state as it stands in a snapshot, without the frame around it.
pub(crate) fn state(input: &[u8]) {
    match codec::read_state(&mut &*input) {
        Ok(state) => survives(&state),
        Err(why) => assert!(!why.is_empty(), "a refusal says why"),
    }
}

fn survives(state: &State) {
    let once = encode_state(state);
    let again = decode_state(&once).expect("what was written can be read");
    assert_eq!(again.hash(), state.hash());
    assert!(encode_state(&again) == once, "it is written as before");
}

/// A whole snapshot: as it is, and with a checksum that fits, so that what is behind it is reached.
pub(crate) fn snapshot(input: &[u8]) {
    look(input);
    let Some((kind, payload)) = input.split_first() else { return };
    let mut hasher = blake3::Hasher::new();
    for piece in [b"landfall state", std::slice::from_ref(kind), payload] {
        hasher.update(&(piece.len() as u64).to_le_bytes());
        hasher.update(piece);
    }
    let check = hasher.finalize();
    let sealed = [std::slice::from_ref(kind), &check.as_bytes()[..16], payload].concat();
    if let Some(StoreError::Damaged { why, .. }) = look(&sealed) {
        panic!("the checksum fits, and still: {why}");
    }
}

fn look(bytes: &[u8]) -> Option<StoreError> {
    match decode_state(bytes) {
        Ok(state) => {
            survives(&state);
            None
        }
        Err(error) => {
            assert!(error.to_string().contains("snapshot"), "the error names what it is about: {error}");
            Some(error)
        }
    }
}
