//! What a server has lived through is exported, and a replay makes the same decisions at the same instants.

use std::collections::BTreeMap;
use std::time::Duration;

use landfall_testkit::Rng;
use serde_json::Value;

use crate::stand::Stand;

/// Draws jobs, their needs, their lengths and the pauses between them.
const SEED: u64 = 13;
/// The beat of the batch pool: a start of the replay may be so much off.
const CYCLE_MS: i64 = 5000;

/// Workers of a busy machine get nothing under the usual policy until they are calm, so these are asked by another one.
const POOLS: &str = r#"
[[pools]]
id = "quick"
dispatch = "push"
[[pools]]
id = "hpc"
dispatch = "batch"
batch = { cycle_ms = 5000 }
[[pools]]
id = "ci"
dispatch = "pull"
policy = "simple"
"#;

/// Four nodes in three pools, two of them in groups; two tenants, one with a quota; a policy of the pool's own.
fn lab() -> Stand {
    let mut stand = Stand::with_config(POOLS);
    let policy =
        stand.run(&["policy", "show", "balanced"]).ok().replace("name = \"balanced\"", "name = \"mine\"");
    assert!(policy.contains("name = \"mine\""), "{policy}");
    std::fs::write(stand.path("mine.toml"), policy).unwrap();
    stand.run(&["pools", "set", "hpc", "--policy-file", "mine.toml"]).ok();
    stand.run(&["tenants", "set", "red", "--share", "0.6"]).ok();
    stand.run(&["tenants", "set", "blue", "--share", "0.4", "--max-nodes", "1"]).ok();
    for (node, pool, group) in
        [("quick-1", "quick", ""), ("hpc-1", "hpc", "rack1"), ("hpc-2", "hpc", "rack2"), ("ci-1", "ci", "")]
    {
        let config = if group.is_empty() { String::new() } else { format!("[agent]\ngroup = \"{group}\"\n") };
        std::fs::write(stand.path("config.toml"), config).unwrap();
        stand.agent(node, &["--pool", pool, "--cpus", "2", "--memory", "2GiB"]);
    }
    stand
}

/// Jobs of both tenants in all pools; some wait for others, one is an array, one fails twice, one is cancelled, and a node
/// is drained while they come. Gives their ids when all are over.
fn live(stand: &Stand) -> Vec<String> {
    let mut draws = Rng::new(SEED);
    let mut ids: Vec<(String, &str)> = Vec::new();
    let mut cancelled = None;
    for number in 0..20 {
        let pool = draws.choose(&["quick", "quick", "hpc", "hpc", "ci"]);
        let tenant = draws.choose(&["red", "blue"]);
        let cpus = draws.within(1, 2).to_string();
        let length = format!("0.{}", draws.within(200, 900));
        let mut args =
            vec!["--pool", pool, "--tenant", tenant, "--cpu", &cpus, "--memory", "64MiB", "--walltime", "2m"];
        let earlier = ids.iter().rev().find(|(_, of)| *of == tenant).filter(|_| draws.chance(40));
        let on = earlier.map(|(id, _)| format!("{id}:any"));
        if let Some(on) = &on {
            args.extend(["--depends-on", on]);
        }
        match number {
            5 => args.extend(["--array", "1-6", "--", "sleep", &length]),
            8 => args.extend(["--retries", "1", "--", "sh", "-c", "sleep 0.3; exit 3"]),
            11 => args.extend(["--", "sleep", "60"]),
            _ => args.extend(["--", "sleep", &length]),
        }
        let id = stand.submit(&args);
        match number {
            7 => drop(stand.run(&["drain", "hpc-2"]).ok()),
            11 => cancelled = Some(id.clone()),
            14 => drop(stand.run(&["return", "hpc-2"]).ok()),
            16 => drop(stand.run(&["cancel", cancelled.as_ref().unwrap()]).ok()),
            _ => {}
        }
        ids.push((id, tenant));
        std::thread::sleep(Duration::from_millis(draws.within(0, 150)));
    }
    for (place, (id, _)) in ids.iter().enumerate() {
        stand.until(&format!("job {id} is over"), || {
            let job = stand.job(id);
            let ended = ["completed", "failed", "cancelled"];
            match place {
                5 => ended.iter().map(|state| job[state].as_u64().unwrap_or(0)).sum::<u64>() == 6,
                _ => ended.iter().any(|state| job["state"] == *state),
            }
        });
    }
    ids.into_iter().map(|(id, _)| id).collect()
}

