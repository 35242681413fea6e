//! Agent and server come to rest: nothing is said again and again.

use std::time::Duration;

use crate::stand::Stand;

/// How many commands the server has sent.
fn commands(stand: &Stand) -> u64 {
    let metrics = stand.metrics();
    let line = metrics.lines().find(|line| line.starts_with("landfall_commands_total")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_job_that_left_with_its_work_saved_is_not_talked_about_for_ever() {
    let stand = Stand::with_agent(&["--cpus", "2"]);
    let script = "trap 'touch $LANDFALL_CHECKPOINT_DIR/done' USR1; echo up; while :; do sleep 0.05; done";
    let id = stand.submit(&["--checkpoint", "manual", "--", "sh", "-c", script]);
    stand.until("it is up", || stand.run(&["logs", &id]).out.contains("up"));
    stand.run(&["suspend", &id]).ok();
    stand.wait_for(&id, &["suspended"]);
    let before = commands(&stand);
    // In this second the two said the same to each other some thousand times.
    std::thread::sleep(Duration::from_secs(1));
    let said = commands(&stand) - before;
    assert!(said < 10, "{said} commands in one second about a job that is gone");
    stand.run(&["resume", &id]).ok();
    stand.wait_for(&id, &["running"]);
    stand.run(&["cancel", &id]).ok();
    stand.wait_for(&id, &["cancelled"]);
}
