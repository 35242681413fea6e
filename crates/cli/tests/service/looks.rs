//! What people look at: lists of jobs from rows, who waits for whom, the queue under two policies, and what would have been.

use serde_json::{Value, json};

use crate::stand::Stand;

const POOLS: &str =
    "[[pools]]\nid = \"push\"\ndispatch = \"push\"\n[[pools]]\nid = \"hpc\"\ndispatch = \"batch\"\n";

fn token(stand: &Stand) -> String {
    std::fs::read_to_string(stand.data().join("token")).unwrap()
}

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect()
}

#[test]
fn lists_show_what_was_just_told_and_survive_a_restart() {
    let mut stand = Stand::with_config(POOLS);
    stand.agent("a", &["--pool", "push", "--cpus", "2"]);
    let token = token(&stand);
    let done = stand.submit(&["--pool", "push", "--name", "over", "--", "true"]);
    stand.wait_for(&done, &["completed"]);
    let waits = ["--pool", "hpc", "--need", "wait_for_capacity=true"];
    let big = stand.submit(&[&waits[..], &["--name", "Wide", "--", "true"]].concat());
    let array = stand.submit(&["--pool", "push", "--hold", "--array", "1-5", "--", "true"]);
    let held = stand.submit(&["--pool", "push", "--hold", "--", "true"]);
    let all = [held.as_str(), &array, &big, &done];
    let list = |stand: &Stand, query: &str| stand.get(&token, &format!("/jobs?{query}"));
    // Every answer shows what was acknowledged before it was asked for.
    assert_eq!(ids(&list(&stand, "")), all);
    stand.end_server();
    stand.start_server();
    assert_eq!(ids(&list(&stand, "")), all, "after a restart");
    assert_eq!(list(&stand, &format!("search={}", "wide"))["items"][0]["id"], big.as_str());
    assert_eq!(list(&stand, "state=pending&pool=push")["items"][1]["elements"], 5);
    assert_eq!(ids(&list(&stand, "state=ended")), [done.as_str()]);
    let first = list(&stand, "limit=2");
    assert_eq!(ids(&first), all[..2]);
    let next = list(&stand, &format!("limit=2&cursor={}", first["next"].as_str().unwrap()));
    assert_eq!((ids(&next), &next["next"]), (all[2..].to_vec(), &Value::Null));
    stand.run(&["cancel", &array]).ok();
    stand.run(&["release", &held]).ok();
    stand.wait_for(&held, &["completed"]);
    assert_eq!(ids(&list(&stand, "state=live")), [big.as_str()]);
    let status = stand.get(&token, "/status");
    assert_eq!(
        (&status["jobs"]["pending"], &status["jobs"]["completed"]),
        (&1.into(), &2.into()),
        "{status}"
    );
    let pools = stand.get(&token, "/pools");
    let hpc = pools.as_array().unwrap().iter().find(|pool| pool["id"] == "hpc").unwrap();
    assert_eq!((&hpc["pending"], &hpc["running"]), (&1.into(), &0.into()), "{hpc}");
}

#[test]
fn a_graph_shows_who_waits_for_whom_in_both_directions() {
    let stand = Stand::with_config(POOLS);
    let token = token(&stand);
    let job = |more: &[&str]| stand.submit(&[&["--pool", "push"], more, &["--", "true"]].concat());
    let first = job(&["--hold"]);
    let (left, right) = (job(&["--depends-on", &first]), job(&["--depends-on", &format!("{first}:any")]));
    let last = job(&["--depends-on", &left, "--depends-on", &right]);
    let alone = job(&[]);
    for asked in [&first, &right, &last] {
        let graph = stand.get(&token, &format!("/jobs/{asked}/graph"));
        assert_eq!(graph["jobs"][0]["id"], asked.as_str());
        let mut edges: Vec<(&str, &str, &str)> = graph["edges"]
            .as_array()
            .unwrap()
            .iter()
            .map(|edge| {
                (edge["on"].as_str().unwrap(), edge["job"].as_str().unwrap(), edge["kind"].as_str().unwrap())
            })
            .collect();
        edges.sort_unstable();
        let wanted = [
            (first.as_str(), left.as_str(), "success"),
            (&first, &right, "any"),
            (&left, &last, "success"),
            (&right, &last, "success"),
        ];
        assert_eq!(edges, wanted, "{graph}");
    }
    assert_eq!(stand.get(&token, &format!("/jobs/{alone}/graph"))["edges"], json!([]));
}

