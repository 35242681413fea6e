//! `landfall policy` and which policy answers.

use crate::tool::{Dir, SCENARIO};

/// The names of the built-in policies.
fn built_in() -> Vec<String> {
    let json = Dir::new().run(&["policy", "list", "--json"]).json();
    assert_eq!(json["schema"], "landfall.policies/1");
    let policies = json["policies"].as_array().unwrap();
    policies.iter().map(|policy| policy["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_policy_is_built_in() {
    let push = ["fit", "bin-pack", "fgd", "first-fit", "best-fit", "dot-product", "gpu-packing"];
    let more =
        ["landfall-pack", "gpu-clustering", "random", "offer-standard", "offer-locality", "offer-scope"];
    let pull = ["simple", "resource-aware"];
    let batch = ["balanced", "hpc-batch", "ml-training", "service", "sensitive", "interactive"];
    let lite = ["service-lite", "interactive-lite"];
    let mut want = [&push[..], &more, &pull, &batch, &lite].concat();
    let mut found = built_in();
    want.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, want);
}

/// Every family of policies finds something to rank here: leases, tenants, peers, reports, regions and history.
const RICH: &str = include_str!("rich.toml");

#[test]
fn a_policy_that_was_shown_and_given_back_ranks_identically() {
    let dir = Dir::new().file("rich.toml", RICH);
    let situation: toml::Table = RICH.parse().unwrap();
    let ids = |list: &str| -> Vec<String> {
        let rows = situation[list].as_array().unwrap();
        rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    for name in built_in() {
        let file = format!("{name}.toml");
        let dir = dir.also(&file, dir.run(&["policy", "show", &name]).stdout);
        let mut admitted = 0;
        for (flag, id) in
            ids("jobs").iter().map(|id| ("--job", id)).chain(ids("nodes").iter().map(|id| ("--node", id)))
        {
            let ask = |how: [&str; 2]| {
                dir.run(&["rank", "--json", "--scenario", "rich.toml", flag, id, how[0], how[1]])
            };
            let (built_in, given) = (ask(["--policy", &name]), ask(["--policy-file", &file]));
            assert_eq!(built_in.code, given.code, "{name} {flag} {id}");
            let mut want = built_in.json();
            admitted +=
                want["candidates"].as_array().unwrap().iter().filter(|c| !c["total"].is_null()).count();
            assert_eq!(want["policy_from"], "argument");
            want["policy_from"] = "file".into();
            assert_eq!(given.json(), want, "{name} {flag} {id}");
        }
        assert!(admitted > 0, "{name} admits nothing, so the test shows nothing");
    }
}

#[test]
fn every_built_in_policy_is_a_valid_policy_file() {
    let dir = Dir::new();
    for name in built_in() {
        let shown = dir.run(&["policy", "show", &name]);
        assert_eq!(shown.code, 0, "{name}");
        let checked = dir.run_with_stdin(&["policy", "check", "-", "--json"], &shown.stdout);
        assert_eq!(checked.code, 0, "{name}: {checked:?}");
        assert_eq!(checked.json()["name"], name.as_str());
        assert_eq!(dir.run(&["policy", "show", &name, "--json"]).json()["name"], name.as_str());
    }
}

#[test]
fn a_check_sums_up_terms_and_weights() {
    let dir = Dir::with_files();
    let ran = dir.run(&["policy", "check", "p.toml"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    for part in ["valid: policy mine with 0 filters and 1 term", "MissingPathsRule", "2", "0 to 200 points"] {
        assert!(ran.stdout.contains(part), "{}", ran.stdout);
    }
    let json = dir.run(&["policy", "check", "p.toml", "--json"]).json();
    assert_eq!(json["terms"][0]["weight"], 2.0);
}

#[test]
fn a_policy_may_be_json() {
    let text = r#"{"name": "mine", "description": "d", "terms": [{"name": "MissingPathsRule"}]}"#;
    let dir = Dir::new().file("p.json", text).file("bad.json", text.replace("Paths", "Pahts"));
    assert_eq!(dir.run(&["policy", "check", "p.json"]).code, 0);
    dir.run(&["policy", "check", "bad.json"])
        .fails(3, &["--> bad.json:1:", "did you mean `MissingPathsRule`?"]);
}

#[test]
fn a_policy_without_terms_is_odd_but_valid() {
    let dir = Dir::new().file("p.toml", "name = \"x\"\ndescription = \"y\"\n");
    let ran = dir.run(&["policy", "check", "p.toml"]);
    assert_eq!(ran.code, 0);
    assert!(ran.stderr.contains("warning: the policy has no terms"), "{}", ran.stderr);
}

#[test]
fn the_catalogue_describes_every_part() {
    let json = Dir::new().run(&["policy", "terms", "--json"]).json();
    let terms = json["terms"].as_array().unwrap();
    assert!(terms.iter().any(|term| term["name"] == "MissingPathsRule"));
    for term in terms {
        assert!(term["description"].is_string() && term["range"].is_array() && term["class"].is_string());
    }
    let one = Dir::new().run(&["policy", "terms", "MissingPathsRule"]);
    for part in ["a term of the family pull", "soft", "0 to 200 points", "window_factor"] {
        assert!(one.stdout.contains(part), "{}", one.stdout);
    }
    let json = Dir::new().run(&["policy", "terms", "MissingPathsRule", "--json"]).json();
    assert_eq!(json["term"]["name"], "MissingPathsRule");
}

#[test]
fn the_scenario_changes_whichever_policy_is_used() {
    let scenario = format!("{SCENARIO}[policy.weights]\nMissingPathsRule = 0.5\n");
    let dir = Dir::with_files().file("o.toml", scenario);
    let rank = |file| {
        dir.run(&["rank", "--scenario", file, "--policy-file", "p.toml", "--job", "build", "--json"]).json()
    };
    assert_eq!(rank("s.toml")["candidates"][0]["terms"][0]["weight"], 2.0);
    assert_eq!(rank("o.toml")["candidates"][0]["terms"][0]["weight"], 0.5);
    assert_eq!(rank("o.toml")["policy_from"], "file");
}

#[test]
fn a_parameter_can_be_tried_without_a_file() {
    let dir = Dir::with_files();
    let rank = |param: &str| {
        dir.run(&[
            "rank",
            "--scenario",
            "s.toml",
            "--job",
            "build",
            "--policy",
            "fit",
            "--json",
            "--param",
            param,
        ])
    };
    let total = |param: &str| rank(param).json()["candidates"][0]["total"].clone();
    assert_eq!(total("container_speed_per_ratio=25.0"), total("slot_points=25"));
    assert_ne!(total("container_speed_per_ratio=1"), total("slot_points=25"));
    assert_eq!(rank("region_mode=tiebreak").json()["policy"], "fit");
    for (wrong, code) in
        [("region_mode=sideways", 2), ("no_such=1", 2), ("slot_points=nan", 2), ("slot_points", 2)]
    {
        assert_eq!(rank(wrong).code, code, "{wrong}");
    }
}

#[test]
fn an_unknown_policy_stops_a_job_but_not_a_node_that_asks_for_work() {
    let named = format!("{SCENARIO}[policy]\nname = \"no-such\"\n");
    let pooled = SCENARIO.replace("id = \"near\"", "id = \"near\"\npool = \"p\"");
    let pooled = format!("{pooled}[[pools]]\nid = \"p\"\npolicy = \"no-such\"\n");
    let dir = Dir::new().file("named.toml", named).file("pooled.toml", pooled);
    dir.run(&["rank", "--scenario", "named.toml", "--job", "build"])
        .fails(10, &["there is no policy `no-such`", "--> named.toml"]);
    for file in ["named.toml", "pooled.toml"] {
        let ran = dir.run(&["rank", "--scenario", file, "--node", "near"]);
        assert_eq!(ran.stderr, "warning: there is no policy `no-such`; using `resource-aware`\n");
        let heading = "policy resource-aware (instead of an unknown one)";
        assert!(ran.stdout.contains(heading), "{}", ran.stdout);
    }
}

#[test]
fn a_scenario_that_names_an_unknown_policy_is_odd_but_valid() {
    let text = "[policy]\nname = \"mine\"\n[[nodes]]\nid = \"a\"\n[[jobs]]\nid = \"j\"\n";
    let ran = Dir::new().file("s.toml", text).run(&["scenario", "check", "s.toml"]);
    assert_eq!(ran.code, 0);
    assert!(ran.stderr.contains("policy `mine`, which is not built in"), "{}", ran.stderr);
}
