//! `landfall plan`, and where a job stands in `landfall explain`.

use crate::tool::Dir;

/// One node of two GPUs, one of them taken for an hour; `small` fits, `wide` does not.
const LAB: &str = r#"
now_ms = 1000
[[pools]]
id = "lab"
policy = "bin-pack"
[[tenants]]
id = "team"
max_gpus = 1
[[nodes]]
id = "n1"
pool = "lab"
cpu_milli = "8 cores"
ram_mib = "32GiB"
gpus = [{ count = 2, vram_mib = "80GiB" }]
[[nodes.placements]]
job = "old"
gpus = [0]
vram_mib = "80GiB"
expected_duration_ms = "1h"
[[jobs]]
id = "small"
pool = "lab"
tenant = "team"
gpu_count = 1
vram_mib = "40GiB"
[[jobs]]
id = "wide"
pool = "lab"
gpu_count = 2
vram_mib = "40GiB"
"#;

/// A node like the one in [`LAB`].
const MORE: &str = r#"
[[nodes]]
id = "n2"
cpu_milli = "8 cores"
ram_mib = "32GiB"
gpus = [{ count = 2, vram_mib = "80GiB" }]
"#;

fn dir() -> Dir {
    Dir::new().file("s.toml", LAB).file("more.toml", MORE)
}

fn plan(dir: &Dir, args: &[&str]) -> crate::tool::Ran {
    dir.run(&[&["plan", "--scenario", "s.toml"], args].concat())
}

#[test]
fn a_job_that_would_start_ends_with_0_and_says_where() {
    let ran = plan(&dir(), &["--job", "small", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let json = ran.json();
    assert_eq!(json["schema"], "landfall.plan/1");
    assert_eq!(json["starts"][0]["job"], "small");
    assert_eq!(json["starts"][0]["nodes"][0]["node"], "n1");
    assert_eq!(json["starts"][0]["nodes"][0]["gpus"], serde_json::json!([1]));
    let text = plan(&dir(), &["--job", "small"]).stdout;
    assert!(text.contains("starts now: small") && text.contains("n1 gpu 1"), "{text}");
}

#[test]
fn a_job_that_would_wait_ends_with_1_and_says_until_when() {
    let ran = plan(&dir(), &["--job", "wide", "--json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let waiting = &ran.json()["waiting"][0];
    assert_eq!(waiting["job"], "wide");
    assert_eq!(waiting["explanation"]["reason"], "no_capacity_now");
    assert_eq!(waiting["estimate"]["precision"], "exact");
    // `old` ends after an hour; `small` started now and is expected to take as long.
    assert_eq!(waiting["estimate"]["planned_start_ms"], 3_601_000);
    let text = plan(&dir(), &["--job", "wide"]).stdout;
    assert!(text.contains("no_capacity_now") && text.contains("would help"), "{text}");
}

#[test]
fn both_together_are_one_question() {
    let ran = plan(&dir(), &["--job", "small", "--job", "wide", "--json"]);
    assert_eq!(ran.code, 1, "not all of them start");
    assert_eq!(ran.json()["jobs"], serde_json::json!(["small", "wide"]));
}

#[test]
fn nodes_go_and_come() {
    let lost = plan(&dir(), &["--lose", "n1", "--json"]);
    assert_eq!(lost.code, 0);
    let mut stopped: Vec<_> =
        lost.json()["stopped"].as_array().unwrap().iter().map(|s| s["job"].to_string()).collect();
    stopped.sort();
    assert_eq!(stopped, ["\"old\"", "\"small\""]);
    let added = plan(&dir(), &["--add-nodes", "more.toml", "--json"]);
    assert_eq!(added.json()["starts"][0]["job"], "wide");
}

#[test]
fn quotas_and_policies_change() {
    let less = plan(
        &dir().file("s.toml", LAB.replace("max_gpus = 1", "max_gpus = 0")),
        &["--quota", "team:gpus=4", "--json"],
    );
    // At submission a job that could never run under its quota is refused; in the queue it waits for another quota.
    assert_eq!(less.json()["starts"][0]["job"], "small");
    assert_eq!(plan(&dir(), &["--policy", "fgd"]).code, 0);
    plan(&dir(), &["--policy", "balanced"]).fails(2, &["made for batch pools", "policy list"]);
    plan(&dir(), &["--quota", "team=many"]).fails(2, &["is no quota", "TENANT:gpus=N"]);
    plan(&dir(), &["--quota", "tam=3"]).fails(10, &["there is no tenant `tam`", "did you mean `team`?"]);
}

#[test]
fn a_change_that_would_be_refused_ends_with_6() {
    let dir = dir().file("s.toml", LAB.replace("gpu_count = 1", "gpu_count = 2"));
    let ran = plan(&dir, &["--job", "small", "--json"]);
    assert_eq!(ran.code, 6, "{ran:?}");
    assert_eq!(ran.json()["refused"]["code"], "quota_gpus");
    let text = plan(&dir, &["--job", "small"]).stdout;
    assert!(text.contains("refused (quota_gpus)") && text.contains("would help"), "{text}");
}

#[test]
fn mistakes_have_hints() {
    plan(&dir(), &["--job", "smal"])
        .fails(10, &["there is no job `smal`", "did you mean `small`?", "s.toml"]);
    plan(&dir(), &["--lose", "n9"]).fails(10, &["there is no node `n9`"]);
    plan(&dir(), &["--job", "small", "--lose", "n1"]).fails(2, &["cannot be used with"]);
    let gang = dir().file("s.toml", LAB.replace("gpu_count = 2", "gpu_count = 2\nnodes = 2"));
    plan(&gang, &["--lose", "n1"]).fails(3, &["wants several nodes", "dispatch = \"batch\""]);
}

#[test]
fn without_a_change_it_shows_what_starts_by_itself() {
    let ran = plan(&dir(), &["--json"]);
    assert_eq!(ran.code, 0);
    assert_eq!(ran.json()["starts"][0]["job"], "small");
}

#[test]
fn explain_says_where_a_job_stands() {
    let dir = dir();
    let explain = |args: &[&str]| dir.run(&[&["explain", "--scenario", "s.toml"], args].concat());
    let json = explain(&["--job", "wide", "--json"]).json();
    let standing = &json["standing"];
    assert_eq!(standing["explanation"]["state"], "pending");
    assert_eq!(standing["explanation"]["queue"]["position"], 1);
    assert_eq!(standing["explanation"]["reason"], "no_capacity_now");
    assert_eq!(standing["estimate"]["planned_start_ms"], 3_601_000);
    let text = explain(&["--job", "wide"]).stdout;
    assert!(text.contains("wide waits in pool lab (push, policy bin-pack)"), "{text}");
    assert!(text.contains("place 1 of 1"), "{text}");
    let text = explain(&["--job", "small"]).stdout;
    assert!(text.contains("small starts now in pool lab"), "{text}");
}

#[test]
fn a_queue_that_cannot_be_shown_is_a_warning() {
    let gang = dir().file("s.toml", LAB.replace("gpu_count = 2", "gpu_count = 2\nnodes = 2"));
    let ran = gang.run(&["explain", "--scenario", "s.toml", "--job", "small"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("where the job stands cannot be told"), "{}", ran.stderr);
}
