//! Jobs that wait for others.

use crate::stand::{Stand, refused};

#[test]
fn jobs_follow_what_they_depend_on() {
    let stand = Stand::with_agent(&["--cpus", "4"]);
    let order = stand.path("order");
    let file = format!(
        r#"
[[jobs]]
key = "fetch"
run.command = ["sh", "-c", "echo fetch >> {0}"]
[[jobs]]
key = "left"
depends_on = [{{ on = "fetch" }}]
run.command = ["sh", "-c", "sleep 0.2; echo side >> {0}"]
[[jobs]]
key = "right"
depends_on = [{{ on = "fetch" }}]
run.command = ["sh", "-c", "echo side >> {0}"]
[[jobs]]
key = "join"
depends_on = [{{ on = "left" }}, {{ on = "right" }}]
run.command = ["sh", "-c", "echo join >> {0}"]
[[jobs]]
key = "sorry"
depends_on = [{{ on = "join", kind = "failure" }}]
run.command = ["sh", "-c", "echo sorry >> {0}"]
"#,
        order.display()
    );
    std::fs::write(stand.path("dag.toml"), file).unwrap();
    let answer = stand.json(&["submit", "--file", "dag.toml"]);
    let id = |key: &str| {
        let jobs = answer["jobs"].as_array().unwrap();
        jobs.iter().find(|job| job["key"] == key).unwrap()["id"].as_str().unwrap().to_owned()
    };
    stand.wait_for(&id("join"), &["completed"]);
    stand.wait_for(&id("sorry"), &["cancelled"]);
    assert_eq!(std::fs::read_to_string(order).unwrap(), "fetch\nside\nside\njoin\n");
    // A job may depend on what ended before it came.
    let after = stand.submit(&["--depends-on", &id("join"), "--", "true"]);
    stand.wait_for(&after, &["completed"]);
}

#[test]
fn what_depends_on_a_failure_never_runs() {
    let stand = Stand::with_agent(&[]);
    let first = stand.submit(&["--hold", "--", "false"]);
    let second = stand.submit(&["--depends-on", &first, "--", "true"]);
    let rescue = stand.submit(&["--depends-on", &format!("{first}:failure"), "--", "true"]);
    stand.run(&["release", &first]).ok();
    stand.wait_for(&rescue, &["completed"]);
    let job = stand.wait_for(&second, &["cancelled"]);
    assert_eq!(job["reason"], "dependency_unsatisfiable", "{job}");
}

#[test]
fn a_dag_is_looked_at_and_taken_back_as_one() {
    let stand = Stand::with_agent(&["--cpus", "4"]);
    let file = r#"
[[jobs]]
key = "fetch"
run.command = ["true"]
[[jobs]]
key = "build"
depends_on = [{ on = "fetch" }]
run.command = ["sh", "-c", "exit 3"]
[[jobs]]
key = "report"
depends_on = [{ on = "build" }]
run.command = ["true"]
[[jobs]]
key = "sorry"
depends_on = [{ on = "build", kind = "failure" }]
run.command = ["true"]
[[jobs]]
key = "serve"
depends_on = [{ on = "fetch" }]
run.command = ["sleep", "1000"]
[[jobs]]
key = "after"
depends_on = [{ on = "serve", kind = "any" }]
run.command = ["true"]
"#;
    std::fs::write(stand.path("dag.toml"), file).unwrap();
    let answer = stand.json(&["submit", "--file", "dag.toml"]);
    let id = |key: &str| {
        let jobs = answer["jobs"].as_array().unwrap();
        jobs.iter().find(|job| job["key"] == key).unwrap()["id"].as_str().unwrap().to_owned()
    };
    let dag = answer["dag"].as_str().unwrap();
    assert_eq!(dag, id("fetch"));
    stand.wait_for(&id("sorry"), &["completed"]);
    stand.wait_for(&id("report"), &["cancelled"]);
    stand.wait_for(&id("serve"), &["running"]);
    // The id of any of its jobs will do, ended or not.
    let shown = stand.json(&["dag", &id("report")]);
    assert_eq!((&shown["id"], &shown["state"]), (&dag.into(), &"running".into()), "{shown}");
    let counts = |shown: &serde_json::Value| {
        ["total", "pending", "running", "completed", "failed", "cancelled"]
            .map(|name| shown[name].as_u64().unwrap())
    };
    assert_eq!((counts(&shown), &shown["failing"]), ([6, 1, 1, 2, 1, 1], &true.into()), "{shown}");
    let of =
        |key: &str| shown["jobs"].as_array().unwrap().iter().find(|job| job["key"] == key).unwrap().clone();
    assert_eq!((&of("build")["exit_code"], &of("build")["state"]), (&3.into(), &"failed".into()));
    assert_eq!(of("after")["waits_for"], serde_json::json!([id("serve")]));
    assert_eq!(of("build")["depends_on"][0]["on"], id("fetch"));
    let page = stand.run(&["dag", dag]).ok();
    assert!(page.contains("running, failing") && page.contains("exit code 3"), "{page}");
    assert!(page.contains(&format!("waits for {}", id("serve"))), "{page}");
    // Another one joins, and an array.
    let late = stand.submit(&["--dag", &id("serve"), "--hold", "--", "true"]);
    let array = stand.submit(&["--dag", dag, "--array", "1-3", "--depends-on", &id("serve"), "--", "true"]);
    let shown = stand.json(&["dag", &late]);
    assert_eq!(counts(&shown)[..2], [8, 3], "{shown}");
    let array =
        shown["jobs"].as_array().unwrap().iter().find(|job| job["id"] == array.as_str()).unwrap().clone();
    assert_eq!((&array["elements"], &array["state"]), (&3.into(), &"pending".into()), "{array}");
    assert_eq!(stand.job(&late)["dag"]["id"], dag);
    // All that has not ended is taken back at once: nobody starts because another one is gone.
    let gone = stand.json(&["dags", "cancel", &late]);
    assert_eq!((&gone["cancelled"], &gone["ended"]), (&4.into(), &4.into()), "{gone}");
    stand.wait_for(&id("serve"), &["cancelled"]);
    let shown = stand.json(&["dag", dag]);
    assert_eq!((counts(&shown), &shown["state"]), ([8, 0, 0, 2, 1, 5], &"failed".into()), "{shown}");
    assert_eq!(stand.job(&id("after"))["started_at_ms"], serde_json::Value::Null);
    let listed = stand.json(&["dags"]);
    assert_eq!((&listed["dags"][0]["id"], &listed["dags"][0]["total"]), (&dag.into(), &8.into()), "{listed}");
    let nothing = stand.run(&["dags", "cancel", dag]);
    assert!(
        nothing.code != 0 && nothing.out.contains("nothing to take back; 8 had ended"),
        "{}",
        nothing.out
    );
    // One that was submitted alone is none.
    let alone = stand.submit(&["--", "true"]);
    refused(&stand.run(&["dag", &alone]), &["there is no dag", "landfall dags"]);
    refused(&stand.run(&["submit", "--dag", "999", "--", "true"]), &["there is no DAG `999`"]);
}

