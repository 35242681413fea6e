//! Bad input: a message that says what, where and what to do, and an exit code.

use crate::tool::{Dir, POLICY, SCENARIO};

/// Checks a scenario file and expects an error.
#[track_caller]
fn bad_scenario(text: impl AsRef<[u8]>, parts: &[&str]) {
    Dir::new().file("bad.toml", text).run(&["scenario", "check", "bad.toml"]).fails(3, parts);
}

/// Checks a policy file and expects an error.
#[track_caller]
fn bad_policy(text: &str, parts: &[&str]) {
    Dir::new().file("bad.toml", text).run(&["policy", "check", "bad.toml"]).fails(3, parts);
}

#[test]
fn malformed_files_have_a_position() {
    bad_scenario("now_ms = 1\n[[nodes]\nid = \"a\"\n", &["error: ", "--> bad.toml:2:"]);
    bad_policy("name = \"x\"\ndescription = \n", &["error: ", "--> bad.toml:2:"]);
    let json = Dir::new()
        .file("bad.json", "{\"now_ms\": 1,\n \"nodes\": [}")
        .run(&["scenario", "check", "bad.json"]);
    json.fails(3, &["--> bad.json:2:"]);
}

#[test]
fn unknown_fields_have_a_hint() {
    bad_scenario(
        "[[nodes]]\nid = \"a\"\ncpu_mili = 5\n",
        &["unknown field `cpu_mili`", "nodes[0]", "--> bad.toml:3:1", "hint: did you mean `cpu_milli`?"],
    );
    bad_policy(
        "name = \"x\"\ndescription = \"y\"\n[[terms]]\nname = \"MissingPathsRule\"\nwieght = 1\n",
        &["unknown field `wieght`", "--> bad.toml:5:1", "did you mean `weight`?"],
    );
}

#[test]
fn numbers_that_are_no_amounts_are_refused() {
    bad_scenario(
        "[[nodes]]\nid = \"a\"\ncpu_milli = -5\n",
        &["negative", "nodes[0].cpu_milli", "bad.toml:3:13"],
    );
    bad_scenario("[[nodes]]\nid = \"a\"\nram_mib = \"8GB\"\n", &["unknown unit `GB`", "bad.toml:3:11"]);
    bad_scenario("[[nodes]]\nid = \"a\"\nram_mib = 99999999999999\n", &["too large", "bad.toml:3:"]);
    bad_scenario("energy_price = nan\n", &["energy_price", "not a finite number", "bad.toml:1:"]);
}

#[test]
fn weights_must_be_finite() {
    let text = |weight: &str| POLICY.replace("weight = 2.0", &format!("weight = {weight}"));
    bad_policy(&text("nan"), &["terms[0].weight", "finite", "bad.toml:6:10"]);
    bad_policy(&text("1e300"), &["terms[0].weight", "bad.toml:6:10"]);
}

#[test]
fn unknown_terms_have_a_hint() {
    bad_policy(
        &POLICY.replace("MissingPathsRule", "MissingPathRule"),
        &["no term `MissingPathRule`", "terms[0].name", "bad.toml:5:8", "did you mean `MissingPathsRule`?"],
    );
}

#[test]
fn parameters_are_checked() {
    bad_policy(
        &format!("{POLICY}[terms.params]\nwindow_factor = -1\n"),
        &["terms[0].params.window_factor", "bad.toml:8:17"],
    );
    bad_policy(
        &format!("{POLICY}[terms.params]\nwindow_fcator = 1\n"),
        &["no parameter `window_fcator`", "did you mean `window_factor`?"],
    );
}

#[test]
fn names_that_stand_for_nothing_end_with_4() {
    let dir = Dir::with_files();
    let rank = |args: &[&str]| {
        dir.run(&[&["rank", "--scenario", "s.toml", "--policy-file", "p.toml"], args].concat())
    };
    rank(&["--job", "biuld"]).fails(10, &["there is no job `biuld`", "--> s.toml", "did you mean `build`?"]);
    rank(&["--node", "neer"]).fails(10, &["there is no node `neer`", "did you mean `near`?"]);
    let explain =
        ["explain", "--scenario", "s.toml", "--policy-file", "p.toml", "--job", "build", "--node", "fra"];
    dir.run(&explain).fails(10, &["there is no node `fra`"]);
    dir.run(&["policy", "show", "no-such"]).fails(10, &["there is no policy `no-such`", "hint: "]);
    let terms = dir.run(&["policy", "terms", "MissingPath"]);
    terms.fails(10, &["there is no term or filter `MissingPath`", "did you mean `MissingPathsRule`?"]);
    let rank = dir.run(&["rank", "--scenario", "s.toml", "--job", "build", "--policy", "no-such"]);
    rank.fails(10, &["there is no policy `no-such`"]);
}

