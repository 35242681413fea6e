//! Simulated nodes: they join where they are allowed, do what agents do, and are gone afterwards.

use std::time::Duration;

use serde_json::{Value, json};

use crate::stand::Stand;

const ALLOWED: &str = "[server]\nallow_hollow = true\n";

#[test]
fn a_server_that_was_not_told_so_takes_no_hollow_nodes() {
    let stand = Stand::new();
    let said = stand.run(&["hollow", "--nodes", "3", "--for", "20s"]);
    assert_eq!(said.code, 8, "{}", said.err);
    assert!(
        said.err.contains("takes no hollow nodes") && said.err.contains("--allow-hollow"),
        "{}",
        said.err
    );
    assert_eq!(stand.json(&["nodes"])["nodes"].as_array().unwrap().len(), 0);
    let said = stand.run(&["hollow", "--nodes", "2", "--for", "1s", "--server", "http://127.0.0.1:1"]);
    assert!(said.code != 0 && said.err.contains("is it up?"), "{}: {}", said.code, said.err);
    for (args, why) in [
        (["--nodes", "0"], "from 1 to"),
        (["--fail", "5"], "write it as 1%"),
        (["--vanish", "5%"], "0.1%/h"),
        (["--gpus", "many"], "8:A100"),
        (["--task-time", "2s..1s"], "longer"),
        (["--cpus", "0"], "--cpus"),
        (["--memory", "0"], "more than nothing"),
        (["--gpus", "8:A100:0"], "more than nothing"),
    ] {
        let said = stand.run(&["hollow", args[0], args[1]]);
        assert!(said.code != 0 && said.err.contains(why), "{args:?}: {}", said.err);
    }
}

#[test]
fn hollow_nodes_run_jobs_in_every_way_to_dispatch_and_leave_nothing_behind() {
    let pools = ["push", "pull", "batch"]
        .map(|dispatch| format!("[[pools]]\nid = \"{dispatch}\"\ndispatch = \"{dispatch}\"\n"));
    let stand = Stand::with_config(&format!("{ALLOWED}{}", pools.concat()));
    for pool in ["push", "pull", "batch"] {
        let args = ["hollow", "--nodes", "40", "--cpus", "2", "--gpus", "1:A100:80GiB"];
        let more =
            ["--task-time", "0s..50ms", "--fail", "20%", "--seed", "5", "--pool", pool, "--prefix", pool];
        let mut ghosts = stand.start(pool, stand.command(), &[&args[..], &more[..]].concat());
        stand.until("all nodes are there", || {
            let nodes = stand.json(&["nodes", "--pool", pool, "--state", "ready"]);
            let joined = |node: &Value| node["hollow"] == true && node["connected"] == true;
            nodes["nodes"].as_array().is_some_and(|nodes| nodes.len() == 40 && nodes.iter().all(joined))
        });
        assert!(stand.run(&["nodes", "--pool", pool]).ok().contains("hollow: nothing runs here"));
        let needs = ["--pool", pool, "--array", "1-400", "--walltime", "1min", "--retries", "0"];
        let array = stand.submit(&[&needs[..], &["--", "true"]].concat());
        stand.until("all tasks ended", || {
            let array = stand.array(&array);
            let count = |state: &str| array[state].as_u64().unwrap_or(0);
            count("completed") + count("failed") == 400 && (30..=130).contains(&count("failed"))
        });
        ghosts.signal("INT");
        stand.until("they are gone", || stand.json(&["status"])["nodes"] == json!({}));
        assert_eq!(stand.json(&["nodes", "--pool", pool])["nodes"], json!([]));
        stand.until("it has ended", || ghosts.ended() == Some(0));
        assert!(stand.log(pool).contains("400 jobs began, 400 ended"), "{}", stand.log(pool));
    }
}

#[test]
fn jobs_survive_hollow_nodes_that_vanish_and_a_server_that_is_killed() {
    let silence =
        "silence = { node_unknown_after_ms = 1000, node_down_after_ms = 2000, requeue_after_ms = 2000 }";
    let pool = format!("[[pools]]\nid = \"default\"\ndispatch = \"push\"\n{silence}\n");
    let mut stand = Stand::with_config(&format!("{ALLOWED}{pool}"));
    // Each node vanishes about every ten seconds.
    let args = ["hollow", "--nodes", "20", "--cpus", "4", "--task-time", "300ms", "--seed", "3"];
    let args = [&args[..], &["--vanish", "36000%/h", "--away", "3s"]].concat();
    let mut ghosts = stand.start("ghosts", stand.command(), &args);
    stand.until("nodes are there", || stand.json(&["status"])["agents_connected"].as_u64() > Some(15));
    let array = stand.submit(&["--array", "1-600", "--retries", "20", "--", "true"]);
    std::thread::sleep(Duration::from_millis(500));
    stand.kill_server();
    std::thread::sleep(Duration::from_millis(300));
    stand.start_server();
    stand.until("all tasks ended well", || stand.array(&array)["completed"] == 600);
    ghosts.signal("TERM");
    stand.until("it has ended", || ghosts.ended() == Some(0));
    assert!(!stand.log("ghosts").contains(" 0 nodes vanished"), "{}", stand.log("ghosts"));
}

#[test]
fn what_no_server_takes_ends_it_at_once_and_what_never_happens_does_not_happen() {
    let stand = Stand::with_config(ALLOWED);
    let long = "x".repeat(300);
    for (args, why) in
        [(["--cpus", "4294967295"], "larger than any machine"), (["--prefix", &long], "at most 256 bytes")]
    {
        let said = stand.run(&["hollow", "--nodes", "2", args[0], args[1], "--for", "60s"]);
        assert!(said.code != 0 && said.err.contains(why), "{args:?}: {}: {}", said.code, said.err);
        assert!(!said.err.contains("tried again"), "{}", said.err);
    }
    let rare = ["--vanish", "1e-19%/h", "--gpus", "2:NoSuch"];
    let args = [&["hollow", "--nodes", "3", "--for", "2s", "--json"][..], &rare].concat();
    let said = stand.run(&args);
    assert!(said.err.contains("no GPU `NoSuch` is known"), "{}", said.err);
    let summary: Value = serde_json::from_str(&said.ok()).unwrap();
    assert_eq!((&summary["vanished"], &summary["taken_out"]), (&json!(0), &json!(true)), "{summary}");
}

#[test]
fn a_hollow_node_keeps_the_time_limit_of_a_job() {
    let stand = Stand::with_config(ALLOWED);
    let mut ghosts =
        stand.start("ghosts", stand.command(), &["hollow", "--nodes", "1", "--task-time", "10min"]);
    let id = stand.submit(&["--timeout", "300ms", "--", "sleep", "600"]);
    stand.until("its time is up", || stand.job(&id)["state"] == "failed");
    assert_eq!(stand.job(&id)["reason"], "timeout", "{}", stand.job(&id));
    ghosts.signal("TERM");
    stand.until("it has ended", || ghosts.ended() == Some(0));
}
