//! What the service can take: start-up, submissions, memory of long queues, tasks from submission to end.
//!
//! Each figure stands beside what the machine itself can do in the same run: starting processes without any scheduler,
//! writing and syncing the same number of times. What HyperQueue 0.26 reached on such a machine is printed as published;
//! absolute figures move from run to run, so compare the ratios.
//!
//! `cargo bench -p landfall-cli --bench service`; `-- --short` runs a small part of everything, so that it cannot rot, and
//! `-- start`, `submissions`, `queues`, `tasks`, `fleet`, `peers`, `growth` or `large` only that part; the last three take long and are run
//! only when named. `growth` draws what docs/scale.md shows. `tasks` is a comparison with `xargs` and HyperQueue: where `hq` is on the
//! path, or else the Python package `hyperqueue` is installed, it is measured in the same run.

mod growth;
mod machine;
mod peers;
mod stand;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use stand::Stand;

/// How much to do.
struct Sizes {
    singles: usize,
    calls: usize,
    tasks: u32,
    arrays: Vec<u32>,
    fleets: Vec<u64>,
    placed: usize,
    hollow_tasks: u32,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let short = args.iter().any(|arg| arg == "--short");
    let parts: Vec<&String> = args.iter().filter(|arg| !arg.starts_with("--")).collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|arg| *arg == part);
    let sizes = if short {
        Sizes {
            singles: 50,
            calls: 3,
            tasks: 200,
            arrays: vec![10_000],
            fleets: vec![20],
            placed: 100,
            hollow_tasks: 1000,
        }
    } else {
        Sizes {
            singles: 5000,
            calls: 200,
            tasks: 20_000,
            arrays: vec![100_000, 1_000_000],
            fleets: vec![500, 5000],
            placed: 20_000,
            hollow_tasks: 200_000,
        }
    };
    if wanted("start") {
        start_up();
    }
    if wanted("submissions") {
        submissions(&sizes);
    }
    if wanted("queues") {
        queues(&sizes);
    }
    if wanted("tasks") {
        throughput(&sizes, "2", "620 of 1,100 = 0.56");
        throughput(&sizes, "16", "640 of 1,100 = 0.58");
    }
    if wanted("fleet") {
        fleet(&sizes);
    }
    let named = |part: &str| parts.iter().any(|arg| *arg == part);
    if short {
        let drawings = tempfile::TempDir::new().unwrap();
        growth::curves(&[10], &[10], 1, drawings.path());
    } else if named("growth") {
        let (nodes, waiting) =
            ([10, 100, 1000, 10_000, 100_000], [10, 100, 1000, 10_000, 100_000, 1_000_000]);
        growth::curves(&nodes, &waiting, 5, std::path::Path::new("../../docs/scale"));
    }
    if named("peers") {
        let (sizes, jobs, seconds): (&[usize], _, _) =
            if short { (&[3], 3, 1) } else { (&[5, 20, 100], 20, 30) };
        peers::placements(sizes, jobs, seconds);
    }
    if named("large") {
        growth::large(100_000, 1_000_000, 10);
    }
}

fn per_second(count: impl TryInto<u32>, took: Duration) -> f64 {
    f64::from(count.try_into().unwrap_or(u32::MAX)) / took.as_secs_f64()
}

fn start_up() {
    println!("## Start");
    let began = Instant::now();
    let mut stand = Stand::new();
    println!("server ready, new data directory        {:>8.1} ms   {} MB", ms(began), stand.server_rss_mb());
    stand.stop_server();
    let began = Instant::now();
    stand.start_server();
    println!("server ready, second start              {:>8.1} ms   {} MB", ms(began), stand.server_rss_mb());
    let began = Instant::now();
    stand.agent("2");
    println!("agent ready for work                    {:>8.1} ms", ms(began));
    let began = Instant::now();
    stand.submit_and_wait(1);
    println!(
        "one task, submitted to ended            {:>8.1} ms   (HyperQueue, published: 59 ms)",
        ms(began)
    );
}

fn submissions(sizes: &Sizes) {
    println!("\n## Submissions, each stored and synced before it is acknowledged");
    let stand = Stand::new();
    let syncs = machine::syncs_per_second(&stand.path("syncs"), sizes.singles.min(2000));
    println!("write and sync 4 KiB, one after another {syncs:>8.0} /s");
    for clients in [1, 16] {
        let began = Instant::now();
        stand.submit_singles(sizes.singles, clients, true);
        let rate = per_second(sizes.singles, began.elapsed());
        println!(
            "single jobs, {clients:>2} clients                 {rate:>8.0} /s   {:.2} of bare syncs (HyperQueue, published: 1,750 /s without a journal)",
            rate / syncs
        );
    }
    let began = Instant::now();
    (0..sizes.calls).for_each(|_| stand.call(&["submit", "--hold", "--", "true"]));
    let rate = per_second(sizes.calls, began.elapsed());
    let bare = machine::processes_per_second(sizes.calls.max(50), 1);
    println!(
        "one command line each                   {rate:>8.0} /s   {:.2} of bare processes, {bare:.0} /s (HyperQueue: 98 /s)",
        rate / bare
    );
}