/// When each attempt of each job was decided and where, in order.
type Starts = Vec<(i64, (String, usize), Vec<String>)>;

fn starts<'a>(decisions: impl Iterator<Item = &'a Value>, node: impl Fn(&Value) -> &Value) -> Starts {
    let mut attempts: BTreeMap<String, usize> = BTreeMap::new();
    decisions
        .map(|decision| {
            let job = decision["job"].as_str().unwrap().to_owned();
            let attempt = attempts.entry(job.clone()).or_default();
            *attempt += 1;
            let nodes = decision["nodes"].as_array().unwrap().iter();
            let nodes = nodes.map(|one| node(one).as_str().unwrap().to_owned()).collect();
            (decision["at_ms"].as_i64().unwrap(), (job, *attempt), nodes)
        })
        .collect()
}

#[test]
fn a_replay_of_an_export_starts_the_same_jobs_in_the_same_order_within_a_cycle() {
    let stand = lab();
    let ids = live(&stand);
    let written = stand.json(&["trace", "export", "--out", "live.jsonl"]);
    assert_eq!((written["jobs"].as_u64(), written["nodes"].as_u64()), (Some(25), Some(4)), "{written}");
    assert_eq!(written["dropped"], serde_json::json!({}), "{written}");

    let info = stand.json(&["trace", "info", "live.jsonl"]);
    let contents = &info["contents"];
    let pools: Vec<&str> =
        contents["pools"].as_array().unwrap().iter().map(|pool| pool["id"].as_str().unwrap()).collect();
    assert_eq!(pools, ["ci", "hpc", "quick"], "{info}");
    assert_eq!(
        (&contents["pools"][1]["policy_file"], &contents["groups"]),
        (&true.into(), &2.into()),
        "{info}"
    );
    for (what, least) in
        [("tenants", 2), ("fingerprints", 1), ("arrays", 1), ("elements", 6), ("dependencies", 1)]
    {
        assert!(contents[what].as_u64() >= Some(least), "{what}: {info}");
    }

    let token = std::fs::read_to_string(stand.data().join("token")).unwrap();
    let live = stand.get(&token, "/decisions?limit=1000");
    let mut live = starts(live["items"].as_array().unwrap().iter().rev(), |node| &node["node"]);
    let origin = ids.iter().map(|id| stand.job(id)["submitted_at_ms"].as_i64().unwrap()).min().unwrap();
    live.iter_mut().for_each(|(at, ..)| *at -= origin);

    let replayed = stand.json(&["replay", "live.jsonl", "--out", "out"]);
    let decisions = std::fs::read_to_string(stand.path("out/decisions.jsonl")).unwrap();
    let decisions: Vec<Value> = decisions.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let again = starts(decisions.iter(), |node| node);
    compare(&live, &again, &replayed);
}

/// Every start is there again, within a cycle, and none of two that were more than a cycle apart overtook the other.
fn compare(live: &Starts, again: &Starts, replayed: &Value) {
    let when: BTreeMap<&(String, usize), i64> = again.iter().map(|(at, job, _)| (job, *at)).collect();
    let table = || {
        let rows = live
            .iter()
            .map(|(at, job, nodes)| format!("{job:?} {nodes:?} live {at} again {:?}\n", when.get(job)));
        rows.collect::<String>()
    };
    println!("seed {SEED}\n{}", table());
    assert_eq!(live.len(), again.len(), "seed {SEED}, {replayed}\n{}", table());
    for (at, job, _) in live {
        let off = when.get(job).map(|again| (again - at).abs());
        assert!(off.is_some_and(|off| off <= CYCLE_MS), "seed {SEED}: {job:?} is {off:?} off\n{}", table());
    }
    for (earlier, first, _) in live {
        for (later, second, _) in live.iter().filter(|(later, ..)| *later > earlier + CYCLE_MS) {
            let kept = when[first] < when[second];
            assert!(
                kept,
                "seed {SEED}: {first:?} at {earlier} and {second:?} at {later} changed places\n{}",
                table()
            );
        }
    }
}
