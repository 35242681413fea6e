//! Decisions per second of the indexes and of the plain scorer, in one run.
//!
//! `cargo bench` runs everything; `-- --short` a small part, so that it cannot rot; `-- --policy NAME` one policy,
//! `-- --size N` one size. The steady state is: a job arrives, the best node is found, the job is placed, and as many jobs end as begin. Now and then
//! the plain scorer answers the same question, and both answers must be equal. Times are medians over batches; the
//! machine is noisy, so only ratios within one run mean something.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod fleet;

use std::time::{Duration, Instant};

use fleet::{Fleet, Rng, queue};
use landfall_model::{JobId, Millis, Placement};
use landfall_policy::index::{JobIndex, NodeIndex};
use landfall_policy::rules::snapshot::Backlog;
use landfall_policy::view::Pass;
use landfall_policy::{Policy, builtin};

const SEED: u64 = 2026;
const CLASSES: usize = 40;
const PUSH: [&str; 12] = [
    "fit",
    "bin-pack",
    "fgd",
    "first-fit",
    "best-fit",
    "dot-product",
    "gpu-packing",
    "gpu-clustering",
    "random",
    "offer-standard",
    "offer-locality",
    "offer-scope",
];
const PULL: [&str; 4] = ["simple", "resource-aware", "balanced", "hpc-batch"];

struct Plan {
    node_counts: &'static [usize],
    job_counts: &'static [usize],
    batches: usize,
    batch: usize,
    /// Rough number of pairs that the plain scorer may judge per row.
    plain_pairs: usize,
}

const FULL: Plan = Plan {
    node_counts: &[1_000, 10_000, 100_000],
    job_counts: &[1_000, 10_000, 100_000, 1_000_000],
    batches: 9,
    batch: 2_000,
    plain_pairs: 1_000_000,
};
const SHORT: Plan =
    Plan { node_counts: &[200], job_counts: &[500], batches: 3, batch: 50, plain_pairs: 4_000 };

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let short = args.iter().any(|arg| arg == "--short");
    let only = args.iter().position(|arg| arg == "--policy").and_then(|at| args.get(at + 1));
    let plan = if short { SHORT } else { FULL };
    let size = args.iter().position(|arg| arg == "--size").and_then(|at| args.get(at + 1)?.parse().ok());
    let sized = |counts: &[usize]| size.map_or_else(|| counts.to_vec(), |size| vec![size]);
    let chosen = |name: &&&str| only.is_none_or(|only| only == **name);
    println!(
        "seed {SEED}, {CLASSES} classes of jobs; times per decision, median of {} batches",
        plan.batches
    );

    println!("\nnodes for a job (push), steady state");
    println!(
        "{:<16} {:>9} {:>13} {:>13} {:>8} {:>9} {:>12}",
        "policy", "nodes", "fast /s", "plain /s", "ratio", "growth", "fast us"
    );
    for name in PUSH.iter().filter(chosen) {
        let policy = load(name);
        let mut last = None;
        for nodes in sized(plan.node_counts) {
            let (fast, plain) = push(&policy, nodes, &plan);
            row(name, nodes, fast, plain, last);
            last = Some(fast);
        }
    }
    println!("\njobs for a node (pull), steady state");
    println!(
        "{:<16} {:>9} {:>13} {:>13} {:>8} {:>9} {:>12}",
        "policy", "jobs", "fast /s", "plain /s", "ratio", "growth", "fast us"
    );
    for name in PULL.iter().filter(chosen).filter(|name| builtin::text(name).is_some()) {
        let policy = load(name);
        let mut last = None;
        for jobs in sized(plan.job_counts) {
            let (fast, plain) = pull(&policy, jobs, &plan);
            row(name, jobs, fast, plain, last);
            last = Some(fast);
        }
    }
}

fn load(name: &str) -> Policy {
    builtin::policy(name).expect("a built-in").expect("built-ins are sound")
}

