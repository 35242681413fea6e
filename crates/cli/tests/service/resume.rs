//! Nothing is pretended: a job goes on from a checkpoint only where there is one, and pools promise only what is done.

use std::process::Stdio;

use crate::stand::Stand;

/// Saves a number when asked; an attempt that goes on shows it, the third one ends in any case.
const SCRIPT: &str = "echo attempt $LANDFALL_ATTEMPT resume=${LANDFALL_RESUME:-0}; \
    trap 'echo five > $LANDFALL_CHECKPOINT_DIR/step; touch $LANDFALL_CHECKPOINT_DIR/done' USR1; \
    if [ ${LANDFALL_RESUME:-0} = 1 ]; then cat $LANDFALL_CHECKPOINT_DIR/step; exit; fi; \
    while [ $LANDFALL_ATTEMPT -lt 3 ]; do sleep 0.05; done";

fn suspended() -> (Stand, String) {
    let stand = Stand::with_agent(&["--cpus", "2"]);
    let id = stand.submit(&["--checkpoint", "manual", "--", "sh", "-c", SCRIPT]);
    stand.until("it is up", || stand.run(&["logs", &id]).out.contains("attempt 1 resume=0"));
    stand.run(&["suspend", &id]).ok();
    stand.wait_for(&id, &["suspended"]);
    (stand, id)
}

#[test]
fn a_job_goes_on_where_it_saved_its_work() {
    let (stand, id) = suspended();
    stand.run(&["resume", &id]).ok();
    let job = stand.wait_for(&id, &["completed", "failed"]);
    assert_eq!((job["state"].as_str(), job.get("note")), (Some("completed"), None), "{job}");
    let said = stand.run(&["logs", &id]).ok();
    assert!(said.contains("attempt 2 resume=1\nfive"), "{said}");
}

#[test]
fn a_job_whose_checkpoint_is_elsewhere_starts_afresh_and_says_so() {
    let (mut stand, id) = suspended();
    stand.agent("n2", &["--cpus", "2"]);
    stand.run(&["drain", "n1"]).ok();
    stand.run(&["resume", &id]).ok();
    let job = stand.wait_for(&id, &["running"]);
    assert_eq!((job["nodes"][0]["node"].as_str(), job["attempt"].as_u64()), (Some("n2"), Some(2)), "{job}");
    assert_eq!(job["note"], "started afresh: its checkpoint is on n1");
    stand.until("it speaks", || stand.run(&["logs", &id]).out.contains("attempt 2 resume=0"));
    for words in [&["job", &id][..], &["explain", &id]] {
        let said = stand.run(words).ok();
        assert!(said.contains("afresh") && said.contains("its checkpoint is on n1"), "{said}");
    }
    stand.run(&["cancel", &id]).ok();
    stand.wait_for(&id, &["cancelled"]);
}

#[test]
fn a_job_that_comes_back_does_not_get_what_it_saved_there_long_ago() {
    let (mut stand, id) = suspended();
    stand.agent("n2", &["--cpus", "2"]);
    stand.run(&["drain", "n1"]).ok();
    stand.run(&["resume", &id]).ok();
    stand.until("it speaks", || stand.run(&["logs", &id]).out.contains("attempt 2 resume=0"));
    stand.run(&["suspend", &id]).ok();
    stand.wait_for(&id, &["suspended"]);
    stand.run(&["drain", "n2"]).ok();
    stand.run(&["return", "n1"]).ok();
    stand.run(&["resume", &id]).ok();
    let job = stand.wait_for(&id, &["completed", "failed"]);
    assert_eq!((job["state"].as_str(), job["attempt"].as_u64()), (Some("completed"), Some(3)), "{job}");
    let said = stand.run(&["logs", &id]).ok();
    assert!(said.contains("attempt 3 resume=0") && !said.contains("resume=1"), "{said}");
}

#[test]
fn pools_that_ask_for_what_nobody_does_are_refused() {
    let stand = Stand::new();
    for (file, reason) in [
        (
            "[[pools]]\nid = \"hpc\"\ndispatch = \"batch\"\n[pools.batch]\nstaging = true\n",
            "nothing can stage",
        ),
        (
            "[[pools]]\nid = \"a\"\ndispatch = \"negotiate\"\n[[pools]]\nid = \"b\"\ndispatch = \"negotiate\"\n",
            "a server is one peer",
        ),
    ] {
        let path = stand.path("pools.toml");
        std::fs::write(&path, file).unwrap();
        let mut server = stand.command();
        server.env("LANDFALL_CONFIG", &path).env("LANDFALL_DATA_DIR", stand.path("other"));
        let said = server.args(["server", "--listen", "127.0.0.1:0"]).stdin(Stdio::null()).output().unwrap();
        let error = String::from_utf8_lossy(&said.stderr);
        assert!(!said.status.success() && error.contains(reason), "{error}");
    }
    let set = stand.run(&["pools", "set", "hpc", "--dispatch", "batch", "--set", "batch.staging=true"]);
    assert!(set.code != 0 && set.err.contains("nothing can stage inputs yet"), "{} {}", set.out, set.err);
}
