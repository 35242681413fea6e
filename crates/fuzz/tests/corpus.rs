//! Every input that is kept, and seeded changes of them, through the functions that the fuzzer runs.
//!
//! A change that fails prints its seed and is written to a file that `cargo xtask fuzz TARGET FILE` repeats.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use landfall_fuzz::{ALL, Target, named};
use landfall_testkit::Rng;

const SEED: u64 = 20_261_117;
/// Bytes that mean something to one of the readers.
const LIKELY: &[u8] = b"0123456789-+.eE,;{}[]\":\\ \t\n\r\0\xff\x7f\x1f\x8b\x9f\xbf\x5b\x9b|=_#'";

/// The files of a target, in order: what it starts from and what was found with it.
fn files(target: &Target) -> Vec<PathBuf> {
    let root = Path::new(".");
    let dirs = ["corpus", "findings"].map(|kind| root.join(kind).join(target.name));
    let mut found: Vec<PathBuf> =
        dirs.iter().flat_map(fs::read_dir).flatten().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

/// Runs an input; tells how to repeat it if it fails.
fn run(target: &Target, input: &[u8], what: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        let path = std::env::temp_dir().join(format!("landfall-fuzz-{}", target.name));
        fs::write(&path, input).unwrap();
        eprintln!("{what}; to repeat it: cargo xtask fuzz {} {}", target.name, path.display());
        std::panic::resume_unwind(panic);
    }
}

/// Bytes exchanged, put in, taken out, repeated, cut off, or those of another file.
fn changed(inputs: &[Vec<u8>], random: &mut Rng) -> Vec<u8> {
    let mut bytes = inputs[random.index(inputs.len())].clone();
    for _ in 0..=random.below(4) {
        let at = random.index(bytes.len() + 1);
        let byte = if random.chance(70) { random.choose(LIKELY) } else { random.below(256) as u8 };
        let end = (at + 1 + random.index(24)).min(bytes.len());
        match random.below(12) {
            0..=3 if at < bytes.len() => bytes[at] = byte,
            4..=5 => bytes.insert(at, byte),
            6 if at < bytes.len() => drop(bytes.remove(at)),
            7 if at < end => drop(bytes.drain(at..end)),
            8 if at < end => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            9 => {
                let other = &inputs[random.index(inputs.len())];
                bytes.truncate(at);
                bytes.extend_from_slice(&other[random.index(other.len() + 1)..]);
            }
            10 => bytes.truncate(at),
            _ if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            _ => bytes.push(byte),
        }
    }
    bytes
}

fn check(name: &str) {
    let target = &named(name);
    let files = files(target);
    assert!(!files.is_empty(), "corpus/{name} has files");
    let inputs: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    for (path, input) in files.iter().zip(&inputs) {
        run(target, input, &format!("{} fails", path.display()));
    }
    let mut random = Rng::new(SEED);
    for draw in 0..target.drawn {
        run(target, &changed(&inputs, &mut random), &format!("{name}: draw {draw} of seed {SEED} fails"));
    }
}

/// One test per target, so that they run side by side and a failure names it.
macro_rules! tests {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                check($name);
            }
        )*

        #[test]
        fn no_target_is_left_out() {
            let tested = [$($name),*];
            assert_eq!(ALL.iter().map(|target| target.name).collect::<Vec<_>>(), tested);
        }
    };
}

tests! {
    http: "http",
    bodies: "bodies",
    agent: "agent",
    keeper: "keeper",
    keeper_journal: "keeper-journal",
    peers: "peers",
    events: "events",
    state: "state",
    snapshot: "snapshot",
    scenario: "scenario",
    policy: "policy",
    trace: "trace",
}
