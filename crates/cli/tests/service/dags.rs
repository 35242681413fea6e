//! Jobs that wait for others.

use crate::stand::Stand;

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
