//! Makes the inputs in CBOR out of those in text: the requests of `corpus/http` are sent to a server each, and the events and the state that
//! came of it are what `events`, `state` and `snapshot` start from.

use std::path::Path;

use landfall_engine::codec;
use landfall_store::sqlite::Sqlite;
use landfall_store::{Reader as _, Store as _, encode_state};

/// Events in one file at most: small files are changed in more interesting places.
const EVENTS_MAX: usize = 4;

fn main() {
    let corpus = Path::new("crates/fuzz/corpus"); // From the root, where `cargo run` is called.
    for file in std::fs::read_dir(corpus.join("http")).expect("the corpus") {
        let file = file.expect("an entry").path();
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let dir = tempfile::tempdir().expect("a directory");
        landfall_fuzz::send_to(dir.path(), &std::fs::read(&file).expect("it can be read"));
        let mut store = Sqlite::open(dir.path()).expect("it opens again");
        let mut state = Vec::new();
        let loaded = store.load().expect("it loads");
        codec::write_state(&mut state, &loaded.state).expect("it can be written");
        std::fs::write(corpus.join("state").join(&name), state).expect("written");
        // The checksum is left out: the target puts one in front that fits.
        let mut sealed = encode_state(&loaded.state);
        sealed.drain(1..17);
        std::fs::write(corpus.join("snapshot").join(&name), sealed).expect("written");
        let events = store.events(0, 10_000).expect("they can be read");
        for (number, events) in events.chunks(EVENTS_MAX).enumerate() {
            let mut bytes = Vec::new();
            for stored in events {
                codec::write_event(&mut bytes, 5, &stored.event).expect("it can be written");
            }
            std::fs::write(corpus.join("events").join(format!("{name}-{number}")), bytes).expect("written");
        }
    }
}
