//! Peers: servers that place work among themselves, each a process of its own on loopback.

use serde_json::Value;

use crate::stand::Stand;

const POOL: &str = "[[pools]]\nid = \"default\"\ndispatch = \"negotiate\"\n";

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

/// A peer that nobody invited yet.
fn first(settings: &str) -> Stand {
    Stand::with_config(&format!("[server]\nallow_hollow = true\n[peer]\n{settings}\n{POOL}"))
}

/// A peer that another one invited.
fn joined(by: &Stand, settings: &str) -> Stand {
    let invitation = text(&by.json(&["peer", "id"])["invitation"]);
    first(&format!("bootstrap = ['{invitation}']\n{settings}"))
}

fn id(stand: &Stand) -> String {
    text(&stand.json(&["peer", "id"])["id"])
}

/// Waits until a peer trusts another one and knows what it has.
fn until_known(here: &Stand, there: &str) {
    here.until("the other peer is known", || {
        let peers = here.json(&["peers", "list"]);
        let known =
            |peer: &Value| peer["id"] == there && peer["connected"] == true && peer["facts"].is_object();
        peers["peers"]
            .as_array()
            .is_some_and(|peers| peers.iter().any(|peer| known(peer) && peer["trust"] == 0.5))
    });
}

/// The value of a metric, whatever its labels; 0 if it is not there.
fn metric(stand: &Stand, name: &str) -> f64 {
    let page = stand.metrics();
    let lines =
        page.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

/// How often a job that writes a line when it begins has begun.
fn begun(path: &std::path::Path) -> usize {
    std::fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[test]
fn a_job_runs_on_another_peer_and_everything_comes_home() {
    let near = first("");
    let mut far = joined(&near, "");
    far.agent("n1", &[]);
    let (near_id, far_id) = (id(&near), id(&far));
    until_known(&near, &far_id);

    let said = near.run(&["submit", "--wait", "--", "sh", "-c", "echo to-out; echo to-err >&2; exit 3"]);
    assert_eq!(said.code, 3, "{} {}", said.out, said.err);
    assert!(said.out.contains("to-out") && said.err.contains("to-err"), "{} {}", said.out, said.err);
    let job = near.job("1");
    assert_eq!((&job["state"], &job["exit_code"]), (&"failed".into(), &3.into()), "{job}");
    assert_eq!(job["nodes"][0]["node"], far_id, "{job}");
    let hosted = &far.json(&["jobs", "--all"])["jobs"][0];
    assert_eq!(hosted["submitter"], format!("peer {near_id}"), "{hosted}");

    // With needs it is negotiated, and every offer is explained.
    let said = near.run(&[
        "submit",
        "--wait",
        "--cpu",
        "100m",
        "--memory",
        "64MiB",
        "--",
        "sh",
        "-c",
        "sleep 0.2; echo hello",
    ]);
    assert_eq!((said.code, said.out.contains("hello")), (0, true), "{} {}", said.out, said.err);
    let explained = near.json(&["explain", "2"]);
    let offer = &explained["placement"]["offers"][0];
    assert_eq!(
        (&offer["status"], &offer["peer"]),
        (&"won".into(), &Value::from(far_id.clone())),
        "{explained}"
    );
    let page = near.run(&["explain", "2"]).ok();
    assert!(page.contains("won") && page.contains("trust 0.200"), "{page}");
    let account = &near.json(&["peers", "show", &far_id])["account"];
    assert!(account["bought"] == 2 && account["spent"] == 1, "a failure costs nothing: {account}");

    // What no peer has room for says so.
    let said = near.run(&["submit", "--wait", "--cpu", "1000", "--", "true"]);
    assert_eq!(said.code, 6, "refused, as no profile is so large: {}", said.err);
    let said = near.run(&["submit", "--wait", "--cpu", "120", "--", "true"]);
    assert_eq!(said.code, 4, "{} {}", said.out, said.err);
    let page = near.run(&["explain", "3"]).ok();
    assert!(page.contains("does_not_fit"), "{page}");

    // A job that is cancelled at home ends there.
    let id = near.submit(&["--", "sleep", "600"]);
    near.wait_for(&id, &["running"]);
    near.run(&["cancel", &id]).ok();
    near.wait_for(&id, &["cancelled"]);
    far.until("it ends there", || {
        let jobs = far.json(&["jobs", "--all"]);
        jobs["jobs"].as_array().is_some_and(|jobs| jobs.iter().all(|job| job["ended_at_ms"].is_number()))
    });
    assert!(metric(&far, "landfall_placement_wins_total") >= 3.0, "{}", far.metrics());
    assert_eq!(metric(&near, "landfall_placement_wins_total"), 0.0);
}

#[test]
fn a_peer_alone_runs_its_own_jobs_and_their_output_and_exit_code_are_there() {
    let mut alone = first("");
    alone.agent("n1", &[]);
    let said = alone.run(&["submit", "--wait", "--", "sh", "-c", "echo at-home; exit 3"]);
    assert_eq!((said.code, said.out.contains("at-home")), (3, true), "{} {}", said.out, said.err);
    assert!(alone.run(&["logs", "1"]).ok().contains("at-home"));
}

#[test]
fn a_job_ends_once_though_either_server_is_killed() {
    let mut near = first("");
    let mut far = joined(&near, "");
    far.agent("n1", &[]);
    until_known(&near, &id(&far));
    let (marks, go) = (near.path("marks"), near.path("go"));
    let script = format!(
        "echo begun >> {}; while [ ! -e {} ]; do sleep 0.1; done; echo finished",
        marks.display(),
        go.display()
    );
    for who in ["arbiter", "winner"] {
        let _ = (std::fs::remove_file(&marks), std::fs::remove_file(&go));
        let job = near.submit(&["--", "sh", "-c", &script]);
        near.until("it has begun", || begun(&marks) == 1);
        let killed = if who == "arbiter" { &mut near } else { &mut far };
        killed.kill_server();
        killed.start_server();
        std::fs::write(near.path("go"), "").unwrap();
        let ended = near.wait_for(&job, &["completed", "failed"]);
        assert_eq!((&ended["state"], begun(&marks)), (&"completed".into(), 1), "{who}: {ended}");
        near.until("what it wrote is there", || near.run(&["logs", &job]).out.contains("finished"));
    }
}

/// The five nodes of the specification: name, trust, cores, memory.
const FIVE: [(&str, &str, &str, &str); 5] = [
    ("A", "0.9", "8", "16GiB"),
    ("B", "0.7", "4", "8GiB"),
    ("C", "0.5", "2", "4GiB"),
    ("D", "0.8", "8", "16GiB"),
    ("E", "0.2", "16", "32GiB"),
];

#[test]
fn five_peers_offer_and_the_best_wins() {
    let arbiter = first("settings = [\"runs_work=false\"]");
    let mut nodes = Vec::new();
    for (name, trust, cores, memory) in FIVE {
        let node = joined(&arbiter, "");
        let args = ["hollow", "--nodes", "1", "--cpus", cores, "--memory", memory, "--prefix", name];
        let time = if name == "D" { "1h" } else { "100ms" };
        let ghost = node.start("hollow", node.command(), &[&args[..], &["--task-time", time]].concat());
        let own = id(&node);
        until_known(&arbiter, &own);
        arbiter.run(&["peers", "trust", &own, trust]).ok();
        node.run(&["peers", "trust", &own, trust]).ok();
        nodes.push((node, own, ghost));
    }
    let (loaded, ..) = &nodes[3];
    for cores in ["500m", "8"] {
        for _ in 0..5 {
            loaded.submit(&["--placement", "local", "--cpu", cores, "--memory", "1GiB", "--", "true"]);
        }
    }
    loaded.until("five run and five wait", || {
        let pool = &loaded.json(&["pools", "list"])["pools"][0];
        pool["running"] == 5 && pool["pending"] == 5
    });
    const TIMES: u32 = 3;
    for round in 1..=TIMES {
        let args = ["--cpu", "2", "--memory", "4GiB", "--max-cost", "1000", "--", "true"];
        let job = arbiter.submit(&args);
        arbiter.wait_for(&job, &["completed"]);
        let offers = &arbiter.json(&["explain", &job])["placement"];
        let told: Vec<(String, String, f64)> = offers["offers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|offer| (text(&offer["peer"]), text(&offer["status"]), offer["score"].as_f64().unwrap()))
            .collect();
        let want = [(0, "won", 0.86), (1, "lost", 0.78), (2, "lost", 0.70), (3, "lost", 0.62625)];
        assert_eq!(told.len(), 4, "{offers}");
        for ((peer, status, score), (node, wanted, points)) in told.iter().zip(want) {
            assert_eq!((peer, status.as_str()), (&nodes[node].1, wanted), "round {round}: {offers}");
            assert!((score - points).abs() < 1e-6, "round {round}: {offers}");
        }
        let declined = &offers["declines"][0];
        assert_eq!(declined["peer"], nodes[4].1, "{offers}");
        assert_eq!(declined["reasons"], serde_json::json!(["self_trust"]), "{offers}");
    }
    let times = f64::from(TIMES);
    let counts = ["requests_received", "offers_sent", "wins", "losses", "declines"];
    for (place, (node, ..)) in nodes.iter().enumerate() {
        let want = match place {
            0 => [times, times, times, 0.0, 0.0],
            4 => [times, 0.0, 0.0, 0.0, times],
            _ => [times, times, 0.0, times, 0.0],
        };
        let of = || counts.map(|name| metric(node, &format!("landfall_placement_{name}_total")));
        node.until(&format!("node {place} has counted {want:?}"), || of() == want);
    }
    assert_eq!(metric(&arbiter, "landfall_placement_offers_received_total"), 4.0 * times);
    assert_eq!(metric(&arbiter, "landfall_placement_duration_seconds_count"), times);
}
