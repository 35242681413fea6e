//! Settings as the reference lists them: each can be given in the file and in the environment, and is shown.

use std::collections::BTreeMap;

use crate::tool::Dir;

/// Every setting of the page: its name, its variable, and a value of its kind.
fn listed() -> Vec<(String, String, String)> {
    let page = std::fs::read_to_string("../../docs/reference/config.md");
    let samples = BTreeMap::from([
        ("text", "word"),
        ("path", "/nowhere"),
        ("URL", "http://127.0.0.1:9"),
        ("`HOST:PORT`", "127.0.0.1:9"),
        ("number", "77"),
        ("size", "77MiB"),
        ("span", "77s"),
        ("cores", "1.5"),
        ("switch", "true"),
        ("list", "1-2"),
    ]);
    let page = page.unwrap();
    let rows = page.lines().map(|line| line.split(" | ").collect::<Vec<_>>()).filter(|row| row.len() == 6);
    let rows =
        rows.filter_map(|row| Some((row[0].strip_prefix("| `")?.trim_end_matches('`'), row[1], row[3])));
    rows.map(|(key, env, kind)| (key.into(), env.trim_matches('`').into(), samples[kind].into())).collect()
}

#[test]
fn every_setting_of_the_page_is_taken_from_file_and_environment_and_shown() {
    let all = listed();
    assert!(all.len() > 30, "{}", all.len());
    let mut file = String::new();
    for (key, _, value) in &all {
        file +=
            &format!("{key} = {}\n", if value == "true" { value.clone() } else { format!("\"{value}\"") });
    }
    let dir = Dir::new().file("config.toml", &file);
    for from in ["file", "env"] {
        let mut command = dir.command(&["config", "show", "--json", "--config", "config.toml"]);
        if from == "env" {
            command.envs(all.iter().map(|(_, env, value)| (env, value)));
        }
        let ran = crate::tool::Ran::of(command.output().unwrap());
        assert_eq!(ran.code, 0, "{ran:?}");
        let shown = ran.json()["settings"].as_array().unwrap().clone();
        assert_eq!(shown.len(), all.len());
        for ((key, _, value), row) in all.iter().zip(&shown) {
            let value = if key == "client.token" { "(not shown)" } else { value };
            assert_eq!((row["key"].as_str(), row["value"].as_str()), (Some(key.as_str()), Some(value)));
            assert_eq!(row["from"].as_str(), Some(from), "{row}");
        }
    }
}
