//! Peers: how long a placement takes among so many, how many messages it costs, and what a peer costs that does nothing.

use std::time::Duration;

use super::stand::{Stand, sum_of};

/// Peers that have a machine; the others hear everything and decline.
const WITH_MACHINES: usize = 4;

fn messages(stand: &Stand) -> f64 {
    sum_of(&stand.metrics(), "landfall_placement_messages_total")
}

pub(crate) fn placements(sizes: &[usize], jobs: u32, seconds: u64) {
    println!("\n## Placement among peers, each a process of its own on loopback (windows of 500 + 500 ms)");
    println!("peers   placement ms   messages sent per placement   idle: messages /min   CPU ms /min   MB");
    for &size in sizes {
        among(size, jobs, seconds);
    }
}

fn among(size: usize, jobs: u32, seconds: u64) {
    let arbiter = Stand::peer("settings = [\"runs_work=false\", \"rounds_max=0\"]");
    let invitation = arbiter.get("/peer")["invitation"].as_str().unwrap().to_owned();
    let mut others: Vec<Stand> =
        (1..size).map(|_| Stand::peer(&format!("bootstrap = ['{invitation}']"))).collect();
    for peer in others.iter_mut().take(WITH_MACHINES) {
        peer.hollow(1, 4, "1ms");
    }
    let known = || {
        let peers = arbiter.get("/peers");
        let there = |peer: &&serde_json::Value| peer["connected"] == true && peer["trust"].is_number();
        let peers: Vec<_> = peers.as_array().unwrap().iter().filter(there).cloned().collect();
        let with_facts = peers.iter().filter(|peer| peer["facts"]["cpu_milli"] == 4000).count();
        peers.len() + 1 >= size && with_facts >= WITH_MACHINES.min(size - 1)
    };
    while !known() {
        std::thread::sleep(Duration::from_millis(500));
    }
    // Lines between the others are still being made.
    std::thread::sleep(Duration::from_secs(seconds));
    let all = || [&arbiter].into_iter().chain(&others);
    let quiet = others.last().unwrap();
    let sent = |stand: &Stand| {
        let page = stand.metrics();
        sum_of(&page, "landfall_placement_messages_total{direction=\"sent\"}")
    };
    let before: f64 = all().map(sent).sum();
    for _ in 0..jobs {
        arbiter.place_one();
    }
    let told: f64 = all().map(sent).sum::<f64>() - before;
    let page = arbiter.metrics();
    let (took, placed) = (
        sum_of(&page, "landfall_placement_duration_seconds_sum"),
        sum_of(&page, "landfall_placement_duration_seconds_count"),
    );
    let (heard, cpu) = (messages(quiet), quiet.own_cpu());
    std::thread::sleep(Duration::from_secs(seconds));
    let per_minute = 60.0 / seconds as f64;
    println!(
        "{size:>5}   {:>12.0}   {:>27.1}   {:>19.0}   {:>11.0}   {:>2}",
        1000.0 * took / placed,
        told / f64::from(jobs),
        (messages(quiet) - heard) * per_minute,
        (quiet.own_cpu() - cpu) * 1000.0 * per_minute,
        quiet.server_rss_mb(),
    );
}
