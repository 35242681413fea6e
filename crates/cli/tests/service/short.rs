//! Short tasks, many at once: nodes are told some of them ahead, and many submissions go in one request.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::stand::Stand;

/// How often the journal says that a node was told something before it had room.
fn told_ahead(stand: &Stand) -> usize {
    let events = stand.run(&["--json", "events", "--after", "0"]).ok();
    let ahead = |line: &&str| {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        event["kind"] == "committed" && event["event"]["ahead"] == true
    };
    events.lines().filter(ahead).count()
}

#[test]
fn short_tasks_told_ahead_run_once_each_though_server_and_agent_are_killed() {
    let mut stand = Stand::with_agent(&["--cpus", "2"]);
    let runs = stand.path("runs");
    let script = format!("echo $LANDFALL_ARRAY_INDEX >> {}", runs.display());
    let array = stand.submit(&["--cpu", "1", "--array", "1-900", "--", "sh", "-c", &script]);
    let completed = |stand: &Stand| stand.array(&array)["completed"].as_u64().unwrap_or(0);
    for so_many in [100, 300, 500] {
        stand.until("some have ended", || completed(&stand) >= so_many);
        stand.kill_server();
        if so_many == 300 {
            stand.agent_process("n1").kill();
        }
        stand.start_server();
        if so_many == 300 {
            stand.agent("n1", &["--cpus", "2"]);
        }
    }
    stand.until("all have ended", || completed(&stand) == 900);
    let mut ends: BTreeMap<String, u32> = BTreeMap::new();
    for line in std::fs::read_to_string(&runs).unwrap().lines() {
        *ends.entry(line.to_owned()).or_default() += 1;
    }
    assert_eq!(ends.len(), 900, "every element left a line");
    assert_eq!(ends.iter().find(|(_, count)| **count != 1), None, "one line each");
    assert!(told_ahead(&stand) > 100, "the node was told {} ahead", told_ahead(&stand));
    let output = stand.run(&["logs", &format!("{array}.007")]);
    assert_eq!(output.ok(), "");
}

#[test]
fn a_pool_can_do_without_and_a_cancelled_array_leaves_nothing_running() {
    let mut stand =
        Stand::with_config("[[pools]]\nid = \"default\"\ndispatch = \"push\"\n[pools.push]\nahead = 0\n");
    stand.agent("n1", &["--cpus", "2"]);
    let array = stand.submit(&["--cpu", "1", "--array", "1-60", "--", "true"]);
    stand.until("all have ended", || stand.array(&array)["completed"] == 60);
    assert_eq!(told_ahead(&stand), 0);

    stand.run(&["pools", "set", "default", "--set", "push.ahead=4"]).ok();
    let array = stand.submit(&["--cpu", "1", "--array", "1-5000", "--", "sleep", "0.02"]);
    stand.until("some were told ahead", || told_ahead(&stand) > 20);
    stand.run(&["cancel", &array]).ok();
    stand.until("nothing runs", || {
        let node = stand.node("n1");
        node["jobs"] == json!([]) && stand.array(&array)["running"].as_u64().unwrap_or(0) == 0
    });
    let array = stand.array(&array);
    let count = |state: &str| array[state].as_u64().unwrap_or(0);
    assert_eq!((count("completed") + count("cancelled"), count("failed")), (5000, 0), "{array}");
}

#[test]
fn many_submissions_in_one_request_are_answered_line_by_line() {
    let stand = Stand::new();
    let job = |name: &str| json!({ "name": name, "hold": true, "run": { "command": ["true"] } }).to_string();
    let mut body: Vec<String> = (1..=300).map(|number| job(&format!("j{number}"))).collect();
    body[9] = "{ \"needs\": { \"cpu_mili\": 1 } }".to_owned();
    body[19] = "{ no json".to_owned();
    body[29].clear();
    let send = || stand.says_lines("/jobs/stream", &[("idempotency-key", "sweep-1")], &body);
    let answers = send();
    let lines: Vec<u64> = answers.iter().map(|answer| answer["line"].as_u64().unwrap()).collect();
    let expected: Vec<u64> = (1..=300).filter(|line| *line != 30).collect();
    assert_eq!(lines, expected, "in order, and an empty line is none");
    let refused: Vec<(u64, &str)> = answers
        .iter()
        .filter(|answer| answer.get("error").is_some())
        .map(|answer| (answer["line"].as_u64().unwrap(), answer["error"]["code"].as_str().unwrap()))
        .collect();
    assert_eq!(refused, [(10, "invalid_needs"), (20, "malformed_json")], "the others are accepted");
    let waiting = stand.json(&["status"])["jobs"].clone();
    let count: u64 = waiting.as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(count, 297, "{waiting}");
    let again = send();
    assert_eq!(again[0]["id"], answers[0]["id"]);
    assert!(again[0]["repeated"] == true, "the same lines under the same key are the same jobs");
}
