//! What must hold for every input that somebody else can send: targets for fuzzing, and inputs worth keeping.
//!
//! A target is a function from bytes to nothing that panics when something is wrong. Wrong is more than a panic of the
//! product: what was read must be writable and read back as the same; a refusal must say where or what; nothing may take memory or
//! time out of proportion to the input.
//!
//! ```text
//! corpus/TARGET/*, findings/TARGET/* ──┬──► tests/corpus.rs     every file, and a few thousand seeded changes of them
//!                                      └──► cargo xtask fuzz    libFuzzer draws inputs, led by the branches they reach
//!                                                               └─► a finding is saved; mended, it goes to findings/
//! ```
//!
//! The same functions are run by both, so whatever the fuzzer found stays tested without it. libFuzzer is behind a feature of
//! this crate (`libfuzzer`), and nothing of it is in the ordinary build.
#![forbid(unsafe_code)]

mod again;
mod targets;

pub use targets::http::send_to;
use targets::{http, journal, keeper, messages, peers, policy, scenario, trace};

/// One thing to fuzz.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    /// What the input is and what is looked at.
    pub about: &'static str,
    pub run: fn(&[u8]),
    /// Changed inputs that the ordinary test draws; fewer where one takes long.
    pub drawn: u32,
}

/// All targets.
pub const ALL: &[Target] = &[
    Target {
        name: "http",
        about: "requests, one a line, to the routes of a real server",
        run: http::run,
        drawn: 600,
    },
    Target {
        name: "bodies",
        about: "a body that clients send, as its type",
        run: messages::bodies,
        drawn: 2000,
    },
    Target {
        name: "agent",
        about: "what agents and servers say to each other",
        run: messages::agent,
        drawn: 2000,
    },
    Target {
        name: "keeper",
        about: "lines between an agent and its keeper",
        run: keeper::lines,
        drawn: 2000,
    },
    Target {
        name: "keeper-journal",
        about: "the journal that a keeper left",
        run: keeper::journal,
        drawn: 500,
    },
    Target { name: "peers", about: "messages between peers that negotiate", run: peers::run, drawn: 2000 },
    Target {
        name: "events",
        about: "a row of the journal: events in CBOR",
        run: journal::events,
        drawn: 2000,
    },
    Target { name: "state", about: "a state in CBOR", run: journal::state, drawn: 1000 },
    Target {
        name: "snapshot",
        about: "a snapshot behind its checksum, packed or not",
        run: journal::snapshot,
        drawn: 1000,
    },
    Target {
        name: "scenario",
        about: "a scenario file, and every policy asked about it",
        run: scenario::run,
        drawn: 1000,
    },
    Target { name: "policy", about: "a policy file", run: policy::run, drawn: 1000 },
    Target { name: "trace", about: "a trace of any kind, gzip or not", run: trace::run, drawn: 2000 },
];

/// The target of a name.
///
/// # Panics
/// Where there is none, when the program is built if that is where it is asked.
pub const fn named(name: &str) -> Target {
    let mut at = 0;
    while at < ALL.len() {
        if equal(ALL[at].name.as_bytes(), name.as_bytes()) {
            return ALL[at];
        }
        at += 1;
    }
    panic!("there is no such target")
}

/// `==` cannot be asked while a program is built.
const fn equal(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}
