//! Decisions per second of the indexes and of the plain scorer, in one run.
//!
//! `cargo bench` runs everything; `-- --short` a small part, so that it cannot rot; `-- --policy NAME` one policy,
//! `-- --size N` one size.
//!
//! The steady state is: a job arrives, the best node is found, the job is placed, and as many jobs end as begin. After each
//! batch the plain scorer answers some more questions, and both answers must be equal. Times are medians over batches; the
//! machine is noisy, so only ratios within one run mean something.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod fleet;

use std::time::{Duration, Instant};

use fleet::{Fleet, queue, report};
use landfall_model::{Job, JobId, Millis, Placement};
use landfall_policy::index::{JobIndex, NodeIndex};
use landfall_policy::rules::snapshot::Backlog;
use landfall_policy::view::Pass;
use landfall_policy::{Best, Policy, builtin};
use landfall_testkit::Rng;

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
    batch: 8_000,
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
    header("nodes");
    for name in PUSH.iter().filter(chosen) {
        let policy = load(name);
        let mut last = None;
        for nodes in sized(plan.node_counts) {
            let times = push(&policy, nodes, &plan);
            row(name, nodes, &times, last);
            last = Some(times.fast);
        }
    }
    println!("\njobs for a node (pull), steady state");
    header("jobs");
    for name in PULL.iter().filter(chosen).filter(|name| builtin::text(name).is_some()) {
        let policy = load(name);
        let mut last = None;
        for jobs in sized(plan.job_counts) {
            let times = pull(&policy, jobs, &plan);
            row(name, jobs, &times, last);
            last = Some(times.fast);
        }
    }
}

fn load(name: &str) -> Policy {
    builtin::policy(name).expect("a built-in").expect("built-ins are sound")
}

struct Times {
    /// The index: finding the best, and being told what changed.
    fast: Duration,
    /// The plain scorer: finding the best.
    plain: Duration,
    /// Changing nodes or queue, whoever decides.
    apply: Duration,
}

fn header(of: &str) {
    println!(
        "{:<16} {of:>9} {:>11} {:>11} {:>7} {:>7} {:>9} {:>9}",
        "policy", "fast /s", "plain /s", "ratio", "growth", "fast us", "apply us"
    );
}

fn row(name: &str, size: usize, times: &Times, last: Option<Duration>) {
    let (fast, plain) = (times.fast.as_secs_f64(), times.plain.as_secs_f64());
    let growth = last.map_or(String::new(), |last| format!("{:.2}", fast / last.as_secs_f64()));
    println!(
        "{name:<16} {size:>9} {:>11.0} {:>11.1} {:>7.0} {growth:>7} {:>9.2} {:>9.2}",
        1.0 / fast,
        1.0 / plain,
        plain / fast,
        fast * 1e6,
        times.apply.as_secs_f64() * 1e6
    );
}

/// Times of several batches.
#[derive(Default)]
struct Batches([Vec<Duration>; 3]);

impl Batches {
    fn push(&mut self, fast: Duration, plain: Duration, apply: Duration) {
        for (times, time) in self.0.iter_mut().zip([fast, plain, apply]) {
            times.push(time);
        }
    }

    fn median(self) -> Times {
        let [fast, plain, apply] = self.0.map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2]
        });
        Times { fast, plain, apply }
    }
}

/// Virtual time from one arrival to the next: about four jobs of an hour on each node begin and end as the fleet is large.
fn between_decisions(nodes: usize) -> Millis {
    Millis::new(900_000 / nodes as u64)
}

/// A fleet in a steady state: jobs arrive, are placed, and as many end.
struct Steady<'p> {
    policy: &'p Policy,
    fleet: Fleet,
    rng: Rng,
    index: NodeIndex,
    running: Vec<(usize, JobId)>,
    arrived: usize,
}

impl<'p> Steady<'p> {
    fn new(policy: &'p Policy, nodes: usize) -> Self {
        let mut fleet = Fleet::new(SEED, nodes, CLASSES);
        let mut running = Vec::new();
        for (slot, node) in fleet.nodes.iter_mut().enumerate() {
            // What happens once, soon after the start, is no steady state.
            (node.heartbeat_at, node.cooldown_until) = (None, None);
            // What the fleet runs at the start may end, too.
            running.extend(node.placements.iter().map(|placement| (slot, placement.job.clone())));
        }
        let mut steady =
            Self { policy, fleet, rng: Rng::new(SEED), index: NodeIndex::new(nodes), running, arrived: 0 };
        // Every class is asked once before the clock runs: a scheduler builds its indexes when it starts.
        for class in 0..CLASSES {
            let mut job = steady.job();
            job.spec = steady.fleet.specs[class].clone();
            steady.fast(&job);
        }
        steady
    }

    fn job(&mut self) -> Job {
        self.arrived += 1;
        self.fleet.job(&mut self.rng, self.arrived)
    }

    fn fast(&mut self, job: &Job) -> Option<Best> {
        let Fleet { now, world, nodes, tie_ranks, .. } = &self.fleet;
        let pass = Pass::of_parts(*now, world, nodes, Backlog::default());
        self.index.best(self.policy, &pass, tie_ranks, job)
    }

