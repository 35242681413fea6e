//! A storm: faults of all kinds under load, drawn from a seed, with the real binary.
//!
//! ```text
//! clients (HTTP, command line) ──► server ◄── line ◄── agent ── keeper ── jobs
//!     │ keys, acknowledged,          │ small disk,                          │ a line where they begin
//!     ▼ seen                         │ clock of a file                      ▼ and where they end
//!    book ─────────────────────► checker ◄──────────────────────────────  runs
//! ```
//!
//! The storm draws a fault, does it, and undoes it when its time has come; several last at once. Then everything is healed,
//! everything has to come to an end, and the checker compares the three accounts: what clients were told, what the server says,
//! what jobs wrote themselves. The seed fixes what is drawn, not how threads and processes interleave.
//!
//! The ordinary tests have a short storm. A long one: `cargo xtask storm --faults 200 --seed 1`.

mod checker;
mod faults;
mod line;
mod load;
mod world;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use landfall_testkit::Rng;
use serde_json::Value;

use checker::Evidence;
use faults::Storm;
pub(crate) use line::{Line, Weather};
use load::{Load, is_final};
use world::{World, now};

/// How long everything may take to come to an end after the last fault.
const HEALS_WITHIN: Duration = Duration::from_secs(300);

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn whatever_goes_wrong_nothing_acknowledged_is_lost_and_nothing_runs_more_often_than_promised() {
    let (faults, seed) = (number("LANDFALL_FAULTS", 10) as usize, number("LANDFALL_SEED", 13));
    println!("LANDFALL_SEED={seed} LANDFALL_FAULTS={faults}");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut world = World::new(&runtime);
    world.watch();
    let load = Load::new(&world);
    let seen = Arc::<Mutex<BTreeMap<String, Vec<f64>>>>::default();
    let looking = runtime.spawn(look(load.clone(), Arc::clone(&seen)));
    for node in ["n1", "n2", "n3", "n4", "n5"] {
        world.stand.until(&format!("{node} is there"), || seen.lock().unwrap().contains_key(node));
    }
    let clients = {
        let _in = runtime.enter();
        load.begin(&world, seed)
    };
    let book = Arc::clone(&load.book);
    let (lasting, happened) = Default::default();
    let mut storm = Storm { world: &mut world, book: &book, random: Rng::new(seed), happened, lasting };
    let began = Instant::now();
    while storm.happened.len() < faults {
        let pause = storm.random.within(100, 2500);
        let next = Instant::now() + Duration::from_millis(pause);
        while Instant::now() < next {
            storm.heal(false);
            storm.world.watch();
            std::thread::sleep(Duration::from_millis(50));
        }
        storm.one_more();
    }
    storm.heal(true);
    let happened = std::mem::take(&mut storm.happened);
    println!("healed after {:?}", began.elapsed());
    load.end();
    let known = settle(&mut world, &runtime, &load, clients);
    looking.abort();

    let seen = seen.lock().unwrap().clone();
    let evidence = Evidence { world: &world, load: &load, happened: &happened, seen: &seen, known: &known };
    let mut found = evidence.judge();
    let logs = runtime.block_on(evidence.judge_logs(&mut found));
    println!("{}", found.table(&happened));
    let count = |of: &std::sync::atomic::AtomicUsize| of.load(std::sync::atomic::Ordering::Relaxed);
    println!(
        "{} s; {} submissions sent again under their key; {} forgotten by restores; {} jobs ran again by the rules, {} that run \
         once failed by the rules; {logs} logs read",
        began.elapsed().as_secs(),
        count(&book.repeated),
        count(&book.forgotten),
        found.again,
        found.gave_up
    );
    verify(&mut world);
    let wrong = found.wrong.join("\n");
    if !wrong.is_empty() || !found.lost.is_empty() {
        keep_for_people(&world);
    }
    assert!(wrong.is_empty() && found.lost.is_empty(), "seed {seed}: lost {:?}\n{wrong}", found.lost);
    assert!(known.len() > faults, "there was hardly any load: {} jobs", known.len());
}

/// Waits until all clients have gone home and all jobs have ended, and gives the jobs.
fn settle(
    world: &mut World,
    runtime: &tokio::runtime::Runtime,
    load: &Load,
    clients: Vec<tokio::task::JoinHandle<()>>,
) -> Vec<Value> {
    let (healed, mut last) = (Instant::now(), Vec::new());
    while healed.elapsed() < HEALS_WITHIN {
        world.watch();
        std::thread::sleep(Duration::from_millis(200));
        if !clients.iter().all(tokio::task::JoinHandle::is_finished) {
            continue;
        }
        let Some(known) = runtime.block_on(load.all()) else { continue };
        runtime.block_on(load.submit_forgotten(&known));
        let is_over = known.iter().all(|job| is_final(job["state"].as_str().unwrap_or_default()));
        let before = std::mem::replace(&mut last, known).len();
        // Once more, for what was submitted again.
        if is_over && before == last.len() {
            println!("at rest {:?} after the last fault was healed", healed.elapsed());
            return last;
        }
    }
    load.book.is_wrong("it does not come to rest".to_owned());
    last
}

/// Notes when each node is seen in touch.
async fn look(load: Load, seen: Arc<Mutex<BTreeMap<String, Vec<f64>>>>) {
    loop {
        let nodes = load.client.get::<Value>("/nodes").await.unwrap_or_default();
        for node in nodes["items"].as_array().into_iter().flatten() {
            if node["state"] == "ready" && node["connected"] == true {
                let name = node["id"].as_str().unwrap_or_default().to_owned();
                seen.lock().unwrap().entry(name).or_default().push(now());
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The journal is whole, and its events give the state that the server had.
fn verify(world: &mut World) {
    world.server.kill();
    let data = world.data();
    let data = data.to_str().unwrap();
    let said = world.command(&["check", data]);
    assert_eq!(said.code, 0, "{} {}", said.out, said.err);
    world.command(&["replay", "--journal", data, "--verify"]).ok();
}

/// Leaves what processes and jobs wrote where people can look at it.
fn keep_for_people(world: &World) {
    let to = std::env::temp_dir().join(format!("landfall-storm-{}", std::process::id()));
    let copied = std::process::Command::new("cp").arg("-r").arg(world.stand.dir.path()).arg(&to).status();
    eprintln!("everything is kept in {} ({copied:?})", to.display());
}
