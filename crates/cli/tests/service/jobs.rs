//! One job: submit, run, logs, exit code, cancel, retry.

use std::path::Path;

use crate::stand::Stand;

#[test]
fn a_job_runs_and_says_what_it_wrote_and_how_it_ended() {
    let stand = Stand::with_agent(&[]);
    let id = stand.submit(&["--name", "greeter", "--", "sh", "-c", "echo out; echo err >&2; exit 3"]);
    let job = stand.wait_for(&id, &["failed"]);
    assert_eq!(job["exit_code"], 3);
    assert_eq!(job["name"], "greeter");
    assert_eq!(job["nodes"][0]["node"], "n1");
    assert_eq!(stand.run(&["logs", &id]).ok(), "out\n");
    assert_eq!(stand.run(&["logs", "--stderr", &id]).err, "err\n");
    // People see the same.
    let shown = stand.run(&["job", &id]).ok();
    assert!(shown.contains("greeter") && shown.contains("failed"), "{shown}");
    let listed = stand.run(&["jobs", "--all"]).ok();
    assert!(listed.contains("greeter"), "{listed}");
}

#[test]
fn waiting_ends_with_the_exit_code_of_the_job_and_shows_its_output() {
    let stand = Stand::with_agent(&[]);
    let said = stand.run(&["submit", "--wait", "--", "sh", "-c", "echo hello; exit 7"]);
    assert!(said.out.contains("hello"), "{}", said.out);
    said.ends_with(7);
    stand.run(&["submit", "--wait", "--", "true"]).ok();
    // A program that is not there is the job's own fault.
    let said = stand.run(&["submit", "--wait", "--", "no-such-program-anywhere"]);
    assert!(format!("{}{}", said.out, said.err).contains("no-such-program-anywhere"), "{}", said.err);
    said.ends_with(127);
}

#[test]
fn logs_follow_a_running_job() {
    let stand = Stand::with_agent(&[]);
    let id = stand.submit(&["--", "sh", "-c", "echo one; sleep 1; echo two"]);
    assert_eq!(stand.run(&["logs", "-f", &id]).ok(), "one\ntwo\n");
}

#[test]
fn a_cancelled_job_stops_with_everything_it_started() {
    let stand = Stand::with_agent(&[]);
    let marker = stand.path("marker");
    let script = format!("(sleep 3; touch {0}) & sleep 60", marker.display());
    let id = stand.submit(&["--", "sh", "-c", &script]);
    stand.wait_for(&id, &["running"]);
    stand.run(&["cancel", &id]).ok();
    stand.wait_for(&id, &["cancelled"]);
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert!(!marker.exists(), "a child of the job went on");
    // A waiting job is taken back at once.
    let id = stand.submit(&["--hold", "--", "true"]);
    assert_eq!(stand.job(&id)["state"], "pending");
    stand.run(&["cancel", &id]).ok();
    assert_eq!(stand.job(&id)["state"], "cancelled");
}

#[test]
fn a_job_that_fails_is_tried_again_as_often_as_it_may() {
    let stand = Stand::with_agent(&[]);
    let tries = stand.path("tries");
    let script = format!("echo x >> {0}; test $(wc -l < {0}) -ge 3", tries.display());
    let id = stand.submit(&["--retries", "5", "--", "sh", "-c", &script]);
    let job = stand.wait_for(&id, &["completed", "failed"]);
    assert_eq!((job["state"].as_str(), job["attempt"].as_u64()), (Some("completed"), Some(3)), "{job}");
    let id = stand.submit(&["--retries", "1", "--", "false"]);
    assert_eq!(stand.wait_for(&id, &["failed"])["attempt"], 2);
}

#[test]
fn a_job_sees_its_own_environment_and_nobody_elses() {
    let stand = Stand::with_agent(&[]);
    let said = stand.run(&["submit", "--wait", "--env", "COLOUR=blue", "--", "env"]);
    let out = said.ok();
    assert!(out.contains("COLOUR=blue"), "{out}");
    assert!(out.contains("LANDFALL_JOB_ID=1") && out.contains("LANDFALL_NODE_ID=n1"), "{out}");
    for secret in ["LANDFALL_TOKEN", "LANDFALL_SERVER", "LANDFALL_CONFIG", "lf_"] {
        assert!(!out.contains(secret), "{secret} reached the job: {out}");
    }
}

#[test]
fn a_job_that_takes_too_long_is_stopped() {
    let stand = Stand::with_agent(&[]);
    let id = stand.submit(&["--timeout", "1s", "--", "sleep", "60"]);
    let job = stand.wait_for(&id, &["failed", "completed"]);
    assert_eq!(job["state"], "failed", "{job}");
}

#[test]
fn a_job_that_waits_can_say_why_and_a_plan_says_where() {
    let stand = Stand::with_agent(&["--cpus", "2"]);
    let id = stand.submit(&["--cpu", "64", "--", "true"]);
    let explained = stand.json(&["explain", &id]);
    assert!(explained.to_string().contains("cpu_short"), "{explained}");
    let shown = stand.run(&["explain", &id]).ok();
    assert!(shown.contains("needs 64 cores; the only node has 2 cores [no_node, cpu_short]"), "{shown}");
    let planned = stand.run(&["plan", "--", "true"]).ok();
    assert!(planned.contains("n1"), "{planned}");
}

#[test]
fn a_module_runs_where_the_program_for_it_is_beside_the_agent() {
    let beside = Path::new(env!("CARGO_BIN_EXE_landfall")).with_file_name("landfall-wasm");
    assert!(
        beside.is_file(),
        "build landfall-wasm first: `cargo build -p landfall-wasm`, or test the --workspace"
    );
    let stand = Stand::with_agent(&[]);
    // The smallest module that a job can be: it exports `_start`, which does nothing.
    let module =
        b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0\x0a\x04\x01\x02\0\x0b";
    std::fs::write(stand.path("nothing.wasm"), module).unwrap();
    let path = stand.path("nothing.wasm").display().to_string();
    stand.run(&["submit", "--wait", "--runtime", "wasm", "--module", &path]).ok();
    let said = stand.run(&["submit", "--wait", "--runtime", "wasm", "--module", "/nowhere.wasm"]);
    assert!(format!("{}{}", said.out, said.err).contains("/nowhere.wasm"), "{}", said.err);
    assert_ne!(said.code, 0);
}

#[test]
fn where_the_program_for_modules_is_missing_the_job_waits_and_says_what_to_install() {
    // A link, since a copy could not be started while another test forks; so in the build directory.
    let alone = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let binary = alone.path().join("landfall");
    std::fs::hard_link(env!("CARGO_BIN_EXE_landfall"), &binary).unwrap();
    let mut stand = Stand::new();
    stand.agent_alone("n1", &binary);
    assert!(
        stand.log("n1").contains("landfall-wasm is not installed beside landfall"),
        "{}",
        stand.log("n1")
    );
    let id = stand.submit(&["--runtime", "wasm", "--module", "/any.wasm"]);
    let explained = stand.run(&["explain", &id]).ok();
    assert!(explained.contains("runtime_missing") && explained.contains("landfall-wasm"), "{explained}");
}
