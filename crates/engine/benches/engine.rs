//! Steps per second of the engine in a steady state, one cycle of a large batch pool, and memory per waiting job.
//!
//! `cargo bench -p landfall-engine` runs everything; `-- --short` a small part, so that it cannot rot; `-- --mode NAME`
//! one way to dispatch, or `array` for arrays alone.
//!
//! The steady state is a full pool with a long queue: a running job ends, its place is given to a waiting one, the node
//! says that it runs, and a new job is submitted. Every input counts as one step. Journal events are counted beside.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock and its own memory")]

mod cluster;
mod peers;

use std::time::{Duration, Instant};

use cluster::{Cluster, Mode, cpu_time};
use peers::Peers;

struct Plan {
    nodes: usize,
    waiting: usize,
    steps: usize,
    batches: usize,
    memory: usize,
}

const FULL: Plan = Plan { nodes: 10_000, waiting: 100_000, steps: 20_000, batches: 5, memory: 1_000_000 };
const SHORT: Plan = Plan { nodes: 100, waiting: 1_000, steps: 500, batches: 2, memory: 10_000 };

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let plan = if args.iter().any(|arg| arg == "--short") { SHORT } else { FULL };
    if let Some(at) = args.iter().position(|arg| arg == "--memory") {
        return print_memory(args.get(at + 1), args.get(at + 2));
    }
    let only = args.iter().position(|arg| arg == "--mode").and_then(|at| args.get(at + 1));
    let modes: Vec<Mode> =
        Mode::ALL.into_iter().filter(|mode| only.is_none_or(|only| only == mode.name())).collect();

    println!(
        "steady state: {} nodes, {} waiting jobs; median of {} batches",
        plan.nodes, plan.waiting, plan.batches
    );
    println!(
        "{:<8} {:>11} {:>11} {:>9} {:>9} {:>9}",
        "mode", "steps /s", "events /s", "us /step", "CPU us", "fill s"
    );
    let cycles_only = args.iter().any(|arg| arg == "--cycles");
    for mode in modes.iter().filter(|_| !cycles_only) {
        steady(*mode, &plan);
    }
    if modes.contains(&Mode::Batch) {
        println!("\na first batch cycle; then with the answers of all nodes that start something");
        println!(
            "{:<9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "waiting", "nodes", "free", "started", "reserved", "ms", "with all"
        );
        for waiting in [plan.nodes / 10, plan.nodes] {
            cycle(plan.nodes, waiting);
        }
        println!("\nbatch cycles of a full pool, each after one job ended and one came");
        println!(
            "{:<9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "waiting", "cycles", "median ms", "p99 ms", "most ms", "p99 CPU", "most CPU"
        );
        for waiting in [plan.waiting / 10, plan.waiting] {
            changes(plan.nodes, waiting, plan.steps / 20);
        }
    }
    if only.is_none_or(|only| only == "negotiate") {
        println!("\nnegotiation: {} peers, each job announced to all", plan.nodes);
        println!("{:<9} {:>11} {:>9} {:>9} {:>9}", "jobs", "steps /s", "us /step", "offers", "jobs /s");
        negotiate(&plan);
    }
    if only.is_none_or(|only| only == "array") {
        println!("\none array: submitted, placed, started, ended and forgotten, element by element");
        println!(
            "{:<8} {:>9} {:>9} {:>12} {:>12} {:>12}",
            "mode", "nodes", "queued", "elements /s", "submit ms", "snapshot B"
        );
        for mode in [Mode::Push, Mode::Batch] {
            elements(mode, 100, plan.memory as u32, plan.steps);
            elements(mode, plan.nodes / 10, plan.memory as u32, plan.steps);
        }
        memory("array", plan.memory);
    }
    println!("\nmemory of waiting jobs");
    println!("{:<8} {:>9} {:>12} {:>12}", "mode", "jobs", "MiB", "bytes /job");
    for mode in &modes {
        memory(mode.name(), plan.memory);
    }
}

fn elements(mode: Mode, nodes: usize, queued: u32, runs: usize) {
    let mut cluster = Cluster::new(mode, nodes);
    let before = cluster.snapshot_bytes();
    let begin = Instant::now();
    cluster.array(queued);
    let submit = begin.elapsed().as_secs_f64() * 1e3;
    let snapshot = cluster.snapshot_bytes() - before;
    cluster.run_elements(runs / 10);
    let begin = Instant::now();
    let ended = cluster.run_elements(runs);
    let rate = ended as f64 / begin.elapsed().as_secs_f64();
    println!("{:<8} {nodes:>9} {queued:>9} {rate:>12.0} {submit:>12.1} {snapshot:>12}", mode.name());
}

