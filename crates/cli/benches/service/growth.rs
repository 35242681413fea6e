//! How the cost of a job grows with nodes and with jobs that wait: a table, and the drawings of docs/scale.md.
//!
//! A point is a server with its journal, hollow nodes that run one job at a time, and a queue of 40 classes of jobs. After both are
//! there, 32 clients submit as fast as they are answered, for some seconds, while nodes end what they run and take what waits. Then what the server used is
//! divided by the jobs that were placed: each was submitted, placed, begun and ended once, so it is the cost of a whole life.

use std::path::Path;
use std::time::{Duration, Instant};

use super::stand::Stand;

/// What one point of the curves says.
struct Point {
    nodes: u64,
    waiting: u64,
    joined_s: f64,
    placed_per_s: f64,
    /// CPU of the server for each job that was placed, in microseconds: the driver's thread, and all others.
    driver_us: f64,
    others_us: f64,
    /// Of the driver's thread: the engine, and writing the journal (with waiting for the disk).
    engine_us: f64,
    journal_us: f64,
    written_bytes: f64,
    server_mb: u64,
    /// Share of one core that the server needs while nothing but heartbeats comes.
    idle: Option<f64>,
}

/// Measures the curves and draws them into a directory.
pub(super) fn curves(nodes: &[u64], waiting: &[u64], seconds: u64, into: &Path) {
    const FEW_WAIT: u64 = 1000;
    const SOME_NODES: u64 = 1000;
    println!(
        "\n## Growth, push, 32 clients for {seconds} s at each point; microseconds for each job that was placed"
    );
    println!(
        "    nodes   waiting  joined s  placed /s  server us  driver us  engine us  journal us  written B  server MB  idle core"
    );
    let of = |pairs: Vec<(u64, u64)>| -> Vec<Point> {
        pairs.into_iter().map(|(nodes, waiting)| point(nodes, waiting, seconds)).collect()
    };
    let some_nodes = SOME_NODES.min(nodes[nodes.len() - 1]);
    let by_nodes = of(nodes.iter().map(|count| (*count, FEW_WAIT)).collect());
    let by_waiting = of(waiting.iter().map(|count| (some_nodes, *count)).collect());
    std::fs::create_dir_all(into).unwrap();
    type Value = fn(&Point) -> f64;
    let parts: [(&str, Value); 4] = [
        ("whole server", |point| point.driver_us + point.others_us),
        ("engine", |point| point.engine_us),
        ("journal, with the disk", |point| point.journal_us),
        ("HTTP and the rest", |point| point.others_us),
    ];
    let single: [(&str, &str, Value); 3] = [
        ("memory", "MB of the server", |point| point.server_mb as f64),
        ("written", "bytes written to disk for a job", |point| point.written_bytes),
        ("rate", "jobs placed in a second", |point| point.placed_per_s),
    ];
    let curves: [(&str, &[Point], Value); 2] = [
        ("nodes", &by_nodes, |point| point.nodes as f64),
        ("waiting", &by_waiting, |point| point.waiting as f64),
    ];
    for (along, points, x) in curves {
        let line = |value: Value| -> Vec<(f64, f64)> { points.iter().map(|at| (x(at), value(at))).collect() };
        let lines: Vec<_> = parts.iter().map(|(name, value)| (*name, line(*value))).collect();
        draw(into, &format!("time-{along}"), along, "microseconds for a job", &lines);
        for (name, y, value) in single {
            draw(into, &format!("{name}-{along}"), along, y, &[(name, line(value))]);
        }
    }
    println!("drawings: {}", into.display());
}

fn draw(into: &Path, name: &str, along: &str, y: &str, lines: &[(&str, Vec<(f64, f64)>)]) {
    let x = if along == "nodes" { "nodes" } else { "jobs that wait" };
    let drawing = landfall_replay::report::chart(&format!("{y} over {x}"), x, y, lines);
    std::fs::write(into.join(format!("{name}.svg")), drawing).unwrap();
}