#[test]
fn what_is_submitted_in_parts_is_one_dag() {
    let stand = Stand::with_agent(&["--cpus", "4"]);
    let file = r#"
[[jobs]]
key = "sweep"
array = "1-3"
run.command = ["true"]
[[jobs]]
key = "sum"
depends_on = [{ on = "sweep" }]
run.command = ["true"]
[[jobs]]
key = "sorry"
depends_on = [{ on = "sum", kind = "failure" }]
run.command = ["true"]
"#;
    std::fs::write(stand.path("sweep.toml"), file).unwrap();
    let answer = stand.json(&["submit", "--file", "sweep.toml"]);
    let dag = answer["dag"].as_str().unwrap();
    let mut shown = serde_json::Value::Null;
    stand.until("all of it has ended", || {
        shown = stand.json(&["dag", dag]);
        shown["state"] != "running" && shown["state"] != "pending"
    });
    assert_eq!((&shown["state"], &shown["completed"]), (&"completed".into(), &2.into()), "{shown}");
    assert_eq!(shown["unneeded"], 1, "{shown}");
}

#[test]
fn what_did_not_complete_of_a_dag_is_run_again_in_its_order() {
    let stand = Stand::with_agent(&["--cpus", "4"]);
    let file = r#"
[[jobs]]
key = "fetch"
run.command = ["sh", "-c", "echo fetch >> ran"]
[[jobs]]
key = "build"
depends_on = [{ on = "fetch" }]
run.command = ["sh", "-c", "echo build >> ran; test -e fixed"]
[[jobs]]
key = "check"
array = "1-3"
depends_on = [{ on = "build" }]
run.command = ["sh", "-c", "echo check >> ran"]
[[jobs]]
key = "sorry"
depends_on = [{ on = "build", kind = "failure" }]
run.command = ["sh", "-c", "echo sorry >> ran"]
"#;
    std::fs::write(stand.path("dag.toml"), file).unwrap();
    let said = stand.run(&["submit", "--file", "dag.toml", "--wait"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("`landfall dags retry 1` runs again what did not complete"), "{}", said.err);
    // What failed cannot be waited for, and that is said at once.
    refused(&stand.run(&["submit", "--depends-on", "2", "--", "true"]), &["ended as failed", "never start"]);
    stand.run(&["submit", "--depends-on", "1,2:any", "--wait", "--", "true"]).ok();
    std::fs::write(stand.path("fixed"), "").unwrap();
    let again = stand.json(&["dags", "retry", "2"]);
    let dag = again["dag"].as_str().unwrap_or_else(|| panic!("no DAG: {again}"));
    let waited = stand.run(&["wait", "--dag", dag]);
    assert_eq!(waited.code, 0, "whoever is there for a failure is not needed: {}", waited.err);
    assert!(waited.err.contains("it was there for a failure that did not happen"), "{}", waited.err);
    let shown = stand.json(&["dag", dag]);
    assert_eq!((&shown["state"], &shown["total"]), (&"completed".into(), &3.into()), "{shown}");
    let mut ran: Vec<String> =
        std::fs::read_to_string(stand.path("ran")).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(ran.remove(0), "fetch");
    ran.sort();
    assert_eq!(ran, ["build", "build", "check", "check", "check", "sorry"], "{shown}");
    refused(&stand.run(&["dags", "retry", dag]), &["has completed"]);
}