#[test]
fn a_stretch_of_the_journal_is_replayed_and_its_report_can_do_nothing() {
    let mut stand = Stand::with_config(POOLS);
    stand.agent("a", &["--pool", "push", "--cpus", "2"]);
    let token = token(&stand);
    // One is over before the stretch, one runs when it begins, the others come within it.
    stand.wait_for(&stand.submit(&["--pool", "push", "--", "true"]), &["completed"]);
    let under_way = stand.submit(&["--pool", "push", "--cpu", "1", "--", "sleep", "600"]);
    let started = stand.wait_for(&under_way, &["running"])["started_at_ms"].as_u64().unwrap();
    let within: Vec<String> =
        (0..3).map(|_| stand.submit(&["--pool", "push", "--cpu", "1", "--", "true"])).collect();
    for id in &within {
        stand.wait_for(id, &["completed"]);
    }
    let since = started + 1;
    let asked = json!({"since_ms": since, "pool": "push", "policies": ["balanced-fit"]});
    let (status, wrong) = stand.says(&token, "POST", "/replays", &[], Some(&asked));
    assert_eq!((status, &wrong["field"]), (422, &"policies".into()), "{wrong}");
    let asked = json!({"since_ms": since, "pool": "push", "policies": ["bin-pack"]});
    let begun = stand.post(&token, "/replays", &asked);
    assert_eq!(
        (&begun["state"], &begun["policies"]),
        (&"running".into(), &json!(["own", "bin-pack"])),
        "{begun}"
    );
    let path = format!("/replays/{}", begun["id"]);
    let mut last = Value::Null;
    stand.until("the replay is over", || {
        last = stand.get(&token, &path);
        last["state"] != "running"
    });
    assert_eq!(last["state"], "done", "{last}");
    let trace = stand.data().join("replays").join(begun["id"].to_string()).join("trace.jsonl.gz");
    let info = stand.json(&["trace", "info", trace.to_str().unwrap()]);
    assert_eq!(info["jobs"]["jobs"], 4, "the one that was over is not in it: {info}");
    let (status, page) = stand.page(&token, &format!("/api/v1{path}/report"));
    assert_eq!(status, 200);
    let policy = page.iter().find(|(name, _)| name == "content-security-policy").unwrap();
    assert!(policy.1.starts_with("sandbox; default-src 'none'"), "{policy:?}");
    // What is over can be removed, and is gone then.
    assert_eq!(stand.says(&token, "DELETE", &path, &[], None).0, 200);
    assert_eq!(stand.says(&token, "GET", &path, &[], None).0, 404);
    // The same from the command line, and a stretch without jobs.
    let data = stand.data().display().to_string();
    let since = since.to_string();
    let compare =
        ["compare", "--journal", &data, "--pool", "push", "--policy", "own", "--policy", "bin-pack"];
    stand.run(&[&compare[..], &["--since", &since, "--out", "report"]].concat()).ok();
    assert!(stand.path("report/report.html").exists() && stand.path("report/trace.jsonl.gz").exists());
    let said = stand.run(&[&compare[..], &["--until", "1000", "--out", "none"]].concat());
    assert!(said.code == 2 && said.err.contains("there are no jobs in that stretch"), "{}", said.err);
    stand.run(&["cancel", &under_way]).ok();
}

#[test]
fn two_policies_are_compared_on_the_present_queue_and_nodes_may_be_added_to_a_plan() {
    let mut stand = Stand::with_config(POOLS);
    stand.agent("h", &["--pool", "hpc", "--cpus", "2"]);
    let token = token(&stand);
    let blocker = stand.submit(&["--pool", "hpc", "--walltime", "1h", "--", "sleep", "600"]);
    stand.wait_for(&blocker, &["running"]);
    let long = stand.submit(&["--pool", "hpc", "--walltime", "10h", "--name", "long", "--", "true"]);
    let short = stand.submit(&["--pool", "hpc", "--walltime", "1m", "--", "true"]);
    let ranks = stand.get(&token, "/pools/hpc/ranks?other=hpc-batch");
    assert_eq!(ranks["waiting"], 2, "{ranks}");
    let mut known: Vec<&str> =
        ranks["jobs"].as_array().unwrap().iter().map(|job| job["job"].as_str().unwrap()).collect();
    known.sort_unstable();
    assert_eq!(known, [long.as_str(), &short]);
    let places: Vec<u64> =
        ranks["jobs"].as_array().unwrap().iter().map(|job| job["one"]["rank"].as_u64().unwrap()).collect();
    assert_eq!(places.iter().sum::<u64>(), 3, "{ranks}");
    assert_eq!(stand.says(&token, "GET", "/pools/hpc/ranks?other=nonsense", &[], None).0, 404);
    let added = json!({"add": [{"id": "new", "pool": "hpc", "cpu_milli": 8000, "ram_mib": 8192}]});
    let plan = stand.post(&token, "/plan", &added);
    assert!(
        plan["starts"].as_array().unwrap().iter().any(|start| start["nodes"][0]["node"] == "new"),
        "{plan}"
    );
    // A job file as it is, in TOML or JSON, with one job or several.
    let file =
        "name = \"pasted\"\n[needs]\npool = \"hpc\"\nwalltime_ms = \"1h\"\n[run]\ncommand = [\"true\"]\n";
    let plan = stand.post(&token, "/plan", &json!({ "file": file }));
    assert_eq!(plan["submitted"][0]["name"], "pasted", "{plan}");
    let several = json!({"jobs": [{"key": "a", "needs": {"pool": "hpc"}, "run": {"command": ["true"]}},
        {"depends_on": [{"on": "a"}], "needs": {"pool": "hpc"}, "run": {"command": ["true"]}}]});
    let plan = stand.post(&token, "/plan", &json!({ "file": several.to_string() }));
    assert_eq!(plan["submitted"].as_array().map(Vec::len), Some(2), "{plan}");
    let wrong = json!({ "file": "name = \"x\"\nneds = 1\n" });
    let (status, said) = stand.says(&token, "POST", "/plan", &[], Some(&wrong));
    assert_eq!((status, &said["field"]), (422, &"file".into()), "{said}");
    assert!(said["message"].as_str().unwrap().contains("line 2"), "{said}");
    let known = json!({"add": [{"id": "h", "pool": "hpc", "cpu_milli": 8000, "ram_mib": 8192}]});
    let (status, wrong) = stand.says(&token, "POST", "/plan", &[], Some(&known));
    assert_eq!((status, &wrong["message"]), (422, &"there is a node `h` already".into()), "{wrong}");
    stand.run(&["cancel", &blocker]).ok();
}

