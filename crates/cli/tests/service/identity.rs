//! A restored server and an agent that was left running: nothing of the journal before is taken for a job of this one.

use std::path::Path;

use crate::stand::Stand;

#[test]
fn an_agent_that_was_left_running_takes_nothing_for_a_job_of_the_restored_server() {
    let mut stand = Stand::with_agent(&["--cpus", "4"]);
    let submit = |name: &str| {
        let script = format!("echo $$ > {}; exec sleep 600", stand.path(name).display());
        let id = stand.submit(&["--", "sh", "-c", &script]);
        stand.until("it runs", || stand.path(name).exists());
        stand.wait_for(&id, &["running"]);
        id
    };
    let lives = |name: &str| {
        let pid = std::fs::read_to_string(stand.path(name)).unwrap();
        Path::new("/proc").join(pid.trim()).exists()
    };
    let kept = submit("kept");
    let backup = stand.path("backup.db");
    let data = stand.data();
    let (backup, data) = (backup.to_str().unwrap(), data.to_str().unwrap());
    stand.run(&["backup", "--data-dir", data, "--to", backup]).ok();
    let dropped = submit("dropped");
    let ended = stand.submit(&["--", "echo", "of the journal before"]);
    stand.wait_for(&ended, &["completed"]);
    assert!(lives("kept") && lives("dropped"));

    stand.kill_server();
    std::fs::rename(data, stand.path("before")).unwrap();
    stand.run(&["restore", backup, "--data-dir", data]).ok();
    stand.start_server();
    stand.until("the node is back", || stand.node("n1")["connected"] == true);
    let job = stand.wait_for(&kept, &["running"]);
    assert_eq!(job["attempt"], 1, "{job}");
    let pid = |name: &str| std::fs::read_to_string(stand.path(name)).unwrap();
    let (kept_pid, dropped_pid) = (pid("kept"), pid("dropped"));
    let gone = |pid: &str| !Path::new("/proc").join(pid.trim()).exists();
    stand.until("what the backup does not know is ended", || gone(&dropped_pid));
    assert!(!gone(&kept_pid), "what it knows goes on");
    for id in [&dropped, &ended] {
        assert_ne!(stand.run(&["job", id]).code, 0, "job {id} is of the journal before");
    }
    let new = stand.submit(&["--", "echo", "of this journal"]);
    assert!(new != dropped && new != ended, "no number is given twice");
    stand.wait_for(&new, &["completed"]);
    assert_eq!(stand.run(&["logs", &new]).ok(), "of this journal\n");
    assert!(stand.log("n1").contains("another journal"), "{}", stand.log("n1"));
    stand.run(&["cancel", &kept]).ok();
    stand.wait_for(&kept, &["cancelled"]);
}
