//! A batch pool that learns how long jobs take, beside one that does not.

use landfall_testkit::Rng;

use crate::stand::Stand;

/// Two pools of two nodes with the same work.
const POOLS: [&str; 2] = ["plain", "keen"];

fn stand() -> Stand {
    let pool = |id: &str, learn: &str| {
        format!(
            "[[pools]]\nid = '{id}'\ndispatch = 'batch'\n[pools.batch]\norder = 'fifo'\nlearn = '{learn}'\n[pools.loans]\nlend = false\n"
        )
    };
    let mut stand = Stand::with_config(&(pool("plain", "off") + &pool("keen", "times")));
    for pool in POOLS {
        for node in [1, 2] {
            stand.agent(&format!("{pool}-{node}"), &["--pool", pool, "--cpus", "1"]);
        }
    }
    stand
}

/// A job of a user that takes some seconds and asks for so many.
fn submit(stand: &Stand, pool: &str, user: &str, nodes: u64, takes: u64, asks: u64) -> String {
    let (nodes, asks, takes) = (nodes.to_string(), format!("{asks}s"), takes.to_string());
    let user = format!("user={user}");
    let about = ["--pool", pool, "--need", &user, "--name", "step-1", "--nodes", &nodes, "--walltime", &asks];
    stand.submit(&[&about[..], &["--", "sleep", &takes]].concat())
}

fn started(stand: &Stand, id: &str) -> u64 {
    let job = stand.wait_for(id, &["running", "completed"]);
    job["started_at_ms"].as_u64().unwrap_or_else(|| panic!("{job}"))
}

#[test]
fn whose_users_ask_for_ten_times_too_much_start_earlier_where_the_pool_learns() {
    let seed = 2026;
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let stand = stand();
    // Well below what the pool will expect, so that a machine that stalls for seconds does not outlive it.
    let takes: Vec<u64> = (0..4).map(|_| rng.within(4, 6)).collect();
    let steady = rng.within(28, 32);
    // Both pools see ann's first jobs end; only one of them makes use of it.
    let first: Vec<String> =
        POOLS.iter().flat_map(|pool| [7, 8].map(|takes| submit(&stand, pool, "ann", 1, takes, 80))).collect();
    for id in &first {
        stand.wait_for(id, &["completed"]);
    }
    let work = |pool: &&str| {
        // One of two nodes is taken for what ann calls 80 s, and her next job needs both.
        let ann = |place: usize, nodes| submit(&stand, pool, "ann", nodes, takes[place], 80);
        let mut jobs = vec![ann(0, 1), ann(1, 2)];
        let bob = submit(&stand, pool, "bob", 1, steady, steady + 5);
        jobs.extend([ann(2, 1), ann(3, 1)]);
        (jobs, bob)
    };
    let all: Vec<(Vec<String>, String)> = POOLS.iter().map(work).collect();
    let starts: Vec<Vec<u64>> =
        all.iter().map(|(ann, _)| ann.iter().map(|id| started(&stand, id)).collect()).collect();
    let waits = |pool: usize| starts[pool][1..].iter().map(|at| at - starts[pool][0]).collect::<Vec<u64>>();
    let (plain, keen) = (waits(0), waits(1));
    assert!(keen.iter().zip(&plain).all(|(keen, plain)| keen < plain), "plain {plain:?}, keen {keen:?} ms");
    for (_, bob) in &all {
        started(&stand, bob);
    }
    let metrics = stand.metrics();
    // Where jobs begin a moment after they are told to, plans made from their walltimes move by that moment; not these.
    assert!(!metrics.contains("landfall_reservations_moved_total{pool=\"keen\""), "{metrics}");
    assert!(metrics.contains("landfall_starts_total{pool=\"plain\",kind=\"backfill\"}"), "{metrics}");
    for id in all.iter().flat_map(|(ann, _)| ann) {
        stand.wait_for(id, &["completed"]);
    }
    assert!(stand.metrics().contains("landfall_run_time_ratio{pool=\"keen\",part=\"middle\"}"));
    let shown = stand.run(&["pools", "show", "keen"]).ok();
    assert!(shown.contains("of what was expected, 8 of 10 between"), "{shown}");
}
