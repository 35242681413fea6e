//! What happens to jobs when nodes drain, die and come back.

use crate::stand::Stand;

#[test]
fn a_draining_node_finishes_what_it_has_and_takes_nothing_new() {
    let stand = Stand::with_agent(&["--cpus", "4"]);
    let running = stand.submit(&["--", "sleep", "2"]);
    stand.wait_for(&running, &["running"]);
    stand.run(&["drain", "n1"]).ok();
    let waiting = stand.submit(&["--", "true"]);
    stand.wait_for(&running, &["completed"]);
    stand.until("the node is drained", || stand.node("n1")["state"] == "drained");
    assert_eq!(stand.job(&waiting)["state"], "pending");
    stand.run(&["return", "n1"]).ok();
    stand.wait_for(&waiting, &["completed"]);
}

#[test]
fn a_job_goes_on_when_its_agent_is_killed_and_comes_back() {
    let mut stand = Stand::with_agent(&[]);
    let id = stand.submit(&["--", "sh", "-c", "sleep 4; echo survived; exit 5"]);
    stand.wait_for(&id, &["running"]);
    stand.agent_process("n1").kill();
    std::thread::sleep(std::time::Duration::from_secs(1));
    stand.agent_unready("n1", &[]);
    let job = stand.wait_for(&id, &["completed", "failed"]);
    assert_eq!((job["exit_code"].as_i64(), job["attempt"].as_i64()), (Some(5), Some(1)), "{job}");
    assert_eq!(stand.run(&["logs", &id]).ok(), "survived\n");
}

#[test]
fn a_job_runs_elsewhere_when_its_node_is_gone() {
    let mut stand = Stand::with_agent(&["--cpus", "2"]);
    let id = stand.submit(&["--cpu", "2", "--", "sh", "-c", "echo on $LANDFALL_NODE_ID; sleep 1"]);
    let long = stand.submit(&["--cpu", "2", "--", "sh", "-c", "test $LANDFALL_NODE_ID = n2 || sleep 600"]);
    stand.wait_for(&id, &["completed"]);
    stand.wait_for(&long, &["running"]);
    stand.agent_process("n1").kill();
    stand.agent("n2", &["--cpus", "2"]);
    // An operator who knows that a machine is gone need not wait for two minutes of silence.
    stand.run(&["remove", "n1"]).ok();
    let job = stand.wait_for(&long, &["completed"]);
    assert_eq!((job["nodes"][0]["node"].as_str(), job["attempt"].as_i64()), (Some("n2"), Some(2)), "{job}");
}

#[test]
fn of_two_agents_with_one_name_the_later_one_stays() {
    let mut stand = Stand::with_agent(&[]);
    stand.agent_in("twin", "n1", &[]);
    let mut first = stand.agent_process("n1");
    let mut code = None;
    stand.until("the first one gives way", || {
        code = first.ended();
        code.is_some()
    });
    assert_ne!(code, Some(0));
    let said = std::fs::read_to_string(stand.path("n1.log")).unwrap();
    assert!(said.contains("another agent") && said.contains("--node NAME"), "{said}");
    let id = stand.submit(&["--", "true"]);
    stand.wait_for(&id, &["completed"]);
    // One that is there cannot be taken out: it would be back at once.
    let refused = stand.run(&["remove", "n1"]);
    assert!(refused.code != 0 && refused.err.contains("stop the agent first"), "{}", refused.err);
    stand.agent_process("twin").kill();
    stand.until("it can be taken out", || stand.run(&["remove", "n1"]).code == 0);
}
