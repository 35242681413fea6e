//! `landfall replay` and `landfall compare` with the real binary.

use super::tool::Dir;

/// The seven jobs of acceptance case B27 on four processors, walltime = run; job 8 did not run.
const SEVEN: &str = "; MaxProcs: 4\n\
    1 0 -1 200 2 -1 -1 2 200 -1 1 2 1 -1 -1 -1 -1 -1\n\
    2 20 -1 100 3 -1 -1 3 100 -1 1 1 1 -1 -1 -1 -1 -1\n\
    3 30 -1 40 1 -1 -1 1 40 -1 1 2 1 -1 -1 -1 -1 -1\n\
    4 40 -1 100 3 -1 -1 3 100 -1 1 1 1 -1 -1 -1 -1 -1\n\
    5 50 -1 120 2 -1 -1 2 120 -1 1 2 1 -1 -1 -1 -1 -1\n\
    6 50 -1 120 1 -1 -1 1 120 -1 1 2 1 -1 -1 -1 -1 -1\n\
    7 50 -1 80 1 -1 -1 1 80 -1 1 1 1 -1 -1 -1 -1 -1\n\
    8 60 -1 0 1 -1 -1 1 80 -1 0 1 1 -1 -1 -1 -1 -1\n";

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\na,8000,8192,2,T4\nb,8000,8192,1,P100\n";
/// Four pods: one GPU, half a GPU, one on a P100 only, and two GPUs.
const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n\
    p1,1000,1,1,1000,\np2,1000,1,1,500,\np3,1000,1,1,1000,P100\np4,1000,1,2,1000,\n";

fn seven() -> Dir {
    Dir::new().file("seven.swf", SEVEN)
}

fn close(found: &serde_json::Value, expected: f64) {
    let found = found.as_f64().unwrap_or(f64::NAN);
    assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
}

/// Waits in field 3 of a schedule, by job.
fn waits(dir: &Dir, file: &str) -> Vec<i64> {
    let text = String::from_utf8(dir.read(file)).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with(';'));
    lines.map(|line| line.split_whitespace().nth(2).unwrap().parse().unwrap()).collect()
}