fn row(name: &str, size: usize, fast: Duration, plain: Duration, last: Option<Duration>) {
    let per_second = |time: Duration| 1.0 / time.as_secs_f64();
    let growth = last.map_or(String::new(), |last| format!("{:.2}", fast.as_secs_f64() / last.as_secs_f64()));
    println!(
        "{name:<16} {size:>9} {:>13.0} {:>13.1} {:>8.0} {growth:>9} {:>12.2}",
        per_second(fast),
        per_second(plain),
        plain.as_secs_f64() / fast.as_secs_f64(),
        fast.as_secs_f64() * 1e6
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Virtual time from one arrival to the next: about four jobs of an hour on each node begin and end as the fleet is large.
fn between_decisions(nodes: usize) -> Millis {
    Millis::new(900_000 / nodes as u64)
}

/// Time per decision of the node index and of the plain scorer.
fn push(policy: &Policy, nodes: usize, plan: &Plan) -> (Duration, Duration) {
    let mut fleet = Fleet::new(SEED, nodes, CLASSES);
    let mut rng = Rng(SEED);
    let mut index = NodeIndex::new(nodes);
    // What the fleet runs at the start may end, too.
    let mut running: Vec<(usize, JobId)> = Vec::new();
    for (slot, node) in fleet.nodes.iter_mut().enumerate() {
        // What happens once, soon after the start, is no steady state.
        (node.heartbeat_at, node.cooldown_until) = (None, None);
        running.extend(node.placements.iter().map(|placement| (slot, placement.job.clone())));
    }
    let mut number = 0;
    // Every class is asked once before the clock runs: a scheduler builds its indexes when it starts.
    for class in 0..CLASSES {
        let mut job = fleet.job(&mut rng, number);
        job.spec = fleet.specs[class].clone();
        let pass = Pass::of_parts(fleet.now, &fleet.world, &fleet.nodes, Backlog::default());
        index.best(policy, &pass, &fleet.tie_ranks, &job);
        number += 1;
    }
    let plain_each = (plan.plain_pairs / nodes / plan.batches).clamp(1, plan.batch);
    let (mut fast_times, mut plain_times) = (Vec::new(), Vec::new());
    for _ in 0..plan.batches {
        let mut fast = Duration::ZERO;
        let mut plain = Duration::ZERO;
        for step in 0..plan.batch {
            let job = fleet.job(&mut rng, number);
            number += 1;
            let start = Instant::now();
            let pass = Pass::of_parts(fleet.now, &fleet.world, &fleet.nodes, Backlog::default());
            let best = index.best(policy, &pass, &fleet.tie_ranks, &job);
            fast += start.elapsed();
            if step < plain_each {
                let start = Instant::now();
                let pass = Pass::of_parts(fleet.now, &fleet.world, &fleet.nodes, Backlog::default());
                let same = policy.best_node(&pass, &fleet.tie_ranks, &job);
                plain += start.elapsed();
                assert_eq!(best, same, "policy {} step {number}", policy.name());
            }
            let start = Instant::now();
            if let Some(best) = best {
                let placement = Placement::of(job.id.clone(), &job.spec, &best.verdict.gpus);
                if fleet.nodes[best.slot].place(placement).is_ok() {
                    index.load_changed(best.slot);
                    running.push((best.slot, job.id));
                }
            }
            if !running.is_empty() {
                let (slot, id) = running.swap_remove(rng.below(running.len()));
                fleet.nodes[slot].remove(&id);
                index.load_changed(slot);
            }
            fast += start.elapsed();
            fleet.now = fleet.now + between_decisions(nodes);
        }
        fast_times.push(fast / plan.batch as u32);
        plain_times.push(plain / plain_each as u32);
    }
    (median(fast_times), median(plain_times))
}

/// Time per decision of the job index and of the plain scorer.
fn pull(policy: &Policy, count: usize, plan: &Plan) -> (Duration, Duration) {
    let mut fleet = Fleet::new(SEED, 32, CLASSES);
    let mut jobs = queue(&mut fleet, SEED, count);
    jobs.sort_by(|a, b| a.id.cmp(&b.id));
    let mut rng = Rng(SEED);
    let mut index = JobIndex::new(policy);
    for job in &jobs {
        index.insert(job.clone(), &fleet.world);
    }
    let batch = plan.batch / 10;
    let plain_each = (plan.plain_pairs / count / plan.batches).clamp(1, batch);
    let (mut fast_times, mut plain_times) = (Vec::new(), Vec::new());
    for _ in 0..plan.batches {
        let mut fast = Duration::ZERO;
        let mut plain = Duration::ZERO;
        for step in 0..batch {
            let node = &fleet.nodes[rng.below(fleet.nodes.len())];
            let start = Instant::now();
            let best = index.best(policy, fleet.now, &fleet.world, &fleet.nodes, node);
            fast += start.elapsed();
            if step < plain_each {
                let start = Instant::now();
                let pass = Pass::of_parts(fleet.now, &fleet.world, &fleet.nodes, Backlog::of(&jobs));
                let same = policy.best_job(&pass, &jobs, node);
                plain += start.elapsed();
                let ids = (best.as_ref().map(|b| &b.job), same.as_ref().map(|s| &jobs[s.slot].id));
                assert_eq!(ids.0, ids.1, "policy {}", policy.name());
            }
            // The job leaves and one like it comes back, so that the queue stays as long as it is.
            if let Some(best) = best {
                let start = Instant::now();
                let job = index.remove(&best.job);
                if let Some(job) = job {
                    index.insert(job, &fleet.world);
                }
                fast += start.elapsed();
            }
            fleet.now = fleet.now + Millis::new(20);
        }
        fast_times.push(fast / batch as u32);
        plain_times.push(plain / plain_each as u32);
    }
    (median(fast_times), median(plain_times))
}