fn steady(mode: Mode, plan: &Plan) {
    let begin = Instant::now();
    let mut cluster = Cluster::new(mode, plan.nodes);
    cluster.fill();
    cluster.queue(plan.waiting);
    if mode == Mode::Pull {
        cluster.let_rounds_pass();
    }
    let fill = begin.elapsed();
    // Cycles over the whole queue make the steps of a batch pool dearer, so fewer of them do.
    let steps_per_batch = if mode == Mode::Batch { plan.steps / 5 } else { plan.steps };
    cluster.turn_over(steps_per_batch / 4);
    let mut batches: Vec<(f64, f64, f64)> = (0..plan.batches)
        .map(|_| {
            let (steps, events) = (cluster.steps, cluster.events);
            let (begin, cpu) = (Instant::now(), cpu_time());
            cluster.turn_over(steps_per_batch);
            let (took, cpu) = (begin.elapsed().as_secs_f64(), (cpu_time() - cpu).as_secs_f64());
            let (steps, events) = ((cluster.steps - steps) as f64, (cluster.events - events) as f64);
            (steps / took, events / took, 1e6 * cpu / steps)
        })
        .collect();
    let middle = batches.len() / 2;
    batches.sort_by(|a, b| a.2.total_cmp(&b.2));
    let cpu = batches[middle].2;
    batches.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (steps, events, _) = batches[middle];
    let (name, fill) = (mode.name(), fill.as_secs_f64());
    println!("{name:<8} {steps:>11.0} {events:>11.0} {:>9.2} {cpu:>9.2} {fill:>9.1}", 1e6 / steps);
}

fn negotiate(plan: &Plan) {
    let mut peers = Peers::new(plan.nodes);
    peers.place(2);
    let jobs = (plan.steps / 2000).max(2);
    let (steps, offers) = (peers.steps, peers.offers);
    let begin = Instant::now();
    peers.place(jobs);
    let took = begin.elapsed().as_secs_f64();
    assert!(peers.placed >= jobs as u64, "every job was placed");
    let (steps, offers) = ((peers.steps - steps) as f64 / took, peers.offers - offers);
    println!("{jobs:<9} {steps:>11.0} {:>9.2} {offers:>9} {:>9.1}", 1e6 / steps, jobs as f64 / took);
}

fn cycle(nodes: usize, waiting: usize) {
    let mut cluster = Cluster::new(Mode::Batch, nodes);
    cluster.fill();
    cluster.queue(waiting);
    cluster.free_some(nodes / 10);
    let free = cluster.free_nodes();
    let running = cluster.running();
    let begin = Instant::now();
    cluster.cycle();
    let took: Duration = begin.elapsed();
    let (started, reserved) = (cluster.running() - running, cluster.reserved());
    let (alone, all) = (cluster.last.as_secs_f64() * 1e3, took.as_secs_f64() * 1e3);
    println!("{waiting:<9} {nodes:>9} {free:>9} {started:>9} {reserved:>9} {alone:>9.1} {all:>9.1}");
}

fn changes(nodes: usize, waiting: usize, cycles: usize) {
    let mut cluster = Cluster::new(Mode::Batch, nodes);
    cluster.fill();
    cluster.queue(waiting);
    cluster.cycle();
    let (mut took, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..cycles {
        cluster.cycle_after_a_change();
        took.push(cluster.last.as_secs_f64() * 1e3);
        cpu.push(cluster.last_cpu.as_secs_f64() * 1e3);
    }
    let at = |times: &mut Vec<f64>, percent: usize| {
        times.sort_by(f64::total_cmp);
        times[(times.len() * percent).div_ceil(100).max(1) - 1]
    };
    println!(
        "{waiting:<9} {cycles:>9} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2}",
        at(&mut took, 50),
        at(&mut took, 99),
        at(&mut took, 100),
        at(&mut cpu, 99),
        at(&mut cpu, 100)
    );
}

/// Memory is measured in a process of its own, where nothing was freed before that could be used again.
fn memory(mode: &str, jobs: usize) {
    let program = std::env::current_exe().expect("this program has a path");
    let mut child = std::process::Command::new(program);
    let output = child.args(["--memory", mode, &jobs.to_string()]).output().expect("this program runs again");
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

fn print_memory(mode: Option<&String>, jobs: Option<&String>) {
    if let (Some("array"), Some(jobs)) =
        (mode.map(String::as_str), jobs.and_then(|jobs| jobs.parse::<u32>().ok()))
    {
        let mut cluster = Cluster::new(Mode::Push, 10);
        cluster.fill();
        cluster.queue(1000);
        let before = resident();
        cluster.array(jobs);
        return print_bytes("array", jobs as usize, resident().saturating_sub(before));
    }
    let mode = Mode::ALL.into_iter().find(|known| Some(known.name()) == mode.map(String::as_str));
    let (Some(mode), Some(jobs)) = (mode, jobs.and_then(|jobs| jobs.parse::<usize>().ok())) else { return };
    let mut cluster = Cluster::new(mode, 10);
    cluster.fill();
    cluster.queue(1000);
    let before = resident();
    cluster.queue(jobs);
    print_bytes(mode.name(), jobs, resident().saturating_sub(before));
}

fn print_bytes(name: &str, jobs: usize, bytes: u64) {
    println!(
        "{name:<8} {jobs:>9} {:>12.1} {:>12.1}",
        bytes as f64 / (1 << 20) as f64,
        bytes as f64 / jobs as f64
    );
}

/// Memory of this process, in bytes; 0 where the system does not say.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4096
}