#[test]
fn people_see_who_lent_what_to_whom_and_what_happened_to_a_job_and_a_node() {
    let pools = format!(
        "{POOLS}[pools.loans]\nlend_max_fraction = 1.0\n[[pools]]\nid = \"lab\"\ndispatch = \"batch\"\n"
    );
    let mut stand = Stand::with_config(&pools);
    stand.agent("h", &["--pool", "hpc", "--cpus", "2"]);
    let token = token(&stand);
    assert_eq!(stand.get(&token, "/loans"), json!([]));
    let waits = ["--pool", "lab", "--walltime", "1h", "--need", "wait_for_capacity=true"];
    let job = stand.submit(&[&waits[..], &["--", "sleep", "600"]].concat());
    stand.wait_for(&job, &["running"]);
    let lent = json!([{ "node": "h", "from": "hpc", "to": "lab", "gpus": 0, "jobs": [job], "tenants": [] }]);
    stand.until("the loan is told", || stand.get(&token, "/loans") == lent);
    let table = stand.run(&["nodes"]).ok();
    assert!(table.contains("LENT TO") || table.contains("lent to"), "{table}");
    assert!(!table.to_lowercase().contains("group"), "no node is in one: {table}");
    stand.run(&["cancel", &job]).ok();
    stand.wait_for(&job, &["cancelled"]);
    stand.until("nothing is lent any more", || stand.get(&token, "/loans") == json!([]));
    let table = stand.run(&["nodes"]).ok();
    assert!(!table.to_lowercase().contains("lent"), "{table}");

    let told = |path: &str| {
        let life = stand.get(&token, path);
        let mut steps: Vec<(String, String)> = Vec::new();
        for step in life["items"].as_array().unwrap() {
            steps.push((step["kind"].as_str().unwrap().into(), step["text"].as_str().unwrap().into()));
        }
        (steps, life)
    };
    let (steps, life) = told(&format!("/jobs/{job}/life"));
    let step = |kind: &str, text: &str| (kind.to_owned(), text.to_owned());
    assert_eq!(steps[0], step("ended", "it was taken back: somebody asked for it"), "{life}");
    assert_eq!(steps.last(), Some(&step("submitted", "it was submitted")), "{life}");
    assert!(steps.contains(&step("started", "it runs on all its nodes")), "{life}");
    let placed = life["items"].as_array().unwrap().iter().find(|step| step["kind"] == "committed").unwrap();
    assert_eq!(placed["nodes"], json!(["h"]), "{life}");
    stand.run(&["drain", "h", "--reason", "a fan is loud"]).ok();
    let (steps, life) = told("/nodes/h/life?limit=500");
    assert!(steps.contains(&step("maintenance", "it was taken out of service: a fan is loud")), "{life}");
    assert!(
        steps.iter().any(|(kind, text)| kind == "node_moved" && text.starts_with("it is drain")),
        "{life}"
    );
    let lent = life["items"].as_array().unwrap().iter().find(|step| step["kind"] == "lent").unwrap();
    assert_eq!(
        (&lent["job"], &lent["text"]),
        (&json!(job), &"pool hpc lent it to another one".into()),
        "{life}"
    );
    // Other tenants learn what happened, but not to whose job.
    stand.run(&["tenants", "set", "vision"]).ok();
    let made =
        stand.post(&token, "/tokens", &json!({ "name": "ana", "role": "submitter", "tenant": "vision" }));
    let ana = made["secret"].as_str().unwrap();
    let life = stand.get(ana, "/nodes/h/life");
    let lent = life["items"].as_array().unwrap().iter().find(|step| step["kind"] == "lent").unwrap();
    assert_eq!(lent["job"], Value::Null, "{life}");
    assert_eq!(stand.says(ana, "GET", &format!("/jobs/{job}/life"), &[], None).0, 404);
    assert_eq!(stand.says(&token, "GET", "/nodes/nobody/life", &[], None).0, 404);
}
