//! Services that grow and shrink by what they say, alarms, and what else pools are told.

use serde_json::{Value, json};

use crate::stand::Stand;

const POOLS: &str = r#"
[[pools]]
id = "hpc"
dispatch = "batch"
silence = { node_unknown_after_ms = 3000 }
batch = { scale_interval_ms = 1000, scale_up_after_ms = 1000, scale_down_after_ms = 1000, scale_cooldown_ms = 1000 }
[[pools]]
id = "builds"
dispatch = "pull"
[[tenants]]
id = "red"
[[tenants]]
id = "blue"
"#;

fn alarms(stand: &Stand) -> Vec<Value> {
    stand.json(&["alarms"])["alarms"].as_array().unwrap().clone()
}

#[test]
fn a_service_grows_and_shrinks_by_what_it_says_and_its_silence_is_an_alarm() {
    let mut stand = Stand::with_config(POOLS);
    for node in ["a", "b"] {
        stand.agent(node, &["--pool", "hpc", "--cpus", "2"]);
    }
    let load = stand.path("load");
    std::fs::write(&load, "50 3").unwrap();
    let script =
        format!("while :; do cat {} > $LANDFALL_METRIC_FILE 2> /dev/null; sleep 0.2; done", load.display());
    let needs = [
        "--pool",
        "hpc",
        "--need",
        "lifecycle=reactive",
        "--need",
        "nodes={\"min\": 1, \"max\": 2}",
        "--need",
        "scale_target_milli=10000",
    ];
    let id = stand.submit(&[&needs[..], &["--", "sh", "-c", &script]].concat());
    let held = || stand.job(&id)["nodes"].as_array().map_or(0, Vec::len);
    stand.until("the service has both nodes", || held() == 2);
    std::fs::write(&load, "1").unwrap();
    stand.until("the service has given one back", || held() == 1);
    let job = stand.job(&id);
    assert_eq!(job["state"], "running", "{job}");
    // Who outside knows better may say so too.
    stand.run(&["metric", &id, "7"]).ok();
    assert!(alarms(&stand).iter().all(|alarm| alarm["kind"] != "metric_missing"), "{:?}", alarms(&stand));
    std::fs::remove_file(&load).unwrap();
    stand.until("its silence is an alarm", || {
        alarms(&stand)
            .iter()
            .any(|alarm| alarm["kind"] == "metric_missing" && alarm["subject"] == id.as_str())
    });
    let text = stand.run(&["alarms"]).ok();
    assert!(text.contains("has not told its metric") && text.contains("LANDFALL_METRIC_FILE"), "{text}");
    let number =
        alarms(&stand).iter().find(|alarm| alarm["kind"] == "metric_missing").unwrap()["id"].to_string();
    let seen = stand.json(&["alarms", "--acknowledge", &number]);
    assert!(seen["alarms"][0]["acknowledged_by"].is_string(), "{seen}");
    assert_eq!(stand.run(&["alarms", "--acknowledge", "999"]).code, 10);
    stand.run(&["cancel", &id]).ok();
    stand.until("the alarm is over with the job", || alarms(&stand).is_empty());
    // What does not scale has no metric.
    let plain = stand.submit(&["--pool", "hpc", "--walltime", "5m", "--", "sleep", "60"]);
    let said = stand.run(&["metric", &plain, "7"]);
    assert_eq!(said.code, 6, "{}", said.err);
    assert!(said.err.contains("does not scale") && said.err.contains("reactive"), "{}", said.err);
    let said = stand.run(&["metric", &plain, "-7"]);
    assert_eq!(said.code, 2, "{}", said.err);
}

#[test]
fn a_worker_that_no_longer_serves_a_tenant_gives_its_jobs_back() {
    let serving = |tenants: &str| format!("{POOLS}\n[agent]\ntenants = [{tenants}]\n");
    let worker = ["--pool", "builds", "--cpus", "2"];
    let mut stand = Stand::with_config(&serving("'red', 'blue'"));
    stand.agent("w", &worker);
    let red = stand.submit(&["--pool", "builds", "--tenant", "red", "--", "sleep", "600"]);
    stand.wait_for(&red, &["running"]);
    drop(stand.agent_process("w"));
    std::fs::write(stand.path("config.toml"), serving("'blue'")).unwrap();
    stand.agent("w", &worker);
    let job = stand.wait_for(&red, &["pending"]);
    assert_eq!(job["attempt"], 2, "{job}");
    assert_eq!(job["failures"].as_u64().unwrap_or(0), 0, "it uses no attempt up: {job}");
    let blue = stand.submit(&["--pool", "builds", "--tenant", "blue", "--", "true"]);
    stand.wait_for(&blue, &["completed"]);
}

#[test]
fn runs_from_before_teach_a_pull_pool() {
    let stand = Stand::with_config(POOLS);
    let row = json!({"workload": "kernel", "peak_ram_mib": 900, "build_time_ms": 60000});
    let rows: Vec<Value> = std::iter::repeat_n(row, 5).collect();
    let file = stand.path("runs.json");
    std::fs::write(&file, json!(rows).to_string()).unwrap();
    let said = stand.run(&["pools", "history", "builds", file.to_str().unwrap()]).ok();
    assert_eq!(said, "pool builds: 5 runs added\n");
    let said = stand.run(&["pools", "history", "hpc", file.to_str().unwrap()]);
    assert!(said.code != 0 && said.err.contains("no pull pool"), "{}", said.err);
    std::fs::write(&file, r#"[{"workload": "kernel", "peak_ram": 1}]"#).unwrap();
    let said = stand.run(&["pools", "history", "builds", file.to_str().unwrap()]);
    assert!(said.code == 3 && said.err.contains("did you mean `peak_ram_mib`?"), "{}", said.err);
}
