//! `landfall rank` and `landfall explain`.

use crate::tool::{Dir, Ran, SCENARIO};

const ASK: [&str; 4] = ["--scenario", "s.toml", "--policy-file", "p.toml"];

fn run(dir: &Dir, args: &[&str]) -> Ran {
    dir.run(&[&args[..1], &ASK, &args[1..]].concat())
}

#[test]
fn nodes_are_ranked_for_a_job() {
    let ran = run(&Dir::with_files(), &["rank", "--job", "build"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(
        ran.stdout,
        "\
nodes for job build, policy mine (from --policy-file), t=1.000 s

                       Missing
rank  node    total  PathsRule
   1  near      360        360
   2  far 🚀    300        300

winner: near, 60 ahead of far 🚀; MissingPathsRule made the difference
"
    );
}

#[test]
fn jobs_are_ranked_for_a_node() {
    let json = run(&Dir::with_files(), &["rank", "--node", "near", "--json"]).json();
    assert_eq!(json["schema"], "landfall.rank/1");
    assert_eq!(json["direction"], "jobs_for_node");
    assert_eq!(json["winner"], "build");
    assert_eq!(json["margin"]["runner_up"], "docs");
    assert_eq!(json["margin"]["lead"], 360.0);
}

#[test]
fn long_tables_are_cut_and_say_so() {
    let scenario = SCENARIO
        .replace("id = \"near\"", "id = \"near\"\ncount = 30")
        .replace("node = \"near\"", "node = \"near-00\"");
    let dir = Dir::with_files().file("s.toml", scenario);
    let text = run(&dir, &["rank", "--job", "docs"]).stdout;
    assert!(text.contains("… and 11 more"), "{text}");
    let text = run(&dir, &["rank", "--job", "docs", "--limit", "3"]).stdout;
    assert!(text.contains("… and 28 more"), "{text}");
    assert!(!run(&dir, &["rank", "--job", "docs", "--limit", "all"]).stdout.contains('…'));

    let json = run(&dir, &["rank", "--job", "docs", "--json"]).json();
    assert_eq!((json["candidates"].as_array().unwrap().len(), &json["candidates_left_off"]), (31, &0.into()));
    let json = run(&dir, &["rank", "--job", "docs", "--json", "--limit", "2"]).json();
    assert_eq!((json["candidates"].as_array().unwrap().len(), &json["candidates_left_off"]), (2, &29.into()));
}

#[test]
fn a_floor_leaves_nothing_to_choose() {
    let scenario = format!("{SCENARIO}[policy.params]\ndispatch_floor = 1000.0\n");
    let dir = Dir::with_files().file("s.toml", scenario);
    let ran = run(&dir, &["rank", "--job", "build"]);
    assert_eq!(ran.code, 1);
    for part in ["decision: WAIT (below_floor)", "its total is below the policy's floor"] {
        assert!(ran.stdout.contains(part), "{}", ran.stdout);
    }
    let json = run(&dir, &["rank", "--job", "build", "--json"]).json();
    assert!(json["winner"].is_null());
    assert_eq!(json["candidates"][0]["barred"], "below_floor");
    let ran = run(&dir, &["explain", "--job", "build"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("nearest: near"), "{}", ran.stdout);
}

#[test]
fn nothing_to_rank_is_an_answer() {
    let dir = Dir::with_files().file("s.toml", "[[jobs]]\nid = \"build\"\n");
    let ran = run(&dir, &["rank", "--job", "build"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("decision: WAIT (no_node)"), "{}", ran.stdout);
    assert_eq!(run(&dir, &["explain", "--job", "build"]).code, 1);
}

#[test]
fn explain_says_why_a_node_won() {
    let dir = Dir::with_files();
    let text = run(&dir, &["explain", "--job", "build"]).stdout;
    for part in ["winner: near, 60 ahead of far 🚀", "raw", "near against far 🚀", "+60"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let json = run(&dir, &["explain", "--job", "build", "--json"]).json();
    assert_eq!(json["schema"], "landfall.explain/1");
    assert_eq!(json["outcome"], "chosen");
    assert_eq!(json["comparison"]["difference"], 60.0);
    assert_eq!(json["verdict"]["terms"][0]["raw"], 180.0);
}

#[test]
fn explain_says_why_a_node_did_not_win_and_what_would_help() {
    let dir = Dir::with_files();
    let ran = run(&dir, &["explain", "--job", "build", "--node", "far 🚀"]);
    assert_eq!(ran.code, 0, "another node was chosen");
    for part in [
        "not chosen: far 🚀",
        "place 2 of 2",
        "far 🚀 against near",
        "-60",
        "what would help: as much from MissingPathsRule",
    ] {
        assert!(ran.stdout.contains(part), "{part}\n{}", ran.stdout);
    }
    let json = run(&dir, &["explain", "--job", "build", "--node", "far 🚀", "--json"]).json();
    assert_eq!(json["outcome"], "not_chosen");
    assert_eq!(json["comparison"]["would_close"][0], "MissingPathsRule");
}

#[test]
fn explain_works_for_a_node_that_asks_for_work() {
    let dir = Dir::with_files();
    let json = run(&dir, &["explain", "--node", "near", "--json"]).json();
    assert_eq!((&json["direction"], &json["winner"]), (&"jobs_for_node".into(), &"build".into()));
    let json = run(&dir, &["explain", "--node", "near", "--job", "docs", "--pull", "--json"]).json();
    assert_eq!((&json["focus"], &json["outcome"]), (&"docs".into(), &"not_chosen".into()));
}

#[test]
fn scenarios_may_come_from_standard_input_in_either_format() {
    let dir = Dir::with_files();
    let ask = ["rank", "--scenario", "-", "--policy-file", "p.toml", "--job", "build", "--json"];
    assert_eq!(dir.run_with_stdin(&ask, SCENARIO).json()["winner"], "near");
    let json = r#" {"nodes": [{"id": "only"}], "jobs": [{"id": "build"}]}"#;
    assert_eq!(dir.run_with_stdin(&ask, json).json()["winner"], "only");
    dir.run_with_stdin(&["scenario", "check", "-"], "").fails(3, &["the file is empty", "--> <stdin>"]);
}

#[test]
fn a_scenario_is_counted() {
    let dir = Dir::with_files();
    let json = dir.run(&["scenario", "check", "s.toml", "--json"]).json();
    assert_eq!(json["schema"], "landfall.scenario/1");
    assert_eq!((&json["counts"]["nodes"], &json["counts"]["jobs"]), (&2.into(), &2.into()));
    assert_eq!(json["counts"]["reports"], 2);
    assert!(dir.run(&["scenario", "check", "s.toml"]).stdout.starts_with("valid: s.toml"));
}

#[test]
fn regions_are_shown_and_blamed_only_where_they_come_before_points() {
    let scenario = r#"
        [regions.north]
        adjacent = ["south"]
        [[nodes]]
        id = "near"
        region = "north"
        cpu_milli = "4 cores"
        [[nodes]]
        id = "far"
        region = "south"
        cpu_milli = "1 core"
        [[jobs]]
        id = "j"
        region = "north"
        cpu_milli = "1 core"
    "#;
    let tiebreak = format!("{scenario}\n[policy.params]\nregion_mode = \"tiebreak\"\n");
    let dir = Dir::new().file("tiered.toml", scenario).file("tiebreak.toml", tiebreak);
    let blame = "near is in a nearer region";
    for (file, counts) in [("tiered.toml", true), ("tiebreak.toml", false)] {
        let ranked = dir.run(&["rank", "--scenario", file, "--job", "j"]);
        assert_eq!(ranked.stdout.contains("region tier"), counts, "{}", ranked.stdout);
        let explained = dir.run(&["explain", "--scenario", file, "--job", "j", "--node", "far"]);
        assert!(explained.stdout.contains("not chosen: far"), "{}", explained.stdout);
        assert_eq!(explained.stdout.contains(blame), counts, "{}", explained.stdout);
    }
}