#[test]
fn a_log_gives_the_measures_of_b28_and_its_schedule() {
    let dir = seven();
    let ran = dir.run(&["replay", "seven.swf", "--policy", "easy", "--schedule-out", "out.swf", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let json = ran.json();
    assert_eq!((&json["schema"], &json["jobs"]), (&"landfall.replay/1".into(), &7.into()));
    close(&json["mean_bounded_slowdown"], 2.080952);
    close(&json["mean_wait_s"], 115.714286);
    close(&json["max_wait_s"], 350.0);
    close(&json["utilisation"], 0.711538);
    assert_eq!(json["dropped"], serde_json::json!({"did not run": 1}));
    // Starts 0 200 30 300 400 50 70 less submissions.
    assert_eq!(waits(&dir, "out.swf"), [0, 180, 0, 260, 350, 0, 20]);
}

#[test]
fn every_policy_for_logs_replays_and_twice_gives_the_same_bytes() {
    let dir = seven();
    let waits_of = |policy: &str| {
        let file = format!("{policy}.swf");
        let args =
            ["replay", "seven.swf", "--procs", "4", "--policy", policy, "--schedule-out", &file, "--json"];
        let first = dir.run(&args);
        assert_eq!(first.code, 0, "{policy}: {first:?}");
        let again = dir.run(&[&args[..], &["--force"]].concat());
        assert_eq!(first.stdout, again.stdout, "{policy}");
        waits(&dir, &file)
    };
    assert_eq!(waits_of("fcfs"), [0, 180, 170, 260, 350, 350, 350]);
    assert_eq!(waits_of("greedy"), [0, 270, 0, 350, 120, 0, 20]);
    assert_eq!(waits_of("sjbf"), [0, 180, 0, 260, 350, 20, 0]);
    assert_eq!(waits_of("conservative-standing"), [0, 180, 0, 260, 20, 140, 260]);
    for policy in ["conservative", "easy++", "easy++-tsafrir", "sjf", "f1", "landfall-batch"] {
        assert_eq!(waits_of(policy).len(), 7, "{policy}");
    }
}

#[test]
fn a_weight_profile_replays_a_log_on_nodes() {
    let dir = seven();
    let json = dir.run(&["replay", "seven.swf", "--profile", "balanced", "--json"]).json();
    assert_eq!((&json["jobs"], &json["started"], &json["unit"]), (&7.into(), &7.into(), &"nodes".into()));
    dir.run(&["replay", "seven.swf", "--policy", "balanced", "--events", "single"])
        .fails(2, &["balanced", "one pass per event"]);
}

#[test]
fn sequences_are_averaged() {
    let dir = seven();
    let args = ["replay", "seven.swf", "--policy", "sjf", "--sequence", "0:3", "--sequence", "3:4", "--json"];
    let json = dir.run(&args).json();
    assert_eq!(json["sequences"].as_array().unwrap().len(), 2);
    // Job 1 runs from 0, job 2 is chosen and waits until 200, job 3 then starts beside it.
    close(&json["sequences"][0]["mean_bounded_slowdown"], (1.0 + 280.0 / 100.0 + 210.0 / 40.0) / 3.0);
    dir.run(&["replay", "seven.swf", "--policy", "sjf", "--sequence", "5:9"]).fails(2, &["5:9", "7 jobs"]);
    dir.run(&["replay", "seven.swf", "--sequence", "five"]).fails(2, &["START:COUNT"]);
}

#[test]
fn pods_are_packed_one_by_one_and_never_leave() {
    let dir = Dir::new()
        .file("pods.csv", PODS)
        .file("nodes.csv", NODES)
        .file("order", "pods 42 2 0 1 3\nnodes 42 0 1\n");
    let args = ["replay", "pods.csv", "--nodes", "nodes.csv", "--arrivals", "order", "--policy", "best-fit"];
    let ran = dir.run(&[&args[..], &["--seed", "42", "--curve-out", "c.csv", "--json"]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    // 2500 of 3000 thousandths are given; the pod of two GPUs finds no node with two whole ones.
    let json = ran.json();
    assert_eq!((&json["started"], &json["never_started"]), (&3.into(), &1.into()));
    let curve = String::from_utf8(dir.read("c.csv")).unwrap();
    assert!(curve.starts_with("arrived_percent,allocation_percent,"), "{curve}");
    // Arrived: 1000, 2000, 2500, 4500 of 3000.
    let rows: Vec<&str> = curve.lines().skip(1).collect();
    assert!(rows.iter().any(|row| row.starts_with("33,33.33,")), "{curve}");
    assert!(rows.last().unwrap().starts_with("150,83.33,"), "{curve}");
    dir.run(&[&args[..], &["--seed", "7"]].concat()).fails(2, &["no seed 7", "42"]);
    dir.run(&["replay", "pods.csv", "--policy", "fgd"]).fails(2, &["no nodes are given", "--nodes"]);
    dir.run(&["replay", "pods.csv", "--nodes", "nodes.csv", "--policy", "easy"]).fails(2, &["easy"]);
}

#[test]
fn a_trace_runs_on_a_cluster_with_tenants_and_lost_nodes() {
    let cluster = "[[pools]]\nid = \"p\"\ndispatch = \"batch\"\n[[tenants]]\nid = \"t\"\nshare = 1.0\n\
        [[nodes]]\nid = \"n\"\ncount = 2\ncpu_milli = 8000\nram_mib = 8192\n";
    let trace = concat!(
        "{\"format\":\"landfall.trace\",\"version\":1}\n",
        "{\"job\":{\"id\":\"a\",\"nodes\":2,\"walltime_ms\":\"60s\",\"tenant\":\"t\"},\"at_ms\":0,\"run_ms\":30000}\n",
        "{\"job\":{\"id\":\"b\",\"walltime_ms\":\"60s\",\"tenant\":\"t\"},\"at_ms\":1000,\"run_ms\":20000}\n",
        "{\"change\":{\"node\":\"n-1\",\"to\":\"down\"},\"at_ms\":10000}\n",
        "{\"change\":{\"node\":\"n-1\",\"to\":\"up\"},\"at_ms\":40000}\n",
    );
    let dir = Dir::new().file("c.toml", cluster).file("t.jsonl", trace);
    let ran = dir.run(&[
        "replay",
        "t.jsonl",
        "--cluster",
        "c.toml",
        "--policy",
        "balanced",
        "--out",
        "o",
        "--json",
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let json = ran.json();
    assert_eq!((&json["started"], &json["counts"]["requeues"]), (&2.into(), &1.into()));
    assert!(String::from_utf8(dir.read("o/report.html")).unwrap().trim_end().ends_with("</html>"));
    assert_eq!(String::from_utf8(dir.read("o/decisions.jsonl")).unwrap().lines().count(), 3);
    let report: serde_json::Value = serde_json::from_slice(&dir.read("o/report.json")).unwrap();
    assert_eq!(report["decisions_sha256"], json["decisions_sha256"]);
    // A directory that holds a report is not overwritten by accident.
    dir.run(&["replay", "t.jsonl", "--cluster", "c.toml", "--out", "o"])
        .fails(2, &["o/report.json", "--force"]);
}

#[test]
fn policies_are_compared_against_the_first() {
    let dir = seven();
    let args = ["compare", "seven.swf", "--policy", "fcfs", "--policy", "easy", "--out", "o"];
    let json = dir.run(&[&args[..], &["--json"]].concat()).json();
    let one = &json["comparisons"][0];
    assert_eq!((&one["baseline"], &one["policies"][1]["policy"]), (&"fcfs".into(), &"easy".into()));
    let html = String::from_utf8(dir.read("o/report.html")).unwrap();
    assert!(html.contains("fcfs") && html.contains("easy"));
    let text = dir.run(&[&args[..], &["--force", "--threads", "2"]].concat());
    assert_eq!(text.code, 0, "{text:?}");
    assert!(text.stdout.contains("baseline fcfs"), "{}", text.stdout);
    let many = ["fcfs", "easy", "sjbf", "greedy", "conservative"].map(|policy| ["--policy", policy]).concat();
    let narrow =
        dir.command(&[&["compare", "seven.swf"][..], &many].concat()).env("COLUMNS", "80").output().unwrap();
    let narrow = String::from_utf8(narrow.stdout).unwrap();
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(narrow.contains("conservative"), "{narrow}");
    dir.run(&["compare", "seven.swf", "--policy", "easy", "--baseline", "sjbf"]).fails(2, &["sjbf", "easy"]);
}

#[test]
fn a_broken_bound_ends_with_four() {
    let dir = seven();
    let replay = |bound: &str| dir.run(&["replay", "seven.swf", "--policy", "easy", "--fail-if", bound]);
    assert_eq!(replay("utilisation<0.7").code, 0);
    let broken = replay("utilisation<0.8");
    assert_eq!(broken.code, 4, "{broken:?}");
    assert!(broken.stderr.contains("utilisation is 0.7115, below the bound of 0.8"), "{}", broken.stderr);
    replay("beauty<1").fails(2, &["no measure `beauty`", "mean_wait_s"]);
    let args =
        ["compare", "seven.swf", "--policy", "easy", "--policy", "fcfs", "--fail-if", "mean_wait_s>+10%"];
    let worse = dir.run(&args);
    assert_eq!(worse.code, 4, "{worse:?}");
    assert!(worse.stderr.contains("fcfs on seven.swf"), "{}", worse.stderr);
}

#[test]
fn mistakes_say_what_to_do() {
    let dir = seven().file("nodes.csv", NODES).file("bare.swf", SEVEN.replace("; MaxProcs: 4\n", ""));
    dir.run(&["replay", "bare.swf"]).fails(2, &["how many processors", "--procs"]);
    dir.run(&["replay", "seven.swf", "--policy", "esy"]).fails(2, &["esy", "easy"]);
    dir.run(&["replay", "seven.swf", "--cycle", "soon"]).fails(2, &["5s"]);
    dir.run(&["replay", "nodes.csv"]).fails(2, &["holds no jobs", "--nodes"]);
    dir.run(&["replay", "seven.swf", "--procs", "0"]).fails(2, &["--procs", "1.."]);
    dir.run(&["replay", "missing.swf"]).fails(3, &["missing.swf"]);
    dir.run(&["replay", "seven.swf", "--nodes", "nodes.csv"]).fails(2, &["batch log", "--procs"]);
}

#[test]
fn workers_of_pull_pools_and_shares_of_gpus_are_replayed_too() {
    let pull = "[[pools]]\nid = \"ci\"\ndispatch = \"pull\"\n\
        [[nodes]]\nid = \"w\"\ncpu_milli = 8000\nram_mib = 8192\n";
    let build = concat!(
        "{\"format\":\"landfall.trace\",\"version\":1}\n",
        "{\"job\":{\"id\":\"a\",\"cpu_milli\":1000},\"at_ms\":0,\"run_ms\":30000}\n",
    );
    let shared = concat!(
        "{\"format\":\"landfall.trace\",\"version\":1}\n",
        "{\"node\":{\"id\":\"n\",\"cpu_milli\":8000,\"ram_mib\":8192,\"gpus\":[{\"count\":1,\"vram_mib\":8192}]}}\n",
        "{\"job\":{\"id\":\"a\",\"gpu_count\":1,\"gpu_milli\":250},\"at_ms\":0,\"run_ms\":3600000}\n",
        "{\"job\":{\"id\":\"b\",\"gpu_count\":1,\"gpu_milli\":250},\"at_ms\":0,\"run_ms\":3600000}\n",
    );
    let dir = Dir::new().file("ci.toml", pull).file("build.jsonl", build).file("shared.jsonl", shared);
    let json = dir.run(&["replay", "build.jsonl", "--cluster", "ci.toml", "--json"]).json();
    assert_eq!((&json["policy"], &json["started"]), (&"own".into(), &1.into()), "{json}");
    let json = dir.run(&["replay", "shared.jsonl", "--policy", "fgd", "--json"]).json();
    assert_eq!(json["started"], 2, "{json}");
    close(&json["gpu_utilisation"], 0.5);
    close(&json["gpu_hours"]["delivered"], 0.5);
}

#[test]
fn dependencies_count_whatever_the_order_of_lines() {
    let trace = |on: &str| {
        format!(
            "{{\"format\":\"landfall.trace\",\"version\":1}}\n{{\"node\":{{\"id\":\"n\",\"cpu_milli\":8000}}}}\n\
             {{\"job\":{{\"id\":\"a\"}},\"at_ms\":0,\"run_ms\":1000,\"after\":[{{\"on\":\"{on}\"}}]}}\n\
             {{\"job\":{{\"id\":\"b\"}},\"at_ms\":0,\"run_ms\":5000}}\n"
        )
    };
    let dir = Dir::new().file("t.jsonl", trace("b")).file("typo.jsonl", trace("zzz"));
    let ran = dir.run(&["replay", "t.jsonl", "--json"]);
    assert_eq!(ran.json()["started"], 2, "{ran:?}");
    dir.run(&["replay", "typo.jsonl"]).fails(2, &["`a` waits for `zzz`", "not in the trace"]);
}

#[test]
fn options_that_say_nothing_are_refused() {
    let dir = seven().file("pods.csv", PODS).file("nodes.csv", NODES);
    let fails = |args: &[&str], parts: &[&str]| dir.run(&[&["replay"], args].concat()).fails(2, parts);
    fails(&["seven.swf", "--policy", "easy", "--sequence", "0:3"], &["fcfs, sjf or f1"]);
    fails(&["seven.swf", "--policy", "sjf", "--sequence", "0:3", "--out", "o"], &["--out", "--sequence"]);
    fails(&["seven.swf", "--policy", "sjf", "--estimate", "true"], &["one job at a time"]);
    fails(
        &["seven.swf", "--procs", "2", "--policy", "sjf", "--sequence", "0:3"],
        &["takes 3 of 2 processors"],
    );
    fails(&["seven.swf", "--policy", "fit"], &["batch policy"]);
    fails(&["seven.swf", "--curve-out", "c"], &["packing"]);
    fails(&["seven.swf", "--fail-if", "mean_wait_s>+10%"], &["baseline", "compare"]);
    fails(&["seven.swf", "--fail-if", "utilisation<90%"], &["sign"]);
    fails(&["pods.csv", "--nodes", "nodes.csv", "--policy", "balanced"], &["push policy"]);
    fails(&["pods.csv", "--nodes", "nodes.csv", "--events", "single"], &["--events", "without time"]);
    let twice = ["compare", "seven.swf", "--policy", "easy", "--policy", "easy"];
    dir.run(&twice).fails(2, &["two of policy `easy`"]);
    // A measure that a run does not have cannot hold its bound.
    assert_eq!(dir.run(&["replay", "seven.swf", "--fail-if", "qos_compliance<0.5"]).code, 4);
    assert!(!dir.files().contains(&"o".to_owned()), "nothing was left behind");
}

#[test]
fn a_log_comes_from_standard_input_and_its_schedule_also_from_a_profile() {
    let dir = seven();
    let json = dir.run_with_stdin(&["replay", "-", "--policy", "easy", "--json"], SEVEN).json();
    assert_eq!(json["jobs"], 7);
    let args = ["replay", "seven.swf", "--policy", "balanced", "--schedule-out", "b.swf"];
    assert_eq!(dir.run(&args).code, 0);
    assert_eq!(waits(&dir, "b.swf").len(), 7);
}
