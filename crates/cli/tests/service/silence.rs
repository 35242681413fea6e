//! Nodes that are not heard: because nobody listened, because they are gone, because nothing is worth a word.

use std::time::Duration;

use crate::stand::Stand;

/// A pool that gives up quickly.
const QUICK: &str = r#"
[[pools]]
id = "default"
[pools.silence]
node_unknown_after_ms = 1500
node_down_after_ms = 2500
requeue_after_ms = 3000
"#;

fn patient(stand: &Stand) -> String {
    let script = format!("while ! test -e {}; do sleep 0.05; done", stand.path("go").display());
    let id = stand.submit(&["--cpu", "1", "--", "sh", "-c", &script]);
    stand.wait_for(&id, &["running"]);
    id
}

#[test]
fn a_server_that_was_away_gives_nobody_up() {
    let mut stand = Stand::with_config(QUICK);
    for node in ["n1", "n2"] {
        stand.agent(node, &["--cpus", "4"]);
    }
    let job = patient(&stand);
    stand.kill_server();
    std::thread::sleep(Duration::from_millis(4500));
    stand.start_server();
    for node in ["n1", "n2"] {
        stand.until(&format!("{node} is back"), || stand.node(node)["connected"] == true);
    }
    std::thread::sleep(Duration::from_millis(3500));
    let events = stand.run(&["events", "--after", "0"]).ok();
    assert!(!events.contains("requeued") && !events.contains("to down"), "{events}");
    std::fs::write(stand.path("go"), "").unwrap();
    assert_eq!(stand.wait_for(&job, &["completed", "failed"])["attempt"], 1);
}

#[test]
fn a_server_that_was_stopped_for_seconds_gives_nobody_up() {
    let mut stand = Stand::with_config(
        "[[pools]]\nid = \"default\"\n[pools.silence]\nnode_unknown_after_ms = 1000\nnode_down_after_ms = 2500\nrequeue_after_ms = 3000\n",
    );
    stand.agent("n1", &["--cpus", "4"]);
    let job = patient(&stand);
    for _ in 0..2 {
        stand.signal_server("STOP");
        std::thread::sleep(Duration::from_millis(4200));
        stand.signal_server("CONT");
        std::thread::sleep(Duration::from_millis(1500));
    }
    let events = stand.run(&["events", "--after", "0"]).ok();
    assert!(!events.contains("requeued") && !events.contains("to down"), "{events}");
    std::fs::write(stand.path("go"), "").unwrap();
    assert_eq!(stand.wait_for(&job, &["completed", "failed"])["attempt"], 1);
}

#[test]
fn the_job_of_a_dead_agent_runs_elsewhere_when_its_pool_says_so() {
    let mut stand = Stand::with_config(QUICK);
    for node in ["n1", "n2"] {
        stand.agent(node, &["--cpus", "4"]);
    }
    let shown = stand.run(&["pools", "show", "default"]).ok();
    assert!(shown.contains("requeue_after_ms"), "{shown}");
    let id = patient(&stand);
    let node = stand.job(&id)["nodes"][0]["node"].as_str().unwrap().to_owned();
    stand.agent_process(&node).kill();
    stand.until("it runs elsewhere", || {
        let job = stand.job(&id);
        job["state"] == "running" && job["attempt"] == 2
    });
    assert_ne!(stand.job(&id)["nodes"][0]["node"], node.as_str());
    assert_eq!(stand.node(&node)["state"], "down");
    std::fs::write(stand.path("go"), "").unwrap();
    stand.wait_for(&id, &["completed"]);
}

#[test]
fn times_of_silence_are_checked_and_reach_the_agents() {
    let mut stand = Stand::with_agent(&["--cpus", "1"]);
    let set = |stand: &Stand, field: &str| stand.run(&["pools", "set", "default", "--set", field]);
    for (field, words) in [
        ("silence.node_unknown_after_ms=10", "node_unknown_after_ms must be 1000"),
        ("silence.requeue_after_ms=5000", "must not be below silence.node_unknown_after_ms"),
        ("silence.requeue_limit=0", "requeue_limit must be above 0"),
        ("silence.requeue_limit=2", "requeue_limit must be 0 to 1"),
    ] {
        let said = set(&stand, field);
        assert!(said.code != 0 && said.err.contains(words), "{field}: {} {}", said.code, said.err);
    }
    // An agent that was told to speak every ten seconds would be lost after two.
    set(&stand, "silence.node_unknown_after_ms=2000").ok();
    let beats = |stand: &Stand| heartbeats(&stand.metrics());
    let first = beats(&stand);
    stand.until("it speaks more often", || beats(&stand) >= first + 5);
    stand.until("it is ready", || stand.node("n1")["state"] == "ready");
    stand.agent_process("n1").kill();
    stand.until("it is missed", || stand.node("n1")["state"] == "unknown");
}

/// Heartbeats that were answered.
fn heartbeats(metrics: &str) -> u64 {
    let line = metrics.lines().find(|line| {
        line.starts_with("landfall_http_requests_total")
            && line.contains("/heartbeat")
            && line.contains("\"200\"")
    });
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn heartbeats_that_say_nothing_new_are_not_stored() {
    let config = "[[pools]]\nid = \"default\"\n[pools.silence]\nnode_unknown_after_ms = 1000\n";
    let mut stand = Stand::with_config(config);
    stand.agent("n1", &["--cpus", "1"]);
    let id = stand.submit(&["--", "true"]);
    stand.wait_for(&id, &["completed"]);
    stand.until("the node says that nothing runs", || heartbeats(&stand.metrics()) >= 5);
    let bytes = |stand: &Stand| -> u64 {
        let files = ["journal.db", "journal.db-wal"].map(|name| stand.data().join(name));
        files.iter().filter_map(|file| std::fs::metadata(file).ok()).map(|file| file.len()).sum()
    };
    let seq = |stand: &Stand| stand.json(&["status"])["seq"].as_u64().unwrap();
    let before = (bytes(&stand), seq(&stand), heartbeats(&stand.metrics()));
    stand.until("there were twenty more", || heartbeats(&stand.metrics()) >= before.2 + 20);
    let after = (bytes(&stand), seq(&stand), heartbeats(&stand.metrics()));
    let per_heartbeat = (after.0 - before.0) as f64 / (after.2 - before.2) as f64;
    assert!(per_heartbeat <= 20.0, "{per_heartbeat} bytes each, {} events", after.1 - before.1);
    assert_eq!(stand.node("n1")["state"], "ready");
    // What was not stored is not missed: the events give the state that the server had.
    let data = stand.data();
    stand.end_server();
    let verified = stand.json(&["replay", "--journal", data.to_str().unwrap(), "--verify"]);
    assert_eq!(verified["snapshots"].as_array().unwrap().last(), Some(&verified["to"]), "{verified}");
}
