//! Many jobs at once.

use crate::stand::Stand;

#[test]
fn an_array_of_ten_thousand_runs_to_its_end() {
    let stand = Stand::with_agent(&["--cpus", "16"]);
    let id = stand.submit(&["--array", "1-10000", "--", "sh", "-c", "test $LANDFALL_ARRAY_INDEX -ne 777"]);
    let mut last = serde_json::Value::Null;
    stand.until("the array is over", || {
        last = stand.array(&id);
        let ended = ["completed", "failed", "cancelled"].map(|state| last[state].as_u64().unwrap_or(0));
        ended.iter().sum::<u64>() == 10_000
    });
    assert_eq!((last["completed"].as_u64(), last["failed"].as_u64()), (Some(9999), Some(1)), "{last}");
    let element = stand.job(&format!("{id}.777"));
    assert_eq!((element["state"].as_str(), element["exit_code"].as_i64()), (Some("failed"), Some(1)));
    assert_eq!(element["attempt"], 1, "nothing ran twice");
}

#[test]
fn an_array_is_cancelled_as_a_whole() {
    let stand = Stand::with_agent(&["--cpus", "4"]);
    let id = stand.submit(&["--array", "1-5000", "--", "sleep", "30"]);
    stand.until("some run", || stand.array(&id)["running"].as_u64() > Some(0));
    stand.run(&["cancel", &id]).ok();
    stand.until("all are cancelled", || stand.array(&id)["cancelled"] == 5000);
}

#[test]
fn a_list_of_elements_says_how_many_it_leaves_out() {
    let stand = Stand::new();
    let id = stand.submit(&["--array", "1-5000", "--", "true"]);
    let said = stand.run(&["jobs", "--array", &id, "--limit", "6000"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let listed = said.out.lines().filter(|line| line.trim_start().starts_with(&format!("{id}."))).count();
    let rest = format!("{} more elements wait", 5000 - listed);
    assert!(said.err.contains(&rest), "{listed} listed; {}", said.err);
}
