//! Pools of all kinds side by side, and gangs.

use crate::stand::{Stand, refused};

const POOLS: &str = r#"
[[pools]]
id = "push"
dispatch = "push"
[[pools]]
id = "pull"
dispatch = "pull"
# The usual policy keeps work off a worker that is as busy as a machine that runs tests.
policy = "simple"
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

#[test]
fn a_pool_with_an_unknown_policy_works_on_and_says_so() {
    let mut stand = Stand::with_config("[[pools]]\nid = \"odd\"\ndispatch = \"push\"\npolicy = \"fot\"\n");
    let warned = |log: &str, policy: &str| {
        log.contains(&format!("there is no policy `{policy}`"))
            && log.contains("uses `resource-aware` instead")
    };
    assert!(warned(&stand.log("server"), "fot"), "a settings file: {}", stand.log("server"));

    let said = stand.run(&["pools", "set", "hpc", "--dispatch", "batch", "--policy", "balancd"]);
    assert!(warned(&said.err, "balancd") && said.err.contains("did you mean `balanced`?"), "{}", said.err);
    assert!(warned(&stand.log("server"), "balancd"), "{}", stand.log("server"));
    let page = said.ok();
    assert!(page.contains("balancd") && page.contains("resource-aware"), "{page}");
    let shown = stand.json(&["pools", "show", "hpc"]);
    assert_eq!((&shown["policy"], &shown["policy_in_force"]), (&"balancd".into(), &"resource-aware".into()));
    assert_eq!(shown["warnings"].as_array().unwrap().len(), 1);

    // A journal that names it is no obstacle either.
    stand.kill_server();
    let before = stand.log("server").len();
    stand.start_server();
    assert!(warned(&stand.log("server")[before..], "balancd"), "{}", stand.log("server"));
    stand.agent("n", &["--pool", "hpc", "--cpus", "2"]);
    let id = stand.submit(&["--pool", "hpc", "--cpu", "1", "--", "true"]);
    assert_eq!(stand.wait_for(&id, &["completed", "failed"])["state"], "completed");

    let right = stand.json(&["pools", "set", "hpc", "--policy", "balanced"]);
    assert_eq!(
        (&right["policy_in_force"], &right["warnings"]),
        (&"balanced".into(), &serde_json::Value::Null)
    );
    let file = stand.path("wrong.toml");
    std::fs::write(&file, "name = 'x'\ndescription = 'y'\nfilters = [{ name = 'no-such' }]\n").unwrap();
    let refused = stand.run(&["pools", "set", "hpc", "--policy-file", file.to_str().unwrap()]);
    assert_ne!(refused.code, 0, "a file with mistakes is refused");
}

/// Fetch first: any worker looks for the result, and who has the architecture makes it if it is not there.
#[test]
fn what_may_exist_elsewhere_is_looked_for_before_it_is_made() {
    let config = "[agent]\narchitectures = [\"x86_64\"]\nfetch = true\neval = true\n\
                  [[pools]]\nid = \"farm\"\ndispatch = \"pull\"\n[[pools]]\nid = \"push\"\ndispatch = \"push\"\n";
    let mut stand = Stand::with_config(config);
    stand.agent("n1", &["--pool", "farm", "--cpus", "2"]);
    let fetchable = ["--pool", "farm", "--need", "fetchable=true", "--need"];
    let submit = |stand: &Stand, need: &str, script: &str| {
        stand.submit(&[&fetchable[..], &[need, "--", "sh", "-c", script]].concat())
    };
    let found = submit(&stand, "architecture=riscv64", "test \"$LANDFALL_TASK\" = fetch");
    let job = stand.wait_for(&found, &["completed", "failed"]);
    assert_eq!((&job["state"], &job["attempt"]), (&"completed".into(), &1.into()), "{job}");
    let made = submit(&stand, "architecture=x86_64", "test -z \"$LANDFALL_TASK\" && echo made");
    let job = stand.wait_for(&made, &["completed", "failed"]);
    assert_eq!((&job["state"], &job["attempt"]), (&"completed".into(), &3.into()), "{job}");
    let stalled = submit(&stand, "architecture=riscv64", "false");
    stand.until("it was looked for often enough", || stand.job(&stalled)["attempt"] == 3);
    let page = stand.run(&["explain", &stalled]).ok();
    assert!(page.contains("no node of architecture riscv64 is connected"), "{page}");
    let eval = ["--need", "kind=eval", "--need", "fetch_task=true", "--need", "evaluate_task=true"];
    let whole = stand.submit(
        &[&["--pool", "farm"], &eval[..], &["--", "sh", "-c", "test -z \"$LANDFALL_TASK\""]].concat(),
    );
    assert_eq!(stand.wait_for(&whole, &["completed", "failed"])["state"], "completed");
    for need in ["fetchable=true", "fetch_task=true"] {
        let said = stand.run(&["submit", "--pool", "push", "--need", need, "--", "true"]);
        crate::stand::refused(&said, &["has no effect in pool `push`"]);
    }
    let said = stand.run(&[
        "submit",
        "--pool",
        "farm",
        "--need",
        "fetchable=true",
        "--need",
        "kind=eval",
        "--",
        "true",
    ]);
    crate::stand::refused(&said, &["use fetch_task"]);
}

#[test]
fn a_job_has_the_price_of_its_pool_also_after_a_restart() {
    let mut stand = Stand::with_config("[[pools]]\nid = \"default\"\ndispatch = \"push\"\n");
    stand.agent("n", &["--cpus", "2"]);
    let free = stand.submit(&["--cpu", "1", "--", "true"]);
    assert!(stand.wait_for(&free, &["completed"])["price"].is_null());
    refused(&stand.run(&["pools", "set", "default", "--set", "price.base=-1"]), &["price.base must be 0 to"]);
    refused(
        &stand.run(&["pools", "set", "default", "--set", "price.base=1e9"]),
        &["price.base must be 0 to"],
    );
    stand.run(&["pools", "set", "default", "--set", "price.base=0.5"]).ok();
    let paid = stand.submit(&["--cpu", "1", "--", "true"]);
    // The machine may have GPUs; the job holds none.
    assert_eq!(stand.wait_for(&paid, &["completed"])["price"], 0.25);
    stand.kill_server();
    stand.start_server();
    assert_eq!(stand.job(&paid)["price"], 0.25);
    assert!(stand.run(&["job", &paid]).ok().contains("0.25"));
}
