//! A node that does not know what began there says so once; later it does not cost any job its only attempt.

use crate::stand::Stand;
use crate::storm::{Line, Weather};

#[track_caller]
fn places_a_job_that_runs_once(stand: &Stand) -> String {
    let id = stand.submit(&["--retries", "0", "--", "true"]);
    assert_eq!(stand.job(&id)["state"], "staging");
    id
}

#[track_caller]
fn it_completes(stand: &Stand, id: &str) {
    let job = stand.wait_for(id, &["completed", "failed"]);
    assert_eq!(job["state"], "completed", "{job}");
}

#[test]
fn a_job_that_runs_once_is_not_lost_when_its_node_registers_again_before_it_answers() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let stand = Stand::new();
    let line = runtime.block_on(Line::to(stand.url().trim_start_matches("http://").to_owned()));
    let (token, data) = (stand.data().join("token"), stand.path("n1"));
    let args = ["agent", "--node", "n1", "--cpus", "2", "--server", &line.url, "--token-file"];
    let more = [token.to_str().unwrap(), "--data-dir", data.to_str().unwrap()];
    let _agent = stand.start("n1", stand.command(), &[&args[..], &more].concat());
    stand.until_ready("n1");
    line.set(Weather::Cut);
    let id = places_a_job_that_runs_once(&stand);
    line.mend(false);
    it_completes(&stand, &id);
}

#[test]
fn nor_when_the_agent_is_killed_before_it_answers() {
    let mut stand = Stand::with_agent(&["--cpus", "2"]);
    let mut agent = stand.agent_process("n1");
    agent.signal("STOP");
    let id = places_a_job_that_runs_once(&stand);
    agent.kill();
    stand.agent_unready("n1", &["--cpus", "2"]);
    it_completes(&stand, &id);
}
