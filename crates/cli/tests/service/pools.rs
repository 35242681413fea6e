//! Pools of all kinds side by side, and gangs.

use crate::stand::Stand;

const POOLS: &str = r#"
[[pools]]
id = "push"
dispatch = "push"
[[pools]]
id = "pull"
dispatch = "pull"
[[pools]]
id = "batch"
dispatch = "batch"
"#;

#[test]
fn push_pull_and_batch_work_side_by_side() {
    let mut stand = Stand::with_config(POOLS);
    for pool in ["push", "pull", "batch"] {
        stand.agent(&format!("{pool}-1"), &["--pool", pool, "--cpus", "2"]);
    }
    let mut jobs = Vec::new();
    for pool in ["push", "pull", "batch"] {
        for _ in 0..5 {
            jobs.push((pool, stand.submit(&["--pool", pool, "--cpu", "1", "--", "true"])));
        }
    }
    for (pool, id) in jobs {
        let job = stand.wait_for(&id, &["completed", "failed"]);
        assert_eq!(job["state"], "completed", "{job}");
        assert_eq!(job["nodes"][0]["node"], format!("{pool}-1"));
    }
}

#[test]
fn a_gang_runs_on_three_agents_at_once_or_not_at_all() {
    let mut stand = Stand::with_config("[[pools]]\nid = \"hpc\"\ndispatch = \"batch\"\n");
    for node in ["a", "b"] {
        stand.agent(node, &["--cpus", "2"]);
    }
    let meeting = stand.path("meeting");
    std::fs::create_dir(&meeting).unwrap();
    // Every member waits until all three are there, so it can only end if they run together.
    let script = format!(
        "touch {0}/$LANDFALL_NODE_RANK; while [ $(ls {0} | wc -l) -lt 3 ]; do sleep 0.05; done; echo $LANDFALL_NODES",
        meeting.display()
    );
    let refused = stand.run(&["submit", "--nodes", "3", "--walltime", "5m", "--", "sh", "-c", &script]);
    assert_ne!(refused.code, 0, "two nodes can never hold three");
    stand.agent("c", &["--cpus", "2"]);
    let id = stand.submit(&["--nodes", "3", "--walltime", "5m", "--", "sh", "-c", &script]);
    let job = stand.wait_for(&id, &["completed", "failed"]);
    assert_eq!(job["state"], "completed", "{job}");
    assert_eq!(job["nodes"].as_array().unwrap().len(), 3);
    assert!(stand.run(&["logs", &id]).ok().contains("a,b,c"));
    // A member that fails fails the gang, and the others are stopped.
    let script = "test $LANDFALL_NODE_RANK -ne 1 || exit 9; sleep 60";
    let id = stand.submit(&["--nodes", "3", "--walltime", "5m", "--", "sh", "-c", script]);
    let job = stand.wait_for(&id, &["failed"]);
    assert_eq!(job["exit_code"], 9, "{job}");
}