    fn plain(&self, job: &Job) -> Option<Best> {
        let Fleet { now, world, nodes, tie_ranks, .. } = &self.fleet;
        let pass = Pass::of_parts(*now, world, nodes, Backlog::default());
        self.policy.best_node(&pass, tie_ranks, job)
    }

    /// One arrival; times of deciding and of applying.
    fn step(&mut self) -> (Duration, Duration) {
        let job = self.job();
        let start = Instant::now();
        let best = self.fast(&job);
        let mut fast = start.elapsed();
        // Changing the node is the ledger's work, the same for both; telling the index is the index's.
        let start = Instant::now();
        let mut changed = [None; 2];
        if let Some(best) = best {
            let placement = Placement::of(job.id.clone(), &job.spec, &best.verdict.gpus);
            if self.fleet.nodes[best.slot].place(placement).is_ok() {
                changed[0] = Some(best.slot);
                self.running.push((best.slot, job.id));
            }
        }
        if !self.running.is_empty() {
            let (slot, id) = self.running.swap_remove(self.rng.index(self.running.len()));
            self.fleet.nodes[slot].remove(&id);
            changed[1] = Some(slot);
        }
        let apply = start.elapsed();
        let start = Instant::now();
        changed.into_iter().flatten().for_each(|slot| self.index.load_changed(slot));
        fast += start.elapsed();
        self.fleet.now = self.fleet.now + between_decisions(self.fleet.nodes.len());
        (fast, apply)
    }
}

/// Time per decision of the node index and of the plain scorer.
fn push(policy: &Policy, nodes: usize, plan: &Plan) -> Times {
    let mut steady = Steady::new(policy, nodes);
    let plain_each = (plan.plain_pairs / nodes / plan.batches).clamp(1, plan.batch);
    let mut batches = Batches::default();
    for _ in 0..plan.batches {
        // The plain scorer has just read every node; what it left in the caches is not the steady state.
        for _ in 0..plan.batch / 4 {
            steady.step();
        }
        let (mut fast, mut plain, mut apply) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        for _ in 0..plan.batch {
            let (deciding, applying) = steady.step();
            fast += deciding;
            apply += applying;
        }
        for _ in 0..plain_each {
            let job = steady.job();
            let start = Instant::now();
            let best = steady.plain(&job);
            plain += start.elapsed();
            assert_eq!(steady.fast(&job), best, "policy {}", policy.name());
        }
        batches.push(fast / plan.batch as u32, plain / plain_each as u32, apply / plan.batch as u32);
    }
    batches.median()
}

/// Time per decision of the job index and of the plain scorer. Taking a job out and another in is the index's work.
fn pull(policy: &Policy, count: usize, plan: &Plan) -> Times {
    let mut fleet = Fleet::new(SEED, 32, CLASSES);
    let mut rng = Rng::new(SEED);
    let mut index = JobIndex::new(policy);
    for job in queue(&mut fleet, SEED, count) {
        index.insert(job, &fleet.world);
    }
    let batch = plan.batch / 10;
    let plain_each = (plan.plain_pairs / count / plan.batches).clamp(1, batch);
    let mut batches = Batches::default();
    let mut arrived = count;
    for _ in 0..plan.batches {
        let (mut fast, mut plain) = (Duration::ZERO, Duration::ZERO);
        for step in 0..batch / 4 + batch {
            let node = &fleet.nodes[rng.index(fleet.nodes.len())];
            let start = Instant::now();
            let best = index.best(policy, fleet.now, &fleet.world, &fleet.nodes, node);
            let gone = best.and_then(|best| index.remove(&best.job));
            let mut spent = start.elapsed();
            if let Some(gone) = gone {
                // One like it comes, so that the queue stays as long as it is.
                let mut job = gone;
                job.id = JobId::new(&format!("job-{arrived}")).expect("a valid id");
                (job.ready_at, job.queued_at) = (fleet.now, fleet.now);
                arrived += 1;
                report(&mut fleet, &job);
                let start = Instant::now();
                index.insert(job, &fleet.world);
                spent += start.elapsed();
            }
            if step >= batch / 4 {
                fast += spent;
            }
            fleet.now = fleet.now + Millis::new(20);
        }
        let jobs: Vec<Job> = index.iter().cloned().collect();
        for _ in 0..plain_each {
            let node = &fleet.nodes[rng.index(fleet.nodes.len())];
            let start = Instant::now();
            let pass = Pass::of_parts(fleet.now, &fleet.world, &fleet.nodes, Backlog::of(&jobs));
            let best = policy.best_job(&pass, &jobs, node);
            plain += start.elapsed();
            let same = index.best(policy, fleet.now, &fleet.world, &fleet.nodes, node);
            let ids = (same.as_ref().map(|same| &same.job), best.as_ref().map(|best| &jobs[best.slot].id));
            assert_eq!(ids.0, ids.1, "policy {}", policy.name());
        }
        batches.push(fast / batch as u32, plain / plain_each as u32, Duration::ZERO);
    }
    batches.median()
}