#[test]
fn files_that_cannot_be_read_end_with_3() {
    let dir = Dir::new().file("empty.toml", " \n").file("latin.toml", b"x = 1\n# caf\xe9\n");
    dir.run(&["scenario", "check", "gone.toml"])
        .fails(3, &["cannot read gone.toml", "--> gone.toml", "hint: "]);
    dir.run(&["scenario", "check", "."]).fails(3, &["it is a directory"]);
    dir.run(&["scenario", "check", "empty.toml"]).fails(3, &["the file is empty", "--> empty.toml"]);
    dir.run(&["policy", "check", "empty.toml"]).fails(3, &["the file is empty"]);
    dir.run(&["scenario", "check", "latin.toml"]).fails(3, &["not UTF-8", "latin.toml:2:6"]);
}

#[test]
fn command_lines_that_make_no_sense_end_with_2() {
    let dir = Dir::with_files();
    dir.run(&["rank", "--scenario", "s.toml", "--job", "build", "--node", "near"])
        .fails(2, &["cannot be used with"]);
    dir.run(&["rank", "--scenario", "s.toml"]).fails(2, &["--job", "--node"]);
    // Without a file it is about the running server, and there is none.
    dir.run(&["rank", "--job", "build", "--server", "http://127.0.0.1:1"])
        .fails(7, &["cannot reach the server"]);
    dir.run(&["rank", "--scenario", "s.toml", "--job", "build", "--limit", "0"])
        .fails(2, &["from 1 up, or `all`"]);
    dir.run(&["gpu"]).fails(2, &["NAME"]);
    dir.run(&["gpu", "x", "--vram", "24GB"]).fails(2, &["unknown unit `GB`"]);
    dir.run(&["frobnicate"]).fails(2, &["frobnicate"]);
    dir.run(&["rank", "--scenario", "-", "--policy-file", "-", "--job", "x"]).fails(2, &["both"]);
}

#[test]
fn errors_of_overrides_point_into_the_scenario() {
    let with = |extra: &str| Dir::with_files().file("o.toml", format!("{SCENARIO}{extra}"));
    let rank = ["rank", "--scenario", "o.toml", "--policy-file", "p.toml", "--job", "build"];
    let line = SCENARIO.lines().count() + 2;
    let at = format!("--> o.toml:{line}:");
    with("[policy.weights]\nMissingPathRule = 3.0\n")
        .run(&rank)
        .fails(3, &["policy.weights.MissingPathRule", &at, "did you mean `MissingPathsRule`?"]);
    with("[policy.weights]\nMissingPathsRule = 1e300\n")
        .run(&rank)
        .fails(3, &["policy.weights.MissingPathsRule", &at, "finite"]);
    with("[policy.params]\nregion_mode = \"sideways\"\n")
        .run(&rank)
        .fails(3, &["policy.params.region_mode", &at, "tiebreak"]);
}

#[test]
fn errors_are_objects_for_programs() {
    let dir = Dir::new().file("bad.toml", "[[nodes]]\nid = \"a\"\ncpu_mili = 5\n");
    let ran = dir.run(&["scenario", "check", "bad.toml", "--json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (3, ""));
    let error = &ran.json()["error"];
    assert_eq!(error["code"], "invalid_file");
    assert_eq!(error["message"], "unknown field `cpu_mili`");
    assert_eq!(error["file"], "bad.toml");
    assert_eq!((&error["line"], &error["column"]), (&3.into(), &1.into()));
    assert_eq!(error["hint"], "did you mean `cpu_milli`?");
    assert!(error["field"].as_str().unwrap().starts_with("nodes[0]"));

    let ran = dir.run(&["rank", "--json"]);
    assert_eq!(ran.code, 2);
    assert_eq!(ran.json()["error"]["code"], "usage");
    let ran = dir.run(&["--json", "policy", "show", "no-such"]);
    assert_eq!(ran.code, 10);
    assert_eq!(ran.json()["error"]["code"], "not_found");
    assert!(ran.json()["error"]["line"].is_null());
}

#[test]
fn what_an_error_quotes_cannot_steer_the_terminal() {
    let ran = Dir::new().run(&["policy", "show", "\u{1b}[2J\u{202e}"]);
    assert_eq!(ran.code, 10);
    assert!(!ran.stderr.contains(['\u{1b}', '\u{202e}']), "{}", ran.stderr);
}
