//! A journal that the version before wrote still opens, and nothing in it is lost.

use std::io::Read as _;

use flate2::read::GzDecoder;

use crate::stand::Stand;

/// Written by 0.1.0 before fields, reasons and explanations had one type: a push and a batch pool, a tenant, a workload, jobs
/// that wait for a GPU, for nodes, for another job and for somebody, a held array, and two that ended.
const JOURNAL: &[u8] = include_bytes!("journal-0.1.0.db.gz");
/// The token that goes with it; it opens nothing but this journal.
const TOKEN: &str = "lf_f6218059a3e8_a79757e5d24e3aa215fa535ce4b8c9a0b22908db9e5bac82e423b9bc9579a70b";

#[test]
fn a_journal_of_the_version_before_opens_with_all_that_is_in_it() {
    let mut journal = Vec::new();
    GzDecoder::new(JOURNAL).read_to_end(&mut journal).unwrap();
    let stand = Stand::on(&journal, TOKEN);
    let jobs = stand.json(&["jobs", "--all"]);
    let jobs = jobs["jobs"].as_array().unwrap();
    let told: Vec<[&str; 4]> = jobs
        .iter()
        .map(|job| ["id", "state", "pool", "reason"].map(|field| job[field].as_str().unwrap_or_default()))
        .collect();
    let expected = [
        ["7", "failed", "default", "exit"],
        ["6", "pending", "default", "dependency"],
        ["5", "pending", "night", "never_fits"],
        ["4", "pending", "default", "user_hold"],
        ["2", "pending", "default", "no_node"],
        ["1", "completed", "default", "exit"],
    ];
    assert_eq!(told, expected);
    let needs = |id: &str| stand.job(id)["needs"].clone();
    assert_eq!((&needs("2")["gpu_count"], &needs("2")["vram_mib"]), (&4.into(), &24576.into()));
    assert_eq!(needs("5")["walltime_ms"], 7_200_000);
    assert_eq!(stand.array("3")["total"], 50);
    let tenant = stand.run(&["tenants", "show", "lab"]).ok();
    assert!(tenant.contains("0.4"), "{tenant}");
    let workload = stand.run(&["workloads", "show", "train"]).ok();
    assert!(workload.contains("./train"), "{workload}");
    stand.run(&["explain", "2"]).ok();
    stand.run(&["release", "4"]).ok();
}