fn point(nodes: u64, waiting: u64, seconds: u64) -> Point {
    let mut stand = Stand::patient();
    stand.submit_stream(waiting, 40);
    let began = Instant::now();
    // All nodes together end 10,000 jobs a second, which is more than this server is given to place.
    stand.hollow(nodes, 2, &format!("{}ms", (nodes / 10).max(1)));
    let joined_s = began.elapsed().as_secs_f64();
    // What was waiting and can begin begins now, and that is not what is measured.
    std::thread::sleep(Duration::from_secs(2));
    let (used, counted, began) = (stand.server_cpu(), stand.counters(), Instant::now());
    stand.submit_for(Duration::from_secs(seconds), 32);
    let took = began.elapsed().as_secs_f64();
    let (used_then, counted_then) = (stand.server_cpu(), stand.counters());
    let placed = (counted_then.placed - counted.placed).max(1.0);
    let each_us = |before: f64, after: f64| (after - before) / placed * 1e6;
    let server_mb = stand.server_rss_mb();
    // What is under way ends, then only heartbeats come. Long queues do not end here: they keep the server busy.
    let rested = Instant::now();
    while stand.jobs_in("pending") > 0 && rested.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(100));
    }
    let idle = (stand.jobs_in("pending") == 0).then(|| {
        std::thread::sleep(Duration::from_secs(1));
        let (before, began) = (stand.server_cpu(), Instant::now());
        std::thread::sleep(Duration::from_secs(seconds));
        let after = stand.server_cpu();
        (after.0 + after.1 - before.0 - before.1) / began.elapsed().as_secs_f64()
    });
    let point = Point {
        nodes,
        waiting,
        joined_s,
        placed_per_s: placed / took,
        driver_us: each_us(used.0, used_then.0),
        others_us: each_us(used.1, used_then.1),
        engine_us: each_us(counted.engine_s, counted_then.engine_s),
        journal_us: each_us(counted.journal_s, counted_then.journal_s),
        written_bytes: (counted_then.written - counted.written) / placed,
        server_mb,
        idle,
    };
    println!(
        "{:>9}{:>10}{:>10.1}{:>11.0}{:>11.0}{:>11.0}{:>11.0}{:>12.0}{:>11.0}{:>11}{:>11}",
        point.nodes,
        point.waiting,
        point.joined_s,
        point.placed_per_s,
        point.driver_us + point.others_us,
        point.driver_us,
        point.engine_us,
        point.journal_us,
        point.written_bytes,
        point.server_mb,
        point.idle.map_or_else(|| "-".to_owned(), |share| format!("{share:.2}"))
    );
    point
}

/// The largest fleet: it joins, gets a million jobs and works on them for some minutes, and every minute is looked at.
pub(super) fn large(nodes: u64, waiting: u64, minutes: u64) {
    println!("\n## {nodes} hollow nodes on one server, {waiting} jobs in 40 classes, {minutes} min");
    let mut stand = Stand::patient();
    let began = Instant::now();
    // So many jobs in a second that a part of the queue is left at the end.
    let per_second = (waiting * 7 / 10 / (minutes * 60)).max(1);
    stand.hollow(nodes, 2, &format!("{}ms", nodes * 1000 / per_second));
    println!(
        "joined in {:.1} s: server {} MB, hollow {} MB",
        began.elapsed().as_secs_f64(),
        stand.server_rss_mb(),
        stand.hollow_rss_mb()
    );
    let (before, rested) = (stand.server_cpu(), Instant::now());
    std::thread::sleep(Duration::from_secs(20));
    let after = stand.server_cpu();
    println!(
        "heartbeats alone: {:.2} of a core",
        (after.0 + after.1 - before.0 - before.1) / rested.elapsed().as_secs_f64()
    );
    let began = Instant::now();
    stand.submit_stream(waiting, 40);
    println!(
        "{waiting} jobs accepted in {:.1} s ({:.0} /s): server {} MB",
        began.elapsed().as_secs_f64(),
        waiting as f64 / began.elapsed().as_secs_f64(),
        stand.server_rss_mb()
    );
    println!("minute   pending   running  placed /s  ended /s  server core  server MB  hollow MB  data MB");
    for minute in 1..=minutes {
        let (used, counted, began) = (stand.server_cpu(), stand.counters(), Instant::now());
        std::thread::sleep(Duration::from_secs(60));
        let (then, counted_then, took) =
            (stand.server_cpu(), stand.counters(), began.elapsed().as_secs_f64());
        println!(
            "{minute:>6}{:>10}{:>10}{:>11.0}{:>10.0}{:>13.2}{:>11}{:>11}{:>9}",
            stand.jobs_in("pending"),
            stand.jobs_in("running"),
            (counted_then.placed - counted.placed) / took,
            (counted_then.ended - counted.ended) / took,
            (then.0 + then.1 - used.0 - used.1) / took,
            stand.server_rss_mb(),
            stand.hollow_rss_mb(),
            stand.data_mb()
        );
    }
}
