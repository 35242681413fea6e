//! `kill -9` at any moment: what was acknowledged is there afterwards, in order, and the server goes on from it.
//!
//! This program starts itself again as the server that is killed. The child prints the number of each acknowledged event
//! and the hash of the state after it; the parent kills it at a moment drawn from a printed seed, loads, and compares.
//! What the loss of power does is another question: the page cache survives a killed process.

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use landfall_engine::State;
use landfall_store::sqlite::Sqlite;
use landfall_store::{Reader as _, Store as _, encode_state};
use landfall_testkit::Rng;
use support::Script;

const CHILD: &str = "LANDFALL_CRASH_TEST_CHILD";
const SEED: &str = "LANDFALL_CRASH_TEST_SEED";
const KILLS: u64 = 20;

fn main() {
    if let (Some(dir), Some(seed)) = (std::env::var_os(CHILD), std::env::var(SEED).ok()) {
        return be_killed(Path::new(&dir), seed.parse().expect("a seed"));
    }
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
        // Another course on each run; what failed can be run again.
        u64::from(std::process::id())
    });
    println!("running {KILLS} kills; again with {SEED}={seed}");
    let dir = tempfile::tempdir().expect("a directory");
    let mut known = Known { state: State::default(), seq: 0 };
    let mut rng = Rng::new(seed);
    let (mut acknowledged, mut beyond) = (0, 0);
    for kill in 0..KILLS {
        let acks = run_and_kill(dir.path(), &mut rng, kill);
        let (new, unsaid) = known.compare(dir.path(), &acks);
        acknowledged += new;
        beyond += unsaid;
    }
    assert!(acknowledged > KILLS, "the children did something");
    println!(
        "{KILLS} kills, {acknowledged} acknowledged batches, all there; {beyond} events stored but not yet told"
    );
}

/// What the parent has seen so far.
struct Known {
    state: State,
    seq: u64,
}

impl Known {
    /// Loads and compares; gives how many batches were acknowledged, and how many events are there beyond them.
    fn compare(&mut self, dir: &Path, acks: &[(u64, String)]) -> (u64, u64) {
        let mut store = Sqlite::open(dir).expect("the directory of a killed server opens");
        let loaded = store.load().expect("what a killed server left can be loaded");
        let last_ack = acks.last().map_or(self.seq, |(seq, _)| *seq);
        assert!(
            loaded.seq >= last_ack,
            "events {} to {last_ack} were acknowledged and are gone",
            loaded.seq + 1
        );
        let told = acks.len() as u64;
        let mut acks = acks.iter().peekable();
        for stored in store.events(self.seq, usize::MAX).expect("events since the last kill are there") {
            self.state.apply(stored.at, &stored.event);
            self.seq = stored.seq;
            if let Some((_, hash)) = acks.next_if(|(seq, _)| *seq == stored.seq) {
                assert_eq!(hash_of(&self.state), *hash, "the state at event {}", stored.seq);
            }
        }
        assert!(acks.next().is_none(), "every acknowledged batch was compared");
        assert_eq!(self.seq, loaded.seq);
        assert_eq!(self.state, loaded.state, "loading gives what applying the events gives");
        (told, loaded.seq - last_ack)
    }
}

fn run_and_kill(dir: &Path, rng: &mut Rng, kill: u64) -> Vec<(u64, String)> {
    let program = std::env::current_exe().expect("this program has a path");
    let mut child = Command::new(program)
        .env(CHILD, dir)
        .env(SEED, rng.word().to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program runs again");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    // Some are killed while they open the directory, most somewhere in their work.
    let wait_for = if kill % 5 == 4 { 0 } else { 1 + rng.index(120) };
    let mut acks = Vec::new();
    for line in lines.by_ref().take(wait_for) {
        acks.extend(parse(&line.expect("a line")));
    }
    std::thread::sleep(Duration::from_micros(rng.word() % 4000));
    child.kill().expect("it is killed");
    let status = child.wait().expect("it is gone");
    assert!(!status.success(), "it ended by itself");
    // What it said before it was killed counts.
    acks.extend(lines.map_while(Result::ok).filter_map(|line| parse(&line)));
    acks
}

/// A line may be cut short.
fn parse(line: &str) -> Option<(u64, String)> {
    let (seq, hash) = line.strip_suffix('.')?.split_once(' ')?;
    Some((seq.parse().ok()?, hash.to_owned()))
}

fn hash_of(state: &State) -> String {
    state.hash().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The server: loads, appends, stores snapshots, compacts what its parent has seen, until it is killed.
fn be_killed(dir: &Path, seed: u64) {
    let mut store = Sqlite::open(dir).expect("the directory opens");
    let loaded = store.load().expect("it loads");
    let mut script =
        if loaded.seq == 0 { Script::new(seed, 2) } else { Script::resume(loaded.state.clone(), seed) };
    let before = loaded.state.now;
    let mut rng = Rng::new(seed ^ 1);
    let mut out = std::io::stdout().lock();
    loop {
        let batch = script.turns(1 + rng.index(4));
        if batch.events.is_empty() {
            continue;
        }
        let seq = store.append(&batch).expect("it is stored");
        writeln!(out, "{seq} {}.", hash_of(script.state()))
            .and_then(|()| out.flush())
            .expect("the parent listens");
        match rng.below(30) {
            0 => store.snapshot(seq, &encode_state(script.state())).expect("the snapshot is stored"),
            1 => drop(store.compact(before).expect("it compacts")),
            _ => {}
        }
    }
}
