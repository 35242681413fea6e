//! What the journal costs: small batches with a sync each, large ones, starting again, and bytes per event.
//!
//! `cargo bench -p landfall-store` runs everything; `-- --short` a small part, so that it cannot rot; `-- --dir DIR`
//! measures the disk under that directory instead of the one for temporary files; `-- --events N` makes a shorter journal.
//!
//! Beside each figure stands that of a plain file on the same disk in the same run: the same bytes written and synced
//! (`fdatasync`), as often. That is the floor for anything durable.

#[path = "../tests/support/mod.rs"]
mod support;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use landfall_store::sqlite::Sqlite;
use landfall_store::{Batch, Reader as _, Store as _, decode_state, encode_state};
use support::Script;

struct Plan {
    nodes: usize,
    small: usize,
    large: usize,
    events: usize,
}

const FULL: Plan = Plan { nodes: 200, small: 2000, large: 50_000, events: 1_000_000 };
const SHORT: Plan = Plan { nodes: 5, small: 100, large: 1000, events: 4000 };

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mut plan = if args.iter().any(|arg| arg == "--short") { SHORT } else { FULL };
    let events = args.iter().position(|arg| arg == "--events").and_then(|at| args.get(at + 1));
    plan.events = events.and_then(|events| events.parse().ok()).unwrap_or(plan.events);
    let base = args.iter().position(|arg| arg == "--dir").and_then(|at| args.get(at + 1));
    let dir = match base {
        Some(base) => tempfile::tempdir_in(base),
        None => tempfile::tempdir(),
    };
    let dir = dir.expect("a directory to write to");
    let mut script = Script::new(2026, plan.nodes);
    script.turns(plan.nodes * 4);

    println!("one step of the engine per batch, one sync each; {} batches", plan.small);
    println!("{:<22} {:>10} {:>10} {:>10} {:>12}", "", "batches /s", "median us", "p99 us", "bytes /batch");
    small(&plan, &mut script, dir.path());

    println!("\nlarge batches: {} events each, {} in all", plan.large, plan.events);
    println!("{:<22} {:>12} {:>10} {:>12}", "", "events /s", "MB /s", "bytes /event");
    let data = dir.path().join("large");
    let mut script = Script::new(2027, plan.nodes);
    large(&plan, &mut script, &data);

    println!("\nstarting again with {} events", plan.events);
    println!("{:<22} {:>10} {:>12} {:>10}", "", "seconds", "events /s", "MB");
    start(&script, &data, plan.large / 5);
}

fn small(plan: &Plan, script: &mut Script, dir: &Path) {
    let batches: Vec<Batch> =
        (0..).map(|_| script.turn()).filter(|batch| !batch.is_empty()).take(plan.small).collect();
    let mut store = Sqlite::open(&dir.join("small")).expect("it opens");
    let mut file = File::create(dir.join("raw")).expect("a file");
    let row = vec![0x5a; 350];
    // In turns, so that whatever else the machine does falls on both.
    let (mut journal, mut plain) = (Vec::new(), Vec::new());
    for batch in &batches {
        let begin = Instant::now();
        store.append(batch).expect("it is stored");
        journal.push(begin.elapsed());
        let begin = Instant::now();
        file.write_all(&row).and_then(|()| file.sync_data()).expect("it is written");
        plain.push(begin.elapsed());
    }
    let bytes = journal_bytes(&dir.join("small")) / batches.len() as u64;
    print_small("journal", journal, bytes);
    print_small("plain file, fdatasync", plain, row.len() as u64);
}

fn print_small(name: &str, mut times: Vec<Duration>, bytes: u64) {
    let rate = times.len() as f64 / times.iter().sum::<Duration>().as_secs_f64();
    times.sort_unstable();
    let us = |at: usize| times[at.min(times.len() - 1)].as_secs_f64() * 1e6;
    let (median, p99) = (us(times.len() / 2), us(times.len() * 99 / 100));
    println!("{name:<22} {rate:>10.0} {median:>10.0} {p99:>10.0} {bytes:>12}");
}

fn large(plan: &Plan, script: &mut Script, data: &Path) {
    let mut store = Sqlite::open(data).expect("it opens");
    let (mut took, mut events) = (Duration::ZERO, 0);
    while events < plan.events {
        // Made apart from what is measured, a piece at a time: a million events take a gigabyte.
        let mut batch = script.turn();
        while batch.events.len() < plan.large.min(plan.events - events) {
            let more = script.turn();
            batch.events.extend(more.events);
        }
        batch.changes.clear();
        (batch.at, batch.epoch) = (script.state().now, script.state().epoch);
        events += batch.events.len();
        let begin = Instant::now();
        store.append(&batch).expect("it is stored");
        took += begin.elapsed();
    }
    let bytes = journal_bytes(data);
    print_large("journal", events, bytes, took);

    let mut file = File::create(data.join("raw")).expect("a file");
    let batches = plan.events.div_ceil(plan.large).max(1);
    let row = vec![0x5a; bytes as usize / batches];
    let begin = Instant::now();
    for _ in 0..batches {
        file.write_all(&row).and_then(|()| file.sync_data()).expect("it is written");
    }
    print_large("plain file, fdatasync", events, bytes, begin.elapsed());
}

fn print_large(name: &str, events: usize, bytes: u64, took: Duration) {
    let secs = took.as_secs_f64();
    let (rate, mb) = (events as f64 / secs, bytes as f64 / 1e6 / secs);
    println!("{name:<22} {rate:>12.0} {mb:>10.1} {:>12.0}", bytes as f64 / events as f64);
}

/// Loads with and without a snapshot, and with one that is `tail` steps behind.
fn start(script: &Script, data: &Path, tail: usize) {
    let timed = |name: &str| {
        let mut store = Sqlite::open(data).expect("it opens");
        let begin = Instant::now();
        let loaded = store.load().expect("it loads");
        let secs = begin.elapsed().as_secs_f64();
        let mb = store.size_bytes().expect("a size") as f64 / 1e6;
        println!("{name:<22} {secs:>10.2} {:>12.0} {mb:>10.1}", loaded.replayed as f64 / secs);
        (store, loaded)
    };
    let (mut store, loaded) = timed("all events");
    assert!(loaded.state == *script.state(), "what is loaded is what was stored");
    let begin = Instant::now();
    let bytes = encode_state(script.state());
    let encoding = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    store.snapshot(loaded.seq, &bytes).expect("it is stored");
    let storing = begin.elapsed().as_secs_f64();
    drop(store);
    let (mut store, loaded) = timed("a snapshot of all");
    let mut script = Script::resume(loaded.state, 2028);
    store.append(&script.turns(tail)).expect("it is stored");
    drop(store);
    timed("a snapshot and a tail");
    let begin = Instant::now();
    decode_state(&bytes).expect("it is read");
    let decoding = begin.elapsed().as_secs_f64();
    println!(
        "the snapshot: {} jobs, {:.1} MB; encoding {encoding:.2} s, storing {storing:.2} s, decoding {decoding:.2} s",
        script.state().jobs.len(),
        bytes.len() as f64 / 1e6
    );
}

/// Bytes of the rows of the journal alone.
fn journal_bytes(data: &Path) -> u64 {
    let conn = rusqlite::Connection::open(data.join("journal.db")).expect("the database opens");
    conn.query_row("SELECT sum(length(events)) FROM journal", [], |row| row.get(0)).expect("it answers")
}