fn queues(sizes: &Sizes) {
    println!("\n## Queued array tasks, no agent");
    for &count in &sizes.arrays {
        let mut stand = Stand::new();
        let before = stand.server_rss_mb();
        let began = Instant::now();
        stand.submit_array(count);
        let took = ms(began);
        let (rss, peak) = (stand.server_rss_mb(), stand.server_peak_mb());
        println!(
            "{count:>9} tasks: accepted in {took:.1} ms, server {before} MB before, {rss} MB now, {peak} MB at most"
        );
        stand.kill_server();
        let began = Instant::now();
        stand.start_server();
        println!("                 start after kill -9: {:.0} ms", ms(began));
        let began = Instant::now();
        stand.call(&["cancel", "1"]);
        println!("                 cancelled in {:.0} ms", ms(began));
    }
    println!(
        "HyperQueue, published: 100,000 in 200 ms, 49 MB now, 67 MB at most; 1,000,000 in 1,900 ms, 370 MB now, 565 MB at most;"
    );
    println!("                 start with 1,000,000: 1,300 ms; cancelling 110 and 1,900 ms");
}

fn throughput(sizes: &Sizes, slots: &str, published: &str) {
    println!("\n## Tasks `true`, one agent with {slots} slots, from submission to the last end");
    let count = sizes.tasks as usize / 4;
    let (xargs, spawned) = (machine::xargs_per_second(count), machine::processes_per_second(count, 2));
    println!(
        "xargs -P2 -n1 true                      {xargs:>8.0} /s   spawned by two threads {spawned:.0} /s"
    );
    let own = machine::hyperqueue_per_second(count, slots).map(|rate| ("with its journal", rate));
    let in_python = || {
        let rate = machine::hyperqueue_in_python_per_second(count, slots)?;
        Some(("in Python, no journal", rate))
    };
    match own.or_else(in_python) {
        Some((how, rate)) => println!(
            "through HyperQueue, {how:<21}{rate:>7.0} /s   {:.2} of xargs (measured here)",
            rate / xargs
        ),
        None => println!(
            "through HyperQueue: neither `hq` nor the Python package `hyperqueue` is here; quoted: {published}"
        ),
    }
    let disk = ("journal synced", std::env::temp_dir());
    // Without a disk to wait for, as HyperQueue was measured: its journal is off unless asked for.
    let memory = ("everything in memory", PathBuf::from("/dev/shm"));
    for (how, place) in [disk, memory].into_iter().filter(|(_, place)| place.is_dir()) {
        let mut stand = Stand::in_dir(&place);
        stand.agent(slots);
        let before = stand.cpu_seconds();
        let began = Instant::now();
        stand.submit_and_wait(sizes.tasks);
        let rate = per_second(sizes.tasks, began.elapsed());
        let used = stand.cpu_seconds();
        println!(
            "through Landfall, {how:<22}{rate:>8.0} /s   {:.2} of xargs (HyperQueue, published, no journal: {published})",
            rate / xargs
        );
        println!(
            "                CPU: server {:.1} s, agent and keeper {:.1} s; server {} MB at most",
            used.0 - before.0,
            used.1 - before.1,
            stand.server_peak_mb()
        );
    }
}

/// Placements through HTTP on simulated nodes: the server is real, and so is its journal.
fn fleet(sizes: &Sizes) {
    println!(
        "\n## Single jobs through HTTP, submitted to running, on hollow nodes of 128 cores, journal synced"
    );
    // A batch pool looks at 10,000 jobs every five seconds unless told otherwise, which would be all that is measured.
    let scan = "batch = { scan_max = 1000000 }\n";
    for (dispatch, more, placed) in [("push", "", sizes.placed), ("batch", scan, 3 * sizes.placed)] {
        let mut first = None;
        for &nodes in &sizes.fleets {
            let mut stand = Stand::with(&std::env::temp_dir(), &format!("dispatch = \"{dispatch}\"\n{more}"));
            let began = Instant::now();
            stand.hollow(nodes, 128, "1h");
            let joined = ms(began);
            let before = stand.cpu_with_hollow();
            let began = Instant::now();
            stand.submit_singles(placed, 64, false);
            let accepted = per_second(placed, began.elapsed());
            while stand.jobs_in("running") < placed as u64 / 64 * 64 {
                std::thread::sleep(Duration::from_millis(5));
            }
            let rate = per_second(placed, began.elapsed());
            let used = stand.cpu_with_hollow();
            let per_job = |seconds: f64| seconds * 1e6 / placed as f64;
            println!(
                "{dispatch:<6}{nodes:>6} nodes {rate:>8.0} /s   {:.2} of the first; accepted {accepted:.0} /s; CPU per job: server {:.0} us, hollow {:.0} us",
                rate / *first.get_or_insert(rate),
                per_job(used.0 - before.0),
                per_job(used.1 - before.1),
            );
            println!(
                "             joined in {joined:.0} ms; server {} MB, hollow {} MB",
                stand.server_peak_mb(),
                stand.hollow_rss_mb()
            );
        }
    }
    println!("kube-scheduler with its API server, published: 85 to 165 pods/s");
    println!(
        "\n## Tasks without cost, an array on 100 hollow nodes of 64 slots, from submission to the last end"
    );
    for dispatch in ["push", "pull"] {
        let mut stand = Stand::with_pool(&std::env::temp_dir(), dispatch);
        stand.hollow(sizes.fleets[0].min(100), 64, "0s");
        let before = stand.cpu_with_hollow();
        let began = Instant::now();
        stand.submit_and_wait(sizes.hollow_tasks);
        let rate = per_second(sizes.hollow_tasks, began.elapsed());
        let used = stand.cpu_with_hollow();
        let per_task = |seconds: f64| seconds * 1e6 / f64::from(sizes.hollow_tasks);
        println!(
            "{dispatch:<6}{rate:>8.0} /s; CPU per task: server {:.1} us, hollow {:.1} us; server {} MB (HyperQueue, published: 60,000 /s without a journal)",
            per_task(used.0 - before.0),
            per_task(used.1 - before.1),
            stand.server_peak_mb()
        );
    }
}

fn ms(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1000.0
}
