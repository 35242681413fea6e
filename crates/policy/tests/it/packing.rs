//! The packing policies of published benchmarks.

use crate::support::{near, of, policy_for, rank, situation};

const JOBS: &str = "[[jobs]]\nid='whole'\ngpu_count=1\ncpu_milli='8 cores'\n\
    [[jobs]]\nid='two'\ngpu_count=2\ncpu_milli='8 cores'\n\
    [[jobs]]\nid='shared'\ngpu_count=1\ngpu_milli=300\ncpu_milli='4 cores'\n\
    [[jobs]]\nid='cpu'\ncpu_milli='4 cores'\n";

const NODES: &str = "[[nodes]]\nid='empty'\ncpu_milli='64 cores'\ngpus=[{count=8}]\n\
    [[nodes]]\nid='started'\ncpu_milli='64 cores'\ngpus=[{count=4}]\nplacements=[{job='x',cpu_milli='8 cores',gpus=[0],gpu_milli=600}]\n\
    [[nodes]]\nid='mixed'\ncpu_milli='64 cores'\ngpus=[{count=4}]\nplacements=[{job='y',gpus=[0,1]},{job='z',gpus=[2],gpu_milli=500}]\n";

#[track_caller]
fn totals(policy: &str, job: &str, want: [f64; 3]) {
    let ranking = rank(policy, &format!("{NODES}{JOBS}"), job);
    for (id, want) in ["empty", "started", "mixed"].iter().zip(want) {
        near(of(&ranking, id).total.unwrap(), want, &format!("{policy} {job} {id}"));
    }
}

#[test]
fn best_fit_cuts_off_the_fraction() {
    // 100 (1 - 0.5 * 56000/128000 - 0.5 * 7000/8000) = 34.375
    totals("best-fit", "whole", [34.0, 66.0, 75.0]);
    let exact = format!("{NODES}{JOBS}[policy.params]\ntruncate=false\n");
    near(of(&rank("best-fit", &exact, "whole"), "empty").total.unwrap(), 34.375, "without cutting");
}

#[test]
fn dot_product_prefers_small_products() {
    // 100 (1 - 0.5 (64000*8000/128000^2 + 8000*1000/8000^2)) = 92.1875
    totals("dot-product", "whole", [92.0, 95.0, 97.0]);
}

#[test]
fn gpu_packing_fills_shared_devices_first() {
    // An empty node of 8: max(33-8, 8) = 25. A shared device with 40 % free: 100 - 4. With 50 % free: 100 - 5.
    totals("gpu-packing", "shared", [25.0, 96.0, 95.0]);
    // A whole device on a started node: 50 - 1; two: 50 - 2, and the mixed node has one only.
    totals("gpu-packing", "whole", [25.0, 49.0, 49.0]);
    totals("gpu-packing", "cpu", [0.0, 0.0, 0.0]);
}

#[test]
fn gpu_clustering_puts_alike_together() {
    // Free: 8000, 3400, 1500. int(25 * (8000 - free) / 8000) = 0, 14, 20.
    totals("gpu-clustering", "shared", [25.0, 89.0, 70.0]);
    totals("gpu-clustering", "whole", [25.0, 14.0, 20.0]);
    let ranking = rank("gpu-clustering", &format!("{NODES}{JOBS}"), "two");
    near(of(&ranking, "empty").total.unwrap(), 25.0, "no GPU job");
    assert!(!of(&ranking, "mixed").is_admitted());
}

#[test]
fn a_shared_job_gets_the_tightest_device_that_fits() {
    let ranking = rank("best-fit", &format!("{NODES}{JOBS}"), "shared");
    assert_eq!(of(&ranking, "started").gpus, [0]);
    assert_eq!(of(&ranking, "mixed").gpus, [2]);
    assert_eq!(of(&ranking, "empty").gpus, [0]);
}

#[test]
fn first_fit_follows_the_order_of_nodes() {
    let scenario = format!("node_order=['mixed','started','empty']\n{NODES}{JOBS}");
    assert_eq!(rank("first-fit", &scenario, "whole").winner.unwrap().as_str(), "mixed");
    assert_eq!(rank("first-fit", &scenario, "two").winner.unwrap().as_str(), "started");
    assert_eq!(rank("first-fit", &format!("{NODES}{JOBS}"), "whole").winner.unwrap().as_str(), "empty");
}

#[test]
fn random_is_seeded_and_uniform_over_feasible_nodes() {
    let mut jobs = String::new();
    for i in 0..600 {
        jobs += &format!("[[jobs]]\nid='j{i}'\ngpu_count=2\n");
    }
    let situation = situation(&format!("{NODES}{jobs}"));
    let policy = policy_for("random", &situation);
    let winners: Vec<String> = situation
        .jobs()
        .iter()
        .map(|job| policy.rank_nodes(&situation, job).winner.unwrap().to_string())
        .collect();
    let count = |id: &str| winners.iter().filter(|winner| *winner == id).count();
    assert_eq!(count("mixed"), 0, "an infeasible node is never drawn");
    assert!((240..=360).contains(&count("empty")), "{}", count("empty"));
    let again: Vec<String> = situation
        .jobs()
        .iter()
        .map(|job| policy.rank_nodes(&situation, job).winner.unwrap().to_string())
        .collect();
    assert_eq!(winners, again, "the same seed draws the same");
}
