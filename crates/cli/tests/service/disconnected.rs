//! A server that falls silent: jobs go on, but for those that would rather stop than run beside a second copy.

use std::path::Path;

use crate::stand::Stand;

fn lives(pid: &Path) -> bool {
    let pid = std::fs::read_to_string(pid).unwrap();
    Path::new("/proc").join(pid.trim()).exists()
}

#[test]
fn a_job_that_must_not_run_beside_its_copy_is_stopped_by_its_own_node() {
    silent_server(false);
}

#[test]
fn it_is_stopped_also_when_the_agent_is_gone() {
    silent_server(true);
}

fn silent_server(killed_too: bool) {
    let mut stand = Stand::with_agent(&["--cpus", "2"]);
    let submit = |name: &str, more: &[&str]| {
        let script = format!("echo $$ > {}; exec sleep 600", stand.path(name).display());
        let mut words = more.to_vec();
        words.extend(["--retries", "0", "--", "sh", "-c", &script]);
        let id = stand.submit(&words);
        stand.until("it runs", || stand.path(name).exists());
        stand.wait_for(&id, &["running"]);
        id
    };
    let stops = submit("stops", &["--need", "on_disconnect=stop", "--need", "disconnect_stop_after_ms=5000"]);
    let keeps = submit("keeps", &["--need", "disconnect_stop_after_ms=5000"]);
    // Longer than the job may go on alone: it is the silence of the server that counts, not the age of the job.
    std::thread::sleep(std::time::Duration::from_secs(6));
    assert!(lives(&stand.path("stops")));
    stand.signal_server("STOP");
    if killed_too {
        stand.agent_process("n1").kill();
    }
    stand.until("it is stopped", || !lives(&stand.path("stops")));
    assert!(lives(&stand.path("keeps")));
    stand.signal_server("CONT");
    if killed_too {
        stand.agent_unready("n1", &["--cpus", "2"]);
    }
    let job = stand.wait_for(&stops, &["failed"]);
    assert_eq!(job["reason"], "node_lost", "{job}");
    let said = stand.run(&["logs", &stops]);
    assert!(said.err.contains("the server was silent") || said.out.contains("the server was silent"));
    let job = stand.job(&keeps);
    assert_eq!((job["state"].as_str(), job["attempt"].as_u64()), (Some("running"), Some(1)), "{job}");
}
